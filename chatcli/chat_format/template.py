"""From a path of messages to token ids and boundaries, through the model's chat template.

The stable prefix is found with the template itself: the path is rendered with invented continuations,
and what all of them share is what every real continuation will share. No think token is searched for,
so any template will do. The template's clock stands at the session's date.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from chatcli.chat_format import ladder, renderer, sandbox
from chatcli.chat_format.arguments import python_renderer, template_arguments, template_variables
from chatcli.chat_format.forms import Forms, Json, Sewn, SewnCall, calls_as_text, shape, tool_options
from chatcli.chat_format.ladder import Learned, parts_of
from chatcli.chat_format.markers import format_of
from chatcli.chat_format.renderer import Rendering, Stop, text_of
from chatcli.chat_format.tokenizing import Encoded, Encoder, Seams, common_text, control_tokens
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ImagesRefused, ModelBroken, TemplateCutOff, TemplateRefused, TemplateStopped
from chatcli.events import ToolCall
from chatcli.model.vision import Vision, pictures
from chatcli.records import is_shallow
from chatcli.store.segments.token_path import common_prefix

# Invented messages with first characters of every kind, which a template may trim and a tokenizer merge.
INVENTED_TEXTS = ("Yes", "\n\nno", " 1", "7é", "*")
# As many thoughts: where thinking is shown, it comes before the reply.
INVENTED_THOUGHTS = ("So.", "\nHm.", " 1", "7é", "*")
# The directives of strftime that are replaced in a template, and the format of `date_string`.
DIRECTIVES = "aAbBcdDeFhHIjmMpRSTuUwWxXyYZ"
DATE_FORMAT = "%d %b %Y"
# How many rendered texts are remembered: those of a message that is typed ahead are needed when it is sent.
MAX_TEXTS = 4
# Deeper arguments of a call are given as text.
MAX_DEPTH = 64
# As much of a call's text as may be a control token.
MARK_CHARACTERS = 32
INVENTED_DATE = datetime.date(2025, 1, 1)
# How many stable prefixes: where the thinking mode changed, those of every message are needed again.
MAX_PREFIXES = 1 << 15
# With so many to find, the path is not rendered for each of them, which takes the square of its length.
MANY_MESSAGES, COUNTS_AT_ONCE = 256, 32
# What all renderings for a prompt, or for its boundaries, may take together.
REQUEST_SECONDS = 120.0
# How many of a long path's last messages stand for all of it in most renderings.
RECENT_MESSAGES = 8
SAMPLE = [("system", "a"), ("user", "b"), ("assistant", "c"), ("user", "d")]
IMAGES_UNSUPPORTED = (
    "This conversation has images, which this model cannot be shown: go on with one that can "
    "(/model NAME, -m NAME), or before them (/rewind TURN)."
)
INVENTED_IMAGE = Picture("", "", "", 0, 0)
INVENTED_QUESTION = Message("user", INVENTED_TEXTS[0])
INVENTED_CALL = ToolCall("tool", "{}", "call")
# In place of the name of what a reply calls, while the template shows the call: what was written goes there.
# A noncharacter around two numbers.
PLACEHOLDER = "\ufdd1"
PLACEHOLDERS = re.compile(f"{PLACEHOLDER}\\d+\\.\\d+{PLACEHOLDER}")


class Limit:
    """A signal that ends renderings: another one, or that all of them took too long together."""

    def __init__(self, stop: Stop | None, seconds: float = REQUEST_SECONDS) -> None:
        self._stop, self.seconds, self._left = stop, seconds, seconds
        self._began: float | None = None

    def is_set(self) -> bool:
        return self.is_over() or (self._stop is not None and self._stop.is_set())

    def renew(self) -> None:
        """Begin anew: another request."""
        self._left = self.seconds

    def is_over(self) -> bool:
        running = 0.0 if self._began is None else time.monotonic() - self._began
        return running > self._left

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self._began is not None:
            self._left -= time.monotonic() - self._began
        self._began = None


# A rendered continuation, and the invented texts of which one stands where it diverges from others.
Probe = tuple[str, tuple[str, ...]]
# Messages to render, and whether the generation prompt follows them.
Conversation = tuple[list[Sewn], bool]
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Continuation:
    """A path with messages that may follow it, and the invented texts that stand where it diverges.

    A template that refuses an `optional` one has none such. One `without_thought` is for templates that show
    thinking, which others than those write in the same way.
    """

    messages: list[Sewn]
    starts: tuple[str, ...] = ()
    optional: bool = False
    without_thought: bool = False


@dataclass(frozen=True)
class StablePrefix:
    """The length of a path's stable prefix, in tokens and in characters of the rendered text."""

    tokens: int
    characters: int


@dataclass(frozen=True)
class KnownPath:
    """A path's messages, with seams, and a hash of each beginning, the empty one first."""

    messages: list[Message] = field(default_factory=list)
    sewn: list[Sewn] = field(default_factory=list)
    hashes: list[str] = field(default_factory=lambda: [_digest("")])


@dataclass(frozen=True)
class RenderedText:
    """What a template (`key`) made of a conversation."""

    key: str
    generation: bool
    messages: list[Message]
    text: str


