"""What passes cost is measured once for each model and kept: every process guesses alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.engine.known_costs import KnownCosts
from chatcli.engine.pace import PassCosts

FIRST, OTHER = PassCosts({1: 1.0, 2: 1.5}), PassCosts({1: 1.0, 2: 3.0})


def never() -> PassCosts:
    raise AssertionError("measured again")


@pytest.mark.parametrize("is_kept", [False, True])
def test_costs_are_measured_once_up_to_so_many_tokens(tmp_path: Path, is_kept: bool) -> None:
    path = tmp_path / "cache" / "passes.json" if is_kept else None
    costs = KnownCosts("model", path)
    assert FIRST is costs.after(10, lambda: FIRST)
    assert FIRST is costs.after(4096, never)
    assert OTHER is costs.after(4097, lambda: OTHER) is costs.after(16_000, never)
    if is_kept:
        again = KnownCosts("model", path)
        assert (
            FIRST.ratios == again.after(3, never).ratios and OTHER.ratios == again.after(5000, never).ratios
        )
        assert OTHER is KnownCosts("another", path).after(10, lambda: OTHER)


def test_of_two_processes_that_measure_at_once_both_use_what_the_first_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "passes.json"

    def measure() -> PassCosts:
        KnownCosts("model", path).after(10, lambda: FIRST)
        return OTHER

    assert FIRST.ratios == KnownCosts("model", path).after(10, measure).ratios


def test_where_there_is_no_room_to_measure_it_is_tried_again(tmp_path: Path) -> None:
    costs = KnownCosts("model", tmp_path / "passes.json")
    assert {} == costs.after(10, lambda: None).ratios
    assert FIRST is costs.after(10, lambda: FIRST)


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b'{"model 4096": 5}', b'{"model 4096": [[1, "x"]]}', b"\xff"]
)
def test_a_damaged_file_is_measured_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "passes.json"
    path.write_bytes(content)
    assert FIRST is KnownCosts("model", path).after(10, lambda: FIRST)
    assert FIRST.ratios == KnownCosts("model", path).after(10, never).ratios


def test_a_folder_that_cannot_be_written_costs_a_measurement_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert FIRST is KnownCosts("model", tmp_path / "file" / "passes.json").after(10, lambda: FIRST)
