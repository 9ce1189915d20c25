"""A prompt's tokens, cut into segments that are named by hashes of what leads to them.

A segment's id is a hash of its parent's id and its tokens, as in git's commits and in vLLM's hashed
prefix blocks. So a conversation's path through the store follows from its tokens alone, and
conversations that begin alike share segments with no bookkeeping. What lies between two boundaries is
one segment, or several where it is long: see `cuts`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from chatcli.store.segments import cuts

# How ids are computed: a change would make every checkpoint another one.
IDS_VERSION = 1


@dataclass(frozen=True)
class Segment:
    """Tokens [start, end) of a prompt, and the id of the checkpoint that they lead to.

    It ends `on_the_way` to a boundary, or at one. `keeps_state`: not at every cut on the way there is a
    state.
    """

    id: str
    parent: str
    start: int
    end: int
    on_the_way: bool = False
    keeps_state: bool = True


@dataclass(frozen=True)
class TokenPath:
    """Consecutive segments of a prompt, and all of the prompt's tokens.

    `root` is the id that the first segment begins from. The tokens may go on after the last segment:
    that tail is run in every turn and never stored. A path's length is its number of segments, its
    depth in the tree.
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
        """The path that `boundaries` (token positions, increasing) cut `tokens` into.

        What is longer than `distance` (0: never) is cut on its way. What the path begins with as `known`
        does is taken from there: no hash is computed twice.
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
        for number, (end, on_the_way, keeps_state) in enumerate(ends):
            identifier = ids[number] if number < len(ids) else segment_id(parent, tokens[start:end])
            segments.append(Segment(identifier, parent, start, end, on_the_way, keeps_state))
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
        """What follows the first `depth` segments."""
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
        """The boundaries of the prompt that the path passes: the ends that are not on the way to one."""
        return [segment.end for segment in self.segments if not segment.on_the_way]

    @property
    def beginning(self) -> int:
        """The depth of the first boundary; all of the path if there is none."""
        depths = (number for number, segment in enumerate(self.segments, start=1) if not segment.on_the_way)
        return next(depths, len(self.segments))

    @property
    def last_start(self) -> int:
        """The depth at which the last long segment begins: what comes after it is on the way to its end."""
        depth = max(len(self.segments) - 1, 0)
        while depth and self.segments[depth - 1].on_the_way:
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
    """The id that every conversation with this model and these cache settings begins from."""
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
    """`positions` made increasing, at least `least` tokens from the start, and short of the prompt.

    One token must always remain to run, so no boundary lies beyond `prompt_length - 1`. Of two that do not
    increase the later one counts: the earlier is of a prompt that went on otherwise.
    """
    kept: list[int] = []
    for position in reversed(list(positions)):
        if least <= position < (kept[-1] if kept else prompt_length):
            kept.append(position)
    return kept[::-1]
