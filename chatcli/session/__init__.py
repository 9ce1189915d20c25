"""An open conversation: its file, its model, and the work that runs in the background."""
