"""A reply's record in the transcript: numbers, and the checkpoints of the turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from chatcli.conversation.tree import CUT_SHORT, Entry, Message
from chatcli.events import TurnRecord
from chatcli.records import ReplyRecord
from chatcli.turn.prompt import Prompt, TurnContext, boundaries_around, template_key


def persist(context: TurnContext, prompt: Prompt, record: TurnRecord, entry_id: str) -> Entry:
    """Save the reply to `prompt` with the turn's numbers, without waiting for the disk.

    A reply that was cut off gets its own checkpoint for /continue.
    """
    facts = facts_of(context, prompt)
    is_cut, by_person = record.finish_reason in CUT_SHORT, record.finish_reason == "cancelled"
    if is_cut and (kept := context.checkpoints.keep_reply(prompt.path, expected=by_person)):
        facts["reply_segments"] = [kept[0]]
        record.checkpoint_bytes += kept[1]
    return keep(context, prompt.leaf, record, facts, entry_id)


def facts_of(context: TurnContext, prompt: Prompt) -> ReplyRecord:
    """`provenance`, plus the checkpoints of a draft model."""
    facts = provenance(context, prompt)
    if segments := draft_segments(context, prompt.leaf):
        facts["draft_segments"] = segments
    return facts


def keep(
    context: TurnContext,
    user: Entry,
    record: TurnRecord,
    facts: ReplyRecord,
    entry_id: str | None = None,
) -> Entry:
    """`persist` with known `facts`, for a batch, whose live cache has moved to other questions."""
    record.text, record.thinking = record.text.rstrip("\n"), record.thinking.rstrip("\n")
    generated = {} if record.finish_reason == "stop" else {"generated": record.tokens}
    return context.session.append(
        Message("assistant", record.text, record.thinking),
        user.id,
        wait=False,
        entry_id=entry_id,
        finish_reason=record.finish_reason,
        record={**record.numbers(), **facts, **generated},
    )


def provenance(context: TurnContext, prompt: Prompt) -> ReplyRecord:
    """The record's fields about the model and the checkpoints, once `prompt` has been run."""
    loaded = context.checkpoints.loaded
    return {
        "model": loaded.name,
        "fingerprint": loaded.fingerprint,
        "program": loaded.program,
        "segments": own_segments(context, prompt.leaf),
        "template": template_key(context),
        "boundaries": boundaries_around(prompt),
    }


def own_segments(context: TurnContext, leaf: Entry) -> list[str]:
    """The live checkpoints that no earlier turn on the path to `leaf` names, and always the last one."""
    if context.checkpoints.disk.is_off:
        return []
    return _new_ids(context, leaf, context.checkpoints.live_ids, "segments")


def draft_segments(context: TurnContext, leaf: Entry) -> list[str]:
    """The same for the draft model, if any: a checkpoint that no transcript names would be removed."""
    if context.checkpoints.disk.is_off or context.speculation is None:
        return []
    return _new_ids(context, leaf, context.speculation.live_ids, "draft_segments")


def _new_ids(
    context: TurnContext, leaf: Entry, ids: Sequence[str], key: Literal["segments", "draft_segments"]
) -> list[str]:
    *earlier, _ = context.conversation.path(leaf.id)
    records = [entry.record for entry in earlier if entry.message.role == "assistant"]
    earlier_ids = {segment for record in records for segment in record.get(key, ())}
    return [segment for segment in ids if segment not in earlier_ids or segment == ids[-1]]