@dataclass
class TemplateCache:
    """What the templates of a tokenizer computed last; threads may share it.

    It outlives a `Template`, so that the next turn's computes only what is new. It is bounded.
    """

    encoder: Encoder
    seams: Seams
    variables: frozenset[str]
    path: KnownPath = field(default_factory=KnownPath)
    texts: list[RenderedText] = field(default_factory=list)
    prefixes: dict[tuple[str, str], StablePrefix] = field(default_factory=dict)
    # By template and path: whether the last messages stand for all of them.
    local: dict[tuple[str, str], bool] = field(default_factory=dict)
    # By template, and whether it is given tools: the forms in which it shows what.
    learned: dict[str, Learned] = field(default_factory=dict)

    @property
    def adapted(self) -> list[str]:
        """A clause for each part that a template does not show in the usual form."""
        return list(dict.fromkeys(each for learned in self.learned.values() for each in learned.adapted))

    @classmethod
    def of(cls, tokenizer: Any) -> TemplateCache:
        """An empty one for this tokenizer."""
        written = _text_with_control_tokens(tokenizer)
        control = control_tokens(tokenizer, written)
        encoder = Encoder(tokenizer, [mark for mark in control if mark in written])
        variables = frozenset[str]().union(
            *(template_variables(tokenizer, source) for source in _sources(tokenizer).values())
        )
        return cls(encoder, Seams(tokenizer, control), variables)


