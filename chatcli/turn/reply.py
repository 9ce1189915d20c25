"""Collects a reply from its tokens: separates thinking from text, and stops at a stop text."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from chatcli.chat_format.stop import StopTexts
from chatcli.engine.generate import Token
from chatcli.events import Event, TextDelta, ThinkingDelta, ToolCalled, TurnRecord
from chatcli.replies.splitter import Part, ReplySplitter

# With fewer tokens a rate would be noise, so none is given.
MIN_RATE_TOKENS = 4


class ReplyCollector:
    """Adds tokens to `record` and yields their text as events.

    `logprobs` are MLX scalars, one per token; `from_draft` says whether a draft model proposed each token,
    `accepted` whether it was guessed.
    """

    def __init__(
        self,
        record: TurnRecord,
        splitter: ReplySplitter | None,
        stops: Sequence[str],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`splitter` None: the whole reply is text, unchanged."""
        self.record = record
        self._clock = clock
        # When the thinking would have begun without an interruption.
        self._thinking_began: float | None = None
        self.logprobs: list[Any] = []
        self.from_draft: list[bool] = []
        self.accepted: list[bool] = []
        self._splitter = splitter
        self._stop = StopTexts(stops)
        # The length of the text after each token, to cut the tokens where a stop text begins.
        self._characters = [0]

    @property
    def stopped(self) -> bool:
        """Whether a stop text was found. What follows it is not part of the reply."""
        return self._stop.found

    @property
    def stop_text(self) -> str | None:
        """The stop text that was found."""
        return self._stop.found_text

    def recall(
        self, tokens: Sequence[int], text: str, thinking_tokens: int = 0, thinking_seconds: float = 0.0
    ) -> None:
        """Take the beginning of a continued reply, without events. The last two are from its record."""
        self.record.tokens = list(tokens)
        for _ in self._deltas(self._split(text)):
            pass
        if self._stop.characters:
            # All tokens came before the first of these deltas.
            self.record.thinking_tokens = thinking_tokens
        self.record.thinking_seconds, self._thinking_began = thinking_seconds, None
        self._characters = [self._stop.characters]

    def take(self, token: Token) -> Iterator[Event]:
        """Add the next token."""
        record = self.record
        record.tokens.append(token.id)
        self.logprobs.append(token.logprob)
        self.from_draft.append(token.from_draft)
        self.accepted.append(token.accepted)
        record.guessed_tokens += token.guessed
        if len(self.logprobs) >= MIN_RATE_TOKENS:
            record.generation_tps = token.tps
        record.finish_reason = token.finish_reason or record.finish_reason
        yield from self._deltas(self._split(token.text))
        self._characters.append(self._stop.characters)

    def finish(self) -> Iterator[Event]:
        """End the reply, and drop tokens that begin after a stop text."""
        if self._splitter is not None:
            yield from self._deltas(self._splitter.finish())
        yield from self._emit(self._stop.finish())
        if self._stop.end is not None:
            record, count, end = self.record, len(self.logprobs), self._stop.end
            record.finish_reason = "stop"
            kept = sum(first < end or last <= end for first, last in itertools.pairwise(self._characters))
            del record.tokens[len(record.tokens) - count + kept :]
            del self.logprobs[kept:]
            del self.from_draft[kept:]
            del self.accepted[kept:]
        self.record.generated_tokens = len(self.logprobs)
        self.record.draft_accepted_tokens = sum(self.from_draft)
        self.record.accepted_tokens = sum(self.accepted)

    def _split(self, text: str) -> list[Part]:
        return [Part(text)] if self._splitter is None else self._splitter.feed(text)

    def _deltas(self, parts: Iterable[Part]) -> Iterator[Event]:
        record, stop = self.record, self._stop
        for part in parts:
            if stop.found:
                return
            # Templates put line breaks around thinking and before the reply, which belong to neither.
            has_begun = bool(record.thinking if part.thinking else stop.characters)
            as_it_is = has_begun or self._splitter is None
            text = part.text if as_it_is else part.text.lstrip("\n")
            if part.thinking:
                record.thinking += text
                if self._thinking_began is None:
                    self._thinking_began = self._clock() - record.thinking_seconds
                record.thinking_seconds = self._clock() - self._thinking_began
                record.thinking_tokens = len(record.tokens)
                yield ThinkingDelta(text, record.thinking_tokens, record.thinking_seconds)
            elif part.calls and text:
                # Tool calls are not searched for stop texts. Text that was held back comes first.
                yield from self._emit(stop.finish())
                stop.characters += len(text)
                start = len(record.text)
                record.text += text
                end = start + len(text.rstrip())
                record.tool_calls += [
                    {"start": start, "end": end, "name": call.name, "arguments": call.arguments}
                    for call in part.calls
                ]
                yield ToolCalled(text, part.calls)
            elif text:
                yield from self._emit(stop.feed(text))

    def _emit(self, text: str) -> Iterator[Event]:
        if text:
            self.record.text += text
            yield TextDelta(text)
