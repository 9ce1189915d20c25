"""The thread that owns MLX, the scheduler of jobs and idle work, and their end at exit."""
