"""Puts a command line in order before it is parsed: options first, `-r`, a message without a command."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatcli.command_line import command_line
from chatcli.errors import UsageError

RESUME = ("-r", "--resume")


@dataclass
class Leading:
    """The options before the first other word: each with its names by parameter, and with its value."""

    options: list[tuple[dict[str, str], list[str]]] = field(default_factory=list)
    resume: list[str] | None = None
    rest: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [word for _, words in self.options for word in words]


def ordered(group: Any, args: Sequence[str], *, completing: bool = False) -> list[str]:
    """The command, the options that stood before it, and the rest. What comes last wins.

    Without a command: chat, resume after `-r`, and the message that anything else is. While `completing`,
    options without a command stay the group's. Raises `UsageError`.
    """
    own = {name for each in group.params for name in each.opts} - options_of(group.commands["chat"]).keys()
    own |= {"-h", "--help"}
    leading = split_leading(options_of(group.commands["chat"]), joined(args) if completing else args)
    rest = leading.rest
    if rest and rest[0] in own - {*RESUME}:
        return rest
    if leading.resume is not None:
        return ["resume", *leading.words, *leading.resume, *rest]
    if completing and not rest:
        return accepted(group, [], leading, completing=True)
    if not rest or rest[0].startswith("-"):
        return ["chat", *leading.words, *rest]
    if rest[0] == "help":
        return [*rest[1:], "--help"]
    if rest[0] in group.commands:
        path = list(command_path(group, rest))
        return [*path, *accepted(group, path, leading, completing=completing), *rest[len(path) :]]
    if not completing:
        check_message(group, rest)
    return ["chat", *leading.words, *rest]


def check_message(group: Any, words: Sequence[str]) -> None:
    """Raise `UsageError` for what may be a misspelt command: one word alone, or one nearly of its name."""
    is_alone = not split_leading(options_of(group.commands["chat"]), words[1:]).rest
    # Before more words, 'what' and 'should' are no misspelt 'chat' and 'show'.
    similar = difflib.get_close_matches(words[0], group.commands, 1, 0.6 if is_alone else 0.82)
    if not any(map(str.isspace, words[0])) and (similar or is_alone):
        hint = f"Did you mean '{similar[0]}'? " if similar else ""
        question = command_line("ask", " ".join(words))
        raise UsageError(f"There is no command '{words[0]}'. {hint}To ask it as a question: {question}")


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


def split_leading(options: Mapping[str, Any], args: Sequence[str]) -> Leading:
    """Take options with their values off the beginning, as far as they are known."""
    leading, rest = Leading(), list(args)
    while rest and rest[0].startswith("-"):
        word, names = rest[0], list(option_names(options, rest[0]))
        if word.partition("=")[0] in RESUME:
            del rest[0]
            name = word.partition("=")[2] or (rest.pop(0) if rest and not rest[0].startswith("-") else "")
            leading.resume = [name] if name else []
            continue
        if not names or any(name not in options for name in names):
            break
        last = options[names[-1]]
        attached = "=" in word if word.startswith("--") else len(names) < len(word) - 1
        count = 1 if last.is_flag or attached else 2
        leading.options.append(({options[name].name: name for name in names}, rest[:count]))
        del rest[:count]
    leading.rest = rest
    return leading


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


def command_path(group: Any, words: Sequence[str]) -> Iterator[str]:
    """The command and, in a group of commands, its subcommand."""
    for word in words:
        if word not in getattr(group, "commands", {}):
            return
        yield word
        group = group.commands[word]


def accepted(group: Any, path: Sequence[str], leading: Leading, *, completing: bool) -> list[str]:
    """The options before a command. One that it does not have is a `UsageError`, or left out to complete."""
    command = group
    for name in path:
        command = command.commands[name]
    known = {each.name for each in command.params}
    accepted_words = []
    for names, words in leading.options:
        unknown = [name for parameter, name in names.items() if parameter not in known]
        if not unknown:
            accepted_words += words
        elif not completing:
            raise UsageError(f"chatcli {' '.join(path)} has no option {unknown[0]}.")
    return accepted_words
