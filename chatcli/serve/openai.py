"""OpenAI's API: chat completions and completions to a request for a reply, and the reply back.

Nothing here knows HTTP. Thinking stands beside the content, as `reasoning_content` (DeepSeek, llama.cpp) and
as `reasoning` (mlx-lm, vLLM): clients read one of them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from chatcli.chat_format.token_bytes import as_bytes, readable
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ChatcliError, ContextFull, ImagesRefused, NotAnImage
from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.request import (
    CallsMade,
    ReplyDone,
    ReplyEvent,
    ReplyRequest,
    TokenLogprob,
    not_shown,
)
from chatcli.serve.wire import (
    CHANGING_SYSTEM,
    MAX_SHOWN_VALUE,
    MAX_TOP_LOGPROBS,
    BadRequest,
    Exchange,
    Fields,
    Json,
    brought,
    frame,
    in_order,
    read_image,
    sentence_of,
)
from chatcli.settings.values import Sampling
from chatcli.text import shorten

# The fields that say how to sample, and the settings that they are. The later of two names wins.
SAMPLING = {
    "temperature": "temp",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repetition_context_size": "repetition_context_size",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "stop": "stop",
    "seed": "seed",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "thinking_budget": "think_budget",
}
# The parts that a message's content may have, and what they are.
PARTS = {
    **dict.fromkeys(("text", "input_text", "output_text", "summary_text", "refusal"), "text"),
    **dict.fromkeys(("image_url", "input_image"), "image"),
    **dict.fromkeys(("input_audio", "audio"), "audio"),
    **dict.fromkeys(("file", "input_file"), "file"),
}
# As OpenAI's.
MIN_LOGPROB = -9999.0
CANNOT = "is not supported by this server"
STREAM_END = frame("[DONE]")
ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def error_body(status: int, message: str, param: str | None = None, code: str | None = None) -> Json:
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_of(error: ChatcliError, status: int) -> Json:
    # Agents make the conversation shorter when they read this code.
    code = "context_length_exceeded" if isinstance(error, ContextFull) else None
    return error_body(status, sentence_of(error), getattr(error, "param", None), code)


class Completion(Exchange):
    """`POST /v1/completions`: a prompt is run as it is, without a chat template."""

    object, prefix = "text_completion", "cmpl"
    chunk_object = object

    def __init__(self, body: Fields, model: str) -> None:
        """Raises `BadRequest`."""
        super().__init__(model)
        self.stream = body.get("stream", bool) or False
        options = body.object("stream_options") or Fields({})
        self._usage_asked = options.get("include_usage", bool) or False
        self._head = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }
        self._logprobs: list[TokenLogprob] = []
        # How many of them a stream has told.
        self._told = 0
        if body.values.get("n") not in (None, 1):
            raise body.wrong("n", "must be 1: ask for one reply at a time")
        self.request = self.read(body)

    def read(self, body: Fields) -> ReplyRequest:
        prompt = body.values.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str) or not prompt:
            raise body.wrong(
                "prompt", "must be one text that is not empty: token ids and lists are not taken"
            )
        for key in ("suffix", "echo"):
            body.refuse(key, CANNOT)
        if body.values.get("best_of") not in (None, 1):
            raise body.wrong("best_of", "must be 1")
        top = body.get("logprobs", int)
        if top is not None and not 0 <= top <= MAX_TOP_LOGPROBS:
            raise body.wrong("logprobs", f"must be a whole number from 0 to {MAX_TOP_LOGPROBS}")
        return ReplyRequest(prompt=prompt, sampling=read_sampling(body), top_logprobs=top)

    def frames(self, event: ReplyEvent) -> bytes:
        match event:
            case PrefixMatched():
                return self.first()
            case TokenLogprob():
                self._logprobs.append(event)
            case TextDelta(text):
                return self._chunk(self.delta(text=text))
            case ThinkingDelta(text):
                return self._chunk(self.delta(thinking=text))
            case CallsMade(calls):
                return self._chunk(self.delta(calls=calls))
            case ReplyDone(record):
                end = self._chunk(self.delta(), finish_reason(record, self.calls))
                if self._usage_asked:
                    end += frame(
                        {**self._head, "object": self.chunk_object, "choices": [], "usage": usage(record)}
                    )
                return end + STREAM_END
        return b""

    def first(self) -> bytes:
        """What a stream begins with."""
        return b""

    def delta(
        self, *, text: str = "", thinking: str = "", calls: Sequence[ToolCall] = ()
    ) -> Mapping[str, Any]:
        """A choice's part of a chunk. There is no thinking and no call without a chat template."""
        return {"text": thinking + text}

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        # Those of a stop text are no part of the reply.
        end = len(self._logprobs) if self.record is None else self.record.generated_tokens
        tokens, self._told = self._logprobs[self._told : end], len(self._logprobs)
        choice = {"index": 0, **delta, "logprobs": self.logprobs(tokens), "finish_reason": finish}
        data = {**self._head, "object": self.chunk_object, "choices": [choice]}
        return frame({**data, "usage": None} if self._usage_asked else data)

    def logprobs(self, tokens: Sequence[TokenLogprob]) -> Json | None:
        """The tokens' logprobs as the format has them; None if there are none, or nobody asked."""
        if self.request.top_logprobs is None or not tokens:
            return None
        return {
            "tokens": [readable(token.text) for token in tokens],
            "token_logprobs": [finite(token.logprob) for token in tokens],
            "top_logprobs": [
                {readable(text): finite(logprob) for _, text, logprob in token.top} for token in tokens
            ],
        }

    def choice(self) -> Json:
        return {"text": self.thinking + self.text}

    def whole(self) -> Json:
        assert self.record is not None
        choice = {
            "index": 0,
            **self.choice(),
            "logprobs": self.logprobs(self._logprobs[: self.record.generated_tokens]),
            "finish_reason": finish_reason(self.record, self.calls),
        }
        return {**self._head, "object": self.object, "choices": [choice], "usage": usage(self.record)}

    def error_frame(self, error: ChatcliError, status: int) -> bytes:
        return frame(error_of(error, status))


