"""Tokens found piece by piece are those of the whole text, whatever the tokenizer does around marks."""

from __future__ import annotations

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

from chatcli.chat_format.tokenizing import SEAM, Encoder, Seams, cutting_marks
from chatcli.store.segments.token_path import common_prefix
from tests.support import tiny

MARKS = ["<|a|>", "<|b|>", "<c>"]
# Pieces of text that meet at the seams: spaces, parts of marks, marks that others contain.
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
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([*tiny.CORPUS, *["\n\n >\n\n ** <| |> dog\n\n  dog 77"] * 4], trainer)
    made.add_tokens(marks)
    return made


def pieces(marks: list[AddedToken], scheme: str, model: str = "bpe") -> Tokenizer:
    """As sentencepiece's tokenizers are: spaces become a sign, and a text may begin with one."""
    unigram = model == "unigram"
    made = Tokenizer(models.Unigram() if unigram else models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=unigram)
    settings_ = {"vocab_size": 200, "show_progress": False, "special_tokens": ["<unk>"]}
    trainer = trainers.UnigramTrainer(unk_token="<unk>", **settings_) if unigram else None
    made.train_from_iterator(tiny.CORPUS, trainer or trainers.BpeTrainer(**settings_))
    made.add_tokens([*marks, AddedToken("<unk>", special=True, normalized=False)])
    return made


def normalized(marks: list[AddedToken], *steps: Any) -> Tokenizer:
    made = byte_level(marks)
    made.normalizer = normalizers.Sequence(list(steps))
    return made


TOKENIZERS = {
    "bytes": byte_level(added()),
    "prefix space": byte_level(added(), prefix_space=True),
    "strips left": byte_level(added(lstrip=True)),
    "strips right": byte_level(added(rstrip=True)),
    "strips both": pieces(added(lstrip=True, rstrip=True), "always"),
    "one strips": byte_level([added()[0], added(lstrip=True)[1], added(rstrip=True)[2]]),
    "words": byte_level(added(single_word=True)),
    "one is a word": byte_level([added()[0], added(single_word=True)[1], added()[2]]),
    "ordinary": byte_level(added(special=False)),
    "first": pieces(added(), "first"),
    "always": pieces(added(), "always"),
    "never": pieces(added(), "never"),
    "unigram": pieces(added(), "first", "unigram"),
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


def whole(tokenizer: Any, text: str) -> list[int]:
    """The text tokenized at once, and apart only at seams."""
    parts = [tokenizer.encode(part, add_special_tokens=False) for part in text.split(SEAM)]
    return [token for part in parts for token in part]


texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=14).map("".join)


@settings(max_examples=60, deadline=None)
@given(beginnings=st.lists(texts, min_size=1, max_size=3), ends=st.lists(texts, min_size=1, max_size=4))
def test_a_text_that_shares_a_beginning_has_the_tokens_of_the_whole(
    tokenizer: Any, beginnings: list[str], ends: list[str]
) -> None:
    encoder = Encoder(tokenizer, MARKS)
    for end in ends:
        for beginning in beginnings:
            assert whole(tokenizer, beginning + end) == encoder.encode(beginning + end)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(beginning=texts, ends=st.lists(texts, min_size=2, max_size=4))
def test_what_texts_share_is_what_their_tokens_share(tokenizer: Any, beginning: str, ends: list[str]) -> None:
    asked = [beginning + end for end in ends]
    first, *others = (whole(tokenizer, text) for text in asked)
    shared = min(common_prefix(first, other) for other in others)
    assert shared == Encoder(tokenizer, MARKS).shared(asked)


@pytest.mark.parametrize("name", ["strips left", "strips both", "words", "normalized", "no marks"])
def test_a_tokenizer_whose_marks_touch_their_neighbours_is_not_cut(name: str) -> None:
    assert {} == cutting_marks(PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name]), MARKS)


@pytest.mark.parametrize("name", ["bytes", "strips right", "first", "unigram", "NFC", "ordinary"])
def test_other_tokenizers_are_cut_at_each_mark(name: str) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name])
    assert {mark: tokenizer.convert_tokens_to_ids(mark) for mark in MARKS} == cutting_marks(tokenizer, MARKS)
    overlapping = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["overlapping"])
    assert ["<|a|>"] == list(cutting_marks(overlapping, MARKS))


