"""Measurements of workloads, against other ways to keep a prompt cache in the same run."""