class ChatCompletion(Completion):
    """`POST /v1/chat/completions`."""

    object, prefix = "chat.completion", "chatcmpl"
    chunk_object = "chat.completion.chunk"

    def read(self, body: Fields) -> ReplyRequest:
        for key in ("functions", "function_call"):
            body.refuse(key, f"{CANNOT}: use tools")
        for key in ("audio", "prediction", "web_search_options"):
            body.refuse(key, CANNOT)
        refuse_form(body.object("response_format"))
        top = None
        if body.get("logprobs", bool):
            top = body.get("top_logprobs", int) or 0
            if not 0 <= top <= MAX_TOP_LOGPROBS:
                raise body.wrong("top_logprobs", f"must be a whole number from 0 to {MAX_TOP_LOGPROBS}")
        messages, images, new = read_messages(body)
        arguments = body.template_arguments("chat_template_kwargs")
        think, effort = read_thinking(body, arguments, body.get("reasoning_effort", str))
        return ReplyRequest(
            messages=messages,
            tools=read_tools(body),
            images=images,
            brought=new,
            sampling=read_sampling(body),
            think=think,
            effort=effort,
            arguments=arguments,
            top_logprobs=top,
        )

    def first(self) -> bytes:
        return self._chunk({"delta": {"role": "assistant", "content": ""}})

    def delta(
        self, *, text: str = "", thinking: str = "", calls: Sequence[ToolCall] = ()
    ) -> Mapping[str, Any]:
        delta: Json = {}
        if text:
            delta["content"] = text
        if thinking:
            delta |= {"reasoning_content": thinking, "reasoning": thinking}
        if calls:
            # `calls` have been added to the reply's already.
            first = len(self.calls) - len(calls)
            delta["tool_calls"] = [
                {"index": number, **call_object(call)} for number, call in enumerate(calls, first)
            ]
        return {"delta": delta}

    def logprobs(self, tokens: Sequence[TokenLogprob]) -> Json | None:
        if self.request.top_logprobs is None or not tokens:
            return None
        return {
            "content": [
                {
                    **token_object(token.id, token.text, token.logprob),
                    "top_logprobs": [token_object(*top) for top in token.top],
                }
                for token in tokens
            ],
            "refusal": None,
        }

    def choice(self) -> Json:
        message: Json = {"role": "assistant", "content": self.text or (None if self.calls else "")}
        if self.thinking:
            message |= {"reasoning_content": self.thinking, "reasoning": self.thinking}
        if self.calls:
            message["tool_calls"] = [call_object(call) for call in self.calls]
        return {"message": message}


