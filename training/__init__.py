"""What makes the models that chatcli ships; not part of the wheel."""
