"""The documentation: its links work, and the guide names every command, setting and field."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import chatcli.commands.handlers  # noqa: F401  (registers what there is to name)
from chatcli.cli.main import app
from chatcli.commands.registry import all_commands
from chatcli.events import TurnRecord
from chatcli.settings.values import SETTINGS
from tests import ROOT

PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/*.md", "chatcli/**/*.md")
    for path in ROOT.glob(pattern)
)
GUIDE = (ROOT / "docs" / "guide.md").read_text()


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        path, _, anchor = link.partition("#")
        if not link.startswith("https://"):
            target = (ROOT / page).parent / path if path else ROOT / page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "chatcli/store/FORMAT.md"])
def test_every_module_that_a_page_names_is_there(page: str) -> None:
    files = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[bctd]*/**/*.py")]
    for name in re.findall(r"`([\w/]+\.py)`", (ROOT / page).read_text()):
        assert any(path.endswith(f"/{name}") for path in files), name


def test_the_rooms_are_those_that_import_linter_holds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("\n| room |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)(?:/|\.py)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert [room for layer in layers for room in layer.split(" | ")] == [
        room for room in named if room != "__main__"
    ]


def test_the_examples_of_style_are_our_own_code() -> None:
    examples = re.findall(r"```python\n# (\S+)\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert examples
    for name, code in examples:
        path = ROOT / name if name.startswith("tests/") else ROOT / "chatcli" / name
        assert code in path.read_text(), name


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 110


def test_the_guide_names_every_setting_command_and_number() -> None:
    commands = {f"/{command.name}" for command in all_commands()}
    fields = {*TurnRecord("", 1).as_json()}
    prose = re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL)
    named = set(re.findall(r"[/\w-]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert {*SETTINGS, *commands, *fields} <= named


def test_the_guide_names_every_command_of_the_command_line() -> None:
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    groups = [group.name for group in app.registered_groups if group.name]
    assert all(re.search(rf"`[^`]*\b{name}\b", GUIDE) for name in (*names, *groups))