def token_object(token: int, text: str, logprob: float) -> Json:
    """A token as both OpenAI (`token`, `bytes`) and mlx-lm (`id`) name it."""
    return {
        "id": token,
        "token": readable(text),
        "logprob": finite(logprob),
        "bytes": list(as_bytes(text)),
    }


def finite(logprob: float) -> float:
    """JSON has no infinity: a token that cannot come has the least logprob there is."""
    return logprob if logprob > MIN_LOGPROB else MIN_LOGPROB


def call_object(call: ToolCall) -> Json:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def finish_reason(record: TurnRecord, calls: Sequence[ToolCall]) -> str:
    return "tool_calls" if calls and record.finish_reason == "stop" else record.finish_reason


def usage(record: TurnRecord) -> Json:
    """Token counts. Cached are those that came from a checkpoint, in memory or on disk."""
    return {
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.generated_tokens,
        "total_tokens": record.prompt_tokens + record.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": record.reused_tokens + record.typeahead_tokens},
        "completion_tokens_details": {"reasoning_tokens": record.thinking_tokens},
    }


def read_sampling(body: Fields) -> Sampling:
    """Raises `BadRequest`."""
    given = body.get("logit_bias", dict)
    if not given:
        return body.sampling(SAMPLING)
    for token, bias in given.items():
        is_number = isinstance(bias, int | float) and not isinstance(bias, bool)
        if not (token.isdecimal() and len(token) < 10 and is_number and abs(bias) <= 1e6):
            raise body.wrong("logit_bias", "must have token ids as names, and as values numbers to add")
    biases = tuple((int(token), float(bias)) for token, bias in given.items())
    return body.sampling(SAMPLING, logit_bias=biases)


def refuse_form(form: Fields | None) -> None:
    """Raise `BadRequest` if a reply is to have a form."""
    if form is not None and form.get("type", str) not in (None, "text"):
        raise form.wrong("type", "must be text: replies are not forced into a form")


def read_thinking(
    body: Fields, arguments: dict[str, Any], effort: str | None
) -> tuple[bool | None, str | None]:
    """Whether to think and how much, taken out of the template's `arguments` too. Raises `BadRequest`."""
    think = body.get("enable_thinking", bool)
    own = Fields(arguments, "chat_template_kwargs")
    for key in ("enable_thinking", "thinking"):
        switch = own.get(key, bool)
        think = switch if switch is not None else think
        arguments.pop(key, None)
    if effort == "none":
        return (False if think is None else think), None
    return think, effort or None


def read_tools(body: Fields) -> tuple[Json, ...]:
    """The tools, as a template takes them and in their order. Raises `BadRequest`."""
    tools = []
    for tool in body.objects("tools"):
        if tool.need("type", str) != "function":
            raise tool.wrong("type", "must be function")
        function = Fields(tool.need("function", dict), tool.name("function"))
        tools.append(tool_object(function, "parameters"))
    return chosen(body, tools)


def chosen(body: Fields, tools: Sequence[Json]) -> tuple[Json, ...]:
    """The tools, unless the request wants none to be called. Raises `BadRequest`."""
    match body.values.get("tool_choice"):
        case None | "auto":
            return tuple(tools)
        case "none":
            return ()
    raise body.wrong("tool_choice", "must be auto or none: a model cannot be forced to call a tool here")


def tool_object(function: Fields, parameters: str) -> Json:
    """A tool as chat templates take it; `parameters` is the field that has its JSON schema."""
    schema = function.get(parameters, dict)
    return {
        "type": "function",
        "function": {
            "name": function.need("name", str),
            "description": function.get("description", str) or "",
            "parameters": {"type": "object", "properties": {}} if schema is None else schema,
        },
    }


