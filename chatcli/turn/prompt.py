"""Renders the path to a message as tokens, and finds the stable prefix that later prompts will share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from chatcli.chat_format.template import Template, next_input
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.checkpoints.draft_model import Speculation
from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.errors import ContextFull
from chatcli.records import Boundaries
from chatcli.replies.answer_form import AnswerForm
from chatcli.settings.values import Sampling
from chatcli.store.segments.token_path import TokenPath, usable_boundaries
from chatcli.store.sessions.log import SessionLog

# Keeping a shorter beginning before any message costs more than computing it.
MIN_PREFIX_TOKENS = 16
# A reply's record has the boundaries around it, by their distance from it in messages.
BOUNDARY_OFFSETS: dict[Literal["before", "question", "reply"], int] = {
    "before": -2,
    "question": -1,
    "reply": 0,
}


@dataclass
class TurnContext:
    """A session, the template that renders its conversation, and its checkpoints.

    `speculation` is the draft model that proposes a reply's tokens, if any. `answer` binds the
    answer, if given.
    """

    session: SessionLog
    template: Template
    checkpoints: Checkpoints
    sampling: Sampling
    speculation: Speculation | None = None
    answer: AnswerForm | None = None

    @property
    def conversation(self) -> Conversation:
        return self.session.conversation

    @property
    def private(self) -> bool:
        """Whether nothing of it may go to disk."""
        return self.session.is_private


@dataclass(frozen=True)
class Prompt:
    """The conversation up to `leaf` as tokens. Its path ends with the stable prefix.

    `boundaries` are token positions by the number of messages before them. `generation_prompt` is a text.
    When a cut-off reply is continued, `reply_start` are its tokens so far, which end the prompt, and
    `thinking_tokens` and `thinking_seconds` are from its record. `rerun_reason` says why every turn runs more
    than the generation prompt, if so.
    """

    leaf: Entry
    path: TokenPath
    boundaries: Mapping[int, int] = field(default_factory=dict)
    generation_prompt: str = ""
    reply_start: tuple[int, ...] = ()
    thinking_tokens: int = 0
    thinking_seconds: float = 0.0
    rerun_reason: str | None = None

    @property
    def tokens(self) -> Sequence[int]:
        return self.path.tokens

    @property
    def stable(self) -> Sequence[int]:
        """The tokens in the live cache when the tail is run."""
        return self.tokens[: self.path.end]

    @property
    def tail(self) -> Sequence[int]:
        """The tokens that every turn runs: the generation prompt, at least one token."""
        return self.tokens[self.path.end :]


def render(context: TurnContext, user: Entry) -> Prompt:
    """Render the path to the message `user`. Raises `TemplateRefused` or `ContextFull`."""
    messages = history(context, user)
    tokens = context.template.prompt(messages)
    room_left(context, len(tokens), alone=user.parent is None)
    generation_prompt = context.template.generation_prompt(messages)
    prompt = replace(_cut(context, tokens, messages, user), generation_prompt=generation_prompt)
    # Another result may follow a tool's result, so its end is always run again, which is not a miss.
    is_question = user.message.role == "user"
    if is_question and len(prompt.tail) > len(context.template.encode(generation_prompt)):
        prompt = replace(prompt, rerun_reason=context.template.rerun_reason(messages))
    return prompt


def begun(context: TurnContext, prompt: Prompt, beginning: Message) -> Prompt:
    """A prompt whose reply begins with a message. Raises `ContextFull`."""
    start = context.template.reply_beginning(beginning, prompt.generation_prompt)
    tokens = [*prompt.tokens, *start]
    room_left(context, len(tokens))
    return replace(prompt, path=replace(prompt.path, tokens=tokens), reply_start=tuple(start))


def render_history(context: TurnContext, leaf: Entry) -> Prompt:
    """Render the beginning that every prompt after the reply `leaf` will have. Raises `TemplateRefused`."""
    messages = history(context, leaf)
    tokens = context.template.prompt([*messages, *next_input(messages)])
    return _cut(context, tokens, messages, leaf)


def render_unsent(context: TurnContext, message: Message) -> TokenPath:
    """Render the path as it will be when `message` is sent. Raises `TemplateRefused`."""
    conversation = context.conversation
    head = conversation.entries[conversation.head] if conversation.head else None
    messages = history(context, head)
    known = known_boundaries(context, messages, head) if head else {}
    if conversation.unanswered():
        messages.append(Message("assistant", ""))
    messages.append(message)
    tokens = context.template.prompt(messages)
    return token_path(context, tokens, context.template.boundaries(messages, known))


def history(context: TurnContext, leaf: Entry | None) -> list[Message]:
    """The system prompt and every message from the root to `leaf` (None: no messages)."""
    conversation = context.conversation
    system = [Message("system", conversation.system)] if conversation.system else []
    return system + [entry.message for entry in (conversation.path(leaf.id) if leaf else ())]


def _cut(context: TurnContext, tokens: Sequence[int], messages: Sequence[Message], leaf: Entry) -> Prompt:
    """The prompt with these tokens, divided into segments at the boundaries of `messages`."""
    positions = context.template.boundaries(messages, known_boundaries(context, messages, leaf))
    # The last boundary is after all messages, the first before any or after the system prompt.
    boundaries = dict(zip(range(len(messages), -1, -1), reversed(positions), strict=False))
    return Prompt(leaf, token_path(context, tokens, positions), boundaries)


def token_path(context: TurnContext, tokens: Sequence[int], positions: list[int]) -> TokenPath:
    """The path of a prompt's segments between boundaries."""
    if positions[0] < MIN_PREFIX_TOKENS:
        positions = positions[1:]
    if context.template.vision is not None:
        # Positions from a record may be anything, and no segment ends within an image.
        positions = context.template.vision.between_images(positions, tokens)
    return context.checkpoints.cut(tokens, usable_boundaries(positions, len(tokens)))


