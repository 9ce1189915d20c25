"""What is on disk: sessions and segments. FORMAT.md beside this file is the authority."""
