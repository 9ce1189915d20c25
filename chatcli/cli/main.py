"""The commands: what `chatcli` and each of its commands do with argv, the environment and standard input.

Nothing here imports MLX until a model is needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chatcli import __version__, files
from chatcli.cli import (
    arguments,
    ask_each,
    bench,
    cache,
    config,
    doctor,
    help,
    models,
    serve,
    sessions,
)
from chatcli.cli.options import (
    LatestOption,
    Name,
    Options,
    SessionOption,
    brief,
    complete_session,
    with_options,
)
from chatcli.cli.output import print_json, warn
from chatcli.cli.process import (
    INTERRUPTED,
    announce_download,
    approve_and_start_again,
    close,
    is_follower,
    leave_at_once,
    our_ranks,
    piped_lines,
    piped_text,
)
from chatcli.commands.results import PlainText, Result
from chatcli.errors import ChatcliError, CodeNotTrusted, EmptyPrompt, RankLost, UsageError
from chatcli.events import Alternatives, Download, Event, Notice, Settled, TurnDone, TurnRecord
from chatcli.replies.answer_form import form_of
from chatcli.session import opening
from chatcli.session.opening import SessionRequest
from chatcli.text import clean, decodable, shorten
from chatcli.tui.render.progress import DownloadProgress
from chatcli.tui.terminal import startup

if TYPE_CHECKING:
    from chatcli.conversation.images import Image
    from chatcli.session.live_chat import LiveChat

# The commands that run a model on every rank; only rank 0 runs the others.
ON_EVERY_RANK = ("chat", "resume", "branch", "ask")
Text = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="The first message (in a pipe: the only one).")
]


class ChatByDefault(help.Group):
    """Puts the command line in order (`arguments.ordered`); errors become exit codes here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            args = arguments.ordered(self, args, completing=ctx.resilient_parsing)
        except UsageError as error:
            warn(str(error))
            ctx.exit(error.exit_code)
        if is_follower() and args[0] not in ON_EVERY_RANK and not args[0].startswith("-"):
            raise typer.Exit
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CodeNotTrusted as error:
            warn(str(error))
            approve_and_start_again(error)
            raise typer.Exit(error.exit_code) from error
        except ChatcliError as error:
            warn(str(error))
            raise typer.Exit(error.exit_code) from error
        except help.ParseError as error:
            warn(help.sentence_of(error))
            raise typer.Exit(UsageError.exit_code) from error
        except RankLost as error:
            warn(str(error))
            # A thread may wait forever for that rank, so the process exits without it.
            leave_at_once(error.exit_code)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


class JsonLines:
    """Prints what happens in a conversation: a turn's record when it ends, notices to standard error."""

    def __init__(self, *, brief: bool = False, quiet: bool = False) -> None:
        self._brief, self._quiet = brief, quiet
        self._record: TurnRecord | None = None
        self._download = DownloadProgress(sys.stderr)

    def event(self, event: Event) -> None:
        if self._quiet and isinstance(event, Download | Notice):
            return
        if self._download.takes(event):
            return
        if isinstance(event, TurnDone):
            self._record = event.record
        elif isinstance(event, Alternatives):
            self._record = None
            print_json({"alternatives": [record.as_json(brief=self._brief) for record in event.records]})
        elif isinstance(event, Settled) and self._record is not None:
            self._record.add(event)
        elif isinstance(event, Notice):
            warn(event.text)

    def abandon(self) -> None:
        """Forget a turn that ended without a reply: nothing was printed."""
        self._download.end()

    def end_turn(self) -> None:
        if self._record is not None:
            print_json(self._record.as_json(brief=self._brief))

    def result(self, result: Result) -> None:
        if isinstance(result, PlainText):
            print_json({"said": result.text})


app = typer.Typer(
    cls=ChatByDefault,
    help="Chat with local thinking models; nothing is computed twice. Without a command, it opens a chat.",
    epilog=help.EPILOG,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": help.columns()},
    subcommand_metavar="[COMMAND | TEXT]",
)
app.add_typer(sessions.app)
app.add_typer(models.app)
app.add_typer(cache.app, name="cache")
app.add_typer(sessions.history_app, name="history")
app.add_typer(bench.app, name="bench")


def print_version(requested: bool) -> None:
    if requested:
        print(f"chatcli {__version__}")
        raise typer.Exit


