"""The grammar of a reply: thinking where it begins, then text and tool calls.

Thinking opens where the reply begins, or where the template has opened it, and closes once. A call is one
only if there are tools and all of it can be read. Everything else is text, given out as it comes: a mark that
stands anywhere else is one that the text speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import regex

from chatcli.events import ToolCall
from chatcli.replies.calls import CallFormat, Found, Grammar, Tools, bare_calls, tool_call
from chatcli.replies.incoming import Incoming, Mismatch, Reading


@dataclass(frozen=True)
class Part:
    """A piece of a reply: text, thinking, or complete tool calls with the text that holds them."""

    text: str
    thinking: bool = False
    calls: tuple[ToolCall, ...] = ()


T = TypeVar("T")
# A step of reading a reply: what is certain now, or None where more text must come first.
Steps = Generator[Part | None, None, T]
# Whether a mark, at which reading stands, closes what is read; if so it is read too.
Closes = Callable[[regex.Match[str]], Reading[bool]]


@dataclass(frozen=True)
class Headers:
    """A format in which a reply is messages, each with a header: gpt-oss' Harmony, Muse's.

    `starts` begins a message, `header` ends with what begins its body, and the marks `ends` end it. `follows`
    is what shows that such a mark has ended a message: another one is text that speaks of it. `is_thinking`
    and `recipient`, whom a call is for (None: calls have marks), are read off a header.
    """

    starts: regex.Pattern[str]
    header: regex.Pattern[str]
    ends: tuple[str, ...]
    follows: regex.Pattern[str]
    is_thinking: regex.Pattern[str]
    recipient: regex.Pattern[str] | None


@dataclass(frozen=True)
class Format:
    """How a model writes its replies.

    `thinking` is what opens and what closes thinking. `closing` is the text that ends thinking and begins the
    answer. `text_opens` and `text_closes` stand around the answer in some formats. `calls` are by the marks
    that begin them; `bare`: a reply may be a call without any.
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
        """Whether calls in this format can be told from text."""
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
    # Its calls have marks, within a message.
    recipient=None,
)
# Between the messages of a reply that are shown as one text.
BETWEEN_MESSAGES = "\n\n"


class ReplySplitter:
    """Takes a reply's text as it comes, and gives the parts that are certain."""

    def __init__(
        self, reply_format: Format, generation_prompt: str = "", tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """`generation_prompt`, a text, may have opened the thinking. `tools` are those that may be called."""
        self._format, self._tools = reply_format, Tools(tools)
        self._text = Incoming()
        # Whether what comes now is thinking.
        self.thinking = False
        # Whether text has been given out.
        self._has_content = False
        calls = [*reply_format.calls] if self._tools else []
        self._next_call = _any_of(calls, r"\s*")
        if reply_format.headers is not None:
            # The last message, whose header may have begun.
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
        """The parts that are certain now. Held back are what may be a mark, and a call that is not whole."""
        self._text.text += text
        return [part for part in takewhile(bool, self._parts) if part is not None]

    def finish(self) -> list[Part]:
        """The parts that were held back when the reply ended."""
        self._text.ended = True
        return [part for part in self._parts if part is not None]

    def _reply(self, opening: regex.Pattern[str]) -> Steps[None]:
        # Where the template has opened the thinking, models often do so again.
        if (yield from self._text.maybe(opening)) or self.thinking:
            self.thinking = True
            yield from self._thoughts()
            self.thinking = False
        yield from self._text.maybe(_any_of(self._format.text_opens, r"\s*"))
        may_be_bare = self._format.bare and self._tools
        if may_be_bare and (part := (yield from self._calls(bare_calls, self._text.at, self._text.at))):
            yield part
        while (yield from self._body(self._closes_text)):
            # Calls may follow.
            pass

    def _thoughts(self) -> Steps[None]:
        """Thinking, to the mark that closes it, or to calls that end the reply without it."""
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
            # What comes after them shows that they were only thought of.
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
            # Where no call can be read, its header is text too.
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
        """Text and calls, to a mark that closes them. False if the reply has ended."""
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
        """Whether only marks that close text and calls are left of the reply: then those marks are read."""
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
        """Whether another message or nothing follows a mark, which is read then."""
        text = self._text
        text.at = match.end()
        if (yield from text.maybe(headers.follows)) or not (yield from text.next_character()):
            return True
        text.at = match.start()
        return False

    def _call(self, match: regex.Match[str]) -> Reading[Part | None]:
        """The calls that begin with a mark; None, and nothing is read, where they do not."""
        call_format, start = self._format.calls[match["mark"]], match.start("mark")
        return self._calls(call_format.grammar, start if call_format.included else match.end(), start)

    def _calls(self, grammar: Grammar, at: int, start: int) -> Reading[Part | None]:
        """What a grammar reads from `at` on, with the text since `start`; None where it reads no call."""
        text, found, before = self._text, Found(self._tools), self._text.at
        text.at = at
        try:
            yield from grammar(text, found)
        except Mismatch:
            # Those before the one that does not fit are whole.
            text.at = found.end
        if found.calls:
            return Part(text.text[start : text.at], calls=tuple(found.calls))
        text.at = before
        return None

    def _up_to(self, mark: regex.Pattern[str], thinking: bool) -> Steps[regex.Match[str] | None]:
        """Give out text up to the next mark, which is not read; to the end of the reply if there is none."""
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


def _arguments_of(name: str, ending: regex.Pattern[str], text: Incoming, found: Found) -> Reading[None]:
    """A call whose name stands in a message's header."""
    arguments: Any = {}
    if (yield from text.next_character()) != "<":
        arguments = yield from text.json()
        yield from text.maybe(ending)
    else:
        yield from text.expect(ending)
    found.add(text, tool_call(name, arguments))


def _any_of(marks: Iterable[str], before: str = "") -> regex.Pattern[str]:
    """The longest of these marks that begins in a place, as `mark`; `before` is a pattern."""
    longest_first = sorted(filter(None, marks), key=len, reverse=True)
    return regex.compile(rf"{before}(?P<mark>{'|'.join(map(regex.escape, longest_first)) or '(?!)'})")
