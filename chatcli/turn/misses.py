"""Explains why less of a prompt was reused than an earlier turn had stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chatcli.checkpoints.plan import WORTH_TOKENS, Plan
from chatcli.model.vision import legible
from chatcli.records import ReplyRecord
from chatcli.store.segments.token_path import common_prefix
from chatcli.turn.prompt import Prompt, TurnContext

# How many tokens of each prompt are shown where they diverge.
SHOWN_TOKENS = 8
GONE = "gone (evicted or deleted)"
EVICTED_MESSAGE = f"the checkpoints are {GONE}"
NEW_HERE = "new here"
CACHE_WAS_OFF = "the cache was off in the turn before"
STOPPED = "the turn before was stopped"
NOT_SETTLED = "chatcli was still preparing the last reply"


def explain(context: TurnContext, prompt: Prompt, plan: Plan) -> str | None:
    """Why a plan does not reuse more of a prompt; None if nothing is missing."""
    if missing := _missing_of_conversation(context, prompt, plan):
        return missing
    if plan.shared - plan.start < WORTH_TOKENS:
        return None
    # A model with state can only be restored where one is kept.
    at = f"the last state within them is at token {plan.start:,}"
    kept = at if plan.depth else "no state within them is kept"
    return f"an earlier prompt begins with the same {plan.shared:,} tokens, but {kept}"


def _missing_of_conversation(context: TurnContext, prompt: Prompt, plan: Plan) -> str | None:
    path, depth = prompt.path, plan.depth
    entries = [
        entry for entry in context.conversation.path(prompt.leaf.id) if entry.message.role == "assistant"
    ]
    replies = [entry for entry in entries if entry.record or entry.message.content or entry.message.thinking]
    if not replies:
        return None
    # The boundary after the last reply, or before it while it is being settled.
    history_end = prompt.boundaries.get(max(prompt.boundaries, default=0) - 1, 0)
    is_missing = plan.start < history_end
    records = [entry.record for entry in replies if entry.record.get("segments")]
    if not records:
        return _why_nothing_was_kept(replies[-1].record) if is_missing else None
    last = records[-1]
    depths = {segment.id: number for number, segment in enumerate(path, start=1)}
    expected = depths.get(last["segments"][-1])
    if expected is not None and depth < expected:
        if context.checkpoints.stateful and plan.rows >= expected:
            end = path.upto(expected).end
            return f"the state at token {end} was not kept because it is quick to recompute"
        return f"the checkpoint after token {path[depth - 1].end} is {GONE}" if depth else EVICTED_MESSAGE
    if expected is not None:
        newest = replies[-1].record
        if not is_missing:
            return None
        is_kept = last is newest and not newest.get("unrun_tokens")
        # The last reply is settled between two messages, but this message came first.
        return NOT_SETTLED if is_kept else _why_nothing_was_kept(newest)
    run_by = last.get("settled_by", last.get("fingerprint"))
    if run_by is not None and run_by != context.checkpoints.loaded.fingerprint:
        return _computed_otherwise(context, last)
    question_end = prompt.boundaries.get(max(prompt.boundaries, default=0) - 2, 0)
    calls, asks = replies[-1].message.tool_calls, prompt.leaf.message.role == "user"
    if calls and asks and 0 < question_end <= plan.start:
        # Tool calls are settled with their results to follow, but a message came instead.
        return None
    segments = [name for record in records for name in record["segments"]]
    return where_they_part(context, path.tokens, segments, prompt.boundaries)


def _computed_otherwise(context: TurnContext, last: ReplyRecord) -> str:
    """What has changed since the reply of this record was made."""
    loaded, model, there = context.checkpoints.loaded, last.get("model"), last.get("program", "")
    if model and model != loaded.name:
        return f"the model changed (before: {model})"
    if there not in ("", loaded.program):
        return f"made with {there}; this is {loaded.program}"
    return "the model, its cache settings or the program changed"


def read_again(context: TurnContext, prompt: Prompt, tokens: int) -> str | None:
    """Say that `tokens` tokens are prefilled again because another model or machine computed them.

    None if this one computed them, or if there are too few to mention.
    """
    if tokens < WORTH_TOKENS:
        return None
    path = context.conversation.path(prompt.leaf.id)
    last = next((entry.record for entry in reversed(path) if entry.record.get("segments")), None)
    loaded = context.checkpoints.loaded
    if last is None or last.get("settled_by", last.get("fingerprint")) == loaded.fingerprint:
        return None
    seconds = context.checkpoints.live.speed.estimate(0, 0.0, tokens)
    about = f", about {seconds:,.0f} s" if seconds >= 1 else ""
    why = _computed_otherwise(context, last)
    return f"{why[0].upper()}{why[1:]}: {tokens:,} tokens are prefilled again{about}."


def _why_nothing_was_kept(record: ReplyRecord) -> str:
    """Why the turn of this record left no checkpoint."""
    if not record:
        return NEW_HERE
    return STOPPED if record.get("unrun_tokens") else CACHE_WAS_OFF


def where_they_part(
    context: TurnContext, tokens: Sequence[int], earlier_ids: Sequence[str], boundaries: Mapping[int, int]
) -> str:
    """Where a prompt diverges from the one that the earlier segments belong to, with both texts."""
    store, loaded = context.checkpoints.store, context.checkpoints.loaded
    earlier = store.tokens_of(list(dict.fromkeys(earlier_ids)))
    at = common_prefix(earlier, tokens)
    if at == len(earlier):
        return "checkpoint boundaries moved (thinking or template changed)" if at else EVICTED_MESSAGE
    first_question = next((boundaries[count] for count in (2, 1) if count in boundaries), 0)
    old, new = (legible(loaded.tokenizer, side[at : at + SHOWN_TOKENS]) for side in (earlier, tokens))
    causes = ["thinking", "template"]
    if at < first_question:
        causes = ["system prompt"]
        if context.conversation.template_args.get("tools"):
            causes.append("tools")
        if any(char.isdigit() for char in old + new):
            causes.append("date")
    return f"the prompt changed at token {at}: {old!r} → {new!r} ({', '.join(causes)})"
