"""The order of things in a turn; refuses to know terminals.

`take` tells it: append, render, match, restore, prefill, checkpoint, generate, persist. `settle` follows.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chatcli.chat_format.markers import ReplySplitter
from chatcli.chat_format.template import Template
from chatcli.checkpoints.checkpoints import Checkpoints, Match
from chatcli.checkpoints.draft_model import Speculation, follow
from chatcli.conversation import finish
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.engine.generate import Request
from chatcli.errors import ContextFull, EmptyPrompt, MemoryFull, RankLost, TemplateRefused
from chatcli.events import (
    Event,
    Notice,
    PrefillProgress,
    PrefixMatched,
    Settled,
    TurnDone,
    TurnRecord,
)
from chatcli.model import vision
from chatcli.model.vision import legible
from chatcli.settings.values import Sampling
from chatcli.store.segments import prefix
from chatcli.store.segments.prefix import Segment
from chatcli.store.sessions.folder import SessionFile
from chatcli.text import decodable
from chatcli.turn.reply import ReplyCollector

# A beginning before any message that is shorter costs more to keep than to compute.
LEAST_TOKENS = 16
SHOWN = 8
GONE = "the checkpoints are gone: evicted"
# A reply's record tells the boundaries around it, by their distance in messages.
PLACES = {"before": -2, "question": -1, "reply": 0}


@dataclass
class TurnContext:
    """A conversation, the template that renders it and the checkpoints that serve it.

    `session` is its open file; None: it has none before its first message is sent.

    `boundaries` are those of the last cut: token position by number of messages. `speculation` is
    the draft model that proposes a reply's tokens; None: there is none.
    """

    session: SessionFile | None
    conversation: Conversation
    template: Template
    checkpoints: Checkpoints
    sampling: Sampling
    boundaries: dict[int, int] = field(default_factory=dict)
    speculation: Speculation | None = None

    @property
    def saved(self) -> SessionFile:
        """The session's file, where there must be one."""
        assert self.session is not None
        return self.session


@dataclass(frozen=True)
class Prompt:
    """A path as tokens, the segments of its stable prefix, and the generation prompt's text.

    Where a reply that was cut goes on, `said` is what there is of it, and the last of the tokens.
    `moved` says why more than the generation prompt is never kept, if that is so.
    """

    tokens: list[int]
    chain: list[Segment]
    opening: str
    said: tuple[int, ...] = ()
    moved: str | None = None

    @property
    def stable(self) -> int:
        return self.chain[-1].end if self.chain else 0

    @property
    def before(self) -> list[int]:
        """What the cache has when the tail is run."""
        return self.tokens[: self.stable]

    @property
    def tail(self) -> list[int]:
        """What is run anew in every turn: the generation prompt, at least one token."""
        return self.tokens[self.stable :]


def take(
    chat: TurnContext, text: str, cancelled: threading.Event, images: Sequence[Image] = ()
) -> Iterator[Event]:
    """One turn: from a user's words, and images that go with them, to a reply that is on disk.

    Setting `cancelled` ends it after the current chunk or token; what came is kept as the reply.
    Raises `EmptyPrompt`, `NotAnImage`, `TemplateRefused`, `ContextFull` or `MemoryFull`, and
    `FolderError` if it cannot be saved.
    """
    started = time.perf_counter()
    user = append(chat, text, images)
    try:
        yield from answer(chat, user, render(chat, user), started, cancelled)
    except (TemplateRefused, ContextFull, MemoryFull):
        chat.saved.move_head(user.parent)
        raise


def answer(
    chat: TurnContext, user: Entry, prompt: Prompt, started: float, cancelled: threading.Event
) -> Iterator[Event]:
    """Match, restore, prefill, checkpoint, generate, persist. `started` is `perf_counter`'s.

    A reply that never began is not kept beside another. Raises `MemoryFull`, and `RankLost` with
    what there is of the reply on disk.
    """
    record = TurnRecord(chat.saved.name, len(chat.conversation.turns()))
    yield from prepare(chat, prompt, record, cancelled)
    siblings = len(chat.conversation.children(user.id))
    sampling = chat.sampling.shifted(siblings)
    try:
        yield from generate(chat, prompt, sampling, record, started, cancelled)
    except RankLost:
        if len(record.tokens) > len(prompt.said):
            persist(chat, user, record)
        raise
    kept = len(record.tokens) > len(prompt.said) or not siblings
    if kept:
        persist(chat, user, record)
    yield from problems(chat)
    yield TurnDone(record, kept)


