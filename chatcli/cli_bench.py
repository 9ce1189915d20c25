"""`chatcli bench …`: measurements against peers, in one run; refuses the user's own sessions."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from chatcli.cli_options import JsonOption, print_json, show_result

app = typer.Typer(
    help="Measure chatcli on this machine, against peers in the same run.", no_args_is_help=True
)


@app.callback()
def common() -> None:
    """Nothing of its own: each benchmark is a command."""


@app.command()
def store(
    model: Annotated[
        str, typer.Option("-m", "--model", help="A folder, a hub name, or 'pocket'.")
    ] = "pocket",
    turns: Annotated[int, typer.Option("--turns", min=1, help="Turns of the conversation.")] = 40,
    sessions: Annotated[
        int, typer.Option("--sessions-count", min=1, help="Sessions in one folder.")
    ] = 10_000,
    segments: Annotated[
        int, typer.Option("--segments-count", min=2, help="Checkpoints in one folder.")
    ] = 100_000,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of everything, and no large cache.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What checkpoints take on disk, how fast they are restored, and among how many."""
    from chatcli.bench import store as bench
    from chatcli.bench import tables

    found = bench.run(bench.Plan(model, turns, sessions, segments, quick), tell)
    if as_json:
        print_json(found.as_json())
    else:
        for table in tables.tables(found):
            show_result(table)


def tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
