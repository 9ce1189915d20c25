"""The thread that owns MLX, and threads that let go of it at exit."""
