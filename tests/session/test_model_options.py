"""A session saves its model options, so that it finds its checkpoints whoever opens it."""

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

MODEL_CHANGED = "the model, its cache settings or the program changed"


def saved_options(folder: Path, name: str = "talk") -> dict[str, Any]:
    return dict(SessionFolder(folder).read(name).conversation.model_options)


def stats_of_one_turn(sessions: Path, name: str, **options: Any) -> dict[str, Any]:
    with Chat(name, sessions=sessions, max_tokens=4, **options) as chat:
        chat.send("My dog is called Biscuit.").text()
        return chat.stats


def test_a_reopened_session_keeps_its_model_options(models: Path, tmp_path: Path) -> None:
    model = str(models / "qwen3_5")
    first = stats_of_one_turn(tmp_path, "talk", model=model, prefill_step_size=32)
    assert {"prefill_step_size": 32} == saved_options(tmp_path)
    again = stats_of_one_turn(tmp_path, "talk")
    assert again["miss_reason"] is None
    assert again["reused_tokens"] > first["prompt_tokens"] // 2


def test_given_model_options_replace_the_saved_ones(models: Path, tmp_path: Path) -> None:
    def take_turn(**options: Any) -> tuple[bool, bool]:
        """Whether anything was reused, and whether the miss reason is that the settings changed."""
        stats = stats_of_one_turn(tmp_path, "talk", **options)
        return stats["reused_tokens"] > 0, str(stats["miss_reason"]).startswith(MODEL_CHANGED)

    model = str(models / "qwen3_5")
    take_turn(model=model, prefill_step_size=32)
    assert (True, False) == take_turn()
    assert (False, True) == take_turn(prefill_step_size=16)
    assert (True, False) == take_turn()
    # Naming the model resets its options.
    assert (False, True) == take_turn(model=model)
    assert {} == saved_options(tmp_path)


def test_model_options_of_a_request_come_from_flags_only() -> None:
    options = Options(flags={"kv_bits": 8, "draft_model": "none", "temp": 0.5})
    assert {"kv_bits": 8} == options.request().model_options


def test_a_branch_keeps_the_model_options_of_its_session(models: Path, tmp_path: Path) -> None:
    stats_of_one_turn(tmp_path, "talk", model=str(models / "qwen3_5"), prefill_step_size=32)
    opening.branch(SessionFolder(tmp_path), "talk", None, "other").close()
    stats = stats_of_one_turn(tmp_path, "other")
    assert (True, None) == (stats["reused_tokens"] > 0, stats["miss_reason"])


@pytest.mark.slow
def test_in_a_shell_each_session_has_its_own_model_options(chatcli: Program) -> None:
    chatcli.ask("Hello", "-S", "small", "-n", "2", "--prefill-step-size", 32)
    lines = ["Hello", "/resume small", "/model", "And?", "/resume usual", "/model", "And?", ""]
    records = chatcli.run("chat", "--json", "-S", "usual", "-n", "2", stdin="\n".join(lines)).lines()
    first, small, usual = (line for line in records if "turn" in line)
    models = [line["said"] for line in records if "The model is" in line.get("said", "")]
    sentence = f"The model is {chatcli.model}"
    assert [f"{sentence}, with prefill_step_size 32", sentence] == [
        said.partition(". /")[0] for said in models
    ]
    assert all("/model NAME changes it" in said and "\n  pocket " in said for said in models)
    assert 0 == first["reused_tokens"]
    for turn in (small, usual):
        assert (True, None) == (turn["reused_tokens"] > 0, turn["miss_reason"])
    assert [{"prefill_step_size": 32}, {}] == [
        saved_options(chatcli.sessions, name) for name in ("small", "usual")
    ]


@pytest.mark.slow
def test_a_session_without_its_adapter_names_it_and_opens_with_a_named_model(
    chatcli: Program, tmp_path: Path
) -> None:
    model_options = write_adapter(tmp_path / "lora", chatcli.model)
    chatcli.ask("Hello", "-S", "talk", "-n", "2", "--adapter-path", model_options.adapter_path)
    assert model_options.asked() == saved_options(chatcli.sessions)
    shutil.rmtree(tmp_path / "lora")
    finished = chatcli.run("ask", "And?", "-S", "talk", model=False, expect=1)
    assert 1 == len(finished.errors.splitlines()) and "lora" in finished.errors and "-m" in finished.errors
    assert 2 == chatcli.ask("And?", "-S", "talk", "-n", "2")["turn"]


def test_invalid_saved_options_are_ignored() -> None:
    saved = {"kv_bits": "many", "max_kv_size": True, "adapter_path": 5, "window": 3}
    defaults = ModelOptions(kv_bits=8)
    assert defaults == defaults.resumed(saved, {})
    assert ModelOptions(max_kv_size=64) == defaults.resumed({**saved, "max_kv_size": 64}, {})
    zeros = dict.fromkeys(("kv_bits", "kv_group_size", "max_kv_size", "prefill_step_size"), 0)
    assert defaults == defaults.resumed(zeros, {})
    assert {} == DEFAULTS.asked()
