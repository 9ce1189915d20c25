"""Tests of the word problems written by hand."""

from __future__ import annotations

import re
from random import Random

import pytest

from training.pocket.problems import faults, problem, problems, read
from training.pocket.values import Source
from training.pocket.written import MalformedError, rendered

EGGS = """
---
@t = eggs
~ a 2-9, b 12-30, c 1-8
> [a] boxes of [b] [t], [c] broke
= a * b - c
< you have [r] [t]
> and if [d] more break?
= r - d
< you have [r] [t]
"""


def test_every_problem_is_well_written() -> None:
    wrong = [
        f"{each.dialogue.exchanges[0].wordings[0]}: {fault}" for each in problems() for fault in faults(each)
    ]
    assert not wrong


def test_numbers_are_drawn_and_reckoned_with() -> None:
    (eggs,) = read(EGGS)
    drawn = eggs.drawn(Random(1))
    assert drawn is not None
    first, more = (turn for _, turn in rendered(Source(Random(1)), drawn, 0.0))
    boxes, each, broken = (int(number) for number in re.findall(r"\d+", first.thinking)[:3])
    whole = boxes * each - broken
    assert first.reply == f"{boxes} * {each} - {broken} = {whole}, so you have {whole} eggs."
    assert more.thinking.startswith(f"A story: {whole} - ")


def test_what_never_comes_out_whole_is_a_fault() -> None:
    (odd,) = read("---\n~ a 3-3, b 2-2\n> [a] for [b]\n= a / b\n< each gets [r]\n")
    assert "hardly ever comes out whole" in faults(odd)
    (missing,) = read("---\n> I have [a]\n= a + b\n< you have [r]\n")
    assert "b missing: I have [a]" in faults(missing)


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(MalformedError, match="not a range"):
        read("---\n~ a 2 to 9\n> [a]\n= a\n< [r]\n")


def test_one_is_drawn_again_and_again() -> None:
    rng = Random(5)
    assert len({problem(rng).exchanges[0].wordings for _ in range(200)}) > 50