def read_messages(body: Fields) -> tuple[tuple[Message, ...], tuple[Image, ...], tuple[str, ...]]:
    """The messages, their images, and which of these come with the last message.

    Raises `BadRequest`, `NotAnImage` and `ImagesRefused`.
    """
    images: dict[str, Image] = {}
    body.need("messages", list)
    messages = list(_read_each(body.objects("messages"), images))
    return in_order(messages), tuple(images.values()), brought(messages)


def _read_each(given: Sequence[Fields], images: dict[str, Image]) -> Iterator[Message]:
    for number, fields in enumerate(given, start=1):
        role = fields.need("role", str)
        is_asked = number == len(given) and role == "user"
        texts, pictures = read_content(fields, "content", images, lenient=not is_asked)
        match role:
            case "system" | "developer":
                yield Message(
                    "system", "\n".join(each for each in texts if not each.startswith(CHANGING_SYSTEM))
                )
            case "user":
                yield Message("user", "\n".join(texts), images=pictures)
            case "tool":
                call = fields.get("tool_call_id", str) or ""
                yield Message("tool", "\n".join(texts), images=pictures, tool_call_id=call)
            case "assistant":
                content = "".join(texts)
                thinking = fields.get("reasoning_content", str) or fields.get("reasoning", str) or ""
                calls = []
                for each in fields.objects("tool_calls"):
                    function = Fields(each.need("function", dict), each.name("function"))
                    calls.append(read_call(function, each.get("id", str) or "", len(content)))
                yield Message("assistant", content, thinking, tool_calls=tuple(calls))
            case _:
                raise fields.wrong("role", "must be system, developer, user, assistant or tool")


def read_content(
    fields: Fields, key: str, images: dict[str, Image], *, lenient: bool
) -> tuple[list[str], tuple[Picture, ...]]:
    """The texts and the pictures of a message's field; their images are added to `images`.

    `lenient`: what cannot be shown is named in its place. A message that was refused stays in many clients'
    history, and none after it would be answered. Raises `BadRequest`, `NotAnImage` and `ImagesRefused`.
    """
    content = fields.values.get(key)
    if content is None or isinstance(content, str):
        return [content or ""], ()
    texts: list[str] = []
    pictures: list[Picture] = []
    for part in fields.objects(key):
        match kind := part.need("type", str):
            case "text" | "input_text" | "output_text" | "summary_text":
                texts.append(part.need("text", str))
            case "refusal":
                texts.append(part.need("refusal", str))
            case _:
                note, image = read_or_note(PARTS.get(kind, kind), lenient, partial(_read_part, part))
                if image is None:
                    texts.append(note)
                else:
                    images[image.picture.sha256] = image
                    pictures.append(image.picture)
    return texts, tuple(pictures)


def read_or_note(kind: str, lenient: bool, read: Callable[[], Image]) -> tuple[str, Image | None]:
    """An image; if `lenient`, a note in the place of one that cannot be read. Raises what `read` raises."""
    try:
        return "", read()
    except (BadRequest, NotAnImage, ImagesRefused):
        if not lenient:
            raise
        return not_shown(shorten(kind, MAX_SHOWN_VALUE)), None


def _read_part(part: Fields) -> Image:
    match part.need("type", str):
        case "image_url":
            return _read_url(Fields(part.need("image_url", dict), part.name("image_url")), "url")
        case "input_image":
            return _read_url(part, "image_url")
    raise part.wrong("type", "must be a text or an image: no other content is read")


def _read_url(holder: Fields, key: str) -> Image:
    url = holder.need(key, str)
    if not url.startswith("data:") or ";base64," not in url:
        raise holder.wrong(key, "must be a data: URL in base64: images are not fetched")
    return read_image(holder.name(key), url.partition(";base64,")[2])


def read_call(function: Fields, call_id: str, at: int) -> ToolCall:
    """A call that a reply makes after `at` characters of its text. Raises `BadRequest`.

    Arguments may be any text, as a model may write any.
    """
    arguments = function.values.get("arguments")
    if not isinstance(arguments, str | None):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(function.need("name", str), arguments or "{}", call_id, at, at)