class Template:
    """A tokenizer's chat template with one date, one thinking mode and one set of arguments."""

    def __init__(
        self,
        tokenizer: Any,
        date: str,
        think: bool | None = None,
        cache: TemplateCache | None = None,
        *,
        effort: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        vision: Vision | None = None,
        stop: Stop | None = None,
    ) -> None:
        """`date` is ISO 8601; `think` and `effort` None leave the template's own default.

        `arguments` that the template does not read are left out. `cache` is of the same tokenizer; without
        one, nothing that other templates computed is reused. Without `vision` images are refused. `stop`
        ends a rendering, which is refused then, as it is after `REQUEST_SECONDS` of all for one prompt.
        """
        self.vision = vision
        self._tokenizer, self._stop = tokenizer, Limit(stop)
        self._cache = cache or TemplateCache.of(tokenizer)
        self._tools = list((arguments or {}).get("tools") or ())
        self._source = _source(tokenizer, bool(self._tools))
        self._options = _clock(self._source, datetime.date.fromisoformat(date))
        if isinstance(tokenizer.chat_template, dict):
            self._options.setdefault("chat_template", self._source)
        variables = self._cache.variables
        self._options |= template_arguments(variables - {"tools"}, think, effort, arguments or {})
        if "functions" in variables:
            variables |= {"tools"}
        others = template_arguments(variables, None, effort, arguments or {})
        others_key = f" {json.dumps(others, sort_keys=True)}" if others else ""
        vision_key = f" {vision.key}" if vision is not None else ""
        # Identifies what the rendered text depends on beside the messages.
        self.key = _digest(f"{self._source} {date} {think}{others_key}{vision_key}")

    def stopped_by(self, stop: Stop) -> Template:
        """The same, whose renderings end with another signal."""
        template = copy.copy(self)
        template._stop = Limit(stop)
        return template

    def try_all(self) -> None:
        """Learn at once what is otherwise learned when a conversation has it. Raises `TemplateRefused`."""
        key = self._forms_key()
        learned = self._cache.learned.get(key) or Learned()
        parts = ladder.BY_NAME.keys() - (set() if self._tools else {"tools"})
        learned = learned.knowing(parts, self._try, self._cache.seams.spelled)
        self._cache.learned = {**self._cache.learned, key: learned}

    @property
    def shows_tools(self) -> bool:
        """Whether the template shows the tools that it is given. Raises `TemplateRefused`."""
        return self._learned_for([[]]).forms.tools not in ("unshown", "withheld")

    def text(self, messages: Sequence[Message], *, generation: bool) -> str:
        """The rendered conversation. Raises `TemplateRefused` with the template's own words."""
        wanted = list(messages)
        for known in self._cache.texts:
            if (known.key, known.generation) == (self.key, generation) and known.messages == wanted:
                return known.text
        (rendering,) = self._render_all([(self._sewn(wanted), generation)])
        text = text_of(rendering)
        newest = RenderedText(self.key, generation, wanted, text)
        self._cache.texts = [*self._cache.texts[1 - MAX_TEXTS :], newest]
        return text

    def _render_all(self, conversations: Sequence[Conversation]) -> list[Rendering]:
        """Each as a text, or why there is none: all in one request to the process that renders."""
        learned = self._learned_for([messages for messages, _ in conversations])
        forms, held = learned.forms, [_held(messages, learned) for messages, _ in conversations]
        renderings = self._rendered(
            [
                (known or messages, generation)
                for (messages, generation), (known, _) in zip(conversations, held, strict=True)
            ],
            forms,
        )
        others: list[int] = []
        for at, (_, replies) in enumerate(held):
            rendering = renderings[at]
            if replies and isinstance(rendering, str):
                whole = self._filled(rendering, replies, learned)
                if whole is None:
                    others.append(at)
                else:
                    renderings[at] = whole
        # Text beside a call that cannot be put where it was written.
        forms = replace(forms, beside="text") if forms.beside == "inserted" else forms
        again = self._rendered([conversations[at] for at in others], forms)
        for at, rendering in zip(others, again, strict=True):
            renderings[at] = rendering
        return renderings

    def _rendered(self, conversations: Sequence[Conversation], forms: Forms) -> list[Rendering]:
        options = {**self._options, **tool_options(self._tools, forms)}
        shaped = [(shape(messages, forms), generation, options) for messages, generation in conversations]
        return self._limited(shaped)

    def _limited(self, shaped: Sequence[tuple[list[Json], bool, Mapping[str, Any]]]) -> list[Rendering]:
        """Raises `TemplateStopped`, and `TemplateCutOff` once all renderings took too long together."""
        with self._stop:
            try:
                return _rendered(self._tokenizer, shaped, self._stop)
            except TemplateStopped:
                if not self._stop.is_over():
                    raise
        raise TemplateCutOff(
            f"The model's chat template needs over {self._stop.seconds:g} seconds for this conversation: "
            "begin a new one, or choose another model with -m."
        )

    def _learned_for(self, conversations: Sequence[Sequence[Sewn]]) -> Learned:
        """What is known of the template, with all that these conversations have."""
        key = self._forms_key()
        learned = before = self._cache.learned.get(key) or Learned()
        for messages in conversations:
            parts = parts_of(messages, learned.forms)
            if self._tools:
                parts.add("tools")
            learned = learned.knowing(parts, self._try, self._cache.seams.spelled)
            if any(each.written for each in messages):
                learned = learned.framing(self._try, self._cache.seams.spelled)
        if learned is not before:
            self._cache.learned = {**self._cache.learned, key: learned}
        return learned

    def _forms_key(self) -> str:
        return f"{_digest(self._source)} {bool(self._tools)}"

    def _try(self, conversations: Sequence[tuple[Sequence[Sewn], bool, Forms]]) -> list[Rendering]:
        """Conversations with invented words, rendered on an invented day, so that no session decides."""
        options = _clock(self._source, INVENTED_DATE)
        if "chat_template" in self._options:
            options.setdefault("chat_template", self._source)
        tools = [ladder.TOOL] if self._tools else []
        shaped = [
            (shape(messages, forms), generation, {**options, **tool_options(tools, forms)})
            for messages, generation, forms in conversations
        ]
        return self._limited(shaped)

    def _filled(self, text: str, replies: Sequence[Sewn], learned: Learned) -> str | None:
        """A rendered text with each held reply as it was written in its placeholder's place.

        So the tokens are those that were generated, not those of the same JSON written otherwise. None where
        the template does not show the calls of a reply one after the other.
        """
        by_id = learned.frame is not None and learned.frame.by == "id"
        # A template may look up a call's name where it shows the result.
        names = {
            _placeholder(number, at): call.id if by_id else call.name
            for number, reply in enumerate(replies)
            for at, call in enumerate(reply.calls)
        }

        def named(part: str) -> str:
            return PLACEHOLDERS.sub(lambda mark: names.get(mark[0], mark[0]), part)

        parts, done = [], 0
        for number, reply in enumerate(replies):
            as_text = calls_as_text(reply, learned.forms)
            shown = _shown(text, done, number, reply, None if as_text else learned)
            if shown is None:
                return None
            start, end = shown
            part = named(text[start:end])
            if reply.written is None:
                part = reply.text + part
            else:
                marks = _edges(reply.written) if as_text else part
                part = self._cache.seams.sewn(reply.written.content, written=marks)
            parts += [named(text[done:start]), part]
            done = end
        return "".join([*parts, named(text[done:])])

    def encode(self, text: str) -> list[int]:
        """Token ids. Control tokens in it count as such."""
        return self._cache.encoder.encode(text)

    def _as_dicts(self, messages: Sequence[Message]) -> list[Json]:
        """The messages in the forms that the template shows."""
        sewn = self._sewn(messages)
        return shape(sewn, self._learned_for([sewn]).forms)

    def _sewn(self, messages: Sequence[Message]) -> list[Sewn]:
        return self._known(messages).sewn[: len(messages)]

    def _known(self, messages: Sequence[Message]) -> KnownPath:
        """A path that begins with these messages, of which only what is new was computed."""
        path = self._cache.path
        shared = common_prefix(path.messages, messages)
        if shared < len(messages):
            sewn, hashes = path.sewn[:shared], path.hashes[: shared + 1]
            calls = {call.id: (each, call) for each in sewn for call in each.calls}
            for message in messages[shared:]:
                new = self._sew(message, calls.get(message.tool_call_id))
                calls |= {call.id: (new, call) for call in new.calls}
                sewn.append(new)
                content = f"{message.role} {len(message.content)} {message.content}{message.thinking}"
                content += "".join(f" image {picture.sha256}" for picture in message.images)
                if message.tool_calls or message.tool_call_id:
                    content += f" {message.tool_call_id} {message.tool_calls}"
                hashes.append(_digest(hashes[-1] + content))
            path = self._cache.path = KnownPath(list(messages), sewn, hashes)
        return path

    def _sew(self, message: Message, answers: tuple[Sewn, SewnCall] | None = None) -> Sewn:
        """A message with seams. A result `answers` a call."""
        sewn = self._cache.seams.sewn
        if message.images and self.vision is None:
            raise ImagesRefused(IMAGES_UNSUPPORTED)
        calls = tuple(
            SewnCall(sewn(each.name), sewn(each.arguments), self._value(each.arguments), each.id)
            for each in message.tool_calls
        )
        as_written = bool(calls) and all(call.start < call.end for call in message.tool_calls)
        return Sewn(
            message.role,
            sewn(message.text),
            sewn(message.thinking) if message.thinking else "",
            calls,
            message.tool_call_id,
            answers if message.role == "tool" else None,
            len(message.images),
            message if as_written else None,
        )

    def _value(self, arguments: str) -> Any:
        """What arguments say as JSON, with seams in every text; the text itself where it is not JSON."""
        with suppress(ValueError, RecursionError):
            value = json.loads(arguments)
            # Templates and their filters walk them by recursion.
            if is_shallow(value, MAX_DEPTH):
                return self._sewn_value(value)
        return self._cache.seams.sewn(arguments)

    def _sewn_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._cache.seams.sewn(key): self._sewn_value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._sewn_value(each) for each in value]
        return self._cache.seams.sewn(value) if isinstance(value, str) else value

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Every token of a path that ends with a user message or a tool's result, and the generation prompt.

        Images are the negative numbers that `vision` gives them. Raises `TemplateRefused`.
        """
        self._stop.renew()
        tokens = self.tokens(messages, generation=True)
        if not tokens:
            raise TemplateRefused("The model's chat template writes nothing for this conversation.")
        if tokens[-1] < 0:
            raise TemplateRefused("The model's chat template puts nothing after an image.")
        sewn = self._sewn(messages)
        learned = self._learned_for([sewn])
        parts = parts_of(sewn, learned.forms)
        lost = [learned.lost[part] for part in parts if part in learned.lost]
        if not lost and parts & learned.refused:
            text = self.text(messages, generation=True)
            lost = [
                "does not show all of this conversation" for each in sewn if each.text.strip() not in text
            ]
        if lost:
            raise TemplateRefused(f"The model's chat template {lost[0]}: choose another model with -m.")
        return tokens

    def tokens(self, messages: Sequence[Message], *, generation: bool) -> list[int]:
        """The rendered conversation as tokens, images included. Raises `TemplateRefused`."""
        tokens = self.encode(self.text(messages, generation=generation))
        images = pictures(messages)
        return self.vision.expanded(tokens, images) if self.vision and images else tokens

    def generation_prompt(self, messages: Sequence[Message]) -> str:
        """The generation prompt: what the template puts before a reply, such as an open think tag."""
        prompt = self.text(messages, generation=True)
        if recent := self._recent_if_local(messages):
            generation_prompt = self._generation_prompt_after(recent)
            if prompt.endswith(generation_prompt):
                return generation_prompt
        return prompt[common_text([prompt, self.text(messages, generation=False)]) :]

    def _generation_prompt_after(self, dicts: list[Sewn]) -> str:
        with_prompt, without = map(text_of, self._render_all([(dicts, True), (dicts, False)]))
        return with_prompt[common_text([with_prompt, without]) :]

    def rerun_reason(self, messages: Sequence[Message]) -> str | None:
        """Why every turn runs more anew than the generation prompt, in a clause; None: it does not.

        `messages` end with a question. After `boundaries` and `generation_prompt` it renders nothing.
        """
        prompt = self.text(messages, generation=True)
        stable = self._stable_prefix(messages).characters
        if stable >= len(prompt) - len(self.generation_prompt(messages)):
            return None
        system = messages[0].content.strip() if messages[0].role == "system" else ""
        rendered = self._cache.seams.sewn(system)
        if rendered and rendered in prompt and rendered not in prompt[:stable]:
            return "the template moves the system prompt into the last message"
        return "the template changes what was said before once another message follows"

    def boundaries(self, messages: Sequence[Message], known: Mapping[int, int]) -> list[int]:
        """Where checkpoints go, in tokens: the stable prefix after each message of the path.

        Each depends only on the path up to there, so every run of a conversation, cold or cached, is
        cut alike. `known` are those that were computed before, by number of messages.
        """
        self._stop.renew()
        first = 0 if messages[0].role != "system" else 1
        counts = range(first, len(messages) + 1)
        hashes = self._known(messages).hashes
        missing = [c for c in counts if c not in known and (self.key, hashes[c]) not in self._cache.prefixes]
        measured: dict[int, StablePrefix] = {}
        if len(missing) > MANY_MESSAGES:
            measured = self._along(messages, missing)
            newest = {(self.key, hashes[count]): prefix for count, prefix in measured.items()}
            kept = dict(list(self._cache.prefixes.items())[len(newest) - MAX_PREFIXES :])
            self._cache.prefixes = {**kept, **newest} if len(newest) < MAX_PREFIXES else newest
        positions = []
        for count in counts:
            if count in known:
                positions.append(known[count])
                continue
            prefix = measured.get(count) or self._cache.prefixes.get((self.key, hashes[count]))
            positions.append((prefix or self._stable_prefix(messages[:count])).tokens)
        return positions

    def _along(self, messages: Sequence[Message], counts: Sequence[int]) -> dict[int, StablePrefix]:
        """The stable prefix after so many messages each, in time that is linear in the path.

        As `_ask_recent` has it, but for one thing: that the last messages stand for all of them is not seen
        from two renderings of the whole path up to there, but from one of all of it and more, which has in
        the same place what the last messages alone give. Those where that is not so are left out.
        """
        if self.vision is not None and pictures(messages):
            return {}
        later = [Message("assistant", INVENTED_TEXTS[0]), INVENTED_QUESTION] * RECENT_MESSAGES
        path = [*messages, *next_input(messages), *later]
        whole = self._cache.encoder.encoded(self.text(path, generation=True))
        sewn, first = self._sewn(messages), int(messages[0].role == "system")
        local: dict[tuple[int, tuple[str, bool]], bool] = {}
        found: dict[int, StablePrefix] = {}
        # Of the last count: where its last messages begin, and how much longer the whole text is than theirs.
        begun, shift = 0, -1
        question = 0
        starts: dict[int, int] = {}
        for count in range(1, len(messages) + 1):
            # The last question that has enough messages after it.
            if (at := count - RECENT_MESSAGES) > first and messages[at].role == "user":
                question = at
            starts[count] = question
        for some in _batches([count for count in counts if starts.get(count)], COUNTS_AT_ONCE):
            asked: list[tuple[int, bool, list[Continuation]]] = []
            conversations: list[Conversation] = []
            for count in some:
                last, start = messages[count - 1], starts[count]
                kind = (count.bit_length(), _kind(last))
                if kind not in local:
                    local[kind] = bool(self._recent_if_local(messages[:count]))
                if not local[kind]:
                    continue
                recent = [*sewn[:first], *sewn[start:count]]
                follows = [self._following(recent, message) for message in next_input([last])]
                continuations = self._continuations(recent, [last])
                moved = begun != start
                if moved:
                    before = [*sewn[:first], *sewn[begun or start : count], *follows]
                    conversations.append((before, True))
                conversations.append(([*recent, *follows], True))
                conversations += [(each.messages, True) for each in continuations]
                asked.append((count, moved, continuations))
                begun = start
            renderings = iter(self._render_all(conversations))
            for count, moved, continuations in asked:
                before_text = next(renderings) if moved else ""
                prompt = next(renderings)
                others = [next(renderings) for _ in continuations]
                if not isinstance(prompt, str) or not isinstance(before_text, str):
                    shift = -1
                    continue
                if shift < 0:
                    path = [*messages[:count], *next_input(messages[:count])]
                    shift = len(self.text(path, generation=True)) - len(prompt)
                elif moved:
                    shift += len(before_text) - len(prompt)
                try:
                    probes = [_prompt_probe([messages[count - 1]], prompt), *_probes(continuations, others)]
                except TemplateRefused:
                    continue
                if not self._stop.is_over() and self._stop.is_set():
                    raise TemplateStopped("The search for boundaries was stopped.")
                texts = [text for text, _ in probes]
                common = common_text(texts)
                head, end = common_text([prompt, whole.text[: len(prompt)]]), shift + common
                if whole.text[shift + head : end] != prompt[head:common]:
                    shift = -1
                    continue
                found[count] = self._shared_from(whole, end, [text[common:] for text in texts], probes)
        return found

    def _shared_from(
        self, whole: Encoded, position: int, rests: Sequence[str], probes: Sequence[Probe]
    ) -> StablePrefix:
        """What probes share that part after so many characters of a long text."""
        pairs = zip(rests, probes, strict=True)
        invented = sum(rest.lstrip().startswith(starts) for rest, (_, starts) in pairs)
        encoder = self._cache.encoder
        shared = encoder.shared_from(whole, position, rests, any_text_follows=invented > 1)
        shared = max(min(shared, encoder.length_from(whole, position, rests[0]) - 1), 0)
        return StablePrefix(shared, position)

    def _path_key(self, messages: Sequence[Message]) -> tuple[str, str]:
        """Identifies this template and a path."""
        return self.key, self._known(messages).hashes[len(messages)]

    def _stable_prefix(self, messages: Sequence[Message]) -> StablePrefix:
        key = self._path_key(messages)
        prefix = self._cache.prefixes.get(key)
        if prefix is None:
            recent = self._recent_if_local(messages)
            prefix = (self._ask_recent(messages, recent) if recent else None) or self._ask(messages)
            self._cache.prefixes = _with_newest(self._cache.prefixes, key, prefix, MAX_PREFIXES)
        return prefix

    def _recent_if_local(self, messages: Sequence[Message]) -> list[Sewn]:
        """The system prompt and the last messages, where they can be asked in place of the whole path.

        Empty: not a long path, or not such a template. Most templates write what comes last in the same
        way whatever was said long before, and leave that as it is. It is tried with every continuation of
        the whole path whenever a path has become twice as long, and with one of them each time. As for
        boundaries, nothing but the path decides.
        """
        power = 1 << max(len(messages).bit_length() - 1, 0)
        if power <= RECENT_MESSAGES:
            return []
        ends_alike = (at for at in range(power, 0, -1) if _kind(messages[at - 1]) == _kind(messages[-1]))
        tried = messages[: next(ends_alike, 0)]
        key = self._path_key(tried)
        local = self._cache.local.get(key)
        if local is None:
            recent = self._recent(tried)
            local = bool(recent) and self._ask_recent(tried, recent) == self._ask(tried)
            if local and not next_input(tried):
                whole = self._generation_prompt_after(self._sewn(tried))
                local = whole == self._generation_prompt_after(recent)
            self._cache.local = _with_newest(self._cache.local, key, local, MAX_PREFIXES)
        return self._recent(messages) if local else []

    def _recent(self, messages: Sequence[Message]) -> list[Sewn]:
        """The system prompt and the last messages, from a question on; empty if that leaves nothing out."""
        dicts, first = self._sewn(messages), int(bool(messages) and messages[0].role == "system")
        before = range(len(messages) - RECENT_MESSAGES, first, -1)
        question = next((at for at in before if messages[at].role == "user"), None)
        return [] if question is None else [*dicts[:first], *dicts[question:]]

    def _ask(self, messages: Sequence[Message]) -> StablePrefix:
        """What the invented continuations of a path share once they are rendered."""
        prompt = self.text([*messages, *next_input(messages)], generation=True)
        continuations = self._continuations(self._sewn(messages), messages)
        renderings = self._render_all([(each.messages, True) for each in continuations])
        return self._shared(messages, [_prompt_probe(messages, prompt), *_probes(continuations, renderings)])

    def _ask_recent(self, messages: Sequence[Message], recent: list[Sewn]) -> StablePrefix | None:
        """`_ask`, of which only the prompt and one continuation are rendered whole.

        None where those two show that the others cannot be put together from what follows `recent`.
        """
        follows = next_input(messages)
        prompt = self.text([*messages, *follows], generation=True)
        following = [self._following(recent, message) for message in follows]
        whole, short = [*self._sewn(messages), *following], [*recent, *following]
        text, thought = INVENTED_TEXTS[0], INVENTED_THOUGHTS[0]
        continued = [self._reply(dicts, text, thought).messages for dicts in (whole, short)]
        continuations = self._continuations(recent, messages)
        renderings = self._render_all(
            [(dicts, True) for dicts in (*continued, short, *(each.messages for each in continuations))]
        )
        try:
            whole_continued, short_continued, short_prompt = map(text_of, renderings[:3])
            probes = [_prompt_probe(messages, short_prompt), *_probes(continuations, renderings[3:])]
        except TemplateRefused:
            return None
        same = common_text([prompt[: -len(short_prompt) - 1 : -1], short_prompt[::-1]])
        before, start = prompt[: len(prompt) - same], len(short_prompt) - same
        texts = [short_continued, *(text for text, _ in probes)]
        is_local = all(text.startswith(short_prompt[:start]) for text in texts)
        if not is_local or whole_continued != before + short_continued[start:]:
            return None
        return self._shared(messages, [(text[start:], starts) for text, starts in probes], before)

    def _continuations(self, dicts: list[Sewn], messages: Sequence[Message]) -> list[Continuation]:
        """What may follow `dicts`, which end as `messages` do, beside what `next_input` puts there."""
        last = messages[-1] if messages else None
        if last is not None and last.role == "user":
            return list(self._replies(dicts))
        if last is not None and last.role == "tool":
            return list(self._calls(dicts))
        if last is not None and last.tool_calls:
            return list(self._results(dicts, last.tool_calls[0].id, INVENTED_TEXTS[1:]))
        return list(self._questions(dicts))

    def _shared(self, messages: Sequence[Message], probes: Sequence[Probe], before: str = "") -> StablePrefix:
        """What rendered continuations of a path share, which all follow the text `before`."""
        encoder, texts = self._cache.encoder, [text for text, _ in probes]
        common = common_text(texts)
        # Where more than one continues with its invented text, any text may follow.
        invented = sum(text[common:].lstrip().startswith(starts) for text, starts in probes)
        shared = encoder.shared(texts, before=before, any_text_follows=invented > 1)
        tokens = encoder.encode(before + texts[0])
        shared = max(min(shared, len(tokens) - 1), 0)
        if self.vision is not None and (images := pictures(messages)):
            # Each image is one token in a rendered text, so the prefix ends between images.
            shared = self.vision.widened(shared, tokens, images)
        return StablePrefix(shared, len(before) + common)

    def _replies(self, dicts: list[Sewn]) -> Iterator[Continuation]:
        """What may follow a question: replies of every kind, with thinking and without."""
        for text, thought in zip(INVENTED_TEXTS, INVENTED_THOUGHTS, strict=True):
            yield self._reply(dicts, text, thought)
        if self.vision is not None:
            with_image = self._reply(dicts, INVENTED_TEXTS[0], INVENTED_THOUGHTS[0], (INVENTED_IMAGE,))
            yield replace(with_image, optional=True)
        # Where the template shows thinking, a reply without any may diverge elsewhere.
        for text in INVENTED_TEXTS:
            yield replace(self._reply(dicts, text, ""), without_thought=True)
        # A reply that was stopped at once.
        yield replace(self._reply(dicts, "", INVENTED_THOUGHTS[0]), optional=True)
        yield replace(self._reply(dicts, "", ""), optional=True, without_thought=True)

    def _reply(
        self, dicts: list[Sewn], text: str, thought: str, images: tuple[Picture, ...] = ()
    ) -> Continuation:
        reply = self._sew(Message("assistant", text, thought))
        question = self._sew(Message("user", INVENTED_TEXTS[0], images=images))
        starts = tuple(each.lstrip() for each in (text, thought) if each)
        return Continuation([*dicts, reply, question], starts)

    def _questions(self, dicts: list[Sewn]) -> Iterator[Continuation]:
        """What may follow a reply, beside the first invented question: others, and another after it."""
        first, *others = (self._sew(Message("user", text)) for text in INVENTED_TEXTS)
        for question in others:
            yield Continuation([*dicts, question], (question.text.lstrip(),))
        if self.vision is not None:
            with_image = self._sew(Message("user", INVENTED_TEXTS[0], images=(INVENTED_IMAGE,)))
            yield Continuation([*dicts, with_image], optional=True)
        another = self._reply([*dicts, first], INVENTED_TEXTS[1], INVENTED_THOUGHTS[0])
        yield replace(another, starts=())

    def _calls(self, dicts: list[Sewn]) -> Iterator[Continuation]:
        """What may follow a tool's result: another one, and replies that call a tool again.

        Not the next question, at which a template drops the thinking of all these replies: until then
        every prompt has it.
        """
        for continuation in self._results(dicts, INVENTED_CALL.id, INVENTED_TEXTS):
            yield replace(continuation, optional=True)
        with_text = self._sew(Message("assistant", INVENTED_TEXTS[0], tool_calls=(INVENTED_CALL,)))
        # Text that is shown as a reply of its own ends the loop for a template, and few replies have it.
        has_text = self._learned_for([[*dicts, with_text]]).forms.beside != "before"
        for text, thought in zip(INVENTED_TEXTS, INVENTED_THOUGHTS, strict=True):
            said = text if has_text else ""
            reply = self._sew(Message("assistant", said, thought, tool_calls=(INVENTED_CALL,)))
            result = self._following([reply], Message("tool", text, tool_call_id=INVENTED_CALL.id))
            starts = tuple(each.lstrip() for each in (said, thought) if each)
            yield Continuation([*dicts, reply, result], starts, optional=True)

    def _results(self, dicts: list[Sewn], call_id: str, texts: Sequence[str]) -> Iterator[Continuation]:
        """What follows a reply that calls a tool: a result with each of these texts."""
        for text in texts:
            result = self._following(dicts, Message("tool", text, tool_call_id=call_id))
            yield Continuation([*dicts, result], (text.lstrip(),))

    def _following(self, sewn: Sequence[Sewn], message: Message) -> Sewn:
        """A message that follows these. A result answers the newest call with its id."""
        calls = ((each, call) for each in reversed(sewn) for call in each.calls)
        answered = (pair for pair in calls if message.role == "tool" and pair[1].id == message.tool_call_id)
        return self._sew(message, next(answered, None))


def tools_notice(tokenizer: Any, cache: TemplateCache) -> str:
    """A sentence where a model cannot be shown tools, or its calls cannot be read; else nothing.

    Raises `TemplateRefused`.
    """
    template = Template(tokenizer, INVENTED_DATE.isoformat(), cache=cache, arguments={"tools": [ladder.TOOL]})
    if not template.shows_tools:
        return "The model's chat template does not show tools: the model is not told of those of a request."
    if not format_of(tokenizer).has_calls:
        return "This model's tool calls cannot be told from text: they come as text."
    return ""


def adaptations(tokenizer: Any) -> list[str]:
    """A clause for each part that a tokenizer's template does not show in the usual form, or in none.

    Raises `TemplateRefused`.
    """
    cache = TemplateCache.of(tokenizer)
    for tools in ([], [ladder.TOOL]):
        template = Template(tokenizer, INVENTED_DATE.isoformat(), cache=cache, arguments={"tools": tools})
        template.try_all()
    lost = [f"it {each}" for learned in cache.learned.values() for each in learned.lost.values()]
    notice = tools_notice(tokenizer, cache)
    return list(dict.fromkeys([*cache.adapted, *lost, *filter(None, [notice])]))


def _prompt_probe(messages: Sequence[Message], prompt: str) -> Probe:
    """A path's prompt, with what `next_input` puts after it, as the first of its probes."""
    return prompt, tuple(message.content for message in next_input(messages))


