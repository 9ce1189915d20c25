"""`chatcli models`: lists the models on this machine."""

from __future__ import annotations

import typer

from chatcli.cli import help
from chatcli.cli.options import JsonOption, configured
from chatcli.cli.output import print_json, show_result
from chatcli.model import available, device
from chatcli.settings.values import EXAMPLE_MODEL

HINT = f"No model of the hub is here yet. To get one: chatcli -m {EXAMPLE_MODEL}"
app = typer.Typer()


@app.command("models", cls=help.Command)
def list_models(as_json: JsonOption = False) -> None:
    """List the models on this machine. None of them is loaded."""
    aliases = configured().file.models
    memory_bytes = device.room()
    models = list(available.find(aliases, memory_bytes))
    if as_json:
        print_json({"memory_bytes": memory_bytes, "models": [model.as_json() for model in models]})
        return
    from chatcli.commands.results import Table

    notes = [] if any(model.source == "hub" and model.folder for model in models) else [HINT]
    show_result(Table("Models", available.COLUMNS, [available.row(model) for model in models], notes))
