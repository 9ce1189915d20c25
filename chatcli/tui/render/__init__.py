"""Events and command results, as text on the screen or in a pipe."""
