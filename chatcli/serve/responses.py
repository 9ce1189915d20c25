"""OpenAI's Responses API as Python values, without HTTP.

Clients send the whole conversation each time, as Codex does, or name an earlier response that is kept.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError
from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve import openai
from chatcli.serve.answers import choose, read_schema
from chatcli.serve.content import (
    OTHERS,
    TEXTS,
    ContentReader,
    newest_images,
    read_image,
    texts_and_pictures,
)
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.serve.wire import Exchange, Fields, Json, frame, in_order, thinks

# Tools that chat templates cannot show. Codex sends them beside functions that do the same.
LEFT_OUT = ("web_search", "tool_search", "custom", "local_shell")
# Types of call items that do not end with "_call".
OTHER_CALLS = ("mcp_approval_request", "program")
# Calls that OpenAI's servers run. Their results, if present, are in the same item.
HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
# Fields of a call item that hold its result, and fields that do not describe the call.
RESULTS = ("output", "outputs", "results", "result", "error")
BOOKKEEPING = ("type", "id", "call_id", "status", "name", "caller", "created_by", "fingerprint")
# If one of these is a call's only field, its value is the arguments.
WRAPPERS = ("action", "operation", "arguments")
# Items that configure the server and are not part of the conversation.
NOT_MESSAGES = ("mcp_list_tools", "additional_tools", "configuration_update")
UNREADABLE = "[Earlier messages were compacted into a summary that only OpenAI can decrypt.]"
# The total length of the items remembered.
MAX_ITEM_LETTERS = 1 << 25
# Request fields that the response repeats, and their defaults.
REPEATED: Json = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
# Text items by type: the prefix of their id, their fields, and the part that receives text.
ITEMS: dict[str, tuple[str, Json, Json]] = {
    "reasoning": ("rs", {"summary": []}, {"type": "reasoning_text", "text": ""}),
    "message": (
        "msg",
        {"role": "assistant"},
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
}


class Items:
    """The newest output items by their ids, for clients that refer to them. In memory only."""

    def __init__(self) -> None:
        self._items: dict[str, Json] = {}
        self._letters = 0

    def add(self, items: Sequence[Json]) -> None:
        for item in items:
            self._items[item["id"]] = item
            self._letters += _letters_of(item)
        while self._letters > MAX_ITEM_LETTERS:
            self._letters -= _letters_of(self._items.pop(next(iter(self._items))))

    def resolved(self, item: Fields) -> Fields:
        """The item that an `item_reference` refers to, or the item itself. Raises `BadRequest`."""
        if item.get("type", str) != "item_reference" and set(item.values) != {"id"}:
            return item
        known = self._items.get(item.need("id", str))
        if known is None:
            raise item.wrong("id", "refers to an unknown item: send the whole item, with store false")
        return Fields(known, item.path)


def _letters_of(item: Json) -> int:
    texts = [part["text"] for part in item.get("content", ())]
    return sum(map(len, [*texts, item.get("arguments", "")]))


class Responses(Exchange):
    """`POST /v1/responses`."""

    format_field = "text.format"

    def __init__(self, body: Fields, model: str, items: Items | None = None) -> None:
        """`items` are those of earlier replies. Raises `BadRequest`, `NotAnImage` and `ImagesRefused`."""
        super().__init__(model)
        self._items = items or Items()
        self._is_stored = body.get("store", bool) is not False
        self._id = new_id("resp")
        self.stream = body.get("stream", bool) or False
        # (namespace, name) of functions in a namespace, by the name that the model sees.
        self._in_namespace: dict[str, tuple[str, str]] = {}
        self._output: list[Json] = []
        self._events = 0
        self.request = self._read(body)
        given = {key: value for key in REPEATED if (value := body.values.get(key)) is not None}
        if "tools" in given:
            # Some clients require these fields of a function.
            blank = {"description": None, "parameters": None, "strict": False}
            given["tools"] = [
                {**blank, **tool} if tool.get("type") == "function" else tool for tool in given["tools"]
            ]
        self._head = {
            "id": self._id,
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "service_tier": "default",
            "store": False,
            **REPEATED,
            **given,
        }

    def _read(self, body: Fields) -> ReplyRequest:
        for key in ("conversation", "prompt"):
            body.refuse(key, "is not supported: send the whole conversation as input")
        body.refuse("background", openai.CANNOT)
        body.refuse("top_logprobs", "is not supported here: use /v1/chat/completions")
        schema = read_schema((body.object("text") or Fields({})).object("format"))
        reader = ContentReader("text or an image")
        system = Message("system", body.get("instructions", str) or "")
        tools = list(self._read_tools(body))
        if isinstance(text := body.values.get("input"), str):
            messages = [Message("user", text)]
        else:
            body.need("input", list)
            items = [self._items.resolved(item) for item in body.objects("input")]
            for item in items:
                if item.values.get("type") == "additional_tools":
                    tools += self._read_tools(item)
                elif (kind := item.values.get("type")) in NOT_MESSAGES:
                    self.left_out = [*self.left_out, str(kind)]
            messages = list(_read_messages(items, reader))
        arguments = body.template_arguments("chat_template_kwargs")
        effort = (body.object("reasoning") or Fields({})).get("effort", str)
        think, effort = openai.read_thinking(body, arguments, effort)
        shown, answer, one_call = choose(
            body, tools, schema, lambda named: full_name(named.get("namespace", str), named.need("name", str))
        )
        ordered, beginning = in_order([system, *messages], "input")
        return ReplyRequest(
            messages=ordered,
            beginning=beginning,
            tools=shown,
            images=tuple(reader.images.values()),
            brought=newest_images(messages),
            sampling=openai.read_sampling(body),
            think=thinks(think, beginning),
            effort=effort,
            arguments=arguments,
            answer=answer,
            one_call=one_call,
            response_id=self._id if self._is_stored else None,
            previous=body.get("previous_response_id", str) or None,
        )

    def _read_tools(self, holder: Fields, namespace: str = "") -> Iterator[Json]:
        for tool in holder.objects("tools"):
            kind = tool.need("type", str)
            if kind == "function":
                shown = openai.tool_object(tool, "parameters")
                if namespace:
                    name = shown["function"]["name"]
                    shown["function"]["name"] = full_name(namespace, name)
                    self._in_namespace[full_name(namespace, name)] = namespace, name
                yield shown
            elif kind == "namespace" and not namespace:
                yield from self._read_tools(tool, tool.need("name", str))
            elif kind in LEFT_OUT:
                self.left_out = [*self.left_out, kind]
            else:
                raise tool.wrong("type", "must be function or namespace: hosted tools are not supported")

    def frames(self, event: ReplyEvent) -> bytes:
        match event:
            case PrefixMatched():
                return self._begin()
            case ThinkingDelta(text) if text:
                return self._grow("reasoning", text)
            case TextDelta(text) if text:
                return self._grow("message", text)
            case CallsMade(calls):
                return b"".join(map(self._call, calls))
            case ReplyDone(record):
                data = self._close(status_of(record))
                if self._is_stored:
                    self._items.add(self._output)
                return data + self._event(status_of(record), response=self.whole())
        return b""

    def _begin(self) -> bytes:
        """The first frames of a stream; empty if it has begun."""
        if self._events:
            return b""
        response = self._response("in_progress")
        return self._event("created", response=response) + self._event("in_progress", response=response)

    def _grow(self, kind: str, text: str) -> bytes:
        """Append text to the last item, or open a new one if it is of another type."""
        data = b""
        if not self._output or self._output[-1]["type"] != kind:
            data = self._close()
            prefix, fields, part = ITEMS[kind]
            item = {"id": new_id(prefix), "type": kind, "status": "in_progress", **fields, "content": []}
            self._output.append(item)
            data += self._of_item("output_item.added") + self._of_part("content_part.added", part=part)
            item["content"] = [dict(part)]
        (part,) = self._output[-1]["content"]
        part["text"] += text
        return data + self._of_part(f"{part['type']}.delta", delta=text, **logprobs(part))

    def _close(self, status: str = "completed") -> bytes:
        """Close the last item if it is an open text item."""
        if not self._output or self._output[-1]["status"] != "in_progress":
            return b""
        self._output[-1]["status"] = status
        (part,) = self._output[-1]["content"]
        return (
            self._of_part(f"{part['type']}.done", text=part["text"], **logprobs(part))
            + self._of_part("content_part.done", part=part)
            + self._of_item("output_item.done")
        )

    def _call(self, call: ToolCall) -> bytes:
        """A complete item: calls arrive whole."""
        data = self._close()
        namespace, name = self._in_namespace.get(call.name, (None, call.name))
        item = {"id": new_id("fc"), "type": "function_call", "status": "in_progress", "call_id": call.id}
        item |= {"name": name, "arguments": ""}
        if namespace is not None:
            item["namespace"] = namespace
        self._output.append(item)
        data += self._of_item("output_item.added")
        item |= {"status": "completed", "arguments": call.arguments}
        place = {"item_id": item["id"], "output_index": len(self._output) - 1}
        data += self._event("function_call_arguments.delta", **place, delta=call.arguments)
        data += self._event("function_call_arguments.done", **place, name=name, arguments=call.arguments)
        return data + self._of_item("output_item.done")

    def _of_part(self, name: str, **fields: Any) -> bytes:
        """An event of the last item's only part."""
        place = {"output_index": len(self._output) - 1, "content_index": 0}
        return self._event(name, item_id=self._output[-1]["id"], **place, **fields)

    def _of_item(self, name: str) -> bytes:
        return self._event(name, output_index=len(self._output) - 1, item=self._output[-1])

    def _event(self, name: str, /, **fields: Any) -> bytes:
        name = f"response.{name}"
        self._events += 1
        return frame({"type": name, "sequence_number": self._events - 1, **fields}, name)

    def _response(self, status: str, **more: Any) -> Json:
        fields = {"error": None, "incomplete_details": None, "output": self._output, "usage": None}
        return {**self._head, "status": status, **fields, **more}

    def whole(self) -> Json:
        assert self.record is not None
        status = status_of(self.record)
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return self._response(status, incomplete_details=details, usage=usage(self.record))

    def keep_alive(self) -> bytes:
        # Codex ignores comments, and closes a stream without events after five minutes.
        return self._begin() or self._event("in_progress", response=self._response("in_progress"))

    def error_frame(self, error: ChatcliError, status: int) -> bytes:
        told = openai.error_of(error, status)["error"]
        code = told["code"] or ("server_error" if status >= 500 else "invalid_prompt")
        failed = self._response("failed", error={"code": code, "message": told["message"]})
        return self._begin() + self._event("failed", response=failed)


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def full_name(namespace: str | None, name: str) -> str:
    """The name that the model sees, with characters that every call format allows."""
    return f"{namespace}__{name}" if namespace else name


