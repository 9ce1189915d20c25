"""The order of steps in a turn: append, render, plan, restore, prefill, generate, persist.

`take` runs them. Before it, `LiveChat.begin` has ended background work and given a new session its file.
Checkpoints are handed to the writer from the first token on. `settle` follows while the person reads and
types.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from chatcli.chat_format.markers import splitter
from chatcli.checkpoints.checkpoints import Prefilled
from chatcli.checkpoints.draft_model import follow
from chatcli.conversation import finish
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Entry, Message
from chatcli.engine.generate import GenerationRequest, text_of
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
from chatcli.settings.values import Sampling
from chatcli.text import decodable
from chatcli.turn.journal import ReplyJournal
from chatcli.turn.misses import explain, read_again
from chatcli.turn.prompt import Prompt, TurnContext, render, render_history, room_left
from chatcli.turn.record import facts_of, persist
from chatcli.turn.reply import ReplyCollector
from chatcli.turn.settled import SettleNotes, settled_since_last_reply


def take(
    context: TurnContext, text: str, cancelled: threading.Event, images: Sequence[Image] = ()
) -> Iterator[Event]:
    """One turn: from a user's message and its images to a reply on disk.

    Setting `cancelled` ends it after the current chunk or token; the reply so far is kept. Raises
    `EmptyPrompt`, `NotAnImage`, `TemplateRefused`, `ContextFull` or `MemoryFull`, and `FolderError` if it
    cannot be saved.
    """
    started = time.perf_counter()
    user = append(context, text, images, context.conversation.head)
    try:
        yield from answer(context, render(context, user), started, cancelled)
    except (TemplateRefused, ContextFull, MemoryFull):
        context.session.move_head(user.parent)
        raise


def append(context: TurnContext, text: str, images: Sequence[Image], parent: str | None) -> Entry:
    """Write a message below `parent` to disk, before the model sees it.

    Raises `EmptyPrompt`, and for images `NotAnImage` or `ImagesRefused`.
    """
    if not text.strip():
        raise EmptyPrompt("The message is empty: type something.")
    message = Message("user", decodable(text), images=tuple(image.picture for image in images))
    session, loaded = context.session, context.checkpoints.loaded
    with vision.keeping(loaded.vision, images, loaded.name, session.held_images):
        if lost := session.conversation.unanswered(parent):
            # Templates want turns to alternate: a message whose reply never came gets an empty one.
            parent = session.append(Message("assistant", ""), lost.id, finish_reason="cancelled").id
        return session.append(message, parent)


def answer(
    context: TurnContext, prompt: Prompt, started: float, cancelled: threading.Event
) -> Iterator[Event]:
    """Plan, restore, prefill, checkpoint, generate, persist. `started` is `perf_counter`'s.

    A reply that never began is not saved beside another. Raises `MemoryFull`, and `RankLost` after saving the
    reply so far.
    """
    name = context.session.name if context.session.is_saved else ""
    record = TurnRecord(name, context.conversation.turn_count(prompt.leaf.id))
    for event in prefill(context, prompt, record, cancelled):
        yield event
        if isinstance(event, PrefixMatched) and (
            notice := read_again(context, prompt, record.prefilled_tokens)
        ):
            yield Notice(notice)
    siblings = len(context.conversation.children(prompt.leaf.id))
    sampling = context.sampling.shifted(siblings)
    collector = reply_collector(context, prompt, sampling, record)
    journal = ReplyJournal(context.session)
    entry_id = journal.begin(prompt.leaf, record, partial(facts_of, context, prompt))
    try:
        with journal:
            yield from generate(context, prompt, sampling, collector, started, cancelled)
            record.checkpoint_bytes += hand_over(context)
    except RankLost:
        if len(record.tokens) > len(prompt.reply_start):
            persist(context, prompt, record, entry_id)
        raise
    kept = len(record.tokens) > len(prompt.reply_start) or not siblings
    if kept:
        persist(context, prompt, record, entry_id)
    yield from store_problem(context)
    yield TurnDone(record, kept)


def prefill(
    context: TurnContext, prompt: Prompt, record: TurnRecord, cancelled: threading.Event
) -> Iterator[Event]:
    """Plan, restore, prefill, checkpoint: bring the live cache to the end of the stable prefix."""
    path, started = prompt.path, time.perf_counter()
    plan, steps = context.checkpoints.advance(path, cancelled, private=context.private)
    if plan.depth == len(path) and prompt.reply_start and context.speculation is None:
        plan = replace(plan, extra=context.checkpoints.resume_reply(path, prompt.tail))
    restored = time.perf_counter()
    record.restore_seconds = restored - started
    record.prompt_tokens = len(prompt.tokens)
    record.typeahead_tokens = plan.typed
    record.reused_tokens = plan.tokens - plan.typed
    record.prefilled_tokens = record.prompt_tokens - plan.tokens
    record.avoided_seconds = context.checkpoints.live.seconds(path.upto(plan.depth))
    record.miss_reason = plan.reason or explain(context, prompt, plan) or prompt.rerun_reason
    record.reused_settled_tokens, record.settle_reason = settled_since_last_reply(context, prompt, plan)
    yield PrefixMatched(
        record.prompt_tokens, record.reused_tokens, record.miss_reason, record.typeahead_tokens
    )
    started = time.perf_counter()
    done = 0
    for step in steps:
        record.checkpoint_bytes += step.bytes
        done += step.tokens
        yield PrefillProgress(done, record.prefilled_tokens)
    record.prefill_seconds = time.perf_counter() - started
    record.unrun_tokens = record.prefilled_tokens - done


def generate(
    context: TurnContext,
    prompt: Prompt,
    sampling: Sampling,
    collector: ReplyCollector,
    started: float,
    cancelled: threading.Event,
) -> Generator[Event]:
    """Run the prompt's tail and stream the reply, thinking apart from text. `started` is the turn's."""
    record, tail_started = collector.record, time.perf_counter()
    record.checkpoint_bytes += follow(context.speculation, prompt.path, cancelled, private=context.private)
    if cancelled.is_set():
        return
    record.unrun_tokens = 0
    context_room = room_left(context, len(prompt.tokens))
    room = context.checkpoints.room(len(prompt.tokens), context_room)
    request = GenerationRequest(
        prompt.tail,
        sampling,
        room,
        prompt.reply_start,
        prompt.generation_prompt,
        prompt.stable,
        elsewhere=context.conversation.elsewhere(prompt.leaf.id) if sampling.lookup else (),
        answer=context.answer,
    )
    speculation = context.speculation
    if speculation is None:
        tokens = context.checkpoints.generate(request, cancelled)
    else:
        record.draft_model = speculation.name
        tokens = speculation.generate(context.checkpoints, request, cancelled)
    with contextlib.closing(tokens):
        for token in tokens:
            if record.time_to_first_token is None:
                record.time_to_first_token = time.perf_counter() - started
                record.prefill_seconds += time.perf_counter() - tail_started
            yield from collector.take(token)
            if collector.stopped:
                break
    yield from collector.finish()
    record.logprobs = context.checkpoints.floats(collector.logprobs)
    if len(record.tokens) - len(prompt.reply_start) == room < context_room:
        yield Notice(f"{finish.CUT} because the memory is full: allow more with --memory-limit.")
    used = len(prompt.tokens) + record.generated_tokens
    if speculation is not None and (notice := speculation.take_notice(used)):
        yield Notice(notice)


def hand_over(context: TurnContext) -> int:
    """Hand over the turn's checkpoints that were not handed over after its first token.

    Returns the bytes of all.
    """
    draft = context.speculation.hand_over() if context.speculation is not None else 0
    return draft + context.checkpoints.hand_over()


def reply_collector(
    context: TurnContext, prompt: Prompt, sampling: Sampling, record: TurnRecord
) -> ReplyCollector:
    """A collector for the reply to `prompt`, with the beginning of a continued reply."""
    tools = context.conversation.template_args.get("tools") or ()
    forced = context.answer is not None and context.answer.forces_calls
    reading = splitter(context.checkpoints.loaded.tokenizer, prompt.generation_prompt, tools, forced=forced)
    collector = ReplyCollector(record, reading, sampling.stop or ())
    text = text_of(context.checkpoints.loaded, prompt.reply_start)
    collector.recall(prompt.reply_start, text, prompt.thinking_tokens, prompt.thinking_seconds)
    return collector


def store_problem(context: TurnContext) -> Iterator[Event]:
    """A notice, once, if checkpoints can no longer be written."""
    if problem := context.checkpoints.store.take_problem():
        yield Notice(problem)


def settle(context: TurnContext, cancelled: threading.Event) -> Generator[Event]:
    """Prefill the last reply as history will show it, so that the next turn prefills only its message.

    If history shows the reply as it was generated, the live cache continues after it. Otherwise it goes back
    to the checkpoint before the reply, or to where the two diverge. In a conversation that was just opened,
    this restores the checkpoint before the first message is sent. With too little memory it ends silently,
    and the next turn reports that.
    """
    conversation = context.conversation
    if context.checkpoints.disk.is_off or not conversation.head or conversation.unanswered():
        return
    with contextlib.suppress(MemoryFull):
        prompt = render_history(context, conversation.entries[conversation.head])
        path = prompt.path
        plan, steps = context.checkpoints.advance(path, cancelled, "settle", private=context.private)
        reason = plan.reason or explain(context, prompt, plan)
        start = plan.tokens
        yield PrefixMatched(len(prompt.tokens), start, reason)
        settled = SettleNotes(context, prompt, plan, reason)
        for step in steps:
            settled.add(step)
            if step.tokens:
                yield PrefillProgress(settled.tokens, len(prompt.tokens) - start)
        if not cancelled.is_set():
            settled.add(Prefilled(0, context.checkpoints.persist_state()))
        followed = follow(context.speculation, path, cancelled, "settle", private=context.private)
        settled.add(Prefilled(0, followed))
        settled.write()
        yield from store_problem(context)
        yield Settled(settled.tokens, settled.bytes)
