"""OpenAI's newer API: items to a request for a reply, and the reply back as items. Nothing here knows HTTP.

Nothing is stored either: clients send a conversation whole, as Codex does.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ChatcliError
from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve import openai
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.serve.wire import Exchange, Fields, Json, brought, frame, in_order, read_image

# Tools that no chat template can show. Codex brings them beside functions that do the same or more.
LEFT_OUT = ("web_search", "tool_search", "custom", "local_shell")
# Types of items that are calls, beside those that end with "_call".
CALLS = ("mcp_approval_request", "program")
# Those that OpenAI's servers run, whose results are in the same item, if anywhere.
HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
# Fields of a call's item that have its result, and those that say nothing about the call.
RESULTS = ("output", "outputs", "results", "result", "error")
BOOKKEEPING = ("type", "id", "call_id", "status", "name", "caller", "created_by", "fingerprint")
# A field that alone has what a call does.
WRAPPERS = ("action", "operation", "arguments")
# Items that change what a server offers, and that nobody has said.
NOT_SAID = ("mcp_list_tools", "additional_tools", "configuration_update")
UNREADABLE = "[What was said before was compacted into a summary that cannot be read here.]"
# Fields of a request that its response has, too, and what they are where the request says nothing.
REPEATED: Json = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
}
# An item of text by its type: what its id begins with, its fields, and the part that grows.
ITEMS: dict[str, tuple[str, Json, Json]] = {
    "reasoning": ("rs", {"summary": []}, {"type": "reasoning_text", "text": ""}),
    "message": (
        "msg",
        {"role": "assistant"},
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
}


class Responses(Exchange):
    """`POST /v1/responses`."""

    def __init__(self, body: Fields, model: str) -> None:
        """Raises `BadRequest`, `NotAnImage` and `ImagesRefused`."""
        super().__init__(model)
        self.stream = body.get("stream", bool) or False
        # Namespace and name of the functions that have a namespace, by the name that the model knows.
        self._in_namespace: dict[str, tuple[str, str]] = {}
        self._output: list[Json] = []
        self._events = 0
        self.request = self._read(body)
        given = {key: value for key in REPEATED if (value := body.values.get(key)) is not None}
        self._head = {
            "id": new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "store": False,
            **REPEATED,
            **given,
        }

    def _read(self, body: Fields) -> ReplyRequest:
        for key in ("previous_response_id", "conversation", "prompt"):
            body.refuse(key, "is not supported: nothing is stored here, send the whole conversation as input")
        body.refuse("background", openai.CANNOT)
        body.refuse("top_logprobs", "is not supported here: /v1/chat/completions has it")
        openai.refuse_form((body.object("text") or Fields({})).object("format"))
        images: dict[str, Image] = {}
        system = Message("system", body.get("instructions", str) or "")
        tools = list(self._read_tools(body))
        if isinstance(text := body.values.get("input"), str):
            messages = [Message("user", text)]
        else:
            body.need("input", list)
            items = body.objects("input")
            for item in items:
                if item.values.get("type") == "additional_tools":
                    tools += self._read_tools(item)
                elif (kind := item.values.get("type")) in NOT_SAID:
                    self.left_out = [*self.left_out, str(kind)]
            messages = list(_read_messages(items, images))
        arguments = body.template_arguments("chat_template_kwargs")
        effort = (body.object("reasoning") or Fields({})).get("effort", str)
        think, effort = openai.read_thinking(body, arguments, effort)
        return ReplyRequest(
            messages=in_order([system, *messages], "input"),
            tools=openai.chosen(body, tools),
            images=tuple(images.values()),
            brought=brought(messages),
            sampling=openai.read_sampling(body),
            think=think,
            effort=effort,
            arguments=arguments,
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
                raise tool.wrong(
                    "type", "must be function or namespace: tools that a server runs are not here"
                )

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
                return data + self._event(status_of(record), response=self.whole())
        return b""

    def _begin(self) -> bytes:
        """What a stream begins with; nothing if it has begun."""
        if self._events:
            return b""
        response = self._response("in_progress")
        return self._event("created", response=response) + self._event("in_progress", response=response)

    def _grow(self, kind: str, text: str) -> bytes:
        """Add text to an item of this type, which is the last one or begins now."""
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
        """End the last item, if it is one of text."""
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
        """A whole item: a call comes in one piece, when all of it is there."""
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
        """An event of the last item's one part."""
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
        # Codex counts events only: it gives up on a stream that has comments for five minutes.
        return self._begin() or self._event("in_progress", response=self._response("in_progress"))

    def error_frame(self, error: ChatcliError, status: int) -> bytes:
        told = openai.error_of(error, status)["error"]
        code = told["code"] or ("server_error" if status >= 500 else "invalid_prompt")
        failed = self._response("failed", error={"code": code, "message": told["message"]})
        return self._begin() + self._event("failed", response=failed)


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def full_name(namespace: str | None, name: str) -> str:
    """What the model knows a function by, in letters that every format of calls takes."""
    return f"{namespace}__{name}" if namespace else name


def logprobs(part: Json) -> Json:
    """What events of a part's text have besides: clients expect the logprobs, of which there are none."""
    return {"logprobs": []} if "logprobs" in part else {}


def status_of(record: TurnRecord) -> str:
    return "incomplete" if record.finish_reason == "length" else "completed"