def logprobs(part: Json) -> Json:
    """An empty list of logprobs, if clients expect one in the events of this part."""
    return {"logprobs": []} if "logprobs" in part else {}


def status_of(record: TurnRecord) -> str:
    return "incomplete" if record.finish_reason == "length" else "completed"


def usage(record: TurnRecord) -> Json:
    """Token counts. Cached tokens came from a checkpoint, in memory or on disk."""
    cached = record.reused_tokens + record.typeahead_tokens
    return {
        "input_tokens": record.prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": record.generated_tokens,
        "output_tokens_details": {"reasoning_tokens": record.thinking_tokens},
        "total_tokens": record.prompt_tokens + record.generated_tokens,
    }


def _read_messages(items: Sequence[Fields], reader: ContentReader) -> Iterator[Message]:
    """The messages of items. Consecutive items of the assistant are joined into one reply."""
    reply: Message | None = None
    for number, item in enumerate(items, start=1):
        kind = item.get("type", str) or "message"
        result: Message | None = None
        is_reply = kind == "message" and item.values.get("role") == "assistant"
        before = reply or Message("assistant", "")
        if is_reply:
            text = "".join(reader.content(item, "content", lenient=True)[0])
            reply = replace(before, content=before.content + text)
        elif kind == "reasoning":
            # Other fields may be encrypted or a summary, not the thinking itself.
            thought = "".join(part.need("text", str) for part in item.objects("content"))
            reply = replace(before, thinking=before.thinking + thought)
        elif kind.endswith("_call") or kind in OTHER_CALLS:
            call = _read_call(item, kind, len(before.content))
            reply = replace(before, tool_calls=(*before.tool_calls, call))
            result = _read_result_within(item, kind, reader)
        else:
            result = _read_other(item, kind, reader, is_last=number == len(items))
        if result is not None:
            if reply is not None:
                yield reply
            yield result
            reply = None
    if reply is not None:
        yield reply


