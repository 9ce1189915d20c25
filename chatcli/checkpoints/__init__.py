"""Brings one live prompt cache to a token position: from memory, from disk, by the model."""
