"""The command line: the sole reader of argv and the environment; wires objects, sets exit codes.

Refuses to know how a turn works. Nothing here imports MLX until a model is needed.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import platformdirs
import typer
from typer.core import TyperGroup

from chatcli import __version__, opening
from chatcli.errors import ChatcliError, EmptyPrompt
from chatcli.events import Settled, TurnDone, TurnRecord
from chatcli.opening import Wanted
from chatcli.plain import clean, decodable
from chatcli.repl import results
from chatcli.settings import Sampling, Settings
from chatcli.store import files, segments
from chatcli.store.sessions import SessionFolder, recovered

INTERRUPTED = 130
DEBUG = "CHATCLI_DEBUG"


class ChatByDefault(TyperGroup):
    """`chatcli [options]` means `chatcli chat [options]`; errors become exit codes here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {name for parameter in self.params for name in parameter.opts} | {"--help", "-h"}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["chat", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ChatcliError as error:
            print(f"chatcli: {clean(str(error))}", file=sys.stderr)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=ChatByDefault,
    help="Chat with local thinking models. Nothing is computed twice: not on the next turn, "
    "not after quitting, not on a branch. Without a command: chat.",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cache_app = typer.Typer(help="The checkpoints on disk.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


def complete_session(incomplete: str) -> list[str]:
    """Session names for the shell's completion."""
    names = SessionFolder(sessions_folder(None)).names()
    return [name for name in names if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_session)]
SessionsOption = Annotated[
    Path | None, typer.Option("--sessions", metavar="DIR", help="The folder of sessions.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
    sessions: SessionsOption = None
    as_json: JsonOption = False

    def settings(self) -> Settings:
        sampling = Sampling(
            self.temp, self.top_p, self.top_k, self.min_p, self.seed, self.max_tokens
        )
        folder = sessions_folder(self.sessions)
        return Settings(folder, sampling, self.think, self.cache)

    def wanted(self, name: str | None = None, *, must_exist: bool = False) -> Wanted:
        system = None if self.system is None else decodable(self.system)
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


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"chatcli {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Nothing of its own: the commands do the work."""


@app.command()
@with_options
def chat(options: Options) -> None:
    """Chat in the terminal, or run a script of messages from a pipe."""
    talk(options, options.wanted())


@app.command()
@with_options
def resume(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_session)
    ] = None,
    *,
    options: Options,
) -> None:
    """Go on with a saved session (default: the most recent)."""
    name = name or options.session
    latest = SessionFolder(sessions_folder(options.sessions)).latest() if name is None else name
    talk(options, options.wanted(latest, must_exist=True))


@app.command()
@with_options
def branch(
    name: Name,
    new: Annotated[str | None, typer.Option("--as", metavar="NEW", help="Its name.")] = None,
    *,
    options: Options,
) -> None:
    """Branch a session after turn --at into a new one, and go on there."""
    folder = SessionFolder(sessions_folder(options.sessions))
    made = opening.branch(folder, name, options.at, new)
    turns = len(made.conversation.turns())
    made.close()
    if options.as_json:
        print_json({"session": made.name, "branched_from": name, "turns": turns})
    elif not sys.stdin.isatty() or not sys.stdout.isatty():
        print(clean(f"Branched '{name}' after turn {turns} into '{made.name}'."))
    else:
        talk(replace(options, at=None), replace(options.wanted(made.name), at=None))


def talk(options: Options, wanted: Wanted) -> None:
    """The shell in a terminal; a script of messages where standard input is a pipe."""
    from chatcli.repl import display, script

    state = open_state(options, wanted)
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            from chatcli.repl.shell import Shell

            Shell(state, display.Screen(), history_file()).run()
            return
        tell_recovery(state.session)
        shown = JsonLines() if options.as_json else display.Pipe()
        script.run((decodable(line) for line in sys.stdin), state, shown)
    finally:
        let_go(state)


def open_state(options: Options, wanted: Wanted) -> Any:
    """The session and the model that were asked for, in a folder that can be written."""
    from chatcli.repl.state import State

    settings = options.settings()
    files.private_folder(settings.sessions)
    files.check_writable(settings.sessions)
    return State(settings, wanted, options.model)


def let_go(state: Any) -> None:
    """Close the state. A model that still loads cannot be ended, so the process goes without it."""
    state.close()
    leaving = sys.exc_info()[0]
    if state.abandoned and leaving in (None, KeyboardInterrupt):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED if leaving else 0)


def tell_recovery(session: Any) -> None:
    """Say on standard error what opening a session found and mended."""
    for note in recovered(session.transcript) if session is not None else ():
        print(clean(f"chatcli: {note}"), file=sys.stderr)


def history_file() -> Path:
    return platformdirs.user_state_path("chatcli") / "history"


class JsonLines:
    """A conversation for a program: one object per turn."""

    def __init__(self) -> None:
        self._record: TurnRecord | None = None

    def event(self, event: Any) -> None:
        if isinstance(event, TurnDone):
            self._record = event.record
        elif isinstance(event, Settled) and self._record is not None:
            self._record.add(event)

    def end_turn(self) -> None:
        if self._record is not None:
            print_json(self._record.as_json())

    def result(self, result: Any) -> None:
        if isinstance(result, results.Said):
            print_json({"said": result.text})


