"""`chatcli bench decode`: the model says what it is told, whatever is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.bench import decode, run
from chatcli.bench.decode import Measured
from tests.support.program import Program
from tests.support.tiny import write_model


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3_5", pytest.param("gemma3_text", marks=pytest.mark.slow)])
def test_every_reply_is_said_with_and_without_guesses(tmp_path: Path, family: str) -> None:
    model = write_model(tmp_path / "model", family)
    steps: list[str] = []
    name, measured = decode.measure(
        run.Plan(str(model), run.QUICK), lambda done, total, what: steps.append(what)
    )
    assert str(model) == name and len(steps) == len(measured) == len(decode.said()) * 2
    assert all(each.passes <= each.tokens and each.peer_tps > 0 < each.own_tps for each in measured)


def test_the_table_says_how_much_faster_it_is() -> None:
    measured = [Measured("code edit", 0.7, 200, 50.0, 125.4, 61, 2.5)]
    table = decode.table("tiny", measured)
    assert [("code edit", "0.7", "200", "61", "50", "125", "2.50")] == [
        (*row[:6], row[6].removesuffix("×").strip()) for row in table.rows
    ]
    assert {"model": "tiny", "replies": [vars(measured[0])]} == decode.as_json("tiny", measured)


@pytest.mark.slow
def test_the_program_measures_it(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "qwen3")
    program = Program(tmp_path / "home", model)
    words = ("bench", "decode", "-m", model, "--quick", "--repeats", 1, "--json")
    replies = program.run(*words).json()["decode"]["replies"]
    assert {each.name for each in decode.said()} == {each["name"] for each in replies}
