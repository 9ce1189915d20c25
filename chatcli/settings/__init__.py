"""Settings: their declarations, their values, and the config file."""
