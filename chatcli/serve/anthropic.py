"""Anthropic's messages API as Python values, without HTTP."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ChatcliError, ContextFull
from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.answers import choose, read_schema
from chatcli.serve.content import ContentReader, newest_images, texts_and_pictures
from chatcli.serve.openai import tool_object
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.serve.wire import (
    CHANGING_SYSTEM,
    Exchange,
    Fields,
    Json,
    frame,
    in_order,
    is_deep,
    sentence_of,
    thinks,
)

SAMPLING = {
    "temperature": "temp",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_tokens",
    "stop_sequences": "stop",
}
# Tools that clients run and whose schema they leave out, by the beginning of their type. As documented on
# platform.claude.com: bash_20250124 and text_editor_20250728.
CLIENT_TOOLS: dict[str, Json] = {
    "bash_": {
        "type": "object",
        "description": "Runs a command in a bash session that lasts.",
        "properties": {
            "command": {"type": "string", "description": "The command to run."},
            "restart": {"type": "boolean", "description": "True starts a new session, without a command."},
        },
    },
    "text_editor_": {
        "type": "object",
        "description": "Shows, creates and edits text files.",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
            "path": {"type": "string", "description": "The file or folder."},
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "For view: the first and last line, from 1; -1 is the end.",
            },
            "file_text": {"type": "string", "description": "For create: the file's text."},
            "old_str": {"type": "string", "description": "For str_replace: the text to replace, found once."},
            "new_str": {"type": "string", "description": "For str_replace: the text in its place."},
            "insert_line": {"type": "integer", "description": "For insert: the line after which it goes."},
            "insert_text": {"type": "string", "description": "For insert: the text."},
        },
        "required": ["command", "path"],
    },
}
# Clients send a thought's signature back. It is not verified.
SIGNATURE = "Y2hhdGNsaQ=="
ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}
# Agents shorten the conversation on an error that begins like this.
TOO_LONG = "prompt is too long: "


def error_body(status: int, message: str) -> Json:
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def error_of(error: ChatcliError, status: int) -> Json:
    return error_body(status, f"{TOO_LONG if isinstance(error, ContextFull) else ''}{sentence_of(error)}")


def event_of(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, **fields}, kind)


class Messages(Exchange):
    """`POST /v1/messages`."""

    format_field = "output_config.format"

    def __init__(self, body: Fields, model: str) -> None:
        """Raises `BadRequest`, `NotAnImage` and `ImagesRefused`."""
        super().__init__(model)
        self.stream = body.get("stream", bool) or False
        self._id = f"msg_{uuid.uuid4().hex}"
        self._has_begun = False
        self._blocks: list[Json] = []
        self.request = read_request(body)
        # Without `thinking`, clients expect the text in the first block.
        self._shows_thinking = self.request.think is not False

    def frames(self, event: ReplyEvent) -> bytes:
        match event:
            case PrefixMatched():
                self._has_begun = True
                reused = event.reused_tokens + event.typeahead_tokens
                message = self._message(usage(event.prompt_tokens, reused, 0), None)
                return event_of("message_start", message={**message, "content": []})
            case ThinkingDelta(text) if text and self._shows_thinking:
                return self._grow("thinking", text)
            case TextDelta(text) if text:
                return self._grow("text", text)
            case CallsMade(calls):
                return b"".join(map(self._call, calls))
            case ReplyDone(record):
                end = {"stop_reason": self._stop_reason(record), "stop_sequence": self.stop_text}
                delta = event_of("message_delta", delta=end, usage=record_usage(record))
                return self._close() + delta + event_of("message_stop")
        return b""

    def _grow(self, kind: str, text: str) -> bytes:
        """Append text to the last block, or open a new one if it is of another kind."""
        data = b""
        if not self._blocks or self._blocks[-1]["type"] != kind:
            data = self._close() + self._open({"type": kind, kind: ""})
        self._blocks[-1][kind] += text
        return data + self._delta({"type": f"{kind}_delta", kind: text})

    def _call(self, call: ToolCall) -> bytes:
        """A complete block: calls arrive whole."""
        data = self._close() + self._open({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        block = self._blocks[-1]
        block["input"], partial = call_input(call.arguments)
        return data + self._delta({"type": "input_json_delta", "partial_json": partial})

    def _open(self, block: Json) -> bytes:
        if block["type"] == "thinking":
            block["signature"] = ""
        self._blocks.append(block)
        return event_of("content_block_start", index=len(self._blocks) - 1, content_block=block)

    def _delta(self, delta: Json) -> bytes:
        return event_of("content_block_delta", index=len(self._blocks) - 1, delta=delta)

    def _close(self) -> bytes:
        """Close the last block, if there is one."""
        if not self._blocks:
            return b""
        data = b""
        if self._blocks[-1]["type"] == "thinking":
            self._blocks[-1]["signature"] = SIGNATURE
            data = self._delta({"type": "signature_delta", "signature": SIGNATURE})
        return data + event_of("content_block_stop", index=len(self._blocks) - 1)

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
        # A ping must not come before the first event.
        return event_of("ping") if self._has_begun else super().keep_alive()

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
    """A call's arguments as the object that this API requires, and as JSON."""
    try:
        parsed = json.loads(arguments)
        # Python parses NaN and Infinity, which are not valid JSON.
        json.dumps(parsed, allow_nan=False)
    except (ValueError, RecursionError):
        parsed = arguments
    if isinstance(parsed, dict) and not is_deep(parsed):
        return parsed, arguments
    if isinstance(parsed, dict | list) and is_deep(parsed):
        parsed = arguments
    return {"arguments": parsed}, json.dumps({"arguments": parsed})