def _probes(continuations: Sequence[Continuation], renderings: Sequence[Rendering]) -> Iterator[Probe]:
    """The continuations that there are. Raises `TemplateRefused` where one is refused that must be."""
    without = next((at for at, each in enumerate(continuations) if each.without_thought), None)
    # The first of these has the text of the very first, whose thinking the template then shows.
    shows_thinking = without is not None and text_of(renderings[without]) != text_of(renderings[0])
    for continuation, rendering in zip(continuations, renderings, strict=True):
        is_refused = isinstance(rendering, TemplateRefused)
        if (is_refused and continuation.optional) or (continuation.without_thought and not shows_thinking):
            continue
        yield text_of(rendering), continuation.starts


def _placeholder(reply: int, call: int = 0) -> str:
    return f"{PLACEHOLDER}{reply}.{call}{PLACEHOLDER}"


def _held(messages: Sequence[Sewn], learned: Learned) -> tuple[list[Sewn] | None, list[Sewn]]:
    """Messages with placeholders where replies that call are to stand as written, and those replies."""
    held: list[Sewn] = []
    replies: list[Sewn] = []
    for each in messages:
        inserted = learned.forms.beside == "inserted" and each.calls and each.text
        if each.written is None and not inserted:
            held.append(each)
            continue
        number = len(replies)
        replies.append(each)
        if calls_as_text(each, learned.forms):
            held.append(Sewn(each.role, _placeholder(number), each.thinking))
            continue
        by = "id" if learned.frame and learned.frame.by == "id" else "name"
        calls = [replace(call, **{by: _placeholder(number, at)}) for at, call in enumerate(each.calls)]
        # Where each call is a reply of its own, the first one stands for all.
        calls = calls[:1] if learned.forms.several == "apart" else calls
        held.append(Sewn(each.role, "", each.thinking, tuple(calls)))
    if not replies or any(PLACEHOLDER in each.text for each in messages):
        return None, []
    return held, replies