def _read_call(item: Fields, kind: str, at: int) -> ToolCall:
    """Any tool's call as a function call. The arguments are the item's own fields."""
    if kind == "function_call":
        call = openai.read_call(item, item.need("call_id", str), at)
        return replace(call, name=full_name(item.get("namespace", str), call.name))
    call_id = item.get("call_id", str) or item.get("id", str) or ""
    given = {key: value for key, value in item.values.items() if key not in (*BOOKKEEPING, *RESULTS)}
    wrapped = [value for key, value in given.items() if key in WRAPPERS]
    arguments = _text_of(wrapped[0] if len(wrapped) == len(given) == 1 else given)
    return ToolCall(item.get("name", str) or kind.removesuffix("_call"), arguments, call_id, at, at)


def _read_result_within(item: Fields, kind: str, reader: ContentReader) -> Message | None:
    """The result in a call's own item; None if another item holds it."""
    call_id = item.get("call_id", str) or item.get("id", str) or ""
    given = {key: value for key in RESULTS if (value := item.values.get(key)) not in (None, [], "")}
    if kind == "image_generation_call" and isinstance(given.get("result"), str):
        image = reader.image("image", partial(read_image, "result", given["result"]), lenient=True)
        texts, pictures = texts_and_pictures([image])
        return Message("tool", "".join(texts), images=pictures, tool_call_id=call_id)
    if given:
        return Message("tool", "\n".join(map(_text_of, given.values())), tool_call_id=call_id)
    if kind in HOSTED:
        return Message("tool", item.get("status", str) or "completed", tool_call_id=call_id)
    return None


