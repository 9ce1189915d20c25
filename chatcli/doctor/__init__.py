"""`chatcli doctor`: what a machine has, what is wrong there, and what to do about it."""
