"""The help as plain text, whole at any width: no name of an option is cut."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from chatcli.command_line import command_line
from chatcli.settings.values import EXAMPLE_MODEL
from chatcli.text import shorten

# The help of longer names begins on the next row.
MAX_NAME_COLUMNS, WIDE = 30, 60
MIN_COLUMNS, MAX_COLUMNS = 30, 80
# Characters of a parser's error.
MAX_REASON = 200
# Long enough that no sentence is cut: the formatter wraps it at the terminal's width.
MAX_SENTENCE_COLUMNS = 1000
# The commands as a newcomer reads them: heading, then names. Those of a group of commands have none.
HEADINGS: dict[str, Sequence[str]] = {
    "Chat": ("chat", "resume", "branch", "ask"),
    "Saved sessions": ("list", "show", "stats", "tree", "search", "rename", "delete", "export", "import"),
    "Models and this machine": ("models", "config", "serve", "cache", "history", "doctor", "bench"),
}
# The examples follow this heading: everything up to them fits one screen.
HEADING_BEFORE_EXAMPLES = "Chat"
EXAMPLES = (
    f"chatcli -m {EXAMPLE_MODEL}",
    'chatcli "Why is the sky blue?"',
    'cat notes.txt | chatcli ask "Summarize this."',
)
EPILOG = "chatcli COMMAND --help shows the options of a command."
# Options that are used now and then, or once.
RARE_OPTIONS = ("--private", "--version", "--install-completion", "--show-completion", "--help")


# What the parser raises for a command line that it cannot read.
ParseError: type[Exception] = typer.BadParameter.__bases__[0]


def sentence_of(error: Exception) -> str:
    """A parser's error as one sentence, with the command that shows the options. Help itself is raised."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    names: list[str] = []
    context: Any = getattr(error, "ctx", None)
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    # It may repeat all that a pattern such as * has become.
    reason = shorten(error.format_message(), MAX_REASON)  # type: ignore[attr-defined]
    return f"{reason.rstrip('.')}. To see the options: {command_line(' '.join([*names, '--help']))}"


def columns() -> int:
    """How wide the help is: as the terminal, within reason."""
    return min(max(shutil.get_terminal_size().columns, MIN_COLUMNS), MAX_COLUMNS)


def name_columns() -> int:
    return MAX_NAME_COLUMNS if columns() >= WIDE else columns() // 3


def converting_less(parameters: Sequence[Any]) -> list[Any]:
    """Parameters that Typer does not convert if they are text, or not given.

    From 0.29 on it converts with pydantic, which takes 50 ms to import.
    """

    def process(parameter: Any, ctx: Any, value: Any) -> Any:
        is_missing = value is None or value == ()
        descriptor: Any = getattr(parameter, "type_descriptor", None)
        is_text = isinstance(value, str) and descriptor is not None and descriptor.annotation is str
        if not is_text and (parameter.required or not is_missing):
            return type(parameter).process_value(parameter, ctx, value)
        if is_missing:
            value = () if parameter.nargs == -1 or getattr(parameter, "multiple", False) else None
        elif (parse := descriptor.parameter_info.parser) is not None:
            value = parse(value)
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)

    for parameter in parameters:
        parameter.process_value = functools.partial(process, parameter)
    return list(parameters)


class Group(TyperGroup):
    """Describes each of its commands in a whole sentence."""

    def get_params(self, ctx: Any) -> list[Any]:
        return converting_less(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = {
            name: (name, command.get_short_help_str(MAX_SENTENCE_COLUMNS))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        }
        known = {name for names in HEADINGS.values() for name in names}
        sections = HEADINGS if known.issuperset(rows) else {"Commands": tuple(rows)}
        for heading, names in sections.items():
            with formatter.section(heading):
                formatter.write_dl([rows[name] for name in names], name_columns())
            if heading == HEADING_BEFORE_EXAMPLES:
                with formatter.section("Examples"):
                    formatter.write("".join(f"  {example}\n" for example in EXAMPLES))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options that are often used, then the commands, then the other options."""
        often: list[tuple[str, str]] = []
        rare: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            if (row := parameter.get_help_record(ctx)) is not None:
                (rare if set(parameter.opts) & set(RARE_OPTIONS) else often).append(row)
        if often:
            with formatter.section("Options"):
                formatter.write_dl(often, name_columns())
        self.format_commands(ctx, formatter)
        with formatter.section("Other options" if often else "Options"):
            formatter.write_dl(rare, name_columns())


class Command(TyperCommand):
    """Lists its options under the headings that they name (`rich_help_panel`)."""

    def get_params(self, ctx: Any) -> list[Any]:
        return converting_less(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, TyperArgument) and not parameter.help:
                continue  # its name in the usage says it all
            if (row := parameter.get_help_record(ctx)) is not None:
                # Types are in words for programmers, and the usage shows what is required.
                if isinstance(parameter, TyperArgument):
                    row = (row[0].partition(" <")[0], row[1].removesuffix("  [required]"))
                default = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
                heading = getattr(parameter, "rich_help_panel", None) or default
                sections.setdefault(heading, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows, name_columns())
