"""Slash commands: what is one, what completes it, and what comes near it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.commands import handlers, registry
from chatcli.commands.registry import all_commands, completions, find, is_command
from chatcli.commands.results import PlainText, Quit
from chatcli.errors import UsageError
from chatcli.session.background import BackgroundWork
from chatcli.session.open_session import OpenSession
from chatcli.session.opening import SessionRequest
from chatcli.store.sessions.folder import SessionFolder

# Importing them registers them.
assert handlers.__doc__


class Chat:
    """As much of a `LiveChat` as these commands ask for: a real folder, and no model."""

    def __init__(self, folder: SessionFolder) -> None:
        self.session = OpenSession(folder, SessionRequest(), BackgroundWork())


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    folder = SessionFolder(tmp_path)
    for name in ("dog", "dog-2", "cat"):
        folder.create(name, model=None, system=None).close()
    return Chat(folder)


@pytest.mark.parametrize(
    "line", ["/help", "/branch 3 new name", "/h", "/?", "  /quit  ", "/nonsense", "/two-words"]
)
def test_a_slash_and_a_word_are_a_command(line: str) -> None:
    assert is_command(line)


@pytest.mark.parametrize(
    "line",
    [
        "/home/me",
        "/home/me is my folder",
        "//",
        "// a comment",
        "/",
        "/ help",
        "",
        "  ",
        "help",
        "a /help",
        "/etc/passwd",
        "/3",
        "/usr.txt",
        "/-",
        "/*",
        "\\help",
    ],
)
def test_anything_else_is_a_message(line: str) -> None:
    assert not is_command(line)


def test_every_name_and_alias_that_is_found_is_a_command() -> None:
    for name in ["h", "?", "exit", "q", "bye", "fork", *(known.name for known in all_commands())]:
        assert find(name) in all_commands()
        assert is_command(f"/{name}"), name


def test_a_command_is_found_by_name_and_alias() -> None:
    assert "quit" == find("quit").name == find("exit").name == find("q").name


@pytest.mark.parametrize(("typed", "meant"), [("hlep", "help"), ("brnch", "branch"), ("exti", "exit")])
def test_an_unknown_command_names_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"no command /{typed}: did you mean /{meant}\?"):
        find(typed)


def test_a_command_unlike_any_points_to_the_help() -> None:
    with pytest.raises(UsageError, match="/help lists them all"):
        find("zzzzzz")


@pytest.mark.parametrize("line", ["/quit", "  /quit  ", "/QUIT", "/q", "/quit now"])
def test_a_command_line_runs_its_handler(chat: Chat, line: str) -> None:
    assert isinstance(registry.run(chat, line), Quit)


@pytest.mark.parametrize("line", ["/think off", "/think   off  ", "/think\toff", "/think\noff"])
def test_a_handler_gets_its_argument_without_the_spaces_around_it(chat: Chat, line: str) -> None:
    assert is_command(line)
    assert isinstance(registry.run(chat, line), PlainText)
    assert False is chat.session.think


def test_a_handler_that_refuses_changes_nothing(chat: Chat) -> None:
    with pytest.raises(UsageError, match="/think on, off, low"):
        registry.run(chat, "/think maybe")
    assert None is chat.session.think


def test_a_slash_completes_every_command(chat: Chat) -> None:
    matches = completions(chat, "/")
    assert [f"/{known.name}" for known in all_commands()] == [text for text, _, _ in matches]
    assert {-1} == {start for _, start, _ in matches}
    assert all(help for _, _, help in matches)


def test_another_name_completes_where_the_commands_own_does_not(chat: Chat) -> None:
    assert [("/fork", -3, find("branch").help)] == completions(chat, "/fo")
    assert ["/branch", "/bye"] == [text for text, _, _ in completions(chat, "/b")]
    assert ["/quit"] == [text for text, _, _ in completions(chat, "/q")]


def test_the_help_tells_the_other_names(chat: Chat) -> None:
    rows = dict(registry.run(chat, "/help").rows)
    assert [f"/{known.name} {known.argument}".strip() for known in all_commands()] == list(rows)
    assert rows["/branch [TURN] [NAME]"].endswith(" · also /fork")
    assert rows["/quit"].endswith(" · also /exit, /q, /bye")
    assert find("tree").help == rows["/tree"]


def test_a_beginning_completes_what_begins_so(chat: Chat) -> None:
    assert [("/help", -3, find("help").help)] == completions(chat, "/he")
    assert ["/help"] == [text for text, _, _ in completions(chat, "/HE")]
    assert [] == completions(chat, "/zzz")


def test_an_argument_completes_from_the_commands_own_values(chat: Chat) -> None:
    matches = sorted(completions(chat, "/resume do"))
    assert [("dog", -2, ""), ("dog-2", -2, "")] == matches
    assert {"dog", "dog-2", "cat"} == {text for text, _, _ in completions(chat, "/resume ")}
    assert [("off", -2, "")] == completions(chat, "/think of")


@pytest.mark.parametrize("line", ["/help x", "/zzz x", "/quit "])
def test_a_command_without_values_completes_nothing(chat: Chat, line: str) -> None:
    assert [] == completions(chat, line)


@pytest.mark.parametrize("line", ["/", "/re", "/think o", "/resume ", "/resume d"])
def test_a_completion_goes_on_from_what_was_typed(chat: Chat, line: str) -> None:
    matches = completions(chat, line)
    assert matches
    for text, start, _ in matches:
        assert (line[: len(line) + start] + text).startswith(line)


def test_every_command_explains_itself() -> None:
    assert 5 < len(all_commands())
    for known in all_commands():
        assert known.help
        assert known.help[0].islower()
        assert known.name == known.name.lower()
