"""The start-up benchmark: every start is timed in each round, and compared within its round."""

from __future__ import annotations

import pytest

from benchmarks import start
from benchmarks.start import PROMPT_TOOLKIT, PYTHON, Run, Start


def test_ratios_are_of_the_same_round() -> None:
    runs = {
        PYTHON: [Run(1.0, 0.5), Run(2.0, 0.5), Run(4.0, 0.5)],
        PROMPT_TOOLKIT: [Run(2.0, 1.0), Run(2.0, 1.0), Run(8.0, 1.0)],
        "chatcli": [Run(3.0, 2.0), Run(4.0, 3.0), Run(8.0, 4.0)],
    }
    measured = Start(runs)
    assert (2.0, 2.0, 3.0) == tuple(vars(measured.ratio("chatcli", PYTHON)).values())
    assert (1.5, 1.0, 2.0) == tuple(vars(measured.ratio("chatcli", PROMPT_TOOLKIT)).values())
    row = start.table(measured).rows[-1]
    assert ("chatcli", "4.00 s", "3.00 s", "3.00 s", "2.00 (2.00…3.00)", "1.50 (1.00…2.00)") == row


@pytest.mark.slow
def test_the_help_the_list_and_a_typed_letter_are_timed() -> None:
    measured = start.measure(1, lambda *_: None).as_json()
    names = [
        PYTHON,
        PROMPT_TOOLKIT,
        "chatcli --help",
        "chatcli list, 200 sessions",
        "chatcli, a letter typed",
    ]
    assert names == list(measured)
    assert all(1 == len(each["runs"]) and each["runs"][0]["seconds"] > 0 for each in measured.values())
