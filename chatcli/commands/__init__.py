"""Slash commands: they return results and know no terminal."""
