"""What is measured to keep chatcli honest, in a clone: `python -m benchmarks.NAME`."""
