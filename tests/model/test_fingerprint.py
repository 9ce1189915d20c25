"""Fingerprints: only the same model's checkpoints are hits, wherever its folder is.

Templates and tokenizers are not part of it, because tokens are compared.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.utils import load_model, quantize_model, save_config, save_model

from chatcli.conversation.tree import Message
from chatcli.errors import ModelBroken
from chatcli.events import TurnRecord
from chatcli.kv import prompt_cache
from chatcli.model import fingerprint
from chatcli.model.load import load
from chatcli.store.segments.token_path import common_prefix
from chatcli.turn.prompt import history
from tests.support.adapters import write_adapter
from tests.support.harness import Harness
from tests.support.program import Program
from tests.support.tiny import OPEN_THINK, OWN_THINK, update_json, write_model

FAMILY = "gemma3_text"
# Part of a segment is reused in whole prefill chunks.
CHUNK_TOKENS = 64
MESSAGES = (
    f"{'Remember what you were told. ' * 12}My dog is called Biscuit.",
    "What is my dog's name?",
)
# Of the same name: "…, its cache settings or the program changed"; of another: "… changed (before: NAME)".
MODEL_CHANGED = "the model"
TOKENS = 12
LARGE_BYTES = 80 << 20

Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and sessions with one of its conversations."""
    folder = tmp_path_factory.mktemp("pristine")
    write_model(folder / "model", FAMILY)
    take_turn(folder, MESSAGES[0])
    return folder


@pytest.fixture
def place(pristine: Path, tmp_path: Path) -> Path:
    """A copy of `pristine` for one test."""
    return Path(shutil.copytree(pristine, tmp_path / "place"))


def take_turn(place: Path, text: str, *, cache: bool = True) -> TurnRecord:
    """Take a turn of the conversation in a new process."""
    with Harness(place / "model", place / "sessions", tokens=TOKENS, cache=cache) as harness:
        return harness.say(harness.chat("talk"), text)


def take_cold_turn(place: Path, text: str) -> TurnRecord:
    """Take the turn in a copy of the folders, without any checkpoint."""
    copy = place.with_name("cold")
    copy.mkdir()
    shutil.copytree(place / "model", copy / "model")
    (copy / "sessions").mkdir()
    shutil.copy(place / "sessions" / "talk.jsonl", copy / "sessions")
    return take_turn(copy, text, cache=False)


def numbers(record: TurnRecord) -> tuple[Any, ...]:
    return record.prompt_tokens, record.tokens, record.logprobs


def weights_of(folder: Path) -> Path:
    return folder / "model.safetensors"


def largest_tensor(path: Path) -> tuple[int, int]:
    """The byte range of the largest tensor in a weight file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    places = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    begin, end = max(places, key=lambda place: place[1] - place[0])
    return 8 + length + begin, 8 + length + end


def flip(path: Path, position: int) -> None:
    """Flip the lowest bit of the byte at `position`; size and times stay."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert before.st_size == path.stat().st_size


