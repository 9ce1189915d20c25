"""Tells thinking, reply and tool calls apart in a stream of text, by their markers; refuses to know models.

States have mlx-lm's names. A marker leads from one to another and is shown to no one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chatcli.chat_format.stop import begun
from chatcli.events import ToolCall

TEXT, THINKING, CALL, HEADER = "normal", "reasoning", "tool", "header"
# A gpt-oss message whose header has not come yet: text, if no header ever comes.
BEGUN = "begun"
# gpt-oss writes channels that mlx-lm's tokenizer does not name.
ANYWHERE = {
    "<|start|>assistant": BEGUN,
    "<|channel|>": HEADER,
    "<|message|>": TEXT,
    "<|end|>": TEXT,
    "<|return|>": TEXT,
    "<|call|>": TEXT,
}
HARMONY: dict[str, dict[str, str]] = {
    TEXT: ANYWHERE,
    THINKING: ANYWHERE,
    BEGUN: {**ANYWHERE, " to=": CALL},
    HEADER: {
        **ANYWHERE,
        "to=": CALL,
        "final<|message|>": TEXT,
        "analysis<|message|>": THINKING,
        "commentary<|message|>": THINKING,
    },
    CALL: {"<|call|>": TEXT, "<|end|>": TEXT},
}
HARMONY_CLOSING = "<|end|><|start|>assistant<|channel|>final<|message|>"
# What begins an answer where mlx-lm's format of a reply has headers, and what closes thinking there.
TO_USER = "to=user<|message|>"
HEADED_CLOSING = f"<|eom|><|start|>assistant {TO_USER}"
# What mlx-lm's parsers raise on a call that is none.
UNPARSABLE = (ValueError, LookupError, TypeError, AttributeError, SyntaxError, RecursionError)


@dataclass(frozen=True)
class Part:
    """A piece of a reply: text, thinking, or whole calls with the text that they were made in."""

    text: str
    thinking: bool = False
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class Format:
    """What leads from state to state, which is the first, and the text that closes thinking."""

    states: Mapping[str, Mapping[str, str]]
    first: str = TEXT
    closing: str = ""
    parse: Callable[[str], Any] = field(default=json.loads)


def format_of(tokenizer: Any) -> Format:
    """How this tokenizer's model marks the parts of a reply."""
    if "<|channel|>" in tokenizer.get_vocab():
        return Format(HARMONY, TEXT, HARMONY_CLOSING, _harmony_call)
    spoken = dict.fromkeys(tokenizer.structural_markers, TEXT)
    closing = ""
    if tokenizer.has_thinking:
        closing = tokenizer.think_end
        spoken |= {tokenizer.think_start: THINKING, closing: TEXT}
    headed = tokenizer.response_transitions
    in_headers = any(CALL in dict(edges).values() for edges in headed.values())
    if tokenizer.has_tool_calling and not in_headers:
        spoken[tokenizer.tool_call_start] = CALL
    end = tokenizer.tool_call_end if tokenizer.has_tool_calling else ""
    states = {TEXT: spoken, THINKING: spoken, CALL: {end: TEXT} if end else {}}
    for state, edges in headed.items():
        states[state] = {**states.get(state, {}), **dict(edges)}
    if TO_USER in states.get(HEADER, {}):
        closing = HEADED_CLOSING
    first = tokenizer.response_initial_state or TEXT
    return Format(states, first, closing, tokenizer.tool_parser or json.loads)


def closing_tokens(tokenizer: Any) -> list[int]:
    """The tokens that end thinking; none if the model has no thinking."""
    closing = format_of(tokenizer).closing
    if closing and closing == tokenizer.think_end:
        return list(tokenizer.think_end_tokens)
    return list(tokenizer.encode(closing, add_special_tokens=False)) if closing else []


class ReplySplitter:
    """Takes decoded text as it comes; gives what is known of it."""

    def __init__(self, tokenizer: Any, opening: str) -> None:
        """`opening` is the text of the generation prompt, which may have opened the thinking."""
        self._format = format_of(tokenizer)
        marked = self._format.states.items()
        self._patterns = {state: _any_of(markers) for state, markers in marked}
        self._state = self._format.first
        self._pending = self._call = self._header = ""
        for _ in self.feed(opening):
            pass
        self._pending = self._header = ""

    @property
    def thinking(self) -> bool:
        """Whether what comes now is thinking."""
        return self._state == THINKING

    def feed(self, text: str) -> Iterator[Part]:
        """What is known now; the start of a marker, a header and an unfinished call are held back."""
        self._pending += text
        while found := self._patterns[self._state].search(self._pending):
            yield from self._told(self._pending[: found.start()])
            self._pending = self._pending[found.end() :]
            yield from self._enter(found[0])
        held = begun(self._pending, self._format.states[self._state])
        whole = len(self._pending) - held
        yield from self._told(self._pending[:whole])
        self._pending = self._pending[whole:]

    def finish(self) -> Iterator[Part]:
        """What was held back when the reply ended."""
        yield from self._told(self._pending)
        self._pending = ""
        if self._call:
            yield self._called()
        elif self._state == self._format.first == HEADER and self._header:
            # A reply without any header is told rather than lost.
            yield Part(self._header)

    def _enter(self, marker: str) -> Iterator[Part]:
        """Go where `marker` leads."""
        state = self._format.states[self._state][marker]
        if self._state == CALL:
            self._call += marker
            yield self._called()
        elif state == CALL:
            self._call = marker
        self._state, self._header = state, ""

    def _told(self, text: str) -> Iterator[Part]:
        if self._state == CALL:
            self._call += text
        elif self._state == HEADER:
            self._header += text
        elif text:
            yield Part(text, self.thinking)

    def _called(self) -> Part:
        """The calls in what was held back; text where there are none that can be read."""
        made, self._call = self._call, ""
        return Part(made, calls=_calls(self._format, made))


def _any_of(markers: Mapping[str, str]) -> re.Pattern[str]:
    """Where several begin at one place, the longest counts."""
    longest_first = sorted(markers, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _calls(form: Format, made: str) -> tuple[ToolCall, ...]:
    """The calls between a marker that begins them and one that may end them; none if it is none."""
    edges = [edge for markers in form.states.values() for edge in markers.items()]
    start = next((mark for mark, state in edges if state == CALL and made.startswith(mark)), "")
    end = next((mark for mark in form.states[CALL] if made.endswith(mark)), "")
    try:
        found = form.parse(made.removeprefix(start).removesuffix(end))
        return tuple(map(_call, found if isinstance(found, list) else [found]))
    except UNPARSABLE:
        return ()


def _call(found: Any) -> ToolCall:
    """Raises one of `UNPARSABLE` if it is no call."""
    arguments = found.get("arguments", {})
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if not isinstance(found["name"], str):
        raise TypeError(found)
    return ToolCall(found["name"], told)


def _harmony_call(text: str) -> dict[str, Any]:
    """`functions.search <|constrain|>json<|message|>{"q": 1}`. Raises `ValueError`."""
    name, _, rest = text.partition("<|message|>")
    named = re.match(r"(?:functions\.)?([\w.-]+)", name)
    if named is None:
        raise ValueError(text)
    return {"name": named[1], "arguments": json.loads(rest)}