def find(chat: TurnContext, tokens: Sequence[int], chain: Sequence[Segment]) -> Match:
    """What there is of a prompt. Raises `MemoryFull` if bringing it there would take too much."""
    match = chat.checkpoints.match(chain, tokens)
    chat.checkpoints.check(chain, match.depth, len(tokens))
    return match


def prepare(
    chat: TurnContext, prompt: Prompt, record: TurnRecord, cancelled: threading.Event
) -> Iterator[Event]:
    """Match, restore, prefill, checkpoint: bring the live cache to the stable prefix."""
    match = find(chat, prompt.tokens, prompt.chain)
    match = restore(chat, prompt, match, record)
    yield PrefixMatched(record.prompt_tokens, record.reused_tokens, record.miss_reason)
    yield from prefill(chat, prompt, match, record, cancelled)


def append(chat: TurnContext, text: str, images: Sequence[Image] = ()) -> Entry:
    """Put the message on disk before the model sees it.

    Raises `EmptyPrompt`, and for images `NotAnImage` or `ImagesRefused`.
    """
    if not text.strip():
        raise EmptyPrompt("The message is empty: write something.")
    said = Message("user", decodable(text), images=tuple(image.picture for image in images))
    session, loaded = chat.saved, chat.checkpoints.loaded
    with vision.keeping(loaded.vision, images, loaded.name):
        if lost := session.conversation.unanswered():
            # Templates want turns to alternate: a message whose reply never came gets an empty one.
            session.append(Message("assistant", ""), lost.id, finish_reason="cancelled")
        return session.append(said, session.conversation.head)


def render(chat: TurnContext, user: Entry) -> Prompt:
    """The path to `user` as tokens and segments. Raises `TemplateRefused` or `ContextFull`."""
    messages = history(chat, user)
    tokens = chat.template.prompt(messages)
    room_left(chat, len(tokens), alone=user.parent is None)
    chain = cut(chat, tokens, messages, user)
    prompt = Prompt(tokens, chain, chat.template.opening(messages))
    more = len(prompt.tail) > len(chat.template.encode(prompt.opening))
    return replace(prompt, moved=chat.template.moved(messages)) if more else prompt


def history(chat: TurnContext, leaf: Entry | None) -> list[Message]:
    """The system prompt and every message from the root to `leaf`; None: nothing was said."""
    conversation = chat.conversation
    system = [Message("system", conversation.system)] if conversation.system else []
    return system + [entry.message for entry in (conversation.path(leaf.id) if leaf else ())]


def cut(chat: TurnContext, tokens: Sequence[int], messages: Sequence[Message], leaf: Entry) -> list[Segment]:
    """The tokens' segments up to the stable prefix of `messages`, which end with `leaf`."""
    found = chat.template.boundaries(messages, known_boundaries(chat, messages, leaf))
    chat.boundaries = dict(zip(range(len(messages), -1, -1), reversed(found), strict=False))
    return segments(chat, tokens, found)


def segments(chat: TurnContext, tokens: Sequence[int], found: list[int]) -> list[Segment]:
    """The segments that boundaries cut a prompt into."""
    if found[0] < LEAST_TOKENS:
        found = found[1:]
    boundaries = prefix.usable_boundaries(found, len(tokens))
    return prefix.chain(chat.checkpoints.root, tokens, boundaries)


def known_boundaries(chat: TurnContext, messages: Sequence[Message], leaf: Entry) -> dict[int, int]:
    """What earlier turns found, so that a long conversation is not rendered over and over."""
    path = chat.conversation.path(leaf.id)
    before = len(messages) - len(path)
    known: dict[int, int] = {}
    for count, entry in enumerate(path, start=before + 1):
        if entry.record.get("template") == template_key(chat):
            found = entry.record.get("boundaries", {})
            known |= {count + place: found[name] for name, place in PLACES.items() if name in found}
    return known


