"""Encoder and Seams: incremental encoding gives the tokens of the whole text, for every kind of tokenizer."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from chatcli.chat_format.tokenizing import SEAM, Encoder, Seams, common_text, cutting_marks
from chatcli.store.segments.token_path import common_prefix
from tests.support import tiny
from tests.support.families import at_night

MARKS = ["<|a|>", "<|b|>", "<c>"]
# Fragments to join: spaces, parts of control tokens, control tokens that contain others.
FRAGMENTS = [
    *MARKS,
    "<|a",
    "|>",
    "<",
    "c>",
    "<|b|>d",
    "<<c>",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    "dog",
    " dog",
    "Dog",
    "is",
    "7",
    "77",
    "é",
    "e\u0301",
    "👍",
    "日本",
    "\u00a0",
    "<|A|>",
    "_",
    "▁",
    SEAM,
    "*",
    "**",
    ">\n",
]


def added(**flags: bool) -> list[AddedToken]:
    return [AddedToken(mark, **{"special": True, "normalized": False, **flags}) for mark in MARKS]


def byte_level(marks: list[AddedToken], prefix_space: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*tiny.CORPUS, *["\n\n >\n\n ** <| |> dog\n\n  dog 77"] * 4], trainer)
    tokenizer.add_tokens(marks)
    return tokenizer


def metaspace(marks: list[AddedToken], scheme: str, model: str = "bpe") -> Tokenizer:
    """Like sentencepiece: spaces become a symbol, and one may be added before the text."""
    unigram = model == "unigram"
    tokenizer = Tokenizer(models.Unigram() if unigram else models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=unigram)
    settings_ = {"vocab_size": 200, "show_progress": False, "special_tokens": ["<unk>"]}
    trainer = trainers.UnigramTrainer(unk_token="<unk>", **settings_) if unigram else None
    tokenizer.train_from_iterator(tiny.CORPUS, trainer or trainers.BpeTrainer(**settings_))
    tokenizer.add_tokens([*marks, AddedToken("<unk>", special=True, normalized=False)])
    return tokenizer


def normalized(marks: list[AddedToken], *steps: Any) -> Tokenizer:
    tokenizer = byte_level(marks)
    tokenizer.normalizer = normalizers.Sequence(list(steps))
    return tokenizer


TOKENIZERS = {
    "bytes": byte_level(added()),
    "prefix space": byte_level(added(), prefix_space=True),
    "strips left": byte_level(added(lstrip=True)),
    "strips right": byte_level(added(rstrip=True)),
    "strips both": metaspace(added(lstrip=True, rstrip=True), "always"),
    "one strips": byte_level([added()[0], added(lstrip=True)[1], added(rstrip=True)[2]]),
    "words": byte_level(added(single_word=True)),
    "one is a word": byte_level([added()[0], added(single_word=True)[1], added()[2]]),
    "ordinary": byte_level(added(special=False)),
    "first": metaspace(added(), "first"),
    "always": metaspace(added(), "always"),
    "never": metaspace(added(), "never"),
    "unigram": metaspace(added(), "first", "unigram"),
    "normalized": normalized(added(normalized=True), normalizers.Lowercase()),
    "normalized and prepended": normalized(added(normalized=True), normalizers.Prepend("▁")),
    "NFC": normalized(added(), normalizers.NFC()),
    "prepended": normalized(added(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")),
    "stripped": normalized(added(), normalizers.Strip()),
    "overlapping": byte_level(
        [*added(), *(AddedToken(t, normalized=False) for t in ("<|b|>d", "dog<c", "\n\n", " <c>"))]
    ),
    "no marks": byte_level([]),
}


@pytest.fixture(params=TOKENIZERS, scope="module")
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[request.param])


def encode_whole(tokenizer: Any, text: str) -> list[int]:
    """The tokens of the text encoded as one piece."""
    return Encoder(tokenizer, ()).encode(text)


texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=14).map("".join)


@settings(max_examples=60, deadline=None)
@given(beginnings=st.lists(texts, min_size=1, max_size=3), ends=st.lists(texts, min_size=1, max_size=4))
def test_texts_with_a_common_prefix_have_the_tokens_of_the_whole(
    tokenizer: Any, beginnings: list[str], ends: list[str]
) -> None:
    encoder = Encoder(tokenizer, MARKS)
    for end in ends:
        for beginning in beginnings:
            assert encode_whole(tokenizer, beginning + end) == encoder.encode(beginning + end)


@pytest.mark.parametrize("seed", [0, *(at_night(seed) for seed in range(1, 20))])
def test_conversations_that_grow_branch_and_change_have_the_tokens_of_the_whole(
    tokenizer: Any, seed: int
) -> None:
    rng = random.Random(seed)
    encoder = Encoder(tokenizer, MARKS)
    messages: list[str] = []
    for _ in range(40):
        match rng.randrange(8):
            case 0:  # another branch
                messages = messages[: rng.randint(0, len(messages))]
            case 1 if messages:  # an earlier message is rendered otherwise, also the first
                messages[rng.choice([0, rng.randrange(len(messages))])] = fragments(rng)
            case 2 if messages:  # one more is put between
                messages.insert(rng.randrange(len(messages)), fragments(rng))
            case 3:
                assert encoder.encode(MARKS[0]) == encode_whole(tokenizer, MARKS[0])
        messages += [rng.choice(MARKS) + fragments(rng) for _ in range(rng.randint(1, 3))]
        text = "".join(messages)
        assert encode_whole(tokenizer, text) == encoder.encode(text)


def shared_by(tokenizer: Any, texts: list[str], *, any_text_follows: bool = False) -> int:
    encoder, common = Encoder(tokenizer, MARKS), common_text(texts)
    rests = [text[common:] for text in texts]
    return encoder.shared(encoder.encoded(texts[0]), common, rests, any_text_follows=any_text_follows)


def fragments(rng: random.Random) -> str:
    return "".join(rng.choices(FRAGMENTS, k=rng.randint(0, 12)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(beginning=texts, ends=st.lists(texts, min_size=2, max_size=4))
def test_shared_equals_the_common_prefix_of_tokens(tokenizer: Any, beginning: str, ends: list[str]) -> None:
    joined = [beginning + end for end in ends]
    first, *others = (encode_whole(tokenizer, text) for text in joined)
    shared = min(common_prefix(first, other) for other in others)
    assert shared == shared_by(tokenizer, joined)


@pytest.mark.parametrize("name", ["strips left", "strips both", "words", "normalized", "no marks"])
def test_text_is_not_split_at_marks_that_affect_their_neighbours(name: str) -> None:
    assert {} == cutting_marks(PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name]), MARKS)


@pytest.mark.parametrize("name", ["bytes", "strips right", "first", "unigram", "NFC", "ordinary"])
def test_text_is_split_at_every_other_mark(name: str) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name])
    assert {mark: tokenizer.convert_tokens_to_ids(mark) for mark in MARKS} == cutting_marks(tokenizer, MARKS)
    overlapping = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["overlapping"])
    assert ["<|a|>"] == list(cutting_marks(overlapping, MARKS))


class CountingTokenizer(PreTrainedTokenizerFast):
    """Counts encoded characters."""

    encoded = 0

    def encode(self, text: str, **options: Any) -> list[int]:
        self.encoded += len(text)
        return list(super().encode(text, **options))


@pytest.fixture
def counting() -> CountingTokenizer:
    return CountingTokenizer(tokenizer_object=TOKENIZERS["bytes"])


def transcript(turns: int) -> str:
    return "".join(f"<|a|>question {turn}<|b|>answer {turn}\n" for turn in range(turns))


def test_only_new_text_is_tokenized(counting: CountingTokenizer) -> None:
    encoder = Encoder(counting, MARKS)
    encoder.encode(transcript(500))
    for other in ("<|a|>one more", "<|a|>two more", "", "<|a|>one more"):
        counting.encoded = 0
        assert encode_whole(counting, transcript(500) + other) == encoder.encode(transcript(500) + other)
        assert counting.encoded - len(transcript(500) + other) <= len("<|a|>one more")


def test_the_cache_holds_the_last_two_texts(counting: CountingTokenizer) -> None:
    encoder = Encoder(counting, MARKS)
    for turns in (500, 400, 3, 2):
        encoder.encode(transcript(turns))
    counting.encoded = 0
    encoder.encode(transcript(500))
    assert len(transcript(500)) - len(transcript(3)) == counting.encoded


def test_unknown_characters_are_one_token() -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["unigram"])
    variants = [f"<|a|>dog*{unknown}<|b|>is<c>{end}" for unknown, end in (("日本", "a"), ("\t", "7"))]
    first, second = (encode_whole(tokenizer, text) for text in variants)
    assert len(encode_whole(tokenizer, "<|a|>dog*_<|b|>is<c>")) == common_prefix(first, second)
    assert common_prefix(first, second) == shared_by(tokenizer, variants)


def test_a_character_that_merges_with_the_text_before_it_limits_shared() -> None:
    """None of the texts continues with it, but a later one may."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["bytes"])
    beginning = "<|a|>dog <"
    encoded = [encode_whole(tokenizer, beginning + word) for word in ("Yes", "no")]
    variants = (encode_whole(tokenizer, beginning + chr(code)) for code in range(33, 127))
    min_shared = min(common_prefix(encoded[0], variant) for variant in variants)
    assert min_shared < common_prefix(*encoded)
    words = [f"{beginning}Yes", f"{beginning}no"]
    assert common_prefix(*encoded) == shared_by(tokenizer, words)
    assert min_shared == shared_by(tokenizer, words, any_text_follows=True)


