"""Sums and differences of numbers up to 99, worked out digit by digit."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from zlib import crc32

from training.pocket.phrases import expand, fill, roughen

PLUS = (
    "what is [a] + [b]?",
    "what is [a] + [b]?",
    "what's [a] + [b]?",
    "[a] + [b]",
    "[a]+[b]",
    "[a]+[b]=(|?)",
    "[a] + [b] =(| ?)",
    "what is [a] plus [b]?",
    "[a] plus [b](|?)",
    "add [a] and [b].",
    "(please |can you |could you )add [a] and [b]",
    "how much is [a] (+|plus|and) [b]?",
    "(calculate|compute|work out|solve|do|try) [a] (+|plus) [b]",
    "add [b] to [a].",
    "what (is|'s) the sum of [a] and [b]?",
    "(the |)sum of [a] and [b](|?)",
    "what does [a] (+|plus) [b] (equal|make|give)?",
    "(can you|could you) (tell me|work out|calculate) [a] (+|plus) [b]?",
    "what do [a] and [b] (make|add up to)?",
    "what do you get if you add [a] and [b]?",
    "I (want|need) to add [a] and [b]",
    "[a] and [b] together?",
    "(quick question:|tell me|and|ok,|now) (what is |)[a] (+|plus) [b](?|)",
    "[a] (+|plus) [b] is\N{HORIZONTAL ELLIPSIS}",
    "(do you know|tell me) what [a] (+|plus) [b] is",
    "if I have [a] and get [b] more, how many do I have?",
)
MINUS = (
    "what is [a] - [b]?",
    "what is [a] - [b]?",
    "what's [a] - [b]?",
    "[a] - [b]",
    "[a]-[b]",
    "[a]-[b]=(|?)",
    "[a] - [b] =(| ?)",
    "what is [a] minus [b]?",
    "what's [a] minus [b]?",
    "[a] minus [b](|?)",
    "(take|subtract|deduct) [b] from [a].",
    "take [b] away from [a].",
    "how much is [a] (-|minus) [b]?",
    "(please |can you |could you )(subtract|take) [b] from [a]",
    "(calculate|compute|work out|solve|do|try) [a] (-|minus) [b]",
    "[a] (take away|less) [b](|?)",
    "what does [a] (-|minus) [b] (equal|make|give)?",
    "what is [b] less than [a]?",
    "what (is|'s) left (if|when) (I|you|we) take [b] (from|away from) [a]?",
    "[a] \N{MINUS SIGN} [b]",
    "[a] \N{EN DASH} [b]",
    "(can you|could you) (tell me|work out|calculate) [a] (-|minus) [b]?",
    "what is the difference of [a] and [b]?",
    "(quick question:|tell me|and|ok,|now) (what is |)[a] (-|minus) [b](?|)",
    "what do you get if you (take|subtract) [b] from [a]?",
    "(do you know|tell me) what [a] (-|minus) [b] is",
    "if I have [a] and lose [b], how many are left?",
)
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


@dataclass(frozen=True)
class Sum:
    """``first`` plus or minus ``second``."""

    first: int
    second: int
    plus: bool

    @property
    def result(self) -> int:
        """The right answer."""
        return self.first + self.second if self.plus else self.first - self.second

    def thinking(self) -> str:
        """The working, digit by digit."""
        steps = self._adding() if self.plus else self._taking()
        return f"{steps} Result: {self.result}."

    def answer(self) -> str:
        """The reply."""
        return f"{self.first} {'+' if self.plus else '-'} {self.second} = {self.result}."

    def _adding(self) -> str:
        (a, b), (c, d) = divmod(self.first, 10), divmod(self.second, 10)
        carry = (b + d) // 10
        return (
            f"{self.first}+{self.second}. Ones: {b}+{d}={b + d}, write {(b + d) % 10}, carry {carry}. "
            f"Tens: {a}+{c}+{carry}={a + c + carry}."
        )

    def _taking(self) -> str:
        high, low = max(self.first, self.second), min(self.first, self.second)
        (a, b), (c, d) = divmod(high, 10), divmod(low, 10)
        sign = f"Negative, so {high}-{low}. " if self.first < self.second else ""
        borrow = int(b < d)
        ones = f"{b}-{d}, borrow 1, {b + 10}-{d}={b + 10 - d}" if borrow else f"{b}-{d}={b - d}, borrow 0"
        return f"{self.first}-{self.second}. {sign}Ones: {ones}. Tens: {a}-{c}-{borrow}={a - c - borrow}."


def held_out(sum_: Sum) -> bool:
    """Whether a sum is kept for evaluation: one in twenty."""
    return crc32(f"{sum_.first}{sum_.plus}{sum_.second}".encode()) % 20 == 0


def spelled(number: int) -> str:
    """A number up to 99 in words."""
    if number < 20:
        return ONES.split()[number]
    tens, ones = divmod(number, 10)
    return TENS.split()[tens - 2] + (f"-{ONES.split()[ones]}" if ones else "")


def draw(rng: Random, held: bool = False) -> Sum:
    """A sum, of two digits each for the most part."""
    while True:
        top = rng.choice([9, 20, 99, 99, 99, 99, 99])
        first, second = rng.randint(0, top), rng.randint(0, rng.choice([9, top, top, 99]))
        found = Sum(first, second, rng.random() < 0.5)
        if found.first < found.second and not found.plus and rng.random() < 0.5:
            found = Sum(second, first, False)
        if held_out(found) == held or (max(first, second) < 10 and not held):
            return found


def ask(rng: Random, sum_: Sum, lower: bool) -> str:
    """The question for a sum."""
    pattern = expand(rng, rng.choice(PLUS if sum_.plus else MINUS)).replace(" 's", "'s")
    write = spelled if rng.random() < 0.05 else str
    text = roughen(rng, pattern, lower)
    return fill(text, a=write(sum_.first), b=write(sum_.second))
