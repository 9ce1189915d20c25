"""Streamed text, and the steps of a grammar that reads it: each waits where more text must come first.

A grammar is a generator that yields while it waits. So it is written as for a whole text, and still tells at
the first character that does not fit that the text is something else.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, TypeVar

import regex

T = TypeVar("T")
# What reads: it yields while it waits for more text, and returns what it has read.
Reading = Generator[None, None, T]
# Deeper JSON is nothing that a tool takes, and Python parses it by recursion.
MAX_JSON_DEPTH = 500

INSIDE_STRING = regex.compile(r"[^\"'\\]*(?:\\.[^\"'\\]*)*", regex.DOTALL)
# What may come next in JSON. A number ends where another character shows that it has ended.
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
    """Text that has come so far, and the place in it where reading goes on.

    `ended`: no more will come.
    """

    def __init__(self, text: str = "", *, ended: bool = False) -> None:
        self.text, self.at, self.ended = text, 0, ended

    def expect(self, pattern: regex.Pattern[str]) -> Reading[regex.Match[str]]:
        """The match of a pattern here, which is read. Raises `Mismatch`."""
        while True:
            match = pattern.match(self.text, self.at, partial=not self.ended)
            if match is None:
                raise Mismatch
            if not match.partial:
                self.at = match.end()
                return match
            yield

    def maybe(self, pattern: regex.Pattern[str]) -> Reading[regex.Match[str] | None]:
        """The match of a pattern here, which is read; None, and nothing is read, if there is none."""
        try:
            return (yield from self.expect(pattern))
        except Mismatch:
            return None

    def until(self, pattern: regex.Pattern[str]) -> Reading[str]:
        """The text before the next match of a pattern, which is read too. Raises `Mismatch`."""
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
        """All that is left, once the text has ended."""
        while not self.ended:
            yield
        start, self.at = self.at, len(self.text)
        return self.text[start:]

    def next_character(self) -> Reading[str]:
        """The next character that is no white space, which is not read; empty at the end of the text."""
        while True:
            rest = self.text[self.at :].lstrip()
            if rest or self.ended:
                return rest[:1]
            yield

    def string(self, quote: str) -> Reading[None]:
        """Read to the end of a string whose quotation mark was read. Raises `Mismatch`."""
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
                # A backslash at the end belongs to what comes.
                yield

    def json(self) -> Reading[Any]:
        """A JSON object or list. Raises `Mismatch`."""
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
            # Models write line breaks into strings as they are.
            return json.loads(self.text[start : self.at], strict=False)
        except (ValueError, RecursionError):
            raise Mismatch from None
