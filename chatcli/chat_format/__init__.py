"""Messages to tokens and back: chat templates, tokenization, thinking markers, stop texts."""
