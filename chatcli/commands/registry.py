"""Slash commands, each registered once; help and completion derive from here.

Refuses to know what a command does.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from chatcli.errors import UsageError

Handler = Callable[[Any, str], Any]
Completer = Callable[[Any], Iterable[str]]
TypedCompleter = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Command:
    """`argument` is shown in the help, e.g. "[NAME]".

    `complete` lists values for it, `complete_typed` those that a beginning of it may become.
    """

    name: str
    argument: str
    help: str
    handler: Handler
    complete: Completer | None = None
    aliases: tuple[str, ...] = ()
    complete_typed: TypedCompleter | None = None


_COMMANDS: dict[str, Command] = {}
_ALIASES: dict[str, str] = {}


def command(
    name: str,
    argument: str = "",
    help: str = "",
    *,
    aliases: Iterable[str] = (),
    complete: Completer | None = None,
    complete_typed: TypedCompleter | None = None,
) -> Callable[[Handler], Handler]:
    """Register a handler, which takes the shell's state and the argument's text."""

    def register(handler: Handler) -> Handler:
        known = _COMMANDS[name] = Command(
            name, argument, help, handler, complete, tuple(aliases), complete_typed
        )
        _ALIASES.update(dict.fromkeys(known.aliases, name))
        return handler

    return register


def all_commands() -> list[Command]:
    """In the order they were registered."""
    return list(_COMMANDS.values())


def explained() -> list[Command]:
    """All commands, each one's help with its other names."""
    return [
        replace(known, help=f"{known.help} · also {_listed(known.aliases)}") if known.aliases else known
        for known in all_commands()
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"/{name}" for name in names)


def is_command(text: str) -> bool:
    """Whether a line is a command: `/word`, not a path such as `/home/me` and not `//`."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return word.startswith("/") and (word[1:] in _ALIASES or word[1:].replace("-", "").isalpha())


def find(word: str) -> Command:
    """The command of this name or alias. Raises `UsageError` with the nearest one."""
    known = _COMMANDS.get(_ALIASES.get(word, word))
    if known is not None:
        return known
    near = difflib.get_close_matches(word, [*_COMMANDS, *_ALIASES], 1)
    hint = f"did you mean /{near[0]}?" if near else "/help lists them all."
    raise UsageError(f"There is no command /{word}: {hint}")


def run(state: Any, line: str) -> Any:
    """Run a command line and return what its handler returns."""
    word, *argument = line.strip().removeprefix("/").split(maxsplit=1)
    return find(word.lower()).handler(state, "".join(argument))


def completions(state: Any, line: str) -> list[tuple[str, int, str]]:
    """(text, start position, help) of what may complete `line`, which begins with a slash."""
    word, space, argument = line.removeprefix("/").partition(" ")
    if not space:
        offered = ((_offered(known, word.lower()), known) for known in all_commands())
        return [(f"/{name}", -len(line), known.help) for name, known in offered if name]
    known = _COMMANDS.get(_ALIASES.get(word, word))
    if known is not None and known.complete_typed is not None:
        return [(value, -len(argument), "") for value in known.complete_typed(argument)]
    if known is None or known.complete is None:
        return []
    values = known.complete(state)
    return [(value, -len(argument), "") for value in values if value.startswith(argument)]


def _offered(known: Command, word: str) -> str:
    """The name by which a command completes a word: its own, else another; empty if none does."""
    names = (known.name, *(known.aliases if word else ()))
    return next((name for name in names if name.startswith(word)), "")
