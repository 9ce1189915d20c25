"""generation_config.json: sampling defaults and end tokens; and code that comes with a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from chatcli.errors import ModelBroken
from chatcli.model.load import default_sampling, load
from chatcli.settings.values import Sampling
from tests.support.harness import Harness
from tests.support.program import Program
from tests.support.tiny import SPECIAL, update_json, write_model

GENERATION_CONFIG = {"do_sample": True, "temperature": 1.3, "top_p": 0.9, "top_k": 30, "min_p": 0.01}
# A tokenizer class in a model's folder, which writes a file when it runs.
CODE = """
from pathlib import Path
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

class OwnTokenizer(PreTrainedTokenizerFast):
    def __init__(self, *args, **kwargs):
        folder = Path({folder!r})
        (folder / "ran").touch()
        words = Tokenizer.from_file(str(folder / "words.json"))
        super().__init__(*args, **{{**kwargs, "tokenizer_object": words}})
"""


@pytest.fixture
def folder(models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(models / "qwen3", tmp_path / "model"))


def write_generation_config(folder: Path, **config: Any) -> Path:
    (folder / "generation_config.json").write_text(json.dumps(config))
    return folder


# generation_config.json


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, Sampling()),
        (GENERATION_CONFIG, Sampling(1.3, 0.9, 30, 0.01)),
        ({"do_sample": False, "temperature": 0.6}, Sampling(0.0)),
        ({"do_sample": True, "top_k": 64}, Sampling(1.0, top_k=64)),
        ({"temperature": 0.6}, Sampling(0.6)),
        ({"temperature": 1, "repetition_penalty": 1.05}, Sampling(1.0, repetition_penalty=1.05)),
        ({"temperature": "hot", "top_p": 7, "top_k": -1, "min_p": None}, Sampling()),
        ({"temperature": True, "top_k": 2.5, "repetition_penalty": 0}, Sampling()),
        ({"temperature": float("nan"), "top_p": float("inf")}, Sampling()),
    ],
)
def test_valid_values_of_generation_config_are_used(config: dict[str, Any], expected: Sampling) -> None:
    assert expected == default_sampling(config)


def test_given_settings_replace_the_models_defaults() -> None:
    defaults = Sampling(1.3, 0.9, 30, repetition_penalty=1.1)
    assert Sampling(0.0, 0.9, 0, seed=4, repetition_penalty=1.1) == Sampling(temp=0.0, top_k=0, seed=4).over(
        defaults
    )
    assert defaults == Sampling().over(defaults)


def test_pocket_samples_greedily_up_to_300_tokens() -> None:
    loaded = load("pocket")
    assert Sampling(0.0, max_tokens=300) == loaded.sampling


@pytest.mark.parametrize("asked", [{}, {"temp": 0.0}, {"top_k": 1}, {"temp": 0.7, "top_p": 1.0}])
def test_a_model_samples_with_its_defaults_unless_told_otherwise(
    folder: Path, tmp_path: Path, asked: dict[str, Any]
) -> None:
    def tokens(where: Path, sampling: Sampling) -> list[int]:
        with Harness(where, tmp_path / "sessions", cache=False) as harness:
            harness.runtime.settings = harness.settings = with_sampling(harness, sampling)
            return harness.say(harness.chat("talk"), "Tell me.", settle=False).tokens

    plain = tmp_path / "plain"
    shutil.copytree(folder, plain)
    write_generation_config(folder, **GENERATION_CONFIG)
    whole = Sampling(**{"temp": 1.3, "top_p": 0.9, "top_k": 30, "min_p": 0.01, **asked})
    expected = tokens(plain, Sampling(**{**vars(whole), "seed": 7, "max_tokens": 20}))
    shutil.rmtree(tmp_path / "sessions")
    assert expected == tokens(folder, Sampling(**asked, seed=7, max_tokens=20))
    shutil.rmtree(tmp_path / "sessions")
    greedy = tokens(plain, Sampling(max_tokens=20))
    assert (greedy == expected) == (asked in ({"temp": 0.0}, {"top_k": 1}))


def with_sampling(harness: Harness, sampling: Sampling) -> Any:
    from dataclasses import replace

    return replace(harness.settings, sampling=sampling)


def test_a_repetition_penalty_changes_the_reply_unless_it_is_one(folder: Path, tmp_path: Path) -> None:
    outcomes = {}
    for penalty in (None, 1.0, 3.0):
        with Harness(folder, tmp_path / str(penalty), cache=False) as harness:
            sampling = Sampling(max_tokens=30, repetition_penalty=penalty)
            harness.runtime.settings = with_sampling(harness, sampling)
            record = harness.say(harness.chat("talk"), "Tell me.", settle=False)
            outcomes[penalty] = (record.tokens, record.logprobs)
    assert outcomes[None] == outcomes[1.0]
    assert outcomes[None][0] != outcomes[3.0][0]


def test_every_eos_token_of_generation_config_ends_a_reply(folder: Path) -> None:
    ends = [SPECIAL.index("<|endoftext|>"), SPECIAL.index("<|im_end|>")]
    loaded = load(str(write_generation_config(folder, eos_token_id=ends)))
    assert set(ends) == set(loaded.tokenizer.eos_token_ids)


@pytest.mark.slow
def test_flags_and_config_file_override_generation_config(folder: Path, chatcli: Program) -> None:
    write_generation_config(folder, **GENERATION_CONFIG)
    command = ["ask", "Tell me.", "-n", 12, "--json", "-m", folder, "--no-cache"]
    greedy = chatcli.run(*command, "--temp", 0).json()["tokens"]
    chatcli.run("config", "temp", 0)
    assert greedy == chatcli.run(*command).json()["tokens"]


# Code that comes with a model


@pytest.fixture(params=["qwen3", "unknown"])
def with_code(request: pytest.FixtureRequest, folder: Path) -> Path:
    """A model, known to transformers or not, whose tokenizer is read by a class of its own."""
    (folder / "own.py").write_text(CODE.format(folder=str(folder)))
    (folder / "tokenizer.json").rename(folder / "words.json")
    update_json(
        folder / "tokenizer_config.json",
        tokenizer_class="OwnTokenizer",
        auto_map={"AutoTokenizer": ["own.OwnTokenizer", None]},
    )
    if request.param == "unknown":
        # To mlx-lm it is a llama, which has no norms of queries and keys.
        update_json(folder / "config.json", model_type="iquestcoder")
        weights = mx.load(str(folder / "model.safetensors"))
        plain = {
            name: weight for name, weight in weights.items() if "q_norm" not in name and "k_norm" not in name
        }
        mx.eval(plain)
        mx.save_safetensors(str(folder / "model.safetensors"), plain)
    return folder


@pytest.mark.slow
def test_code_of_a_model_runs_only_when_it_is_asked_for(with_code: Path, chatcli: Program) -> None:
    environment = chatcli.environment(HF_HOME=str(chatcli.home / "hf"))
    ask = ["ask", "Tell me.", "-n", 2, "--json", "-m", with_code]
    refused = chatcli.run(*ask, env=environment, expect=1)
    assert "use --trust-remote-code" in refused.errors and 1 == len(refused.errors.splitlines())
    assert not (with_code / "ran").exists()
    reply = chatcli.run(*ask, "--trust-remote-code", env=environment).json()
    assert 2 == len(reply["tokens"]) and (with_code / "ran").exists()


def test_damaged_weights_are_not_reported_as_untrusted_code(with_code: Path) -> None:
    (with_code / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelBroken, match="cannot be loaded"):
        load(str(with_code))


def test_a_models_own_architecture_runs_only_if_trusted(folder: Path) -> None:
    update_json(folder / "config.json", model_file="arch.py")
    (folder / "arch.py").write_text("from mlx_lm.models.qwen3 import Model, ModelArgs")
    with pytest.raises(ModelBroken, match="use --trust-remote-code"):
        load(str(folder))
    assert load(str(folder), trust_remote_code=True).context


def test_trust_does_not_change_the_fingerprint(folder: Path) -> None:
    trusting = load(str(folder), trust_remote_code=True)
    assert trusting.fingerprint == load(str(folder)).fingerprint


def test_a_failing_import_in_a_models_code_is_one_sentence(folder: Path) -> None:
    update_json(folder / "config.json", model_file="arch.py")
    (folder / "arch.py").write_text("import nothing_of_this_name")
    with pytest.raises(ModelBroken, match="No module named 'nothing_of_this_name'"):
        load(str(folder), trust_remote_code=True)


def test_without_generation_config_sampling_is_greedy(tmp_path: Path) -> None:
    assert Sampling() == load(str(write_model(tmp_path / "m", "qwen3"))).sampling
