"""Slash commands: each is declared once, on its handler; help and completion derive from that."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chatcli.commands.results import Result
from chatcli.errors import UsageError
from chatcli.session.live_chat import LiveChat

Handler = Callable[[LiveChat, str], Result]


@dataclass(frozen=True)
class Command:
    """`argument` is how help shows what may follow the name, such as "[NAME]".

    `complete` lists values for the argument, `complete_typed` those that what is typed of it may become.
    """

    name: str
    argument: str
    help: str
    handler: Handler
    aliases: tuple[str, ...] = ()
    complete: Callable[[LiveChat], Iterable[str]] | None = None
    complete_typed: Callable[[str], Iterable[str]] | None = None


_COMMANDS: dict[str, Command] = {}
_ALIASES: dict[str, str] = {}


def command(
    name: str,
    argument: str,
    help: str,
    *,
    aliases: tuple[str, ...] = (),
    complete: Callable[[LiveChat], Iterable[str]] | None = None,
    complete_typed: Callable[[str], Iterable[str]] | None = None,
) -> Callable[[Handler], Handler]:
    """Register a handler, which takes the chat and the argument's text, "" if there is none.

    It returns a result or raises `ChatcliError`; it never prints.
    """

    def register(handler: Handler) -> Handler:
        _COMMANDS[name] = Command(name, argument, help, handler, aliases, complete, complete_typed)
        _ALIASES.update(dict.fromkeys(aliases, name))
        return handler

    return register


def all_commands() -> list[Command]:
    """In the order they were registered."""
    return list(_COMMANDS.values())


def is_command(text: str) -> bool:
    """Whether a line is a command: `/word`, not a path such as `/home/me` and not `//`."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return word.startswith("/") and (word[1:] in _ALIASES or word[1:].replace("-", "").isalpha())


def find(name: str) -> Command:
    """The command of this name or alias. Raises `UsageError` with the nearest one."""
    if (known := _COMMANDS.get(_ALIASES.get(name, name))) is not None:
        return known
    nearest = difflib.get_close_matches(name, [*_COMMANDS, *_ALIASES], 1)
    hint = f"did you mean /{nearest[0]}?" if nearest else "/help lists them all."
    raise UsageError(f"There is no command /{name}: {hint}")


def run(chat: LiveChat, line: str) -> Result:
    """Run a command line and return what its handler returns."""
    name, *argument = line.strip().removeprefix("/").split(maxsplit=1)
    return find(name.lower()).handler(chat, "".join(argument))


def completions(chat: LiveChat, line: str) -> list[tuple[str, int, str]]:
    """(text, start position, help) of what may complete `line`, which begins with a slash."""
    name, space, argument = line.removeprefix("/").partition(" ")
    if not space:
        typed = name.lower()
        matches = []
        for known in all_commands():
            # Its own name, else an alias; only that once something of it is typed.
            names = (known.name, *(known.aliases if typed else ()))
            if match := next((each for each in names if each.startswith(typed)), None):
                matches.append((f"/{match}", -len(line), known.help))
        return matches
    known_command = _COMMANDS.get(_ALIASES.get(name, name))
    if known_command is None:
        return []
    if known_command.complete_typed is not None:
        values = known_command.complete_typed(argument)
    elif known_command.complete is not None:
        values = (value for value in known_command.complete(chat) if value.startswith(argument))
    else:
        values = ()
    return [(value, -len(argument), "") for value in values]