def _shown(
    text: str, begin: int, number: int, reply: Sewn, learned: Learned | None
) -> tuple[int, int] | None:
    """Where a rendered text shows a held reply, searched from `begin`; None where that is not certain.

    `learned` None: its placeholder stands for all of it.
    """
    mark = _placeholder(number)
    last = place = text.find(mark, begin)
    if place < 0 or PLACEHOLDER in text[begin:place]:
        return None
    if learned is None:
        return place, place + len(mark)
    frame = learned.frame
    if frame is None:
        return None
    start = text.rfind(frame.lead, begin, place)
    for at in range(1, 1 if learned.forms.several == "apart" else len(reply.calls)):
        last = text.find(_placeholder(number, at), last)
        if last < 0:
            return None
    end = text.find(frame.end, last)
    if start < 0 or end < 0 or not (frame.counted or start + len(frame.lead) == place):
        return None
    if any(not each.startswith(f"{number}.") for each in text[place:end].split(PLACEHOLDER)[1::2]):
        return None
    if frame.closes:
        end += len(frame.end)
        # What the model wrote after the last call, and the template writes too.
        rest = reply.written.content.rpartition(frame.end)[2].strip() if reply.written else ""
        if rest:
            ended = text[end:].lstrip()
            if not ended.startswith(rest):
                return None
            end = len(text) - len(ended) + len(rest)
    return start, end


