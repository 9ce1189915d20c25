"""`chatcli bench …`: measurements with the peers in the same run, in temporary session folders."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chatcli import __version__
from chatcli.cli import help
from chatcli.cli.options import CacheLimitOption, JsonOption, ModelOption, value_of
from chatcli.cli.output import print_json, show_result
from chatcli.errors import UsageError
from chatcli.settings.values import POCKET

if TYPE_CHECKING:
    from chatcli.bench.report import Outcome
    from chatcli.bench.run import Plan
    from chatcli.commands.results import Table

measurements = typer.Typer(rich_markup_mode=None)
app = typer.Typer(
    cls=help.built_later(measurements),
    help="Measure speed and reuse on this machine, next to other programs.",
    no_args_is_help=True,
)
MEASURED = {
    "turns": "A conversation of short turns: how much of each prompt is reused.",
    "models": "Six turns on three kinds of attention.",
    "branch": "Another follow-up at every turn of a conversation.",
    "reopen": "Quit and come back: time to the first token.",
    "ways": "A long prompt, taken up open, reopened, at once, on a branch, shared.",
    "agentic": "A long prompt that grows a little each round.",
    "shared-prefix": "Many conversations with one system prompt.",
    "exact": "The same prompt again.",
    "paste": "A long message, prefilled while it is typed or not.",
}

MONTH_LIMIT, CONVERSATION_TURNS = "20GB", 40


ShapeOption = Annotated[
    str | None,
    typer.Option(
        "--random",
        metavar="SHAPE",
        help="Random weights at a known model's shape instead: qwen3-8b, qwen3.5-9b, "
        "gpt-oss-20b, gemma3-12b, or qwen3-small, qwen3.5-small, gpt-oss-small.",
    ),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="A smaller workload.")]
FullOption = Annotated[bool, typer.Option("--full", help="As long as it was published (a GPU's work).")]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="Rounds of it all.")]


@app.callback()
def common() -> None:
    """Nothing of its own: each benchmark is a command."""


def _measure(name: str) -> Callable[..., None]:
    """The command of one workload, or of all of them."""

    def command(
        model: ModelOption = None,
        shape: ShapeOption = None,
        quick: QuickOption = False,
        full: FullOption = False,
        repeats: RepeatsOption = 1,
        only: Annotated[
            list[str] | None,
            typer.Option(
                "--only",
                metavar="NAME",
                help="Only contenders with this in their name, and no reuse at all.",
            ),
        ] = None,
        servers: Annotated[
            bool, typer.Option("--servers", help="Also over HTTP, the servers that are installed.")
        ] = False,
        gguf: Annotated[
            Path | None,
            typer.Option("--gguf", exists=True, dir_okay=False, help="What llama-server runs."),
        ] = None,
        ollama: Annotated[
            str | None, typer.Option("--ollama", metavar="NAME", help="What ollama runs.")
        ] = None,
        plot: Annotated[
            Path | None,
            typer.Option("--plot", dir_okay=False, help="Draw the curves: FILE.svg or FILE.png."),
        ] = None,
        as_json: JsonOption = False,
    ) -> None:
        from chatcli.bench.run import Plan

        size = _size(quick, full)
        plan = Plan(model or POCKET, shape, size, repeats, tuple(only or ()), servers, gguf, ollama)
        names = list(MEASURED) if name == "all" else [name]
        _run(names, plan, plot, as_json)

    command.__name__ = name.replace("-", "_")
    return command


for _name, _help in {**MEASURED, "all": "Every workload, one after the other."}.items():
    measurements.command(_name, help=_help)(_measure(_name))


def _size(quick: bool, full: bool) -> int:
    """Raises `UsageError` where both are asked for."""
    from chatcli.bench.run import FULL, QUICK, USUAL

    if quick and full:
        raise UsageError("--quick and --full are two sizes: give one of them.")
    return FULL if full else QUICK if quick else USUAL


def _run(names: list[str], plan: Plan, plot: Path | None, as_json: bool) -> None:
    """Run the workloads, and show the tables of each as soon as they are there."""
    from chatcli.bench import plot as plotting
    from chatcli.bench import report
    from chatcli.bench.run import run
    from chatcli.tui.render import progress

    if plot is not None:
        plotting.check(plot)
    outcomes: list[Outcome] = []
    for name in names:
        with progress.bar(name) as report_progress:
            measured = run(name, plan, report_progress)
        outcomes += measured
        if not as_json:
            _report(False, {}, (table for outcome in measured for table in report.tables(outcome)))
    if plot is not None:
        plotting.draw(outcomes, plot)
    if as_json:
        _report(True, {"outcomes": [report.as_json(outcome) for outcome in outcomes]}, ())


def _report(as_json: bool, measured: Mapping[str, Any], tables: Iterable[Table]) -> None:
    """What was measured: one JSON object with the machine, or the tables."""
    if as_json:
        print_json({"machine": _machine(), **measured})
    else:
        for table in tables:
            show_result(table)


def _announce(what: str) -> None:
    """Say on standard error what is measured next."""
    print(what, file=sys.stderr, flush=True)


def _machine() -> dict[str, Any]:
    """What the numbers were measured on."""
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


@measurements.command(cls=help.Command)
def batch(
    model: ModelOption = None,
    shape: ShapeOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    repeats: RepeatsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Many questions on one document: in batches and one by one (`ask --each`)."""
    from chatcli.bench import together
    from chatcli.bench.run import Plan
    from chatcli.tui.render import progress

    plan = Plan(model or POCKET, shape, _size(quick, full), repeats)
    with progress.bar("batch") as report_progress:
        comparison = together.compare(plan, report_progress)
    _report(as_json, {"batch": together.as_json(comparison)}, [together.table(comparison)])


