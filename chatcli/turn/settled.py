"""Records what settling ran in the reply's record, so that the next turn can report it separately."""

from __future__ import annotations

import time

from chatcli.checkpoints.checkpoints import Prefilled
from chatcli.checkpoints.plan import Plan
from chatcli.conversation.tree import Conversation
from chatcli.records import ReplyRecord, SettledAhead
from chatcli.turn.prompt import Prompt, TurnContext, boundaries_around, template_key
from chatcli.turn.record import draft_segments, own_segments

# How far the file may be behind a settle of a whole conversation, in seconds.
NOTE_SECONDS = 1.0
# How many digits of a segment's id are noted: enough within one conversation.
ID_DIGITS = 16
NO_CHECKPOINT = "there was no checkpoint of it"


class SettleNotes:
    """Counts what a settle runs and writes, and notes it in the record of the last reply of `prompt`.

    `settled_ahead` in that record says which segments were run, after which reply, and why that was more than
    the last reply. So the next turn can report it, even in another process after a kill.
    """

    def __init__(self, context: TurnContext, prompt: Prompt, plan: Plan, reason: str | None) -> None:
        """`reason` says why the plan does not reuse more."""
        self.tokens = self.bytes = 0
        self._chat, self._prompt = context, prompt
        self._start = self._noted_end = plan.tokens
        self._noted_bytes = 0
        runs_more = plan.depth < prompt.path.last_start
        self._reason = (reason or NO_CHECKPOINT) if runs_more else None
        self._noted_at = time.monotonic()

    def add(self, step: Prefilled) -> None:
        """Count a step. At the end of a segment, write the notes unless that was done just now."""
        self.tokens += step.tokens
        self.bytes += step.bytes
        if not step.tokens and time.monotonic() - self._noted_at > NOTE_SECONDS:
            self.write()

    def write(self) -> None:
        """Add what was run and written since the last call to the reply's record."""
        context, prompt = self._chat, self._prompt
        reply = context.conversation.entries[prompt.leaf.id]
        before, boundaries = reply.record, boundaries_around(prompt)
        end, written = self._start + self.tokens, self.bytes - self._noted_bytes
        # Another reply's checkpoints may already have covered this one.
        if not (end > self._noted_end or written or boundaries != before.get("boundaries")):
            return
        # The last id says how far the conversation was run. An interrupted settle does not count.
        segments = [*before.get("segments", ()), *own_segments(context, reply)]
        if context.checkpoints.live_ids != prompt.path.ids:
            segments = [*own_segments(context, reply), *before.get("segments", ())]
        numbers: ReplyRecord = {
            "settled_tokens": before.get("settled_tokens", 0) + end - self._noted_end,
            "settled_bytes": before.get("settled_bytes", 0) + written,
            "checkpoint_bytes": before.get("checkpoint_bytes", 0) + written,
            "segments": list(dict.fromkeys(segments)),
            "boundaries": boundaries,
            "template": template_key(context),
            "settled_ahead": self._settled_ahead(before.get("settled_ahead"), end),
        }
        if before.get("fingerprint") != (fingerprint := context.checkpoints.loaded.fingerprint):
            numbers["settled_by"] = fingerprint
        if ids := [*before.get("draft_segments", ()), *draft_segments(context, reply)]:
            numbers["draft_segments"] = list(dict.fromkeys(ids))
        context.session.note(reply, numbers)
        self._noted_end, self._noted_bytes, self._noted_at = end, self.bytes, time.monotonic()

    def _settled_ahead(self, before: SettledAhead | None, end: int) -> SettledAhead:
        """What was run since the newest reply: `before`, already noted, plus the tokens up to `end`."""
        after = newest_reply(self._chat.conversation)
        if before is None or before["after"] != after:
            before = {"after": after, "tokens": {}, "reason": None}
        tokens = dict(before["tokens"])
        for segment in self._prompt.path:
            run = min(segment.end, end) - max(segment.start, self._noted_end)
            if run > 0:
                key = segment.id[:ID_DIGITS]
                tokens[key] = min(tokens.get(key, 0) + run, segment.end - segment.start)
        return {"after": after, "tokens": tokens, "reason": self._reason or before["reason"]}


def settled_since_last_reply(context: TurnContext, prompt: Prompt, plan: Plan) -> tuple[int, str | None]:
    """How many of a prompt's reused tokens were settled since the conversation's newest reply.

    Also returns why they were more than that reply, if so.
    """
    after, path = newest_reply(context.conversation), prompt.path
    tokens: dict[str, int] = {}
    reason = None
    for entry in context.conversation.entries.values():
        noted = entry.record.get("settled_ahead")
        if noted and noted["after"] == after:
            tokens |= {key: max(count, tokens.get(key, 0)) for key, count in noted["tokens"].items()}
            reason = noted["reason"] or reason
    run, end = 0, plan.tokens
    for segment in path:
        # An interrupted settle may have run the beginning of the next segment.
        reused = max(min(segment.end, end) - segment.start, 0)
        run += min(tokens.get(segment.id[:ID_DIGITS], 0), reused)
    run = max(min(run, plan.tokens - plan.typed), 0)
    return run, reason if run else None


def newest_reply(conversation: Conversation) -> str | None:
    """The id of the newest reply on any branch; None if there is none."""
    for entry in reversed(conversation.entries.values()):
        message = entry.message
        if message.role == "assistant" and (entry.record or message.content or message.thinking):
            return entry.id
    return None
