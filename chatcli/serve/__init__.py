"""An OpenAI- and Anthropic-compatible server over the checkpoints that the shell has."""
