"""The bytes of tokens: joined they are the text, even if a character takes several tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from chatcli.chat_format import token_bytes
from tests.chat_format import test_sentencepiece as sentencepiece
from tests.support.tiny import OPEN_THINK, write_tokenizer

TEXTS = ["Caf\u00e9 ☃ 👍🏽 日本語", " a  b\n\n\tc", "\u0301e", "<think> and 0x41 <0x4", "▁ ſ Ġ"]


def written(family: str, folder: Path) -> Any:
    if family == "byte level":
        write_tokenizer(folder, OPEN_THINK)
    else:
        sentencepiece.write(folder, family)
    return load_tokenizer(folder)


@pytest.mark.parametrize("family", ["byte level", *sentencepiece.FAMILIES])
@pytest.mark.parametrize("text", TEXTS)
def test_the_bytes_of_a_replys_tokens_are_its_text(family: str, text: str, tmp_path: Path) -> None:
    tokenizer = written(family, tmp_path)
    spell, detokenizer = token_bytes.speller(tokenizer), tokenizer.detokenizer
    if family != "byte level":
        text = text.replace("▁", "")  # which is a space there
    ids = tokenizer.encode(text, add_special_tokens=False)
    for token in ids:
        detokenizer.add_token(token)
    detokenizer.finalize()
    spelled = [spell(token, "") for token in ids]
    spelled[0] = token_bytes.without_first_space(tokenizer, ids[0], spelled[0])
    assert detokenizer.text.encode() == b"".join(spelled)
    assert text.lstrip(" ") == b"".join(spelled).decode().lstrip(" ")
    # Parts of a character survive as text.
    assert spelled == [token_bytes.as_bytes(token_bytes.as_text(each)) for each in spelled]


def test_a_token_of_an_unknown_spelling_is_the_text_that_it_added() -> None:
    class Numbers:
        """A vocabulary of code points spelled as numbers."""

        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            return list(map(ord, text))

        def convert_ids_to_tokens(self, ids: Any) -> Any:
            return list(map(str, ids)) if isinstance(ids, list) else str(ids)

    assert "é".encode() == token_bytes.speller(Numbers())(0xE9, "é")


def test_invalid_utf8_is_readable() -> None:
    assert "a\\xf0\\x9f" == token_bytes.readable(token_bytes.as_text(b"a\xf0\x9f"))
