"""What the commands share: options, where the sessions are, how results are printed.

Refuses to know any command.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import platformdirs
import typer

from chatcli import plain
from chatcli.errors import UsageError
from chatcli.opening import Wanted
from chatcli.repl import results
from chatcli.settings import Sampling, Settings
from chatcli.store.sessions import SessionFolder

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtKMGT]?)(i?)[bB]?")


def complete_session(incomplete: str) -> list[str]:
    """Session names for the shell's completion."""
    names = SessionFolder(sessions_folder(None)).names()
    return [name for name in names if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_session)]
SessionsOption = Annotated[
    Path | None, typer.Option("--sessions", metavar="DIR", help="The folder of sessions.")
]
CacheLimitOption = Annotated[
    str | None,
    typer.Option(
        "--cache-limit",
        metavar="SIZE",
        help="Most that checkpoints may take on disk, such as 5GB "
        "(default: 20 GiB or a tenth of the free disk, whichever is less).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def limit_of(text: str | None) -> int | None:
    """`--cache-limit` in bytes: 800kB, 5GB, 1.5 GiB or a number. Raises `UsageError`."""
    if text is None:
        return None
    found = SIZE.fullmatch(text.strip())
    if not found:
        raise UsageError(f"'{text}' is no size: give --cache-limit a number such as 500MB or 5GiB.")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " kmgt".index((found[2] or " ").lower()))


@dataclass(frozen=True)
class Options:
    """The options that `chat`, `resume`, `branch` and `ask` share, each declared once."""

    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="A folder, a hub name, or 'pocket' (the default)."),
    ] = None
    system: Annotated[str | None, typer.Option("-s", "--system", help="System prompt.")] = None
    session: Annotated[
        str | None,
        typer.Option(
            "-S", "--session", metavar="NAME", help="Continue or begin this session.",
            autocompletion=complete_session,
        ),
    ] = None  # fmt: skip
    latest: Annotated[
        bool, typer.Option("-c", "--continue", help="Continue the most recent session.")
    ] = False
    at: Annotated[
        int | None, typer.Option("--at", metavar="TURN", help="Continue from this turn.")
    ] = None
    temp: Annotated[float, typer.Option("--temp", min=0.0, help="Sampling temperature.")] = 0.0
    top_p: Annotated[float, typer.Option("--top-p", min=0.0, max=1.0, help="Top-p.")] = 1.0
    top_k: Annotated[int, typer.Option("--top-k", min=0, help="Top-k (0: off).")] = 0
    min_p: Annotated[float, typer.Option("--min-p", min=0.0, max=1.0, help="Min-p.")] = 0.0
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Sampling seed.")] = None
    max_tokens: Annotated[
        int | None,
        typer.Option("-n", "--max-tokens", min=1, help="Longest reply, thinking included."),
    ] = None
    think: Annotated[
        bool | None, typer.Option("--think/--no-think", help="Switch the model's thinking.")
    ] = None
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Read and write checkpoints.")
    ] = True
    draft: Annotated[
        bool, typer.Option("--draft/--no-draft", help="Prefill a message while it is typed.")
    ] = True
    cache_limit: CacheLimitOption = None
    sessions: SessionsOption = None
    as_json: JsonOption = False

    def settings(self) -> Settings:
        sampling = Sampling(
            self.temp, self.top_p, self.top_k, self.min_p, self.seed, self.max_tokens
        )
        folder = sessions_folder(self.sessions)
        limit = limit_of(self.cache_limit)
        return Settings(folder, sampling, self.think, self.cache, self.draft, limit)

    def wanted(self, name: str | None = None, *, must_exist: bool = False) -> Wanted:
        system = None if self.system is None else plain.decodable(self.system)
        name = name or self.session
        return Wanted(name, self.latest, self.at, system, must_exist)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `options: Options` all of its fields as options of its own."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "options"]
    shared = get_type_hints(Options, include_extras=True)

    def run(**given: Any) -> None:
        chosen = {field.name: given.pop(field.name) for field in fields(Options)}
        command(**given, options=Options(**chosen))

    kind = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=kind) for p in own]
        + [
            inspect.Parameter(f.name, kind, default=f.default, annotation=shared[f.name])
            for f in fields(Options)
        ]
    )
    run.__annotations__ = {p.name: p.annotation for p in own} | shared
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def sessions_folder(given: Path | None) -> Path:
    """`--sessions`, else CHATCLI_SESSIONS, else ./sessions if there, else the user's data folder."""
    if given is not None:
        return given.expanduser()
    if named := os.environ.get("CHATCLI_SESSIONS"):
        return Path(named).expanduser()
    here = Path("sessions")
    return here if here.is_dir() else platformdirs.user_data_path("chatcli") / "sessions"


def show_result(result: results.Result) -> None:
    from chatcli.repl import display

    display.Screen().result(result)


def print_json(value: Any) -> None:
    """JSON in ASCII, so that nothing in it can act on a terminal."""
    print(json.dumps(value))
