"""An open conversation: its file, its model, and its background work."""
