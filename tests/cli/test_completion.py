"""What the shell's completion offers: commands, options, models, and sessions that are safe to insert."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import Program
from tests.support.terminal import TAB, Terminal

HOSTILE = ["notes;touch pwned", "$(touch pwned)", "`touch pwned`", "a b", "it's", "x|y", "*", "(z)", "n'\"m"]
PLAIN = ["plain", "naïve-日本.v2"]
CODE = "import sys; sys.argv[0] = 'chatcli'; from chatcli.__main__ import main; main()"


def save(folder: Path, *names: str) -> None:
    for name in names:
        SessionFolder(folder).create(name, model=None, system=None).close()


def offered(program: Program, shell: str, line: str) -> list[str]:
    """What completion offers at the end of a line, as click's protocol has it for this shell."""
    variables = {"_CHATCLI_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    if shell == "bash":
        variables = {"_CHATCLI_COMPLETE": "complete_bash", "COMP_WORDS": line}
        variables["COMP_CWORD"] = str(len(line.split(" ")) - 1)
    variables["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    environment = program.environment(**variables)
    process = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, cwd=program.home, capture_output=True, check=True
    )
    assert b"" == process.stderr
    return [each.partition("\t")[0] for each in process.stdout.decode().splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_other_shells_are_offered_only_names_that_need_no_quotes(chatcli: Program, shell: str) -> None:
    save(chatcli.sessions, *HOSTILE, *PLAIN)
    names = offered(chatcli, shell, "chatcli resume ")
    if shell == "zsh":
        # The shell evaluates this.
        script = "\n".join(names)
        quoted = re.findall('"(.*?)"', script)
        assert set(PLAIN) == set(quoted)
        assert "_arguments '*: :((" + "\n".join(f'"{name}"' for name in quoted) + "))'" == script
    elif shell == "fish":
        assert set(PLAIN) == set(names)
    else:
        for name in names:
            script = f"printf %s {name}"
            process = subprocess.run(
                ["bash", "-c", script], cwd=chatcli.home, capture_output=True, check=True
            )
            assert process.stdout.decode() in [*HOSTILE, *PLAIN]
        assert len(names) == len(HOSTILE) + len(PLAIN)
    assert not list(chatcli.home.rglob("pwned"))


@pytest.mark.parametrize(
    "line",
    [
        "chatcli --sessions mine resume no",
        "chatcli --sessions=mine resume no",
        "chatcli --sessions = mine resume no",
        "chatcli resume --sessions mine no",
        "chatcli -m pocket --sessions mine show no",
        "chatcli --sessions mine -S no",
        "chatcli --sessions mine -r no",
        "chatcli chat --sessions mine -S no",
    ],
)
def test_sessions_are_those_of_the_folder_in_the_command_line(chatcli: Program, line: str) -> None:
    save(chatcli.home / "mine", "notes")
    save(chatcli.sessions, "novel")
    assert ["notes"] == offered(chatcli, "bash", line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("chatcli re", {"rename", "resume"}),
        ("chatcli --sessions mine re", {"rename", "resume"}),
        ("chatcli cache v", {"verify"}),
        ("chatcli -m po", {"pocket"}),
        ("chatcli ask -m po", {"pocket"}),
        ("chatcli --ses", {"--session", "--sessions"}),
        ("chatcli list --js", {"--json"}),
        ("chatcli --sessions mine list --js", {"--json"}),
        ("chatcli chat --panel o", {"off"}),
        ("chatcli config te", {"temp"}),
    ],
)
def test_commands_options_models_and_choices_are_offered(
    chatcli: Program, line: str, expected: set[str]
) -> None:
    assert expected <= {*offered(chatcli, "bash", line)}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_inserts_a_hostile_name_as_one_word(chatcli: Program) -> None:
    save(chatcli.sessions, "notes;touch pwned")
    scripts = chatcli.home / "bin"
    scripts.mkdir()
    program = scripts / "chatcli"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{CODE}" "$@"\n')
    program.chmod(0o700)
    environment = chatcli.environment(PS1="$ ")
    environment["PATH"] = f"{scripts}:{environment['PATH']}"
    shows_script = {**environment, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = ["chatcli", "--show-completion", "bash"]
    script = subprocess.run(command, env=shows_script, capture_output=True, check=True).stdout
    (chatcli.home / "completion").write_bytes(script)
    with Terminal(["bash", "--norc", "-i"], environment, chatcli.home) as terminal:
        terminal.wait_for("$")
        terminal.line("PS1='$ '; . ./completion; complete -p | grep -c chatcli")
        terminal.wait_for("\n1")
        terminal.send(f"chatcli show no{TAB}")
        terminal.wait_for(r"notes\;touch\ pwned")
        terminal.send("\r")
        terminal.wait_for("No turns yet.")
    assert not list(chatcli.home.rglob("pwned"))
