"""From a path of messages to token ids and boundaries, under a pinned clock; refuses to know caches.

The stable prefix is asked of the template itself (design, idea 1): the path is rendered with invented
continuations, and what all of them share is what every real continuation will share. No think token
is searched for, so any template is served.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar

from jinja2.exceptions import TemplateError

from chatcli.chat_format.arguments import template_arguments, template_variables
from chatcli.chat_format.tokenizing import Encoder, Seams, common_text, control_tokens
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ImagesRefused, TemplateRefused
from chatcli.model.vision import Vision, pictures

# First characters of every kind, because a template may trim them and a tokenizer may merge them.
OPENINGS = ("Yes", "\n\nno", " 1", "7é", "*")
# As many beginnings of thinking: where it is shown, it comes before the reply.
THOUGHTS = ("So.", "\nHm.", " 1", "7é", "*")
DIRECTIVES = "aAbBcdDeFhHIjmMpRSTuUwWxXyYZ"
CLOCK_FORMAT = "%d %b %Y"
# How many are remembered: a draft's are asked again when it is sent, and in a conversation whose
# thinking mode changed those of every message.
TEXTS, LIMITS = 4, 4096
SAMPLE = [("system", "a"), ("user", "b"), ("assistant", "c"), ("user", "d")]
UNSEEN = (
    "This conversation has images, which this model cannot be shown: go on with one that can "
    "(/model NAME, -m NAME), or before them (/rewind TURN)."
)
# What templates raise, and renderers that mlx-lm has in Python.
REFUSALS = (TemplateError, ValueError, TypeError, LookupError, AssertionError, NotImplementedError)

# An image that no one has sent: what a template writes around any.
INVENTED = Picture("", "", "", 0, 0)
Words = dict[str, Any]
# A rendered continuation, and the words of which one stands where it parts from others.
Probe = tuple[str, tuple[str, ...]]
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Limit:
    """The stable prefix of a path: tokens, and characters of the rendered text."""

    tokens: int
    characters: int


@dataclass
class Memory:
    """What a tokenizer's templates worked out last; threads may share it.

    It outlives a `Template`, so that the next turn's does only what is new. Bounded: a few texts.
    """

    encoder: Encoder
    seams: Seams
    variables: frozenset[str]
    words: dict[Message, Words] = field(default_factory=dict)
    texts: dict[Any, str] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)

    @classmethod
    def of(cls, tokenizer: Any) -> Memory:
        """An empty one for this tokenizer."""
        written = _written(tokenizer)
        control = control_tokens(tokenizer, written)
        encoder = Encoder(tokenizer, [mark for mark in control if mark in written])
        read = template_variables(tokenizer, _source(tokenizer))
        return cls(encoder, Seams(tokenizer, control), read)


class Template:
    """A tokenizer's chat template with one date, one thinking mode and what else it is told."""

    def __init__(
        self,
        tokenizer: Any,
        date: str,
        think: bool | None = None,
        memory: Memory | None = None,
        *,
        effort: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        vision: Vision | None = None,
    ) -> None:
        """`date` is ISO 8601; `think` and `effort` None are the template's own default.

        Of the `arguments` it is told those that it reads. `memory` is of the same tokenizer.
        Without one, nothing of other templates' work is reused. Without `vision` images are refused.
        """
        self.vision = vision
        self._tokenizer = tokenizer
        source = _source(tokenizer)
        self._options = _clock(source, datetime.date.fromisoformat(date))
        self._memory = memory or Memory.of(tokenizer)
        read = self._memory.variables
        self._options |= template_arguments(read, think, effort, arguments or {})
        more = template_arguments(read, None, effort, arguments or {})
        added = f" {json.dumps(more, sort_keys=True)}" if more else ""
        sees = f" {vision.key}" if vision is not None else ""
        self.key = _digest(f"{source} {date} {think}{added}{sees}")

    def text(self, messages: Sequence[Message], *, generation: bool) -> str:
        """The rendered conversation. Raises `TemplateRefused` with the template's own words."""
        asked = (self.key, generation, tuple(messages))
        found = self._memory.texts.get(asked)
        if found is None:
            found = self._render(self._as_dicts(messages), generation=generation)
            self._memory.texts = _remembered(self._memory.texts, asked, found, TEXTS)
        return found

    def _render(self, messages: list[Words], *, generation: bool = True) -> str:
        try:
            rendered = self._tokenizer.apply_chat_template(
                # Copies: a template that is Python code could change what it is given.
                [copy.deepcopy(message) for message in messages],
                tokenize=False,
                add_generation_prompt=generation,
                **self._options,
            )
        except REFUSALS as error:
            raise TemplateRefused(f"The model's chat template refuses this conversation: {error}") from error
        return str(rendered)

    def encode(self, text: str) -> list[int]:
        """Token ids. Control tokens in it count as such."""
        return self._memory.encoder.encode(text)

    def _as_dicts(self, messages: Sequence[Message]) -> list[Words]:
        before = self._memory.words
        words = {message: before.get(message) or self._as_dict(message) for message in messages}
        self._memory.words = words
        return [words[message] for message in messages]

    def _as_dict(self, message: Message) -> Words:
        said = self._memory.seams.sewn(message.content)
        plain: Words = {"role": message.role, "content": said}
        if message.images:
            if self.vision is None:
                raise ImagesRefused(UNSEEN)
            shown = [{"type": "image"} for _ in message.images]
            plain["content"] = [*shown, {"type": "text", "text": said}]
        if message.thinking:
            # Two names are in use for it; a template that drops old thinking ignores both.
            plain["reasoning_content"] = plain["thinking"] = self._memory.seams.sewn(message.thinking)
        return plain

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Every token of a path that ends with a user message, generation prompt included.

        An image stands there as `vision` has it. Raises `TemplateRefused`.
        """
        tokens = self.tokens(messages, generation=True)
        if tokens[-1] < 0:
            raise TemplateRefused("The model's chat template puts nothing after an image.")
        return tokens

    def tokens(self, messages: Sequence[Message], *, generation: bool) -> list[int]:
        """The rendered conversation as tokens, images included. Raises `TemplateRefused`."""
        tokens = self.encode(self.text(messages, generation=generation))
        shown = pictures(messages)
        return self.vision.expanded(tokens, shown) if self.vision and shown else tokens

    def opening(self, messages: Sequence[Message]) -> str:
        """The generation prompt: what the template puts before a reply, such as an open think tag."""
        asked = self.text(messages, generation=True)
        return asked[common_text([asked, self.text(messages, generation=False)]) :]

    def moved(self, messages: Sequence[Message]) -> str | None:
        """Why more than the generation prompt is run anew in every turn, in a clause, or None.

        `messages` end with a question. After `stable_prefix` and `opening` it renders nothing.
        """
        asked = self.text(messages, generation=True)
        stable = self._limit(messages, self._names(messages)[-1]).characters
        if stable >= len(asked) - len(self.opening(messages)):
            return None
        system = messages[0].content.strip() if messages[0].role == "system" else ""
        seen = self._memory.seams.sewn(system)
        if seen and seen in asked and seen not in asked[:stable]:
            return "the template moves the system prompt into the last message"
        return "the template changes what was said before once another message follows"

    def boundaries(self, messages: Sequence[Message], known: Mapping[int, int]) -> list[int]:
        """Where checkpoints go, in tokens: the stable prefix after each message of the path.

        Each depends on the path up to there alone, so every run of a conversation, cold or cached,
        is cut alike. `known` are those that were found before, by number of messages.
        """
        first = 0 if messages[0].role != "system" else 1
        names = self._names(messages)
        return [
            known[count] if count in known else self._limit(messages[:count], names[count]).tokens
            for count in range(first, len(messages) + 1)
        ]

    def stable_prefix(self, messages: Sequence[Message]) -> int:
        """How many tokens every continuation of these messages will begin with."""
        return self._limit(messages, self._names(messages)[-1]).tokens

    def _names(self, messages: Sequence[Message]) -> list[str]:
        """What tells each beginning of the path from any other, the empty one first."""
        said = (f"{m.role} {len(m.content)} {m.content}{m.thinking}{_named(m)}" for m in messages)
        return list(accumulate(said, lambda name, more: _digest(name + more), initial=self.key))

    def _limit(self, messages: Sequence[Message], name: str) -> Limit:
        found = self._memory.limits.get(name)
        if found is None:
            found = self._ask(messages)
            self._memory.limits = _remembered(self._memory.limits, name, found, LIMITS)
        return found

    def _ask(self, messages: Sequence[Message]) -> Limit:
        """Render the invented continuations and see what they share."""
        said, encoder = self._as_dicts(messages), self._memory.encoder
        if messages and messages[-1].role == "user":
            probes = [(self.text(messages, generation=True), ()), *self._replies(said)]
        else:
            probes = list(self._questions(said))
        texts = [text for text, _ in probes]
        common = common_text(texts)
        begun = sum(text[common:].lstrip().startswith(words) for text, words in probes)
        shared = encoder.shared(texts, words_follow=begun > 1)
        tokens = encoder.encode(texts[0])
        shared = min(shared, len(tokens) - 1)
        if self.vision is not None and (shown := pictures(messages)):
            # Whole images only: they are one token still.
            shared = self.vision.widened(shared, tokens, shown)
        return Limit(shared, common)

    def _replies(self, said: list[Words]) -> Iterator[Probe]:
        """What may follow a question: replies of every kind, with thinking and without."""
        shown = [self._replied(said, *kind) for kind in zip(OPENINGS, THOUGHTS, strict=True)]
        yield from shown
        if self.vision is not None:
            with suppress(TemplateRefused):
                yield self._replied(said, OPENINGS[0], THOUGHTS[0], (INVENTED,))
        cut_off = [THOUGHTS[0]]
        if self._replied(said, OPENINGS[0], "")[0] != shown[0][0]:
            # The template shows thinking: where there is none, it may part elsewhere.
            yield from (self._replied(said, opening, "") for opening in OPENINGS)
            cut_off.append("")
        for thought in cut_off:
            # A reply that was stopped at once; a template that refuses it has no such continuation.
            with suppress(TemplateRefused):
                yield self._replied(said, "", thought)

    def _replied(
        self, said: list[Words], reply: str, thought: str, images: tuple[Picture, ...] = ()
    ) -> Probe:
        answer = self._as_dict(Message("assistant", reply, thought))
        question = self._as_dict(Message("user", OPENINGS[0], images=images))
        words = tuple(text.lstrip() for text in (reply, thought) if text)
        return self._render([*said, answer, question]), words

    def _questions(self, said: list[Words]) -> Iterator[Probe]:
        """What may follow a reply: a question of every kind, and another after it."""
        questions = [self._as_dict(Message("user", opening)) for opening in OPENINGS]
        for question in questions:
            yield self._render([*said, question]), (question["content"].lstrip(),)
        if self.vision is not None:
            seen = self._as_dict(Message("user", OPENINGS[0], images=(INVENTED,)))
            with suppress(TemplateRefused):
                yield self._render([*said, seen]), ()
        yield self._replied([*said, questions[0]], OPENINGS[1], THOUGHTS[0])[0], ()


def _named(message: Message) -> str:
    """What tells a message's images from others."""
    return "".join(f" image {picture.sha256}" for picture in message.images)


