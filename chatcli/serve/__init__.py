"""An OpenAI- and Anthropic-compatible HTTP server that shares the shell's checkpoints."""
