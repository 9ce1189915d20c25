"""Markdown of a reply that is still streaming."""
