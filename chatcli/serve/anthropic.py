"""Anthropic's API: messages to a request for a reply, and the reply back. Nothing here knows HTTP."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ChatcliError, ContextFull
from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.openai import read_or_note, tool_object
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.serve.wire import (
    CHANGING_SYSTEM,
    Exchange,
    Fields,
    Json,
    brought,
    frame,
    in_order,
    is_deep,
    read_image,
    sentence_of,
)

SAMPLING = {
    "temperature": "temp",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_tokens",
    "stop_sequences": "stop",
}
# Clients give a thought's signature back with it, and nobody here asks for it.
SIGNATURE = "Y2hhdGNsaQ=="
ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}
# Agents make the conversation shorter where an error begins so.
TOO_LONG = "prompt is too long: "


def error_body(status: int, message: str) -> Json:
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def error_of(error: ChatcliError, status: int) -> Json:
    return error_body(status, f"{TOO_LONG if isinstance(error, ContextFull) else ''}{sentence_of(error)}")


class Messages(Exchange):
    """`POST /v1/messages`."""

    def __init__(self, body: Fields, model: str) -> None:
        """Raises `BadRequest`, `NotAnImage` and `ImagesRefused`."""
        super().__init__(model)
        self.stream = body.get("stream", bool) or False
        self._id = f"msg_{uuid.uuid4().hex}"
        self._matched = PrefixMatched(0, 0, None)
        self._blocks: list[Json] = []
        self.request = read_request(body)

    def frames(self, event: ReplyEvent) -> bytes:
        match event:
            case PrefixMatched():
                self._matched = event
                reused = event.reused_tokens + event.typeahead_tokens
                message = self._message(usage(event.prompt_tokens, reused, 0), None)
                return frame(
                    {"type": "message_start", "message": {**message, "content": []}}, "message_start"
                )
            case ThinkingDelta(text) if text:
                return self._grow("thinking", text)
            case TextDelta(text) if text:
                return self._grow("text", text)
            case CallsMade(calls):
                return b"".join(map(self._call, calls))
            case ReplyDone(record):
                end = {"stop_reason": self._stop_reason(record), "stop_sequence": self.stop_text}
                data = {"type": "message_delta", "delta": end, "usage": record_usage(record)}
                stop = frame({"type": "message_stop"}, "message_stop")
                return self._close() + frame(data, "message_delta") + stop
        return b""

    def _grow(self, kind: str, text: str) -> bytes:
        """Add text to a block of this kind, which is the last one or begins now."""
        data = b""
        if not self._blocks or self._blocks[-1]["type"] != kind:
            data = self._close() + self._open({"type": kind, kind: ""})
        self._blocks[-1][kind] += text
        return data + self._delta({"type": f"{kind}_delta", kind: text})

    def _call(self, call: ToolCall) -> bytes:
        """A whole block: a call comes in one piece, when all of it is there."""
        data = self._close() + self._open({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        block = self._blocks[-1]
        block["input"], partial = call_input(call.arguments)
        return data + self._delta({"type": "input_json_delta", "partial_json": partial})

    def _open(self, block: Json) -> bytes:
        if block["type"] == "thinking":
            block["signature"] = ""
        self._blocks.append(block)
        data = {"type": "content_block_start", "index": len(self._blocks) - 1, "content_block": block}
        return frame(data, "content_block_start")

    def _delta(self, delta: Json) -> bytes:
        data = {"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta}
        return frame(data, "content_block_delta")

    def _close(self) -> bytes:
        """End the last block, if there is one."""
        if not self._blocks:
            return b""
        data = b""
        if self._blocks[-1]["type"] == "thinking":
            self._blocks[-1]["signature"] = SIGNATURE
            data = self._delta({"type": "signature_delta", "signature": SIGNATURE})
        end = {"type": "content_block_stop", "index": len(self._blocks) - 1}
        return data + frame(end, "content_block_stop")

    def _message(self, usage: Json, reason: str | None) -> Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self._blocks,
            "stop_reason": reason,
            "stop_sequence": self.stop_text,
            "usage": usage,
        }

    def whole(self) -> Json:
        assert self.record is not None
        return self._message(record_usage(self.record), self._stop_reason(self.record))

    def _stop_reason(self, record: TurnRecord) -> str:
        if record.finish_reason == "length":
            return "max_tokens"
        if self.stop_text is not None:
            return "stop_sequence"
        return "tool_use" if self.calls else "end_turn"

    def keep_alive(self) -> bytes:
        # Before its first event a stream must have no other.
        has_begun = bool(self._matched.prompt_tokens)
        return frame({"type": "ping"}, "ping") if has_begun else super().keep_alive()

    def error_frame(self, error: ChatcliError, status: int) -> bytes:
        return frame(error_of(error, status), "error")


class TokenCount(Messages):
    """`POST /v1/messages/count_tokens`."""

    def __init__(self, body: Fields, model: str) -> None:
        super().__init__(body, model)
        self.stream = False
        self.request = replace(self.request, count_only=True)

    def whole(self) -> Json:
        assert self.record is not None
        return {"input_tokens": self.record.prompt_tokens}


def call_input(arguments: str) -> tuple[Json, str]:
    """A call's arguments as the object that they must be here, and as JSON."""
    try:
        parsed = json.loads(arguments)
        # Python reads numbers that JSON does not have.
        json.dumps(parsed, allow_nan=False)
    except (ValueError, RecursionError):
        parsed = arguments
    if isinstance(parsed, dict) and not is_deep(parsed):
        return parsed, arguments
    if isinstance(parsed, dict | list) and is_deep(parsed):
        parsed = arguments
    return {"arguments": parsed}, json.dumps({"arguments": parsed})


