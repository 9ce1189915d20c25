"""`chatcli cache …`: what the checkpoints take on disk, whether they are whole, what can be removed.

The store's modules take a tenth of a second to import, so the commands that need them do so.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from chatcli import files
from chatcli.cli import help
from chatcli.cli.options import (
    CacheLimitOption,
    JsonOption,
    SessionsOption,
    YesOption,
    session_folder,
    value_of,
)
from chatcli.cli.output import confirm, print_json, show_result
from chatcli.commands import results
from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import file_size

app = typer.Typer(cls=help.Group, help="Show, check or clear the checkpoints on disk.", no_args_is_help=True)


@app.command(cls=help.Command)
def stats(
    limit: CacheLimitOption = None, sessions: SessionsOption = None, as_json: JsonOption = False
) -> None:
    """Show what the checkpoints take on disk, model by model."""
    from chatcli.store import maintenance
    from chatcli.store.segments import budget, inventory

    folder = value_of("sessions", sessions)
    limit_bytes = value_of("cache_limit", limit)
    with files.explained(f"read the checkpoints in {folder}"):
        usages = inventory.usage(folder)
        limit_bytes = budget.default_limit(folder) if limit_bytes is None else limit_bytes
        written = maintenance.written(SessionFolder(folder))
    names = maintenance.model_names(folder)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "segments": sum(usage.segments for usage in usages),
                "bytes": sum(usage.bytes for usage in usages),
                "limit_bytes": limit_bytes,
                "written": asdict(written),
                "models": [
                    {**asdict(usage), "bytes": usage.bytes, "model": names.get(usage.fingerprint)}
                    for usage in usages
                ],
            }
        )
    else:
        show_result(results.DiskUse(str(folder), usages, limit_bytes, names, written))


@app.command(cls=help.Command)
def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Set damaged files aside: they are computed again.")
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
        repair_command = session_files.command("cache verify --repair")
        show_result(results.Verified(folder, damaged, transcripts, repaired, repair_command))
    if transcripts or (damaged and not repaired):
        raise typer.Exit(1)


@app.command(cls=help.Command)
def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and leave everything.")
    ] = False,
    limit: CacheLimitOption = None,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove what no session needs, and what is over the limit."""
    from chatcli.store import maintenance
    from chatcli.store.segments import budget, eviction

    folder = value_of("sessions", sessions)
    limit_bytes = value_of("cache_limit", limit)
    with files.explained(f"clean up the checkpoints in {folder}"):
        limit_bytes = budget.default_limit(folder) if limit_bytes is None else limit_bytes
        removals = maintenance.collectable(SessionFolder(folder), limit_bytes)
        freed = sum(each.size for each in removals) if dry_run else eviction.remove(removals)
    if as_json:
        removed = [{"file": str(each.path), "bytes": each.size, "reason": each.reason} for each in removals]
        print_json({"dry_run": dry_run, "freed_bytes": freed, "removed": removed})
    else:
        show_result(results.Collected(removals, freed, dry_run))


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
        question = f"Delete {used} of checkpoints? They have to be computed again; conversations stay."
        confirm(question, session_files.command("cache clear --yes"))
    freed = inventory.clear(folder)
    if as_json:
        print_json({"freed_bytes": freed})
    else:
        print(f"Deleted {file_size(freed)} of checkpoints. The conversations are all there.")
