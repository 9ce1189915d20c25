"""Puts a command line in order before it is parsed: leading options, `-r`, a message without a command."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from chatcli.command_line import command_line
from chatcli.errors import UsageError
from chatcli.text import shorten

RESUME = ("-r", "--resume")
# Commands of other programs, and what does the same here. Those that may begin a question count as
# commands only before at most one more word.
ELSEWHERE = {
    "rm": "delete",
    "ls": "list",
    "mv": "rename",
    "cat": "show",
    "grep": "search",
    "cp": "branch",
    "fork": "branch",
    "ps": "models",
    "pull": "-m",
    "run": "-m",
    "use": "-m",
    "remove": "delete",
    "open": "resume",
    "continue": "resume",
    "load": "resume",
    "print": "show",
    "find": "search",
    "settings": "config",
    "check": "doctor",
}
# Words, and characters of a question, that an error repeats.
MAX_WORDS, MAX_QUESTION = 5, 100
NEVER_A_QUESTION = ("rm", "ls", "mv", "cat", "grep", "cp", "ps", "pull")


def ordered(group: Any, args: Sequence[str], *, completing: bool = False) -> list[str]:
    """The command, the options that stood before it, and the rest. What comes last wins.

    Without a command it is chat, or resume after `-r`, and other words are the message. While `completing`,
    options without a command stay the group's. Raises `UsageError`.
    """
    known = options_of(group.commands["chat"])
    own = {name for each in group.params for name in each.opts} - known.keys() - {*RESUME} | {"-h", "--help"}
    options, resume, rest = split_leading(known, joined(args) if completing else args)
    if rest and rest[0] in own:
        return rest
    if resume is not None:
        return ["resume", *chain(*options), *resume, *rest]
    if completing and not rest:
        return [*chain(*options)]
    if not rest or rest[0].startswith("-"):
        return ["chat", *chain(*options), *rest]
    if rest[0] == "help":
        return [*rest[1:], "--help"]
    if rest[0] in group.commands:
        path = [rest.pop(0)]
        command = group.commands[path[0]]
        if rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest[0]]
            path.append(rest.pop(0))
        if completing:
            # What the command does not have is an error else, which would keep it from being completed.
            options = [each for each in options if each[0].partition("=")[0] in options_of(command)]
        return [*path, *chain(*options), *rest]
    if not completing:
        check_message(group, rest)
    return ["chat", *chain(*options), *rest]


def check_message(group: Any, words: Sequence[str]) -> None:
    """Raise `UsageError` for what may be a misspelt command: one word alone, or one nearly of its name."""
    more = split_leading(options_of(group.commands["chat"]), words[1:])[2]
    # Before more words, 'what' and 'should' are not misspelt 'chat' and 'show'.
    similar = difflib.get_close_matches(words[0], group.commands, 1, 0.82 if more else 0.6)
    if words[0] in ELSEWHERE and (len(more) < 2 or words[0] in NEVER_A_QUESTION):
        meant = command_line(ELSEWHERE[words[0]], *(more if len(more) <= MAX_WORDS else ()))
        raise UsageError(f"There is no command '{words[0]}'. Did you mean: {meant}")
    if not any(map(str.isspace, words[0])) and (similar or not more):
        hint = f"Did you mean '{similar[0]}'? " if similar else ""
        text = " ".join(words)
        ask = f": {command_line('ask', text)}" if len(text) <= MAX_QUESTION else ", write ask before it."
        first = shorten(words[0], MAX_QUESTION)
        raise UsageError(f"There is no command '{first}'. {hint}To ask it as a question{ask}")


def options_of(command: Any) -> dict[str, Any]:
    """A command's options by each of their names."""
    return {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}


def joined(args: Sequence[str]) -> list[str]:
    """bash splits `--option=value` into three words where it completes the next one."""
    words: list[str] = []
    for word in args:
        if words and (word == "=" or words[-1].endswith("=")) and words[-1].startswith("--"):
            words[-1] += word
        else:
            words.append(word)
    return words


def split_leading(
    options: Mapping[str, Any], args: Sequence[str]
) -> tuple[list[list[str]], list[str] | None, list[str]]:
    """Each option at the beginning, as far as they are known, with its value; the name after -r; the rest."""
    leading: list[list[str]] = []
    resume: list[str] | None = None
    rest = list(args)
    while rest and rest[0].startswith("-"):
        word, names = rest[0], list(option_names(options, rest[0]))
        if word.partition("=")[0] in RESUME:
            del rest[0]
            name = word.partition("=")[2] or (rest.pop(0) if rest and not rest[0].startswith("-") else "")
            resume = [name] if name else []
            continue
        if not names or any(name not in options for name in names):
            break
        attached = "=" in word if word.startswith("--") else len(names) < len(word) - 1
        count = 1 if options[names[-1]].is_flag or attached else 2
        leading.append(rest[:count])
        del rest[:count]
    return leading, resume, rest


def option_names(options: Mapping[str, Any], word: str) -> Iterator[str]:
    """The options in a word: one long one, or short ones of which only the last has a value."""
    if word.startswith("--"):
        if word != "--":
            yield word.partition("=")[0]
        return
    for letter in word[1:]:
        yield f"-{letter}"
        if f"-{letter}" not in options or not options[f"-{letter}"].is_flag:
            return
