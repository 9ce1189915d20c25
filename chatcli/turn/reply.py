"""A reply as its tokens come: thinking apart from text, up to a stop text; refuses to know their source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from chatcli.chat_format.markers import Part, ReplySplitter
from chatcli.chat_format.stop import StopTexts
from chatcli.engine.generate import Token
from chatcli.events import Event, TextDelta, ThinkingDelta, ToolCalled, TurnRecord


class ReplyCollector:
    """Adds what is said to `record` and tells it. `logprobs` are the tokens', as arrays.

    `proposed` says of each token whether it is from a draft model.
    """

    def __init__(self, record: TurnRecord, splitter: ReplySplitter, stops: Sequence[str]) -> None:
        self.record = record
        self.logprobs: list[Any] = []
        self.proposed: list[bool] = []
        self._splitter = splitter
        self._stop = StopTexts(stops)
        self._heard = [0]

    @property
    def stopped(self) -> bool:
        """Whether a stop text was there: what comes after it is not heard."""
        return self._stop.found

    def recall(self, said: Sequence[int], text: str) -> None:
        """The beginning of a reply that goes on, which is not told again."""
        self.record.tokens = list(said)
        for _ in self._deltas(self._splitter.feed(text)):
            pass
        self._heard = [self._stop.heard]

    def take(self, token: Token) -> Iterator[Event]:
        """Hear the next token."""
        record = self.record
        record.tokens.append(token.id)
        self.logprobs.append(token.logprob)
        self.proposed.append(token.from_draft)
        record.generation_tps = token.tps
        record.finish_reason = token.finish_reason or record.finish_reason
        yield from self._deltas(self._splitter.feed(token.text))
        self._heard.append(self._stop.heard)

    def finish(self) -> Iterator[Event]:
        """No more tokens come. Those that begin after a stop text are left out."""
        yield from self._deltas(self._splitter.finish())
        yield from self._told(self._stop.finish())
        if self._stop.end is not None:
            self._end_before(self._stop.end)
        self.record.generated_tokens = len(self.logprobs)
        self.record.draft_accepted_tokens = sum(self.proposed)

    def _end_before(self, end: int) -> None:
        record, count = self.record, len(self.logprobs)
        record.finish_reason = "stop"
        kept = sum(first < end or last <= end for first, last in itertools.pairwise(self._heard))
        del record.tokens[len(record.tokens) - count + kept :]
        del self.logprobs[kept:]
        del self.proposed[kept:]

    def _deltas(self, parts: Iterator[Part]) -> Iterator[Event]:
        record, stop = self.record, self._stop
        for part in parts:
            if stop.found:
                return
            # Templates put line breaks around thinking and before the reply; they are no one's words.
            begun = record.thinking if part.thinking else stop.heard
            text = part.text if begun else part.text.lstrip("\n")
            if part.thinking:
                record.thinking += text
                yield ThinkingDelta(text, len(record.tokens))
            elif part.calls and text:
                # A tool call is no text to search; what was held back comes before it.
                yield from self._told(stop.finish())
                stop.heard += len(text)
                record.text += text
                yield ToolCalled(text, part.calls)
            elif text:
                yield from self._told(stop.feed(text))

    def _told(self, text: str) -> Iterator[Event]:
        if text:
            self.record.text += text
            yield TextDelta(text)
