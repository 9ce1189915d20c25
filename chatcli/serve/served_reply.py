"""A reply that a server generates; delivers its tokens as events."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from chatcli.chat_format import token_bytes
from chatcli.engine.generate import Token
from chatcli.events import Event, TextDelta, ThinkingDelta, ToolCalled
from chatcli.serve.request import CallsMade, Deliver, ReplyRequest, TokenLogprob
from chatcli.turn.batch import BatchReply


@dataclass(eq=False, kw_only=True)
class ServedReply(BatchReply):
    """A reply whose events are delivered as they come."""

    deliver: Deliver
    asked: ReplyRequest
    calls: list[str] = field(default_factory=list)
    spell: Callable[[int, str], bytes] | None = None

    def take(self, token: Token) -> bool:
        if self.asked.top_logprobs is not None and token.finish_reason != "stop":
            checkpoints = self.context.checkpoints
            (logprob,) = checkpoints.floats([token.logprob])
            decode = checkpoints.loaded.tokenizer.decode
            top = tuple((each, self._spelled(each, decode([each])), value) for each, value in token.likeliest)
            self.deliver(TokenLogprob(token.id, self._spelled(token.id, token.text), logprob, top))
        return super().take(token) or self.has_its_call

    @property
    def has_its_call(self) -> bool:
        """Whether it has a call and the request allows only one."""
        return self.asked.one_call and bool(self.calls)

    def _spelled(self, token: int, added: str) -> str:
        """A token's bytes as text; `added` is the text that it added to the reply."""
        tokenizer = self.context.checkpoints.loaded.tokenizer
        if self.spell is None:
            self.spell = token_bytes.speller(tokenizer)
        data = self.spell(token, added)
        if not self.record.tokens:
            data = token_bytes.without_first_space(tokenizer, token, data)
        return token_bytes.as_text(data)

    def show(self, events: Iterator[Event]) -> None:
        for event in events:
            if isinstance(event, TextDelta | ThinkingDelta):
                self.deliver(event)
            elif isinstance(event, ToolCalled):
                most = 1 - len(self.calls) if self.asked.one_call else None
                called = [replace(call, id=self._free_id(call.id)) for call in event.calls[:most]]
                if called and self.asked.one_call:
                    self.record.finish_reason = "stop"
                self.calls += [call.id for call in called]
                if called:
                    self.deliver(CallsMade(tuple(called)))

    def _free_id(self, written: str) -> str:
        """The id that the model wrote for a call, since templates may show it; a new one if none or taken."""
        taken = {call.id for message in self.asked.messages for call in message.tool_calls}
        return written if written and written not in taken.union(self.calls) else new_call_id()


def new_call_id() -> str:
    """Nine letters and digits: Mistral's templates accept nothing else."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))