def byte_in_the_middle(folder: Path) -> None:
    begin, end = largest_tensor(weights_of(folder))
    flip(weights_of(folder), (begin + end) // 2)


def last_byte(folder: Path) -> None:
    flip(weights_of(folder), weights_of(folder).stat().st_size - 1)


def other_weights(folder: Path) -> None:
    write_model(folder, FAMILY, seed=8)


def dtype(kind: mx.Dtype) -> Change:
    def change(folder: Path) -> None:
        path = weights_of(folder)
        cast = {name: value.astype(kind) for name, value in mx.load(str(path)).items()}
        mx.eval(cast)
        mx.save_safetensors(str(path), cast, {"format": "mlx"})

    return change


def quantized(bits: int) -> Change:
    def change(folder: Path) -> None:
        loaded, config = load_model(folder)
        loaded, config = quantize_model(loaded, config, group_size=32, bits=bits)
        weights_of(folder).unlink()
        save_model(folder, loaded)
        save_config(config, folder / "config.json")

    return change


def config(**values: Any) -> Change:
    def change(folder: Path) -> None:
        update_json(folder / "config.json", **values)

    return change


CHANGES = {
    "a byte in the middle of a tensor": byte_in_the_middle,
    "the last byte": last_byte,
    "other weights": other_weights,
    "half precision": dtype(mx.float16),
    "brain floats": dtype(mx.bfloat16),
    "4 bits": quantized(4),
    "8 bits": quantized(8),
    "a narrower window": config(sliding_window=16),
    "a wider window": config(sliding_window=64),
    "another rotation": config(rope_theta=20000),
    "another scale": config(query_pre_attn_scalar=32),
}


AT_NIGHT = ("half precision", "8 bits", "a wider window", "another scale")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=[pytest.mark.slow] if name in AT_NIGHT else [])
        for name, change in CHANGES.items()
    ],
)
def test_another_model_in_the_same_folder_is_never_a_hit(change: Change, place: Path) -> None:
    change(place / "model")
    expected = take_cold_turn(place, MESSAGES[1])
    record = take_turn(place, MESSAGES[1])
    assert (0, MODEL_CHANGED) == (record.reused_tokens, str(record.miss_reason)[: len(MODEL_CHANGED)])
    assert numbers(expected) == numbers(record)
    assert take_turn(place, "And now?").reused_tokens > 0


def test_the_first_model_finds_its_checkpoints_again(place: Path) -> None:
    shutil.copytree(place / "model", place / "kept")
    byte_in_the_middle(place / "model")
    take_turn(place, MESSAGES[1])
    shutil.rmtree(place / "model")
    (place / "kept").rename(place / "model")
    record = take_turn(place, "And now?")
    assert record.reused_tokens > 0
    assert MODEL_CHANGED in str(record.miss_reason)


def test_another_quantization_is_another_model(place: Path) -> None:
    quantized(4)(place / "model")
    shutil.copytree(place / "model", place / "four")
    take_turn(place, MESSAGES[1])
    other_weights(place / "model")
    quantized(8)(place / "model")
    record = take_turn(place, "And now?")
    assert (0, MODEL_CHANGED) == (record.reused_tokens, str(record.miss_reason)[: len(MODEL_CHANGED)])


def test_a_cache_of_another_layout_is_another_model(place: Path) -> None:
    loaded, _ = mlx_lm.load(str(place / "model"))
    sizes = [None, 16, 64]
    layouts = [prompt_cache.layout(mlx_lm.models.cache.make_prompt_cache(loaded, size)) for size in sizes]
    qwen = write_model(place / "qwen", "qwen3")
    plain, _ = mlx_lm.load(str(qwen))
    layouts += [prompt_cache.layout(mlx_lm.models.cache.make_prompt_cache(plain, size)) for size in sizes]
    fingerprints = {fingerprint.of_computation({}, layout) for layout in layouts}
    # Gemma ignores the size: it makes its own caches.
    assert 4 == len(set(layouts)) == len(fingerprints)


