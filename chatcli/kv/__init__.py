"""mlx-lm's prompt caches: split into rows and state, joined, cut, forked, grown."""
