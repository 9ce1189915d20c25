"""From a path of messages to token ids and boundaries, under a pinned clock; refuses to know caches.

The stable prefix is asked of the template itself (design, idea 1): the path is rendered with invented
continuations, and what all of them share is what every real continuation will share. No think token
is searched for, so any template is served.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from chatcli.conversation import Message
from chatcli.errors import TemplateRefused
from chatcli.prefix import common_prefix

# First characters of every kind, because a template may trim them and a tokenizer may merge them.
OPENINGS = ("Yes", "\n\nno", " 1", "7é", "*")
DIRECTIVES = "aAbBcdDeFhHIjmMpRSTuUwWxXyYZ"
NEAR = 4096
# A noncharacter: text on its two sides is tokenized apart. No tokenizer ever sees it.
SEAM = "\ufdd0"
CLOCK_FORMAT = "%d %b %Y"


class Template:
    """A tokenizer's chat template with one date and one thinking mode."""

    def __init__(self, tokenizer: Any, date: str, think: bool | None = None) -> None:
        """`date` is ISO 8601; `think` None is the template's own default."""
        self._tokenizer = tokenizer
        source = _source(tokenizer)
        self._options = _clock(source, datetime.date.fromisoformat(date))
        if think is not None:
            self._options["enable_thinking"] = think
        self._special = _control_tokens(tokenizer, source)
        self._forged = re.compile("|".join(map(re.escape, self._special)) or "(?!)")
        self._encoded: tuple[str, list[int]] = ("", [])
        self.key = _digest(f"{source} {date} {think}")

    def text(self, messages: Sequence[Message], *, generation: bool) -> str:
        """The rendered conversation. Raises `TemplateRefused` with the template's own words."""
        try:
            rendered = self._tokenizer.apply_chat_template(
                [self._as_dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=generation,
                **self._options,
            )
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise TemplateRefused(
                f"The model's chat template refuses this conversation: {error}"
            ) from error
        return str(rendered)

    def encode(self, text: str) -> list[int]:
        """Token ids; the text of the last call is remembered, because a probe asks for it again."""
        if self._encoded[0] != text:
            self._encoded = (text, self._tokenize(text))
        return self._encoded[1]

    def _tokenize(self, text: str) -> list[int]:
        pieces = (self._tokenizer.encode(p, add_special_tokens=False) for p in text.split(SEAM))
        return [token for piece in pieces for token in piece]

    def _as_dict(self, message: Message) -> dict[str, str]:
        plain = {"role": message.role, "content": self._as_words(message.content)}
        if message.thinking:
            # Two names are in use for it; a template that drops old thinking ignores both.
            plain["reasoning_content"] = plain["thinking"] = self._as_words(message.thinking)
        return plain

    def _as_words(self, text: str) -> str:
        """`text` with a seam in each control token that it spells, so that no one forges a turn."""
        text = text.replace(SEAM, "")
        return self._forged.sub(lambda found: f"{found[0][:1]}{SEAM}{found[0][1:]}", text)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Every token of a path that ends with a user message, generation prompt included."""
        return self.encode(self.text(messages, generation=True))

    def opening(self, messages: Sequence[Message]) -> str:
        """The generation prompt: what the template puts before a reply, such as an open think tag."""
        asked = self.text(messages, generation=True)
        return asked[_common_text(asked, self.text(messages, generation=False)) :]

    def boundaries(self, messages: Sequence[Message], known: Mapping[int, int]) -> list[int]:
        """Where checkpoints go, in tokens: the stable prefix after each message of the path.

        Each depends on the path up to there alone, so every run of a conversation, cold or cached,
        is cut alike. `known` are those that were found before, by number of messages.
        """
        first = 0 if messages[0].role != "system" else 1
        return [
            known[count] if count in known else self.stable_prefix(messages[:count])
            for count in range(first, len(messages) + 1)
        ]

    def stable_prefix(self, messages: Sequence[Message]) -> int:
        """How many tokens every continuation of these messages will begin with."""
        path = list(messages)
        asked = bool(path) and path[-1].role == "user"
        continuations = _after_user(path) if asked else _after_reply(path)
        texts = [self.text(path, generation=True)] if asked else []
        texts += [self.text(other, generation=True) for other in continuations]
        return min(self._shared_tokens(texts), len(self.encode(texts[0])) - 1)

    def _shared_tokens(self, texts: Sequence[str]) -> int:
        """The longest common token prefix; only what follows the last special token that all
        share is tokenized again for each text, because tokenizers cut there first."""
        first, *others = texts
        common = min(_common_text(first, other) for other in others)
        near = max(0, common - NEAR)
        anchor = max((first.rfind(mark, near, common) for mark in self._special), default=-1)
        tokens, tail = self.encode(first), self._tokenize(first[max(anchor, 0) :])
        if tokens[len(tokens) - len(tail) :] != tail:
            anchor, tail = 0, tokens
        before = len(tokens) - len(tail)
        others_tail = (self._tokenize(other[max(anchor, 0) :]) for other in others)
        return before + min(common_prefix(tail, other) for other in others_tail)


def _after_user(messages: list[Message]) -> list[list[Message]]:
    replies = [Message("assistant", text, why) for text in OPENINGS for why in ("So.", "")]
    return [[*messages, reply, Message("user", OPENINGS[0])] for reply in replies]


def _after_reply(messages: list[Message]) -> list[list[Message]]:
    asked = [[*messages, Message("user", opening)] for opening in OPENINGS]
    later = [*asked[0], Message("assistant", OPENINGS[1], "So."), Message("user", OPENINGS[0])]
    return [*asked, later]


def _source(tokenizer: Any) -> str:
    """The chat template's text; none where mlx-lm renders with code of its own."""
    found = tokenizer.chat_template
    return found if isinstance(found, str) else str((found or {}).get("default", ""))


def _control_tokens(tokenizer: Any, source: str) -> list[str]:
    """The tokens that steer a model: the special ones, and added ones that the template writes.

    Longest first. Others that were added, such as runs of spaces, are ordinary text.
    """
    added = tokenizer.added_tokens_decoder.values()
    steering = {str(t) for t in added if t.special or (str(t) in source and str(t).strip())}
    return sorted(steering, key=len, reverse=True)


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
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _common_text(left: str, right: str) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
