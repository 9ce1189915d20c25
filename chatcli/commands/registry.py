"""Slash commands: each is declared once, on its handler. Help, completion and checks follow from that."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, get_args

from chatcli.commands.results import Result
from chatcli.errors import UsageError
from chatcli.session.live_chat import LiveChat

Handler = Callable[[LiveChat, str], Result]
# What a command is about, in the order of /help.
Group = Literal["Messages", "Conversation", "Sessions", "Model", "This program"]
GROUPS: tuple[Group, ...] = get_args(Group)
# An argument that may be left out.
OPTIONAL = re.compile(r"\[[^]]*\]")


@dataclass
class Command:
    """Registers the handler that it decorates, which takes the chat and the argument's text ("": none).

    The handler returns a result or raises `ChatcliError` or `WrongArgument`; it never prints.

    `argument` is how help shows what may follow the name: "NAME", "[NAME]", "[NAME|off]", "" for nothing.
    Lower-case words are literal. `help` has at most 24 characters, `details` are for
    /help COMMAND (the handler's docstring, if they are not given), and `example` is a whole line. `group` is
    where /help lists it (None: another command's help names it). `read_only`: it changes nothing, so it may
    run while a reply comes. `complete` lists values for the argument beyond its literal words,
    `complete_typed` the values that may complete what is typed of it.
    """

    name: str
    argument: str
    help: str
    _: KW_ONLY
    group: Group | None
    details: str = ""
    example: str = ""
    aliases: tuple[str, ...] = ()
    read_only: bool = False
    complete: Callable[[LiveChat], Iterable[str]] | None = None
    complete_typed: Callable[[str], Iterable[str]] | None = None
    handler: Handler = field(init=False)

    def __call__(self, handler: Handler) -> Handler:
        self.handler = handler
        self.details = self.details or " ".join((handler.__doc__ or "").split())
        _COMMANDS.update(dict.fromkeys((self.name, *self.aliases), self))
        return handler

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument}".strip()

    @property
    def words(self) -> list[str]:
        """The literal words that the argument may be, or begin with."""
        first, space, _ = self.argument.partition(" ")
        return [word + space for word in first.strip("[]").split("|") if word.isalpha() and word.islower()]


class WrongArgument(Exception):
    """A command cannot take this argument: the person is shown its usage."""


# Commands of Claude Code, ollama, llm and aider, and what does the same here.
ELSEWHERE = {
    **dict.fromkeys(("cost", "usage"), "/stats shows the numbers of every turn."),
    **dict.fromkeys(
        ("tokens", "status", "show"), "/context shows what fills the context, /stats every turn."
    ),
    **dict.fromkeys(
        ("config", "settings"), "/set changes sampling; chatcli config, in your shell, the rest."
    ),
    **dict.fromkeys(("load", "models"), "/model changes the model."),
    **dict.fromkeys(("reset", "restart"), "/new starts a new conversation."),
    **dict.fromkeys(("history", "ls"), "/resume lists the saved sessions, /search finds words in them."),
    "redo": "/regenerate makes another reply, /edit changes the message.",
    **dict.fromkeys(("add", "file", "attach", "read"), "@FILE in a message attaches a file."),
    "back": "/undo takes back the last turn, /rewind TURN goes further.",
    "delete": "chatcli delete NAME, in your shell, deletes a session. /undo takes back the last turn.",
    "paste": "Paste into the box. @FILE attaches a file or an image.",
    "memory": "/system sets what the model is always told.",
    "doctor": "Run chatcli doctor in your shell.",
    "stop": "Esc stops a reply.",
    "editor": "Ctrl-G opens the message in your editor.",
    "run": "There is no shell here.",
}
# By name and by alias.
_COMMANDS: dict[str, Command] = {}


command = Command


def all_commands() -> list[Command]:
    """In the order they were registered."""
    return [known for name, known in _COMMANDS.items() if name == known.name]


def is_command(text: str) -> bool:
    """Whether a line is a command: `/word`, not a path such as `/home/me` and not `//`."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return word.startswith("/") and (word[1:] in _COMMANDS or word[1:].replace("-", "").isalpha())


def find(name: str) -> Command:
    """The command of this name or alias.

    Raises `UsageError`, which names what does the same here, or the nearest command.
    """
    if (known := _COMMANDS.get(name)) is not None:
        return known
    if name in ELSEWHERE:
        raise UsageError(f"There is no command /{name}. {ELSEWHERE[name]}")
    begins_so = [other for other in _COMMANDS if other.startswith(name)]
    # Less similar names are other words: /theme is not /tree.
    nearest = begins_so[:1] or difflib.get_close_matches(name, _COMMANDS, 1, 0.75)
    hint = f"did you mean /{nearest[0]}?" if nearest else "/help lists them all."
    raise UsageError(f"There is no command /{name}: {hint}")


def run(chat: LiveChat, line: str) -> Result:
    """Run a command line and return what its handler returns.

    Raises `UsageError` for an unknown command and for an argument that it does not take, and what the
    handler raises.
    """
    known, argument = check(line)
    try:
        return known.handler(chat, argument)
    except WrongArgument:
        raise UsageError(f"Usage: {known.usage}") from None


def check(line: str) -> tuple[Command, str]:
    """The command of a line and its argument.

    Raises `UsageError` for an unknown command and for an argument that it clearly does not take.
    """
    name, *words = line.strip().removeprefix("/").split(maxsplit=1)
    known, argument = find(name.lower()), "".join(words)
    is_missing = not argument and bool(OPTIONAL.sub("", known.argument).strip())
    is_choice = known.argument.strip("[]") == "|".join(known.words)
    if is_missing or (argument and is_choice and argument not in known.words):
        raise UsageError(f"Usage: {known.usage}")
    return known, argument


def is_read_only(line: str) -> bool:
    """Whether a line is a command that may run while a reply comes."""
    if not is_command(line):
        return False
    known = _COMMANDS.get(line.split()[0].removeprefix("/").lower())
    return known is not None and known.read_only


def completions(chat: LiveChat, line: str) -> list[tuple[str, int, str]]:
    """(text, start position, help) of each completion of `line`, which begins with a slash.

    A command that takes an argument is completed with a space behind it.
    """
    name, space, argument = line.removeprefix("/").partition(" ")
    if not space:
        typed = name.lower()
        matches = []
        for known in all_commands():
            # Its own name, else an alias; only that once something of it is typed.
            names = (known.name, *(known.aliases if typed else ()))
            if match := next((each for each in names if each.startswith(typed)), None):
                matches.append((f"/{match}{' ' * bool(known.argument)}", -len(line), known.help))
        return matches
    known_command = _COMMANDS.get(name)
    if known_command is None:
        return []
    if known_command.complete_typed is not None:
        values = known_command.complete_typed(argument)
    else:
        choices = known_command.complete(chat) if known_command.complete is not None else known_command.words
        values = (value for value in choices if value.startswith(argument))
    return [(value, -len(argument), "") for value in values]
