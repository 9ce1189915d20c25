"""Renders conversations with a model's chat template, each part in a form that the template supports."""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from chatcli.chat_format import ladder, source
from chatcli.chat_format.arguments import template_arguments, template_variables
from chatcli.chat_format.forms import (
    Forms,
    Json,
    SafeCall,
    SafeMessage,
    calls_as_text,
    shape,
    tool_options,
)
from chatcli.chat_format.ladder import Learned, parts_of
from chatcli.chat_format.renderer import Rendering, Stop, text_of
from chatcli.chat_format.tokenizing import Encoder, Seams, control_tokens
from chatcli.conversation.tree import Message
from chatcli.errors import ImagesRefused, TemplateCutOff, TemplateStopped
from chatcli.model.vision import Vision, pictures
from chatcli.records import is_shallow
from chatcli.store.segments.token_path import common_prefix

# How many rendered texts are cached: a message that was typed ahead is needed again when it is sent.
MAX_TEXTS = 4
# Call arguments nested deeper than this are passed as text: templates walk them by recursion.
MAX_DEPTH = 64
# A control token at either edge of a call's text is at most this long.
MARK_CHARACTERS = 32
INVENTED_DATE = datetime.date(2025, 1, 1)
# The time limit for all renderings of one prompt, or of its boundaries.
REQUEST_SECONDS = 120.0
IMAGES_UNSUPPORTED = (
    "This conversation has images, which this model cannot see: switch to one that can "
    "(/model NAME, -m NAME), or go back to before them (/rewind TURN)."
)
# A placeholder is this noncharacter around two numbers: those of a reply and of one of its calls.
PLACEHOLDER = "\ufdd1"
PLACEHOLDERS = re.compile(f"{PLACEHOLDER}\\d+\\.\\d+{PLACEHOLDER}")

# Messages to render, and whether the generation prompt follows them.
SafeConversation = tuple[list[SafeMessage], bool]


class TimeLimit:
    """A stop signal that is also set once all renderings together take longer than `seconds`."""

    def __init__(self, stop: Stop | None, seconds: float = REQUEST_SECONDS) -> None:
        self._stop, self.seconds, self._left = stop, seconds, seconds
        self._began: float | None = None

    def is_set(self) -> bool:
        return self.is_over() or (self._stop is not None and self._stop.is_set())

    def renew(self) -> None:
        """Start the time again, for another request."""
        self._left = self.seconds

    def is_over(self) -> bool:
        running = 0.0 if self._began is None else time.monotonic() - self._began
        return running > self._left

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self._began is not None:
            self._left -= time.monotonic() - self._began
        self._began = None


@dataclass(frozen=True)
class StablePrefix:
    """The length of a path's stable prefix, in tokens and in characters of the rendered text."""

    tokens: int
    characters: int


@dataclass(frozen=True)
class KnownPath:
    """A path's messages, their safe versions, and a hash of each prefix, the empty one first."""

    messages: list[Message] = field(default_factory=list)
    safe: list[SafeMessage] = field(default_factory=list)
    hashes: list[str] = field(default_factory=lambda: [_digest("")])


@dataclass(frozen=True)
class RenderedText:
    """The text that a template (`key`) rendered for a conversation."""

    key: str
    generation: bool
    messages: list[Message]
    text: str


@dataclass
class TemplateCache:
    """Recent results for one tokenizer's templates, so that each turn computes only its new part.

    It outlives a `Template`, is bounded, and threads may share it.
    """

    encoder: Encoder
    seams: Seams
    variables: frozenset[str]
    path: KnownPath = field(default_factory=KnownPath)
    texts: list[RenderedText] = field(default_factory=list)
    prefixes: dict[tuple[str, str], StablePrefix] = field(default_factory=dict)
    # By template and path: whether the path's last messages can stand for all of it.
    local: dict[tuple[str, str], bool] = field(default_factory=dict)
    # By template and whether it has tools: the forms that it supports.
    learned: dict[str, Learned] = field(default_factory=dict)

    @property
    def adapted(self) -> list[str]:
        """A clause for each part that a template does not show in the default form."""
        return list(dict.fromkeys(each for learned in self.learned.values() for each in learned.adapted))

    @classmethod
    def of(cls, tokenizer: Any) -> TemplateCache:
        """An empty cache for this tokenizer."""
        written = source.text_with_control_tokens(tokenizer)
        control = control_tokens(tokenizer, written)
        encoder = Encoder(tokenizer, [mark for mark in control if mark in written])
        variables = frozenset[str]().union(
            *(template_variables(tokenizer, each) for each in source.template_sources(tokenizer).values())
        )
        return cls(encoder, Seams(tokenizer, control), variables)


