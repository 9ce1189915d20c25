"""Named inputs that are not files, or are endless: one sentence, at once.

Another such thing is a line in `THINGS`, another place to name one in `READERS`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatcli import files
from chatcli.cli import ask_each
from chatcli.commands import mentions
from chatcli.conversation import images
from chatcli.errors import ChatcliError, ModelBroken
from chatcli.files import Location
from chatcli.model.load import load
from chatcli.settings import config_file
from chatcli.store.sessions import listing, marker
from tests.support.program import Program
from tests.support.tiny import write_model

HUGE = 10 << 30


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, HUGE)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(path.name)


THINGS: list[Callable[[Path], Any]] = [sparse, endless, os.mkfifo, unix_socket, Path.mkdir]


def read_import(path: Path) -> object:
    with files.explained("read"):
        return files.read_named(path, 1000) or None


READERS: dict[str, Callable[[Path], object]] = {
    "import": read_import,
    "--each": lambda path: ask_each.read_questions(str(path), ""),
    "--image": images.read,
    "completion of /image": lambda path: images.is_image(path) or None,
    "@file": lambda path: (text := f"see @{path.name}") != mentions.expand(text, path.parent).text or None,
    "CHATCLI_CONFIG": lambda path: config_file.read(path).values or None,
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("reader", READERS)
def test_nothing_is_waited_for_or_read_without_end(
    reader: str, thing: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    thing(tmp_path / "thing")
    try:
        assert READERS[reader](tmp_path / "thing") is None
    except ChatcliError as error:
        assert 1 == len(str(error).splitlines())


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer.json", "generation_config.json"])
def test_a_huge_file_of_a_model_is_not_read(name: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "qwen3")
    sparse(folder / name)
    with pytest.raises(ModelBroken, match=f"its {name} has more than"):
        load(str(folder))


def test_a_huge_file_of_a_sessions_folder_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in (marker.MARKER, listing.LAST):
        sparse(folder / name)
    assert "chatcli did not create it" in str(marker.default_folder()[1])
    assert len(listing.last_written(Location.of(folder)) or "") < 1000


@pytest.mark.slow
@pytest.mark.parametrize("command", [["ask"], ["chat"], ["ask", "--each", "-"], ["import", "-"]])
def test_endless_standard_input_is_not_read_to_its_end(command: list[str], chatcli: Program) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        process = chatcli.start(*command, stdin=zeros, stderr=-1)
        _, err = process.communicate(timeout=60)
    assert 1 == process.returncode
    assert b"it has more than" in err and 1 == err.count(b"\n")


def test_a_pipe_that_a_shell_makes_is_read_as_a_file(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"[]")
    os.close(writer)
    assert b"[]" == files.read_named(Path(f"/dev/fd/{reader}"), 1000)
    os.close(reader)
