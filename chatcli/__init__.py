"""The package's name and version; knows nothing else."""

__version__ = "0.2.0"