class ConversationRenderer:
    """A tokenizer's chat template with one date, one thinking mode and one set of arguments."""

    def __init__(
        self,
        tokenizer: Any,
        date: str,
        think: bool | None = None,
        cache: TemplateCache | None = None,
        *,
        effort: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        vision: Vision | None = None,
        stop: Stop | None = None,
    ) -> None:
        """`date` is ISO 8601. `think` and `effort` None leave the template's own default.

        `arguments` that the template does not read are ignored. `cache` must be for the same tokenizer;
        without one, this template computes everything itself. Without `vision`, images are refused. A
        rendering is refused once `stop` is set, or after `REQUEST_SECONDS` for one prompt.
        """
        self.vision = vision
        self._tokenizer, self._stop = tokenizer, TimeLimit(stop)
        self._cache = cache or TemplateCache.of(tokenizer)
        self._tools = list((arguments or {}).get("tools") or ())
        self._source = source.template_source(tokenizer, bool(self._tools))
        self._options = source.clock(self._source, datetime.date.fromisoformat(date))
        if isinstance(tokenizer.chat_template, dict):
            self._options.setdefault("chat_template", self._source)
        variables = self._cache.variables
        self._options |= template_arguments(variables - {"tools"}, think, effort, arguments or {})
        if "functions" in variables:
            variables |= {"tools"}
        others = template_arguments(variables, None, effort, arguments or {})
        others_key = f" {json.dumps(others, sort_keys=True)}" if others else ""
        vision_key = f" {vision.key}" if vision is not None else ""
        # Identifies everything but the messages that the rendered text depends on.
        self.key = _digest(f"{self._source} {date} {think}{others_key}{vision_key}")
        self._learned_key = f"{_digest(self._source)} {bool(self._tools)}"

    def stopped_by(self, stop: Stop) -> Self:
        """The same template with another stop signal."""
        template = copy.copy(self)
        template._stop = TimeLimit(stop)
        return template

    def try_all(self) -> None:
        """Learn every form now instead of when a conversation first needs it. Raises `TemplateRefused`."""
        learned = self._cache.learned.get(self._learned_key) or Learned()
        parts = ladder.BY_NAME.keys() - (set() if self._tools else {"tools"})
        self._remember(learned.with_parts(parts, self._try, self._cache.seams.spelled))

    @property
    def shows_tools(self) -> bool:
        """Whether the template shows the tools that it is given. Raises `TemplateRefused`."""
        return self._learned_for([[]]).forms.tools not in ("unshown", "withheld")

    def text(self, messages: Sequence[Message], *, generation: bool) -> str:
        """The rendered conversation. Raises `TemplateRefused` with the template's own words."""
        wanted = list(messages)
        for known in self._cache.texts:
            if (known.key, known.generation) == (self.key, generation) and known.messages == wanted:
                return known.text
        (rendering,) = self._render_all([(self._safe_path(wanted), generation)])
        text = text_of(rendering)
        newest = RenderedText(self.key, generation, wanted, text)
        self._cache.texts = [*self._cache.texts[1 - MAX_TEXTS :], newest]
        return text

    def encode(self, text: str) -> list[int]:
        """Token ids. Control tokens that the text spells become control tokens."""
        return self._cache.encoder.encode(text)

    def tokens(self, messages: Sequence[Message], *, generation: bool) -> list[int]:
        """The rendered conversation as tokens, images included. Raises `TemplateRefused`."""
        tokens = self.encode(self.text(messages, generation=generation))
        images = pictures(messages)
        return self.vision.expanded(tokens, images) if self.vision and images else tokens

    # Rendering

    def _render_all(self, conversations: Sequence[SafeConversation]) -> list[Rendering]:
        """The text of each conversation, or its refusal, in one request to the rendering process."""
        learned = self._learned_for([messages for messages, _ in conversations])
        forms, held = learned.forms, [_with_placeholders(messages, learned) for messages, _ in conversations]
        renderings = self._render_in(
            forms,
            [
                (placeholders or messages, generation)
                for (messages, generation), (placeholders, _) in zip(conversations, held, strict=True)
            ],
        )
        failed: list[int] = []
        for at, (_, replies) in enumerate(held):
            rendering = renderings[at]
            if replies and isinstance(rendering, str):
                filled = self._fill_placeholders(rendering, replies, learned)
                if filled is None:
                    failed.append(at)
                else:
                    renderings[at] = filled
        # Text that cannot be inserted beside a call is rendered with the call as one text.
        forms = replace(forms, beside="text") if forms.beside == "inserted" else forms
        again = self._render_in(forms, [conversations[at] for at in failed])
        for at, rendering in zip(failed, again, strict=True):
            renderings[at] = rendering
        return renderings

    def _render_in(self, forms: Forms, conversations: Sequence[SafeConversation]) -> list[Rendering]:
        options = {**self._options, **tool_options(self._tools, forms)}
        return self._render_in_time(
            [(shape(messages, forms), generation, options) for messages, generation in conversations]
        )

    def _render_in_time(
        self, shaped: Sequence[tuple[list[Json], bool, Mapping[str, Any]]]
    ) -> list[Rendering]:
        """Raises `TemplateStopped`, or `TemplateCutOff` once all renderings together took too long."""
        with self._stop:
            try:
                return source.render(self._tokenizer, shaped, self._stop)
            except TemplateStopped:
                if not self._stop.is_over():
                    raise
        raise TemplateCutOff(
            f"The model's chat template needs over {self._stop.seconds:g} seconds for this conversation: "
            "start a new one, or choose another model with -m."
        )

    def _learned_for(self, conversations: Sequence[Sequence[SafeMessage]]) -> Learned:
        """The template's forms, with every part that these conversations have."""
        learned = before = self._cache.learned.get(self._learned_key) or Learned()
        for messages in conversations:
            parts = parts_of(messages, learned.forms)
            if self._tools:
                parts.add("tools")
            learned = learned.with_parts(parts, self._try, self._cache.seams.spelled)
            if any(each.written for each in messages):
                learned = learned.with_frame(self._try, self._cache.seams.spelled)
        if learned is not before:
            self._remember(learned)
        return learned

    def _remember(self, learned: Learned) -> None:
        self._cache.learned = {**self._cache.learned, self._learned_key: learned}

    def _try(self, conversations: Sequence[tuple[Sequence[SafeMessage], bool, Forms]]) -> list[Rendering]:
        """Render trial conversations on an invented date, so that the result fits every session."""
        options = source.clock(self._source, INVENTED_DATE)
        if "chat_template" in self._options:
            options.setdefault("chat_template", self._source)
        tools = [ladder.TOOL] if self._tools else []
        shaped = [
            (shape(messages, forms), generation, {**options, **tool_options(tools, forms)})
            for messages, generation, forms in conversations
        ]
        return self._render_in_time(shaped)

    def _fill_placeholders(self, text: str, replies: Sequence[SafeMessage], learned: Learned) -> str | None:
        """Replace each placeholder in a rendered text by its reply as the model wrote it.

        The tokens are then the generated ones, not those of the same JSON in another spelling. None if
        the template does not show a reply's calls in one contiguous block.
        """
        by_id = learned.frame is not None and learned.frame.by == "id"
        # A template may also write a call's name where it shows the result.
        names = {
            _placeholder(number, at): call.id if by_id else call.name
            for number, reply in enumerate(replies)
            for at, call in enumerate(reply.calls)
        }

        def named(part: str) -> str:
            return PLACEHOLDERS.sub(lambda mark: names.get(mark[0], mark[0]), part)

        parts, done = [], 0
        for number, reply in enumerate(replies):
            as_text = calls_as_text(reply, learned.forms)
            place = _find_reply(text, done, number, reply, None if as_text else learned)
            if place is None:
                return None
            start, end = place
            part = named(text[start:end])
            if reply.written is None:
                part = reply.text + part
            else:
                marks = part
                if as_text:
                    # The beginning and end of each call, where the model's control tokens may stand.
                    content = reply.written.content
                    calls = [content[call.start : call.end] for call in reply.written.tool_calls]
                    marks = " ".join(f"{call[:MARK_CHARACTERS]} {call[-MARK_CHARACTERS:]}" for call in calls)
                part = self._cache.seams.safe(reply.written.content, written=marks)
            parts += [named(text[done:start]), part]
            done = end
        return "".join([*parts, named(text[done:])])

    # Messages whose texts cannot spell control tokens

    def _as_dicts(self, messages: Sequence[Message]) -> list[Json]:
        """The messages in the forms that the template supports."""
        safe = self._safe_path(messages)
        return shape(safe, self._learned_for([safe]).forms)

    def _safe_path(self, messages: Sequence[Message]) -> list[SafeMessage]:
        return self._known(messages).safe[: len(messages)]

    def _known(self, messages: Sequence[Message]) -> KnownPath:
        """The cached path that begins with these messages, extended by the new ones."""
        path = self._cache.path
        shared = common_prefix(path.messages, messages)
        if shared < len(messages):
            safe, hashes = path.safe[:shared], path.hashes[: shared + 1]
            calls = {call.id: (each, call) for each in safe for call in each.calls}
            for message in messages[shared:]:
                new = self._safe(message, calls.get(message.tool_call_id))
                calls |= {call.id: (new, call) for call in new.calls}
                safe.append(new)
                content = f"{message.role} {len(message.content)} {message.content}{message.thinking}"
                content += "".join(f" image {picture.sha256}" for picture in message.images)
                if message.tool_calls or message.tool_call_id:
                    content += f" {message.tool_call_id} {message.tool_calls}"
                hashes.append(_digest(hashes[-1] + content))
            path = self._cache.path = KnownPath(list(messages), safe, hashes)
        return path

    def _safe(self, message: Message, answers: tuple[SafeMessage, SafeCall] | None = None) -> SafeMessage:
        """A message whose texts cannot spell control tokens. A tool result `answers` a call."""
        safe = self._cache.seams.safe
        if message.images and self.vision is None:
            raise ImagesRefused(IMAGES_UNSUPPORTED)
        calls = tuple(
            SafeCall(safe(each.name), safe(each.arguments), self._safe_arguments(each.arguments), each.id)
            for each in message.tool_calls
        )
        as_written = bool(calls) and all(call.start < call.end for call in message.tool_calls)
        return SafeMessage(
            message.role,
            safe(message.text),
            safe(message.thinking) if message.thinking else "",
            calls,
            message.tool_call_id,
            answers if message.role == "tool" else None,
            len(message.images),
            message if as_written else None,
        )

    def _safe_arguments(self, arguments: str) -> Any:
        """Arguments parsed as JSON with every string made safe; safe text if they are not JSON."""
        safe = self._cache.seams.safe

        def safe_value(value: Any) -> Any:
            if isinstance(value, dict):
                return {safe(key): safe_value(each) for key, each in value.items()}
            if isinstance(value, list):
                return [safe_value(each) for each in value]
            return safe(value) if isinstance(value, str) else value

        with suppress(ValueError, RecursionError):
            value = json.loads(arguments)
            if is_shallow(value, MAX_DEPTH):
                return safe_value(value)
        return safe(arguments)