def test_one_byte_of_large_weights_changes_the_fingerprint(tmp_path: Path) -> None:
    """A sample of 64 blocks would miss it."""
    folder = write_model(tmp_path / "large", "qwen3", intermediate_size=40_000)
    assert weights_of(folder).stat().st_size > LARGE_BYTES
    before = load(str(folder)).fingerprint
    assert before == load(str(folder)).fingerprint
    begin, end = largest_tensor(weights_of(folder))
    for part in (3, 5, 7):
        flip(weights_of(folder), begin + (end - begin) // part)
        assert before != load(str(folder)).fingerprint
        flip(weights_of(folder), begin + (end - begin) // part)
    assert before == load(str(folder)).fingerprint


# The program, the model's own code and adapters


OWN_CODE = """\
from dataclasses import dataclass
from mlx_lm.models import gemma3_text
class Model(gemma3_text.Model):
    pass
@dataclass
class ModelArgs(gemma3_text.ModelArgs):
    def __post_init__(self):
        self.rope_theta = {theta}
"""


def with_own_code(folder: Path, theta: float) -> None:
    (folder / "model.py").write_text(OWN_CODE.format(theta=theta))
    update_json(folder / "config.json", model_file="model.py")


def take_own_code_turn(place: Path, text: str, *, cache: bool = True) -> TurnRecord:
    with Harness(
        place / "model", place / "sessions", tokens=TOKENS, cache=cache, trust_remote_code=True
    ) as harness:
        return harness.say(harness.chat("talk"), text)


def test_another_mlx_lm_computes_everything_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_lm, "__version__", "99.0")
    record = take_turn(place, MESSAGES[1])
    assert (0, MODEL_CHANGED) == (record.reused_tokens, str(record.miss_reason)[: len(MODEL_CHANGED)])


def test_other_code_of_the_model_is_never_a_hit(place: Path) -> None:
    with_own_code(place / "model", 10_000.0)
    take_own_code_turn(place, MESSAGES[1])
    with_own_code(place / "model", 90_000.0)
    shutil.copytree(place, place.with_name("cold"))
    expected = take_own_code_turn(place.with_name("cold"), "And now?", cache=False)
    record = take_own_code_turn(place, "And now?")
    assert (0, MODEL_CHANGED) == (record.reused_tokens, str(record.miss_reason)[: len(MODEL_CHANGED)])
    assert numbers(expected) == numbers(record)


def test_weights_that_change_after_they_were_read_do_not_count(place: Path) -> None:
    folder, read = place / "model", list[float]()

    def swap(fraction: float) -> None:
        read.append(fraction)
        if fraction == 1.0:
            byte_in_the_middle(folder)

    before = load(str(folder)).fingerprint
    assert before == load(str(folder), swap).fingerprint
    assert 1.0 == read[-1]
    assert before != load(str(folder)).fingerprint


def test_code_or_an_adapter_that_changes_while_the_model_loads_is_refused(place: Path) -> None:
    folder = place / "model"
    options = write_adapter(place / "adapter", folder)
    with_own_code(folder, 10_000.0)

    def change_adapter(_: float) -> None:
        update_json(place / "adapter" / "adapter_config.json", note="another")

    with pytest.raises(ModelBroken, match="changed while it was loaded: start again"):
        load(str(folder), change_adapter, trust_remote_code=True, model_options=options)
    with pytest.raises(ModelBroken, match="changed while it was loaded: start again"):
        load(str(folder), lambda _: with_own_code(folder, 5.0), trust_remote_code=True)


def test_an_adapter_changed_in_place_is_another_model(place: Path) -> None:
    folder = place / "model"
    options = write_adapter(place / "adapter", folder)
    before = load(str(folder), model_options=options).fingerprint
    assert before == load(str(folder), model_options=options).fingerprint
    last_byte_of = place / "adapter" / "adapters.safetensors"
    flip(last_byte_of, last_byte_of.stat().st_size - 1)
    assert before != load(str(folder), model_options=options).fingerprint


# The same model


def move_model(place: Path) -> None:
    shutil.copytree(place / "model", place / "elsewhere" / "other name")
    shutil.rmtree(place / "model")
    (place / "model").symlink_to(place / "elsewhere" / "other name")


def set_newer_times(place: Path) -> None:
    for path in (place / "model").iterdir():
        os.utime(path, (2e9, 2e9))


def add_config_notes(place: Path) -> None:
    path = place / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({"transformers_version": "99", "_name_or_path": "x", **config}))


def add_readme_and_note(place: Path) -> None:
    (place / "model" / "README.md").write_text("A model.")
    path = place / "model" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "note": "nothing"}))


def add_unused_adapter(place: Path) -> None:
    """mlx-lm loads an adapter only where it is asked to."""
    low = {"model.layers.0.self_attn.q_proj.lora_a": mx.ones((64, 4))}
    mx.save_safetensors(str(place / "model" / "adapters.safetensors"), low)
    (place / "model" / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "lora"}))


def add_template_comment(place: Path) -> None:
    template = place / "model" / "chat_template.jinja"
    template.write_text("{#- rewritten -#}" + template.read_text())


