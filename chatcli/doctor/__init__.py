"""Health checks, each of one thing."""
