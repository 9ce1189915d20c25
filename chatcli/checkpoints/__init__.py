"""Brings the live prompt cache to a token position: from memory, from disk, or by prefilling."""
