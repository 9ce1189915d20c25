"""The bytes of a token. A character may take several tokens, so one token may not be valid UTF-8."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# UTF-8 of every length, spaces before words, and no space at the start.
PROBE = "aé☃👍 b,\n c"
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
WORD_START = "▁"


# The byte for each character in which byte-level tokenizers (GPT-2 and later) spell bytes.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
ALPHABET = {chr(byte): byte for byte in PRINTABLE} | {chr(256 + at): byte for at, byte in enumerate(OTHERS)}


def _byte_level(token: str) -> bytes:
    # Control tokens are spelled in plain text.
    return b"".join(bytes([ALPHABET[c]]) if c in ALPHABET else c.encode() for c in token)


def _sentencepiece(token: str) -> bytes:
    match = BYTE.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else token.replace(WORD_START, " ").encode()


def speller(tokenizer: Any) -> Callable[[int, str], bytes]:
    """A function from a token's id, and the text that it added to a reply, to the token's bytes.

    All tokens' bytes joined are the reply's text. The vocabulary's spelling of bytes is found by trial. If it
    is unknown, a token's bytes are the text that it added.
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
    """A reply's first token without the leading space that many tokenizers drop from the text."""
    if not data.startswith(b" "):
        return data
    detokenizer = tokenizer.detokenizer
    detokenizer.add_token(token)
    detokenizer.finalize()
    return data if str(detokenizer.text).startswith(" ") else data[1:]


def as_text(data: bytes) -> str:
    """Decode bytes so that `as_bytes` restores them: invalid UTF-8 becomes surrogates."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    r"""Text from `as_text` for people: invalid UTF-8 is spelled `\xe2`, as OpenAI does."""
    return as_bytes(text).decode("utf-8", "backslashreplace")
