"""Trains pocket's tokenizer on generated conversations, and encodes them.

A word has the same tokens wherever it stands: a space before it is a token of its own, but for the
common words of SPACED, and a capital is CAPITAL before the small letter. So a value in a question, in
its fact and in a reply look alike, and copying is one skill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from training.pocket.conversations import Conversation, Difficulty, by_hand, conversation
from training.pocket.values import Source

SIZE = 4096
CAPITAL = "\x0e"
SPACED = """
a about all also am an and any are as ask asked at be but by call called can could did do does for
from get go got had has have he her him his how if in is it its just know like live lives made me
my named need no not of ok on or our out please remember say said she so tell than that the their
them then there they this to told too up us want was we were what when where which who why will
with work works would yes yet you your """
START, END, THINK, ENOUGH, TEXT_END = (
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|endoftext|>",
)
SPECIAL = [TEXT_END, START, END, THINK, ENOUGH]
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}
"""
HISTORY, LAST, THOUGHT = 1, 2, 3


def texts(seed: int, count: int) -> Iterator[str]:
    """Everything said in made-up conversations."""
    source = Source(Random(seed))
    for number in range(count):
        talk = (by_hand if number % 2 else conversation)(source, Difficulty(turns=8))
        yield talk.system or ""
        for turn in talk.turns:
            yield from (turn.user, turn.thinking, turn.reply)


def train(seed: int = 1, count: int = 24000) -> Tokenizer:
    """A byte-pair tokenizer of SIZE tokens: words in small letters, and single marks and digits."""
    capitals = [(chr(code), CAPITAL + chr(code + 32)) for code in range(65, 91)]
    spaced = "|".join([*SPACED.split(), f"{CAPITAL}i"])
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(a, b) for a, b in capitals])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(
                Regex(rf" (?:{spaced})(?![a-z{CAPITAL}])|[a-z]+| {CAPITAL}|[\s\S]"), "isolated"
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    # A capital mark that ends a text is an unfinished character, as half of "é" is.
    opened = decoders.Replace(Regex(rf"{CAPITAL}$"), "\N{REPLACEMENT CHARACTER}")
    pairs = [decoders.Replace(b, a) for a, b in capitals]
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse(), *pairs, opened])
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(seed, count), trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the tokenizer's files."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": TEXT_END,
        "additional_special_tokens": [START, END],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32768,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)


@dataclass(frozen=True)
class Sample:
    """Token ids and, for each, whether it is learnt: 0, HISTORY, LAST or THOUGHT. Both [T]."""

    ids: list[int]
    marks: list[int]
    sort: str


@dataclass(frozen=True)
class Coder:
    """Turns conversations into samples, as the chat template renders them."""

    tokenizer: Tokenizer

    def sample(self, talk: Conversation, think: bool, deep: int = 1) -> Sample:
        """The conversation with thinking in its last `deep` turns, or with the empty stub in the last.

        No conversation holds the thinking of earlier turns when pocket is used. A share of samples does,
        as a sample that thinks in many turns teaches thinking several times for the same tokens.
        """
        parts = self._history(talk, len(talk.turns) - deep)
        last = talk.turns[-1]
        parts += [(f"{START}user\n{last.user}{END}\n{START}assistant\n{THINK}\n", 0)]
        ending = f"{ENOUGH}\n\n{last.reply}{END}"
        parts += (
            [(f"{last.thinking}\n{ending}", LAST)]
            if think
            else [(f"\n{ENOUGH}\n\n", 0), (f"{last.reply}{END}", LAST)]
        )
        ids: list[int] = []
        marks: list[int] = []
        encoded = self.tokenizer.encode_batch_fast([text for text, _ in parts], add_special_tokens=False)
        for code, (_, mark) in zip(encoded, parts, strict=True):
            ids += code.ids
            marks += [mark] * len(code.ids)
        return Sample(ids, marks, last.sort if think else f"{last.sort}, no thinking")

    def _history(self, talk: Conversation, first: int) -> list[tuple[str, int]]:
        parts = [] if talk.system is None else [(f"{START}system\n{talk.system}{END}\n", 0)]
        for place, turn in enumerate(talk.turns[:-1]):
            parts.append((f"{START}user\n{turn.user}{END}\n{START}assistant\n", 0))
            if place >= first and not turn.cut:
                parts += [(f"{THINK}\n", 0), (f"{turn.thinking}\n{ENOUGH}\n\n", THOUGHT)]
            parts.append((f"{turn.reply}{END}", 0 if turn.cut else HISTORY))
            parts.append(("\n", 0))
        return parts