def new_boundaries(chat: TurnContext, leaf: Entry) -> dict[str, int]:
    """The boundaries around the last reply, as its record keeps them. `leaf` ended the last cut."""
    count = max(chat.boundaries) + (leaf.message.role == "user")
    places = {name: count + place for name, place in PLACES.items()}
    return {name: chat.boundaries[at] for name, at in places.items() if at in chat.boundaries}


def template_key(chat: TurnContext) -> str:
    """What boundaries depend on besides the path: template, clock, thinking, system prompt, model."""
    system = chat.conversation.system or ""
    parts = (chat.template.key, system, chat.checkpoints.loaded.fingerprint)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def room_left(chat: TurnContext, used: int, alone: bool = False) -> int:
    """Tokens that the context still takes. `alone`: nothing was said before. Raises `ContextFull`."""
    context = chat.checkpoints.loaded.context
    if used < context:
        return context - used
    if alone:
        raise ContextFull(
            f"This message does not fit the model: {used:,} tokens with the system prompt, of {context:,}. "
            "Send a shorter one, or choose a model with a longer context with -m."
        )
    raise ContextFull(
        f"The conversation no longer fits the model: {used:,} tokens of {context:,}. Branch from an "
        "earlier turn or start a new session; in a chat, /compact goes on from a summary."
    )


def restore(chat: TurnContext, prompt: Prompt, match: Match, record: TurnRecord) -> Match:
    """Bring the cache to the match, from memory or from disk."""
    began = time.perf_counter()
    match = chat.checkpoints.restore(prompt.chain, prompt.tokens, match)
    record.restore_seconds = time.perf_counter() - began
    record.prompt_tokens = len(prompt.tokens)
    record.reused_tokens = end_of(prompt.chain, match)
    record.drafted_tokens = match.drafted
    record.avoided_seconds = chat.checkpoints.took(prompt.chain, match)
    record.prefilled_tokens = record.prompt_tokens - record.reused_tokens
    record.miss_reason = match.reason or explain(chat, prompt, match.depth) or prompt.moved
    return match


def end_of(chain: Sequence[Segment], match: Match) -> int:
    """How many tokens a match covers."""
    return (chain[match.depth - 1].end if match.depth else 0) + match.ahead


def explain(chat: TurnContext, prompt: Prompt, depth: int) -> str | None:
    """Why less was reused than the last turn left behind; None if nothing is missing."""
    chain = prompt.chain
    records = [entry.record for entry in chat.conversation.path() if entry.record]
    records = [record for record in records if record.get("segments")]
    if not records:
        return None
    if records[-1].get("fingerprint") != chat.checkpoints.loaded.fingerprint:
        return f"the model or its cache settings changed (before: {records[-1].get('model')})"
    ends = {segment.id: number for number, segment in enumerate(chain, start=1)}
    if records[-1]["segments"][-1] not in ends:
        names = [name for record in records for name in record["segments"]]
        return parting(chat, prompt.tokens, names)
    if depth < ends[records[-1]["segments"][-1]]:
        return f"the checkpoint after token {chain[depth - 1].end} is gone: evicted" if depth else GONE
    return None


def parting(chat: TurnContext, tokens: Sequence[int], names: Sequence[str]) -> str:
    """Where a prompt parted from the one that these segments were made of, with the two texts."""
    store, loaded = chat.checkpoints.store, chat.checkpoints.loaded
    before = store.tokens_of(list(dict.fromkeys(names))) if store is not None else []
    at = prefix.common_prefix(before, tokens)
    if at == len(before):
        return "the checkpoints end at other places now (thinking, template)" if at else GONE
    old, new = (legible(loaded.tokenizer, side[at : at + SHOWN]) for side in (before, tokens))
    return f"the prompt changed at token {at}: {old!r} → {new!r} (system prompt, date, thinking, template)"


