"""Fixtures: tiny models on disk, and the real program as a process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatcli.store.segments.segments import SegmentStore
from tests.support.checkpointing import FINGERPRINT
from tests.support.families import FAMILIES
from tests.support.harness import Harness
from tests.support.program import Program
from tests.support.sight import write_seeing
from tests.support.tiny import OPEN_THINK, restrict_to_tokens, write_model

# Programs that are started inherit an ignored signal, as nohup and a shell's & leave it.
for _number, _handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Idle workers take tests from busy ones: those that start programs take a hundred times the others."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model of each family, and three whose replies tests need.

    evil      writes escape sequences          speaker   thinks, then answers
    hermit    writes escape sequences, but never stops thinking
    """
    folder = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        write_model(folder / family, family)
    evil = [0x1B, 0x07, 0xC2, "]", 0x9B, "["]
    restrict_to_tokens(write_model(folder / "evil", "gpt_oss"), evil)
    restrict_to_tokens(write_model(folder / "hermit", "gpt_oss", template=OPEN_THINK), evil)
    speaker = write_model(folder / "speaker", "gpt_oss", template=OPEN_THINK)
    restrict_to_tokens(speaker, ["a", "b", "</think>", "c"])
    return folder


# Families with which the tests of a module run only at night: by day another family stands for them.
AT_NIGHT = {
    "turn.test_counting": ("qwen3", "gpt_oss"),
    "turn.test_settled": ("qwen3", "gpt_oss"),
    "turn.test_finish": ("qwen3", "gpt_oss"),
    "turn.test_typeahead": ("qwen3", "gpt_oss"),
    "turn.test_regenerate": ("qwen3", "gpt_oss"),
    "engine.test_sampling": ("qwen3", "gpt_oss"),
    "turn.test_batch": ("qwen3", "gpt_oss"),
    "turn.test_turn": ("qwen3", "gpt_oss"),
    "exchange.test_sealed": ("qwen3",),
    "serve.test_engine": ("qwen3", "gpt_oss"),
    "bench.test_race": ("qwen3", "gpt_oss"),
    "checkpoints.test_sideways": ("qwen3", "gpt_oss"),
    "kv.test_prompt_cache": ("qwen3", "gemma3_text"),
    "checkpoints.test_model_options": ("qwen3",),
    "kv.test_memory_limit": ("qwen3",),
    "chat_format.test_stop": ("qwen3",),
    "checkpoints.test_corruption": ("gpt_oss",),
    "checkpoints.test_long_segments": ("gpt_oss",),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `AT_NIGHT` as slow. Raises `UsageError` if it names a module that does not exist."""
    for name in AT_NIGHT:
        if not Path(__file__).parent.joinpath(*name.split(".")).with_suffix(".py").is_file():
            raise pytest.UsageError(f"AT_NIGHT in tests/conftest.py: there is no module tests.{name}")
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        families = {params.get(name) for name in ("model", "family", "loaded")}
        if families & {*AT_NIGHT.get(item.module.__name__.removeprefix("tests."), ())}:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest, models: Path) -> Path:
    """The model of each family."""
    return models / request.param


@pytest.fixture
def recurrent(models: Path) -> Path:
    """The hybrid model, with recurrent layers: the hard case."""
    return models / "qwen3_5"


@pytest.fixture(scope="session")
def vision_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that takes images."""
    return write_seeing(tmp_path_factory.mktemp("vision_model"))


@pytest.fixture(scope="session")
def saved_conversation(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a conversation and its checkpoints, for tests to copy."""
    folder = tmp_path_factory.mktemp("saved_conversation")
    with Harness(models / "qwen3_5", folder, tokens=6) as harness:
        harness.say(harness.chat("talk"), "My dog is called Biscuit.")
    return folder


@pytest.fixture
def chatcli(models: Path, tmp_path: Path) -> Program:
    """The program with the hybrid model: the hard case."""
    return Program(tmp_path / "home", models / "qwen3_5")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SegmentStore]:
    segment_store = SegmentStore(tmp_path, FINGERPRINT)
    yield segment_store
    segment_store.close()


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[SegmentStore]:
    """Another model's store in the same folder."""
    segment_store = SegmentStore(tmp_path, "e" * 32)
    yield segment_store
    segment_store.close()
