"""The steps of a turn: append, render, plan, restore, prefill, checkpoint, generate, persist."""