@measurements.command(cls=help.Command)
def serve(
    model: ModelOption = None,
    shape: ShapeOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Programs that ask over HTTP: `chatcli serve` beside mlx-lm's server."""
    from chatcli.bench import serve as serve_bench
    from chatcli.bench.run import Plan
    from chatcli.tui.render import progress

    plan = Plan(model or POCKET, shape, _size(quick, full))
    with progress.bar("serve") as report_progress:
        # Its parts take minutes, so each table is shown at once.
        outcome = serve_bench.measure(plan, report_progress, (lambda _: None) if as_json else show_result)
    _report(as_json, {"serve": serve_bench.as_json(outcome)}, ())


@measurements.command(cls=help.Command)
def store(
    model: ModelOption = None,
    turns: Annotated[int, typer.Option("--turns", min=1, help="Turns of the conversation.")] = 40,
    sessions: Annotated[
        int, typer.Option("--sessions-count", min=1, help="Sessions in one folder.")
    ] = 10_000,
    segments: Annotated[
        int, typer.Option("--segments-count", min=2, help="Segments in one folder.")
    ] = 100_000,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of everything, and no large cache.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What checkpoints take on disk, how fast they are restored, and among how many."""
    from chatcli.bench import store as store_bench

    plan = store_bench.StorePlan(model or POCKET, turns, sessions, segments, quick)
    measured = store_bench.run(plan, _announce)
    _report(as_json, measured.as_json(), store_bench.tables(measured))


@measurements.command(cls=help.Command)
def scale(
    model: ModelOption = None,
    turns: Annotated[int, typer.Option("--turns", min=1, help="Turns of one session.")] = 2000,
    branches: Annotated[int, typer.Option("--branches", min=1, help="Branches at one place.")] = 300,
    sessions: Annotated[
        int, typer.Option("--sessions-count", min=1, help="Sessions in one folder.")
    ] = 10_000,
    segments: Annotated[
        int, typer.Option("--segments-count", min=2, help="Segments in one folder.")
    ] = 1_000_000,
    quick: QuickOption = False,
    as_json: JsonOption = False,
) -> None:
    """What a turn takes beside the model as sessions and folders grow."""
    from chatcli.bench import growth

    plan = growth.GrowthPlan(model or POCKET, turns, branches, sessions, segments)
    plan = plan.quick() if quick else plan
    # Its parts take minutes, so each table is shown at once.
    measured = growth.run(plan, _announce, (lambda table: None) if as_json else show_result)
    _report(as_json, {"scale": measured.as_json()}, ())


@measurements.command(cls=help.Command)
def month(
    days: Annotated[int, typer.Option("--days", min=1, help="Days to simulate.")] = 30,
    turns: Annotated[int, typer.Option("--turns", min=1, help="Turns a day.")] = 100,
    limit: CacheLimitOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of what is said, and when.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """A month of conversations on disk, simulated with a real store and no model."""
    from dataclasses import asdict

    from chatcli.bench import month as month_bench
    from chatcli.tui.render import progress

    limit_bytes = value_of("cache_limit", limit or MONTH_LIMIT)
    with progress.bar("month") as report_progress:
        simulated = month_bench.simulate(
            days, turns, month_bench.SESSIONS, limit_bytes, seed, report_progress
        )
        single = month_bench.conversations(CONVERSATION_TURNS)
    _report(
        as_json,
        {"month": simulated.as_json(), "conversations": [asdict(each) for each in single]},
        [month_bench.table(simulated), month_bench.conversation_table(CONVERSATION_TURNS, single)],
    )


@measurements.command(cls=help.Command)
def start(repeats: RepeatsOption = 15, as_json: JsonOption = False) -> None:
    """Time from the start to the help, the list and a letter typed into the prompt."""
    from chatcli.bench import start as start_bench
    from chatcli.tui.render import progress

    with progress.bar("start") as report_progress:
        measured = start_bench.measure(repeats, report_progress)
    _report(as_json, {"start": measured.as_json()}, [start_bench.table(measured)])
