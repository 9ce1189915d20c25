"""The command line: the sole reader of argv and the environment; wires objects, sets exit codes.

Refuses to know how a turn works. Nothing here imports MLX until a model is needed.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import select
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import platformdirs
import typer

from chatcli import __version__
from chatcli.cli import ask_each as cli_each
from chatcli.cli import bench, cache, config, doctor, help, models, sessions
from chatcli.cli.options import (
    Name,
    Options,
    complete_session,
    our_ranks,
    own_stderr,
    print_json,
    sessions_folder,
    with_options,
)
from chatcli.commands import results
from chatcli.errors import INTERRUPTED, ChatcliError, EmptyPrompt, RankLost, UsageError
from chatcli.events import Alternatives, Notice, Settled, TurnDone, TurnRecord
from chatcli.model import device
from chatcli.model.ranks import Ranks
from chatcli.session import opening
from chatcli.session.opening import SessionRequest
from chatcli.store.sessions.folder import SessionFolder, recovered
from chatcli.text import clean, decodable
from chatcli.threads import executor
from chatcli.tui.render.progress import DownloadProgress
from chatcli.tui.terminal import startup

if TYPE_CHECKING:
    from chatcli.api import Chat
    from chatcli.session.live_chat import LiveChat

# The commands that run a model on every rank; any other is rank 0's alone.
SHARING = ("chat", "resume", "branch", "ask")
DEBUG = "CHATCLI_DEBUG"
# How long after it is terminated a process may still learn that another rank is gone (seconds).
NOTICED = 0.5


class ChatByDefault(help.Group):
    """`chatcli [options]` means `chatcli chat [options]`; errors become exit codes here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {name for parameter in self.params for name in parameter.opts} | {"--help", "-h"}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["chat", *args]
        if follows() and args[0] not in (*SHARING, *own):
            raise typer.Exit
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ChatcliError as error:
            print(f"chatcli: {clean(str(error))}", file=sys.stderr)
            raise typer.Exit(error.exit_code) from error
        except RankLost as error:
            print(f"chatcli: {clean(str(error))}", file=sys.stderr)
            # A thread may wait for that rank for ever, so the process goes without it.
            leave_at_once(error.exit_code)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=ChatByDefault,
    help="Chat with local thinking models. Nothing is computed twice: not on the next turn, "
    "not after quitting, not on a branch. Without a command: chat.",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(sessions.app)
app.add_typer(models.app)
app.add_typer(cache.app, name="cache")
app.add_typer(bench.app, name="bench")


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


@app.command(cls=help.Command)
@with_options
def chat(options: Options) -> None:
    """Chat in the terminal, or run a script of messages from a pipe."""
    talk(options, options.wanted())


@app.command(cls=help.Command)
@with_options
def resume(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_session)] = None,
    *,
    options: Options,
) -> None:
    """Go on with a saved session: choose one (in a pipe and with -c: the most recent)."""
    name = name or options.session
    if name is None:
        folder = SessionFolder(sessions_folder(options.sessions))
        choose = not options.latest and sys.stdin.isatty() and sys.stdout.isatty()
        name = sessions.pick(folder) if choose else folder.latest()
    if name is not None:
        talk(options, options.wanted(name, must_exist=True))


@app.command(cls=help.Command)
@with_options
def branch(
    name: Name,
    new: Annotated[str | None, typer.Option("--as", metavar="NEW", help="Its name.")] = None,
    *,
    options: Options,
) -> None:
    """Branch a session after turn --at into a new one, and go on there."""
    here = sys.stdin.isatty() and sys.stdout.isatty() and not options.as_json
    if our_ranks() is not None and not here:
        raise UsageError("To branch without going on takes one process: leave mlx.launch out.")
    folder = SessionFolder(sessions_folder(options.sessions))
    name = folder.resolve(name)
    made = opening.branch(folder, name, options.at, new)
    turns = len(made.conversation.turns())
    made.close()
    if options.as_json:
        print_json({"session": made.name, "branched_from": name, "turns": turns})
    elif not here:
        print(clean(f"Branched '{name}' after turn {turns} into '{made.name}'."))
    else:
        talk(replace(options, at=None), replace(options.wanted(made.name), at=None))


