"""Parses model output into thinking, text and tool calls while it streams."""
