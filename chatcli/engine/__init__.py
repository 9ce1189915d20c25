"""Runs of the model, on the thread that owns MLX."""

import chatcli.kv  # noqa: F401  mlx-lm's limit of open files
