"""An index of what was said: what follows the longest earlier match is guessed."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

from chatcli.engine.known_costs import KnownCosts
from chatcli.engine.lookup import MAX_GUESS, MAX_LETTERS, MAX_TOKENS, Index, Lookup, newest_texts
from chatcli.engine.pace import LENGTHS, PassCosts

FREE, CHEAP = PassCosts(dict.fromkeys(LENGTHS, 1.0)), PassCosts({1: 1.0, 32: 1.25})
FACTS = [5, 6, 7, 8, 9, 10, 11, 12]


def encode(text: str) -> list[int]:
    """The tokens that a text names."""
    return [int(word) for word in text.split()]


class Reply:
    """A lookup that guesses whatever may be right: a pass costs the same whatever its length."""

    def __init__(self, costs: PassCosts = FREE) -> None:
        self.lookup, self.costs = Lookup(encode, KnownCosts("model")), costs

    def begin(self, prompt: Sequence[int], *elsewhere: str) -> None:
        self.lookup.begin(prompt, elsewhere, lambda: self.costs)

    def guess(self, most: int = 6) -> list[int]:
        return self.lookup.guess(most, 1, is_rerun=False)

    def after(self, prompt: Sequence[int], reply: Sequence[int], *elsewhere: str, most: int = 6) -> list[int]:
        self.begin(prompt, *elsewhere)
        self.lookup.took(reply)
        return self.guess(most)


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
        # An image is no token that could be guessed, or be part of a match.
        ([5, 6, 7, -9, 8, 1], [5, 6], [7]),
        ([3, -1, 7, 5, -1, 8, 1], [4, 5], []),
        # A match within the prompt's end says nothing of a reply.
        ([1, 2, 3, 4, 9, 1, 2, 3], [], []),
    ],
)
def test_what_followed_the_longest_match_is_guessed(
    prompt: list[int], reply: list[int], expected: list[int]
) -> None:
    assert expected == Reply().after(prompt, reply)


def test_what_was_said_elsewhere_is_found_up_to_the_end_of_its_text() -> None:
    thinking, branch = "40 41 42 43 44 45", "60 61 62 63"
    reply = Reply()
    assert [42, 43, 44, 45] == reply.after([1, 2, 3], [40, 41], thinking, branch)
    assert [62, 63] == reply.after([1, 2, 3, 9], [60, 61], thinking, branch)
    # The longest match counts, the prompt's first where they are alike.
    assert [70, 71, 40, 41] == reply.after([40, 41, 70, 71], [40, 41], thinking, branch, most=4)
    assert [43, 44, 45] == reply.after([41, 42, 70, 71], [40, 41, 42], thinking, branch)
    # No match goes over the end of a text.
    assert [] == reply.after([1, 2, 3], [45, 60], thinking, branch)
    # It is no longer there: another session.
    assert [] == reply.after([1, 2, 3], [40, 41])


def test_guesses_do_not_depend_on_what_was_asked_before() -> None:
    """A process that was just started guesses as one that has had the conversation all along."""
    chance = random.Random(5)

    def some(count: int) -> list[int]:
        return [chance.randrange(12) for _ in range(count)]

    veteran, texts, prompt = Reply(), list[str](), some(30)
    for _ in range(60):
        if chance.randrange(3) == 0:
            texts.append(" ".join(map(str, some(20))))
        if chance.randrange(4) == 0:
            # Back to an earlier turn, or another conversation altogether.
            prompt = prompt[: chance.randrange(len(prompt))]
        prompt, said = [*prompt, *some(9)], some(40)
        newcomer = Reply()
        veteran.begin(prompt, *texts)
        newcomer.begin(prompt, *texts)
        for token in said:
            assert newcomer.lookup.waits() == veteran.lookup.waits()
            assert newcomer.guess() == veteran.guess()
            for each in (newcomer, veteran):
                each.lookup.took([token])
        veteran.lookup.finish()


def test_what_is_cut_off_an_index_leaves_what_was_before() -> None:
    chance, index, tokens = random.Random(6), Index(), list[int]()
    for _ in range(200):
        tokens = [*tokens[: chance.randrange(len(tokens) + 1)], *(chance.randrange(-1, 4) for _ in range(8))]
        index.set(tokens)
        fresh = Index()
        fresh.set(tokens)
        assert vars(fresh) == vars(index)


def test_of_much_that_was_said_the_newest_texts_are_kept() -> None:
    texts = [f"{number:05}" * 200 for number in range(300)]
    starts = [len(texts[:count]) - len(newest_texts(texts[:count])) for count in range(len(texts) + 1)]
    assert sorted(starts) == starts and len(set(starts)) < 12
    assert all(sum(map(len, newest_texts(texts[:count]))) <= MAX_LETTERS for count in range(0, 300, 30))
    assert ["x" * MAX_LETTERS] == newest_texts(["a", "x" * (MAX_LETTERS + 1)])


def test_of_long_prompts_the_newest_tokens_are_kept() -> None:
    reply, prompt = Reply(), [number % 50_021 for number in range(2 * MAX_TOKENS)]
    assert [8, 9] == reply.after(prompt, [6, 7], most=2)
    assert MAX_TOKENS // 2 < len(reply.lookup._paths[-1].tokens) <= MAX_TOKENS + 2
    for number in range(9):
        reply.begin([number, *prompt[: MAX_TOKENS // 4]])
    assert 3 == len(reply.lookup._paths)


def test_nothing_is_guessed_before_a_reply_begins_and_after_it_ended() -> None:
    reply = Reply()
    assert [] == reply.guess()
    assert reply.after(FACTS, [5, 6])
    reply.lookup.finish()
    assert [] == reply.guess() and not reply.lookup.waits()


def test_costs_are_asked_for_only_where_something_could_be_guessed() -> None:
    lookup, measured = Lookup(encode, KnownCosts("model")), list[int]()
    lookup.begin(FACTS, (), lambda: measured.append(1))
    for token in (20, 21, 22):
        lookup.took([token])
        assert not lookup.waits() and [] == lookup.guess(6, 1, is_rerun=False)
    assert not measured
    lookup.took([5, 6])
    assert not lookup.waits() and measured


def test_guesses_that_are_never_right_end() -> None:
    """In prose pairs of words come again, and something else follows."""
    reply, chance = Reply(CHEAP), random.Random(3)
    reply.begin([])
    guessed = []
    for _ in range(2000):
        guessed.append(len(reply.guess(MAX_GUESS)))
        reply.lookup.took([chance.randrange(40)])
    assert sum(map(bool, guessed[-500:])) < 25


def test_it_takes_microseconds() -> None:
    chance, reply = random.Random(3), Reply()
    prompt = [min(int(chance.expovariate(0.01)), 5000) for _ in range(100_000)]
    seconds = []
    for _ in range(3):
        started = time.process_time()
        Reply().begin(prompt)
        seconds.append((time.process_time() - started) / len(prompt))
    assert min(seconds) < 20e-6
    reply.begin(prompt)
    seconds = []
    for start in range(0, 3000, 1000):
        started = time.process_time()
        for token in prompt[start : start + 1000]:
            reply.lookup.waits()
            reply.lookup.took([token])
        seconds.append((time.process_time() - started) / 1000)
    assert min(seconds) < 200e-6