def talk(options: Options, wanted: SessionRequest) -> None:
    """The shell in a terminal; a script of messages where standard input is a pipe."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        in_terminal(options, wanted)
        return
    if our_ranks() is not None and "COLUMNS" in os.environ and not options.as_json:
        # mlx.launch, which tells how wide its terminal is, stands between.
        in_terminal(options, wanted, behind_launcher)
        return
    from chatcli.commands import script
    from chatcli.tui.render.pipe import Pipe

    chat = open_live(options, wanted)
    try:
        tell_recovery(chat.session.file)
        shown = JsonLines() if options.as_json else Pipe(context=chat.model.context_size)
        script.run((decodable(line) for line in sys.stdin), chat, shown)
    finally:
        let_go(chat)


def in_terminal(
    options: Options, wanted: SessionRequest, run: Callable[[LiveChat], None] | None = None
) -> None:
    """The shell on this terminal, or as `run` has it."""
    chat = open_live(options, wanted)
    try:
        if options.plain or os.environ.get("TERM", "dumb") == "dumb":
            by_lines(chat)
        else:
            (run or with_keys)(chat)
    finally:
        let_go(chat)


def by_lines(chat: LiveChat) -> None:
    from chatcli.tui import line_mode

    startup.restore()
    line_mode.run(chat)


def with_keys(chat: LiveChat) -> None:
    shell_of(chat, os.environ.get("VISUAL") or os.environ.get("EDITOR")).run()


def behind_launcher(chat: LiveChat) -> None:
    """The shell on the terminal of the launcher; line by line where it has none."""
    from chatcli.tui.terminal import launcher

    if not launcher.is_there():
        by_lines(chat)
        return
    with launcher.terminal():
        # An editor would read what the launcher passes on.
        shell_of(chat, None).run()


def shell_of(chat: LiveChat, editor: str | None) -> Any:
    from chatcli.tui.composer.history import open_history
    from chatcli.tui.live_region import LiveRegion
    from chatcli.tui.render.screen import Screen
    from chatcli.tui.shell import Shell

    live_region = LiveRegion(os.environ)
    screen = Screen.above_prompt(live_region, chat.model.settings.panel, chat.model.context_size)
    return Shell(chat, screen, live_region, open_history(history_file()), editor)


def open_live(options: Options, request: SessionRequest) -> LiveChat:
    """The session and the model that were asked for."""
    from chatcli.session.live_chat import LiveChat

    return LiveChat(options.settings(), request, options.model, our_ranks())


def let_go(chat: Chat | LiveChat) -> None:
    """Close a chat. A model that still loads cannot be ended, so the process goes without it."""
    if problem := chat.close():
        print(clean(f"chatcli: {problem}"), file=sys.stderr)
    leaving = sys.exc_info()[0]
    if (ranks := our_ranks()) is not None:
        ranks.close()
    if chat.abandoned and leaving in (None, KeyboardInterrupt):
        leave_at_once(INTERRUPTED if leaving else 0)


def leave_at_once(code: int) -> None:
    """End the process, whatever its threads are at."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    startup.restore()
    os._exit(code)


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
        self._download = DownloadProgress(sys.stderr)

    def event(self, event: Any) -> None:
        if self._download.takes(event):
            return
        if isinstance(event, TurnDone):
            self._record = event.record
        elif isinstance(event, Alternatives):
            self._record = None
            print_json({"alternatives": [record.as_json() for record in event.records]})
        elif isinstance(event, Settled) and self._record is not None:
            self._record.add(event)
        elif isinstance(event, Notice):
            print(clean(f"chatcli: {event.text}"), file=sys.stderr)

    def abandon(self) -> None:
        """A turn ended without a reply: nothing of it was printed."""
        self._download.end()

    def end_turn(self) -> None:
        if self._record is not None:
            print_json(self._record.as_json())

    def result(self, result: Any) -> None:
        if isinstance(result, results.Said):
            print_json({"said": result.text})


