"""The arrows point down: who may import what, read from the source itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "chatcli"
RICH = {
    "repl.display",
    "repl.folding",
    "repl.markdown",
    "repl.markdown_code",
    "repl.markdown_layout",
    "repl.markdown_prose",
    "repl.markdown_rows",
    "repl.panel",
    "repl.progress",
    "repl.reply",
    "repl.excerpts",
    "repl.alternatives",
}
PROMPT = {
    "repl.shell",
    "repl.stage",
    "repl.composer",
    "repl.picker",
    "repl.tree_picker",
    "repl.session_picker",
    "repl.picker_text",
    "repl.launched",
    "repl.lines",
    "repl.toolbar",
    "repl.pager",
    "repl.reflow",
    "repl.completing",
    "repl.escape",
}
TERMINAL = {"typer", "prompt_toolkit", "rich"}
MAY_USE_TERMINAL = (
    "cli.",
    "cli_options.",
    "cli_bench.",
    "cli_cache.",
    "cli_config.",
    "cli_doctor.",
    "cli_each.",
    "cli_help.",
    "cli_models.",
    "cli_sessions.",
    "cli_tuning.",
    "repl.",
)
MAY_USE_MLX = (
    "model",
    "device",
    "prompt_cache",
    "row_reading",
    "cache_growth",
    "cache_state",
    "cache_trim",
    "embedding",
    "engine",
    "engine_batch",
    "engine_speculative",
    "sampler",
    "sharding",
    "think_budget",
    "bench.",
    "pocket.",
)
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(path: Path, *, only_at_top: bool = False) -> set[str]:
    """The dotted names that a module imports, anywhere or when it is imported itself."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if only_at_top else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def roots(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("name", MODULES)
def test_only_the_shell_knows_a_terminal(name: str) -> None:
    if not f"{name}.".startswith(MAY_USE_TERMINAL):
        assert set() == roots(imports(MODULES[name])) & TERMINAL


@pytest.mark.parametrize("name", MODULES)
def test_only_the_display_knows_rich_and_only_the_shell_prompt_toolkit(name: str) -> None:
    used = roots(imports(MODULES[name]))
    assert ("rich" in used) == (name in RICH)
    assert ("prompt_toolkit" in used) == (name in PROMPT)
    assert ("typer" in used) == (name.startswith("cli"))


@pytest.mark.parametrize("name", MODULES)
def test_mlx_stays_in_its_modules(name: str) -> None:
    if not f"{name}.".startswith(tuple(f"{allowed.rstrip('.')}." for allowed in MAY_USE_MLX)):
        assert set() == roots(imports(MODULES[name])) & {"mlx", "mlx_lm"}


def test_no_import_cycle() -> None:
    graph = {
        name: {
            used.removeprefix("chatcli.")
            for used in imports(path, only_at_top=True)
            if used.removeprefix("chatcli.") in MODULES
        }
        for name, path in MODULES.items()
    }
    assert set(MODULES) == set(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_does_on_its_first_line_and_is_short(name: str) -> None:
    text = MODULES[name].read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) < 500


@pytest.mark.parametrize("command", [["--help"], ["list"], ["--version"]])
def test_light_commands_never_import_mlx(command: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; from chatcli.cli import main as cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {name.split('.')[0] for name in sys.modules} & {'mlx', 'mlx_lm', 'numpy', 'transformers'}\n"
        "print('HEAVY', sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        env={"CHATCLI_SESSIONS": str(tmp_path), "PATH": "", "HOME": str(tmp_path)},
        check=False,
        cwd=PACKAGE.parent,
    )
    assert "HEAVY []" == done.stdout.splitlines()[-1]
