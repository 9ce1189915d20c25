"""Another model's checkpoints are never a hit; the same model's are, wherever its folder is.

A template or a tokenizer is no model: there the tokens decide.
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
from chatcli.events import TurnRecord
from chatcli.kv import prompt_cache
from chatcli.model.load import fingerprint, load
from chatcli.store.segments.token_path import common_prefix
from chatcli.turn.prompt import history
from tests.support.harness import Harness
from tests.support.program import Program
from tests.support.tiny import OPEN_THINK, OWN_THINK, update_json, write_model

FAMILY = "gemma3_text"
# Part of a segment is taken over in whole chunks of a prefill.
CHUNK = 64
SAID = (
    f"{'Remember what you were told. ' * 12}My dog is called Biscuit.",
    "What is my dog's name?",
)
CHANGED = "the model or its cache settings changed"
TOKENS = 12
LARGE = 80 << 20

Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and a folder of sessions with one conversation that it had."""
    folder = tmp_path_factory.mktemp("pristine")
    write_model(folder / "model", FAMILY)
    said(folder, SAID[0])
    return folder


@pytest.fixture
def place(pristine: Path, tmp_path: Path) -> Path:
    """The same for one test, at the same path as far as the model can know."""
    return Path(shutil.copytree(pristine, tmp_path / "place"))


def said(place: Path, text: str, *, cache: bool = True) -> TurnRecord:
    """One turn of the conversation in a new harness."""
    with Harness(place / "model", place / "sessions", tokens=TOKENS, cache=cache) as harness:
        return harness.say(harness.chat("talk"), text)


def on_a_copy(place: Path, text: str) -> TurnRecord:
    """The turn without any checkpoint."""
    copy = place.with_name("cold")
    copy.mkdir()
    shutil.copytree(place / "model", copy / "model")
    (copy / "sessions").mkdir()
    shutil.copy(place / "sessions" / "talk.jsonl", copy / "sessions")
    return said(copy, text, cache=False)


def numbers(record: TurnRecord) -> tuple[Any, ...]:
    return record.prompt_tokens, record.tokens, record.logprobs


def weights_of(folder: Path) -> Path:
    return folder / "model.safetensors"


def largest_tensor(path: Path) -> tuple[int, int]:
    """Where the bytes of a weight file's largest tensor begin and end."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    places = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    begin, end = max(places, key=lambda place: place[1] - place[0])
    return 8 + length + begin, 8 + length + end


def flip(path: Path, at: int) -> None:
    """Change the byte there by its lowest bit; size and times stay."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
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


def adapter(folder: Path) -> None:
    low = {"model.layers.0.self_attn.q_proj.lora_a": mx.ones((64, 4))}
    mx.save_safetensors(str(folder / "adapters.safetensors"), low)
    (folder / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "lora"}))


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
    "an adapter": adapter,
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
    expected = on_a_copy(place, SAID[1])
    record = said(place, SAID[1])
    assert (0, CHANGED) == (record.reused_tokens, str(record.miss_reason)[: len(CHANGED)])
    assert numbers(expected) == numbers(record)
    assert said(place, "And now?").reused_tokens > 0


def test_going_back_to_the_first_model_finds_its_checkpoints_again(place: Path) -> None:
    shutil.copytree(place / "model", place / "kept")
    byte_in_the_middle(place / "model")
    said(place, SAID[1])
    shutil.rmtree(place / "model")
    (place / "kept").rename(place / "model")
    record = said(place, "And now?")
    assert record.reused_tokens > 0
    assert CHANGED in str(record.miss_reason)


def test_another_quantization_is_another_model(place: Path) -> None:
    quantized(4)(place / "model")
    shutil.copytree(place / "model", place / "four")
    said(place, SAID[1])
    other_weights(place / "model")
    quantized(8)(place / "model")
    record = said(place, "And now?")
    assert (0, CHANGED) == (record.reused_tokens, str(record.miss_reason)[: len(CHANGED)])


def test_a_cache_of_another_layout_is_another_model(place: Path) -> None:
    loaded, _ = mlx_lm.load(str(place / "model"))
    sizes = [None, 16, 64]
    layouts = [prompt_cache.layout(mlx_lm.models.cache.make_prompt_cache(loaded, size)) for size in sizes]
    qwen = write_model(place / "qwen", "qwen3")
    plain, _ = mlx_lm.load(str(qwen))
    layouts += [prompt_cache.layout(mlx_lm.models.cache.make_prompt_cache(plain, size)) for size in sizes]
    marks = {fingerprint(place / "model", layout) for layout in layouts}
    # Gemma makes its own caches, whatever size is asked for.
    assert 4 == len(set(layouts)) == len(marks)


