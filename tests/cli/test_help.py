"""The help at 80 columns: unbroken option names, complete sentences, no slow imports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest
import typer

from chatcli.cli.main import app
from tests.support.program import Program


def help_text(program: Program, *args: str) -> str:
    return program.run(*args, "--help", env=program.environment(COLUMNS="80")).text


def option_names(path: Sequence[str]) -> list[str]:
    """All names of a command's options, but for the hidden ones."""
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    names = [name for parameter in shown for name in (*parameter.opts, *parameter.secondary_opts)]
    # An argument is shown by its metavar.
    return [name if name.startswith("-") else name.upper() for name in names]


@pytest.mark.parametrize(
    "path",
    [(), ("chat",), ("resume",), ("ask",), ("bench", "turns"), ("cache", "gc")],
    ids=" ".join,
)
def test_option_names_are_not_broken(chatcli: Program, path: tuple[str, ...]) -> None:
    text = help_text(chatcli, *path)
    words_shown = set(text.replace(",", " ").split())
    assert set(option_names(path)) - words_shown == set()
    assert "…" not in text and max(map(len, text.splitlines())) <= 80


def test_options_stand_under_their_headings_with_unbroken_examples(chatcli: Program) -> None:
    text = help_text(chatcli, "chat")
    general, _, model_options = text.partition("\nRunning the model:\n")
    assert "--temp" in general and "preserve_thinking=true" in general
    assert "--kv-bits" in model_options and "--kv-bits" not in general


def test_what_a_newcomer_needs_stands_on_the_first_screen(chatcli: Program) -> None:
    rows = help_text(chatcli).splitlines()[:23]
    needed = ["-m", "-c", "-r", "-s", "-S", "--sessions", "chat", "resume", "branch", "ask"]
    assert set(needed) <= {row.split()[0].rstrip(",") for row in rows if row.strip()}
    assert rows.index("Examples:") == len(rows) - 4 and all("chatcli " in row for row in rows[-3:])


@pytest.mark.parametrize("path", [(), ("bench",), ("cache",)], ids=["chatcli", "bench", "cache"])
def test_every_command_has_a_complete_sentence(chatcli: Program, path: tuple[str, ...]) -> None:
    text = help_text(chatcli, *path)
    commands = text.partition("\nCommands:\n")[2] or text.partition("\nChat:\n")[2]
    commands = re.sub(r"Examples:\n( .*\n)+", "", commands)
    commands = re.split("\n(Other options|Options):", commands)[0]
    commands = "\n".join(line for line in commands.splitlines() if not line.endswith(":"))
    rows = " ".join(commands.split())
    assert "..." not in rows
    # A command's first row begins with its name; further rows are indented.
    row_starts = [line for line in commands.splitlines() if line[:3].strip()]
    assert len(row_starts) > 3 and rows.count(".") >= len(row_starts)


def test_the_help_imports_neither_mlx_nor_the_terminal_libraries(chatcli: Program) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "chatcli", "chat", "--help"]
    process = subprocess.run(command, env=chatcli.environment(), capture_output=True, text=True)
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in process.stderr.splitlines()}
    assert "chatcli" in imported
    assert set() == imported & {"mlx", "mlx_lm", "transformers", "rich", "prompt_toolkit"}
