"""Word problems written by hand whose numbers are drawn: what is to be reckoned, in many people's words.

`problems.txt` is read like the files in `written`, but `~ a 2-9, b 4-30` gives the ranges of letters
that are numbers, `=` is a reckoning with them (`r` is the result before) or `tell`, and `<` is what
follows "so", with `[r]` for the result.

    python -m training.pocket.problems     says what is malformed, and shows a few as they come out
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random

from training.pocket.arithmetic import TooHardError, worked
from training.pocket.phrases import fill
from training.pocket.sums import spelled
from training.pocket.values import Source
from training.pocket.written import Exchange, MalformedError, Written, faults_of, parsed, rendered

FILE = Path(__file__).parent / "problems.txt"
LETTER = re.compile(r"\[([a-ez])\]")
RANGE = re.compile(r"~\s*(.+)")
USUAL = (2, 60)
TRIES = 400


@dataclass(frozen=True)
class Problem:
    """A dialogue of reckonings, and from where to where its letters are drawn."""

    dialogue: Written
    ranges: dict[str, tuple[int, int]]

    @property
    def letters(self) -> list[str]:
        """The letters that it draws."""
        return sorted(set(LETTER.findall(" ".join(self.dialogue.texts))))

    def drawn(self, rng: Random) -> Written | None:
        """The dialogue with numbers in it; None where its reckonings come out whole too seldom."""
        for _ in range(TRIES):
            numbers = {letter: rng.randint(*self.ranges.get(letter, USUAL)) for letter in self.letters}
            if len(set(numbers.values())) < len(numbers):
                continue
            try:
                return replace(self.dialogue, exchanges=tuple(self._reckoned(rng, numbers)))
            except TooHardError:
                continue
        return None

    def _reckoned(self, rng: Random, numbers: dict[str, int]) -> list[Exchange]:
        found = []
        known = dict(numbers)
        # Small numbers are written in words now and then.
        slots = {
            letter: spelled(each) if each <= 20 and rng.random() < 0.08 else str(each)
            for letter, each in numbers.items()
        }
        for each in self.dialogue.exchanges:
            wording = rng.choice(each.wordings)
            wordings = (fill(wording, **slots),)
            if each.thinking == "tell":
                thinking, reply = "New: what there is.", f"Got it: {fill(each.reply, **slots)}."
            else:
                shown, working, known["r"] = worked(as_worded(each.thinking, wording), known)
                thinking = f"A story: {shown}. {working}"
                so = fill(each.reply, **slots, r=str(known["r"]))
                reply = f"{shown} = {known['r']}" + ("." if so == f"it is {known['r']}" else f", so {so}.")
            found.append(replace(each, wordings=wordings, thinking=thinking, reply=reply))
        return found


def as_worded(reckoning: str, wording: str) -> str:
    """A sum or a product whose parts stand in the order in which a wording names them."""
    sign = next((sign for sign in "+*" if re.fullmatch(rf"[a-er]( \{sign} [a-er])+", reckoning)), None)
    letters = reckoning.split(f" {sign} ")
    if sign is None or any(f"[{letter}]" not in wording for letter in letters):
        return reckoning
    return f" {sign} ".join(sorted(letters, key=lambda letter: wording.index(f"[{letter}]")))


def read(text: str) -> list[Problem]:
    """The problems of a file."""
    found = []
    for place, part in enumerate(re.split(r"(?m)^---\s*$", text)):
        ranges: dict[str, tuple[int, int]] = {}
        for line in RANGE.findall(part):
            for each in line.split(","):
                match = re.fullmatch(r"\s*([a-ez]) +(\d+)-(\d+)\s*", each)
                if match is None:
                    raise MalformedError(f"problem {place}: not a range: {each}")
                ranges[match[1]] = int(match[2]), int(match[3])
        (dialogue, *_) = parsed("---\n" + RANGE.sub("", part))
        if dialogue.exchanges:
            found.append(Problem(dialogue, ranges))
    return found


@lru_cache(1)
def problems() -> tuple[Problem, ...]:
    """All problems of the file that comes with this."""
    return tuple(read(FILE.read_text(encoding="utf-8")))


def problem(rng: Random) -> Written:
    """One of them with its numbers drawn."""
    while True:
        if (found := rng.choice(problems()).drawn(rng)) is not None:
            return found


def faults(each: Problem) -> list[str]:
    """What is wrong with a problem, as far as a program can say."""
    found = []
    told: set[str] = {"r"}
    for exchange in each.dialogue.exchanges:
        needed = set() if exchange.thinking == "tell" else set(re.findall(r"[a-z]", exchange.thinking))
        if exchange.thinking != "tell" and not re.fullmatch(r"[a-er\d+*/() -]+", exchange.thinking):
            found.append(f"no reckoning: {exchange.thinking}")
            return found
        said = [set(LETTER.findall(wording)) for wording in exchange.wordings]
        found += [
            f"{', '.join(sorted(needed - told - letters))} missing: {wording}"
            for wording, letters in zip(exchange.wordings, said, strict=True)
            if needed - told - letters
        ]
        found += [f"ends in a mark: {exchange.reply}"] * exchange.reply.endswith((".", "!"))
        told |= set.intersection(*said)
    drawn = None if found else each.drawn(Random(1))
    if drawn is None:
        return found or ["hardly ever comes out whole"]
    names = {name: set(keys) for keys, _ in drawn.declared for name in keys}
    known: set[str] = set()
    for exchange in drawn.exchanges:
        found += faults_of(exchange, known, names)
    # Brackets need no choice in them here: "(46 each)".
    return [fault for fault in found if "choices do not close" not in fault or "|" in fault]


def main() -> None:
    """Check the file, and show some of it."""
    parser = argparse.ArgumentParser(description="Check the word problems, and show a few.")
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    source = Source(Random(options.seed))
    for each in problems():
        for fault in faults(each):
            print(f"{each.dialogue.exchanges[0].wordings[0][:60]}: {fault}")
    for _ in range(options.show):
        for _, turn in rendered(source, problem(source.rng), 0.0):
            print(f"> {turn.user}\n= {turn.thinking}\n< {turn.reply}")
        print()
    print(f"{len(problems())} problems")


if __name__ == "__main__":
    main()
