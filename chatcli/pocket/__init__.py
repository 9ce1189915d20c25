"""pocket, the small thinking model that ships with chatcli.

How it was made and what it can do: training/pocket/README.md in the repository.
"""

from pathlib import Path

FOLDER: Path = Path(__file__).parent / "model"
