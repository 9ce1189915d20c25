"""The tree of messages of one conversation, pure data."""
