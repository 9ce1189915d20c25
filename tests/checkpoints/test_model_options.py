"""Quantized and limited caches, chunk sizes and adapters: reopened sessions are the same to the bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx_lm
import pytest

from chatcli.engine import generate
from chatcli.errors import CacheRefused, ModelBroken, ModelNotFound
from chatcli.kv import growth, prompt_cache
from chatcli.kv.prompt_cache import RowLog
from chatcli.model import load as models_
from chatcli.settings.values import DEFAULTS, ModelOptions
from tests.support.adapters import ADAPTER_CONFIG, write_adapter
from tests.support.families import FAMILIES, all_but_one_at_night, at_night, in_turn_by_day
from tests.support.harness import MESSAGES, Harness, open_all_along, outcome, reopened
from tests.support.program import Program
from tests.support.tiny import write_model

# Families that get heads of 32: quantization groups hold at least 32 numbers.
WIDE = ("qwen3", "qwen3_5")
FOUR_BITS = ModelOptions(kv_bits=4, kv_group_size=32)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models with heads as wide as the smallest quantization group."""
    folder = tmp_path_factory.mktemp("wide")
    for family in WIDE:
        write_model(folder / family, family, head_dim=32)
    return folder


def same_reopened(model: Path, folder: Path, model_options: ModelOptions) -> list[int]:
    """Assert that an open conversation and one reopened at every turn agree. Returns its tokens."""
    live = open_all_along(model, folder / "open", model_options=model_options)
    fresh = reopened(model, folder / "closed", model_options=model_options)
    assert list(map(outcome, live)) == list(map(outcome, fresh))
    counts = [(record.prompt_tokens, record.reused_tokens, record.miss_reason) for record in live]
    assert counts == [(record.prompt_tokens, record.reused_tokens, record.miss_reason) for record in fresh]
    assert all(record.reused_tokens for record in live[1:])
    return [token for record in live for token in record.tokens]


def fingerprint(model: Path, model_options: ModelOptions = DEFAULTS) -> str:
    return models_.load(str(model), model_options=model_options).fingerprint


# Quantized caches


def test_the_memory_of_a_quantized_cache_is_predicted(wide: Path) -> None:
    loaded = models_.load(str(wide / "qwen3"), model_options=FOUR_BITS)
    predicted = growth.predict(loaded.model, FOUR_BITS)
    cache = prompt_cache.new(loaded.model, FOUR_BITS)
    for _ in generate.prefill(loaded, cache, [5] * 300, RowLog()):
        pass
    assert predicted.cache_bytes(300) == pytest.approx(prompt_cache.nbytes(cache), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "bits"), in_turn_by_day([4, 8], WIDE))
def test_a_quantized_cache_reopened_gives_the_same_replies(
    wide: Path, tmp_path: Path, family: str, bits: int
) -> None:
    model_options = ModelOptions(kv_bits=bits, kv_group_size=32)
    same_reopened(wide / family, tmp_path, model_options)
    with Harness(wide / family, tmp_path / "cold", model_options=model_options, cache=False) as harness:
        chat = harness.chat("talk")
        cold = [harness.say(chat, message, settle=False) for message in MESSAGES[:2]]
    with Harness(wide / family, tmp_path / "open", model_options=model_options) as harness:
        warm = [
            turn.reply.message.content for turn in harness.chat("talk").conversation.turns()[:2] if turn.reply
        ]
    assert [record.text.rstrip("\n") for record in cold] == warm


@pytest.mark.parametrize("family", WIDE)
def test_a_quantized_cache_is_smaller_and_holds_other_numbers(
    wide: Path, tmp_path: Path, family: str
) -> None:
    records = {}
    for model_options in (DEFAULTS, FOUR_BITS):
        with Harness(wide / family, tmp_path / "saved", model_options=model_options) as harness:
            record = harness.say(harness.chat(str(model_options.kv_bits)), MESSAGES[1])
            records[model_options] = record
    plain, quantized = records.values()
    assert plain.logprobs != quantized.logprobs
    assert 0 == quantized.reused_tokens
    assert quantized.checkpoint_bytes < plain.checkpoint_bytes


