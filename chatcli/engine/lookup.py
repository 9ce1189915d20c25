"""Guesses a reply's next tokens from earlier occurrences of its last tokens (prompt lookup).

Prompt lookup decoding is Apoorv Saxena's idea. The index is LZ77's, as in zlib: the earlier places of the
last two tokens form a chain, newest first, and the guess follows the one with the longest match.

Guesses depend only on the prompt, the rest of the conversation and the measured cost of passes, so the same
turn gets the same guesses in every process.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from chatcli.engine.known_costs import KnownCosts, Measure
from chatcli.engine.pace import PassCosts, guesses_worth
from chatcli.store.segments.token_path import common_prefix

# The shortest match, the most tokens of a match that are compared, and the most places compared.
PAIR, MAX_MATCH, MAX_PLACES = 2, 32, 8
# The most tokens that are guessed at once.
MAX_GUESS = 31
# How many guesses are considered in deciding whether to know the next token before the model runs on it.
WAITED_FOR = 8
# The most tokens that prompts have in the index: some 20 MB.
MAX_TOKENS = 1 << 17
# The most letters of other texts. When they exceed it, the newest are kept, up to half of it.
MAX_LETTERS = 1 << 16
# No token: it ends a text.
END = -1
# The longest match of each kind, and the assumed probability that its guess is right.
KINDS = ((2, 0.3), (3, 0.45), (4, 0.6), (6, 0.7), (8, 0.8), (12, 0.85), (16, 0.9), (MAX_MATCH, 0.95))
# How many tokens the assumption weighs, and the factor by which each token discounts earlier ones.
ASSUMED, FADING = 4.0, 0.97

Encode = Callable[[str], Sequence[int]]


class Index:
    """A sequence of tokens, with the places of each pair of them. The newest tokens can be removed."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        # The newest place after each pair of tokens, and for each place the previous one after the same pair.
        self._newest: dict[int, int] = {}
        self._older = array("i")

    def append(self, token: int) -> None:
        place, tokens, older = len(self.tokens), self.tokens, -1
        if place >= PAIR and tokens[-2] >= 0 and tokens[-1] >= 0:
            pair = tokens[-2] << 32 | tokens[-1]
            older = self._newest.get(pair, -1)
            self._newest[pair] = place
        self._older.append(older)
        tokens.append(token)

    def set(self, tokens: Sequence[int]) -> None:
        """Replace the tokens, keeping the common beginning."""
        common = common_prefix(self.tokens, tokens)
        self.cut(common)
        for token in tokens[common:]:
            self.append(token)

    def cut(self, length: int) -> None:
        """Remove all but the first `length` tokens."""
        own = self.tokens
        for place in range(len(own) - 1, max(length, PAIR) - 1, -1):
            if own[place - 2] >= 0 and own[place - 1] >= 0:
                pair, older = own[place - 2] << 32 | own[place - 1], self._older[place]
                if older < 0:
                    del self._newest[pair]
                else:
                    self._newest[pair] = older
        del own[length:], self._older[length:]

    def longest(self, context: Sequence[int], longer_than: int) -> tuple[int, int]:
        """The place after the longest match with the end of `context`, the newest of several, and its length.

        The length is 0 if no match is longer than `longer_than` tokens.
        """
        own, best, most = self.tokens, (-1, 0), longer_than
        if len(context) < PAIR or context[-2] < 0 or context[-1] < 0:
            return best
        place = self._newest.get(context[-2] << 32 | context[-1], -1)
        for _ in range(MAX_PLACES):
            if place < 0 or most == MAX_MATCH:
                break
            length, limit = PAIR, min(MAX_MATCH, place, len(context))
            while length < limit and own[place - 1 - length] == context[-1 - length]:
                length += 1
            if length > most:
                best, most = (place, length), length
            place = self._older[place]
        return best