def usage(prompt: int, reused: int, generated: int) -> Json:
    """Token counts. In this API, input tokens exclude the cached ones."""
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
    reader = ContentReader("text, image or tool_result")
    body.need("messages", list)
    system = body.values.get("system")
    if system is None or isinstance(system, str):
        texts = [system or ""]
    else:
        texts = [block.need("text", str) for block in body.objects("system")]
    prompt = "\n\n".join(text for text in texts if not text.startswith(CHANGING_SYSTEM))
    messages = list(_read_messages(body.objects("messages"), reader))
    ordered, beginning = in_order([Message("system", prompt), *messages])
    arguments = body.template_arguments("chat_template_kwargs")
    output = body.object("output_config") or Fields({})
    effort = output.get("effort", str) or None
    think, budget = (None if effort or arguments.get("enable_thinking") else False), None
    if (thinking := body.object("thinking")) is not None:
        kind = thinking.need("type", str)
        if kind not in ("enabled", "disabled", "adaptive"):
            raise thinking.wrong("type", "must be enabled, disabled or adaptive")
        think = kind != "disabled"
        budget = thinking.get("budget_tokens", int) if think else None
        if budget is not None and budget < 0:
            raise thinking.wrong("budget_tokens", "must be a whole number ≥ 0")
    schema = read_schema(output.object("format") or body.object("output_format"))
    tools, answer, one_call = choose(body, _read_tools(body), schema)
    return ReplyRequest(
        messages=ordered,
        beginning=beginning,
        tools=tools,
        images=tuple(reader.images.values()),
        brought=newest_images(messages),
        sampling=body.sampling(SAMPLING, reads_ahead=True, think_budget=budget),
        think=thinks(think, beginning),
        effort=effort,
        arguments=arguments,
        answer=answer,
        one_call=one_call,
    )


def _read_tools(body: Fields) -> list[Json]:
    tools = []
    for tool in body.objects("tools"):
        kind = tool.get("type", str) or "custom"
        if known := [schema for start, schema in CLIENT_TOOLS.items() if kind.startswith(start)]:
            description = known[0]["description"]
            tool = Fields({"description": description, "input_schema": known[0], **tool.values}, tool.path)
        elif kind != "custom":
            raise tool.wrong("type", "must be custom, bash or text_editor: server tools are not supported")
        tool.need("input_schema", dict)
        tools.append(tool_object(tool, "input_schema"))
    return tools


def _read_messages(given: Sequence[Fields], reader: ContentReader) -> Iterator[Message]:
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
            yield from _read_reply(blocks, reader)
        else:
            is_asked = number == len(given) and role == "user"
            yield from _read_user(role, blocks, reader, lenient=not is_asked)


def _read_reply(blocks: Sequence[Fields], reader: ContentReader) -> Iterator[Message]:
    """A reply whose calls keep their positions in the text. A tool result inside it splits it in two."""
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
            yield _read_result(block, reader)
            text, thinking, calls, is_divided = "", "", [], True
        else:
            raise block.wrong("type", "must be text, thinking, redacted_thinking or tool_use")
    if text or thinking or calls or not is_divided:
        yield Message("assistant", text, thinking, tool_calls=tuple(calls))


def _read_user(
    role: Any, blocks: Sequence[Fields], reader: ContentReader, *, lenient: bool
) -> Iterator[Message]:
    """Split a message at its tool results, which become messages of their own."""
    parts: list[str | Picture] = []
    for block in blocks:
        if block.need("type", str) != "tool_result":
            parts.append(reader.part(block, lenient=lenient))
            continue
        if parts:
            yield _message(role, parts)
        parts = []
        yield _read_result(block, reader)
    if parts or not blocks:
        yield _message(role, parts)


def _message(role: Any, parts: Sequence[str | Picture], call_id: str = "") -> Message:
    texts, pictures = texts_and_pictures(parts)
    return Message(role, "\n".join(texts), images=pictures, tool_call_id=call_id)


def _read_result(block: Fields, reader: ContentReader) -> Message:
    content = block.values.get("content")
    if content is None or isinstance(content, str):
        parts: list[str | Picture] = [content or ""]
    elif block.need("type", str) == "tool_result":
        parts = [reader.part(part, lenient=True) for part in block.objects("content")]
    else:  # a tool that Anthropic's servers ran, with its own block types
        parts = [json.dumps(content, ensure_ascii=False)]
    message = _message("tool", parts, block.need("tool_use_id", str))
    is_error = block.get("is_error", bool)
    return replace(message, content=f"Error: {message.content}") if is_error else message
