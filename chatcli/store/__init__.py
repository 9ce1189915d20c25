"""Sessions and segments on disk. FORMAT.md beside this file defines both."""