@app.command()
@with_options
def ask(
    prompt: Annotated[str | None, typer.Argument(help="Standard input is appended.")] = None,
    *,
    options: Options,
) -> None:
    """Run one turn without a terminal."""
    from chatcli.repl import display, script

    text = whole_prompt(prompt)
    state = open_state(options, options.wanted())
    try:
        tell_recovery(state.session)
        shown = JsonLines() if options.as_json else display.Pipe()
        stopped = script.run_turn(text, state, shown)
    finally:
        let_go(state)
    if stopped:
        raise typer.Exit(INTERRUPTED)


def whole_prompt(prompt: str | None) -> str:
    """The argument, then standard input unless that is a terminal. Raises `EmptyPrompt`."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    text = "\n\n".join(part for part in (prompt or "", piped.rstrip("\n")) if part.strip())
    if not text:
        raise EmptyPrompt("The prompt is empty: give it as an argument or on standard input.")
    return decodable(text)


@app.command("list")
def list_(sessions: SessionsOption = None, as_json: JsonOption = False) -> None:
    """List the saved sessions, last used first."""
    summaries = SessionFolder(sessions_folder(sessions)).summaries()
    if as_json:
        print_json([asdict(summary) for summary in summaries])
    else:
        show_result(results.Listing(summaries))


@app.command()
def show(
    name: Name,
    thinking: Annotated[bool, typer.Option("--thinking", help="Show the thinking too.")] = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a session's transcript along its current path."""
    transcript = SessionFolder(sessions_folder(sessions)).read(name)
    for note in recovered(transcript):
        print(clean(f"chatcli: {note}"), file=sys.stderr)
    conversation = transcript.conversation
    if as_json:
        print_json(exported(transcript.name, conversation))
    else:
        show_result(results.Transcript(transcript.name, conversation, thinking))


def exported(name: str, conversation: Any) -> dict[str, Any]:
    """A session's path as plain data."""
    return {
        "session": name,
        "model": conversation.model,
        "system": conversation.system,
        "date": conversation.date,
        "turns": [
            {
                "turn": turn.number,
                "user": turn.user.message.content,
                "text": turn.reply.message.content if turn.reply else None,
                "thinking": turn.reply.message.thinking if turn.reply else None,
                "finish_reason": turn.reply.finish_reason if turn.reply else None,
                **(turn.reply.record if turn.reply else {}),
            }
            for turn in conversation.turns()
        ],
    }


@app.command()
def tree(name: Name, sessions: SessionsOption = None, as_json: JsonOption = False) -> None:
    """Draw a session with its branches."""
    transcript = SessionFolder(sessions_folder(sessions)).read(name)
    conversation = transcript.conversation
    if as_json:
        entries = [
            {"id": e.id, "parent": e.parent, "role": e.message.role, "content": e.message.content}
            for e in conversation.entries.values()
        ]
        print_json({"session": transcript.name, "head": conversation.head, "entries": entries})
    else:
        show_result(results.Tree(transcript.name, conversation))


@app.command()
def rename(
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW")],
    sessions: SessionsOption = None,
) -> None:
    """Give a session another name."""
    renamed = SessionFolder(sessions_folder(sessions)).rename(name, new_name)
    print(clean(f"Renamed '{name}' to '{renamed}'."))


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    sessions: SessionsOption = None,
) -> None:
    """Delete a session and the checkpoints that no other session uses."""
    folder = sessions_folder(sessions)
    found = SessionFolder(folder).exact(name)
    if not yes and sys.stdin.isatty():
        typer.confirm(clean(f"Delete '{found}' for good?"), abort=True)
    freed = opening.delete(SessionFolder(folder), found)
    print(clean(f"Deleted '{found}' and {freed:,} bytes of checkpoints."))


@cache_app.command("stats")
def cache_stats(sessions: SessionsOption = None, as_json: JsonOption = False) -> None:
    """Show what the checkpoints take on disk, model by model."""
    folder = sessions_folder(sessions)
    with files.explained(f"read the checkpoints in {folder}"):
        usages = segments.usage(folder)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "segments": sum(use.segments for use in usages),
                "bytes": sum(use.rows_bytes + use.state_bytes for use in usages),
                "models": [asdict(use) for use in usages],
            }
        )
    else:
        show_result(results.DiskUse(str(folder), usages))


@cache_app.command("clear")
def cache_clear(sessions: SessionsOption = None, as_json: JsonOption = False) -> None:
    """Delete every checkpoint. No conversation is lost: the next turn computes them again."""
    freed = segments.clear(sessions_folder(sessions))
    if as_json:
        print_json({"freed_bytes": freed})
    else:
        print(f"Deleted {freed:,} bytes of checkpoints. The conversations are all there.")


def show_result(result: results.Result) -> None:
    from chatcli.repl import display

    display.Screen().result(result)


def print_json(value: Any) -> None:
    """JSON in ASCII, so that nothing in it can act on a terminal."""
    print(json.dumps(value))


def reopen_closed() -> None:
    """Give a closed standard stream the null device, so that no file of ours takes its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123


def main() -> None:
    """Run the command line and exit. A surprise is one line too, and a traceback if asked for."""
    reopen_closed()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        what = clean(f"{type(error).__name__}: {error}".splitlines()[0])
        print(f"chatcli: unexpected error, {what} ({DEBUG}=1 shows where).", file=sys.stderr)
        sys.exit(ChatcliError.exit_code)
