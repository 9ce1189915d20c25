"""pocket, the small thinking model that ships with chatcli: only where its folder is."""

from pathlib import Path

FOLDER: Path = Path(__file__).parent / "model"
