"""Expands phrase patterns and adds the slips of everyday typing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from zlib import crc32

from training.pocket.slips import mistyped

ALTERNATIVES = re.compile(r"\(([^()]*\|[^()]*)\)")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
OWNERS = {"my": "your", "our": "your", "mine": "yours"}
OTHERS = {
    "your": "their",
    "yours": "theirs",
    "you": "they",
    "are": "are",
    "yourself": "themselves",
}


def words_in(text: str) -> set[str]:
    """The words of a text in small letters, and its numbers."""
    return set(re.findall(r"\w+", text.lower()))


def expand(rng: Random, pattern: str) -> str:
    """One reading of a pattern such as ``(hi|hello) [v]``; alternatives may nest."""
    while match := ALTERNATIVES.search(pattern):
        choice = rng.choice(match[1].split("|"))
        pattern = pattern[: match.start()] + choice + pattern[match.end() :]
    return re.sub(r"  +", " ", pattern).strip()


def framed(rng: Random, patterns: Sequence[str], held: bool) -> str:
    """A reading of one of the patterns: of the frames kept for evaluation, or of those trained on."""
    for _ in range(12):
        text = expand(rng, rng.choice(patterns))
        if frame_held_out(text) == held:
            return text
    return text


@lru_cache(200_000)
def frame_held_out(text: str) -> bool:
    """Whether a frame is never trained on: one in ten, by its words in small letters."""
    return crc32(re.sub(r"[^a-z\[\]]", "", text.lower()).encode()) % 10 == 3


def fill(text: str, /, **slots: str) -> str:
    """The text with ``[name]`` replaced, "a" before a vowel becoming "an"."""
    for name, value in slots.items():
        text = text.replace(f"[{name}]", value)
    return ARTICLE.sub(r"\1n ", text)


def capital(text: str) -> str:
    """The text with its first letter a capital."""
    return text[:1].upper() + text[1:]


def yours(text: str) -> str:
    """A noun phrase of the user's, as the assistant says it: "my dog" is "your dog"."""
    return re.sub(r"\b(my|our)\b", lambda m: OWNERS[m[1]], text)


def theirs(text: str) -> str:
    """An assistant's phrase, as its thinking says it: "you live" is "they live"."""
    return re.sub(r"\b(yours|your|yourself|you)\b", lambda m: OTHERS[m[1]], text)


def misspell(rng: Random, text: str) -> str:
    """The text with one slip of the finger in a word that is not a slot."""
    words = text.split(" ")
    spots = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    if not spots:
        return text
    at = rng.choice(spots)
    words[at] = mistyped(rng, words[at])
    return " ".join(words)


FILLERS = [
    "really",
    "just",
    "actually",
    "now",
    "well",
    "um",
    "so",
    "please",
    "still",
    "also",
    "again",
]


def fidget(rng: Random, text: str) -> str:
    """The text with a filler word more, or a small word fewer."""
    words = text.split(" ")
    at = rng.randrange(len(words))
    if rng.random() < 0.6:
        words.insert(at, rng.choice(FILLERS))
    elif len(words) > 3 and len(words[at]) < 4 and words[at].isalpha() and words[at] not in KEEP:
        del words[at]
    return " ".join(words)


KEEP = {
    "not",
    "my",
    "no",
    "who",
    "why",
    "how",
    "get",
    "add",
    "sum",
    "one",
    "old",
    "age",
    "see",
    "eat",
    "pin",
}


def roughen(rng: Random, text: str, lower: bool, fillers: float = 0.1) -> str:
    """A pattern's reading as it would be typed: case, apostrophes, end marks, slips."""
    if rng.random() < fillers:
        text = fidget(rng, text)
    text = text.lower() if lower else capital(text)
    if rng.random() < (0.4 if lower else 0.08):
        text = text.replace("'", "")
    if rng.random() < 0.05:
        text = misspell(rng, text)
    if rng.random() < (0.6 if lower else 0.15):
        text = text.rstrip(".?!")
    return text


def listed(parts: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
