"""`chatcli history …`: what was typed in the composer."""

from __future__ import annotations

import platformdirs
import typer

from chatcli import files
from chatcli.cli import help
from chatcli.cli.options import JsonOption, SessionsOption, YesOption, session_folder
from chatcli.cli.output import confirm, print_json
from chatcli.store.sessions import history
from chatcli.text import count

app = typer.Typer(cls=help.Group, help="Clear what Up and Ctrl-R bring back.", no_args_is_help=True)


@app.command(cls=help.Command)
def clear(
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
        # One file for all folders, as chatcli 0.2 kept it.
        (platformdirs.user_state_path("chatcli") / "history").unlink(missing_ok=True)
    if as_json:
        print_json({"cleared": cleared})
    else:
        print(f"Forgot {count('entry', cleared, 'entries')}.")
