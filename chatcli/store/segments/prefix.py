"""Segment ids and prefix matching on integers; refuses to know MLX and the disk.

A segment's id is a hash of its parent's id and its tokens, as a git commit's is of its parent
and its tree, so a conversation's path through the store follows from its tokens alone.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# How ids are computed: a change would make every checkpoint another one.
IDS_VERSION = 1


@dataclass(frozen=True)
class Segment:
    """Tokens [start, end) of a prompt, and the id of the checkpoint that they lead to."""

    id: str
    parent: str
    start: int
    end: int


def root_id(fingerprint: str) -> str:
    """The id that every conversation with this model and these cache settings begins from."""
    return hashlib.sha256(f"chatcli:{IDS_VERSION}:{fingerprint}".encode()).hexdigest()


def segment_id(parent: str, tokens: Sequence[int], extra: str = "") -> str:
    """`sha256(parent ‖ number of tokens ‖ tokens as little-endian int64 ‖ extra)`, in hexadecimal."""
    digest = hashlib.sha256(bytes.fromhex(parent))
    digest.update(len(tokens).to_bytes(8, "little"))
    digest.update(struct.pack(f"<{len(tokens)}q", *tokens))
    digest.update(extra.encode())
    return digest.hexdigest()


def chain(root: str, prompt: Sequence[int], boundaries: Iterable[int]) -> list[Segment]:
    """The segments that `boundaries` (token positions, increasing) cut `prompt` into.

    The last boundary ends the last segment: what follows it is never stored.
    """
    segments: list[Segment] = []
    parent, start = root, 0
    for end in boundaries:
        identifier = segment_id(parent, prompt[start:end])
        segments.append(Segment(identifier, parent, start, end))
        parent, start = identifier, end
    return segments


def begins(segment: Segment, prompt: Sequence[int], tokens: Sequence[int]) -> bool:
    """Whether a segment of a prompt begins with these tokens."""
    return list(prompt[segment.start : segment.end][: len(tokens)]) == list(tokens)


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """How many leading tokens, or ids, two sequences share."""
    limit = min(len(left), len(right))
    if list(left[:limit]) == list(right[:limit]):
        return limit
    return next(i for i in range(limit) if left[i] != right[i])


def usable_boundaries(found: Iterable[int], prompt_length: int, least: int = 1) -> list[int]:
    """`found` made increasing, at least `least` tokens apart from the start, and short of the prompt.

    One token must always remain to run, so no boundary lies beyond `prompt_length - 1`.
    """
    kept: list[int] = []
    for position in found:
        if position >= (kept[-1] + 1 if kept else least) and position < prompt_length:
            kept.append(position)
    return kept
