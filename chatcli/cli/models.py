"""`chatcli models`: which models are here and what they could do; refuses to load any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from chatcli import pocket
from chatcli.cli.options import JsonOption, configured, print_json, show_result
from chatcli.model import device, hub, inspect
from chatcli.model.inspect import About
from chatcli.settings.values import POCKET
from chatcli.text import file_size

HINT = "No model of the hub is here yet: chatcli -m mlx-community/Qwen3.5-4B-MLX-4bit gets one."
NOT_HERE = About(missing="not on this machine")
app = typer.Typer()
COLUMNS = ("model", "size", "architecture", "weights", "thinking", "")


@dataclass(frozen=True)
class Listed:
    """A model by the name that `-m` takes; `fits` whether its weights fit in memory (None: unknown)."""

    name: str
    source: str
    folder: Path | None
    aliases: list[str]
    about: About
    fits: bool | None

    @property
    def runs(self) -> bool:
        return not self.about.missing and self.fits is not False

    def as_json(self) -> dict[str, Any]:
        told = {**asdict(self.about), "fits": self.fits, "runs": self.runs}
        folder = str(self.folder) if self.folder else None
        return {"name": self.name, "source": self.source, "folder": folder, "aliases": self.aliases, **told}


@app.command("models")
def list_models(as_json: JsonOption = False) -> None:
    """List the models that are here: pocket, the hub's cache, your aliases."""
    aliases = configured().file.models
    room = device.room()
    found = list(listed(aliases, room))
    if as_json:
        print_json({"memory_bytes": room, "models": [one.as_json() for one in found]})
        return
    from chatcli.commands.results import Table

    notes = [] if any(one.source == "hub" and one.folder for one in found) else [HINT]
    show_result(Table("Models", COLUMNS, [row(one) for one in found], notes))


def listed(aliases: Mapping[str, str], room: int | None) -> Iterator[Listed]:
    """pocket, then the cache by name, then what only aliases name."""
    cached = hub.cached()
    known: dict[str, tuple[str, Path | None]] = {POCKET: ("built in", pocket.FOLDER)}
    known |= {name: ("hub", folder) for name, folder in cached.items()}
    for target in aliases.values():
        if target not in known:
            is_folder = (place := Path(target).expanduser()).is_dir()
            known[target] = ("folder", place) if is_folder else ("hub", None)
    for name, (source, folder) in known.items():
        about = inspect.about(folder) if folder else NOT_HERE
        fits = about.size <= room if room and about.size else None
        own = [alias for alias, target in aliases.items() if target == name]
        yield Listed(name, source, folder, own, about, fits)


def row(one: Listed) -> list[str]:
    about = one.about
    names = ", ".join([one.name, *(f"= {alias}" for alias in one.aliases)])
    size = file_size(about.size) if about.size else ""
    thinking = "yes" if about.thinking else "no" if one.folder else ""
    return [names, size, about.architecture, about.quantization, thinking, remark(one)]


def remark(one: Listed) -> str:
    """What keeps it from running, or what has to be known before."""
    if one.about.missing:
        return one.about.missing
    if one.fits is False:
        return "does not fit in memory"
    told = "needs --trust-remote-code" if one.about.own_code else "runs"
    return f"{told}, images" if one.about.images else told
