"""Damaged and absurd model folders: each is one sentence of a `ModelError`, or loads, and none hangs.

A row of `VALUES` stands in for every value of every JSON file, a row of `CONTENTS` for every file.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatcli.chat_format.template import Template, TemplateCache
from chatcli.conversation.tree import Message
from chatcli.errors import ModelBroken, ModelError
from chatcli.model import inspect
from chatcli.model.load import load
from tests.support.families import at_night
from tests.support.tiny import update_json, write_model

DATE = "2025-03-01"
# What takes longer ends the tests.
LOAD_SECONDS = 60
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
INDEX = "model.safetensors.index.json"
VALUES: list[Any] = [None, True, 0, -1, 1.5, 10**12, 10**30, "", "x", [], ["x"], {}, {"x": {"y": []}}]
CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "garbage": lambda data: bytes(range(256)) * 8,
    "zeros": lambda data: bytes(len(data)),
    "a list": lambda _: b"[]",
    "a number": lambda _: b"1e999",
    "null": lambda _: b"null",
    "deep": lambda _: b"[" * 200_000,
    "not UTF-8": lambda data: b"\xff\xfe" + data,
    "twice": lambda data: data + data,
}
# Sizes that mlx-lm makes something of before it looks at the weights.
ABSURD = {
    "num_hidden_layers": [0, -1, 10**5, 10**9, 10**18],
    "vocab_size": [0, -1, 10**9, 10**18],
    "hidden_size": [0, -1, 10**6, 10**18],
    "num_attention_heads": [0, -1, 10**9],
    "num_key_value_heads": [0, -1, 10**9],
    "intermediate_size": [0, -1, 10**12],
    "max_position_embeddings": [0, -1, 10**18, "x", [1]],
    "rope_theta": [0, -1, 1e308, "x"],
    "head_dim": [0, -1, 3, 10**9],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_model(tmp_path_factory.mktemp("whole") / "model", "qwen3")
    (folder / "generation_config.json").write_text('{"temperature": 0.5, "eos_token_id": 2}')
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def try_it(folder: Path) -> None:
    """Load the model and render a message. Raises whatever is no sentence."""

    def use() -> None:
        loaded = load(str(folder))
        cache = TemplateCache.of(loaded.tokenizer)
        Template(loaded.tokenizer, DATE, None, cache).prompt([Message("user", "Hello")])

    inspect.about(folder)
    signal.alarm(LOAD_SECONDS)
    try:
        use()
    except ModelError as error:
        assert 1 == len(str(error).splitlines()), error
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("name", [*FILES, "chat_template.jinja", "model.safetensors"])
def test_a_damaged_file_is_one_sentence(name: str, folder: Path) -> None:
    data = (folder / name).read_bytes()
    for change in CONTENTS.values():
        (folder / name).write_bytes(change(data))
        try_it(folder)
    (folder / name).unlink()
    try_it(folder)
    (folder / name).mkdir()
    try_it(folder)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("name", ["config.json", at_night("tokenizer_config.json")])
def test_a_value_of_another_type_is_one_sentence(name: str, value: Any, folder: Path) -> None:
    fields = json.loads((folder / name).read_text())
    extra = {"text_config": 1, "quantization": 1, "eos_token_id": 1, "architectures": 1, "auto_map": 1}
    for key in {**fields, **extra, "chat_template": 1, "added_tokens_decoder": 1, "model_file": 1}:
        (folder / name).write_text(json.dumps({**fields, key: value}))
        try_it(folder)


@pytest.mark.parametrize("key", ABSURD)
def test_an_absurd_size_is_one_sentence(key: str, folder: Path) -> None:
    fields = json.loads((folder / "config.json").read_text())
    for value in ABSURD[key]:
        (folder / "config.json").write_text(json.dumps({**fields, key: value}))
        try_it(folder)


@pytest.mark.parametrize("name", [*FILES, "chat_template.jinja", "model.safetensors", INDEX, "extra.json"])
def test_a_pipe_in_place_of_a_file_is_never_waited_for(name: str, folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ModelError, match=r"is not a file|no config\.json"):
        load(str(folder))
    inspect.about(folder)


@pytest.mark.parametrize(
    "fields",
    [
        {"n_layer": 10**9},
        {"num_layers": 1e9},
        {"text_config": {"num_hidden_layers": 10**9}},
        {"text_config": [{"num_hidden_layers": 10**9}]},
        {"block_configs": [{"n_layers": 10**9}]},
        {"num_hidden_layers": [10**9]},
        {"vision_config": {"depth": 10**9}},
        {"hybrid_override_pattern": "M" * 10**6},
        {"layer_types": ["full_attention"] * 10**5},
        {"moe_num_experts": 10**9},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_counts_of_parts_are_looked_for_everywhere(fields: dict[str, object], folder: Path) -> None:
    update_json(folder / "config.json", **fields)
    began = time.monotonic()
    with pytest.raises(ModelBroken, match=r"asks for 1[0,]* (layers|experts) \("):
        load(str(folder))
    assert time.monotonic() - began < 2


def test_more_layers_than_any_model_has_are_refused(folder: Path) -> None:
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**fields, "num_hidden_layers": 10**9}))
    with pytest.raises(ModelBroken, match=r"asks for 1,000,000,000 layers \(num_hidden_layers\)"):
        load(str(folder))
