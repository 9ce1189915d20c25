"""The help as plain text, whole at any width: no name of an option is cut. Refuses to know any command."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

# Columns of a command's first sentence, which is broken where the terminal ends.
WHOLE = 1000


class Group(TyperGroup):
    """Tells each of its commands in a whole sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, known.get_short_help_str(WHOLE))
                    for name, known in found.items()
                    if known is not None and not known.hidden
                ]
            )


class Command(TyperCommand):
    """Has its options under the headings that they name."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (row := parameter.get_help_record(ctx)) is not None:
                usual = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
                heading = getattr(parameter, "rich_help_panel", None) or usual
                sections.setdefault(heading, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
