"""What the APIs share: a request's fields, checked as they are read, and the frames of an event stream."""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from chatcli.conversation import images
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError, NoRoom, UsageError
from chatcli.events import PrefillProgress, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.settings.declaration import Int
from chatcli.settings.values import SETTINGS, Sampling
from chatcli.text import shorten

# Deeper objects are no request: templates and their filters walk them by recursion.
MAX_JSON_DEPTH = 64
# As many as messages of a million tokens have, with room.
MAX_JSON_VALUES = 1 << 19
VALUE_STARTS = (b",", b"[", b"{")
# A text in JSON, also one that is not closed; nothing of it is tried twice.
JSON_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# Of likeliest tokens in the place of one, as OpenAI has it.
MAX_TOP_LOGPROBS = 20
MAX_SHOWN_VALUE = 40
# Blocks of a system prompt that begin so change with each request, and would part every prompt at its start.
CHANGING_SYSTEM = "x-anthropic-"
# More tokens than any context has.
NO_LIMIT = 1 << 62
SEED_BITS = 63
KINDS = {str: "a string", bool: "true or false", list: "a list", dict: "an object", int: "a whole number"}

Json = dict[str, Any]
T = TypeVar("T", str, bool, int, list[Any], Json)


class BadRequest(UsageError):
    """A request that cannot be answered as it is; `param` is the field at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True)
class Fields:
    """A JSON object of a request, and the path that leads to it, such as `messages[2]`."""

    values: Mapping[str, Any]
    path: str = ""

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str, kind: type[T]) -> T | None:
        """A field's value, None where it is null or not there. Raises `BadRequest`."""
        value = self.values.get(key)
        # True is a whole number to Python.
        if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
            return value
        raise self.wrong(key, f"must be {KINDS[kind]}")

    def need(self, key: str, kind: type[T]) -> T:
        """A field's value. Raises `BadRequest`."""
        value = self.get(key, kind)
        if value is None:
            raise self.wrong(key, f"is missing: it must be {KINDS[kind]}")
        return value

    def object(self, key: str) -> Fields | None:
        values = self.get(key, dict)
        return None if values is None else Fields(values, self.name(key))

    def objects(self, key: str) -> list[Fields]:
        """The objects of a list, none where there is no list. Raises `BadRequest`."""
        path = self.name(key)
        for number, value in enumerate(values := self.get(key, list) or []):
            if not isinstance(value, dict):
                raise BadRequest(f"{path}[{number}] must be an object.", f"{path}[{number}]")
        return [Fields(value, f"{path}[{number}]") for number, value in enumerate(values)]

    def refuse(self, key: str, why: str) -> None:
        """Raise `BadRequest` if the field is there and says more than no."""
        if self.values.get(key) not in (None, False, [], {}, ""):
            raise self.wrong(key, why)

    def wrong(self, key: str, why: str) -> BadRequest:
        return BadRequest(f"{self.name(key)} {why}.", self.name(key))

    def sampling(self, settings: Mapping[str, str], *, reads_ahead: bool = False, **known: Any) -> Sampling:
        """What fields say about sampling; `settings` are the settings' keys by field.

        `reads_ahead`: no tokens at all may be asked for, which has a prompt read. Raises `BadRequest`.
        """
        for name, key in settings.items():
            # An empty list of stop texts is none.
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
        """Arguments for the chat template by name. Raises `BadRequest`."""
        arguments = self.get(key, dict) or {}
        if wrong := next((name for name in arguments if not name.isidentifier()), None):
            raise self.wrong(
                key, f"has a name that no template can read: '{shorten(wrong, MAX_SHOWN_VALUE)}'"
            )
        return arguments


def meant(setting: str, value: Any) -> Any:
    """A field's value as the clients of other servers mean it, where the setting has another range.

    `max_tokens` -1 (LM Studio, llama.cpp; there -2 too) is no limit. A `top_k` below 1 (vLLM, llama.cpp) is
    off. The `seed` -1 (llama.cpp) is a new one each time; others may be any number of 64 bits (vLLM).
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
    """A request's body. Raises `BadRequest`."""
    if _values_in(body) > MAX_JSON_VALUES:
        raise BadRequest(f"The body of the request has more than {MAX_JSON_VALUES:,} values.")
    try:
        # Left to itself, json takes UTF-16 too, and halves of surrogate pairs.
        values = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
        if b"\\u" in body:
            # Escapes may spell halves of surrogate pairs, which are no text.
            text = json.dumps(values, ensure_ascii=False)
            values = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise BadRequest(f"The body of the request is no JSON: {shorten(reason, 80)}.") from None
    if not isinstance(values, dict):
        raise BadRequest("The body of the request must be a JSON object.")
    if is_deep(values):
        raise BadRequest(f"The body of the request is nested deeper than {MAX_JSON_DEPTH} levels.")
    return Fields(values)


