"""The terminal: everything that is drawn or typed, with prompt_toolkit and rich."""
