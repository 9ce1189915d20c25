"""Guesses a reply's next tokens from where the conversation has said the same before (prompt lookup).

Prompt lookup decoding is Apoorv Saxena's idea; the index is LZ77's, as zlib has it: the places where the
last two tokens stood before are a chain, newest first, and the one with the longest match is followed.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from chatcli.engine.pace import PassCosts, guesses_worth
from chatcli.store.segments.token_path import common_prefix

# The shortest match, how much of one is compared, and how many places are.
PAIR, MAX_MATCH, MAX_PLACES = 2, 32, 8
# The most tokens that are guessed at once.
MAX_GUESS = 31
# So many likely ones are enough to know the next token first.
WAITED_FOR = 8
# The most tokens that are remembered: some 20 MB. Half of them are kept when it is full.
MAX_TOKENS = 1 << 17
# The newest prompts with their replies, which the next prompt may go on from.
MAX_PATHS = 4
# How likely the next token is by the length of the match, before anything is known: up to so many tokens.
KINDS = ((2, 0.3), (3, 0.45), (4, 0.6), (6, 0.7), (8, 0.8), (12, 0.85), (16, 0.9), (MAX_MATCH, 0.95))
# How many tokens what is assumed counts for, and what a token more leaves of those before.
ASSUMED, FADING = 4.0, 0.97


class Lookup:
    """An index of a conversation's tokens, all that were generated included, and what its guesses are worth.

    Tokens are appended as they come. Whether the next one was foreseen is counted for all, run or not.
    """

    is_draft = False

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self.costs = PassCosts()
        self._max_tokens = max_tokens
        self._tokens: list[int] = []
        # By two tokens the newest place behind them, and by each place the one before with the same two.
        self._newest: dict[int, int] = {}
        self._older = array("i")
        # The place that is followed, which may be the next token's, and the length of its match; 0: none.
        self._place, self._match = 0, 0
        # The tokens of this reply so far. What a template writes before it says little of what follows.
        self._taken = 0
        self._paths: list[list[int]] = []
        self._right = [chance * ASSUMED for _, chance in KINDS]
        self._seen = [ASSUMED for _ in KINDS]

    def begin(self, prompt: Sequence[int]) -> None:
        """A reply to `prompt` begins: append what the index does not have of it."""
        own, self._match, self._taken = list(prompt), 0, 0
        commons = [common_prefix(path, own) for path in self._paths]
        common = max(commons, default=0)
        if common and common == len(self._paths[at := commons.index(common)]):
            del self._paths[at]
        # So much of what it has, too, as a match may look back at.
        for token in own[max(min(common, len(own)) - MAX_MATCH, 0) :]:
            self._append(token)
        self._paths = [*self._paths[1 - MAX_PATHS :], own]
        self._find()

    def took(self, tokens: Sequence[int]) -> None:
        """The reply's next tokens."""
        for token in tokens:
            if self._match:
                was_right = token == self._tokens[self._place]
                if self._evidence:
                    kind = _kind(self._evidence)
                    self._right[kind] = self._right[kind] * FADING + was_right
                    self._seen[kind] = self._seen[kind] * FADING + 1
                self._match = min(self._match + 1, MAX_MATCH) if was_right else 0
                self._place += was_right
            self._taken += 1
            self._append(token)
            if self._paths:
                self._paths[-1].append(token)
            if self._match < MAX_MATCH:
                self._find()

    def waits(self) -> bool:
        """Whether the token after the next one is likely enough that the next one should be known first."""
        return bool(self._evidence and guesses_worth(self.costs, self._guess(WAITED_FOR)[1][1:]))

    def guess(self, most: int, waiting: int, *, is_rerun: bool) -> list[int]:
        """At most `most` next tokens, as many as are worth to be run with the `waiting` known ones."""
        if not self._evidence or most <= 0:
            return []
        tokens, chances = self._guess(min(most, MAX_GUESS))
        return tokens[: guesses_worth(self.costs, chances, waiting, is_rerun=is_rerun)]

    def measured(self, tokens: int, seconds: float) -> None:
        """A pass of so many tokens took so long."""
        self.costs.add(tokens, seconds)

    def finish(self) -> None:
        """The reply has ended: nothing is guessed before the next begins."""
        self._match = 0

    def forget(self) -> None:
        """Drop all tokens, and keep what passes cost and how often guesses were right."""
        self._tokens, self._newest, self._older, self._paths = [], {}, array("i"), []
        self._place, self._match = 0, 0

    @property
    def _evidence(self) -> int:
        """How much of the match is the reply's own; 0: too little."""
        own = min(self._match, self._taken)
        return own if own >= PAIR else 0

    def _guess(self, most: int) -> tuple[list[int], list[float]]:
        """At most so many next tokens, and for each how likely it is that all up to it are right."""
        tokens = self._tokens[self._place : self._place + most]
        while tokens and len(tokens) < most:
            # It repeats itself: what would come next is what is guessed.
            tokens += tokens[: most - len(tokens)]
        if (image := next((at for at, token in enumerate(tokens) if token < 0), None)) is not None:
            tokens = tokens[:image]
        chances, chance = [], 1.0
        for length in range(self._evidence, self._evidence + len(tokens)):
            kind = _kind(length)
            chance *= self._right[kind] / self._seen[kind]
            chances.append(chance)
        return tokens, chances

    def _append(self, token: int) -> None:
        place, tokens = len(self._tokens), self._tokens
        older = -1
        if place >= PAIR:
            pair = tokens[-2] << 32 | tokens[-1]
            older = self._newest.get(pair, -1)
            self._newest[pair] = place
        self._older.append(older)
        tokens.append(token)
        if place >= self._max_tokens:
            self._tokens, self._newest, self._older = [], {}, array("i")
            self._place, self._match = 0, 0
            for kept in tokens[-(self._max_tokens // 2) :]:
                self._append(kept)

    def _find(self) -> None:
        """Follow the place with the longest match, the newest of these, unless it is followed already."""
        tokens = self._tokens
        if len(tokens) < PAIR:
            return
        place = self._newest.get(tokens[-2] << 32 | tokens[-1], -1)
        for _ in range(MAX_PLACES):
            if place < 0 or self._match == MAX_MATCH:
                break
            if (length := self._length(place)) > self._match:
                self._place, self._match = place, length
            place = self._older[place]

    def _length(self, place: int) -> int:
        """How many tokens before `place` are those at the end."""
        tokens, length, end = self._tokens, PAIR, len(self._tokens)
        most = min(MAX_MATCH, place)
        while length < most and tokens[place - 1 - length] == tokens[end - 1 - length]:
            length += 1
        return length


def _kind(length: int) -> int:
    return next(number for number, (longest, _) in enumerate(KINDS) if min(length, MAX_MATCH) <= longest)
