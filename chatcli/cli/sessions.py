"""The commands about saved sessions: list, search, show, tree, rename, delete, export, import, history."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from chatcli import files
from chatcli.cli import help
from chatcli.cli.options import (
    CacheLimitOption,
    JsonOption,
    Name,
    SessionsOption,
    YesOption,
    complete_session,
    session_folder,
    turn_number,
    value_of,
)
from chatcli.cli.output import confirm, print_json, print_sentence, show_result, warn
from chatcli.commands import results
from chatcli.conversation.tree import Conversation
from chatcli.errors import BadName, ChatcliError, SessionExists, SessionNotFound, UsageError
from chatcli.exchange import export as exporting
from chatcli.exchange import importing
from chatcli.store.sessions import history, pins
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.transcript import recovered
from chatcli.text import clean, clean_line, count, decodable, file_size, listed
from chatcli.tui.render.progress import bytes_bar

NEWEST = 50
# Sessions that a question names one by one.
MAX_NAMED = 5
STDIO = Path("-")

app = typer.Typer()
history_app = typer.Typer(
    cls=help.Group, help="Clear the messages that Up and Ctrl-R recall.", no_args_is_help=True
)


def export_format(word: str) -> str:
    """Raises `UsageError`."""
    return word if word in exporting.FORMATS else exporting.format_of(f".{word}")


@app.command("list", cls=help.Command)
def list_(
    everything: Annotated[bool, typer.Option("-a", "--all", help=f"Not only the newest {NEWEST}.")] = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the saved sessions, last used first. JSON has all of them."""
    folder = session_folder(sessions)
    summaries = folder.summaries(None if everything or as_json else NEWEST)
    if as_json:
        print_json([vars(summary) for summary in summaries])
    else:
        more = 0 if everything else folder.count() - len(summaries)
        show_result(results.Listing(summaries, more, folder.command("list --all")))


@app.command(cls=help.Command)
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Quote several words to find a phrase.")],
    thinking: Annotated[bool, typer.Option("--thinking", help="Search the thinking too.")] = False,
    everything: Annotated[bool, typer.Option("-a", "--all", help=f"Not only the newest {NEWEST}.")] = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find messages that contain all of these words. Every session and every branch is searched."""
    from chatcli.store.sessions import search as searching

    words = [decodable(word) for word in words]
    folder = session_folder(sessions)
    hits = searching.find(folder.folder, words, thinking=thinking, report=warn)
    matches = searching.newest(hits, words, None if everything else NEWEST)
    if as_json:
        names = [field.name for field in fields(searching.Hit) if field.name != "marks"]
        print_json([{name: getattr(hit, name) for name in names} for hit in matches.hits])
    else:
        more = folder.command(f"search{' --thinking' * thinking} --all", *words)
        show_result(replace(matches, all_command=more))


@app.command(cls=help.Command)
def show(
    name: Name,
    thinking: Annotated[bool, typer.Option("--thinking", help="Show the thinking too.")] = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a session's conversation, or that of a sealed file (FILE.chatcli)."""
    folder, sealed = session_folder(sessions), None
    if is_sealed_file(folder, name):
        from chatcli.exchange import sealed as sealing

        with files.explained(f"read {name}"), sealing.opened(files.from_home(name)) as each:
            transcript, sealed = each.transcript, each.about()
    else:
        transcript = folder.read(name)
    for note in recovered(transcript):
        warn(note)
    conversation = transcript.conversation
    if as_json:
        about = {} if sealed is None else {"sealed": sealed}
        print_json({**as_object(transcript.name, conversation), **about})
        return
    show_result(results.Transcript(transcript.name, conversation, thinking))
    if sealed is not None:
        made = clean_line(" on ".join(filter(None, (sealed["model"], sealed["program"]))))
        kept = f"checkpoints of {count('token', sealed['tokens'])}, {file_size(sealed['bytes'])}"
        print_sentence(
            " ".join(filter(None, (f"Sealed, made with {made}: {kept}.", sealed["note"]))), sys.stdout
        )


def is_sealed_file(folder: SessionFolder, name: str) -> bool:
    """Whether a name means a sealed file rather than a session."""
    with contextlib.suppress(BadName):
        if folder.exists(files.check_name(name)):
            return False
    return importing.is_sealed(files.from_home(name))


def as_object(name: str, conversation: Conversation) -> dict[str, Any]:
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
                **({"images": list(map(asdict, images))} if (images := turn.user.message.images) else {}),
                "text": turn.reply.message.content if turn.reply else None,
                "thinking": turn.reply.message.thinking if turn.reply else None,
                "finish_reason": turn.reply.finish_reason if turn.reply else None,
                **(turn.reply.record if turn.reply else {}),
            }
            for turn in conversation.turns()
        ],
    }