def _edges(written: Message) -> str:
    """What begins and ends the calls in a reply, where the model's control tokens may stand."""
    calls = [written.content[call.start : call.end] for call in written.tool_calls]
    return "".join(f"{call[:MARK_CHARACTERS]} {call[-MARK_CHARACTERS:]} " for call in calls)


def next_input(messages: Sequence[Message]) -> list[Message]:
    """What has to come before the next reply; nothing where the path ends with it."""
    last = messages[-1] if messages else None
    if last is not None and last.role in ("user", "tool"):
        return []
    if last is not None and last.tool_calls:
        return [Message("tool", INVENTED_TEXTS[0], tool_call_id=last.tool_calls[0].id)]
    return [INVENTED_QUESTION]


def _kind(message: Message) -> tuple[str, bool]:
    """What decides on how a path that ends with a message may go on."""
    return message.role, bool(message.tool_calls)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _with_newest(items: dict[K, T], key: K, value: T, size: int) -> dict[K, T]:
    """The newest `size` items; a new dictionary, so that no other thread sees one change."""
    return {**dict(list(items.items())[1 - size :]), key: value}


def _rendered(
    tokenizer: Any,
    conversations: Sequence[tuple[list[Json], bool, Mapping[str, Any]]],
    stop: Stop | None,
) -> list[Rendering]:
    """The rendered texts, or why there is none. Raises `TemplateStopped`.

    Each conversation has the template's options beside the messages; of all of them one template is used.
    """
    if not conversations:
        return []
    if python_renderer(tokenizer) is not None:
        return [_rendered_by_python(tokenizer, *each) for each in conversations]
    first = conversations[0][2]
    try:
        source = first.get("chat_template") or tokenizer.get_chat_template(tools=first.get("tools"))
    except Exception as error:
        # Code of whoever made the model can raise anything, and several templates may lack the one.
        return [_refusal(error)] * len(conversations)
    standard = {
        "tools": None,
        "documents": None,
        # What mlx-lm gives every template.
        "enable_thinking": tokenizer.has_thinking,
        **tokenizer.special_tokens_map,
    }
    plain: dict[str, Json] = {}
    contexts = []
    for messages, generation, options in conversations:
        text = json.dumps({**standard, **options, "chat_template": None}, default=str)
        if text not in plain:
            plain[text] = json.loads(text)
            del plain[text]["chat_template"]
        contexts.append({"add_generation_prompt": generation, **plain[text], "messages": messages})
    return renderer.render(source, contexts, stop)