def _remembered(before: dict[K, T], key: K, value: T, most: int) -> dict[K, T]:
    """The latest, `value` among them; a new dict, so that no other thread sees it change."""
    return {**dict(list(before.items())[1 - most :]), key: value}


def _source(tokenizer: Any) -> str:
    """The chat template's text; none where mlx-lm renders with code of its own."""
    found = tokenizer.chat_template
    return found if isinstance(found, str) else str((found or {}).get("default", ""))


def _written(tokenizer: Any) -> str:
    """Where the tokens that a template writes can be found: its text, its named tokens, a sample."""
    named = " ".join(map(str, tokenizer.special_tokens_map.values()))
    said = [
        {"role": role, "content": text, "reasoning_content": text, "thinking": text} for role, text in SAMPLE
    ]
    sample = ""
    for messages in (said, said[1:]):
        with suppress(*REFUSALS):
            sample += str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    return " ".join((_source(tokenizer), named, sample))


def _clock(source: str, date: datetime.date) -> dict[str, Any]:
    """What a template may ask the date from, each only if it is named there."""
    noon = datetime.datetime.combine(date, datetime.time(12))
    dates = {"date_string": noon.strftime(CLOCK_FORMAT), "current_date": date.isoformat()}
    options: dict[str, Any] = {name: value for name, value in dates.items() if name in source}
    if "strftime_now" in source:
        options["chat_template"] = _stopped_clock(noon) + _kept_start(source)
    return options


def _stopped_clock(noon: datetime.datetime) -> str:
    """A macro that hides the live clock: transformers takes no function from outside a template."""
    parts = [f"%{flag}{letter}" for letter in DIRECTIVES for flag in ("", "-")]
    said = "".join(f"|replace({part!r}, {noon.strftime(part)!r})" for part in parts)
    return "{%- macro strftime_now(format) %}{{ format" + said + " }}{%- endmacro %}"


def _kept_start(source: str) -> str:
    """Jinja drops a line break after a tag; the template's own first one must stay."""
    return f"\n{source}" if source.startswith("\n") else source


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
