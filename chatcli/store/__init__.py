"""What is on disk: sessions and segments. The format's authority is FORMAT.md beside this file."""

# How ids are computed: a change would make every checkpoint another one.
IDS_VERSION = 1
SEGMENT_FORMAT = "chatcli-segment"
SEGMENT_VERSION = "2"