def _rendered_by_python(
    tokenizer: Any, messages: list[Json], generation: bool, options: Mapping[str, Any]
) -> Rendering:
    flags = {"tokenize": False, "add_generation_prompt": generation}
    try:
        # Python code could change its arguments.
        return str(tokenizer.apply_chat_template(_copied(messages), **flags, **options))
    except Exception as error:
        # It is of whoever made the model, and can raise anything.
        return _refusal(error)


def _refusal(error: Exception) -> TemplateRefused:
    refusal = TemplateRefused(renderer.refusal(sandbox.reason(error)))
    refusal.__cause__ = error
    return refusal


def _copied(value: Any) -> Any:
    """Plain dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return list(map(_copied, value)) if isinstance(value, list | tuple) else value


def _sources(tokenizer: Any) -> dict[str, str]:
    """The text of each chat template by its name; empty where Python code renders.

    Raises `ModelBroken` where one is not text.
    """
    template = tokenizer.chat_template or ""
    sources = template if isinstance(template, dict) else {"default": template}
    if not all(isinstance(source, str) for source in sources.values()):
        raise ModelBroken("The model's chat template is not text.")
    return sources


def _source(tokenizer: Any, tools: bool = False) -> str:
    """The chat template's text: of several, the one for tools where there are some."""
    sources = _sources(tokenizer)
    names = ("tool_use", "default") if tools else ("default",)
    return next((sources[name] for name in names if name in sources), next(iter(sources.values()), ""))


