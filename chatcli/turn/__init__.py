"""What happens to a message: append, render, plan, restore, prefill, checkpoint, generate, persist."""
