"""What a model writes: thinking, text and tool calls, told apart while it streams."""