def prefill(
    chat: TurnContext, prompt: Prompt, match: Match, record: TurnRecord, cancelled: threading.Event
) -> Iterator[Event]:
    """Run what is new up to the stable prefix, and checkpoint at every boundary on the way."""
    began = time.perf_counter()
    done = 0
    record.checkpoint_bytes += chat.checkpoints.accept_draft(prompt.chain[: match.depth], prompt.tokens)
    steps = chat.checkpoints.run(prompt.chain, prompt.tokens, match.depth, cancelled)
    for count, size in steps:
        record.checkpoint_bytes += size
        if count:
            done += count
            yield PrefillProgress(done, record.prefilled_tokens)
    record.prefill_seconds = time.perf_counter() - began
    record.unrun_tokens = record.prefilled_tokens - done


def generate(
    chat: TurnContext,
    prompt: Prompt,
    sampling: Sampling,
    record: TurnRecord,
    started: float,
    cancelled: threading.Event,
) -> Iterator[Event]:
    """Stream the reply, thinking apart from text."""
    began = time.perf_counter()
    record.checkpoint_bytes += follow(chat.speculation, prompt.chain, prompt.tokens, cancelled)
    if cancelled.is_set():
        return
    record.unrun_tokens = 0
    heard = hearing(chat, prompt, sampling, record)
    context = room_left(chat, len(prompt.tokens))
    room = chat.checkpoints.room(len(prompt.tokens), context)
    request = Request(prompt.tail, sampling, room, prompt.said, prompt.opening, prompt.before)
    speculation = chat.speculation
    if speculation is None:
        generated = chat.checkpoints.generate(request, cancelled)
    else:
        record.draft_model = speculation.name
        generated = speculation.generate(chat.checkpoints, request, cancelled)
    with contextlib.closing(generated):
        for token in generated:
            if record.time_to_first_token is None:
                record.time_to_first_token = time.perf_counter() - started
                record.prefill_seconds += time.perf_counter() - began
            yield from heard.take(token)
            if heard.stopped:
                break
    yield from heard.finish()
    record.logprobs = chat.checkpoints.floats(heard.logprobs)
    if len(record.tokens) - len(prompt.said) == room < context:
        yield Notice(f"{finish.CUT} because the memory is full: allow more with --memory-limit.")
    used = len(prompt.tokens) + record.generated_tokens
    if speculation is not None and (why := speculation.take_notice(used)):
        yield Notice(why)


def hearing(chat: TurnContext, prompt: Prompt, sampling: Sampling, record: TurnRecord) -> ReplyCollector:
    """One that has heard what was said before, which the record has then too."""
    splitter = ReplySplitter(chat.checkpoints.loaded.tokenizer, prompt.opening)
    made = ReplyCollector(record, splitter, sampling.stop or ())
    made.recall(prompt.said, chat.checkpoints.text_of(prompt.said))
    return made


def persist(chat: TurnContext, user: Entry, record: TurnRecord) -> Entry:
    """Put the reply on disk, with the turn's numbers. The prompt does not wait for the disk."""
    made = provenance(chat, user)
    if drafted := draft_segments(chat):
        made["draft_segments"] = drafted
    return keep(chat, user, record, made)


def keep(chat: TurnContext, user: Entry, record: TurnRecord, made: Mapping[str, Any]) -> Entry:
    """`persist`, with what `provenance` told when the question had been run."""
    record.text, record.thinking = record.text.rstrip("\n"), record.thinking.rstrip("\n")
    generated = {} if record.finish_reason == "stop" else {"generated": record.tokens}
    return chat.saved.append(
        Message("assistant", record.text, record.thinking),
        user.id,
        wait=False,
        finish_reason=record.finish_reason,
        record={**record.numbers(), **made, **generated},
    )


def provenance(chat: TurnContext, user: Entry) -> dict[str, Any]:
    """What a record says of the model and the checkpoints. The last prompt was that of `user`."""
    loaded = chat.checkpoints.loaded
    return {
        "model": loaded.name,
        "fingerprint": loaded.fingerprint,
        "segments": own_segments(chat),
        "template": template_key(chat),
        "boundaries": new_boundaries(chat, user),
    }