@app.command(cls=help.Command)
def stats(name: Name, sessions: SessionsOption = None, as_json: JsonOption = False) -> None:
    """Show what each turn of a session reused, and its times."""
    transcript = session_folder(sessions).read(name)
    result = results.Stats.of(transcript.name, transcript.conversation)
    if as_json:
        turns = [{"turn": number, **record} for number, record in result.turns]
        print_json({"session": transcript.name, "turns": turns})
    else:
        show_result(result)


@app.command(cls=help.Command)
def tree(name: Name, sessions: SessionsOption = None, as_json: JsonOption = False) -> None:
    """Draw a session with its branches."""
    transcript = session_folder(sessions).read(name)
    conversation = transcript.conversation
    if as_json:
        entries = [
            {"id": e.id, "parent": e.parent, "role": e.message.role, "content": e.message.content}
            for e in conversation.entries.values()
        ]
        print_json({"session": transcript.name, "head": conversation.head, "entries": entries})
    else:
        show_result(results.Tree(transcript.name, conversation))


@app.command(cls=help.Command)
def rename(
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW")],
    sessions: SessionsOption = None,
) -> None:
    """Rename a session."""
    folder = session_folder(sessions)
    old_name = folder.resolve(name)
    renamed = folder.rename(old_name, new_name)
    print(clean(f"Renamed '{old_name}' to '{renamed}'."))


@app.command(cls=help.Command)
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME", autocompletion=complete_session)],
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask. Needs whole names.")] = False,
    sessions: SessionsOption = None,
) -> None:
    """Delete sessions, and the checkpoints that only they use."""
    from chatcli.store import maintenance

    folder = session_folder(sessions)
    is_asked = sys.stdin.isatty() and not yes
    whole_names = list(dict.fromkeys(folder.resolve(name) for name in names))
    for name in names if not is_asked else ():
        if (whole_name := folder.resolve(name)) != name:
            raise SessionNotFound(
                f"There is no session '{name}': give the whole name, '{whole_name}', to delete that one."
            )
    for name in whole_names:
        folder.check_closed(name)
    if not yes:
        parts = []
        for name in whole_names[:MAX_NAMED]:
            try:
                turns = count("turn", len(folder.read(name).conversation.turns()))
            except ChatcliError:
                turns = "cannot be read"
            parts.append(f"'{name}' ({turns}, {file_size(folder.size(name))})")
        parts += whole_names[MAX_NAMED:]
        question = f"Delete {listed(parts, MAX_NAMED)} for good, with the checkpoints?"
        is_short = len(whole_names) <= MAX_NAMED
        confirm(question, folder.command("delete --yes", *whole_names) if is_short else None)
    for name in whole_names:
        freed = maintenance.delete(folder, name)
        print(clean(f"Deleted '{name}' and {file_size(freed)} of checkpoints."))


