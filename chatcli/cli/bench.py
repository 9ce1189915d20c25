"""`chatcli bench …`: measures this machine, with mlx-lm's own ways in the same run."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chatcli import __version__
from chatcli.cli import help
from chatcli.cli.options import JsonOption, ModelOption
from chatcli.cli.output import print_json, show_result
from chatcli.errors import UsageError
from chatcli.settings.values import POCKET

if TYPE_CHECKING:
    from chatcli.commands.results import Table

app = typer.Typer(
    cls=help.Group,
    help="Measure speed and reuse on this machine, next to mlx-lm.",
    no_args_is_help=True,
)
MEASURED = {
    "turns": "A conversation of short turns: how much of each prompt is reused.",
    "agentic": "A long prompt that grows a little each round.",
    "reopen": "Quit and come back: time to the first token.",
}

QuickOption = Annotated[bool, typer.Option("--quick", help="A smaller workload.")]
FullOption = Annotated[bool, typer.Option("--full", help="The published size, for a GPU.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="How often to repeat all of it.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="NAME", help="Only contenders whose names contain this, and the one without reuse."
    ),
]


def _measure(name: str) -> Callable[..., None]:
    """The command of one workload."""

    def command(
        model: ModelOption = None,
        quick: QuickOption = False,
        full: FullOption = False,
        repeats: RepeatsOption = 1,
        only: OnlyOption = None,
        as_json: JsonOption = False,
    ) -> None:
        from chatcli.bench import report
        from chatcli.bench.run import WORKLOADS, Plan, run
        from chatcli.tui.render import progress

        plan = Plan(model or POCKET, size_of(quick, full), repeats, tuple(only or ()))
        with progress.bar(name) as report_progress:
            outcome = run(WORKLOADS[name], plan, report_progress)
        show(as_json, {"outcomes": [report.as_json(outcome)]}, report.tables(outcome))

    command.__name__ = name
    return command


for _name, _help in MEASURED.items():
    app.command(_name, cls=help.Command, help=_help)(_measure(_name))


def size_of(quick: bool, full: bool) -> int:
    """Raises `UsageError` for both options."""
    from chatcli.bench.run import FULL, QUICK, USUAL

    if quick and full:
        raise UsageError("--quick and --full are two sizes: give one of them.")
    return FULL if full else QUICK if quick else USUAL


def show(as_json: bool, measured: Mapping[str, Any], tables: Iterable[Table]) -> None:
    """Print the results: one JSON object with the machine, or the tables."""
    if as_json:
        print_json({"machine": machine(), **measured})
    else:
        for table in tables:
            show_result(table)


def machine() -> dict[str, Any]:
    """The machine and the versions that were measured."""
    from importlib.metadata import version

    from chatcli.bench.run import device

    return {
        "date": date.today().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device(),
        "python": platform.python_version(),
        "chatcli": __version__,
        **{name: version(name) for name in ("mlx", "mlx-lm")},
    }


@app.command(cls=help.Command)
def serve(
    model: ModelOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Clients over HTTP: `chatcli serve` beside mlx-lm's server."""
    from chatcli.bench import serve as serve_bench
    from chatcli.bench.run import Plan
    from chatcli.tui.render import progress

    plan = Plan(model or POCKET, size_of(quick, full))
    with progress.bar("serve") as report_progress:
        # Its parts take minutes, so each table is shown at once.
        outcome = serve_bench.measure(plan, report_progress, (lambda _: None) if as_json else show_result)
    show(as_json, {"serve": serve_bench.as_json(outcome)}, ())


@app.command(cls=help.Command)
def decode(
    model: ModelOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    repeats: RepeatsOption = 3,
    as_json: JsonOption = False,
) -> None:
    """Replies that repeat what was said: guessed tokens beside mlx-lm's loop."""
    from chatcli.bench import decode as decode_bench
    from chatcli.bench.run import Plan
    from chatcli.tui.render import progress

    plan = Plan(model or POCKET, size_of(quick, full), repeats)
    with progress.bar("decode") as report_progress:
        name, measured = decode_bench.measure(plan, report_progress)
    show(as_json, {"decode": decode_bench.as_json(name, measured)}, [decode_bench.table(name, measured)])
