"""Tests of the working of sums on paper: every step is right, and so is the end."""

from __future__ import annotations

import re
from random import Random

import pytest

from training.pocket.arithmetic import MOST, TooHardError, adding, dividing, multiplying, taking, worked
from training.pocket.sums import broken
from training.pocket.values import Source

STEP = re.compile(r"(?<![\d*+/=-])(\d+)([-+*])(\d+)(?:([-+])(\d+))?=(\d+)")
DIVISION = re.compile(r"(\d+)/(\d+)=(\d+) rest (\d+)")


def steps_hold(working: str) -> bool:
    """Whether all that a working says is so."""
    signs = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
    for a, sign, b, more, c, found in STEP.findall(working):
        value = signs[sign](int(a), int(b))
        if (signs[more](value, int(c)) if more else value) != int(found):
            return False
    return all(int(a) == int(b) * int(c) + int(d) for a, b, c, d in DIVISION.findall(working))


def test_sums_and_differences() -> None:
    rng = Random(1)
    for _ in range(3000):
        top = rng.choice([20, 200, 1000, MOST])
        a, b = rng.randint(0, top), rng.randint(0, top)
        assert steps_hold(adding(a, b))
        assert adding(a, b).endswith(f"makes {a + b}.")
        a, b = max(a, b), min(a, b)
        assert steps_hold(taking(a, b))
        assert taking(a, b).endswith(f"makes {a - b}.")


def test_below_zero_is_taken_the_other_way_round() -> None:
    assert taking(5, 205).endswith("So -200.")


def test_products() -> None:
    rng = Random(2)
    for _ in range(3000):
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        assert steps_hold(multiplying(a, b))
        assert re.search(rf"(makes|so|=|\*10=) ?{a * b}\.\Z", multiplying(a, b))
    with pytest.raises(TooHardError):
        multiplying(1000, 10)


def test_quotients() -> None:
    rng = Random(3)
    for _ in range(3000):
        a, b = rng.randint(0, MOST), rng.randint(1, 12)
        assert steps_hold(dividing(a, b))
    assert dividing(952, 7) == "952/7: 9/7=1 rest 2, 25/7=3 rest 4, 42/7=6 rest 0, makes 136."
    with pytest.raises(TooHardError):
        dividing(100, 13)


def test_products_come_before_sums_and_brackets_before_both() -> None:
    numbers = {"a": 7, "b": 8, "c": 6}
    assert worked("a * b - c", numbers)[::2] == ("7 * 8 - 6", 50)
    assert worked("a + b * c", numbers)[2] == 55
    assert worked("(a + b) * c", numbers)[::2] == ("(7 + 8) * 6", 90)


@pytest.mark.parametrize("expression", ["c - b", "b / c", "a * b * c * c * c"])
def test_fractions_and_what_is_out_of_range_are_too_hard(expression: str) -> None:
    with pytest.raises(TooHardError):
        worked(expression, {"a": 7, "b": 8, "c": 6})


def test_a_division_that_leaves_a_rest_within_a_sum_is_said_to_be_beyond_it() -> None:
    for seed in range(100):
        turn = broken(Source(Random(seed)))
        found = re.match(r"(\d+) / (\d+) is (\d+) and (\d+) is left", turn.reply)
        assert found is not None
        a, b, quotient, rest = map(int, found.groups())
        assert a == b * quotient + rest
        assert 0 < rest < b
        assert not re.search(r"\* ?\d+ ?/", turn.user)
