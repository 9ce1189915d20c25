"""Splits a streamed reply into thinking, text and tool calls, by the markers of its format.

States have mlx-lm's names. A marker leads from one state to another and is not shown.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from chatcli.chat_format.stop import partial_length
from chatcli.conversation.thinking import THINKING_MARKERS
from chatcli.events import ToolCall

TEXT, THINKING, CALL, HEADER = "normal", "reasoning", "tool", "header"
# A gpt-oss message whose header has not come yet: text, if none ever comes.
STARTED = "started"
CHANNEL = "<|channel|>"
# The markers of gpt-oss, whose channels mlx-lm's tokenizer does not name; these are markers in any state.
HARMONY_MARKERS = {
    "<|start|>assistant": STARTED,
    CHANNEL: HEADER,
    "<|message|>": TEXT,
    "<|end|>": TEXT,
    "<|return|>": TEXT,
    "<|call|>": TEXT,
}
HARMONY: dict[str, dict[str, str]] = {
    TEXT: HARMONY_MARKERS,
    THINKING: HARMONY_MARKERS,
    STARTED: {**HARMONY_MARKERS, " to=": CALL},
    HEADER: {
        **HARMONY_MARKERS,
        "to=": CALL,
        "final<|message|>": TEXT,
        "analysis<|message|>": THINKING,
        "commentary<|message|>": THINKING,
    },
    CALL: {"<|call|>": TEXT, "<|end|>": TEXT},
}
HARMONY_CLOSING = "<|end|><|start|>assistant<|channel|>final<|message|>"
# What begins the text where mlx-lm's response format has headers, and what closes thinking there.
TO_USER = "to=user<|message|>"
HEADED_CLOSING = f"<|eom|><|start|>assistant {TO_USER}"
# What mlx-lm's parsers raise on a text that is no call.
PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, SyntaxError, RecursionError)


@dataclass(frozen=True)
class Part:
    """A piece of a reply: text, thinking, or complete tool calls with the text that holds them."""

    text: str
    thinking: bool = False
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class Format:
    """`states` are the markers of each state and where they lead; `closing` is the text that ends thinking.

    `parse` turns the text of a tool call into a dictionary or a list of them.
    """

    states: Mapping[str, Mapping[str, str]]
    first: str = TEXT
    closing: str = ""
    parse: Callable[[str], Any] = field(default=json.loads)


@functools.lru_cache(maxsize=2)
def _known_markers(tokenizer: Any) -> frozenset[str]:
    """The markers that are in a tokenizer's vocabulary, which is copied to be asked: 150,000 tokens."""
    vocabulary = tokenizer.get_vocab()
    return frozenset(mark for mark in (CHANNEL, *chain(*THINKING_MARKERS)) if mark in vocabulary)


def format_of(tokenizer: Any, tools: Sequence[Mapping[str, Any]] = ()) -> Format:
    """The format of the replies of this tokenizer's model; some say an argument's type only in `tools`."""
    known = _known_markers(tokenizer)
    if CHANNEL in known:
        return Format(HARMONY, TEXT, HARMONY_CLOSING, _harmony_call)
    markers = dict.fromkeys(tokenizer.structural_markers, TEXT)
    closing = ""
    # mlx-lm does not know all of them.
    thinking = next((pair for pair in THINKING_MARKERS if known >= {*pair}), None)
    if tokenizer.has_thinking:
        thinking = tokenizer.think_start, tokenizer.think_end
    if thinking is not None:
        opening, closing = thinking
        markers |= {opening: THINKING, closing: TEXT}
    transitions = tokenizer.response_transitions
    calls_have_headers = any(CALL in dict(edges).values() for edges in transitions.values())
    if tokenizer.has_tool_calling and not calls_have_headers:
        markers[tokenizer.tool_call_start] = CALL
    end = tokenizer.tool_call_end if tokenizer.has_tool_calling else ""
    states = {TEXT: markers, THINKING: markers, CALL: {end: TEXT} if end else {}}
    for state, edges in transitions.items():
        states[state] = {**states.get(state, {}), **dict(edges)}
    if TO_USER in states.get(HEADER, {}):
        closing = HEADED_CLOSING
    first = tokenizer.response_initial_state or TEXT
    parse = tokenizer.tool_parser
    # Its second parameter has several names.
    return Format(states, first, closing, (lambda text: parse(text, [*tools])) if parse else json.loads)


