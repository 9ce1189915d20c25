"""Whole-number arithmetic as it is done on paper: the working that pocket's thinking writes, and its result.

Columns from the right with what is carried or borrowed, tables up to twelve, long division by up to
twelve. Numbers up to 199 have two columns, the left one of which holds the tens.
"""

from __future__ import annotations

import ast
import re

TABLES = 12
TENS_ONLY = 199
MOST = 9999
MOST_FACTOR = 99


class TooHardError(ValueError):
    """A step is none that pocket does: below zero within, too large, or with a rest."""


def columns(number: int, count: int) -> list[int]:
    """The digits of a number from the right, filled up with zeros."""
    return [number // 10**place % 10 for place in range(count)]


def below_each_other(a: int, b: int) -> list[tuple[int, int]]:
    """The columns of two numbers from the right; two of them up to 199."""
    high = max(a, b)
    if high <= TENS_ONLY:
        return [(a % 10, b % 10), (a // 10, b // 10)]
    count = len(str(high))
    return list(zip(columns(a, count), columns(b, count), strict=True))


def adding(a: int, b: int) -> str:
    """The working of a + b, which ends in the result."""
    pairs = below_each_other(a, b)
    steps, carry = [], 0
    for place, (one, other) in enumerate(pairs):
        total = one + other + carry
        steps.append(f"{one}+{other}{f'+{carry}' if place else ''}={total}")
        if place < len(pairs) - 1:
            carry, digit = divmod(total, 10)
            steps.append(f"write {digit} carry 1" if carry else "carry 0")
    return f"{a}+{b}: {', '.join(steps)}, makes {a + b}."


def taking(a: int, b: int) -> str:
    """The working of a - b, which ends in the result."""
    if a < b:
        return f"{a}-{b} is below zero. {taking(b, a)} So -{b - a}."
    pairs = below_each_other(a, b)
    steps, borrowed = [], 0
    for place, (one, other) in enumerate(pairs):
        less = f"-{borrowed}" if place else ""
        if place == len(pairs) - 1:
            steps.append(f"{one}-{other}{less}={one - other - borrowed}")
            continue
        borrow = int(one - borrowed < other)
        steps.append(f"borrow {borrow}")
        one += 10 * borrow
        steps.append(f"{one}-{other}{less}={one - other - borrowed}")
        borrowed = borrow
    return f"{a}-{b}: {', '.join(steps)}, makes {a - b}."


def multiplying(a: int, b: int) -> str:
    """The working of a * b: the tables up to twelve, else the larger factor digit by digit."""
    if max(a, b) <= TABLES:
        return f"Table: {a}*{b}={a * b}."
    a, b = max(a, b), min(a, b)
    if b > MOST_FACTOR or a * b > MOST:
        raise TooHardError(f"{a}*{b}")
    tens, ones = divmod(b, 10)
    if not tens:
        return f"{_by_digit(a, b)}."
    by_tens = (
        f"{a}*{10 * tens}: {_by_digit(a, tens)}, so {10 * a * tens}." if tens > 1 else f"{a}*10={10 * a}."
    )
    if not ones:
        return by_tens
    return f"{by_tens} {_by_digit(a, ones)}. {adding(10 * a * tens, a * ones)}"


def _by_digit(a: int, digit: int) -> str:
    """Such as "24*3: 4*3=12, write 2 carry 1, 2*3+1=7, makes 72"."""
    steps, carry = [], 0
    digits = columns(a, len(str(a)))
    for place, one in enumerate(digits):
        total = one * digit + carry
        steps.append(f"{one}*{digit}{f'+{carry}' if place else ''}={total}")
        if place < len(digits) - 1:
            carry = total // 10
            steps.append(f"write {total % 10} carry {carry}" if carry else "carry 0")
    return f"{a}*{digit}: {', '.join(steps)}, makes {a * digit}"


def dividing(a: int, b: int) -> str:
    """The working of a / b: within the tables what fits, else digit by digit from the left."""
    if not 0 < b <= TABLES:
        raise TooHardError(f"{a}/{b}")
    quotient, rest = divmod(a, b)
    if quotient <= TABLES:
        left = f", {a}-{b * quotient}={rest}" if rest else ""
        return f"Table: {b}*{quotient}={b * quotient}{left}."
    steps: list[str] = []
    number = 0
    for digit in str(a):
        number = 10 * number + int(digit)
        if number < b and not steps:
            continue
        steps.append(f"{number}/{b}={number // b} rest {number % b}")
        number %= b
    return f"{a}/{b}: {', '.join(steps)}, makes {quotient}."


def worked(expression: str, numbers: dict[str, int]) -> tuple[str, str, int]:
    """An expression of letters with their numbers in it, its working step by step, and its result.

    Raises TooHardError where a step gives a fraction, less than zero or more than MOST.
    """
    steps: list[str] = []

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Name):
            return numbers[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if not isinstance(node, ast.BinOp):
            raise TooHardError(ast.unparse(node))
        a, b = value(node.left), value(node.right)
        match node.op:
            case ast.Add():
                working, found = adding(a, b), a + b
            case ast.Sub():
                working, found = taking(a, b), a - b
            case ast.Mult():
                working, found = multiplying(a, b), a * b
            case _:
                working, found = dividing(a, b), a // b
                if a % b:
                    raise TooHardError(f"{a}/{b}")
        if not 0 <= found <= MOST:
            raise TooHardError(working)
        steps.append(working)
        return found

    result = value(ast.parse(expression, mode="eval").body)
    shown = re.sub(r"[a-z]", lambda letter: str(numbers[letter[0]]), expression)
    return shown, " ".join(steps), result
