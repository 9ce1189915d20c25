"""How many tokens are guessed, by what passes cost and how likely guesses are right."""

from __future__ import annotations

import pytest

from chatcli.engine.pace import LENGTHS, PassCosts, guesses_worth


def costs(**milliseconds: float) -> PassCosts:
    """`k4=20.0` is a pass of four tokens."""
    return PassCosts.from_seconds({int(name[1:]): cost / 1000 for name, cost in milliseconds.items()})


SURE = [0.99**number for number in range(1, 32)]
HALF = [0.5**number for number in range(1, 32)]
RARE = [0.2**number for number in range(1, 32)]
# As measured: an 8B model on an H100, one of experts there, the pocket model and a larger one on two cores.
DENSE = costs(k1=11.7, k2=11.8, k4=11.9, k8=11.6, k16=11.1, k32=11.5)
EXPERTS = costs(k1=9, k2=60, k4=82, k8=92, k16=64, k32=72)
POCKET = costs(k1=9.3, k2=12.8, k4=18.1, k8=28.9, k16=50, k32=97)
COSTLY = costs(k1=266, k2=530, k4=813, k8=1658)


@pytest.mark.parametrize(
    ("measured", "chances", "worth"),
    [
        (DENSE, SURE, 31),
        (DENSE, HALF, 31),
        (DENSE, [0.3], 1),
        (DENSE, [0.15], 0),
        (EXPERTS, SURE, 31),
        (EXPERTS, [0.8**number for number in range(1, 32)], 0),
        (POCKET, SURE, 7),
        (POCKET, SURE[:5], 5),
        (POCKET, HALF, 0),
        (POCKET, RARE, 0),
        (COSTLY, HALF, 0),
        (COSTLY, SURE, 3),
        (PassCosts({}), SURE, 0),
    ],
)
def test_as_many_are_guessed_as_give_most_tokens_a_second(
    measured: PassCosts, chances: list[float], worth: int
) -> None:
    found = guesses_worth(measured, chances)
    if measured is DENSE and worth > 1:
        # A pass of any length costs the same there: what the last ones gain is next to nothing.
        assert 3 <= found <= worth
    else:
        assert worth == found


def test_costs_are_interpolated_and_end_with_the_longest_pass_that_was_measured() -> None:
    measured = costs(k1=10, k4=40, k8=80)
    assert [1, 2, 4, 6, 8, None] == [measured.ratio(tokens) for tokens in (1, 2, 4, 6, 8, 9)]


def test_a_measurement_that_is_a_tenth_off_gives_the_same_costs() -> None:
    expected = costs(k1=9.3, k2=12.8, k4=18.1, k8=28.9, k16=50, k32=97)
    for noise in (0.93, 1.07):
        assert (
            expected.ratios == costs(k1=9.3, k2=12.8, k4=18.1 * noise, k8=28.9, k16=50 * noise, k32=97).ratios
        )


def test_a_longer_pass_is_not_taken_to_be_cheaper() -> None:
    measured = costs(k1=10, k2=40, k4=20, k8=41)
    assert [1, 4, 4, 4] == [measured.ratio(tokens) for tokens in LENGTHS[:4]]
    assert [1, 1] == [costs(k1=10, k2=7).ratio(tokens) for tokens in (1, 2)]


def test_running_again_what_was_right_makes_unlikely_guesses_dearer() -> None:
    likely = [0.85**number for number in range(1, 16)]
    steep = costs(k1=10, k2=10, k4=14, k8=20, k16=40)
    plain, again = (guesses_worth(steep, likely, is_rerun=is_rerun) for is_rerun in (False, True))
    assert plain > again > 0
