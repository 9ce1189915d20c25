"""OpenAI's chat completions and completions APIs as Python values, without HTTP.

Thinking is returned beside the content as both `reasoning_content` (DeepSeek, llama.cpp) and `reasoning`
(mlx-lm, vLLM), because clients read one of the two.
"""

from __future__ import annotations

import copy
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chatcli.chat_format.token_bytes import as_bytes, readable
from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError, ContextFull
from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.answers import choose, read_schema
from chatcli.serve.content import ContentReader, newest_images
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest, TokenLogprob
from chatcli.serve.wire import (
    CHANGING_SYSTEM,
    MAX_TOP_LOGPROBS,
    Exchange,
    Fields,
    Json,
    frame,
    in_order,
    sentence_of,
    thinks,
)
from chatcli.settings.values import Sampling

# The setting for each sampling field. If a request has two names of one setting, the later one wins.
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
# Replies to one request.
MAX_CHOICES = 16
# OpenAI's value for tokens that cannot occur. JSON has no infinity.
MIN_LOGPROB = -9999.0
CANNOT = "is not supported by this server"
STREAM_END = frame("[DONE]")
ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def error_body(status: int, message: str, param: str | None = None, code: str | None = None) -> Json:
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_of(error: ChatcliError, status: int) -> Json:
    # Agents shorten the conversation on this code.
    code = "context_length_exceeded" if isinstance(error, ContextFull) else None
    return error_body(status, sentence_of(error), getattr(error, "param", None), code)