def test_a_sliding_window_cannot_be_quantized(models: Path) -> None:
    with pytest.raises(CacheRefused, match=r"sliding window .* leave out --kv-bits"):
        models_.load(str(models / "gpt_oss"), model_options=ModelOptions(kv_bits=8))
    with pytest.raises(CacheRefused, match="sliding window"):
        models_.load(str(models / "qwen3"), model_options=ModelOptions(max_kv_size=64, kv_bits=8))


def test_a_model_without_a_kv_cache_has_nothing_to_quantize() -> None:
    class Recurrent:
        def make_cache(self) -> list[object]:
            return [mlx_lm.models.cache.ArraysCache(2)]

    with pytest.raises(CacheRefused, match="no plain KV cache that could be quantized"):
        models_.prompt_cache.new(Recurrent(), ModelOptions(kv_bits=4))


def test_groups_that_do_not_fit_the_heads_are_refused_when_the_model_is_loaded(
    models: Path,
) -> None:
    with pytest.raises(
        CacheRefused,
        match=r"8 bits in groups of 64: its keys and values are 16 numbers long, .*Try another",
    ):
        models_.load(str(models / "qwen3"), model_options=ModelOptions(kv_bits=8))


@pytest.mark.slow
def test_bits_that_mlx_lm_has_no_room_for_are_refused_in_words(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "qwen3", head_dim=96)
    with pytest.raises(CacheRefused, match=r"5 bits in groups of 32: mlx-lm has no room .*Try another"):
        models_.load(str(model), model_options=ModelOptions(kv_bits=5, kv_group_size=32))


# A cache of limited size


@pytest.mark.slow
def test_a_cache_of_limited_size_reopened_gives_the_same_replies(models: Path, tmp_path: Path) -> None:
    """The conversation outgrows the cache several times."""
    limited = same_reopened(models / "qwen3", tmp_path, ModelOptions(max_kv_size=48))
    unlimited = open_all_along(models / "qwen3", tmp_path / "whole")
    assert unlimited[-1].prompt_tokens > 4 * 48
    assert limited != [token for record in unlimited for token in record.tokens]


@pytest.mark.parametrize("family", ["qwen3_5", "gpt_oss"])
def test_a_model_with_its_own_cache_takes_no_other_size(models: Path, family: str) -> None:
    with pytest.raises(CacheRefused, match="leave out --max-kv-size"):
        models_.load(str(models / family), model_options=ModelOptions(max_kv_size=64))


# Chunks


@pytest.mark.slow
@pytest.mark.parametrize("family", all_but_one_at_night("gpt_oss"))
def test_another_prefill_step_size_reopened_gives_the_same_replies(
    models: Path, tmp_path: Path, family: str
) -> None:
    same_reopened(models / family, tmp_path, ModelOptions(prefill_step_size=7))


