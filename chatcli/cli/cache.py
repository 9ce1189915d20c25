"""`chatcli cache …`: shows, checks, pins and clears the checkpoints on disk.

The store's modules take a tenth of a second to import, so only the commands that need them import them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from chatcli import files
from chatcli.cli import help
from chatcli.cli.options import (
    CacheLimitOption,
    JsonOption,
    Name,
    SessionsOption,
    YesOption,
    session_folder,
    value_of,
)
from chatcli.cli.output import confirm, print_json, show_result
from chatcli.commands.results import PlainText, Table
from chatcli.files import Location
from chatcli.store.sessions import pins
from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import clean, clean_line, count, file_size

if TYPE_CHECKING:
    from chatcli.store.maintenance import Written
    from chatcli.store.segments.inventory import Usage

# Enough digits of a fingerprint to tell models apart.
FINGERPRINT_DIGITS = 8
NONE_PINNED: Mapping[str, int] = MappingProxyType({})

app = typer.Typer(cls=help.Group, help="Show, check or clear the checkpoints on disk.", no_args_is_help=True)


@app.command(cls=help.Command)
def stats(
    limit: CacheLimitOption = None, sessions: SessionsOption = None, as_json: JsonOption = False
) -> None:
    """Show how much disk the checkpoints take, by model."""
    from chatcli.store import maintenance
    from chatcli.store.segments import budget, inventory

    folder = value_of("sessions", sessions)
    limit_bytes = value_of("cache_limit", limit)
    with files.explained(f"read the checkpoints in {folder}"):
        usages = inventory.usage(folder)
        limit_bytes = budget.limit_or_default(limit_bytes, folder)
        written = maintenance.written(SessionFolder(folder))
        pinned = maintenance.pinned_bytes(Location.of(folder), pins.names(folder))
    names = maintenance.model_names(folder)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "segments": sum(usage.segments for usage in usages),
                "bytes": sum(usage.bytes for usage in usages),
                "limit_bytes": limit_bytes,
                "written": asdict(written),
                "pinned": [{"session": name, "bytes": size} for name, size in pinned.items()],
                "models": [
                    {**asdict(usage), "bytes": usage.bytes, "model": names.get(usage.fingerprint)}
                    for usage in usages
                ],
            }
        )
    else:
        table = disk_use(usages, names, limit_bytes, written, pinned)
        show_result(table if usages else PlainText("No checkpoints on disk."))


def disk_use(
    usages: Sequence[Usage],
    names: Mapping[str, str],
    limit_bytes: int,
    written: Written,
    pinned: Mapping[str, int] = NONE_PINNED,
) -> Table:
    """The size of each model's checkpoints; `names` has models by fingerprint, `pinned` bytes by session."""
    from chatcli.tui.render.results import model_label

    rows = [
        [
            model_label(names[usage.fingerprint]) if usage.fingerprint in names else "in no session",
            usage.fingerprint[:FINGERPRINT_DIGITS],
            f"{usage.segments:,}",
            f"{count('file', usage.rows_files)}, {file_size(usage.rows_bytes)}",
            f"{count('file', usage.states)}, {file_size(usage.state_bytes)}",
        ]
        for usage in usages
    ]
    notes = [f"{file_size(sum(usage.bytes for usage in usages))} of at most {file_size(limit_bytes)}"]
    if written.days:
        *_, (day, newest) = sorted(written.days.items())
        name, most = max(written.sessions.items(), key=itemgetter(1))
        notes.append(
            f"written so far: {file_size(sum(written.days.values()))} in {count('day', len(written.days))}, "
            f"{file_size(newest)} on {day}; most by '{clean_line(name)}', {file_size(most)}"
        )
    if pinned:
        each = (f"'{clean_line(name)}', {file_size(size)}" for name, size in pinned.items())
        notes.append(f"pinned: {'; '.join(each)}")
    return Table("", ("model", "fingerprint", "segments", "rows", "states"), rows, notes)


