"""Coding agents, if installed: they run a tool, and the next request reuses the previous one's tokens.

npm install -g @anthropic-ai/claude-code opencode-ai @mariozechner/pi-coding-agent @openai/codex
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.support.asking import Served
from tests.support.serving import Started, serving
from tests.support.templates import QWEN3_TOOLS
from tests.support.tiny import update_json, write_reciter
from tests.support.waiting import wait_until

# The tool that runs a command, and each agent's command line. The settings are those of the documentation.
AGENTS = {
    "claude": ("Bash", ["-p", "Run it.", "--max-turns", "3", "--allowedTools", "Bash(touch:*)"]),
    "codex": (
        "exec_command",
        ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "Run it."],
    ),
    "opencode": ("bash", ["run", "Run it."]),
    "pi": ("bash", ["--provider", "chatcli", "--model", "any", "-p", "Run it."]),
}
PAGE = (ROOT / "docs" / "serve.md").read_text()


def configure(home: Path, work: Path, url: str) -> dict[str, str]:
    """Write the settings that the documentation shows, and return an agent's environment."""
    page = PAGE.replace("http://127.0.0.1:8080", url)
    (codex,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    pi, opencode = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (home / ".codex").mkdir(parents=True)
    # The tiny model's tokens are mostly single bytes: without this Codex would compact the conversation.
    (home / ".codex" / "config.toml").write_text(codex.replace("32000", "256000"))
    (home / ".pi" / "agent").mkdir(parents=True)
    (home / ".pi" / "agent" / "models.json").write_text(pi)
    permissions = {"permission": {"bash": "allow"}, "autoupdate": False}
    (work / "opencode.json").write_text(json.dumps({**json.loads(opencode), **permissions}))
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    anthropic = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any"}
    return {**kept, **quiet, **anthropic, "HOME": str(home)}


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_runs_a_tool_and_its_next_request_reuses_the_last(agent: str, tmp_path: Path) -> None:
    program = shutil.which(agent)
    if program is None:
        pytest.skip(f"{agent} is not installed")
    tool, arguments = AGENTS[agent]
    call: dict[str, Any] = {
        "name": tool,
        # Codex calls it cmd.
        "arguments": {"command": "touch ran.txt", "cmd": "touch ran.txt", "description": "Touch"},
    }
    # Valid JSON, but spelled as no library writes it.
    written = json.dumps(call, separators=(" ,  ", " : "))
    model = write_reciter(tmp_path / "model", QWEN3_TOOLS, ["<tool_call>", written, "</tool_call>"])
    update_json(model / "config.json", max_position_embeddings=1 << 18)
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    with Served(model, tmp_path / "saved") as served:
        started = Started(served.engine)
        with serving(started) as url:
            process = subprocess.Popen(
                [program, *arguments],
                cwd=work,
                env=configure(home, work, url),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                wait_until(lambda: len(started.called) > 1)
            finally:
                # The script that npm installs starts the program as another process.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert (work / "ran.txt").exists()
    first, second = started.called[:2]
    assert second.reused_tokens >= first.prompt_tokens - 1
