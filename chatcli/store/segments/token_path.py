"""A prompt's tokens, divided into segments whose ids are hashes of everything up to their end.

A segment's id is a hash of its parent's id and its tokens, as in git's commits and vLLM's hashed prefix
blocks. So a conversation's path through the store follows from its tokens alone, and conversations with the
same beginning share segments without bookkeeping. The tokens between two boundaries are one segment, or
several if there are many: see `cuts`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from chatcli.store.segments import cuts

# The version of how ids are computed. A change would invalidate every checkpoint.
IDS_VERSION = 1


@dataclass(frozen=True)
class Segment:
    """Tokens [start, end) of a prompt, and the id of the checkpoint that they lead to.

    It ends at a boundary or, if `ends_at_cut`, at a cut. `keeps_state`: whether a state may be kept at its
    end, which is not so at every cut.
    """

    id: str
    parent: str
    start: int
    end: int
    ends_at_cut: bool = False
    keeps_state: bool = True


@dataclass(frozen=True)
class TokenPath:
    """Consecutive segments of a prompt, and all of the prompt's tokens.

    `root` is the parent of the first segment. There may be tokens after the last segment: this tail is run in
    every turn and never stored. A path's length is its number of segments, which is its depth in the tree.
    """

    root: str
    tokens: Sequence[int]
    segments: tuple[Segment, ...] = ()

    @classmethod
    def cut(
        cls,
        root: str,
        tokens: Sequence[int],
        boundaries: Sequence[int],
        known: TokenPath | None = None,
        distance: int = 0,
    ) -> TokenPath:
        """The path of `tokens` with these `boundaries` (increasing token positions).

        Longer segments are cut at every `distance` (0: never). Segments shared with `known` are taken from
        it, so that no hash is computed twice.
        """
        ends: list[tuple[int, bool, bool]] = []
        start = 0
        for boundary in boundaries:
            places = cuts.places(start, boundary, distance, tokens)
            for place in places:
                number, last = ((end - start) // distance for end in (place, places[-1]))
                ends.append((place, True, cuts.keeps_state(number, last)))
            ends.append((boundary, False, True))
            start = boundary
        ids: list[str] = []
        if known is not None and known.root == root:
            alike = common_prefix(known.tokens, tokens)
            pairs = takewhile(
                lambda pair: pair[0].end == pair[1][0] <= alike, zip(known.segments, ends, strict=False)
            )
            ids = [segment.id for segment, _ in pairs]
        segments: list[Segment] = []
        parent, start = root, 0
        for number, (end, ends_at_cut, keeps_state) in enumerate(ends):
            identifier = ids[number] if number < len(ids) else segment_id(parent, tokens[start:end])
            segments.append(Segment(identifier, parent, start, end, ends_at_cut, keeps_state))
            parent, start = identifier, end
        return cls(root, tokens, tuple(segments))

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __getitem__(self, index: int) -> Segment:
        return self.segments[index]

    def upto(self, depth: int) -> TokenPath:
        """The first `depth` segments."""
        return replace(self, segments=self.segments[:depth])

    def after(self, depth: int) -> TokenPath:
        """The path after the first `depth` segments."""
        return TokenPath(self.upto(depth).id, self.tokens, self.segments[depth:])

    @property
    def id(self) -> str:
        """The id of the checkpoint at the end of the path."""
        return self.segments[-1].id if self.segments else self.root

    @property
    def ids(self) -> list[str]:
        return [segment.id for segment in self.segments]

    @property
    def end(self) -> int:
        """The position at which the last segment ends."""
        return self.segments[-1].end if self.segments else 0

    @property
    def boundaries(self) -> list[int]:
        """The boundaries on the path: the ends of segments that are not cuts."""
        return [segment.end for segment in self.segments if not segment.ends_at_cut]

    @property
    def beginning(self) -> int:
        """The depth of the first boundary; the path's length if there is none."""
        depths = (number for number, segment in enumerate(self.segments, start=1) if not segment.ends_at_cut)
        return next(depths, len(self.segments))

    @property
    def last_start(self) -> int:
        """The depth at which the last long segment begins: the segments after it are its parts."""
        depth = max(len(self.segments) - 1, 0)
        while depth and self.segments[depth - 1].ends_at_cut:
            depth -= 1
        return depth

    @property
    def first_tokens(self) -> list[int]:
        """The tokens up to the first boundary."""
        first = self.segments[: self.beginning]
        return list(self.tokens[first[0].start : first[-1].end]) if first else []

    def tokens_of(self, segment: Segment) -> list[int]:
        return list(self.tokens[segment.start : segment.end])


def root_id(fingerprint: str) -> str:
    """The parent of every conversation's first segment, for this model and these cache settings."""
    return hashlib.sha256(f"chatcli:{IDS_VERSION}:{fingerprint}".encode()).hexdigest()


def segment_id(parent: str, tokens: Sequence[int]) -> str:
    """`sha256(parent ‖ number of tokens ‖ tokens as little-endian int64)`, in hexadecimal."""
    digest = hashlib.sha256(bytes.fromhex(parent))
    digest.update(len(tokens).to_bytes(8, "little"))
    digest.update(struct.pack(f"<{len(tokens)}q", *tokens))
    return digest.hexdigest()


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """How many leading tokens, or ids, two sequences share."""
    # Comparing two lists is much faster than comparing their items one by one.
    shared, differing = 0, min(len(left), len(right)) + 1
    while shared + 1 < differing:
        middle = (shared + differing) // 2
        if list(left[shared:middle]) == list(right[shared:middle]):
            shared = middle
        else:
            differing = middle
    return shared


def usable_boundaries(positions: Iterable[int], prompt_length: int, least: int = 1) -> list[int]:
    """The `positions` that can be boundaries: increasing, at least `least`, and before the prompt's end.

    One token must always remain to run, so the last possible boundary is `prompt_length - 1`. If two
    positions do not increase, the later one counts, because the earlier belongs to a prompt that continued
    differently.
    """
    kept: list[int] = []
    for position in reversed(list(positions)):
        if least <= position < (kept[-1] if kept else prompt_length):
            kept.append(position)
    return kept[::-1]
