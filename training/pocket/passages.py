"""Passages: what is told in a breath and hangs together, with all that may be asked of it.

A passage is patterns. Slots such as [a] are filled last, so that no value is misspelled; where the user types
in small letters they hold small letters. A frame that begins with ~ is for right after the telling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from training.pocket.phrases import capital, expand, fill, framed, listed, roughen, words_in
from training.pocket.values import Source

# Words that any two facts may share.
COMMON = frozenset(
    """
    a an the my your our his her its their i you we he she it they me him them us who what which where when
    why how many much whose is are was were be been am do does did done has have had having can cannot could
    will would should must may not no nor never yes and or but because if whether that this these those there
    here to of in on at by for with without into out up down off near over under behind next top so too
    also as than then now still just very more most one two three four five six seven eight nine ten first
    last told got get call called named name thing things new don't doesn't s t re ve ll d
    """.split()
)


@dataclass(frozen=True)
class Question:
    """Frames parted by semicolons, what they ask for, what was told of it, and the reply without its stop."""

    frames: str
    topic: str
    told: str
    reply: str


@dataclass
class Passage:
    """Pieces are what is typed and what is repeated of it, one sentence or several each."""

    family: str
    pieces: list[tuple[str, str]]
    questions: list[Question]
    slots: dict[str, str]
    missing: list[Question] = field(default_factory=list)
    claim: str = ""
    extra: str = ""
    asked: Question | None = None
    changed: bool = False
    near: bool = False
    state: object = None

    @property
    def key(self) -> tuple[str, str]:
        """A passage replaces none but the one that it goes on from."""
        return self.family, self.claims().lower()

    def claims(self) -> str:
        """All of it, as the assistant says it."""
        text = self.claim or listed(list(dict.fromkeys(claim for _, claim in self.pieces)))
        return fill(text, **self.slots)

    def says(self, again: bool = False) -> str:
        """As a fact says what it is."""
        return self.claims()

    def words(self) -> frozenset[str]:
        """What no other fact may share, so that no question can mean both."""
        return content(f"{self.claims()} {' '.join(self.slots.values())} {self.extra}")

    def small(self) -> None:
        """Put the values in small letters."""
        self.slots = {slot: value.lower() for slot, value in self.slots.items()}

    def typed(self, rng: Random, number: int, lower: bool, start: bool = True) -> str:
        """A piece as the user types it; `start`: at the start of a sentence."""
        text = expand(rng, self.pieces[number][0])
        text = text.lower() if lower else sentences(text, start)
        if rng.random() < (0.4 if lower else 0.06):
            text = text.replace("'", "")
        text = fill(text, **self.slots)
        return capital(text) if start and not lower else text

    def draw(self, rng: Random) -> None:
        """Fix what is asked for."""
        self.asked = rng.choice(self.questions)

    def ask(self, rng: Random, lower: bool, held: bool = False) -> str:
        """A question; it fixes what is asked for."""
        self.draw(rng)
        return self.worded(rng, lower, held)

    def worded(self, rng: Random, lower: bool, held: bool) -> str:
        """The question that was fixed, as it is typed."""
        assert self.asked is not None
        frames = split(self.asked.frames)
        plain = tuple(frame for frame in frames if frame[0] != "~")
        pattern = framed(rng, frames if self.near or not plain else plain, held).removeprefix("~")
        slots = {slot: value.lower() for slot, value in self.slots.items()} if lower else self.slots
        text = fill(
            roughen(rng, pattern if pattern.endswith((".", "?")) else f"{pattern}?", lower, fillers=0.03),
            **slots,
        )
        return text if lower else capital(text)

    def topic(self) -> str:
        """What is asked for."""
        assert self.asked is not None
        return fill(self.asked.topic, **self.slots)

    lack = topic

    def answer(self) -> str:
        """What the thinking finds."""
        assert self.asked is not None
        return fill(self.asked.told, **self.slots)

    def replies(self) -> str:
        """The reply, without capital or stop."""
        assert self.asked is not None
        return fill(self.asked.reply, **self.slots)


@lru_cache(20_000)
def split(frames: str) -> tuple[str, ...]:
    """The frames of a question."""
    return tuple(frame.strip() for frame in frames.split(";") if frame.strip())


def content(text: str) -> frozenset[str]:
    """The words of a text that tell facts apart, plurals as their singulars."""
    return frozenset(
        word.removesuffix("s") for word in re.findall(r"[^\W_]+", text.lower()) if word not in COMMON
    )


def sentences(text: str, start: bool) -> str:
    """The text with a capital after each stop, and at its start; before a slot there is none to set."""
    text = re.sub(r"([.!?\n] +|\n)([a-z])", lambda match: match[1] + match[2].upper(), text)
    return capital(text) if start else text


def slotted(slots: list[str]) -> str:
    """ "[a], [b] and [c]"."""
    return listed([f"[{slot}]" for slot in slots])


def distinct(source: Source, kind: str, count: int) -> list[str]:
    """Values of a kind that share no word."""
    values: list[str] = []
    seen: set[str] = set()
    while len(values) < count:
        value = source.draw(kind)
        words = words_in(value)
        if words and not words & seen and not re.search(r"[\[\];|()]", value):
            values.append(value)
            seen |= words
    return values