@app.callback()
def common(
    model: Annotated[
        str | None, brief("model", "Chat with this model: a folder, a hub name or an alias.")
    ] = None,
    latest: LatestOption = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "-r",
            "--resume",
            metavar="[NAME]",
            help="Continue a session: this one, or one from a list.",
            autocompletion=complete_session,
        ),
    ] = None,
    system: Annotated[str | None, brief("system", "Set the system prompt.")] = None,
    session: SessionOption = None,
    sessions: Annotated[Path | None, brief("sessions", "Keep sessions in this folder.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Keep nothing on disk.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """For the help and for completion: `arguments.ordered` gives these options to the commands."""


@app.command(cls=help.Command)
@with_options
def chat(text: Text = None, *, options: Options) -> None:
    """Chat in the terminal. From a pipe, each line is a message, or all of them belong to TEXT."""
    converse(options, options.request(), " ".join(text or ()))


@app.command(cls=help.Command)
@with_options
def resume(
    name: Annotated[str | None, typer.Argument(metavar="NAME", autocompletion=complete_session)] = None,
    text: Text = None,
    *,
    options: Options,
) -> None:
    """Continue a saved session. Without NAME, choose from a list (in a pipe: the most recent)."""
    name = name or options.session
    if name is None:
        folder = options.session_folder()
        choose = not options.latest and sys.stdin.isatty() and sys.stdout.isatty()
        name = sessions.pick(folder) if choose else folder.latest()
    if name is not None:
        converse(options, options.request(name, must_exist=True), " ".join(text or ()))


@app.command(cls=help.Command)
@with_options(leave_out=("private",))
def branch(
    name: Name,
    new: Annotated[str | None, typer.Option("--as", metavar="NEW", help="Name of the new session.")] = None,
    *,
    options: Options,
) -> None:
    """Copy a session up to a turn into a new one, and continue there."""
    in_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not options.as_json
    if our_ranks().size > 1 and not in_terminal:
        raise UsageError("Branching without a chat takes one process: run it without mlx.launch.")
    folder = options.session_folder()
    name = folder.resolve(name)
    session = opening.branch(folder, name, options.at, new)
    turns = len(session.conversation.turns())
    session.close()
    if options.as_json:
        print_json({"session": session.name, "branched_from": name, "turns": turns})
    elif not in_terminal:
        print(clean(f"Branched '{name}' after turn {turns} into '{session.name}'."))
    else:
        converse(replace(options, at=None), replace(options.request(session.name), at=None))


def converse(options: Options, request: SessionRequest, text: str = "") -> None:
    """The shell in a terminal, with `text` as the first message; in a pipe the reply to it, or a script."""
    from chatcli.session.live_chat import LiveChat

    in_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not (text and options.as_json)
    # mlx.launch sets COLUMNS in a terminal, and passes on whole lines that are typed there.
    behind_launcher = our_ranks().size > 1 and "COLUMNS" in os.environ and not options.as_json
    interactive = in_terminal or behind_launcher
    if text and not interactive:
        answer(whole_prompt(text), options, request)
        return
    chat = LiveChat(
        options.settings(),
        request,
        options.flags.get("model"),
        our_ranks(),
        load_at_once=not interactive,
    )
    try:
        if interactive:
            chat.model.check_name()
            if our_ranks().size == 1:
                announce_download(chat.model)
            run_shell(chat, text, plain=options.plain or not in_terminal)
        else:
            from chatcli.commands import script
            from chatcli.tui.render.pipe import Pipe

            report(chat.notes())
            brief = options.json_brief
            screen = JsonLines(brief=brief) if options.as_json else Pipe(context=chat.model.context_size)
            script.run(piped_lines(), chat, screen)
    finally:
        close(chat)


def run_shell(chat: LiveChat, text: str, *, plain: bool) -> None:
    """The shell on this terminal, line by line if it is `plain` or nothing can be drawn."""
    if plain or os.environ.get("TERM", "dumb") == "dumb":
        from chatcli.tui import line_mode

        startup.restore()
        chat.model.load()
        line_mode.run(chat, text)
        return
    from chatcli.tui.composer.editor import find_editor
    from chatcli.tui.composer.history import SessionHistory
    from chatcli.tui.live_region import LiveRegion
    from chatcli.tui.render.screen import Screen
    from chatcli.tui.shell import Shell

    startup.pass_on_typed()
    live_region = LiveRegion(os.environ)
    screen = Screen.above_prompt(live_region, chat.model.settings.panel, chat.model.context_size)
    typed = SessionHistory(chat.session.folder.location, lambda: chat.session.name, lambda: shell.is_private)
    shell = Shell(chat, screen, live_region, typed, find_editor(os.environ))
    try:
        shell.run(text)
    finally:
        typed.close()


def report(notes: Sequence[str]) -> None:
    """Print on standard error what was repaired in a session, and which of its settings flags override."""
    for note in notes:
        warn(note)


@app.command(cls=help.Command)
@with_options
def ask(
    prompt: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="Standard input is appended to it.")
    ] = None,
    each: ask_each.Each = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Print the reply alone: no thinking, no notices.")
    ] = False,
    image: Annotated[
        list[str] | None,
        typer.Option("--image", metavar="PATH", help="Show an image with it; may be repeated."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="FILE", help="Constrain the answer, but not the thinking, to a JSON schema."
        ),
    ] = None,
    *,
    options: Options,
) -> None:
    """Print the reply to one prompt, or to many at once. For scripts and pipes."""
    from chatcli.conversation.images import read
    from chatcli.session.live_chat import LiveChat

    images = [read(path) for path in image or ()]
    schema_values = read_schema(schema) if schema is not None else None
    form = form_of(schema_values) if schema is not None else None
    text = " ".join(prompt or ())
    if each is not None:
        questions = ask_each.read_questions(each, text)
        model = options.flags.get("model")
        live_chat = LiveChat(options.settings(), options.request(), model, our_ranks())
        is_new = not live_chat.session.log.is_saved
        try:
            report(() if quiet else live_chat.notes())
            ask_each.run(questions, live_chat, options, images, answer=form, quiet=quiet)
        finally:
            log = live_chat.session.log
            begun = log if is_new and log.is_saved else None
            if begun is not None and options.session is None:
                ask_each.show_an_answer(begun)
            close(live_chat)
            if begun is not None and not ask_each.answers_in(begun):
                with contextlib.suppress(ChatcliError):
                    options.session_folder().delete(begun.name)
        return
    answer(whole_prompt(text), options, options.request(), images, schema_values, quiet=quiet)


def read_schema(source: str) -> Any:
    """A JSON file's value. Raises `UsageError` or `FolderError`."""
    with files.explained(f"read {source}"):
        data = files.read_named(files.from_home(source), files.MAX_PROMPT_BYTES)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--schema: {source} is not valid JSON: {shorten(str(error), 80)}.") from None


def answer(
    text: str,
    options: Options,
    request: SessionRequest,
    images: Sequence[Image] = (),
    schema: Mapping[str, Any] | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Take one turn and print its reply. Exits with `INTERRUPTED` if Ctrl-C stopped it."""
    from chatcli.api import Chat
    from chatcli.commands import script
    from chatcli.tui.render.pipe import Pipe

    chat = Chat(request, model=options.flags.get("model"), settings=options.settings(), ranks=our_ranks())
    try:
        report(() if quiet else chat.notes)
        dims = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        screen = (
            JsonLines(brief=options.json_brief, quiet=quiet)
            if options.as_json
            else Pipe(context=lambda: chat.context, dim_thinking=dims, quiet=quiet)
        )
        with script.stop_on_interrupt() as cancelled:
            script.show(chat.send(text, cancelled, images=images, schema=schema), screen)
    finally:
        close(chat)
    if cancelled.is_set():
        raise typer.Exit(INTERRUPTED)


def whole_prompt(prompt: str) -> str:
    """The argument, then standard input unless that is a terminal.

    Raises `EmptyPrompt`, and `UsageError` if standard input would never end.
    """
    piped = ""
    if sys.stdin is not None and not sys.stdin.isatty():
        if our_ranks().size == 1:
            piped = piped_text()
        elif select.select([sys.stdin], [], [], 0)[0] and os.read(sys.stdin.fileno(), 1):
            raise UsageError("mlx.launch never ends standard input: give the prompt as an argument.")
    text = "\n\n".join(part for part in (prompt, piped.rstrip("\n")) if part.strip())
    if not text:
        raise EmptyPrompt("The prompt is empty: give it as an argument or on standard input.")
    return decodable(text)


app.command("serve", cls=help.Command)(serve.command)
app.command("config", cls=help.Command)(config.command)
app.command("doctor", cls=help.Command)(doctor.command)
