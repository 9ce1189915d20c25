"""An index of what was said: what follows the longest earlier match is guessed."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

from chatcli.engine.lookup import MAX_GUESS, Lookup


def eager(max_tokens: int = 1000) -> Lookup:
    """One that guesses whatever may be right: a pass costs the same whatever its length."""
    lookup = Lookup(max_tokens)
    for tokens in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        for _ in range(3):
            lookup.measured(tokens, 0.01)
    return lookup


def after(lookup: Lookup, prompt: Sequence[int], reply: Sequence[int], most: int = 6) -> list[int]:
    lookup.begin(prompt)
    lookup.took(reply)
    return lookup.guess(most, 1, is_rerun=False)


FACTS = [5, 6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(
    ("prompt", "reply", "expected"),
    [
        ([*FACTS, 1, 2], [6, 7], [8, 9, 10, 11, 12, 1]),
        # The newest of two places with matches of one length.
        ([5, 6, 20, 5, 6, 30, 31, 1], [5, 6], [30, 31, 1, 5, 6, 30]),
        # The longest match, though another is newer.
        ([4, 5, 6, 20, 9, 5, 6, 30, 31, 1], [4, 5, 6], [20, 9, 5, 6, 30, 31]),
        ([1, 2, 3], [8, 9], []),
        # What the reply said itself, also where it goes round in circles.
        ([1, 2], [7, 8, 9, 7, 8], [9, 7, 8, 9, 7, 8]),
        ([1, 2], [7, 7, 7], [7, 7, 7, 7, 7, 7]),
        # An image is no token that could be guessed.
        ([5, 6, 7, -9, 8, 1], [5, 6], [7]),
        # A match within the prompt's end says nothing of a reply.
        ([1, 2, 3, 4, 9, 1, 2, 3], [], []),
    ],
)
def test_what_followed_the_longest_match_is_guessed(
    prompt: list[int], reply: list[int], expected: list[int]
) -> None:
    assert expected == after(eager(), prompt, reply)


def test_what_was_generated_before_is_found_though_the_prompt_drops_it() -> None:
    lookup = eager()
    after(lookup, [1, 2, 3], [40, 41, 42, 43, 44, 50, 51])
    lookup.finish()
    # History has the reply without its thinking.
    assert [42, 43, 44] == after(lookup, [1, 2, 3, 50, 51, 9], [40, 41], most=3)


def test_a_reply_to_the_same_prompt_is_guessed_from_the_first_one() -> None:
    lookup = eager()
    after(lookup, FACTS, [40, 41, 42, 43, 44])
    assert [42, 43, 44] == after(lookup, FACTS, [40, 41], most=3)


def test_a_conversation_that_goes_on_appends_only_what_is_new() -> None:
    lookup, prompt = eager(100_000), [number % 997 for number in range(5000)]
    for turn in range(20):
        lookup.begin(prompt)
        lookup.took([turn, 1])
        prompt = [*prompt, turn, 1, 500 + turn]
    assert len(lookup._tokens) < 7000


def test_nothing_is_guessed_before_a_reply_begins_and_after_it_ended() -> None:
    lookup = eager()
    assert [] == lookup.guess(6, 1, is_rerun=False)
    assert after(lookup, FACTS, [5, 6])
    lookup.finish()
    assert [] == lookup.guess(6, 1, is_rerun=False) and not lookup.waits()


def test_it_remembers_the_newest_tokens_only() -> None:
    lookup = eager(64)
    lookup.begin(list(range(100, 400)))
    assert len(lookup._tokens) <= 65
    lookup.took([390, 391])
    assert [392, 393] == lookup.guess(2, 1, is_rerun=False)
    lookup.took([100, 101])
    assert [] == lookup.guess(2, 1, is_rerun=False)


def test_guesses_that_are_never_right_end() -> None:
    """In prose pairs of words come again, and something else follows."""
    lookup, chance = eager(1 << 17), random.Random(3)
    for tokens in (2, 4, 8, 16, 32):
        for _ in range(7):
            lookup.measured(tokens, 0.0125)
    lookup.begin([])
    guessed = []
    for _ in range(2000):
        guessed.append(len(lookup.guess(MAX_GUESS, 1, is_rerun=False)))
        lookup.took([chance.randrange(40)])
    assert sum(map(bool, guessed[-500:])) < 25


def test_it_takes_microseconds() -> None:
    lookup, chance = eager(1 << 17), random.Random(3)
    prompt = [min(int(chance.expovariate(0.01)), 5000) for _ in range(100_000)]
    seconds = []
    for _ in range(3):
        started = time.process_time()
        Lookup(1 << 17).begin(prompt)
        seconds.append((time.process_time() - started) / len(prompt))
    assert min(seconds) < 20e-6
    lookup.begin(prompt)
    seconds = []
    for start in range(0, 3000, 1000):
        started = time.process_time()
        for token in prompt[start : start + 1000]:
            lookup.waits()
            lookup.took([token])
        seconds.append((time.process_time() - started) / 1000)
    assert min(seconds) < 200e-6
