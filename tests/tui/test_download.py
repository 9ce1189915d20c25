"""A download is shown where loading is: on standard error of `ask`, below the box of the shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub_server import Hub, serving
from tests.support.program import Program
from tests.support.shell import ready
from tests.support.terminal import CTRL_D, ENTER, ESCAPE, Terminal
from tests.support.tiny import write_model

NAME = "org/tiny"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub that takes about two seconds for a tiny model."""
    folder = write_model(tmp_path / "tiny", "qwen3", intermediate_size=4_000)
    with serving(repos={NAME: folder}, delay=0.015) as hub:
        yield hub


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [pytest.param(True, marks=pytest.mark.slow), False])
def test_ask_tells_on_standard_error_how_far_the_download_is(
    chatcli: Program, hub: Hub, as_json: bool
) -> None:
    args = ["ask", "Hello.", "-n", 2, "-m", NAME, *["--json"][:as_json]]
    done = chatcli.run(*args, env=chatcli.environment(**hub.settings(chatcli.home)))
    assert "chatcli: downloading the model: " in done.errors and " of 9.5 MB" in done.errors
    assert b"\x1b" not in done.err and done.out.startswith(b"{") == as_json


@pytest.mark.slow
def test_the_shell_shows_the_download_and_leaves_it_with_esc(chatcli: Program, hub: Hub) -> None:
    hub.delay = 0.1
    environment = chatcli.environment(**hub.settings(chatcli.home))
    command = [sys.executable, "-m", "chatcli", "-m", str(chatcli.model)]
    with Terminal(command, environment, chatcli.home) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.line(f"/model {NAME}")
        terminal.wait_for("downloading tiny… 1.1 MB of 9.5 MB")
        terminal.send(ESCAPE)
        terminal.wait_for("Stopped.")
        terminal.line("/model")
        terminal.wait_for(f"The model is {chatcli.model}")
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()


def test_a_model_that_does_not_fit_is_downloaded_only_after_a_yes(chatcli: Program, hub: Hub) -> None:
    environment = chatcli.environment(**hub.settings(chatcli.home))
    command = [sys.executable, "-m", "chatcli", "-m", NAME, "--memory-limit", "5MB"]
    with Terminal(command, environment, chatcli.home) as terminal:
        terminal.wait_for("org/tiny is not on this machine: 9.5 MB to download. It does not fit")
        terminal.wait_for("Download it? [y/N]")
        terminal.send(ENTER)
        terminal.wait_for("Nothing was downloaded.")
        assert 1 == terminal.wait_for_exit()
    assert [] == hub.sent("model.safetensors")


@pytest.mark.slow
def test_a_models_size_is_said_before_it_is_downloaded(chatcli: Program, hub: Hub) -> None:
    environment = chatcli.environment(**hub.settings(chatcli.home))
    command = [sys.executable, "-m", "chatcli", "-m", NAME]
    with Terminal(command, environment, chatcli.home) as terminal:
        terminal.wait_for("org/tiny is not on this machine: 9.5 MB to download. It fits")
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(CTRL_D)
        terminal.wait_for_exit()