def is_deep(value: Any) -> bool:
    """Whether a JSON object or list is nested deeper than `MAX_JSON_DEPTH` levels."""
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [child for value in level for child in (value.values() if isinstance(value, dict) else value)]
        level = [child for child in level if isinstance(child, dict | list)]
    return bool(level)


def shallow(arguments: str) -> str:
    """A call's arguments; those that are nested too deep for what walks them become a text, in JSON too."""
    if sum(map(arguments.count, "[{")) <= MAX_JSON_DEPTH:
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return json.dumps(arguments) if isinstance(value, dict | list) and is_deep(value) else arguments


def with_shallow_calls(request: ReplyRequest) -> ReplyRequest:
    messages = tuple(
        replace(
            message,
            tool_calls=tuple(replace(call, arguments=shallow(call.arguments)) for call in message.tool_calls),
        )
        if message.tool_calls
        else message
        for message in request.messages
    )
    return replace(request, messages=messages)


def _values_in(body: bytes | bytearray) -> int:
    """How many values a JSON text has, at most: each of them takes far more memory than its letters."""
    count = sum(map(body.count, VALUE_STARTS))
    # Most of them may stand in texts.
    for number, text in enumerate(JSON_TEXT.finditer(body) if count > MAX_JSON_VALUES else ()):
        count -= sum(body.count(start, *text.span()) for start in VALUE_STARTS)
        if number > 2 * MAX_JSON_VALUES:  # names and values
            return number
    return count


def sentence_of(error: ChatcliError) -> str:
    """An error as it is told to a program, which has no shell to take advice in."""
    return f"{error.facts} Make the conversation shorter." if isinstance(error, NoRoom) else str(error)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def read_image(where: str, data: str) -> Image:
    """An image from base64. Raises `BadRequest`, and what `images.from_bytes` raises."""
    try:
        return images.from_bytes("image", base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest(f"{where} is no base64.", where) from None


def brought(messages: Sequence[Message]) -> tuple[str, ...]:
    """The hashes of the images that come with what is asked now, not with what was said before."""
    last = messages[-1] if messages and messages[-1].role == "user" else None
    return tuple(picture.sha256 for picture in last.images) if last is not None else ()


def in_order(messages: Iterable[Message], field: str = "messages") -> tuple[Message, ...]:
    """The messages as every chat template takes them; `field` has them. Raises `BadRequest`.

    Those of the system that come first are one. A later one, which many templates refuse, is the user's,
    in tags that tell it apart. Messages of the user that follow each other are one.
    """
    runs: list[list[Message]] = []
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
            f"{field} must end with a user's message or a tool's result: an assistant's is not gone on with.",
            field,
        )
    return tuple(
        replace(
            run[0],
            content="\n\n".join(message.content for message in run),
            images=tuple(picture for message in run for picture in message.images),
        )
        for run in runs
    )


def frame(data: Mapping[str, Any] | str, event: str = "") -> bytes:
    """One server-sent event. JSON in ASCII, so that no reader takes a character for a line's end."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def comment(progress: PrefillProgress | None) -> bytes:
    """A line of an event stream that readers skip."""
    return f": prefill {progress.done}/{progress.total}\n\n".encode() if progress else b": waiting\n\n"


class Exchange(ABC):
    """A request in one API's format, and its reply in that format: as a stream's frames, or whole."""

    stream: bool
    request: ReplyRequest
    # Types of tools that the request brings and the model is not shown.
    left_out: Sequence[str] = ()

    def __init__(self, model: str) -> None:
        self.model = model
        self.text = self.thinking = ""
        self.calls: tuple[ToolCall, ...] = ()
        self.record: TurnRecord | None = None
        self.stop_text: str | None = None
        self.progress: PrefillProgress | None = None

    def take(self, event: ReplyEvent) -> bytes:
        """Add an event to the reply. Returns what a stream says then, which may be nothing."""
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
        """What a stream says of an event that has been added."""

    @abstractmethod
    def whole(self) -> Json:
        """The reply as one object, once it is done."""

    def keep_alive(self) -> bytes:
        """What a stream says while there is nothing to say."""
        return comment(self.progress)

    @abstractmethod
    def error_frame(self, error: ChatcliError, status: int) -> bytes:
        """What a stream that has begun ends with if there is no more to come."""