def test_one_byte_of_weights_too_large_to_be_read_whole(tmp_path: Path) -> None:
    """64 blocks of a file would not see it."""
    folder = write_model(tmp_path / "large", "qwen3", intermediate_size=40_000)
    assert weights_of(folder).stat().st_size > LARGE
    before = load(str(folder)).fingerprint
    assert before == load(str(folder)).fingerprint
    begin, end = largest_tensor(weights_of(folder))
    for part in (3, 5, 7):
        flip(weights_of(folder), begin + (end - begin) // part)
        assert before != load(str(folder)).fingerprint
        flip(weights_of(folder), begin + (end - begin) // part)
    assert before == load(str(folder)).fingerprint


# The same model


def moved(place: Path) -> None:
    shutil.copytree(place / "model", place / "elsewhere" / "other name")
    shutil.rmtree(place / "model")
    (place / "model").symlink_to(place / "elsewhere" / "other name")


def newer(place: Path) -> None:
    for path in (place / "model").iterdir():
        os.utime(path, (2e9, 2e9))


def noted(place: Path) -> None:
    path = place / "model" / "config.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({"transformers_version": "99", "_name_or_path": "x", **kept}))


def described(place: Path) -> None:
    (place / "model" / "README.md").write_text("A model.")
    path = place / "model" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "note": "nothing"}))


def same_tokens(place: Path) -> None:
    template = place / "model" / "chat_template.jinja"
    template.write_text("{#- rewritten -#}" + template.read_text())


@pytest.mark.parametrize("change", [moved, newer, noted, described, same_tokens])
def test_what_does_not_change_the_numbers_is_a_full_hit(change: Change, pristine: Path, place: Path) -> None:
    untouched = place.with_name("untouched")
    expected = said(Path(shutil.copytree(pristine, untouched)), SAID[1])
    change(place)
    record = said(place, SAID[1])
    assert (expected.reused_tokens, None) == (record.reused_tokens, record.miss_reason)
    assert numbers(expected) == numbers(record)
    assert record.reused_tokens > record.prompt_tokens // 2


@pytest.mark.slow
def test_the_real_program_hits_in_a_renamed_folder_and_misses_with_one_byte(
    models: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(models / "gpt_oss", tmp_path / "first name"))
    program = Program(tmp_path / "home", folder)
    program.ask(SAID[0], "-S", "talk", "-n", "8")
    renamed = folder.rename(tmp_path / "second name")
    options = ("-S", "talk", "-n", "8", "-m", renamed)
    hit = program.ask(SAID[1], *options)
    assert hit["reused_tokens"] > hit["prompt_tokens"] // 2 and hit["miss_reason"] is None
    byte_in_the_middle(renamed)
    missed = program.ask("And now?", *options)
    assert 0 == missed["reused_tokens"]
    assert CHANGED in missed["miss_reason"]


# Another template: tokens decide


def rendered(place: Path) -> tuple[list[int], set[int]]:
    """The conversation on disk with one more message: its tokens, and where checkpoints end."""
    with Harness(place / "model", place / "sessions", cache=False) as harness:
        chat = harness.chat("talk")
        told = history(chat, chat.session.conversation.path()[-1])
        messages = [*told, Message("user", SAID[1])]
        return chat.template.prompt(messages), set(chat.template.boundaries(messages, {}))


def settled_end(place: Path) -> int:
    """Where the last checkpoint of the first turn ends."""
    lines = (place / "sessions" / "talk.jsonl").read_bytes().splitlines()
    records = [json.loads(line).get("record", {}) for line in lines]
    return max(end for record in records for end in record.get("boundaries", {}).values())


def like_segments(one: set[int], other: set[int], parting: int) -> tuple[int, int]:
    """Where the last checkpoint ends that both have, and where the next segments part."""
    shared = 0
    for end, same in zip(sorted(one), sorted(other), strict=False):
        if end != same or end > parting:
            return shared, min(end, same, parting)
        shared = end
    return shared, parting


def said_by(role: str, text: str) -> str:
    """A template that says something of its own before what one role says."""
    return OWN_THINK.replace("+ m.content", f"+ ('{text}' if m.role == '{role}' else '') + m.content")


OTHER_TEMPLATES = {
    "at the first token": "<" + OWN_THINK,
    "in the system prompt": said_by("system", "Listen. "),
    "at the first question": said_by("user", "Hm. "),
    "inside the first question": OWN_THINK.replace("m.content", "m.content | replace('Bis', 'X')"),
    "at the reply": said_by("assistant", "So: "),
    "at the generation prompt": OPEN_THINK,
}


@pytest.mark.slow
@pytest.mark.parametrize("template", OTHER_TEMPLATES.values(), ids=OTHER_TEMPLATES)
def test_with_another_template_reuse_ends_where_the_tokens_part(template: str, place: Path) -> None:
    before, ends_before = rendered(place)
    (place / "model" / "chat_template.jinja").write_text(template)
    after, ends_after = rendered(place)
    parting = common_prefix(before, after)
    assert before != after
    shared, first_other = like_segments(ends_before, ends_after, parting)
    kept = settled_end(place)
    expected = on_a_copy(place, SAID[1])
    record = said(place, SAID[1])
    assert numbers(expected) == numbers(record)
    assert shared <= record.reused_tokens <= parting
    assert first_other - record.reused_tokens < CHUNK
    changed = f"the prompt changed at token {parting}:"
    assert (parting < kept) == str(record.miss_reason).startswith(changed)