class Completion(Exchange):
    """`POST /v1/completions`: continues a prompt without a chat template."""

    object, prefix = "text_completion", "cmpl"
    # Whether thinking is part of the text.
    counts_thinking = True
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
        # The tokens of the text so far, and those whose text has not come yet.
        self._logprobs: list[TokenLogprob] = []
        self._pending: list[TokenLogprob] = []
        self.request = self.read(body)
        # The replies, this one first; each is the choice of its `index`.
        self.index, self.choices = 0, [self]
        count = body.get("n", int)
        if count is not None and not 1 <= count <= MAX_CHOICES:
            raise body.wrong("n", f"must be a whole number from 1 to {MAX_CHOICES}")
        if body.values.get("best_of") not in (None, count or 1):
            raise body.wrong("best_of", "must be n")
        for number in range(1, count or 1):
            other = copy.copy(self)
            other.index, other._logprobs, other._pending = number, [], []
            self.choices.append(other)

    @property
    def requests(self) -> Sequence[ReplyRequest]:
        request = self.request
        return [
            replace(request, sampling=request.sampling.shifted(number)) for number in range(len(self.choices))
        ]

    def part(self, number: int) -> Exchange:
        return self.choices[number]

    def read(self, body: Fields) -> ReplyRequest:
        prompt = body.values.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str) or not prompt:
            raise body.wrong(
                "prompt", "must be a single non-empty string: token ids and lists are not supported"
            )
        for key in ("suffix", "echo"):
            body.refuse(key, CANNOT)
        top = body.get("logprobs", int)
        if top is not None and not 0 <= top <= MAX_TOP_LOGPROBS:
            raise body.wrong("logprobs", f"must be a whole number from 0 to {MAX_TOP_LOGPROBS}")
        return ReplyRequest(prompt=prompt, sampling=read_sampling(body), top_logprobs=top)

    def frames(self, event: ReplyEvent) -> bytes:
        match event:
            case PrefixMatched():
                return self.first()
            case TokenLogprob():
                self._pending.append(event)
            case TextDelta(text):
                return self._chunk(self.delta(text=text), tokens=self._tokens_of(text))
            case ThinkingDelta(text):
                return self._chunk(self.delta(thinking=text), tokens=self._tokens_of(text, thinking=True))
            case CallsMade(calls):
                self._pending = []
                return self._chunk(self.delta(calls=calls))
            case ReplyDone(record):
                end = self._chunk(self.delta(), finish_reason(record, self.calls))
                if any(choice.record is None for choice in self.choices):
                    return end
                if self._usage_asked:
                    data = {**self._head, "object": self.chunk_object, "choices": [], "usage": self.usage()}
                    end += frame(data)
                return end + STREAM_END
        return b""

    def first(self) -> bytes:
        """The first frame of a stream."""
        return b""

    def delta(
        self, *, text: str = "", thinking: str = "", calls: Sequence[ToolCall] = ()
    ) -> Mapping[str, Any]:
        """A choice's part of a chunk. Without a chat template there is neither thinking nor calls."""
        return {"text": thinking + text}

    def _tokens_of(self, text: str, *, thinking: bool = False) -> Sequence[TokenLogprob]:
        """The tokens of a piece of text, without markers and other tokens that have no text.

        Tokens arrive before their text, which is held back while it may be the start of a marker.
        """
        if thinking and not self.counts_thinking:
            self._pending = []
            return ()
        spelled = [as_bytes(token.text) for token in self._pending]
        start = b"".join(spelled).rfind(text.encode())
        end, at = start + len(text.encode()), 0
        tokens, later = list[TokenLogprob](), list[TokenLogprob]()
        for token, data in zip(self._pending, spelled, strict=True):
            if at >= end > start >= 0:
                later.append(token)
            elif start < 0 or at + len(data) > start:
                tokens.append(token)
            at += len(data)
        self._pending = later
        self._logprobs += tokens
        return tokens

    def _chunk(
        self, delta: Mapping[str, Any], finish: str | None = None, tokens: Sequence[TokenLogprob] = ()
    ) -> bytes:
        choice = {"index": self.index, **delta, "logprobs": self.logprobs(tokens), "finish_reason": finish}
        data = {**self._head, "object": self.chunk_object, "choices": [choice]}
        return frame({**data, "usage": None} if self._usage_asked else data)

    def logprobs(self, tokens: Sequence[TokenLogprob]) -> Json | None:
        """The tokens' logprobs in the API's format; None if there are none or they were not requested."""
        if self.request.top_logprobs is None or not tokens:
            return None
        return {
            "tokens": [readable(token.text) for token in tokens],
            "token_logprobs": [max(token.logprob, MIN_LOGPROB) for token in tokens],
            "top_logprobs": [
                {readable(text): max(logprob, MIN_LOGPROB) for _, text, logprob in token.top}
                for token in tokens
            ],
        }

    def choice(self) -> Json:
        return {"text": self.thinking + self.text}

    def whole(self) -> Json:
        choices = [
            {
                "index": each.index,
                **each.choice(),
                "logprobs": each.logprobs(each._logprobs),
                "finish_reason": finish_reason(each.record, each.calls),
            }
            for each in self.choices
            if each.record is not None
        ]
        return {**self._head, "object": self.object, "choices": choices, "usage": self.usage()}

    def usage(self) -> Json:
        """Token counts. Cached tokens came from a checkpoint, in memory or on disk.

        The prompt counts once, as the first reply found it.
        """
        records = [each.record for each in self.choices if each.record is not None]
        first, generated = records[0], sum(record.generated_tokens for record in records)
        return {
            "prompt_tokens": first.prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": first.prompt_tokens + generated,
            "prompt_tokens_details": {"cached_tokens": first.reused_tokens + first.typeahead_tokens},
            "completion_tokens_details": {
                "reasoning_tokens": sum(record.thinking_tokens for record in records)
            },
        }

    def error_frame(self, error: ChatcliError, status: int) -> bytes:
        return frame(error_of(error, status))


