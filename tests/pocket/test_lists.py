"""Tests of composed lists that grow and shrink."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from training.pocket.grounding import grounded
from training.pocket.lists import roster
from training.pocket.turns import Turn
from training.pocket.values import Source
from training.pocket.written import rendered


@cache
def talks() -> list[list[Turn]]:
    talks = []
    for seed in range(300):
        source = Source(Random(seed))
        turns = [turn for _, turn in rendered(source, roster(source.rng), 0.0)]
        talks.append(grounded(turns, deep=len(turns)))
    return talks


def test_what_is_counted_is_the_number_that_the_reply_gives() -> None:
    counted = 0
    for turns in talks():
        for turn in turns:
            told = turn.thinking.partition("Told: ")[2]
            numbers = re.findall(r" (\d)(?=[,.])", told)
            if numbers and "So " not in told and re.search(r"\b\d (?!\w*\d)", turn.reply):
                assert numbers == [str(place) for place in range(1, len(numbers) + 1)]
                assert f"{len(numbers)} " in turn.reply
                counted += 1
    assert counted > 100


def test_what_was_added_is_in_the_answer_and_what_was_taken_away_is_not() -> None:
    added = 0
    for turns in talks():
        items: list[str] = []
        for turn in turns:
            told = re.sub(r" \d(?=[,.])", "", turn.thinking.partition("Told: ")[2])
            if told and "So " not in told:
                now = re.split(r", | and ", told.rstrip("."))
                added += len(now) > len(items) > 0
                items = now
                known = "\n".join(each.meant.lower() for each in turns).replace("'", "")
                assert all(item.lower().removeprefix("your ").replace("'", "") in known for item in items)
    assert added > 30


def test_an_answer_sees_every_change_of_its_list() -> None:
    changed = 0
    for turns in talks():
        changes = 0
        for turn in turns:
            changes += turn.reply.startswith("Got it, now: ")
            close = turn.thinking.partition("Closest: ")[2]
            if changes and close and "(before: " in close:
                assert changes == close.count("(before: ")
                changed += 1
    assert changed > 100