# Seams


@pytest.mark.parametrize("text", ["<|a|>", "<<c>>", "<|a<|a|>|>", f"<|{SEAM}a|>", "<|b|>d", "<|a|><|b|>"])
@pytest.mark.parametrize(
    "name", ["bytes", "strips left", "words", "normalized", "overlapping", "prefix space"]
)
def test_a_control_token_in_text_is_text(name: str, text: str) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name])
    tokens = encode_whole(tokenizer, Seams(tokenizer, MARKS).safe(f" x {text} y"))
    assert set() == set(tokens) & set(tokenizer.convert_tokens_to_ids(MARKS))
    plain = tokenizer.decode(tokens).replace(" ", "")
    assert text.replace(SEAM, "") in plain


def test_overlapping_control_tokens_are_all_split() -> None:
    marks = ["<x>", ">y<", "<z>"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level([]))
    tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    tokens = encode_whole(tokenizer, Seams(tokenizer, marks).safe("<x>y<z>"))
    assert set() == set(tokens) & set(tokenizer.convert_tokens_to_ids(marks))


def test_a_control_token_that_a_normalizer_would_form_is_text() -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["normalized"])
    forged = tokenizer.convert_tokens_to_ids("<|a|>")
    assert forged in encode_whole(tokenizer, "x<|A|>y")
    seamed = Seams(tokenizer, MARKS).safe("x<|A|>y")
    assert forged not in encode_whole(tokenizer, seamed)
    assert "x<|a|>y" == tokenizer.decode(encode_whole(tokenizer, seamed))
    assert "x <|A y" == Seams(tokenizer, MARKS).safe("x <|A y")
