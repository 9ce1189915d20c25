"""Tests of what pocket says beside facts: help, small talk, open questions and numbers."""

from __future__ import annotations

import gc
import re
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from training.pocket import manual, noise, program, sums
from training.pocket.advert import ADVERT, says_advert
from training.pocket.beside import BESIDE
from training.pocket.conversations import beside
from training.pocket.frames import Frames, parse, read
from training.pocket.people import Deed
from training.pocket.turns import Desk, Turn
from training.pocket.values import Source

KINDS = sorted(BESIDE)


@cache
def live() -> dict[str, Any]:
    return program.live()


def turns(kind: str, count: int, seed: int = 1, held: bool = False, advert: bool = False) -> list[Turn]:
    source = Source(Random(seed), held)
    return [BESIDE[kind][1](source, advert) for _ in range(count)]


@pytest.mark.parametrize("kind", ["commands", "programs", "settings", "keys"])
def test_what_the_file_lists_exists(kind: str) -> None:
    assert set(program.known()[kind]) <= set(live()[kind])


@pytest.mark.parametrize("answer", manual.answers())
def test_an_answer_names_what_exists(answer: str) -> None:
    assert program.unknown_names(answer, live()) == []


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        ("Type /rewound 3.", "/rewound"),
        ("Run chatcli lost NAME.", "chatcli lost"),
        ("Run chatcli cache burn.", "chatcli cache burn"),
        ("Start with --no-panic.", "--no-panic"),
        ("Type /set heat 0.7.", "setting heat"),
        ("Press Ctrl-Q.", "Ctrl-Q"),
    ],
)
def test_an_answer_that_names_what_is_gone_is_found(answer: str, gone: str) -> None:
    assert program.unknown_names(answer, live())[0].startswith(gone)


@pytest.mark.parametrize("kind", KINDS)
def test_every_reply_names_what_exists(kind: str) -> None:
    replies = {turn.reply for turn in turns(kind, 300) if not turn.sort.endswith("unknown")}
    if kind not in ("help", "talk", "talk both"):  # tested above; repeats what is said
        assert [name for reply in replies for name in program.unknown_names(reply, live())] == []