class CallSyntax:
    """Where a text holds tool calls, in a format that puts each between two markers."""

    def __init__(self, tokenizer: Any) -> None:
        self._format = format_of(tokenizer)
        starts = [marker for marker, state in self._format.states[TEXT].items() if state == CALL]
        ends = self._format.states[CALL]
        # A header before the marker belongs to the call too, and stands elsewhere in history.
        known = starts and ends and HEADER not in self._format.states
        start, end = ("|".join(map(re.escape, markers)) for markers in (starts, ends))
        self._pattern = re.compile(f"(?:{start}).*?(?:{end})" if known else "(?!)", re.DOTALL)

    def end_of(self, calls: Sequence[ToolCall], text: str) -> int | None:
        """Where `text` has shown these calls, in their order; None if it shows others."""
        left = [(call.name, _value(call.arguments)) for call in calls]
        for match in self._pattern.finditer(text):
            shown = [(call.name, _value(call.arguments)) for call in _parse_calls(self._format, match[0])]
            if not shown or left[: len(shown)] != shown:
                return None
            left = left[len(shown) :]
            if not left:
                return match.end()
        return None


def _value(arguments: str) -> Any:
    """The arguments of a call, however their JSON is written."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(arguments)
    return arguments


def closing_tokens(tokenizer: Any) -> list[int]:
    """The tokens that end thinking; none if the model has no thinking."""
    closing = format_of(tokenizer).closing
    if closing and closing == tokenizer.think_end:
        return list(tokenizer.think_end_tokens)
    return list(tokenizer.encode(closing, add_special_tokens=False)) if closing else []


class ReplySplitter:
    """Takes decoded text as it comes, and gives the parts that are certain."""

    def __init__(
        self, tokenizer: Any, generation_prompt: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """`generation_prompt`, a text, may have opened the thinking. `tools` are those that may be called."""
        self._format = format_of(tokenizer, tools)
        # Where several markers begin at one place, the longest counts.
        self._patterns = {
            state: re.compile("|".join(map(re.escape, sorted(markers, key=len, reverse=True))) or "(?!)")
            for state, markers in self._format.states.items()
        }
        self._state = self._format.first
        self._pending = self._call = self._header = ""
        for _ in self.feed(generation_prompt):
            pass
        self._pending = self._header = ""

    @property
    def thinking(self) -> bool:
        """Whether what comes now is thinking."""
        return self._state == THINKING

    def feed(self, text: str) -> Iterator[Part]:
        """The parts that are certain now. The start of a marker, a header and an open call are held back."""
        self._pending += text
        while match := self._patterns[self._state].search(self._pending):
            yield from self._parts(self._pending[: match.start()])
            self._pending = self._pending[match.end() :]
            yield from self._enter(match[0])
        held_back = partial_length(self._pending, self._format.states[self._state])
        certain = len(self._pending) - held_back
        yield from self._parts(self._pending[:certain])
        self._pending = self._pending[certain:]

    def finish(self) -> Iterator[Part]:
        """The parts that were held back when the reply ended."""
        yield from self._parts(self._pending)
        self._pending = ""
        if self._call:
            yield self._take_calls()
        elif self._state == self._format.first == HEADER and self._header:
            # A reply without any header is shown rather than lost.
            yield Part(self._header)

    def _enter(self, marker: str) -> Iterator[Part]:
        """Change to the state that `marker` leads to."""
        state = self._format.states[self._state][marker]
        if self._state == CALL:
            self._call += marker
            yield self._take_calls()
        elif state == CALL:
            self._call = marker
        self._state, self._header = state, ""

    def _parts(self, text: str) -> Iterator[Part]:
        if self._state == CALL:
            self._call += text
        elif self._state == HEADER:
            self._header += text
        elif text:
            yield Part(text, self.thinking)

    def _take_calls(self) -> Part:
        """The calls in the text that was held back, which is plain text where they cannot be parsed."""
        text, self._call = self._call, ""
        return Part(text, calls=_parse_calls(self._format, text))


def _parse_calls(reply_format: Format, text: str) -> tuple[ToolCall, ...]:
    """The calls in a text with the marker before them and perhaps one after; none if it is no call."""
    edges = [edge for markers in reply_format.states.values() for edge in markers.items()]
    start = next((marker for marker, state in edges if state == CALL and text.startswith(marker)), "")
    end = next((marker for marker in reply_format.states[CALL] if text.endswith(marker)), "")
    try:
        parsed = reply_format.parse(text.removeprefix(start).removesuffix(end))
        return tuple(map(_tool_call, parsed if isinstance(parsed, list) else [parsed]))
    except PARSE_ERRORS:
        return ()


def _tool_call(parsed: Any) -> ToolCall:
    """Raises one of `PARSE_ERRORS` if it is no call."""
    arguments = parsed.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if not isinstance(parsed["name"], str):
        raise TypeError(parsed)
    return ToolCall(parsed["name"], text)


def _harmony_call(text: str) -> dict[str, Any]:
    """Parse `functions.search <|constrain|>json<|message|>{"q": 1}`. Raises `ValueError`."""
    header, _, arguments = text.partition("<|message|>")
    name = re.match(r"(?:functions\.)?([\w.-]+)", header)
    if name is None:
        raise ValueError(text)
    return {"name": name[1], "arguments": json.loads(arguments)}