class ChatCompletion(Completion):
    """`POST /v1/chat/completions`."""

    object, prefix = "chat.completion", "chatcmpl"
    counts_thinking = False
    chunk_object = "chat.completion.chunk"

    def read(self, body: Fields) -> ReplyRequest:
        for key in ("functions", "function_call"):
            body.refuse(key, f"{CANNOT}: use tools")
        for key in ("audio", "prediction", "web_search_options"):
            body.refuse(key, CANNOT)
        top = None
        if body.get("logprobs", bool):
            top = body.get("top_logprobs", int) or 0
            if not 0 <= top <= MAX_TOP_LOGPROBS:
                raise body.wrong("top_logprobs", f"must be a whole number from 0 to {MAX_TOP_LOGPROBS}")
        body.need("messages", list)
        reader = ContentReader("text or an image")
        messages = list(read_messages(body.objects("messages"), reader))
        tools = []
        for tool in body.objects("tools"):
            if tool.need("type", str) != "function":
                raise tool.wrong("type", "must be function")
            function = Fields(tool.need("function", dict), tool.name("function"))
            tools.append(tool_object(function, "parameters"))
        shown, answer, one_call = choose(body, tools, read_schema(body.object("response_format")))
        arguments = body.template_arguments("chat_template_kwargs")
        think, effort = read_thinking(body, arguments, body.get("reasoning_effort", str))
        ordered, beginning = in_order(messages)
        return ReplyRequest(
            messages=ordered,
            beginning=beginning,
            tools=shown,
            images=tuple(reader.images.values()),
            brought=newest_images(messages),
            sampling=read_sampling(body),
            think=thinks(think, beginning),
            effort=effort,
            arguments=arguments,
            top_logprobs=top,
            private=body.get("store", bool) is False,
            answer=answer,
            one_call=one_call,
        )

    def first(self) -> bytes:
        return self._chunk({"delta": {"role": "assistant", "content": "", "refusal": None}})

    def delta(
        self, *, text: str = "", thinking: str = "", calls: Sequence[ToolCall] = ()
    ) -> Mapping[str, Any]:
        delta: Json = {}
        if text:
            delta["content"] = text
        if thinking:
            delta |= {"reasoning_content": thinking, "reasoning": thinking}
        if calls:
            # `self.calls` already includes `calls`.
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
        message["refusal"] = None
        if self.thinking:
            message |= {"reasoning_content": self.thinking, "reasoning": self.thinking}
        if self.calls:
            message["tool_calls"] = [call_object(call) for call in self.calls]
        return {"message": message}


def token_object(token: int, text: str, logprob: float) -> Json:
    """A token with the fields of OpenAI (`token`, `bytes`) and mlx-lm (`id`)."""
    return {
        "id": token,
        "token": readable(text),
        "logprob": max(logprob, MIN_LOGPROB),
        "bytes": list(as_bytes(text)),
    }


def call_object(call: ToolCall) -> Json:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def finish_reason(record: TurnRecord, calls: Sequence[ToolCall]) -> str:
    return "tool_calls" if calls and record.finish_reason == "stop" else record.finish_reason


def read_sampling(body: Fields) -> Sampling:
    """Raises `BadRequest`."""
    given = body.get("logit_bias", dict)
    if not given:
        return body.sampling(SAMPLING)
    for token, bias in given.items():
        is_number = isinstance(bias, int | float) and not isinstance(bias, bool)
        if not (token.isdecimal() and len(token) < 10 and is_number and abs(bias) <= 1e6):
            raise body.wrong("logit_bias", "must map token ids to numbers that are added to their logits")
    biases = tuple((int(token), float(bias)) for token, bias in given.items())
    return body.sampling(SAMPLING, logit_bias=biases)


def read_thinking(
    body: Fields, arguments: dict[str, Any], effort: str | None
) -> tuple[bool | None, str | None]:
    """Whether and how much to think. Moves the switches out of `arguments`. Raises `BadRequest`."""
    think = body.get("enable_thinking", bool)
    own = Fields(arguments, "chat_template_kwargs")
    for key in ("enable_thinking", "thinking"):
        switch = own.get(key, bool)
        think = switch if switch is not None else think
        arguments.pop(key, None)
    if effort == "none":
        return (False if think is None else think), None
    return think, effort or None


def tool_object(function: Fields, parameters: str) -> Json:
    """A tool in the format of chat templates; `parameters` is the field with its JSON schema."""
    schema = function.get(parameters, dict)
    return {
        "type": "function",
        "function": {
            "name": function.need("name", str),
            "description": function.get("description", str) or "",
            "parameters": {"type": "object", "properties": {}} if schema is None else schema,
            **({"strict": True} if function.get("strict", bool) else {}),
        },
    }


def read_messages(given: Sequence[Fields], reader: ContentReader) -> Iterator[Message]:
    """Raises `BadRequest`, `NotAnImage` and `ImagesRefused`."""
    for number, fields in enumerate(given, start=1):
        role = fields.need("role", str)
        is_asked = number == len(given) and role == "user"
        texts, pictures = reader.content(fields, "content", lenient=not is_asked)
        match role:
            case "system" | "developer":
                texts = [each for each in texts if not each.startswith(CHANGING_SYSTEM)]
                yield Message("system", "\n".join(texts))
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


def read_call(function: Fields, call_id: str, at: int) -> ToolCall:
    """A call after `at` characters of a reply's text. Raises `BadRequest`.

    Arguments may be any text, because a model may write any.
    """
    arguments = function.values.get("arguments")
    if not isinstance(arguments, str | None):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(function.need("name", str), arguments or "{}", call_id, at, at)
