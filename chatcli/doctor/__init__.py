"""Health checks: each looks at one thing and returns findings."""