def _read_other(item: Fields, kind: str, reader: ContentReader, *, is_last: bool) -> Message | None:
    """A message that is not the assistant's; None if the item is not part of the conversation."""
    if kind == "compaction":
        summary = item.get("encrypted_content", str) or ""
        # OpenAI encrypts the summary; other servers write plain text.
        is_text = len(summary.split()) > 1
        return Message("user", f"[Summary of earlier messages: {summary}]" if is_text else UNREADABLE)
    if kind == "mcp_approval_response":
        answer = "approved" if item.get("approve", bool) else "refused"
        reason = item.get("reason", str)
        return Message("user", f"[The tool call is {answer}{f': {reason}' if reason else ''}.]")
    if kind in NOT_MESSAGES:
        return None
    is_result = kind.endswith("_output")
    if kind != "message" and not is_result:
        raise item.wrong(
            "type",
            "must be message, reasoning, compaction, function_call, function_call_output or another tool's",
        )
    role = "tool" if is_result else item.need("role", str)
    if role not in ("tool", "system", "developer", "user"):
        raise item.wrong("role", "must be system, developer, user or assistant")
    if not is_result:
        texts, pictures = reader.content(item, "content", lenient=not (is_last and role == "user"))
        role = "user" if role == "user" else "system"
        return Message(role, "\n".join(texts), images=pictures)  # type: ignore[arg-type]
    call_id = item.need("call_id", str) if kind == "function_call_output" else item.get("call_id", str)
    output = item.values.get("output")
    is_parts = isinstance(output, list) and all(
        isinstance(part, dict) and str(part.get("type")) in TEXTS | OTHERS for part in output
    )
    if is_parts or isinstance(output, str):
        texts, pictures = reader.content(item, "output", lenient=True)
        return Message("tool", "\n".join(texts), images=pictures, tool_call_id=call_id or "")
    if output is None:
        status = item.get("status", str) or ""
        output = {key: value for key, value in item.values.items() if key not in BOOKKEEPING} or status
    return Message("tool", _text_of(output), tool_call_id=call_id or "")


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
