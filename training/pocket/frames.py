"""Sentence frames: patterns with alternatives, compiled once, a share of them kept for evaluation.

A frame is text with `(this|that)` alternatives, which may nest, and `[slots]` that are filled after the
slips of typing, so that a value is never misspelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeAlias, TypeVar
from zlib import crc32

from training.pocket.slips import mistyped
from training.pocket.values import Source

T = TypeVar("T")
# A literal, a sequence of parts, or the alternatives of which one is taken.
Part: TypeAlias = "str | list[Part] | tuple[Part, ...]"
HELD_OUT = 8

OPENERS = (
    "hey, ;hi, ;hello, ;so, ;ok, ;okay, ;well, ;now, ;please, ;sorry, ;pocket, ;and ;um, ;one question: ;"
    "quick question: ;question: ;excuse me, ;hi there, ;hey pocket, ;hello pocket, ;just wondering, ;"
    "by the way, ;btw ;I wonder, ;tell me, ;thanks. ;great. ;cool. ;nice. ;ok thanks, ;alright, ;"
    "another question: ;one more thing: ;can you help? ;dumb question: ;I'm new here. ;hm, ;oh, ;wait, ;"
    "last question: ;also, ;good morning. ;good evening. ;help: ;sorry to bother you, ;maybe you know: "
).split(";")
TAILS = (
    " please; please?;, please?;, pocket?; thanks; thank you;, thanks; then?; exactly?; again?; now?; here?;"
    " for me?; really?; today?;, any idea?;, do you know?;, my friend?; by the way?; pls; plz; :);?? ;!?"
).split(";")
SHORTER = (
    ("what is ", "what's "),
    ("how is ", "how's "),
    ("where is ", "where's "),
    ("who is ", "who's "),
    ("I am ", "I'm "),
    ("you are ", "you're "),
    ("it is ", "it's "),
    ("that is ", "that's "),
    ("do not ", "don't "),
    ("does not ", "doesn't "),
    ("did not ", "didn't "),
    ("cannot ", "can't "),
    ("I would ", "I'd "),
    ("I have ", "I've "),
    ("want to ", "wanna "),
    ("you ", "u "),
    ("please", "pls"),
    ("are ", "r "),
    ("thanks", "thx"),
    ("favourite", "favorite"),
    ("colour", "color"),
)


def one(rng: Random, pool: Sequence[T]) -> T:
    """Any of them. Three times as fast as `Random.choice`."""
    return pool[int(rng.random() * len(pool))]


def parse(text: str) -> Part:
    """The parts of a pattern."""
    stack: list[list[list[Part]]] = [[[]]]
    literal = ""
    for letter in text:
        if letter not in "(|)" or (letter == "|" and len(stack) == 1):
            literal += letter
            continue
        stack[-1][-1].append(literal)
        literal = ""
        if letter == "(":
            stack.append([[]])
        elif letter == "|":
            stack[-1].append([])
        else:
            alternatives = tuple(branch[0] if len(branch) == 1 else branch for branch in stack.pop())
            stack[-1][-1].append(alternatives)
    if len(stack) > 1:
        raise ValueError(f"A bracket is not closed: {text}")
    stack[0][0].append(literal)
    return [part for part in stack[0][0] if part != ""]


def read(rng: Random, part: Part) -> str:
    """One reading of the parts of a pattern."""
    if isinstance(part, str):
        return part
    if isinstance(part, tuple):
        return read(rng, part[int(rng.random() * len(part))])
    return "".join([read(rng, each) for each in part])


def alternatives(pattern: str) -> list[str]:
    """The pattern once for each of its first alternatives, which hold no others."""
    start, end = pattern.find("("), pattern.find(")")
    if start < 0 or "(" in pattern[start + 1 : end]:
        raise ValueError(f"At least two frames are needed: {pattern}")
    return [pattern[:start] + each + pattern[end + 1 :] for each in pattern[start + 1 : end].split("|")]


def is_held_out(pattern: str) -> bool:
    """Whether a frame is kept for evaluation: one in eight."""
    return crc32(pattern.encode()) % HELD_OUT == 0


class Frames:
    """Frames that mean the same. At least one is trained on and at least one is held out.

    `shared`: all of them are on both sides, as are introductions that stand before other frames.
    """

    def __init__(self, text: str, shared: bool = False) -> None:
        patterns = list(dict.fromkeys(each.strip() for each in text.replace("\n", ";").split(";")))
        patterns = [each for each in patterns if each]
        if len(patterns) == 1 and not shared:
            patterns = alternatives(patterns[0])
        if shared:
            self.trained, self.held = patterns, patterns
            self._sides = [[parse(each) for each in patterns]] * 2
            return
        self.held = [each for each in patterns if is_held_out(each)]
        if len(self.held) in (0, len(patterns)):
            self.held = [min(patterns, key=lambda each: crc32(each.encode()))]
        self.trained = [each for each in patterns if each not in self.held]
        self._sides = [[parse(each) for each in side] for side in (self.trained, self.held)]

    def draw(self, source: Source) -> str:
        """A reading of a frame of the source's side."""
        rng = source.rng
        return " ".join(read(rng, one(rng, self._sides[source.held])).split())


def typed(rng: Random, text: str, dressed: bool = True) -> str:
    """A frame's reading as somebody types it: case, contractions, marks, slips; `dressed`: and courtesies."""
    chance = rng.random()
    if dressed and chance < 0.12:
        text = one(rng, OPENERS) + text
    elif dressed and chance < 0.18:
        text = text.rstrip(".?!") + one(rng, TAILS)
    if rng.random() < 0.4:
        for long, short in SHORTER:
            if long in text and rng.random() < 0.5:
                text = text.replace(long, short, 1)
    case = rng.random()
    if case < 0.35:
        text = text.lower()
    elif case < 0.97:
        text = text[:1].upper() + text[1:]
    else:
        text = "".join([part if part[:1] == "[" else part.upper() for part in _split(text)])
    if "'" in text and rng.random() < (0.4 if case < 0.35 else 0.08):
        text = text.replace("'", one(rng, ("", "", "\N{RIGHT SINGLE QUOTATION MARK}")))
    if rng.random() < 0.06:
        text = misspelled(rng, text)
    ending = rng.random()
    if ending < (0.55 if case < 0.35 else 0.2):
        text = text.rstrip(".?!")
    elif ending > 0.96:
        text = text.rstrip(".?!") + one(rng, ("??", "!", "...", " ?", "!!", ".", "?!"))
    return text


def misspelled(rng: Random, text: str) -> str:
    """The text with one slip of the finger in a word that holds no slot."""
    words = text.split(" ")
    at = int(rng.random() * len(words))
    word = words[at]
    if len(word) < 4 or not word.isalpha():
        return text
    words[at] = mistyped(rng, word)
    return " ".join(words)


def fill(text: str, slots: dict[str, str]) -> str:
    """The text with each `[slot]` replaced."""
    for slot, value in slots.items():
        text = text.replace(f"[{slot}]", value)
    return text


def capital(text: str) -> str:
    """The text with its first letter a capital."""
    return text[:1].upper() + text[1:]


def _split(text: str) -> list[str]:
    parts = text.replace("[", "\0[").replace("]", "]\0").split("\0")
    return [part for part in parts if part]
