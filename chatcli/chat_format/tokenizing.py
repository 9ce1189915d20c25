"""Incremental tokenizing: only text that changed since the last call is encoded again.

A tokenizer first splits text at control tokens and encodes the pieces between them independently. So a text
is a sequence of pieces that each begin with such a mark, and a piece that an earlier text had in the same
place keeps its tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, pairwise
from operator import itemgetter
from typing import Any

from chatcli.store.segments.token_path import common_prefix

# A noncharacter. The text on its two sides is tokenized separately; no tokenizer ever sees it.
SEAM = "\ufdd0"
# Characters that most tokenizers never merge with the next one, and a text to test that.
ANCHORS, PROBE = ("\n", "\x01", "\u2603"), "|"
# First characters of a message, of every kind that a tokenizer may merge with the text before.
FIRST_CHARACTERS = (*"aSéи日3!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "👍", "\u0301", "\u200b")
# At most this much of a text's end merges with the text after it.
END_CHARACTERS = 32
# How many ends are cached. Most templates have two: the headers of questions and of replies.
MAX_ENDS = 8


@dataclass(frozen=True)
class Encoded:
    """A text, its tokens, and the starts of its pieces in characters (`starts`) and tokens (`offsets`)."""

    text: str
    tokens: list[int]
    starts: list[int]
    offsets: list[int]

    def pieces(self, first: int, count: int) -> Iterator[tuple[str, list[int]]]:
        """At most `count` pieces from index `first`, each with its tokens."""
        starts = [*self.starts[first : first + count + 1], len(self.text)][: count + 1]
        offsets = [*self.offsets[first : first + count + 1], len(self.tokens)][: count + 1]
        for (start, end), (begin, stop) in zip(pairwise(starts), pairwise(offsets), strict=True):
            yield self.text[start:end], self.tokens[begin:stop]


class Encoder:
    """Encodes texts and caches the last two. Threads may share it."""

    def __init__(self, tokenizer: Any, control: Iterable[str]) -> None:
        """`control` are the control tokens to expect in a text. Those that split text are used."""
        self._tokenizer = tokenizer
        marks = cutting_marks(tokenizer, control)
        self._marks = re.compile("|".join(map(re.escape, marks)) or "(?!)")
        self._longest_mark = max(map(len, marks), default=0)
        self._ids = frozenset(marks.values())
        self._last = (Encoded("", [], [0], [0]),) * 2
        self._ends: dict[str, str] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids, identical to those of the whole text tokenized at once."""
        return self.encoded(text).tokens

    def encoded(self, text: str) -> Encoded:
        """Encode a text, reusing the longest prefix that it shares with one of the last two."""
        last = self._last
        for known in last:
            if known.text == text:
                return known
        shared, begun = max(((common_text([known.text, text]), known) for known in last), key=itemgetter(0))
        # The last piece whose opening mark is the same in both: text after a shared prefix may extend a mark.
        at = max(bisect_right(begun.starts, shared - self._longest_mark) - 1, 0)
        cut, offset = begun.starts[at], begun.offsets[at]
        starts = [match.start() for match in self._marks.finditer(text, cut)]
        starts = starts if starts[:1] == [cut] else [cut, *starts]
        pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
        tokens = self._encode_pieces(pieces, [(known, bisect_left(known.starts, cut)) for known in last])
        lengths = accumulate((len(tokens[piece]) for piece in pieces[:-1]), initial=offset)
        encoded = Encoded(
            text,
            [*begun.tokens[:offset], *chain.from_iterable(tokens[piece] for piece in pieces)],
            begun.starts[:at] + starts,
            [*begun.offsets[:at], *lengths],
        )
        self._last = (encoded, last[0])
        return encoded

    def shared(
        self, whole: Encoded, position: int, rests: Sequence[str], *, any_text_follows: bool = False
    ) -> int:
        """How many leading tokens texts share that begin with the first `position` characters of `whole`.

        `rests` are the rest of each text; they diverge at once. `any_text_follows`: other texts may continue
        with any character. The time does not depend on the length of `whole`.
        """
        # Start at the last mark before the position. The beginning of a text may have none.
        at = bisect_right(whole.starts, position) - 1
        while at > 0 and not self._marks.match(whole.text, whole.starts[at], position):
            at -= 1
        before = whole.text[whole.starts[at] : position]
        texts = [before + rest for rest in rests]
        # To the end of the first mark that is not at the beginning.
        followings = [(text, self._marks.search(text, 1)) for text in texts]
        tails = [self._tokenize(text[: mark.end()] if mark else text) for text, mark in followings]
        if _shared(tails) == min(map(len, tails)):
            # Different texts can have the same tokens, such as unknown characters.
            tails = [self._tokenize(text) for text in texts]
        if any_text_follows:
            tails.append(self._tokenize(before + self._merging(before[-END_CHARACTERS:])))
        return whole.offsets[at] + _shared(tails)

    def length(self, whole: Encoded, position: int, rest: str) -> int:
        """How many tokens the first `position` characters of `whole` and then `rest` have."""
        at = max(bisect_right(whole.starts, position - self._longest_mark) - 1, 0)
        return whole.offsets[at] + len(self._tokenize(whole.text[whole.starts[at] : position] + rest))

    def _merging(self, end: str) -> str:
        """The next character that changes the most tokens of a text with this end."""
        character = self._ends.get(end)
        if character is None:
            tokens = self._tokenize(end)
            kept = [common_prefix(tokens, self._tokenize(end + each)) for each in FIRST_CHARACTERS]
            character = FIRST_CHARACTERS[kept.index(min(kept))]
            self._ends = {**dict(list(self._ends.items())[1 - MAX_ENDS :]), end: character}
        return character

    def _encode_pieces(
        self, pieces: Sequence[str], places: Iterable[tuple[Encoded, int]]
    ) -> dict[str, list[int]]:
        """The tokens of adjacent pieces, reusing those of the encoded texts at these indexes."""
        known = {
            piece: tokens for encoded, first in places for piece, tokens in encoded.pieces(first, len(pieces))
        }
        fresh = [piece not in known for piece in pieces]
        for is_fresh, group in groupby(zip(fresh, pieces, strict=True), itemgetter(0)):
            if not is_fresh:
                continue
            # Adjacent pieces are tokenized in one call, and their tokens separated at the marks.
            run = [piece for _, piece in group]
            tokens = self._tokenize("".join(run))
            starts = [index for index, token in enumerate(tokens) if token in self._ids]
            if not self._marks.match(run[0]):
                starts.insert(0, 0)
            if len(starts) == len(run):
                ends = [*starts[1:], len(tokens)]
                known |= {piece: tokens[a:b] for piece, a, b in zip(run, starts, ends, strict=True)}
            else:
                known |= {piece: self._tokenize(piece) for piece in run}
        return known

    def _tokenize(self, text: str) -> list[int]:
        return _tokenize(self._tokenizer, text)


