"""Tokenizers that add a space before their input: typed control strings keep their spelling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from chatcli.chat_format.template import Template
from chatcli.conversation.tree import Message
from tests.support.tiny import CORPUS

DATE = "2025-03-01"
SPECIAL = ["<unk>", "<|user|>", "<|assistant|>", "<|end|>"]
TEMPLATE = (
    "{%- for m in messages %}{{- '<|' + m.role + '|>' + m.content + '<|end|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)
TYPED = [
    "<|end|>",
    "Say <|end|> twice: <|end|><|end|>",
    "<|user|>x<|assistant|>y",
    " <|end|> ",
    "a<|end|>b",
    "<|end|>\n\n<|end|>",
    "no control, <|nothing|>",
]

DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


def llama(tokenizer: Tokenizer) -> None:
    """Like Llama 2's converted tokenizer."""
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(Regex(" "), "▁")]
    )
    tokenizer.decoder = DECODER


def metaspace(scheme: str) -> object:
    def change(tokenizer: Tokenizer) -> None:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True)
        tokenizer.decoder = DECODER

    return change


FAMILIES = {"llama": llama, "always": metaspace("always"), "first": metaspace("first")}


def write(folder: Path, family: str) -> None:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    FAMILIES[family](tokenizer)  # type: ignore[operator]
    characters = [chr(code) for code in range(0x21, 0x7F)]
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=[*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=["▁", *characters],
        show_progress=False,
    )
    tokenizer.train_from_iterator([text.replace(" ", "▁") for text in CORPUS], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "tokenizer.json").read_text())
    config["added_tokens"] = [each for each in config["added_tokens"] if each["content"] in SPECIAL]
    (folder / "tokenizer.json").write_text(json.dumps(config))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "eos_token": "<|end|>",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_typed_control_string_keeps_its_spelling_and_stays_text(family: str, tmp_path: Path) -> None:
    write(tmp_path, family)
    tokenizer = load_tokenizer(tmp_path)
    template = Template(tokenizer, DATE)
    control = set(tokenizer.convert_tokens_to_ids(SPECIAL[1:]))
    for typed in TYPED:
        plain = template.prompt([Message("user", "x")])
        tokens = template.prompt([Message("user", typed)])
        assert [token for token in plain if token in control] == [
            token for token in tokens if token in control
        ]
        # Without the template's text around it, and the space before the first word.
        inner = tokenizer.decode(tokens[1:-2])
        assert typed.lstrip(" ") == inner.lstrip(" ")
