"""What differs between terminals, and what surrounds the program in one."""