def known_boundaries(context: TurnContext, messages: Sequence[Message], leaf: Entry) -> dict[int, int]:
    """The boundaries in earlier turns' records, so that a long conversation need not be rendered again."""
    path = context.conversation.path(leaf.id)
    system_messages = len(messages) - len(path)
    current_key = template_key(context)
    known: dict[int, int] = {}
    for count, entry in enumerate(path, start=system_messages + 1):
        if entry.record.get("template") == current_key:
            kept = entry.record.get("boundaries", {})
            for name, offset in BOUNDARY_OFFSETS.items():
                if name in kept:
                    known[count + offset] = kept[name]
    return known


def boundaries_around(prompt: Prompt) -> Boundaries:
    """The boundaries around the reply to a prompt, or around the reply that ends it, for its record."""
    count = max(prompt.boundaries) + (prompt.leaf.message.role != "assistant")
    around: Boundaries = {}
    for name, offset in BOUNDARY_OFFSETS.items():
        if count + offset in prompt.boundaries:
            around[name] = prompt.boundaries[count + offset]
    return around


def template_key(context: TurnContext) -> str:
    """What boundaries depend on besides the path: template, clock, thinking, system prompt, model."""
    system = context.conversation.system or ""
    parts = (context.template.key, system, context.checkpoints.loaded.fingerprint)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def room_left(context: TurnContext, used: int, alone: bool = False) -> int:
    """How many tokens the context has left after `used`. Raises `ContextFull`.

    `alone`: they belong to the first message, so going back to an earlier turn would not help.
    """
    most = context.checkpoints.loaded.context
    if used < most:
        return most - used
    if alone:
        raise ContextFull(
            f"This message does not fit the model's context: {used:,} tokens with the system "
            f"prompt, of {most:,}.",
            "Send a shorter one, or choose a model with a longer context with -m.",
        )
    raise ContextFull(
        f"The conversation no longer fits the model's context: {used:,} of {most:,} tokens.",
        "Branch from an earlier turn or start a new session; in a chat, /compact continues from a summary.",
    )


def context_used(context: TurnContext) -> int:
    """The number of tokens before the next message."""
    path = context.conversation.path()
    messages = history(context, path[-1] if path else None)
    known = known_boundaries(context, messages, path[-1]) if path else {}
    return context.template.boundaries(messages, known)[-1] if messages else 0


def prefill_cost(context: TurnContext, entry: Entry) -> int:
    """Tokens to prefill to continue from an entry: after a reply, or before a message.

    Raises `TemplateRefused`.
    """
    is_asked = entry.message.role != "assistant"
    leaf = context.conversation.entries.get(entry.parent or "") if is_asked else entry
    if leaf is None:
        return 0
    path = render_history(context, leaf).path
    return path.end - context.checkpoints.plan(path).tokens if path else 0
