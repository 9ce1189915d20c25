"""Session files: append-only transcripts, listings, search, images."""
