"""What happens to a message: append, render, match, restore, prefill, checkpoint, generate, persist."""
