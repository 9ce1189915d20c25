"""What is on disk: sessions and segments. The format's authority is FORMAT.md beside this file."""

FORMAT_VERSION = 1