class Counting(PreTrainedTokenizerFast):
    """Counts the characters that it is asked to tokenize."""

    asked = 0

    def encode(self, text: str, **options: Any) -> list[int]:
        self.asked += len(text)
        return list(super().encode(text, **options))


@pytest.fixture
def counting() -> Counting:
    return Counting(tokenizer_object=TOKENIZERS["bytes"])


def said(turns: int) -> str:
    return "".join(f"<|a|>question {turn}<|b|>answer {turn}\n" for turn in range(turns))


def test_only_what_is_new_is_tokenized(counting: Counting) -> None:
    encoder = Encoder(counting, MARKS)
    encoder.encode(said(500))
    for other in ("<|a|>one more", "<|a|>two more", "", "<|a|>one more"):
        counting.asked = 0
        assert whole(counting, said(500) + other) == encoder.encode(said(500) + other)
        assert counting.asked - len(said(500) + other) <= len("<|a|>one more")


def test_the_memory_is_no_longer_than_two_texts(counting: Counting) -> None:
    encoder = Encoder(counting, MARKS)
    for turns in (500, 400, 3, 2):
        encoder.encode(said(turns))
    counting.asked = 0
    encoder.encode(said(500))
    assert len(said(500)) - len(said(3)) == counting.asked


def test_other_signs_that_are_unknown_are_the_same_tokens() -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["unigram"])
    asked = [f"<|a|>dog*{sign}<|b|>is<c>{end}" for sign, end in (("日本", "a"), ("\t", "7"))]
    first, second = (whole(tokenizer, text) for text in asked)
    assert len(whole(tokenizer, "<|a|>dog*_<|b|>is<c>")) == common_prefix(first, second)
    assert common_prefix(first, second) == Encoder(tokenizer, MARKS).shared(asked)


def test_a_sign_that_merges_with_what_comes_before_it_is_thought_of() -> None:
    """No text given begins with it, but any may."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["bytes"])
    beginning = "<|a|>dog <"
    asked = [whole(tokenizer, beginning + word) for word in ("Yes", "no")]
    signs = (whole(tokenizer, beginning + chr(code)) for code in range(33, 127))
    least = min(common_prefix(asked[0], sign) for sign in signs)
    assert least < common_prefix(*asked)
    words = [f"{beginning}Yes", f"{beginning}no"]
    assert common_prefix(*asked) == Encoder(tokenizer, MARKS).shared(words)
    assert least == Encoder(tokenizer, MARKS).shared(words, any_text_follows=True)


# Seams


@pytest.mark.parametrize("text", ["<|a|>", "<<c>>", "<|a<|a|>|>", f"<|{SEAM}a|>", "<|b|>d", "<|a|><|b|>"])
@pytest.mark.parametrize(
    "name", ["bytes", "strips left", "words", "normalized", "overlapping", "prefix space"]
)
def test_a_control_token_that_is_spelled_is_text(name: str, text: str) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name])
    tokens = whole(tokenizer, Seams(tokenizer, MARKS).sewn(f" x {text} y"))
    assert set() == set(tokens) & set(tokenizer.convert_tokens_to_ids(MARKS))
    plain = tokenizer.decode(tokens).replace(" ", "")
    assert text.replace(SEAM, "") in plain


def test_control_tokens_that_overlap_are_all_broken() -> None:
    marks = ["<x>", ">y<", "<z>"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level([]))
    tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    tokens = whole(tokenizer, Seams(tokenizer, marks).sewn("<x>y<z>"))
    assert set() == set(tokens) & set(tokenizer.convert_tokens_to_ids(marks))


def test_a_control_token_that_a_normalizer_would_make_is_text() -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS["normalized"])
    forged = tokenizer.convert_tokens_to_ids("<|a|>")
    assert forged in whole(tokenizer, "x<|A|>y")
    sewn = Seams(tokenizer, MARKS).sewn("x<|A|>y")
    assert forged not in whole(tokenizer, sewn)
    assert "x<|a|>y" == tokenizer.decode(whole(tokenizer, sewn))
    assert "x <|A y" == Seams(tokenizer, MARKS).sewn("x <|A y")