class Seams:
    """Inserts seams into control tokens that a text spells, so that a message cannot forge a turn."""

    def __init__(self, tokenizer: Any, control: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        any_of = "|".join(map(re.escape, control)) or "(?!)"
        # Matches a control token.
        self.spelled = re.compile(any_of)
        # Control tokens may overlap, so this matches every place where one begins.
        self._begins = re.compile(f"(?=({any_of}))(.)", re.DOTALL)
        # The ids of control tokens that a normalizer produces from other spellings, such as capitals.
        backend, names = getattr(tokenizer, "backend_tokenizer", None), frozenset(control)
        has_normalizer = backend is not None and backend.normalizer is not None
        added = tokenizer.added_tokens_decoder.items() if has_normalizer else ()
        self._disguised = {id_ for id_, token in added if token.normalized and str(token) in names}

    def safe(self, text: str, written: str = "") -> str:
        """`text` with seams wherever it spells a control token. Its tokens decode to the same text.

        Control tokens that the template itself has `written` in the same place are left alone.
        """
        text = text.replace(SEAM, "")
        if self.spelled.search(text):
            kept = set(self.spelled.findall(written))
            text = self._begins.sub(lambda begin: begin[2] if begin[1] in kept else f"{begin[2]}{SEAM}", text)
        if not written and self._disguised and self._disguised.intersection(_tokenize(self._tokenizer, text)):
            return SEAM.join(text)
        return text


def control_tokens(tokenizer: Any, written: str) -> list[str]:
    """A tokenizer's control tokens, longest first: special tokens, and added tokens in `written`.

    Other added tokens, such as runs of spaces, are ordinary text.
    """
    added = tokenizer.added_tokens_decoder.values()
    control = {str(token) for token in added if token.special or str(token) in written}
    return sorted((mark for mark in control if mark.strip()), key=len, reverse=True)


def cutting_marks(tokenizer: Any, control: Iterable[str]) -> dict[str, int]:
    """The control tokens at which text can be split before tokenizing, with their ids.

    The text before such a token does not affect the tokens after it, nor the reverse. Empty for a slow
    tokenizer.
    """
    if not getattr(tokenizer, "is_fast", False):
        return {}
    # The tokenizer splits at normalized tokens only later, between the others.
    first = [token for token in tokenizer.added_tokens_decoder.values() if not token.normalized]
    plain = {str(token) for token in first if not token.lstrip and not token.single_word}
    contents = [str(token) for token in first]
    unknown = getattr(tokenizer, "unk_token", None)
    marks: dict[str, int] = {}
    for mark in control:
        is_word = re.match(r"[\w\s]", mark) is not None
        # A token that overlaps the mark may win over it.
        is_sure = not is_word and not any(_overlaps(each, mark) for each in contents)
        if mark in plain and mark != unknown and is_sure:
            ids = tokenizer.encode(mark, add_special_tokens=False)
            if len(ids) == 1:
                marks[mark] = ids[0]
    return marks


def _overlaps(other: str, mark: str) -> bool:
    if other.startswith(mark) and other != mark:
        return True
    starts = (start for start in range(1, len(other)) if other[start] == mark[0])
    return any(other.startswith(mark, start) or mark.startswith(other[start:]) for start in starts)


def _shared(sequences: Sequence[list[int]]) -> int:
    first, *others = sequences
    return min(common_prefix(first, other) for other in others)


def common_text(texts: Sequence[str]) -> int:
    """The length of the texts' longest common prefix, in characters."""
    first, *others = texts
    low, high = 0, min(map(len, texts))
    while low < high:
        middle = (low + high + 1) // 2
        if all(first[low:middle] == other[low:middle] for other in others):
            low = middle
        else:
            high = middle - 1
    return low


def _tokenize(tokenizer: Any, text: str) -> list[int]:
    first, *rest = text.split(SEAM)
    tokens = list(tokenizer.encode(first, add_special_tokens=False))
    for piece in rest:
        tokens += _tokenize_after_text(tokenizer, piece)
    return tokens


def _tokenize_after_text(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text that has other text before it.

    Sentencepiece adds a space before the first word of its input, so the input starts with a character that
    merges with nothing, and that character's tokens are removed.
    """
    if not text:
        return []
    tokens = list(tokenizer.encode(text, add_special_tokens=False))
    for anchor in ANCHORS:
        before = list(tokenizer.encode(anchor, add_special_tokens=False))
        probe = list(tokenizer.encode(f"{anchor}{PROBE}", add_special_tokens=False))
        alone = list(tokenizer.encode(PROBE, add_special_tokens=False))
        if probe[: len(before)] != before or probe[len(before) :] == alone:
            continue  # they merge, or the tokenizer adds no space
        both = list(tokenizer.encode(f"{anchor}{text}", add_special_tokens=False))
        if both[: len(before)] == before:
            return both[len(before) :]
    return tokens
