"""Checkpoints on disk: segments of per-token rows, and states."""
