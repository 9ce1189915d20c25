"""Measures workloads, and compares with other ways to keep a prompt cache in the same run."""