class Lookup:
    """A `Guesser` that looks up a reply's last tokens in the prompt, the reply and the other texts.

    It counts for every token of a reply whether the index predicted it, even if it made no guess.
    """

    is_draft = False

    def __init__(self, encode: Encode, costs: KnownCosts) -> None:
        self._encode, self._known = encode, costs
        # The newest prompts with their replies, which the next prompt may continue; the last is this reply's.
        self._paths = [Index()]
        # The conversation's other texts, and the number of tokens up to the end of each.
        self._elsewhere, self._texts, self._ends = Index(), list[str](), list[int]()
        self._measure: Measure = lambda: None
        # The index and the place in it that predicts the next token, and the length of its match; 0 if none.
        self._index, self._place, self._match = self._paths[0], 0, 0
        # The tokens of this reply so far. The template's text before it predicts little.
        self._taken = self._prompt_tokens = 0
        self._right, self._seen = list[float](), list[float]()

    def begin(self, prompt: Sequence[int], elsewhere: Sequence[str], measure: Measure) -> None:
        """A reply to `prompt` begins; the texts of `elsewhere` are not in it."""
        self._measure = measure
        self._right = [chance * ASSUMED for _, chance in KINDS]
        self._seen = [ASSUMED for _ in KINDS]
        self._match = self._taken = 0
        self._prompt_tokens = len(prompt)
        self._set_path(prompt)
        self._set_elsewhere(elsewhere)

    def _set_path(self, prompt: Sequence[int]) -> None:
        # Index only the newest tokens of a very long prompt, from a start that rarely moves.
        half = MAX_TOKENS // 2
        own = prompt[max(-(-len(prompt) // half) - 2, 0) * half :]
        commons = [common_prefix(path.tokens, own) for path in self._paths]
        common = max(commons)
        path = self._paths.pop(commons.index(common)) if 2 * common >= len(own) else Index()
        path.set(own)
        self._paths.append(path)
        while sum(len(path.tokens) for path in self._paths) > MAX_TOKENS and len(self._paths) > 1:
            del self._paths[0]

    def _set_elsewhere(self, texts: Sequence[str]) -> None:
        newest = newest_texts(texts)
        common = common_prefix(self._texts, newest)
        self._elsewhere.cut(self._ends[common - 1] if common else 0)
        del self._ends[common:]
        for text in newest[common:]:
            for token in (*self._encode(text), END):
                self._elsewhere.append(token)
            self._ends.append(len(self._elsewhere.tokens))
        self._texts = newest

    def took(self, tokens: Sequence[int]) -> None:
        """The reply's next tokens."""
        path = self._paths[-1]
        for token in tokens:
            if self._match:
                was_right = token == self._index.tokens[self._place]
                if self._evidence:
                    kind = _kind(self._evidence)
                    self._right[kind] = self._right[kind] * FADING + was_right
                    self._seen[kind] = self._seen[kind] * FADING + 1
                self._match = min(self._match + 1, MAX_MATCH) if was_right else 0
                self._place += was_right
            self._taken += 1
            path.append(token)
            for index in (path, self._elsewhere):
                place, match = index.longest(path.tokens, self._match)
                if match:
                    self._index, self._place, self._match = index, place, match

    def waits(self) -> bool:
        """Whether the token after the next one is likely enough that the next one should be known first."""
        return bool(self._evidence and guesses_worth(self._costs, self._guess(WAITED_FOR)[1][1:]))

    def guess(self, most: int, waiting: int, *, is_rerun: bool) -> list[int]:
        """Guess at most `most` tokens, as many as pay off in a pass with the `waiting` known ones."""
        if not self._evidence or most <= 0:
            return []
        tokens, chances = self._guess(min(most, MAX_GUESS))
        return tokens[: guesses_worth(self._costs, chances, waiting, is_rerun=is_rerun)]

    def finish(self) -> None:
        """The reply has ended: make no guesses before the next one begins."""
        self._match = 0

    @property
    def _costs(self) -> PassCosts:
        return self._known.after(self._prompt_tokens + self._taken, self._measure)

    @property
    def _evidence(self) -> int:
        """How much of the match is within the reply; 0 if too little."""
        own = min(self._match, self._taken)
        return own if own >= PAIR else 0

    def _guess(self, most: int) -> tuple[list[int], list[float]]:
        """The next tokens, at most `most`, and for each the probability that all up to it are right."""
        tokens = self._index.tokens[self._place : self._place + most]
        while tokens and len(tokens) < most:
            # The text repeats itself: continue with the guessed tokens.
            tokens += tokens[: most - len(tokens)]
        if (end := next((at for at, token in enumerate(tokens) if token < 0), None)) is not None:
            # An image, or the end of a text.
            tokens = tokens[:end]
        chances, chance = [], 1.0
        for length in range(self._evidence, self._evidence + len(tokens)):
            kind = _kind(length)
            chance *= self._right[kind] / self._seen[kind]
            chances.append(chance)
        return tokens, chances


def newest_texts(texts: Sequence[str], most: int = MAX_LETTERS) -> list[str]:
    """The newest of `texts`, up to a limit of letters, from a start that rarely moves as they grow."""
    newest, letters = list[str](), 0
    for text in texts:
        newest.append(text[:most])
        letters += len(newest[-1])
        if letters > most:
            while letters > most // 2 and len(newest) > 1:
                letters -= len(newest.pop(0))
    return newest


def _kind(length: int) -> int:
    return next(number for number, (longest, _) in enumerate(KINDS) if min(length, MAX_MATCH) <= longest)
