"""Shared by all APIs: request fields that are checked as they are read, and event stream frames."""

from __future__ import annotations

import json
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError, NoRoom, UsageError
from chatcli.events import PrefillProgress, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.settings.declaration import Int
from chatcli.settings.values import SETTINGS, Sampling
from chatcli.text import shorten

# The deepest nesting accepted: templates and their filters walk values by recursion.
MAX_JSON_DEPTH = 64
# More values than messages of a million tokens have.
MAX_JSON_VALUES = 1 << 19
VALUE_STARTS = (b",", b"[", b"{")
# A JSON string, even if unterminated. Possessive, so it never backtracks.
JSON_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# Fields that change no answer here, or whose effect another field or this server's defaults provide.
NO_EFFECT = {
    *("model", "user", "metadata", "client_metadata", "store", "service_tier", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_retention", "cache_control", "include", "betas", "inference_geo"),
    *("stream_options", "top_logprobs", "seed", "speed"),
}
FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
# OpenAI's limit.
MAX_TOP_LOGPROBS = 20
MAX_SHOWN_VALUE = 40
# System prompt blocks with this prefix change with each request, so no prompt would share its beginning.
CHANGING_SYSTEM = "x-anthropic-"
# More tokens than any context has.
NO_LIMIT = 1 << 62
SEED_BITS = 63
KINDS = {str: "a string", bool: "true or false", list: "a list", dict: "an object", int: "a whole number"}

Json = dict[str, Any]
T = TypeVar("T", str, bool, int, list[Any], Json)


class BadRequest(UsageError):
    """An invalid request; `param` is the field at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True)
class Fields:
    """A JSON object of a request, and its path, such as `messages[2]`."""

    values: Mapping[str, Any]
    path: str = ""

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str, kind: type[T]) -> T | None:
        """A field's value, None if it is null or missing. Raises `BadRequest`."""
        value = self.values.get(key)
        # In Python, True is an int.
        if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
            return value
        raise self.wrong(key, f"must be {KINDS[kind]}")

    def need(self, key: str, kind: type[T]) -> T:
        """A required field's value. Raises `BadRequest`."""
        value = self.get(key, kind)
        if value is None:
            raise self.wrong(key, f"is missing: it must be {KINDS[kind]}")
        return value

    def object(self, key: str) -> Fields | None:
        values = self.get(key, dict)
        return None if values is None else Fields(values, self.name(key))

    def objects(self, key: str) -> list[Fields]:
        """The objects of a list; empty if the field is missing. Raises `BadRequest`."""
        path = self.name(key)
        for number, value in enumerate(values := self.get(key, list) or []):
            if not isinstance(value, dict):
                raise BadRequest(f"{path}[{number}] must be an object.", f"{path}[{number}]")
        return [Fields(value, f"{path}[{number}]") for number, value in enumerate(values)]

    def refuse(self, key: str, why: str) -> None:
        """Raise `BadRequest` if the field is set to anything but an empty or false value."""
        if self.values.get(key) not in (None, False, [], {}, ""):
            raise self.wrong(key, why)

    def wrong(self, key: str, why: str) -> BadRequest:
        return BadRequest(f"{self.name(key)} {why}.", self.name(key))

    def sampling(self, settings: Mapping[str, str], *, reads_ahead: bool = False, **known: Any) -> Sampling:
        """Sampling settings from fields; `settings` maps fields to settings.

        `reads_ahead`: `max_tokens` may be 0, which only prefills the prompt. Raises `BadRequest`.
        """
        for name, key in settings.items():
            # An empty list of stop sequences means no stop sequences.
            if (value := meant(key, self.values.get(name))) in (None, []):
                continue
            if reads_ahead and key == "max_tokens" and value == 0 and value is not False:
                known[key] = 0
                continue
            try:
                known[key] = SETTINGS[key].load(SETTINGS[key].check(value, self.name(name)))
            except UsageError as error:
                raise BadRequest(str(error), self.name(name)) from None
        return Sampling(**known)

    def template_arguments(self, key: str) -> dict[str, Any]:
        """Chat template arguments by name. Raises `BadRequest`."""
        arguments = self.get(key, dict) or {}
        if wrong := next((name for name in arguments if not name.isidentifier()), None):
            raise self.wrong(
                key, f"has a name that is not a template variable: '{shorten(wrong, MAX_SHOWN_VALUE)}'"
            )
        return arguments


def meant(setting: str, value: Any) -> Any:
    """Translate values that other servers accept outside the range of our setting.

    `max_tokens` -1 (LM Studio, llama.cpp) and -2 (llama.cpp) mean no limit. `top_k` below 1 means off (vLLM,
    llama.cpp). `seed` -1 means a random seed (llama.cpp); others may be any 64-bit number (vLLM).
    """
    if isinstance(value, float) and value.is_integer() and isinstance(SETTINGS[setting], Int):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (value >= 0 and setting != "seed"):
        return value
    match setting:
        case "max_tokens" if value in (-1, -2):
            return NO_LIMIT
        case "top_k":
            return 0
        case "seed":
            return secrets.randbits(SEED_BITS) if value == -1 else value % (1 << SEED_BITS)
    return value


def parse(body: bytes | bytearray) -> Fields:
    """Parse a request's body. Raises `BadRequest`."""
    if _values_in(body) > MAX_JSON_VALUES:
        raise BadRequest(f"The body of the request has more than {MAX_JSON_VALUES:,} values.")
    try:
        # Decoded here, because json also accepts UTF-16 and lone surrogates.
        values = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
        if b"\\u" in body:
            # Escapes may spell lone surrogates, which are not valid text.
            text = json.dumps(values, ensure_ascii=False)
            values = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise BadRequest(f"The body of the request is not valid JSON: {shorten(reason, 80)}.") from None
    if not isinstance(values, dict):
        raise BadRequest("The body of the request must be a JSON object.")
    if is_deep(values):
        raise BadRequest(f"The body of the request is nested deeper than {MAX_JSON_DEPTH} levels.")
    return Fields(Body(values))


class Body(dict[str, Any]):
    """A request's fields. `read` holds the keys that were looked up."""

    def __init__(self, values: Json) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def unread(self) -> list[str]:
        """The fields that were sent but never read, and that other servers may act on."""
        unread = self.keys() - self.read - NO_EFFECT
        return sorted(key for key in unread if self[key] is not None and FIELD_NAME.fullmatch(key))


def is_deep(value: Any) -> bool:
    """Whether an object or list is nested deeper than `MAX_JSON_DEPTH` levels."""
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [child for value in level for child in (value.values() if isinstance(value, dict) else value)]
        level = [child for child in level if isinstance(child, dict | list)]
    return bool(level)


def shallow(arguments: str) -> str:
    """A call's arguments, as a JSON string if they are nested too deep for templates and filters."""
    if sum(map(arguments.count, "[{")) <= MAX_JSON_DEPTH:
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return json.dumps(arguments) if isinstance(value, dict | list) and is_deep(value) else arguments


def with_shallow_calls(request: ReplyRequest) -> ReplyRequest:
    messages = []
    for message in request.messages:
        calls = tuple(replace(call, arguments=shallow(call.arguments)) for call in message.tool_calls)
        messages.append(replace(message, tool_calls=calls) if calls else message)
    return replace(request, messages=tuple(messages))


def _values_in(body: bytes | bytearray) -> int:
    """An upper bound of how many values a JSON text has. A value takes far more memory than its text."""
    count = sum(map(body.count, VALUE_STARTS))
    # Subtract the matches inside strings.
    for number, text in enumerate(JSON_TEXT.finditer(body) if count > MAX_JSON_VALUES else ()):
        count -= sum(body.count(start, *text.span()) for start in VALUE_STARTS)
        if number > 2 * MAX_JSON_VALUES:  # names and values
            return number
    return count


def sentence_of(error: ChatcliError) -> str:
    """An error's sentence for an API client, without advice about the shell's commands."""
    return f"{error.facts} Make the conversation shorter." if isinstance(error, NoRoom) else str(error)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def in_order(
    messages: Sequence[Message], field: str = "messages"
) -> tuple[tuple[Message, ...], Message | None]:
    """Rearrange messages into an order that every chat template accepts. Raises `BadRequest` for `field`.

    Returns them without a final assistant message, and that message, which the model continues (else None).
    Leading system messages are joined. Many templates refuse later ones, so those become user messages in
    tags. Consecutive user messages are joined.
    """
    runs: list[list[Message]] = []
    beginning = messages[-1] if messages and messages[-1].role == "assistant" else None
    if beginning is not None:
        messages = messages[:-1]
        if beginning.tool_calls:
            raise BadRequest(f"{field} must not end with tool calls: add their results.", field)
        if not beginning.content and not beginning.thinking:
            beginning = None
    for message in messages:
        if message.role == "system" and not message.content.strip():
            continue
        last = runs[-1][0].role if runs else None
        if message.role == "system" and last not in (None, "system"):
            message = replace(message, role="user", content=f"<system>\n{message.content}\n</system>")
        if message.role == last and last in ("system", "user"):
            runs[-1].append(message)
        else:
            runs.append([message])
    if not runs or runs[-1][0].role not in ("user", "tool"):
        raise BadRequest(
            f"{field} must end with a user message, a tool result, or the start of a reply to one.", field
        )
    return tuple(
        replace(
            run[0],
            content="\n\n".join(message.content for message in run),
            images=tuple(picture for message in run for picture in message.images),
        )
        for run in runs
    ), beginning


def thinks(asked: bool | None, beginning: Message | None) -> bool | None:
    """Whether to think, as `asked`; False if the reply's beginning has text without thinking."""
    return False if beginning is not None and not beginning.thinking else asked


def frame(data: Mapping[str, Any] | str, event: str = "") -> bytes:
    """One server-sent event. The JSON is ASCII, so that it cannot contain a line separator."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


class Exchange(ABC):
    """A request in one API's format, and its reply in that format, streamed or whole."""

    stream: bool
    request: ReplyRequest
    # Types of tools in the request that the model cannot see.
    left_out: Sequence[str] = ()
    # Fields of the request that this server does not know.
    unread: Sequence[str] = ()
    # The field that may have a JSON schema for the answer.
    format_field = "response_format"

    def __init__(self, model: str) -> None:
        self.model = model
        self.text = self.thinking = ""
        self.calls: tuple[ToolCall, ...] = ()
        self.record: TurnRecord | None = None
        self.stop_text: str | None = None
        self.progress: PrefillProgress | None = None

    @property
    def requests(self) -> Sequence[ReplyRequest]:
        """The requests for the engine, one for each reply."""
        return (self.request,)

    def part(self, number: int) -> Exchange:
        """The exchange that takes the events of reply `number`, from 0."""
        return self

    def take(self, event: ReplyEvent) -> bytes:
        """Add an event to the reply. Returns its stream frames, which may be empty."""
        match event:
            case PrefillProgress():
                self.progress = event
            case TextDelta(text):
                self.text += text
            case ThinkingDelta(text):
                self.thinking += text
            case CallsMade(calls):
                self.calls += calls
            case ReplyDone():
                self.record, self.stop_text = event.record, event.stop_text
        return self.frames(event)

    @abstractmethod
    def frames(self, event: ReplyEvent) -> bytes:
        """The stream frames of an event that was just added."""

    @abstractmethod
    def whole(self) -> Json:
        """The finished reply as one object."""

    def keep_alive(self) -> bytes:
        """The frame that keeps an idle stream open."""
        # A comment, which clients ignore.
        if self.progress is None:
            return b": waiting\n\n"
        return f": prefill {self.progress.done}/{self.progress.total}\n\n".encode()

    @abstractmethod
    def error_frame(self, error: ChatcliError, status: int) -> bytes:
        """The last frame of a stream that fails after it has begun."""
