"""Splits a streamed reply into thinking, text and tool calls.

Thinking opens at the beginning of the reply, or in the generation prompt, and closes once. A call counts only
if there are tools and all of it can be parsed. Everything else is text and is passed on at once: a mark
anywhere else is text that mentions the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import regex

from chatcli.events import ToolCall
from chatcli.replies.calls import CallFormat, FoundCalls, Grammar, Tools, bare_calls, tool_call
from chatcli.replies.incoming import Incoming, Mismatch, Reading


@dataclass(frozen=True)
class Part:
    """A piece of a reply: text, thinking, or complete tool calls with the text that holds them."""

    text: str
    thinking: bool = False
    calls: tuple[ToolCall, ...] = ()


T = TypeVar("T")
# A step of parsing a reply yields a certain part, or None while it waits for more text.
Steps = Generator[Part | None, None, T]
# Whether the mark at the current position closes the current message. If so, it is consumed.
Closes = Callable[[regex.Match[str]], Reading[bool]]


@dataclass(frozen=True)
class Headers:
    """A format in which a reply is a list of messages with headers: gpt-oss' Harmony, Muse's.

    `starts` begins a message, `header` leads to its body, and the marks `ends` end it, but only before a
    match of `follows` or the end of the reply; elsewhere they are text. `is_thinking` and `recipient`, the
    tool that a message calls (None: calls have marks), match headers.
    """

    starts: regex.Pattern[str]
    header: regex.Pattern[str]
    ends: tuple[str, ...]
    follows: regex.Pattern[str]
    is_thinking: regex.Pattern[str]
    recipient: regex.Pattern[str] | None


@dataclass(frozen=True)
class Format:
    """A model's output format.

    `thinking` are the marks that open and close thinking. `closing` is the text that ends thinking and begins
    the answer. In some formats `text_opens` and `text_closes` surround the answer. `calls` are the call
    formats by opening mark; `bare`: a whole reply may be a call without marks.
    """

    thinking: tuple[str, str] | None = None
    closing: str = ""
    text_opens: tuple[str, ...] = ()
    text_closes: tuple[str, ...] = ()
    calls: Mapping[str, CallFormat] = field(default_factory=dict)
    bare: bool = False
    headers: Headers | None = None

    @property
    def has_calls(self) -> bool:
        """Whether this format distinguishes calls from text."""
        names_recipients = self.headers is not None and self.headers.recipient is not None
        return bool(self.calls) or self.bare or names_recipients


HARMONY = Headers(
    starts=regex.compile(r"\s*<\|start\|>assistant"),
    header=regex.compile(
        r"\s*(?P<header>(?:(?:to=|<\|channel\|>)(?:[^<]|<\|(?:channel|constrain)\|>){0,200})?)<\|message\|>"
    ),
    ends=("<|end|>", "<|return|>", "<|call|>"),
    follows=regex.compile(r"(?=\s*(?:<\|start\|>|<\|channel\|>))"),
    is_thinking=regex.compile(r"<\|channel\|>analysis"),
    recipient=regex.compile(r"to=(?P<declared>functions\.)?(?P<name>[^\s<]+)"),
)
MUSE = Headers(
    starts=regex.compile(r"\s*<\|start\|>assistant"),
    header=regex.compile(r"\s*(?P<header>to=[^<\s]{1,200})<\|message\|>"),
    ends=("<|eom|>", "<|eot|>"),
    follows=regex.compile(r"(?=\s*(?:<\|start\|>|to=))"),
    is_thinking=regex.compile(r"to=self"),
    # Calls have marks inside a message.
    recipient=None,
)
# Separates the messages of a reply, which are shown as one text.
BETWEEN_MESSAGES = "\n\n"


class ReplySplitter:
    """Takes streamed text and returns the parts that are certain."""

    def __init__(
        self, reply_format: Format, generation_prompt: str = "", tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """The text `generation_prompt` may have opened the thinking. `tools` are those that may be called."""
        self._format, self._tools = reply_format, Tools(tools)
        self._text = Incoming()
        # Whether the next text is thinking.
        self.thinking = False
        # Whether any text has been returned.
        self._has_content = False
        calls = [*reply_format.calls] if self._tools else []
        self._next_call = _any_of(calls, r"\s*")
        if reply_format.headers is not None:
            # The prompt may end within the header of the last message.
            starts = [match.start() for match in reply_format.headers.starts.finditer(generation_prompt)]
            self._text.text = generation_prompt[starts[-1] :] if starts else ""
            self._mark = _any_of([*reply_format.headers.ends, *calls])
            self._parts = self._messages(reply_format.headers)
        else:
            opening, closing = reply_format.thinking or ("", "")
            self.thinking = generation_prompt.rfind(opening) > generation_prompt.rfind(closing)
            self._mark = _any_of([*reply_format.text_closes, *calls])
            self._mark_in_thinking = _any_of([closing, *calls])
            self._parts = self._reply(_any_of([opening], r"\s*"))
        self.feed("")

    def feed(self, text: str) -> list[Part]:
        """The parts that are certain now. Possible marks and incomplete calls are held back."""
        self._text.text += text
        return [part for part in takewhile(bool, self._parts) if part is not None]

    def finish(self) -> list[Part]:
        """The parts that were still held back when the reply ended."""
        self._text.ended = True
        return [part for part in self._parts if part is not None]

    def _reply(self, opening: regex.Pattern[str]) -> Steps[None]:
        # Models often open thinking again after the generation prompt has opened it.
        if (yield from self._text.maybe(opening)) or self.thinking:
            self.thinking = True
            yield from self._thoughts()
            self.thinking = False
        yield from self._text.maybe(_any_of(self._format.text_opens, r"\s*"))
        may_be_bare = self._format.bare and self._tools
        if may_be_bare and (part := (yield from self._calls(bare_calls, self._text.at, self._text.at))):
            yield part
        while (yield from self._body(self._closes_text)):
            # Calls may follow the closing mark.
            pass

    def _thoughts(self) -> Steps[None]:
        """Thinking up to its closing mark, or to calls that end the reply without one."""
        text = self._text
        while match := (yield from self._up_to(self._mark_in_thinking, thinking=True)):
            if match["mark"] not in self._format.calls:
                text.at = match.end()
                return
            start, calls = text.at, list[ToolCall]()
            while mark := (yield from text.maybe(self._next_call)):
                text.at = mark.start()
                if (part := (yield from self._call(mark))) is None:
                    break
                calls += part.calls
            if not (yield from text.next_character()):
                self.thinking = False
                yield Part(text.text[start : text.at], calls=tuple(calls))
                return
            # Text after the calls shows that they belong to the thinking.
            text.at = match.end()
            yield Part(match["mark"], thinking=True)

    def _messages(self, headers: Headers) -> Steps[None]:
        text = self._text
        while (yield from text.next_character()):
            yield from text.maybe(headers.starts)
            start = text.at
            header = yield from text.maybe(headers.header)
            body = text.at
            written = header["header"] if header else ""
            thinking = headers.is_thinking.search(written) is not None
            recipient = headers.recipient.search(written) if headers.recipient else None
            is_call = recipient and (recipient["declared"] or recipient["name"] in self._tools.names)
            # If no call can be parsed, its header is text too.
            text.at = start if is_call and not thinking else body
            if recipient and is_call and self._tools:
                grammar = partial(_arguments_of, recipient["name"], _any_of(headers.ends, r"\s*"))
                if part := (yield from self._calls(grammar, body, start)):
                    yield part
                    continue
            if not thinking and self._has_content:
                yield Part(BETWEEN_MESSAGES)
            self.thinking = thinking
            yield from self._body(partial(self._closes_message, headers), thinking)
            self.thinking = False

    def _body(self, closes: Closes, thinking: bool = False) -> Steps[bool]:
        """Text and calls up to a closing mark. False if the reply has ended."""
        text = self._text
        while match := (yield from self._up_to(self._mark, thinking)):
            if match["mark"] in self._format.calls:
                if part := (yield from self._call(match)):
                    yield part
                    continue
            elif (yield from closes(match)):
                return True
            text.at = match.end()
            yield Part(match["mark"], thinking)
        return False

    def _closes_text(self, match: regex.Match[str]) -> Reading[bool]:
        """Whether only closing marks and calls are left of the reply. If so, the marks are consumed."""
        text, start = self._text, match.start()
        while (yield from text.maybe(_any_of(self._format.text_closes, r"\s*"))):
            pass
        at = text.at
        if (yield from text.maybe(_any_of(self._format.calls, r"\s*"))):
            text.at = at
            return True
        if not (yield from text.next_character()):
            text.at = len(text.text)
            return True
        text.at = start
        return False

    def _closes_message(self, headers: Headers, match: regex.Match[str]) -> Reading[bool]:
        """Whether a mark is followed by another message or the end. If so, it is consumed."""
        text = self._text
        text.at = match.end()
        if (yield from text.maybe(headers.follows)) or not (yield from text.next_character()):
            return True
        text.at = match.start()
        return False

    def _call(self, match: regex.Match[str]) -> Reading[Part | None]:
        """The calls that begin at a mark. None, with nothing consumed, if it does not begin a call."""
        call_format, start = self._format.calls[match["mark"]], match.start("mark")
        return self._calls(call_format.grammar, start if call_format.included else match.end(), start)

    def _calls(self, grammar: Grammar, at: int, start: int) -> Reading[Part | None]:
        """The calls that a grammar parses from `at`, with the text from `start`; None without any call."""
        text, found, before = self._text, FoundCalls(self._tools), self._text.at
        text.at = at
        try:
            yield from grammar(text, found)
        except Mismatch:
            # Calls before the mismatch are complete.
            text.at = found.end
        if found.calls:
            return Part(text.text[start : text.at], calls=tuple(found.calls))
        text.at = before
        return None

    def _up_to(self, mark: regex.Pattern[str], thinking: bool) -> Steps[regex.Match[str] | None]:
        """Yield text up to the next mark, which is not consumed, or to the end of the reply."""
        text = self._text
        while True:
            match = mark.search(text.text, text.at, partial=not text.ended)
            end = match.start() if match else len(text.text)
            if end > text.at:
                self._has_content |= not thinking
                yield Part(text.text[text.at : end], thinking)
                text.at = end
            if match and not match.partial:
                return match
            if text.ended:
                return None
            text.text, text.at = text.text[text.at :], 0
            yield None


def _arguments_of(name: str, ending: regex.Pattern[str], text: Incoming, found: FoundCalls) -> Reading[None]:
    """The arguments of a call that is named in a message's header."""
    arguments: Any = {}
    if (yield from text.next_character()) != "<":
        arguments = yield from text.json()
        yield from text.maybe(ending)
    else:
        yield from text.expect(ending)
    found.add(text, tool_call(name, arguments))


def _any_of(marks: Iterable[str], before: str = "") -> regex.Pattern[str]:
    """A pattern of the longest of these marks, as group `mark`, after the pattern `before`."""
    longest_first = sorted(filter(None, marks), key=len, reverse=True)
    return regex.compile(rf"{before}(?P<mark>{'|'.join(map(regex.escape, longest_first)) or '(?!)'})")
