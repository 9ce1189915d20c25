"""Tests of the dialogues that were written by hand, and of what is made from them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from random import Random

import pytest

from training.pocket import program
from training.pocket.conversations import Difficulty, by_hand
from training.pocket.held_out import DEVELOPMENT, HELD_OUT, dialogues
from training.pocket.values import Source
from training.pocket.written import FOLDER, MalformedError, faults, files, parsed, rendered

FILES = sorted(FOLDER.glob("*.txt"))

DIALOGUE = """
---
@pet/sound = dog/barks | cat/meows
> my [pet] [name] (often|always) [sound]
> [name], that's my [pet], [sound] all day
= New: the name of your [pet]; what it does.
< Got it: your [pet] is called [name] and [sound].

> its name?
= Asked: the name of your [pet]. Told: [name].
< Your [pet] is called [name].

> are you sure
=~ Asked: the name of your [pet] again. Told: [name].
< Yes, your [pet] is called [name].

> what does it do?
= Asked: what your [pet] does. Told: it [sound].
< Your [pet] [sound].
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_has_no_fault(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []


def test_every_reply_names_what_exists() -> None:
    live = program.live()
    replies = {each.reply for one in chain(*files().values()) for each in one.exchanges}
    assert [name for reply in replies for name in program.unknown_names(reply, live)] == []


def test_no_message_is_of_the_examination() -> None:
    typed = {
        turn.typed.lower().strip(" .?!")
        for path in (HELD_OUT, DEVELOPMENT)
        for dialogue in dialogues(path.read_text(encoding="utf-8"))
        for turn in dialogue.turns
        if len(turn.typed.split()) > 7
    }
    written = {
        wording.lower().strip(" .?!")
        for one in chain(*files().values())
        for each in one.exchanges
        for wording in each.wordings
    }
    assert typed & written == set()


def test_slots_that_are_declared_together_are_drawn_together() -> None:
    (dialogue,) = parsed(DIALOGUE)
    for seed in range(20):
        _, told = rendered(Source(Random(seed)), dialogue, 0.0)[0]
        assert ("dog" in told.reply) == ("barks" in told.reply) != ("meows" in told.reply)


def test_what_a_slot_holds_is_said_back_as_theirs() -> None:
    (dialogue,) = parsed("---\n@who = my aunt\n> I wrote to [who]\n= New: a letter.\n< Got it: a letter.")
    ((_, turn),) = rendered(Source(Random(1)), dialogue, 0.0)
    assert turn.reply == "Got it: you wrote to your aunt."


@pytest.mark.parametrize(("value", "said"), [("ada", "Ada is"), ("a.b@c.example", "a.b@c.example is")])
def test_a_reply_begins_with_a_capital_unless_an_address_begins_it(value: str, said: str) -> None:
    (dialogue,) = parsed(f"---\n@who = {value}\n> who is [who]\n= Asked: who. Told: me.\n< [who] is you.")
    ((_, turn),) = rendered(Source(Random(1)), dialogue, 0.0)
    assert turn.reply.startswith(said)


def test_a_bound_question_stays_behind_its_own() -> None:
    (dialogue,) = parsed(DIALOGUE)
    orders = set()
    for seed in range(60):
        order = tuple(
            dialogue.exchanges.index(each) for each, _ in rendered(Source(Random(seed)), dialogue, 0.0)
        )
        assert order[0] == 0
        assert all(order[place - 1] == 1 for place, number in enumerate(order) if number == 2)
        orders.add(order[1:])
    assert {(1, 2), (3,), (1, 2, 3), (3, 1, 2)} <= orders


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("---\n> my [nme]\n= New: a.\n< Got it: b.\n", "neither declared nor a kind"),
        ("---\n> my dog\n= New: a dog.\n< Got it: your dog is [pet].\n", "the reply says [pet]"),
        ("---\n> (a|b\n= Small talk.\n< Hello.\n", "do not close"),
        ("---\n> hi\n= Small talk\n< Hello.\n", "no full stop"),
        ("---\n> a dog\n= New: a dog.\n< Your dog.\n", "answered"),
    ],
)
def test_a_fault_is_found(text: str, fault: str) -> None:
    assert any(fault in found for found in faults(text))


@pytest.mark.parametrize(
    "text", ["> hi\n", "---\n= a.\n", "---\n> a\n< b\n", "---\nhello\n", "---\n@a/b = c\n"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(MalformedError, match=r"line \d"):
        parsed(text)


def test_conversations_are_determined_by_the_seed() -> None:
    first, second = ([by_hand(Source(Random(seed)), Difficulty()) for seed in range(50)] for _ in range(2))
    assert first == second


def test_no_slot_is_left_open() -> None:
    for seed in range(300):
        for turn in by_hand(Source(Random(seed)), Difficulty()).turns:
            assert turn.cut or not any(
                f"[{kind}" in turn.user + turn.reply for kind in ("name", "place", "count")
            )
