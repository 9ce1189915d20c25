"""`chatcli ask --schema`: answers that fit, and schemas that cannot be had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatcli import pocket
from tests.support.program import Program

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", pocket.FOLDER)


def write(program: Program, schema: Any) -> Path:
    path = program.home / "schema.json"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return path


def test_the_answer_fits_and_thinking_is_free(program: Program) -> None:
    reply = program.ask("Anna is 12. Who is she?", "--schema", write(program, PERSON))
    assert "stop" == reply["finish_reason"] and reply["thinking"]
    assert PERSON["required"] == list(json.loads(reply["text"]))


@pytest.mark.slow
def test_each_of_many_answers_fits(program: Program) -> None:
    path = write(program, PERSON)
    questions = program.home / "questions.txt"
    questions.write_text("Anna is 12.\nBo is 7.\n")
    lines = program.run("ask", "--each", questions, "--schema", path, "--json").lines()
    assert [PERSON["required"]] * 2 == [list(json.loads(line["text"])) for line in lines]


@pytest.mark.parametrize(
    ("schema", "reason"), [({"not": {}}, "Unimplemented"), ("{", "not valid JSON"), ([1], "object")]
)
def test_a_schema_that_cannot_be_had_is_refused_before_the_model_loads(
    program: Program, schema: Any, reason: str
) -> None:
    result = program.run("ask", "Hello", "--schema", write(program, schema), expect=2)
    assert reason.encode() in result.err and 1 == len(result.err.splitlines())
    assert not program.sessions.exists()