@pytest.mark.parametrize(
    "change",
    [
        move_model,
        set_newer_times,
        add_config_notes,
        add_readme_and_note,
        add_unused_adapter,
        add_template_comment,
    ],
)
def test_changes_that_do_not_affect_the_output_are_full_hits(
    change: Change, pristine: Path, place: Path
) -> None:
    untouched = place.with_name("untouched")
    expected = take_turn(Path(shutil.copytree(pristine, untouched)), MESSAGES[1])
    change(place)
    record = take_turn(place, MESSAGES[1])
    assert (expected.reused_tokens, None) == (record.reused_tokens, record.miss_reason)
    assert numbers(expected) == numbers(record)
    assert record.reused_tokens > record.prompt_tokens // 2


@pytest.mark.slow
def test_the_program_hits_in_a_renamed_folder_and_misses_after_one_byte(models: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(models / "gpt_oss", tmp_path / "first name"))
    program = Program(tmp_path / "home", folder)
    program.ask(MESSAGES[0], "-S", "talk", "-n", "8")
    renamed = folder.rename(tmp_path / "second name")
    options = ("-S", "talk", "-n", "8", "-m", renamed)
    hit = program.ask(MESSAGES[1], *options)
    assert hit["reused_tokens"] > hit["prompt_tokens"] // 2 and hit["miss_reason"] is None
    byte_in_the_middle(renamed)
    missed = program.ask("And now?", *options)
    assert 0 == missed["reused_tokens"]
    assert MODEL_CHANGED in missed["miss_reason"]


# Another template


def render_next_prompt(place: Path) -> tuple[list[int], set[int]]:
    """The saved conversation with one more message: its tokens and boundaries."""
    with Harness(place / "model", place / "sessions", cache=False) as harness:
        chat = harness.chat("talk")
        messages_so_far = history(chat, chat.session.conversation.path()[-1])
        messages = [*messages_so_far, Message("user", MESSAGES[1])]
        return chat.template.prompt(messages), set(chat.template.boundaries(messages, {}))


def last_boundary(place: Path) -> int:
    """The end of the last checkpoint of the first turn."""
    lines = (place / "sessions" / "talk.jsonl").read_bytes().splitlines()
    records = [json.loads(line).get("record", {}) for line in lines]
    return max(end for record in records for end in record.get("boundaries", {}).values())


def common_segments(left: set[int], right: set[int], divergence: int) -> tuple[int, int]:
    """The end of the last checkpoint that both have, and where the next segments diverge."""
    shared = 0
    for end, other_end in zip(sorted(left), sorted(right), strict=False):
        if end != other_end or end > divergence:
            return shared, min(end, other_end, divergence)
        shared = end
    return shared, divergence


def with_text_before(role: str, text: str) -> str:
    """A template that puts `text` before the messages of `role`."""
    return OWN_THINK.replace("+ m.content", f"+ ('{text}' if m.role == '{role}' else '') + m.content")


OTHER_TEMPLATES = {
    "at the first token": "<" + OWN_THINK,
    "in the system prompt": with_text_before("system", "Listen. "),
    "at the first question": with_text_before("user", "Hm. "),
    "inside the first question": OWN_THINK.replace("m.content", "m.content | replace('Bis', 'X')"),
    "at the reply": with_text_before("assistant", "So: "),
    "at the generation prompt": OPEN_THINK,
}


@pytest.mark.slow
@pytest.mark.parametrize("template", OTHER_TEMPLATES.values(), ids=OTHER_TEMPLATES)
def test_with_another_template_reuse_ends_where_the_tokens_diverge(template: str, place: Path) -> None:
    before, ends_before = render_next_prompt(place)
    (place / "model" / "chat_template.jinja").write_text(template)
    after, ends_after = render_next_prompt(place)
    divergence = common_prefix(before, after)
    assert before != after
    shared, first_other = common_segments(ends_before, ends_after, divergence)
    settled = last_boundary(place)
    expected = take_cold_turn(place, MESSAGES[1])
    record = take_turn(place, MESSAGES[1])
    assert numbers(expected) == numbers(record)
    assert shared <= record.reused_tokens <= divergence
    assert first_other - record.reused_tokens < CHUNK_TOKENS
    changed = f"the prompt changed at token {divergence}:"
    assert (divergence < settled) == str(record.miss_reason).startswith(changed)