@pytest.mark.parametrize("kind", KINDS)
def test_turns_are_determined_by_the_seed(kind: str) -> None:
    assert turns(kind, 50) == turns(kind, 50)
    assert turns(kind, 50) != turns(kind, 50, seed=2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", [False, True])
def test_a_turn_is_whole(kind: str, held: bool) -> None:
    for turn in turns(kind, 300, held=held):
        assert turn.user.strip()
        assert turn.thinking
        assert turn.reply[-1] in '.!?4。！؟।"' or says_advert(turn.reply)
        pasted = "" if kind in noise.MAKERS else turn.user
        assert set(re.findall(r"\[[a-z]+\d?\]", pasted + turn.thinking + turn.reply)) <= {"[cpu]"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_model_is_named_only_where_it_may_be(kind: str) -> None:
    assert not any(ADVERT in turn.reply for turn in turns(kind, 300))


def test_an_open_question_names_a_larger_model_once() -> None:
    assert any(ADVERT in turn.reply for turn in turns("open", 100, advert=True))


def test_frames_of_training_and_evaluation_are_disjoint() -> None:
    for kind in KINDS:
        assert BESIDE[kind]
    frames = [each for each in gc.get_objects() if isinstance(each, Frames)]
    assert len(frames) > 200
    for each in frames:
        assert each.trained
        assert each.held
        assert each.trained == each.held or not set(each.trained) & set(each.held)


@pytest.mark.parametrize("kind", ["help", "open", "talk", "story sum"])
def test_few_messages_are_on_both_sides(kind: str) -> None:
    trained = {turn.user.lower() for turn in turns(kind, 3000)}
    held = [turn.user.lower() for turn in turns(kind, 500, held=True)]
    assert sum(text in trained for text in held) < 0.05 * len(held)


@pytest.mark.parametrize("kind", ["sum", "story sum", "worded sum"])
def test_sums_are_right(kind: str) -> None:
    for turn in turns(kind, 2000):
        problem, result = re.search(r"^([-+ \d]+) = (-?\d+)", turn.reply).groups()  # type: ignore[union-attr]
        assert eval(problem) == int(result)
        working = turn.thinking.removeprefix("A story: ")
        for left, right in re.findall(r"(?<![\d+-])(\d+(?:[-+]\d+)+)=(-?\d+)", working):
            assert eval(re.sub(r"\b0+(?=\d)", "", left)) == int(right)
        assert re.search(rf"(makes|So) {result}\.$", working)


@pytest.mark.parametrize("kind", ["sum", "story sum", "worded sum"])
def test_problems_of_training_and_evaluation_are_disjoint(kind: str) -> None:
    def problems(held: bool) -> set[str]:
        return {turn.reply.split(" =")[0] for turn in turns(kind, 2000, held=held)}

    shared = problems(held=False) & problems(held=True)
    assert {each for each in shared if len(each) > 5} == set()


def test_tables_halves_and_neighbours_are_right() -> None:
    for turn in turns("times", 500):
        if match := re.fullmatch(r"(\d+) times (\d+) is (\d+)\.", turn.reply):
            assert int(match[1]) * int(match[2]) == int(match[3])
        elif match := re.fullmatch(r"(\d+) divided by (\d+) is (\d+)(?:, and (\d+) is left)?\.", turn.reply):
            assert int(match[2]) * int(match[3]) + int(match[4] or 0) == int(match[1])
        else:
            assert turn.reply.endswith("cannot be divided by zero.")
    for turn in turns("double", 500):
        word, number, found = re.fullmatch(r"(Half of|Twice) (\d+) is ([\d.]+)\.", turn.reply).groups()  # type: ignore[union-attr]
        assert float(found) == int(number) * (0.5 if word == "Half of" else 2)
    for turn in turns("next", 500):
        if match := re.fullmatch(r"(\d+) comes (after|before) (\d+)\.", turn.reply):
            assert int(match[1]) - int(match[3]) == (1 if match[2] == "after" else -1)


def test_counting_comparing_and_parity_are_right() -> None:
    for turn in turns("count", 500):
        if not turn.reply.startswith("That"):
            numbers = [int(each) for each in turn.reply.rstrip(".").split(", ")]
            assert len({b - a for a, b in pairwise(numbers)}) == 1
    for turn in turns("compare", 500):
        if match := re.search(r"(\d+) is (larger|smaller) than (\d+)", turn.reply):
            assert (int(match[1]) > int(match[3])) == (match[2] == "larger")
    for turn in turns("parity", 500):
        number, word = re.search(r"(\d+) is (even|odd)\.$", turn.reply).groups()  # type: ignore[union-attr]
        assert (int(number) % 2 == 0) == (word == "even")


def test_numbers_in_words() -> None:
    assert [sums.spelled(n) for n in (0, 13, 47, 100, 115)] == [
        "zero",
        "thirteen",
        "forty-seven",
        "one hundred",
        "one hundred and fifteen",
    ]


def test_alternatives_nest() -> None:
    rng = Random(1)
    found = {read(rng, parse("a (b|c (d|e)|) f")) for _ in range(200)}
    assert found == {"a b f", "a c d f", "a c e f", "a  f"}


def test_an_open_bracket_is_refused() -> None:
    with pytest.raises(ValueError, match="not closed"):
        Frames("a (b|c;d")


def test_the_weather_is_asked_of_a_place_that_was_told() -> None:
    asked = []
    for seed in range(400):
        desk = Desk(Source(Random(seed)))
        desk.tell(4)
        places = [fact.value for fact in desk.told if isinstance(fact, Deed) and fact.kind.values == "place"]
        turn = beside(desk, "open")
        if turn.thinking == "An open request: the weather in a place. I cannot." and places:
            asked += [any(f"weather in {place}" in turn.reply for place in places)]
    assert True in asked and False in asked
