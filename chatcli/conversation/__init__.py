"""The tree of messages of a conversation, as plain data."""
