"""How many tokens are guessed, by what passes cost and how likely guesses are right."""

from __future__ import annotations

import pytest

from chatcli.engine.pace import DOUBTED_AFTER, LENGTHS, PassCosts, guesses_worth


def costs(**milliseconds: float) -> PassCosts:
    """Each measured three times: `k4=20.0` is a pass of four tokens."""
    measured = PassCosts()
    for name, cost in milliseconds.items():
        for _ in range(3):
            measured.add(int(name[1:]), cost / 1000)
    return measured


SURE = [0.99**number for number in range(1, 32)]
HALF = [0.5**number for number in range(1, 32)]
RARE = [0.2**number for number in range(1, 32)]
# As measured: an 8B model on an H100, one of experts there, the pocket model and a larger one on two cores.
DENSE = costs(k1=11.7, k4=11.9, k8=11.6, k16=11.1, k32=11.5)
EXPERTS = costs(k1=9, k2=60, k4=82)
POCKET = costs(k1=10, k2=16, k4=20, k8=32, k16=77, k32=160)
COSTLY = costs(k1=266, k2=530, k4=813, k8=1658, k16=3205)


@pytest.mark.parametrize(
    ("measured", "chances", "worth"),
    [
        (DENSE, SURE, 31),
        (DENSE, HALF, 7),
        (DENSE, RARE, 3),
        (DENSE, [0.05], 0),
        (EXPERTS, SURE, 0),
        (POCKET, SURE, 7),
        (POCKET, HALF, 0),
        (POCKET, RARE, 0),
        (COSTLY, HALF, 0),
        (COSTLY, SURE, 3),
    ],
)
def test_as_many_are_guessed_as_give_most_tokens_a_second(
    measured: PassCosts, chances: list[float], worth: int
) -> None:
    found = guesses_worth(measured, chances)
    if measured is DENSE and worth:
        # A pass of any length costs the same there: what is gained by the last ones is next to nothing.
        assert worth <= found
    else:
        assert worth == found


def test_nothing_is_guessed_before_a_pass_of_one_token_was_measured() -> None:
    assert 0 == guesses_worth(PassCosts(), SURE)
    assert 0 == guesses_worth(costs(k2=10), SURE)


def test_a_length_is_tried_at_most_twice_that_of_the_longest_known_one() -> None:
    assert 1 == guesses_worth(costs(k1=10), SURE)
    assert 3 == guesses_worth(costs(k1=10, k2=10), SURE)
    assert 7 == guesses_worth(costs(k1=10, k4=10), SURE)


def test_a_length_that_does_not_pay_is_tried_twice_and_then_seldom() -> None:
    measured, tries = costs(k1=10), 0
    for _ in range(3 * DOUBTED_AFTER):
        count = guesses_worth(measured, SURE)
        tries += count > 0
        measured.add(1 + count, 0.08 if count else 0.01)
    assert 2 <= tries <= 5


def test_costs_between_known_lengths_are_interpolated() -> None:
    measured = costs(k1=10, k4=40, k8=40)
    assert measured.seconds(2) == pytest.approx(0.02)
    assert measured.seconds(5) == pytest.approx(0.04)
    assert measured.seconds(16) == pytest.approx(0.04) and measured.seconds(17) is None


def test_a_pass_counts_for_the_nearest_length() -> None:
    measured = PassCosts()
    for tokens in range(1, 33):
        measured.add(tokens, tokens / 1000)
        measured.add(tokens, tokens / 1000)
    for length in LENGTHS:
        assert measured.seconds(length) == pytest.approx(length / 1000, rel=0.25)


def test_running_again_what_was_right_makes_unlikely_guesses_dearer() -> None:
    likely = [0.8**number for number in range(1, 16)]
    steep = costs(k1=10, k2=11, k4=16, k8=24, k16=60)
    plain, again = (guesses_worth(steep, likely, is_rerun=is_rerun) for is_rerun in (False, True))
    assert plain > again > 0