def usage(prompt: int, reused: int, generated: int) -> Json:
    """Token counts as Anthropic has them: input tokens are those that were run, beside the cached ones."""
    return {
        "input_tokens": prompt - reused,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reused,
        "output_tokens": generated,
    }


def record_usage(record: TurnRecord) -> Json:
    reused = record.reused_tokens + record.typeahead_tokens
    return usage(record.prompt_tokens, reused, record.generated_tokens)


def read_request(body: Fields) -> ReplyRequest:
    """Raises `BadRequest`, `NotAnImage` and `ImagesRefused`."""
    images: dict[str, Image] = {}
    body.need("messages", list)
    system = Message("system", _read_system(body))
    said = list(_read_messages(body.objects("messages"), images))
    messages = in_order([system, *said])
    think, budget = None, None
    if (thinking := body.object("thinking")) is not None:
        kind = thinking.need("type", str)
        if kind not in ("enabled", "disabled", "adaptive"):
            raise thinking.wrong("type", "must be enabled, disabled or adaptive")
        think = kind != "disabled"
        budget = thinking.get("budget_tokens", int) if think else None
        if budget is not None and budget < 0:
            raise thinking.wrong("budget_tokens", "must be a whole number ≥ 0")
    output = body.object("output_config") or Fields({})
    output.refuse("format", "is not supported: replies are not forced into a form")
    body.refuse("output_format", "is not supported: replies are not forced into a form")
    return ReplyRequest(
        messages=messages,
        tools=_read_tools(body),
        images=tuple(images.values()),
        brought=brought(said),
        sampling=body.sampling(SAMPLING, reads_ahead=True, think_budget=budget),
        think=think,
        effort=output.get("effort", str) or None,
        arguments=body.template_arguments("chat_template_kwargs"),
    )


def _read_system(body: Fields) -> str:
    """The system prompt without the blocks that are no part of it."""
    system = body.values.get("system")
    if system is None or isinstance(system, str):
        texts = [system or ""]
    else:
        texts = [block.need("text", str) for block in body.objects("system")]
    return "\n\n".join(text for text in texts if not text.startswith(CHANGING_SYSTEM))


def _read_tools(body: Fields) -> tuple[Json, ...]:
    tools = []
    for tool in body.objects("tools"):
        if tool.get("type", str) not in (None, "custom"):
            raise tool.wrong("type", "must be custom: tools that a server runs are not here")
        tool.need("input_schema", dict)
        tools.append(tool_object(tool, "input_schema"))
    choice = body.object("tool_choice")
    match choice.need("type", str) if choice else "auto":
        case "auto":
            return tuple(tools)
        case "none":
            return ()
    raise body.wrong("tool_choice", "must be auto or none: a model cannot be forced to call a tool here")


