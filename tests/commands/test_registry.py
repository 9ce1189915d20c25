"""Slash commands: recognition, completion, and suggestions for unknown ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatcli.commands import handlers, registry
from chatcli.commands.registry import ELSEWHERE, all_commands, completions, find, is_command
from chatcli.commands.results import Opened, PlainText, Quit, Search
from chatcli.conversation.tree import Message
from chatcli.errors import UsageError
from chatcli.session.background import BackgroundWork
from chatcli.session.open_session import OpenSession
from chatcli.session.opening import SessionRequest
from chatcli.store.sessions.folder import SessionFolder
from chatcli.tui.render.results import plain

# Importing them registers them.
assert handlers.__doc__


class Chat:
    """As much of a `LiveChat` as these commands ask for: a real folder, and no model."""

    def __init__(self, folder: SessionFolder, name: str | None = None) -> None:
        self.session = OpenSession(folder, SessionRequest(name), BackgroundWork())


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
    aliases = ["h", "?", "exit", "q", "bye", "fork", "list", "sessions"]
    for name in [*aliases, *(known.name for known in all_commands())]:
        assert find(name) in all_commands()
        assert is_command(f"/{name}"), name


def test_a_command_is_found_by_name_and_alias() -> None:
    assert "quit" == find("quit").name == find("exit").name == find("q").name


@pytest.mark.parametrize(("typed", "meant"), [("hlep", "help"), ("brnch", "branch"), ("exti", "exit")])
def test_an_unknown_command_names_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"no command /{typed}: did you mean /{meant}\?"):
        find(typed)


@pytest.mark.parametrize("typed", ["zzzzzz", "theme", "permissions", "mcp", "login"])
def test_a_command_unlike_any_points_to_the_help(typed: str) -> None:
    with pytest.raises(UsageError, match="/help lists them all"):
        find(typed)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("delete", "chatcli delete NAME"), ("cost", "/stats"), ("usage", "/stats"), ("paste", "@FILE")],
)
def test_a_command_of_another_program_is_known_by_its_meaning(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=meant):
        find(typed)


def test_no_command_of_another_program_is_our_own() -> None:
    assert not {*ELSEWHERE} & {name for known in all_commands() for name in (known.name, *known.aliases)}


@pytest.mark.parametrize("line", ["/quit", "  /quit  ", "/QUIT", "/q"])
def test_a_command_line_runs_its_handler(chat: Chat, line: str) -> None:
    assert isinstance(registry.run(chat, line), Quit)


@pytest.mark.parametrize(
    "known", [known for known in all_commands() if not known.argument], ids=lambda k: k.name
)
def test_a_command_without_an_argument_takes_none(chat: Chat, known: registry.Command) -> None:
    with pytest.raises(UsageError, match=f"^Usage: /{known.name}$"):
        registry.run(chat, f"/{known.name} 3")


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("/import", "/import FILE"),
        ("/export", "/export [md|html|json] FILE"),
        ("/export md", "/export [md|html|json] FILE"),
        ("/export pdf talk", "/export [md|html|json] FILE"),
        ("/rename", "/rename NAME"),
        ("/rewind x", "/rewind [TURN]"),
        ("/edit x", "/edit [TURN]"),
        ("/copy x", "/copy [TURN|code]"),
        ("/date x", "/date [today|YYYY-MM-DD]"),
        ("/date 2026-02-30", "/date [today|YYYY-MM-DD]"),
        ("/regenerate 0", "/regenerate [1-9]"),
        ("/regenerate 10", "/regenerate [1-9]"),
        ("/choose", "/choose NUMBER"),
    ],
)
def test_a_wrong_argument_is_answered_with_the_usage(chat: Chat, line: str, usage: str) -> None:
    with pytest.raises(UsageError) as refused:
        registry.run(chat, line)
    assert f"Usage: {usage}" == str(refused.value)


def test_a_hit_of_a_search_is_gone_to_at_the_end_of_its_turn(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    with folder.create("dog", model=None, system=None) as session:
        for number, text in enumerate(("two pears", "yes", "three plums", "no")):
            session.append(Message("assistant" if number % 2 else "user", text), session.conversation.head)
    chat = Chat(folder, "dog")
    result = registry.run(chat, "/search pears")
    assert isinstance(result, Search)
    hit = result.find(result.query).hits[0]
    opened = handlers.go_to_hit(chat, hit)
    assert isinstance(opened, Opened) and "Now after turn 1. What came later stays in /tree." == opened.said
    assert ["two pears", "yes"] == [entry.message.content for entry in chat.session.conversation.path()]
    # Opened again before the next message, the session is where it was.
    assert 4 == len(folder.read("dog").conversation.path())


def test_clear_begins_a_new_conversation_as_in_other_tools() -> None:
    assert find("new") is find("clear")


@pytest.mark.parametrize("line", ["/think off", "/think   off  ", "/think\toff", "/think\noff"])
def test_a_handler_gets_its_argument_without_the_spaces_around_it(chat: Chat, line: str) -> None:
    assert is_command(line)
    assert isinstance(registry.run(chat, line), PlainText)
    assert False is chat.session.think


def test_a_handler_that_refuses_changes_nothing(chat: Chat) -> None:
    with pytest.raises(UsageError, match=r"^Usage: /think \[on\|off\|low\|medium\|high\|default\]$"):
        registry.run(chat, "/think maybe")
    assert None is chat.session.think


def test_a_slash_completes_every_command(chat: Chat) -> None:
    matches = completions(chat, "/")
    assert [known.usage.partition(" ")[0] for known in all_commands()] == [
        text.strip() for text, _, _ in matches
    ]
    assert [bool(known.argument) for known in all_commands()] == [
        text.endswith(" ") for text, _, _ in matches
    ]
    assert {-1} == {start for _, start, _ in matches}
    assert all(help for _, _, help in matches)


def test_another_name_completes_where_the_commands_own_does_not(chat: Chat) -> None:
    assert [("/fork ", -3, find("branch").help)] == completions(chat, "/fo")
    assert ["/branch ", "/bye"] == [text for text, _, _ in completions(chat, "/b")]
    assert ["/quit"] == [text for text, _, _ in completions(chat, "/q")]


def test_the_help_has_every_command_by_group_and_sorted(chat: Chat) -> None:
    groups = dict(registry.run(chat, "/help").groups)
    for group, rows in groups.items():
        names = [name for name, _ in rows]
        assert names == sorted(names)
        assert {(f"/{known.name}", known.help) for known in all_commands() if known.group == group} == {*rows}
    assert len([known for known in all_commands() if known.group]) == sum(map(len, groups.values()))
    assert ["save"] == [known.name for known in all_commands() if known.group is None]


@pytest.mark.parametrize("line", ["/help branch", "/help /branch", "/help fork", "/help BRANCH"])
def test_the_help_explains_one_command(chat: Chat, line: str) -> None:
    result = registry.run(chat, line)
    assert "/branch [TURN] [NAME]" == result.usage
    assert ("fork",) == result.aliases
    assert result.details.endswith("This session does not change.")
    assert "/branch 3 another-way" == result.example


def test_the_help_of_an_unknown_command_names_the_nearest(chat: Chat) -> None:
    with pytest.raises(UsageError, match=r"no command /regen: did you mean /regenerate\?"):
        registry.run(chat, "/help regen")


def test_every_example_is_a_line_that_its_command_takes() -> None:
    for known in all_commands():
        if known.argument:
            name, _, argument = known.example.partition(" ")
            assert find(name.removeprefix("/")) is known, known.name
            assert (known, argument.strip()) == registry.check(known.example)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Chat]:
    folder = SessionFolder(tmp_path)
    with folder.create("talk", model=None, system=None) as session:
        question = session.append(Message("user", "hi"), None)
        session.append(Message("assistant", "Hello!"), question.id, finish_reason="stop")
    chat = Chat(folder, "talk")
    yield chat
    chat.session.close()


def test_a_branch_says_that_it_is_a_new_session(talk: Chat) -> None:
    result = registry.run(talk, "/branch")
    assert ("talk-2", "This is a new session. 'talk' is unchanged: /resume opens it.") == (
        result.name,
        result.said,
    )
    assert result.said in str(plain(result))


def test_a_bookmark_is_removed_where_there_is_one(talk: Chat) -> None:
    with pytest.raises(UsageError, match=r"no bookmark here: /label TEXT sets one\."):
        registry.run(talk, "/label")
    assert "Bookmarked as 'here'." == registry.run(talk, "/label here").text
    assert "Bookmark removed." == registry.run(talk, "/label").text


def test_a_beginning_completes_what_begins_so(chat: Chat) -> None:
    assert [("/help ", -3, find("help").help)] == completions(chat, "/he")
    assert ["/help "] == [text for text, _, _ in completions(chat, "/HE")]
    assert [] == completions(chat, "/zzz")


def test_an_argument_completes_from_the_commands_own_values(chat: Chat) -> None:
    matches = sorted(completions(chat, "/resume do"))
    assert [("dog", -2, ""), ("dog-2", -2, "")] == matches
    assert {"dog", "dog-2", "cat"} == {text for text, _, _ in completions(chat, "/resume ")}
    assert [("off", -2, "")] == completions(chat, "/think of")
    assert ["today"] == [text for text, _, _ in completions(chat, "/date ")]
    assert ["html "] == [text for text, _, _ in completions(chat, "/export h")]


@pytest.mark.parametrize("line", ["/tree x", "/zzz x", "/quit "])
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


def test_what_a_command_does_fits_its_column_of_the_help() -> None:
    assert 24 == max(len(known.help) for known in all_commands())
    assert all(len(known.name) <= len("draft-model") for known in all_commands())


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("exit", "/quit"),
        ("help", "/help"),
        ("help me", "help me"),
        ("quit\n", "/quit"),
        ("?", "/help"),
        ("/", "/help"),
        (" exit", " exit"),
        ("exit now", "exit now"),
    ],
)
def test_words_of_other_tools_are_commands_and_a_space_sends_them(
    chat: Chat, line: str, command: str
) -> None:
    assert command == handlers.as_command(chat, line)


@pytest.mark.parametrize("line", ["!ls", "!git status", "!./run.sh"])
def test_a_command_of_a_shell_is_refused_where_a_person_types_it(chat: Chat, line: str) -> None:
    with pytest.raises(UsageError, match="There is no shell here"):
        handlers.as_command(chat, line, in_terminal=True)
    assert line == handlers.as_command(chat, line)
    for message in (f" {line}", "! Careful", "!!!", "wow!ls"):
        assert message == handlers.as_command(chat, message, in_terminal=True)


@pytest.mark.parametrize(
    ("argument", "name", "start"),
    [("talk", "talk.md", "# dog"), ("html talk", "talk.html", "<!"), ("json talk.old", "talk.old", "{")],
)
def test_an_export_has_its_formats_ending_and_is_told_with_its_folder(
    chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, name: str, start: str
) -> None:
    monkeypatch.chdir(tmp_path)
    dog = Chat(chat.session.folder, "dog")
    assert PlainText(f"Written to {tmp_path / name}.") == registry.run(dog, f"/export {argument}")
    assert (tmp_path / name).read_text().startswith(start)


def test_a_new_conversation_says_what_it_keeps(chat: Chat) -> None:
    registry.run(chat, "/system Be brief.")  # type: ignore[arg-type]
    chat.session.log.set_settings({"temp": 0.2, "think": False})
    kept = registry.run(chat, "/new")  # type: ignore[arg-type]
    assert isinstance(kept, PlainText)
    assert ["/system off", "/set KEY off", "/think default"] == re.findall(r"\((/.+?) drops it\)", kept.text)