@app.command(cls=help.Command)
@with_options
def ask(
    prompt: Annotated[str | None, typer.Argument(help="Standard input is appended.")] = None,
    each: cli_each.Each = None,
    image: Annotated[
        list[str] | None,
        typer.Option("--image", metavar="PATH", help="Show an image with it; may be repeated."),
    ] = None,
    *,
    options: Options,
) -> None:
    """Run one turn without a terminal, or many beside each other."""
    from chatcli.commands import script
    from chatcli.conversation.images import read
    from chatcli.tui.render.pipe import Pipe

    images = [read(path) for path in image or ()]
    if each is not None:
        ask_each(cli_each.questions(each, prompt), options, images)
        return
    text = whole_prompt(prompt)
    chat = open_chat(options)
    try:
        tell_recovery(chat.session)
        shown = JsonLines() if options.as_json else Pipe(context=lambda: chat.context)
        with script.stop_on_interrupt() as cancelled:
            script.show(chat.send(text, cancelled, images=images), shown)
    finally:
        let_go(chat)
    if cancelled.is_set():
        raise typer.Exit(INTERRUPTED)


app.command("config")(config.command)
app.command("doctor")(doctor.command)


def open_chat(options: Options) -> Any:
    """What was asked for, through the same door as Python's."""
    from chatcli.api import Chat

    return Chat(options.wanted(), model=options.model, settings=options.settings(), ranks=our_ranks())


def ask_each(questions: list[str], options: Options, images: list[Any]) -> None:
    """Answer every question beside the others, each with the same images."""
    chat = open_live(options, options.wanted())
    try:
        tell_recovery(chat.session.file)
        cli_each.run(questions, chat, as_json=options.as_json, images=images)
    finally:
        let_go(chat)


def whole_prompt(prompt: str | None) -> str:
    """The argument, then standard input unless that is a terminal. Raises `EmptyPrompt`, and
    `UsageError` where it would never end.
    """
    typed = sys.stdin is None or sys.stdin.isatty()
    if not typed and our_ranks() is not None:
        typed = True
        if select.select([sys.stdin], [], [], 0)[0] and os.read(sys.stdin.fileno(), 1):
            raise UsageError("mlx.launch never ends standard input: give the prompt as an argument.")
    piped = "" if typed else sys.stdin.read()
    text = "\n\n".join(part for part in (prompt or "", piped.rstrip("\n")) if part.strip())
    if not text:
        raise EmptyPrompt("The prompt is empty: give it as an argument or on standard input.")
    return decodable(text)


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
    ending = Ending()
    # What is registered first runs last: the others have run by then, but for those of what is
    # imported above.
    atexit.register(ending.leave)
    reopen_closed()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if (ranks := our_ranks()) is not None:
        settle_among(ranks)
    else:
        device.show_one_gpu(os.environ)
    try:
        app()
    except SystemExit as end:
        ending.code = end.code
        raise
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        what = clean(f"{type(error).__name__}: {error}".splitlines()[0])
        print(f"chatcli: unexpected error, {what} ({DEBUG}=1 shows where).", file=sys.stderr)
        sys.exit(ChatcliError.exit_code)


def follows() -> bool:
    """Whether this is a rank that does what rank 0 does."""
    ranks = our_ranks()
    return ranks is not None and not ranks.leads


def settle_among(ranks: Ranks) -> None:
    """Of several ranks only rank 0 reads and prints, and is interrupted."""
    if DEBUG not in os.environ:
        # MLX says there again and again what is told in one sentence, across what the shell draws.
        sys.stderr = own_stderr()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if follows():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode) for mode in "rww")  # noqa: SIM115, PTH123
        return

    def terminated(*_: object) -> None:
        # mlx.launch ends all when one is gone: that has to be told and what came to be kept.
        if not ranks.ended.wait(NOTICED):
            ranks.leave()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, terminated)


class Ending:
    """Ends a process that ran a model at once: to take MLX and transformers apart takes half a second."""

    code: Any = None

    def leave(self) -> None:
        """Called at exit, when nothing is left to write. Another exit code than a number is Python's."""
        executor.end_all()
        if isinstance(self.code, int) and "mlx.core" in sys.modules:
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.code)