@app.command(cls=help.Command)
def pin(
    name: Name, limit: CacheLimitOption = None, sessions: SessionsOption = None, as_json: JsonOption = False
) -> None:
    """Never evict the checkpoints of a session, including those of its later turns."""
    from chatcli.store import maintenance
    from chatcli.store.segments import budget

    folder, limit_bytes = session_folder(sessions), value_of("cache_limit", limit)
    name = folder.resolve(name)
    size = maintenance.pin(folder, name, budget.limit_or_default(limit_bytes, folder.folder))
    if as_json:
        print_json({"pinned": name, "bytes": size})
    else:
        print(clean(f"Pinned '{name}': its checkpoints stay, {file_size(size)} so far."))


@app.command(cls=help.Command)
def unpin(name: Name, sessions: SessionsOption = None, as_json: JsonOption = False) -> None:
    """Allow the checkpoints of a session to be evicted again."""
    from chatcli.store import maintenance

    folder = session_folder(sessions)
    name = folder.resolve(name)
    maintenance.unpin(folder, name)
    if as_json:
        print_json({"unpinned": name})
    else:
        print(clean(f"'{name}' is not pinned."))


@app.command(cls=help.Command)
def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Set damaged files aside, to be computed again.")
    ] = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read every checkpoint and transcript, and name whatever is damaged."""
    from chatcli.store import maintenance
    from chatcli.store.segments import inventory, segments

    session_files = session_folder(sessions)
    folder = session_files.folder
    with files.explained(f"read the checkpoints in {folder}"):
        damaged = list(inventory.verify(folder))
    for problem in damaged if repair else ():
        segments.set_aside(problem.path)
    repaired = repair and not any(problem.path.exists() for problem in damaged)
    transcripts = maintenance.damaged_transcripts(session_files)
    if as_json:
        problems = [{"file": str(problem.path), "reason": problem.reason} for problem in damaged]
        print_json({"damaged": problems, "transcripts": transcripts, "repaired": repaired})
    else:
        lines = [f"! {problem.path.path.relative_to(folder)}: {problem.reason}" for problem in damaged]
        lines += [f"! {problem}" for problem in transcripts]
        if damaged and repaired:
            lines.append("Set aside: the next turn computes these checkpoints again.")
        elif damaged:
            repair_command = session_files.command("cache verify --repair")
            lines.append(f"To set damaged checkpoints aside: {repair_command}")
        whole = "Every checkpoint and transcript is whole."
        show_result(PlainText("\n".join(map(clean_line, lines)) or whole))
    if transcripts or (damaged and not repaired):
        raise typer.Exit(1)


@app.command(cls=help.Command)
def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
    limit: CacheLimitOption = None,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove what no session needs and what exceeds the limit."""
    from chatcli.store import maintenance
    from chatcli.store.segments import budget, eviction

    folder = value_of("sessions", sessions)
    limit_bytes = value_of("cache_limit", limit)
    with files.explained(f"clean up the checkpoints in {folder}"):
        limit_bytes = budget.limit_or_default(limit_bytes, folder)
        removals = maintenance.collectable(SessionFolder(folder), limit_bytes)
        freed = sum(each.size for each in removals) if dry_run else eviction.remove(removals)
    if as_json:
        removed = [{"file": str(each.path), "bytes": each.size, "reason": each.reason} for each in removals]
        print_json({"dry_run": dry_run, "freed_bytes": freed, "removed": removed})
    else:
        sizes: dict[str, list[int]] = {}
        for removal in removals:
            sizes.setdefault(removal.reason, []).append(removal.size)
        lines = [f"{len(each)} files, {file_size(sum(each))}: {reason}" for reason, each in sizes.items()]
        freed_line = f"{file_size(freed)} {'would be freed' if dry_run else 'freed'}."
        show_result(PlainText("\n".join([*lines, freed_line]) if lines else "There is nothing to remove."))


@app.command(cls=help.Command)
def clear(
    yes: YesOption = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete every checkpoint. No conversation is lost: the next turn computes them again."""
    from chatcli.store.segments import inventory

    session_files = session_folder(sessions)
    folder = session_files.folder
    if not yes:
        with files.explained(f"read the checkpoints in {folder}"):
            used = file_size(inventory.total_bytes(folder))
        question = f"Delete {used} of checkpoints? They must be computed again; conversations stay."
        confirm(question, session_files.command("cache clear --yes"))
    freed = inventory.clear(folder)
    if as_json:
        print_json({"freed_bytes": freed})
    else:
        print(f"Deleted {file_size(freed)} of checkpoints. No conversation was deleted.")
