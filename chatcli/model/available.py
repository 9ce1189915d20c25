"""Lists the models on this machine and what they can do, without loading them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chatcli import pocket
from chatcli.model import hub, inspect
from chatcli.model.inspect import About
from chatcli.settings.values import POCKET
from chatcli.text import file_size

MISSING = About(missing="not on this machine")
COLUMNS = ("model", "size", "architecture", "weights", "thinking", "")


@dataclass(frozen=True)
class AvailableModel:
    """A model by the name that `-m` takes. `fits`: its weights fit in memory (None: unknown)."""

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
        return {
            "name": self.name,
            "source": self.source,
            "folder": str(self.folder) if self.folder else None,
            "aliases": self.aliases,
            **asdict(self.about),
            "fits": self.fits,
            "runs": self.runs,
        }


def find(aliases: Mapping[str, str], memory_bytes: int | None) -> Iterator[AvailableModel]:
    """pocket, then the hub's cache by name, then models that only an alias names."""
    cached = hub.cached()
    known: dict[str, tuple[str, Path | None]] = {POCKET: ("built in", pocket.FOLDER)}
    known |= {name: ("hub", folder) for name, folder in cached.items()}
    for target in aliases.values():
        if target not in known:
            folder = Path(target).expanduser()
            known[target] = ("folder", folder) if folder.is_dir() else ("hub", None)
    for name, (source, place) in known.items():
        about = inspect.about(place) if place else MISSING
        fits = about.size <= memory_bytes if memory_bytes and about.size else None
        names = [alias for alias, target in aliases.items() if target == name]
        yield AvailableModel(name, source, place, names, about, fits)


def row(model: AvailableModel) -> list[str]:
    """The model's table row, with the columns of `COLUMNS`."""
    about = model.about
    names = ", ".join([model.name, *(f"= {alias}" for alias in model.aliases)])
    size = file_size(about.size) if about.size else ""
    thinking = "yes" if about.thinking else "no" if model.folder else ""
    if about.missing:
        remark = about.missing
    elif model.fits is False:
        remark = "does not fit in memory"
    else:
        remark = "needs --trust-remote-code" if about.own_code else "runs"
        remark += ", images" if about.images else ""
    return [names, size, about.architecture, about.quantization, thinking, remark]
