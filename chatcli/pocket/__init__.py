"""pocket, the small thinking model that ships with chatcli; docs/pocket.md is its model card."""

from pathlib import Path

FOLDER: Path = Path(__file__).parent / "model"