def _text_with_control_tokens(tokenizer: Any) -> str:
    """A text with every control token that the template writes: its source, named tokens, a sample."""
    named = " ".join(map(str, tokenizer.special_tokens_map.values()))
    conversation = [
        {"role": role, "content": text, "reasoning_content": text, "thinking": text} for role, text in SAMPLE
    ]
    sample = ""
    for messages in (conversation, conversation[1:]):
        try:
            sample += text_of(_rendered(tokenizer, [(messages, True, {})], None)[0])
        except TemplateCutOff:
            raise
        except TemplateRefused:
            continue
    return " ".join((*_sources(tokenizer).values(), named, sample))


def _clock(source: str, date: datetime.date) -> dict[str, Any]:
    """The arguments from which a template takes the date, each only if the source names it."""
    noon = datetime.datetime.combine(date, datetime.time(12))
    in_words = noon.strftime(DATE_FORMAT)
    dates = {"date_string": in_words, "current_date": date.isoformat(), "datetime": in_words}
    options: dict[str, Any] = {name: value for name, value in dates.items() if name in source}
    if "strftime_now" in source:
        # Jinja drops a line break after a tag: a second one saves the template's own.
        first_line_break = "\n" if source.startswith("\n") else ""
        options["chat_template"] = _stopped_clock(noon) + first_line_break + source
    return options


def _stopped_clock(noon: datetime.datetime) -> str:
    """A macro that hides the live clock, because transformers passes no function to a template."""
    directives = [f"%{flag}{letter}" for letter in DIRECTIVES for flag in ("", "-")]
    filters = "".join(f"|replace({each!r}, {noon.strftime(each)!r})" for each in directives)
    return "{%- macro strftime_now(format) %}{{ format" + filters + " }}{%- endmacro %}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
