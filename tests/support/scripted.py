"""Tiny real models that generate scripted replies and record every token they are run on.

The model runs on real caches; only the generated tokens follow the script, because a random model's
tokens are no reply that a conversation could be measured with.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from chatcli.bench.scripted import Scripted, script
from chatcli.chat_format.template import Template
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.conversation.tree import Conversation
from chatcli.events import Settled, TurnRecord
from chatcli.kv import prompt_cache
from chatcli.model.load import load
from chatcli.session import opening
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import DEFAULTS, ModelOptions, Sampling
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript
from chatcli.threads.mlx_thread import Worker
from chatcli.turn import turn, typeahead
from tests.support.harness import SYSTEM, finish

REPLY_TOKENS = 64

# Without thinking: history has the generated text unchanged.
PLAIN = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""
# No generation prompt at all: every token of a prompt stays in history.
BARE = """\
{%- for m in messages %}{{- m.content + '<|im_end|>' }}{%- endfor %}"""


class RecordingModel(Scripted):
    """A scripted model that records the tokens that it was run on."""

    @property
    def single_runs(self) -> int:
        """How many tokens it was run on one by one since the last call of `take_run_ids`."""
        return sum(run.size == 1 for run in self._ids)

    def take_run_ids(self) -> list[int]:
        """The ids of every token that was run since the last call."""
        ids = [token for run in self._ids for row in run.tolist() for token in row]
        self._ids.clear()
        self._greedy.clear()
        return ids


class RecordedTurn(NamedTuple):
    """A turn's record, and the tokens that the model was run on for it."""

    record: TurnRecord
    tokens: list[int]


class ScriptedHarness:
    """The state of one chatcli process with a scripted model: only the disk outlives closing it."""

    def __init__(
        self,
        folder: Path,
        sessions: Path,
        *,
        think: bool | None = None,
        cache: bool = True,
        model_options: ModelOptions = DEFAULTS,
    ) -> None:
        self.worker = Worker()
        self.folder = SessionFolder(sessions)
        self.think = think
        self._opened: list[SessionLog] = []
        loaded = self.worker.call(load, str(folder), model_options=model_options)
        options = {} if think is None else {"enable_thinking": think}
        self.script = script(loaded.tokenizer, REPLY_TOKENS, **options)
        vocabulary = len(loaded.tokenizer.get_vocab())
        self.model = RecordingModel(loaded.model, vocabulary, self.script.ids)
        self.loaded = replace(loaded, model=self.model)
        self.store = SegmentStore(sessions, loaded.fingerprint) if cache else None
        self.checkpoints = Checkpoints(self.worker, self.loaded, self.store)

    def __enter__(self) -> ScriptedHarness:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._opened:
            session.close()
        if self.store is not None:
            self.store.tidy()
            self.store.close()
        self.worker.close()

    def chat(self, name: str, at: int | None = None) -> turn.TurnContext:
        """Open session `name`, or begin it."""
        session = opening.open_session(self.folder, SessionRequest(name, at=at), SYSTEM)
        if not session.is_saved:
            session = opening.save(self.folder, session, name, "scripted")
        self._opened.append(session)
        return self._context(session)

    def unsaved(self, conversation: Conversation) -> turn.TurnContext:
        return self._context(SessionLog(Transcript("", conversation)))

    def _context(self, session: SessionLog) -> turn.TurnContext:
        template = Template(self.loaded.tokenizer, session.conversation.date, self.think)
        return turn.TurnContext(session, template, self.checkpoints, Sampling())

    def prompt(self, texts: Sequence[str], replies: Sequence[str] | None = None) -> list[int]:
        """The prompt of the turn that ends `texts`, by the tokenizer alone.

        `replies` are those to all but the last of `texts` (None: the script's, if none was cut).
        """
        answers = [self.script.reply] * (len(texts) - 1) if replies is None else replies
        messages = [{"role": "system", "content": SYSTEM}]
        for text, answer in zip(texts, [*answers, ""], strict=True):
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": answer})
        options = {} if self.think is None else {"enable_thinking": self.think}
        tokenizer = self.loaded.tokenizer
        text = tokenizer.apply_chat_template(
            messages[:-1], tokenize=False, add_generation_prompt=True, **options
        )
        return list(tokenizer.encode(text, add_special_tokens=False))

    def logprobs(self, tokens: Sequence[int], start: int) -> list[float]:
        """The logprobs of `tokens[start:]`, from one run of all tokens on a new cache."""
        return self.worker.call(self._logprobs, list(tokens), start)

    def _logprobs(self, tokens: list[int], start: int) -> list[float]:
        cache = prompt_cache.new(self.loaded.model)
        logits = self.model(mx.array(tokens[:-1])[None], cache=cache)[0, start - 1 :]
        chosen = mx.take_along_axis(logits, mx.array(tokens[start:])[:, None], axis=-1)
        self.model.take_run_ids()
        return list((chosen[:, 0] - mx.logsumexp(logits, axis=-1)).tolist())

    def take(
        self, chat: turn.TurnContext, text: str, stop: int | threading.Event | None = None
    ) -> RecordedTurn:
        """Take a turn without settling it, until `stop` is set, or the event of that number has come."""
        self.model.take_run_ids()
        if isinstance(stop, threading.Event):
            record = finish(turn.take(chat, text, stop))
        else:
            record = finish(until(turn.take, chat, text, stop))
        return RecordedTurn(record, self.model.take_run_ids())

    def settle(self, chat: turn.TurnContext, record: TurnRecord, events: int | None = None) -> list[int]:
        """Settle the last reply; `events`: cancel at that event. Returns the tokens that were run."""
        self.model.take_run_ids()
        for event in until(turn.settle, chat, events):
            if isinstance(event, Settled):
                record.add(event)
        return self.model.take_run_ids()

    def typeahead(self, chat: turn.TurnContext, text: str, events: int | None = None) -> list[int]:
        """Prefill `text` as if typed; `events`: cancel at that event. Returns the tokens that were run."""
        self.model.take_run_ids()
        for _ in until(typeahead.typeahead, chat, text, events):
            pass
        return self.model.take_run_ids()


def until(work: Any, *arguments: Any) -> Iterator[Any]:
    """The events of `work(*arguments[:-1])`; the last argument is the event to cancel at (None: never)."""
    *work_arguments, events = arguments
    stop = threading.Event()
    for number, event in enumerate(work(*work_arguments, stop), start=1):
        if number == events:
            stop.set()
        yield event