def own_segments(chat: TurnContext) -> list[str]:
    """The checkpoints that no earlier turn of this path names, and the last one in any case."""
    if chat.checkpoints.store is None:
        return []
    return not_named(chat, chat.checkpoints.path, "segments")


def draft_segments(chat: TurnContext) -> list[str]:
    """The same of the draft model, if there is one: what no transcript names is not kept on disk."""
    if chat.checkpoints.store is None or chat.speculation is None:
        return []
    return not_named(chat, chat.speculation.path, "draft_segments")


def not_named(chat: TurnContext, path: Sequence[str], key: str) -> list[str]:
    """The last of `path`, and what of it the earlier turns' records do not have under `key`."""
    *earlier, _ = chat.conversation.turns()
    records = [turn.reply.record for turn in earlier if turn.reply]
    named = {name for record in records for name in record.get(key, ())}
    return [name for name in path if name not in named or name == path[-1]]


def problems(chat: TurnContext) -> Iterator[Event]:
    """What went wrong with the checkpoints, once."""
    store = chat.checkpoints.store
    if store is not None and (problem := store.take_problem()):
        yield Notice(problem)


def settle(chat: TurnContext, cancelled: threading.Event) -> Iterator[Event]:
    """Run the last reply as history will show it, so that the next turn prefills only what is new.

    It goes on from the turn's checkpoint, where the model's own thinking has left no trace. On a
    conversation that was just opened it restores the checkpoint ahead of the first message. Where
    there is no memory for that it ends: the next turn will say so.
    """
    with contextlib.suppress(MemoryFull):
        yield from _settle(chat, cancelled)


def _settle(chat: TurnContext, cancelled: threading.Event) -> Iterator[Event]:
    conversation = chat.conversation
    if chat.checkpoints.store is None or not conversation.head or conversation.unanswered():
        return
    reply = conversation.path()[-1]
    tokens, chain = as_history(chat, reply)
    match = chat.checkpoints.restore(chain, tokens, find(chat, tokens, chain))
    why = match.reason or explain(chat, Prompt(tokens, chain, ""), match.depth)
    yield PrefixMatched(len(tokens), end_of(chain, match), why)
    settled = written = 0
    for count, size in chat.checkpoints.run(chain, tokens, match.depth, cancelled):
        written += size
        if count:
            settled += count
            yield PrefillProgress(settled, len(tokens) - end_of(chain, match))
    written += follow(chat.speculation, chain, tokens, cancelled)
    whole = chat.checkpoints.path == [segment.id for segment in chain]
    note_settled(chat, reply, settled, written, whole)
    yield from problems(chat)
    yield Settled(settled, written)


def as_history(chat: TurnContext, reply: Entry) -> tuple[list[int], list[Segment]]:
    """A prompt that begins as every one after `reply` will, and its segments up to there."""
    messages = history(chat, reply)
    tokens = chat.template.prompt([*messages, Message("user", ".")])
    return tokens, cut(chat, tokens, messages, reply)


def note_settled(chat: TurnContext, reply: Entry, settled: int, written: int, whole: bool) -> None:
    """Add what settling did to the reply's numbers in the transcript."""
    before, boundaries = reply.record, new_boundaries(chat, reply)
    # Another reply's checkpoints may have been this one's already.
    if settled or written or boundaries != before.get("boundaries"):
        # The last name says how far the conversation had been run: a cut settle does not count.
        named = [*before.get("segments", ()), *own_segments(chat)]
        if not whole:
            named = [*own_segments(chat), *before.get("segments", ())]
        numbers = {
            "settled_tokens": before.get("settled_tokens", 0) + settled,
            "settled_bytes": before.get("settled_bytes", 0) + written,
            "checkpoint_bytes": before.get("checkpoint_bytes", 0) + written,
            "segments": list(dict.fromkeys(named)),
            "boundaries": boundaries,
            "template": template_key(chat),
        }
        drafted = [*before.get("draft_segments", ()), *draft_segments(chat)]
        if drafted:
            numbers["draft_segments"] = list(dict.fromkeys(drafted))
        chat.saved.note(reply, numbers)
