"""Full or closed standard streams and impossible screen sizes: a sentence or a correct screen."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.families import at_night
from tests.support.program import Program

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


def run_on(program: Program, *args: object, stdout: int | Path = -1, stderr: int | Path = -1, **more: str):  # type: ignore[no-untyped-def]
    files = [path.open("wb") if isinstance(path, Path) else path for path in (stdout, stderr)]
    process = program.start(*args, stdout=files[0], stderr=files[1], env=program.environment(**more))
    out, err = process.communicate(timeout=60)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("args", [("list",), ("list", "--json"), ("--help",), ("config",), ("--version",)])
def test_a_full_output_is_one_sentence(chatcli: Program, args: tuple[str, ...], unbuffered: str) -> None:
    code, _, errors = run_on(chatcli, *args, stdout=FULL, PYTHONUNBUFFERED=unbuffered)
    assert (1, "chatcli: The output cannot be written: No space left on device.\n") == (code, errors)


@pytest.mark.slow
def test_a_server_whose_url_cannot_be_told_ends(chatcli: Program) -> None:
    code, _, errors = run_on(chatcli, "serve", "--port", "0", stdout=FULL)
    # The log of the model that was loaded meanwhile may stand before it.
    last = errors.splitlines()[-1]
    assert (1, "chatcli: The output cannot be written: No space left on device.") == (code, last)


@pytest.mark.slow
def test_a_full_output_loses_no_reply(chatcli: Program) -> None:
    code, _, errors = run_on(chatcli, "ask", "hi", "-n", "8", "--no-think", "-S", "talk", stdout=FULL)
    assert 1 == code and errors.endswith("The output cannot be written: No space left on device.\n")
    assert "Traceback" not in errors and "unexpected" not in errors
    assert 1 == len(chatcli.run("show", "talk", "--json").json()["turns"])


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_error_harms_nothing(chatcli: Program, unbuffered: str) -> None:
    options = ("ask", "hi", "-n", "8", "--no-cache", "--json")
    code, out, _ = run_on(chatcli, *options, stderr=FULL, PYTHONUNBUFFERED=unbuffered)
    assert 0 == code and out.startswith("{")
    code, out, _ = run_on(chatcli, "show", "nobody", stderr=FULL, PYTHONUNBUFFERED=unbuffered)
    assert (1, "") == (code, out)
    code, _, _ = run_on(chatcli, "list", stdout=FULL, stderr=FULL, PYTHONUNBUFFERED=unbuffered)
    assert 1 == code


@pytest.mark.parametrize(
    "size", ["0", at_night("-5"), at_night("1"), "many", at_night("99999999999999999999")]
)
@pytest.mark.parametrize("args", [("models",), ("--help",), at_night(("doctor", "--quick"))])
def test_an_absurd_size_is_not_taken_at_its_word(chatcli: Program, args: tuple[str, ...], size: str) -> None:
    code, out, errors = run_on(chatcli, *args, COLUMNS=size, LINES=size)
    assert code in (0, 1) and "Traceback" not in errors and "unexpected" not in errors
    lines = out.splitlines()
    assert 10 < max(map(len, lines)) < 200


@pytest.mark.parametrize(
    "command",
    [
        "ask hi --no-think -n 8",
        pytest.param("ask hi -n 8 --no-cache --json", marks=pytest.mark.slow),
        "list",
        "list --json",
        "show talk",
        "--version",
    ],
)
def test_a_closed_output_is_one_sentence(chatcli: Program, command: str) -> None:
    if "show" in command:
        chatcli.run("ask", "hi", "-n", "8", "--no-cache", "-S", "talk")
    program = shlex.join([sys.executable, "-m", "chatcli"])
    process = subprocess.run(
        ["sh", "-c", f"{program} {command} >&-"],
        env=chatcli.environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    *before, last = process.stderr.splitlines()
    assert (1, "chatcli: The output cannot be written: Bad file descriptor.") == (process.returncode, last)
    assert not any("Traceback" in line or "unexpected" in line for line in before)
