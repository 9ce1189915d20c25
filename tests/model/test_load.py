"""Loading, fingerprints, and splitting replies with a loaded tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.utils import load_tokenizer

from chatcli.chat_format.markers import splitter
from chatcli.errors import ModelBroken, ModelNotFound, NoChatTemplate
from chatcli.model import inspect
from chatcli.model.load import load
from chatcli.replies.splitter import ReplySplitter
from tests.support import tiny

HARMONY_SPECIAL = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_model(tmp_path_factory.mktemp("m") / "qwen3", "qwen3")


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return load_tokenizer(folder)


def split_reply(reading: ReplySplitter, pieces: list[str]) -> tuple[str, str]:
    """(thinking, text) of a reply that arrives in these pieces."""
    parts = [part for piece in pieces for part in reading.feed(piece)] + reading.finish()
    texts = [(part.text, part.thinking) for part in parts]
    return (
        "".join(text for text, thinking in texts if thinking),
        "".join(text for text, thinking in texts if not thinking),
    )


def test_loading_a_folder_gives_its_context_and_a_fingerprint(folder: Path) -> None:
    loaded = load(str(folder))
    assert (4096, 32) == (loaded.context, len(loaded.fingerprint))
    assert loaded.fingerprint == load(str(folder)).fingerprint


@pytest.mark.parametrize("name", ["nowhere", "/nowhere/at/all", "./a/b/c", "what is this?"])
def test_an_unknown_model_is_named_in_one_sentence(name: str) -> None:
    with pytest.raises(ModelNotFound, match="There is no model folder") as raised:
        load(name)
    assert name in str(raised.value)


def test_a_folder_without_a_model_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        load(str(tmp_path))


def test_a_model_without_a_template_is_refused(copy: Path) -> None:
    (copy / "chat_template.jinja").unlink()
    with pytest.raises(NoChatTemplate, match="no chat template"):
        load(str(copy))


@pytest.mark.parametrize(
    "config", ["", "{", "[]", "{}", '{"model_type": "no_such_model"}', '{"model_type": "qwen3"}']
)
def test_a_broken_config_is_one_sentence(config: str, copy: Path) -> None:
    (copy / "config.json").write_text(config)
    with pytest.raises(ModelBroken, match="cannot be loaded") as raised:
        load(str(copy))
    assert 1 == len(str(raised.value).splitlines())


@pytest.mark.parametrize("length", [0, 7, 100, 5000])
def test_truncated_weights_are_one_sentence(length: int, copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:length])
    with pytest.raises(ModelBroken, match="cannot be loaded"):
        load(str(copy))


@pytest.mark.parametrize("cut", range(0, 36, 5))
def test_thinking_and_reply_are_separated_wherever_the_text_is_cut(cut: int, tokenizer: Any) -> None:
    reply = "I think so.</think>\n\nIt is <b>4</b>."
    expected = ("I think so.", "\n\nIt is <b>4</b>.")
    after_open_think = splitter(tokenizer, "<|im_start|>assistant\n<think>\n")
    assert expected == split_reply(after_open_think, [reply[:cut], reply[cut:]])
    without_open_think = splitter(tokenizer, "<|im_start|>assistant\n")
    assert expected == split_reply(without_open_think, ["<think>" + reply[:cut], reply[cut:]])


def test_a_reply_without_thinking_is_all_text(tokenizer: Any) -> None:
    closed = splitter(tokenizer, "<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert ("", "It is 4 < 5.") == split_reply(closed, list("It is 4 < 5."))


def test_thinking_that_never_closes_is_all_thinking(tokenizer: Any) -> None:
    assert ("and so on </th", "") == split_reply(splitter(tokenizer, "<think>"), ["and so on </th"])


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_harmony_channels_are_separated(size: int, tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, tiny.OWN_THINK, special=HARMONY_SPECIAL)
    reply = (
        "<|channel|>analysis<|message|>They ask 2+2.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>It is 4."
    )
    pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
    reading = splitter(load_tokenizer(tmp_path), "<|start|>assistant")
    assert ("They ask 2+2.", "It is 4.") == split_reply(reading, pieces)


@pytest.mark.parametrize(
    "names,content",
    [
        (["tokenizer.json"], None),
        (["tokenizer.json", "tokenizer_config.json"], None),
        (["tokenizer.json"], ""),
        (["tokenizer.json"], "{}"),
        (["tokenizer.json"], '{"version": "1.0", "added_tokens": [], "model": {"type": "BPE"}}'),
        (["tokenizer_config.json"], "{"),
        (["tokenizer_config.json"], "[]"),
    ],
)
def test_a_tokenizer_that_is_missing_or_broken_is_named(
    copy: Path, names: list[str], content: str | None
) -> None:
    for name in names:
        (copy / name).unlink()
        if content is not None:
            (copy / name).write_text(content)
    with pytest.raises(ModelBroken, match=r"no working tokenizer.*tokenizer.*Copy the model's files"):
        load(str(copy))
    missing = content is None and inspect.about(copy).missing
    assert content is not None or "no tokenizer" == missing
