"""Streamed text, and the parser primitives that call grammars are made of.

A grammar is a generator that yields while it waits for more text. So it is written like a parser of complete
text, but still fails at the first character that does not match.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, TypeVar

import regex

T = TypeVar("T")
# A parser: it yields while it waits for more text, and returns its result.
Reading = Generator[None, None, T]
# No tool takes deeper JSON, and Python parses JSON by recursion.
MAX_JSON_DEPTH = 500

INSIDE_STRING = regex.compile(r"[^\"'\\]*(?:\\.[^\"'\\]*)*", regex.DOTALL)
# The next token in JSON. A number is complete only once another character follows.
VALUE = r"(?P<open>[{\[])|(?P<quote>\")|(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?=[\s,\]}])"
CONTAINER = regex.compile(r"\s*(?P<open>[{\[])")
ELEMENT = regex.compile(rf"\s*(?:{VALUE})")
FIRST_ELEMENT = regex.compile(rf"\s*(?:{VALUE}|(?P<close>\]))")
FIRST_KEY = regex.compile(r"\s*(?:(?P<key>\")|(?P<close>\}))")
KEY = regex.compile(r"\s*(?P<key>\")")
COLON = regex.compile(r"\s*:")
AFTER = {"{": regex.compile(r"\s*(?:,|(?P<close>\}))"), "[": regex.compile(r"\s*(?:,|(?P<close>\]))")}


class Mismatch(Exception):
    """The text is not what a grammar expects."""


class Incoming:
    """The text received so far, and the parser's position `at` in it. `ended`: no more will come."""

    def __init__(self, text: str = "", *, ended: bool = False) -> None:
        self.text, self.at, self.ended = text, 0, ended

    def expect(self, pattern: regex.Pattern[str]) -> Reading[regex.Match[str]]:
        """Consume a match of the pattern. Raises `Mismatch`."""
        while True:
            match = pattern.match(self.text, self.at, partial=not self.ended)
            if match is None:
                raise Mismatch
            if not match.partial:
                self.at = match.end()
                return match
            yield

    def maybe(self, pattern: regex.Pattern[str]) -> Reading[regex.Match[str] | None]:
        """Consume a match of the pattern, if there is one."""
        try:
            return (yield from self.expect(pattern))
        except Mismatch:
            return None

    def until(self, pattern: regex.Pattern[str]) -> Reading[str]:
        """Consume the next match of the pattern, and return the text before it. Raises `Mismatch`."""
        start = searched = self.at
        while True:
            match = pattern.search(self.text, searched, partial=not self.ended)
            if match is not None and not match.partial:
                self.at = match.end()
                return self.text[start : match.start()]
            if self.ended:
                raise Mismatch
            searched = len(self.text) if match is None else match.start()
            yield

    def rest(self) -> Reading[str]:
        """Consume everything up to the end of the text."""
        while not self.ended:
            yield
        start, self.at = self.at, len(self.text)
        return self.text[start:]

    def next_character(self) -> Reading[str]:
        """Peek at the next character that is not white space; empty at the end of the text."""
        while True:
            rest = self.text[self.at :].lstrip()
            if rest or self.ended:
                return rest[:1]
            yield

    def string(self, quote: str) -> Reading[None]:
        """Consume the rest of a string after its opening quotation mark. Raises `Mismatch`."""
        while True:
            match = INSIDE_STRING.match(self.text, self.at)
            assert match is not None
            self.at = match.end()
            following = self.text[self.at : self.at + 1]
            if following == quote:
                self.at += 1
                return
            if following in ("'", '"'):
                self.at += 1
            elif self.ended:
                raise Mismatch
            else:
                # A trailing backslash escapes the next character.
                yield

    def json(self) -> Reading[Any]:
        """Consume and parse a JSON object or list. Raises `Mismatch`."""
        start = self.at
        opened: list[str] = []
        expected = CONTAINER
        while True:
            match = yield from self.expect(expected)
            groups = match.capturesdict()
            if groups.get("quote"):
                yield from self.string('"')
            if groups.get("key"):
                yield from self.string('"')
                yield from self.expect(COLON)
                expected = ELEMENT
                continue
            if groups.get("open"):
                opened.append(match["open"])
                if len(opened) > MAX_JSON_DEPTH:
                    raise Mismatch
                expected = FIRST_KEY if opened[-1] == "{" else FIRST_ELEMENT
                continue
            if groups.get("close"):
                opened.pop()
            elif expected in AFTER.values():  # a comma
                expected = KEY if opened[-1] == "{" else ELEMENT
                continue
            if not opened:
                break
            expected = AFTER[opened[-1]]
        try:
            # Models write raw line breaks into strings.
            return json.loads(self.text[start : self.at], strict=False)
        except (ValueError, RecursionError):
            raise Mismatch from None
