"""Measurements for developers, in a clone: `python -m benchmarks.NAME`."""
