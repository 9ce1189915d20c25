"""The shell: what a person sees and types. Nothing below this package knows a terminal."""
