"""Runs of the model, on the thread that owns MLX."""
