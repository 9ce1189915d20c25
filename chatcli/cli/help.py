"""The help as plain text, whole at any width: no name of an option is cut."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

# Long enough that no sentence is cut: the formatter wraps it at the terminal's width.
MAX_SENTENCE_COLUMNS = 1000


class Group(TyperGroup):
    """Describes each of its commands in a whole sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(MAX_SENTENCE_COLUMNS))
                    for name, command in commands.items()
                    if command is not None and not command.hidden
                ]
            )


class Command(TyperCommand):
    """Lists its options under the headings that they name (`rich_help_panel`)."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (row := parameter.get_help_record(ctx)) is not None:
                default = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
                heading = getattr(parameter, "rich_help_panel", None) or default
                sections.setdefault(heading, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
