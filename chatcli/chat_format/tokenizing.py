"""Text to token ids, tokenizing only what is new.

A tokenizer first splits a text at its control tokens and encodes what lies between apart. So a text is
a sequence of pieces, each begun by such a mark, and those that another text had in the same place keep their
tokens.
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

# A noncharacter: the text on its two sides is tokenized apart. No tokenizer ever sees it.
SEAM = "\ufdd0"
# Characters that hardly any tokenizer merges with what follows, and a text to try that with.
ANCHORS, PROBE = ("\n", "\x01", "\u2603"), "|"
# First characters of a message, of every kind that a tokenizer may merge with what comes before.
FIRST_CHARACTERS = (*"aSéи日3!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "👍", "\u0301", "\u200b")
# How much of a text's end may merge with what follows.
END_CHARACTERS = 32
# How many ends are remembered. Most templates have two: a header for questions and one for replies.
MAX_ENDS = 8


@dataclass(frozen=True)
class Encoded:
    """A text and its tokens, and where its pieces begin: in characters, and in tokens."""

    text: str
    tokens: list[int]
    starts: list[int]
    offsets: list[int]

    def pieces(self, first: int, count: int) -> Iterator[tuple[str, list[int]]]:
        """So many pieces from the piece `first` on, each with its tokens."""
        starts = [*self.starts[first : first + count + 1], len(self.text)][: count + 1]
        offsets = [*self.offsets[first : first + count + 1], len(self.tokens)][: count + 1]
        for (start, end), (begin, stop) in zip(pairwise(starts), pairwise(offsets), strict=True):
            yield self.text[start:end], self.tokens[begin:stop]


class Encoder:
    """Encodes texts, remembering the last two; threads may share it."""

    def __init__(self, tokenizer: Any, control: Iterable[str]) -> None:
        """`control` are the control tokens to expect in a text, of which those that split it are used."""
        self._tokenizer = tokenizer
        marks = cutting_marks(tokenizer, control)
        self._marks = re.compile("|".join(map(re.escape, marks)) or "(?!)")
        self._longest_mark = max(map(len, marks), default=0)
        self._ids = frozenset(marks.values())
        self._last = (Encoded("", [], [0], [0]),) * 2
        self._ends: dict[str, str] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids, the same as those of the whole text tokenized at once."""
        return self.encoded(text).tokens

    def encoded(self, text: str) -> Encoded:
        """A text of which only what comes after the beginning of one of the last two is looked at."""
        last = self._last
        for known in last:
            if known.text == text:
                return known
        shared, begun = max(((_common(known.text, text), known) for known in last), key=itemgetter(0))
        # The last piece that begins alike in both. What comes later may make another mark of its beginning.
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

    def shared(self, texts: Sequence[str], *, before: str = "", any_text_follows: bool = False) -> int:
        """How many leading tokens all texts share, each of which follows `before`.

        `any_text_follows`: other texts may have any character where these diverge. Only the piece in which
        they diverge is tokenized for each of them.
        """
        first, common = self.encoded(before + texts[0]), len(before) + common_text(texts)
        rests = [text[common - len(before) :] for text in texts]
        return self.shared_from(first, common, rests, any_text_follows=any_text_follows)

    def shared_from(
        self, whole: Encoded, position: int, rests: Sequence[str], *, any_text_follows: bool = False
    ) -> int:
        """How many leading tokens texts share that part after the first `position` characters of `whole`.

        `rests` are what they go on with. This takes no longer for a long text than for a short one.
        """
        # From the last mark that lies before: at the text's beginning there may be none.
        at = bisect_right(whole.starts, position) - 1
        while at > 0 and not self._marks.match(whole.text, whole.starts[at], position):
            at -= 1
        before = whole.text[whole.starts[at] : position]
        texts = [before + rest for rest in rests]
        tails = [self._tokenize(self._first_piece(text)) for text in texts]
        if _shared(tails) == min(map(len, tails)):
            # Other text with the same tokens, such as unknown characters.
            tails = [self._tokenize(text) for text in texts]
        if any_text_follows:
            tails.append(self._tokenize(before + self._merging(before[-END_CHARACTERS:])))
        return whole.offsets[at] + _shared(tails)

    def length_from(self, whole: Encoded, position: int, rest: str) -> int:
        """How many tokens a text has that goes on with `rest` after `position` characters of `whole`."""
        at = max(bisect_right(whole.starts, position - self._longest_mark) - 1, 0)
        return whole.offsets[at] + len(self._tokenize(whole.text[whole.starts[at] : position] + rest))

    def _merging(self, end: str) -> str:
        """The next character that changes most tokens of a text with this end."""
        character = self._ends.get(end)
        if character is None:
            tokens = self._tokenize(end)
            kept = [common_prefix(tokens, self._tokenize(end + each)) for each in FIRST_CHARACTERS]
            character = FIRST_CHARACTERS[kept.index(min(kept))]
            self._ends = {**dict(list(self._ends.items())[1 - MAX_ENDS :]), end: character}
        return character

    def _first_piece(self, text: str) -> str:
        """To the end of the first mark that is not at the beginning."""
        following = self._marks.search(text, 1)
        return text[: following.end()] if following else text

    def _encode_pieces(
        self, pieces: Sequence[str], places: Iterable[tuple[Encoded, int]]
    ) -> dict[str, list[int]]:
        """The tokens of each of these adjacent pieces, which other texts may have at these places."""
        known = {
            piece: tokens for encoded, first in places for piece, tokens in encoded.pieces(first, len(pieces))
        }
        fresh = [piece not in known for piece in pieces]
        for new, run in groupby(zip(fresh, pieces, strict=True), itemgetter(0)):
            if new:
                known |= self._encode_run([piece for _, piece in run])
        return known

    def _encode_run(self, run: list[str]) -> dict[str, list[int]]:
        """The tokens of each of these adjacent pieces, tokenized in one go."""
        tokens = self._tokenize("".join(run))
        starts = [index for index, token in enumerate(tokens) if token in self._ids]
        if not self._marks.match(run[0]):
            starts.insert(0, 0)
        if len(starts) != len(run):
            return {piece: self._tokenize(piece) for piece in run}
        ends = [*starts[1:], len(tokens)]
        return {piece: tokens[a:b] for piece, a, b in zip(run, starts, ends, strict=True)}

    def _tokenize(self, text: str) -> list[int]:
        return _tokenize(self._tokenizer, text)


