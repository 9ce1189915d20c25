"""Conversations to and from other formats."""
