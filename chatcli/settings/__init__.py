"""Settings: their values, and the config file that remembers them."""