def test_a_prefill_runs_as_many_tokens_at_a_time_as_asked_for(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3", tmp_path, model_options=ModelOptions(prefill_step_size=9)) as harness:
        assert 9 == harness.runtime.loaded.prefill_step


# Adapters


@pytest.mark.slow
@pytest.mark.parametrize("family", all_but_one_at_night("qwen3_5"))
def test_an_adapted_model_reopened_gives_the_same_replies_unlike_the_plain_model(
    models: Path, tmp_path: Path, family: str
) -> None:
    model = models / family
    adapted = same_reopened(model, tmp_path, write_adapter(tmp_path / "adapter", model))
    plain = open_all_along(model, tmp_path / "plain")
    assert adapted != [token for record in plain for token in record.tokens]


def test_an_adapter_is_fingerprinted_by_content_not_path(models: Path, tmp_path: Path) -> None:
    model = models / "qwen3"
    first = write_adapter(tmp_path / "first", model)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    copy = ModelOptions(adapter_path=str(tmp_path / "copy"))
    other = write_adapter(tmp_path / "other", model, seed=2)
    assert fingerprint(model, first) == fingerprint(model, copy)
    assert 3 == len({fingerprint(model, options) for options in (DEFAULTS, first, other)})
    stronger = {**ADAPTER_CONFIG["lora_parameters"], "scale": 1.0}  # type: ignore[dict-item]
    config = {**ADAPTER_CONFIG, "lora_parameters": stronger}
    (tmp_path / "copy" / "adapter_config.json").write_text(json.dumps(config))
    assert fingerprint(model, first) != fingerprint(model, copy)


@pytest.mark.parametrize("lost", ["adapter_config.json", "adapters.safetensors", "."])
def test_a_folder_without_an_adapter_is_one_sentence(models: Path, tmp_path: Path, lost: str) -> None:
    model_options = write_adapter(tmp_path / "adapter", models / "qwen3")
    missing = tmp_path / "adapter" / lost
    shutil.rmtree(missing) if lost == "." else missing.unlink()
    with pytest.raises(ModelNotFound, match="--adapter-path takes a folder with adapter_config"):
        models_.load(str(models / "qwen3"), model_options=model_options)


def test_an_adapter_of_another_model_is_one_sentence(models: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "wide", "qwen3", head_dim=32)
    model_options = write_adapter(tmp_path / "adapter", tmp_path / "wide")
    with pytest.raises(ModelBroken, match=r"cannot be used with the model .*incompatible") as caught:
        models_.load(str(models / "qwen3"), model_options=model_options)
    assert 1 == len(str(caught.value).splitlines())


@pytest.mark.parametrize("config", ["{", "{}", "[]"])
def test_a_wrong_configuration_of_an_adapter_is_one_sentence(
    models: Path, tmp_path: Path, config: str
) -> None:
    model_options = write_adapter(tmp_path / "adapter", models / "qwen3")
    (tmp_path / "adapter" / "adapter_config.json").write_text(config)
    with pytest.raises(ModelBroken, match=r"The adapter in .* cannot be used"):
        models_.load(str(models / "qwen3"), model_options=model_options)


# All options


def test_every_option_has_a_fingerprint_of_its_own(wide: Path, tmp_path: Path) -> None:
    options = [
        DEFAULTS,
        FOUR_BITS,
        ModelOptions(kv_bits=8, kv_group_size=32),
        ModelOptions(max_kv_size=64),
        ModelOptions(max_kv_size=65),
        ModelOptions(prefill_step_size=32),
        write_adapter(tmp_path / "adapter", wide / "qwen3"),
    ]
    assert len(options) == len({fingerprint(wide / "qwen3", model_options) for model_options in options})


def test_a_group_size_without_bits_changes_nothing(models: Path) -> None:
    assert fingerprint(models / FAMILIES[0]) == fingerprint(
        models / FAMILIES[0], ModelOptions(kv_group_size=32)
    )


@pytest.mark.slow
def test_other_options_reuse_nothing_and_say_why(chatcli: Program, wide: Path) -> None:
    arguments = ["-S", "talk", "-m", wide / "qwen3_5", "-n", 4]
    chatcli.ask("My dog is called Biscuit.", *arguments)
    quantized = chatcli.ask("What is my dog's name?", *arguments, "--kv-bits", 4, "--kv-group-size", 32)
    assert (
        0 == quantized["reused_tokens"]
        and "its cache settings or the program changed" in quantized["miss_reason"]
    )
    again = chatcli.ask("And mine?", *arguments, "--kv-bits", 4, "--kv-group-size", 32)
    assert again["reused_tokens"] > 0 and again["miss_reason"] is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--kv-bits", 7), 2, "--kv-bits must be one of 2, 3, 4, 5, 6, 8, not '7'"),
        (("--kv-group-size", 60), 2, "--kv-group-size must be one of 32, 64, 128"),
        (("--kv-bits", 4), 1, "in groups of 64"),
        at_night(("--max-kv-size", 64), 1, "leave out --max-kv-size"),
        at_night(("--adapter-path", "nowhere"), 1, "The adapter in"),
    ],
)
def test_a_refusal_is_one_sentence(
    chatcli: Program, words: tuple[object, ...], code: int, message: str
) -> None:
    result = chatcli.run("ask", "Hello", *words, expect=code)
    assert message in result.errors and 1 == len(result.errors.splitlines())