def _placeholder(reply: int, call: int = 0) -> str:
    return f"{PLACEHOLDER}{reply}.{call}{PLACEHOLDER}"


def _with_placeholders(
    messages: Sequence[SafeMessage], learned: Learned
) -> tuple[list[SafeMessage] | None, list[SafeMessage]]:
    """Messages with placeholders for the replies that must appear as written, and those replies."""
    held: list[SafeMessage] = []
    replies: list[SafeMessage] = []
    for each in messages:
        inserted = learned.forms.beside == "inserted" and each.calls and each.text
        if each.written is None and not inserted:
            held.append(each)
            continue
        number = len(replies)
        replies.append(each)
        if calls_as_text(each, learned.forms):
            held.append(SafeMessage(each.role, _placeholder(number), each.thinking))
            continue
        by = "id" if learned.frame and learned.frame.by == "id" else "name"
        calls = [replace(call, **{by: _placeholder(number, at)}) for at, call in enumerate(each.calls)]
        # If each call becomes a reply of its own, the first one stands for all.
        calls = calls[:1] if learned.forms.several == "apart" else calls
        held.append(SafeMessage(each.role, "", each.thinking, tuple(calls)))
    if not replies or any(PLACEHOLDER in each.text for each in messages):
        return None, []
    return held, replies