class Seams:
    """Puts seams into the control tokens that a text spells, so that a message cannot forge a turn."""

    def __init__(self, tokenizer: Any, control: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        any_of = "|".join(map(re.escape, control)) or "(?!)"
        # Matches a control token.
        self.spelled = re.compile(any_of)
        # They may overlap, so every place where one begins is matched.
        self._begins = re.compile(f"(?=({any_of}))(.)", re.DOTALL)
        self._disguised = _normalized(tokenizer, control)

    def sewn(self, text: str, written: str = "") -> str:
        """`text` with seams in it; its tokens spell the same text.

        Control tokens that the template has `written` in the same place stay what they are.
        """
        text = text.replace(SEAM, "")
        if self.spelled.search(text):
            kept = set(self.spelled.findall(written))
            text = self._begins.sub(lambda begin: begin[2] if begin[1] in kept else f"{begin[2]}{SEAM}", text)
        if not written and self._disguised and self._disguised.intersection(_tokenize(self._tokenizer, text)):
            return SEAM.join(text)
        return text


def _normalized(tokenizer: Any, control: Iterable[str]) -> frozenset[int]:
    """The ids of control tokens that a normalizer makes of other spellings, such as capital letters."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.normalizer is None:
        return frozenset()
    added = tokenizer.added_tokens_decoder.items()
    names = frozenset(control)
    return frozenset(id_ for id_, token in added if token.normalized and str(token) in names)


def control_tokens(tokenizer: Any, written: str) -> list[str]:
    """A tokenizer's control tokens: the special ones, and added ones that its template writes.

    Longest first. Other added tokens, such as runs of spaces, are ordinary text.
    """
    added = tokenizer.added_tokens_decoder.values()
    control = {str(token) for token in added if token.special or str(token) in written}
    return sorted((mark for mark in control if mark.strip()), key=len, reverse=True)


def cutting_marks(tokenizer: Any, control: Iterable[str]) -> dict[str, int]:
    """The control tokens before which any text can be split, with their ids; none for a slow tokenizer.

    What comes before and after such a token is tokenized as if the other were not there.
    """
    if not getattr(tokenizer, "is_fast", False):
        return {}
    # The tokenizer looks for tokens that a normalizer may change later, between the others.
    first = [token for token in tokenizer.added_tokens_decoder.values() if not token.normalized]
    plain = {str(token) for token in first if not token.lstrip and not token.single_word}
    contents = [str(token) for token in first]
    unknown = getattr(tokenizer, "unk_token", None)
    marks: dict[str, int] = {}
    for mark in control:
        if mark in plain and mark != unknown and _stands_alone(mark, contents):
            ids = tokenizer.encode(mark, add_special_tokens=False)
            if len(ids) == 1:
                marks[mark] = ids[0]
    return marks


def _stands_alone(mark: str, others: Iterable[str]) -> bool:
    """Whether nothing replaces a mark: no token that begins earlier or is longer, and no word."""
    return re.match(r"[^\w\s]", mark) is not None and not any(_overlaps(other, mark) for other in others)


def _overlaps(other: str, mark: str) -> bool:
    if other.startswith(mark) and other != mark:
        return True
    starts = (start for start in range(1, len(other)) if other[start] == mark[0])
    return any(other.startswith(mark, start) or mark.startswith(other[start:]) for start in starts)


def _shared(sequences: Sequence[list[int]]) -> int:
    first, *others = sequences
    return min(common_prefix(first, other) for other in others)


def common_text(texts: Sequence[str]) -> int:
    """How many leading characters all texts share."""
    first, *others = texts
    return min((_common(first, other) for other in others), default=len(first))


def _common(left: str, right: str) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
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
    """The tokens of a text that others come before.

    Sentencepiece puts a space before the first word of whatever it is given, so a character that merges
    with nothing is given first, and its tokens are taken away.
    """
    if not text:
        return []
    tokens = list(tokenizer.encode(text, add_special_tokens=False))
    for anchor in ANCHORS:
        before = list(tokenizer.encode(anchor, add_special_tokens=False))
        probe = list(tokenizer.encode(f"{anchor}{PROBE}", add_special_tokens=False))
        alone = list(tokenizer.encode(PROBE, add_special_tokens=False))
        if probe[: len(before)] != before or probe[len(before) :] == alone:
            continue  # they merge, or nothing is put before a first word
        both = list(tokenizer.encode(f"{anchor}{text}", add_special_tokens=False))
        if both[: len(before)] == before:
            return both[len(before) :]
    return tokens
