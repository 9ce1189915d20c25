"""Slash commands: handlers that return results, for any terminal and for none."""