def _find_reply(
    text: str, begin: int, number: int, reply: SafeMessage, learned: Learned | None
) -> tuple[int, int] | None:
    """The [start, end) of a reply's placeholders in a rendered text, from `begin`; None if uncertain.

    `learned` None: one placeholder stands for the whole reply.
    """
    mark = _placeholder(number)
    last = place = text.find(mark, begin)
    if place < 0 or PLACEHOLDER in text[begin:place]:
        return None
    if learned is None:
        return place, place + len(mark)
    frame = learned.frame
    if frame is None:
        return None
    start = text.rfind(frame.lead, begin, place)
    for at in range(1, 1 if learned.forms.several == "apart" else len(reply.calls)):
        last = text.find(_placeholder(number, at), last)
        if last < 0:
            return None
    end = text.find(frame.end, last)
    if start < 0 or end < 0 or not (frame.counted or start + len(frame.lead) == place):
        return None
    if any(not each.startswith(f"{number}.") for each in text[place:end].split(PLACEHOLDER)[1::2]):
        return None
    if frame.closes:
        end += len(frame.end)
        # The model's text after the last call, if the template writes it too.
        rest = reply.written.content.rpartition(frame.end)[2].strip() if reply.written else ""
        if rest:
            ended = text[end:].lstrip()
            if not ended.startswith(rest):
                return None
            end = len(text) - len(ended) + len(rest)
    return start, end


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