@app.command(cls=help.Command)
def export(
    name: Name,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="md|html|json", parser=export_format, help="Default: FILE's suffix, else md."
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", show_default=False, help="Default: standard output."),
    ] = STDIO,
    thinking: Annotated[
        bool, typer.Option("--thinking", help="Include the thinking (JSON always does).")
    ] = False,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="TURN", parser=turn_number, help="Only up to this turn."),
    ] = None,
    branches: Annotated[
        bool, typer.Option("--branches", help="In a sealed file: include the checkpoints of every branch.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    sessions: SessionsOption = None,
) -> None:
    """Write a session as Markdown, HTML or JSON, or seal it with its checkpoints (FILE.chatcli).

    JSON and sealed files have every branch.
    """
    folder = session_folder(sessions)
    transcript, bytes_of = folder.read(name), Gallery(folder.folder).data
    for problem in transcript.problems:
        warn(problem)
    form = exporting.format_of(output.suffix) if format_ is None else format_
    conversation = transcript.conversation
    if at is not None:
        conversation = conversation.upto(conversation.end_of_turn(at))
    if branches and form != "chatcli":
        raise UsageError("--branches is for sealed files: name one that ends in .chatcli with -o.")
    if form == "chatcli" and output == STDIO:
        raise UsageError("A sealed conversation must be written to a file: -o NAME.chatcli")
    if form == "json" and output == STDIO:
        print_json(exporting.to_dict(transcript.name, conversation, bytes_of))
        return
    path = output.expanduser()
    if output != STDIO and path.exists() and not force:
        raise ChatcliError(f"{path} exists already: --force overwrites it.")
    if form == "chatcli":
        from chatcli.exchange import sealed

        with bytes_bar("sealing") as progress:
            sealed.write(
                path, folder, transcript.name, conversation, branches=branches, force=force, progress=progress
            )
        return
    text = exporting.text_of(form, transcript.name, conversation, thinking=thinking, bytes_of=bytes_of)
    if output == STDIO:
        sys.stdout.write(text)
        return
    exporting.write(path, text.encode(), force=force)


@app.command("import", cls=help.Command)
def import_(
    names: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Exports, or messages; - is standard input.")
    ],
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Name of the new session.")] = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="From a sealed file: import its checkpoints too.")
    ] = True,
    pin: Annotated[bool, typer.Option("--pin", help="Never evict its checkpoints.")] = False,
    limit: CacheLimitOption = None,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a session from each sealed file, JSON export, or list of messages with roles (JSON or JSONL)."""
    if name is not None:
        files.check_name(name)
        if len(names) > 1:
            raise UsageError("--as names one session: give one FILE with it.")
    folder, error = session_folder(sessions), None
    if name is not None and folder.exists(name):
        raise SessionExists(f"There is a session '{name}' already: choose another name.")
    for file in names:
        try:
            path = files.from_home(str(file))
            if file != STDIO and importing.is_sealed(path):
                import_sealed(folder, path, name, limit, checkpoints=cache, pin=pin, as_json=as_json)
                continue
            with files.explained(f"read {file}"):
                if file == STDIO:
                    data = files.read_at_most(sys.stdin.buffer, files.MAX_IMPORT_BYTES)
                else:
                    data = files.read_named(path, files.MAX_IMPORT_BYTES)
            with importing.save(folder, importing.read(data), name) as session:
                turns = len(session.conversation.turns())
            if pin:
                pins.add(folder.location, session.name)
        except ChatcliError as problem:
            if len(names) == 1:
                raise
            error = problem
            warn(str(problem) if str(file) in str(problem) else f"{file}: {problem}")
            continue
        if as_json:
            print_json({"session": session.name, "turns": turns})
            continue
        imported = f"Imported {count('turn', turns)} as '{session.name}'."
        resume = f" To continue it: {folder.command('resume', session.name)}" if len(names) == 1 else ""
        print_sentence(f"{imported}{resume}", sys.stdout)
    if error is not None:
        raise typer.Exit(error.exit_code)


def import_sealed(
    folder: SessionFolder,
    path: Path,
    name: str | None,
    limit: str | None,
    *,
    checkpoints: bool,
    pin: bool,
    as_json: bool,
) -> None:
    """Make a session from a sealed file, and report which of its checkpoints can be used."""
    from chatcli.exchange import sealed as sealing
    from chatcli.store import maintenance
    from chatcli.store.segments import budget

    limit_bytes = value_of("cache_limit", limit)
    with files.explained(f"read {path}"), sealing.opened(path) as sealed, bytes_bar("importing") as progress:
        about = sealed.about()
        most = budget.limit_or_default(limit_bytes, folder.folder)
        with sealing.unpack(
            folder, sealed, name, limit=most, checkpoints=checkpoints, progress=progress
        ) as session:
            turns = len(session.conversation.turns())
    if pin:
        maintenance.pin(folder, session.name, limit_bytes)
    if as_json:
        print_json({"session": session.name, "turns": turns, "sealed": about})
        return
    print_sentence(f"Imported {count('turn', turns)} as '{session.name}'.", sys.stdout)
    if about["note"] is not None:
        print_sentence(about["note"], sys.stdout)
    elif checkpoints and about["segments"]:
        kept = f"{count('token', about['tokens'])} ({file_size(about['bytes'])})"
        print_sentence(f"With the checkpoints of {kept}, for {clean_line(about['model'])}.", sys.stdout)
    print_sentence(f"To continue it: {folder.command('resume', session.name)}", sys.stdout)


def pick(folder: SessionFolder) -> str | None:
    """The session that a person chooses in the full-screen list, None if they leave it.

    Raises `SessionNotFound` if there is none.
    """
    summaries = folder.summaries()
    if not summaries:
        folder.latest()
    from chatcli.tui.pickers.sessions import SessionActions, pick_session
    from chatcli.tui.terminal import startup

    startup.pass_on_typed()
    return pick_session(summaries, SessionActions.on(folder))


@history_app.command("clear", cls=help.Command)
def clear_history(
    yes: YesOption = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget everything that was typed. The conversations stay."""
    folder = session_folder(sessions)
    if not yes:
        question = "Forget everything that was typed? The conversations stay."
        confirm(question, folder.command("history clear --yes"))
    with files.explained(f"clear the history in {folder.folder}"):
        cleared = history.clear(folder.location)
    if as_json:
        print_json({"cleared": cleared})
    else:
        print(f"Forgot {count('entry', cleared, 'entries')}.")
