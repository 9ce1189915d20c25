"""The help on a terminal of 80 columns: whole names, whole sentences, nothing slow to import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
import typer

from chatcli.cli.main import app
from tests.support.program import Program


def shown(program: Program, *args: str) -> str:
    return program.run(*args, "--help", env=program.environment(COLUMNS="80")).text


def known(path: Sequence[str]) -> list[str]:
    """Every name that a command's options have."""
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    return [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]


@pytest.mark.parametrize(
    "path",
    [(), ("chat",), ("resume",), ("ask",), ("bench", "turns"), ("cache", "gc")],
    ids=" ".join,
)
def test_every_name_of_an_option_is_whole(chatcli: Program, path: tuple[str, ...]) -> None:
    text = shown(chatcli, *path)
    words = set(text.replace(",", " ").split())
    assert set(known(path)) - words == set()
    assert "…" not in text and max(map(len, text.splitlines())) <= 80


def test_options_stand_under_their_headings_and_examples_are_whole(chatcli: Program) -> None:
    text = shown(chatcli, "chat")
    general, _, model_options = text.partition("\nHow the model is run:\n")
    assert "--temp" in general and "preserve_thinking=true" in general
    assert "--kv-bits" in model_options and "--kv-bits" not in general


@pytest.mark.parametrize("path", [(), ("bench",), ("cache",)], ids=["chatcli", "bench", "cache"])
def test_every_command_is_told_in_a_whole_sentence(chatcli: Program, path: tuple[str, ...]) -> None:
    commands = shown(chatcli, *path).partition("Commands:\n")[2]
    rows = " ".join(commands.split())
    assert "..." not in rows
    # A name begins a row; what is longer goes on below its beginning.
    began = [line for line in commands.splitlines() if line[:3].strip()]
    assert len(began) > 3 and rows.count(".") >= len(began)


def test_the_help_imports_neither_mlx_nor_what_draws(chatcli: Program) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "chatcli", "chat", "--help"]
    done = subprocess.run(command, env=chatcli.environment(), capture_output=True, text=True)
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "chatcli" in imported
    assert set() == imported & {"mlx", "mlx_lm", "transformers", "rich", "prompt_toolkit"}
