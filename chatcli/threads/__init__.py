"""The thread that owns MLX, the scheduler of jobs and idle work, and threads that let go of both at exit."""