def _read_messages(given: Sequence[Fields], images: dict[str, Image]) -> Iterator[Message]:
    for number, fields in enumerate(given, start=1):
        role = fields.need("role", str)
        if role not in ("user", "assistant", "system"):
            raise fields.wrong("role", "must be user, assistant or system")
        content = fields.values.get("content")
        if isinstance(content, str):
            yield Message(role, content)  # type: ignore[arg-type]
            continue
        fields.need("content", list)
        blocks = fields.objects("content")
        if role == "assistant":
            yield from _read_reply(blocks, images)
        else:
            is_asked = number == len(given) and role == "user"
            yield from _read_user(role, blocks, images, lenient=not is_asked)


def _read_reply(blocks: Sequence[Fields], images: dict[str, Image]) -> Iterator[Message]:
    """A reply whose calls keep their places in its text; a result that stands within it divides it."""
    text = thinking = ""
    calls: list[ToolCall] = []
    is_divided = False
    for block in blocks:
        kind = block.need("type", str)
        if kind == "text":
            text += block.need("text", str)
        elif kind == "thinking":
            thinking += block.get("thinking", str) or ""
        elif kind == "redacted_thinking":
            pass
        elif kind == "compaction":
            text += block.get("content", str) or ""
        elif kind == "tool_use" or kind.endswith("_tool_use"):
            arguments = json.dumps(block.get("input", dict) or {}, ensure_ascii=False)
            name, call_id = block.need("name", str), block.get("id", str) or ""
            calls.append(ToolCall(name, arguments, call_id, len(text), len(text)))
        elif kind.endswith("_tool_result"):
            if text or thinking or calls:
                yield Message("assistant", text, thinking, tool_calls=tuple(calls))
            yield _read_result(block, images)
            text, thinking, calls, is_divided = "", "", [], True
        else:
            raise block.wrong("type", "must be text, thinking, redacted_thinking or tool_use")
    if text or thinking or calls or not is_divided:
        yield Message("assistant", text, thinking, tool_calls=tuple(calls))


def _read_user(
    role: Any, blocks: Sequence[Fields], images: dict[str, Image], *, lenient: bool
) -> Iterator[Message]:
    """Each tool's result is a message of its own, and so is what stands around them."""
    texts: list[str] = []
    pictures: list[Picture] = []
    for block in blocks:
        if block.need("type", str) == "tool_result":
            if texts or pictures:
                yield Message(role, "\n".join(texts), images=tuple(pictures))
            texts, pictures = [], []
            yield _read_result(block, images)
        else:
            text, picture = _read_block(block, images, lenient=lenient)
            texts += [text] if picture is None else []
            pictures += [picture] if picture is not None else []
    if texts or pictures or not blocks:
        yield Message(role, "\n".join(texts), images=tuple(pictures))


def _read_result(block: Fields, images: dict[str, Image]) -> Message:
    content = block.values.get("content")
    is_own = block.need("type", str) == "tool_result"
    if content is None or isinstance(content, str):
        parts: list[tuple[str, Picture | None]] = [(content or "", None)]
    elif is_own:
        parts = [_read_block(part, images, lenient=True) for part in block.objects("content")]
    else:  # of a tool that Anthropic's servers have run: each has blocks of its own
        parts = [(json.dumps(content, ensure_ascii=False), None)]
    text = "\n".join(text for text, picture in parts if picture is None)
    if block.get("is_error", bool):
        text = f"Error: {text}"
    pictures = tuple(picture for _, picture in parts if picture is not None)
    return Message("tool", text, images=pictures, tool_call_id=block.need("tool_use_id", str))


def _read_block(block: Fields, images: dict[str, Image], *, lenient: bool) -> tuple[str, Picture | None]:
    """A text, or an image, which is added to `images`; if `lenient`, a note of what is neither."""
    kind = block.need("type", str)
    if kind == "text":
        return block.need("text", str), None
    source = block.values.get("source")
    if kind == "document" and isinstance(source, dict) and source.get("type") == "text":
        return Fields(source, block.name("source")).need("data", str), None
    note, image = read_or_note(kind, lenient, partial(_read_image, block, kind))
    if image is None:
        return note, None
    images[image.picture.sha256] = image
    return "", image.picture


def _read_image(block: Fields, kind: str) -> Image:
    if kind != "image":
        raise block.wrong("type", "must be text, image or tool_result: no other content is read")
    source = Fields(block.need("source", dict), block.name("source"))
    if source.need("type", str) != "base64":
        raise source.wrong("type", "must be base64: images are not fetched")
    return read_image(source.name("data"), source.need("data", str))
