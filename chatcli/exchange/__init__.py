"""Exports and imports conversations."""
