"""mlx-lm's prompt caches: split into rows and state, joined, cut, forked, grown."""

from chatcli.kv import open_files

# Before any module of this room, or of one above it, imports mlx-lm.
open_files.import_mlx_lm()
open_files.raise_soft_limit()
