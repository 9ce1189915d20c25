"""A session keeps how its model is run: whoever opens it finds its checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from chatcli import Chat
from chatcli.cli.options import Options
from chatcli.session import opening
from chatcli.settings.values import DEFAULTS, ModelOptions
from chatcli.store.sessions.folder import SessionFolder
from tests.support.adapters import write_adapter
from tests.support.program import Program

CHANGED = "the model or its cache settings changed"


def kept(folder: Path, name: str = "talk") -> dict[str, Any]:
    return dict(SessionFolder(folder).read(name).conversation.model_options)


def stats_of_one_turn(sessions: Path, name: str, **options: Any) -> dict[str, Any]:
    with Chat(name, sessions=sessions, max_tokens=4, **options) as chat:
        chat.send("My dog is called Biscuit.").text()
        return chat.stats


def test_opened_again_without_a_word_it_is_run_as_before(models: Path, tmp_path: Path) -> None:
    model = str(models / "qwen3_5")
    first = stats_of_one_turn(tmp_path, "talk", model=model, prefill_step_size=32)
    assert {"prefill_step_size": 32} == kept(tmp_path)
    again = stats_of_one_turn(tmp_path, "talk")
    assert again["miss_reason"] is None
    assert again["reused_tokens"] > first["prompt_tokens"] // 2


def test_what_is_said_this_time_counts_and_is_kept_then(models: Path, tmp_path: Path) -> None:
    def say(**options: Any) -> tuple[bool, bool]:
        """Whether anything was reused, and whether the settings are said to have changed."""
        stats = stats_of_one_turn(tmp_path, "talk", **options)
        return stats["reused_tokens"] > 0, str(stats["miss_reason"]).startswith(CHANGED)

    model = str(models / "qwen3_5")
    say(model=model, prefill_step_size=32)
    assert (True, False) == say()
    assert (False, True) == say(prefill_step_size=16)
    assert (True, False) == say()
    # Who names the model says how it is run, too.
    assert (False, True) == say(model=model)
    assert {} == kept(tmp_path)


def test_a_flag_is_said_this_time_and_a_setting_is_not() -> None:
    options = Options(flags={"kv_bits": 8, "draft_model": "none", "temp": 0.5})
    assert {"kv_bits": 8} == options.request().model_options


def test_a_branch_is_run_as_its_session_was(models: Path, tmp_path: Path) -> None:
    stats_of_one_turn(tmp_path, "talk", model=str(models / "qwen3_5"), prefill_step_size=32)
    opening.branch(SessionFolder(tmp_path), "talk", None, "other").close()
    stats = stats_of_one_turn(tmp_path, "other")
    assert (True, None) == (stats["reused_tokens"] > 0, stats["miss_reason"])


@pytest.mark.slow
def test_in_a_shell_each_session_is_run_in_its_own_way(chatcli: Program) -> None:
    chatcli.ask("Hello", "-S", "small", "-n", "2", "--prefill-step-size", 32)
    lines = ["Hello", "/resume small", "/model", "And?", "/resume usual", "/model", "And?", ""]
    done = chatcli.run("chat", "--json", "-S", "usual", "-n", "2", stdin="\n".join(lines)).lines()
    first, small, usual = (line for line in done if "turn" in line)
    models = [line["said"] for line in done if "The model is" in line.get("said", "")]
    usually = f"The model is {chatcli.model}."
    assert [f"{usually} It is run with prefill_step_size 32.", usually] == models
    assert 0 == first["reused_tokens"]
    for turn in (small, usual):
        assert (True, None) == (turn["reused_tokens"] > 0, turn["miss_reason"])
    assert [{"prefill_step_size": 32}, {}] == [kept(chatcli.sessions, name) for name in ("small", "usual")]


@pytest.mark.slow
def test_without_its_adapter_a_session_says_so_and_goes_on_when_the_model_is_named(
    chatcli: Program, tmp_path: Path
) -> None:
    model_options = write_adapter(tmp_path / "lora", chatcli.model)
    chatcli.ask("Hello", "-S", "talk", "-n", "2", "--adapter-path", model_options.adapter_path)
    assert model_options.asked() == kept(chatcli.sessions)
    shutil.rmtree(tmp_path / "lora")
    done = chatcli.run("ask", "And?", "-S", "talk", model=False, expect=1)
    assert 1 == len(done.errors.splitlines()) and "lora" in done.errors and "-m" in done.errors
    assert 2 == chatcli.ask("And?", "-S", "talk", "-n", "2")["turn"]


def test_what_a_file_says_that_cannot_be_is_left_out() -> None:
    kept = {"kv_bits": "many", "max_kv_size": True, "adapter_path": 5, "window": 3}
    usual = ModelOptions(kv_bits=8)
    assert usual == usual.resumed(kept, {})
    assert ModelOptions(max_kv_size=64) == usual.resumed({**kept, "max_kv_size": 64}, {})
    zeros = dict.fromkeys(("kv_bits", "kv_group_size", "max_kv_size", "prefill_step_size"), 0)
    assert usual == usual.resumed(zeros, {})
    assert {} == DEFAULTS.asked()
