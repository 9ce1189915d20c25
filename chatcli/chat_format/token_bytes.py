"""The bytes that a token stands for, of which a character may take several tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# Every byte that begins or goes on a character, a space before a word, and no space at the start.
PROBE = "aé☃👍 b,\n c"
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
WORD_START = "▁"


def _byte_alphabet() -> dict[str, int]:
    """The characters in which GPT-2's and later byte-level tokenizers spell bytes, and which byte each is."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + at): byte for at, byte in enumerate(hidden)}


ALPHABET = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    # Control tokens are spelled as they are.
    return b"".join(bytes([ALPHABET[c]]) if c in ALPHABET else c.encode() for c in token)


def _sentencepiece(token: str) -> bytes:
    match = BYTE.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else token.replace(WORD_START, " ").encode()


def speller(tokenizer: Any) -> Callable[[int, str], bytes]:
    """A function from a token's id, and the text that it has added to a reply, to its bytes.

    Joined they are the reply's text. How a vocabulary spells bytes is found by trying. Of one that spells
    them in no known way, the text that a token has added is what it stands for.
    """
    ids = list(tokenizer.encode(PROBE, add_special_tokens=False))
    for spell in (_byte_level, _sentencepiece):
        spelled = b"".join(spell(token or "") for token in tokenizer.convert_ids_to_tokens(ids))
        if spelled.removeprefix(b" ") == PROBE.encode():
            break
    else:
        return lambda token, added: added.encode()

    def bytes_of(token: int, added: str) -> bytes:
        name = tokenizer.convert_ids_to_tokens(token)
        return spell(name) if name is not None else added.encode()

    return bytes_of


def without_first_space(tokenizer: Any, token: int, data: bytes) -> bytes:
    """A reply's first token as its text has it: many tokenizers leave out the space before the first word."""
    if not data.startswith(b" "):
        return data
    detokenizer = tokenizer.detokenizer
    detokenizer.add_token(token)
    detokenizer.finalize()
    return data if str(detokenizer.text).startswith(" ") else data[1:]


def as_text(data: bytes) -> str:
    """Bytes as text, from which `as_bytes` gets them back: those that are no text are surrogates."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    r"""What `as_text` gave, for people: bytes that are no text are spelled as `\xe2`, as OpenAI has it."""
    return as_bytes(text).decode("utf-8", "backslashreplace")
