"""Says why less of a prompt was reused than an earlier turn had left behind."""

from __future__ import annotations

from collections.abc import Sequence

from chatcli.model.vision import legible
from chatcli.store.segments.token_path import common_prefix
from chatcli.turn.prompt import Prompt, TurnContext

# Tokens that are shown of either side, where two prompts part.
SHOWN_TOKENS = 8
EVICTED_MESSAGE = "the checkpoints are gone: evicted"


def explain(chat: TurnContext, prompt: Prompt, depth: int) -> str | None:
    """Why a prompt was matched only to `depth`; None if nothing is missing."""
    path = prompt.path
    records = [entry.record for entry in chat.conversation.path(prompt.leaf.id) if entry.record]
    records = [record for record in records if record.get("segments")]
    if not records:
        return None
    if records[-1].get("fingerprint") != chat.checkpoints.loaded.fingerprint:
        return f"the model, its cache settings or the program changed (before: {records[-1].get('model')})"
    depths = {segment.id: number for number, segment in enumerate(path, start=1)}
    expected = depths.get(records[-1]["segments"][-1])
    if expected is None:
        return where_they_part(chat, path.tokens, [name for record in records for name in record["segments"]])
    if depth < expected:
        return (
            f"the checkpoint after token {path[depth - 1].end} is gone: evicted" if depth else EVICTED_MESSAGE
        )
    return None


def where_they_part(chat: TurnContext, tokens: Sequence[int], earlier_ids: Sequence[str]) -> str:
    """Where a prompt parted from the one that the earlier segments were cut from, with the two texts."""
    store, loaded = chat.checkpoints.store, chat.checkpoints.loaded
    earlier = store.tokens_of(list(dict.fromkeys(earlier_ids))) if store is not None else []
    at = common_prefix(earlier, tokens)
    if at == len(earlier):
        return "the checkpoints end at other places now (thinking, template)" if at else EVICTED_MESSAGE
    old, new = (legible(loaded.tokenizer, side[at : at + SHOWN_TOKENS]) for side in (earlier, tokens))
    return f"the prompt changed at token {at}: {old!r} → {new!r} (system prompt, date, thinking, template)"