def usage(record: TurnRecord) -> Json:
    """Token counts. Cached are those that came from a checkpoint, in memory or on disk."""
    cached = record.reused_tokens + record.typeahead_tokens
    return {
        "input_tokens": record.prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": record.generated_tokens,
        "output_tokens_details": {"reasoning_tokens": record.thinking_tokens},
        "total_tokens": record.prompt_tokens + record.generated_tokens,
    }


def _read_messages(items: Sequence[Fields], images: dict[str, Image]) -> Iterator[Message]:
    """The messages that items make; items of a reply that follow each other are one."""
    reply: Message | None = None
    for number, item in enumerate(items, start=1):
        kind = item.get("type", str) or "message"
        result: Message | None = None
        is_reply = kind == "message" and item.values.get("role") == "assistant"
        before = reply or Message("assistant", "")
        if is_reply:
            text = "".join(openai.read_content(item, "content", images, lenient=True)[0])
            reply = replace(before, content=before.content + text)
        elif kind == "reasoning":
            # Elsewhere it may be encrypted, or a summary, which is not what was thought.
            thought = "".join(part.need("text", str) for part in item.objects("content"))
            reply = replace(before, thinking=before.thinking + thought)
        elif is_call(kind):
            call = _read_call(item, kind, len(before.content))
            reply = replace(before, tool_calls=(*before.tool_calls, call))
            result = _read_result_within(item, kind, images)
        else:
            result = _read_other(item, kind, images, is_last=number == len(items))
        if result is not None:
            if reply is not None:
                yield reply
            yield result
            reply = None
    if reply is not None:
        yield reply


def is_call(kind: str) -> bool:
    """Whether an item of this type says that a tool was called, by the model or by OpenAI's servers."""
    return kind.endswith("_call") or kind in CALLS


def _read_call(item: Fields, kind: str, at: int) -> ToolCall:
    """Any tool's call as a function's: its arguments are what an item says about it."""
    if kind == "function_call":
        call = openai.read_call(item, item.need("call_id", str), at)
        return replace(call, name=full_name(item.get("namespace", str), call.name))
    call_id = item.get("call_id", str) or item.get("id", str) or ""
    given = {key: value for key, value in item.values.items() if key not in (*BOOKKEEPING, *RESULTS)}
    wrapped = [value for key, value in given.items() if key in WRAPPERS]
    arguments = _text_of(wrapped[0] if len(wrapped) == len(given) == 1 else given)
    return ToolCall(item.get("name", str) or kind.removesuffix("_call"), arguments, call_id, at, at)


def _read_result_within(item: Fields, kind: str, images: dict[str, Image]) -> Message | None:
    """The result that a call's own item has; None if another item has it."""
    call_id = item.get("call_id", str) or item.get("id", str) or ""
    given = {key: value for key in RESULTS if (value := item.values.get(key)) not in (None, [], "")}
    if kind == "image_generation_call" and isinstance(given.get("result"), str):
        note, image = openai.read_or_note("image", True, partial(read_image, "result", given["result"]))
        if image is None:
            return Message("tool", note, tool_call_id=call_id)
        images[image.picture.sha256] = image
        return Message("tool", "", images=(image.picture,), tool_call_id=call_id)
    if given:
        return Message("tool", "\n".join(map(_text_of, given.values())), tool_call_id=call_id)
    if kind in HOSTED:
        return Message("tool", item.get("status", str) or "completed", tool_call_id=call_id)
    return None


def _read_other(item: Fields, kind: str, images: dict[str, Image], *, is_last: bool) -> Message | None:
    """A message of somebody else than the assistant; None: the item is no part of the conversation."""
    if kind == "compaction":
        summary = item.get("encrypted_content", str) or ""
        # Only OpenAI can read what it has encrypted; other servers write text there.
        is_text = len(summary.split()) > 1
        return Message("user", f"[Summary of what was said before: {summary}]" if is_text else UNREADABLE)
    if kind == "mcp_approval_response":
        answer = "approved" if item.get("approve", bool) else "refused"
        reason = item.get("reason", str)
        return Message("user", f"[The tool call is {answer}{f': {reason}' if reason else ''}.]")
    if kind in NOT_SAID:
        return None
    is_result = kind.endswith("_output")
    if kind != "message" and not is_result:
        raise item.wrong(
            "type",
            "must be message, reasoning, function_call, function_call_output, another tool's, or compaction",
        )
    role = "tool" if is_result else item.need("role", str)
    if role not in ("tool", "system", "developer", "user"):
        raise item.wrong("role", "must be system, developer, user or assistant")
    content = item.values.get("output" if is_result else "content")
    is_parts = isinstance(content, list) and all(
        isinstance(part, dict) and str(part.get("type")) in openai.PARTS for part in content
    )
    pictures: tuple[Picture, ...] = ()
    if not is_result or content is None or isinstance(content, str) or is_parts:
        lenient = not (is_last and role == "user")
        texts, pictures = openai.read_content(
            item, "output" if is_result else "content", images, lenient=lenient
        )
    else:
        texts = [_text_of(content)]
    if not is_result:
        role = "user" if role == "user" else "system"
        return Message(role, "\n".join(texts), images=pictures)  # type: ignore[arg-type]
    if content is None:
        facts: Any = {key: value for key, value in item.values.items() if key not in BOOKKEEPING}
        texts = [_text_of(facts or item.get("status", str) or "")]
    call_id = item.need("call_id", str) if kind == "function_call_output" else item.get("call_id", str)
    return Message("tool", "\n".join(texts), images=pictures, tool_call_id=call_id or "")


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
