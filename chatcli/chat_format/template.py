"""From a path of messages to token ids and checkpoint boundaries, through the model's chat template.

The template itself defines the stable prefix: the path is rendered with invented continuations, and the
tokens that all of them share are those that every real continuation will share. No think token is searched
for, so this works for any template. The template's clock is fixed to the session's date.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from chatcli.chat_format import ladder
from chatcli.chat_format.forms import SafeMessage
from chatcli.chat_format.ladder import parts_of
from chatcli.chat_format.markers import format_of, reply_beginning
from chatcli.chat_format.renderer import Rendering, text_of
from chatcli.chat_format.rendering import (
    INVENTED_DATE,
    ConversationRenderer,
    SafeConversation,
    StablePrefix,
    TemplateCache,
)
from chatcli.chat_format.tokenizing import Encoded, common_text
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import TemplateCutOff, TemplateRefused, TemplateStopped
from chatcli.events import ToolCall
from chatcli.model.vision import pictures

__all__ = ["Template", "TemplateCache", "adaptations", "next_input", "tools_notice"]

# Invented messages. Their first characters are of every kind that a template may trim or a tokenizer merge.
INVENTED_TEXTS = ("Yes", "\n\nno", " 1", "7é", "*")
# Invented thinking, one for each text: if it is shown, it comes before the reply.
INVENTED_THOUGHTS = ("So.", "\nHm.", " 1", "7é", "*")
INVENTED_IMAGE = Picture("", "", "", 0, 0)
INVENTED_QUESTION = Message("user", INVENTED_TEXTS[0])
INVENTED_CALL = ToolCall("tool", "{}", "call")
# How many stable prefixes are cached. After the thinking mode changed, those of every message are needed.
MAX_PREFIXES = 1 << 15
# In a long path, most renderings contain only about this many of the last messages.
RECENT_MESSAGES = 8
# The continuations of this many boundaries are rendered in one request.
BATCH = 32

# A rendered continuation, and its invented texts that may stand where it diverges from the others.
Probe = tuple[str, tuple[str, ...]]
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Continuation:
    """A path with messages that may follow it, and the invented texts that may stand where it diverges.

    A template may refuse an `optional` continuation. One `without_thought` counts only for templates that
    show thinking.
    """

    messages: list[SafeMessage]
    starts: tuple[str, ...] = ()
    optional: bool = False
    without_thought: bool = False


class Template(ConversationRenderer):
    """Prompts, generation prompts and boundaries of paths, for one set of template arguments."""

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """All tokens of a path that ends with a user message or a tool result, with generation prompt.

        Images are the negative numbers that `vision` assigns. Raises `TemplateRefused`.
        """
        self._stop.renew()
        tokens = self.tokens(messages, generation=True)
        if not tokens:
            raise TemplateRefused("The model's chat template writes nothing for this conversation.")
        if tokens[-1] < 0:
            raise TemplateRefused("The model's chat template puts nothing after an image.")
        safe = self._safe_path(messages)
        learned = self._learned_for([safe])
        parts = parts_of(safe, learned.forms)
        lost = [learned.lost[part] for part in parts if part in learned.lost]
        if not lost and parts & learned.refused:
            text = self.text(messages, generation=True)
            if any(each.text.strip() not in text for each in safe):
                lost = ["does not show all of this conversation"]
        if lost:
            raise TemplateRefused(f"The model's chat template {lost[0]}: choose another model with -m.")
        return tokens

    def generation_prompt(self, messages: Sequence[Message]) -> str:
        """The text that the template puts before a reply, such as an open think tag."""
        prompt = self.text(messages, generation=True)
        if self._is_local(messages) and (recent := self._recent(messages)):
            generation_prompt = self._generation_prompt_after(recent)
            if prompt.endswith(generation_prompt):
                return generation_prompt
        return prompt[common_text([prompt, self.text(messages, generation=False)]) :]

    def reply_beginning(self, message: Message, generation_prompt: str) -> list[int]:
        """The tokens of a reply's beginning, which the model continues."""
        safe = self._safe(message)
        return self.encode(reply_beginning(self._tokenizer, generation_prompt, safe.thinking, safe.text))

    def _generation_prompt_after(self, messages: list[SafeMessage]) -> str:
        with_prompt, without = map(text_of, self._render_all([(messages, True), (messages, False)]))
        return with_prompt[common_text([with_prompt, without]) :]

    def rerun_reason(self, messages: Sequence[Message]) -> str | None:
        """Why every turn prefills more than the generation prompt, as a clause; None if it does not.

        `messages` end with a question. After `boundaries` and `generation_prompt` this renders nothing.
        """
        prompt = self.text(messages, generation=True)
        stable = self._stable_prefixes(messages, [len(messages)])[len(messages)].characters
        if stable >= len(prompt) - len(self.generation_prompt(messages)):
            return None
        system = messages[0].content.strip() if messages[0].role == "system" else ""
        rendered = self._cache.seams.safe(system)
        if rendered and rendered in prompt and rendered not in prompt[:stable]:
            return "the template moves the system prompt into the last message"
        return "the template changes what was said before once another message follows"

    # Boundaries

    def boundaries(self, messages: Sequence[Message], known: Mapping[int, int]) -> list[int]:
        """Checkpoint positions in tokens: the length of the stable prefix after each message of the path.

        Each depends only on the path up to its message, so that cold and cached runs of a conversation
        have the same boundaries. `known` are boundaries from before, by number of messages.
        """
        self._stop.renew()
        counts = range(int(messages[0].role == "system"), len(messages) + 1)
        prefixes = self._stable_prefixes(messages, [count for count in counts if count not in known])
        return [known[count] if count in known else prefixes[count].tokens for count in counts]

    def _stable_prefixes(self, messages: Sequence[Message], counts: Sequence[int]) -> dict[int, StablePrefix]:
        """The stable prefixes of the first `counts` messages each."""
        hashes, prefixes = self._known(messages).hashes, dict[int, StablePrefix]()

        def add(found: Mapping[int, StablePrefix]) -> None:
            prefixes.update(found)
            newest = {(self.key, hashes[count]): prefix for count, prefix in found.items()}
            self._cache.prefixes = _with_newest(self._cache.prefixes, newest)

        # Paths of about the same length that end alike are local or not together.
        local: dict[tuple[int, str, bool], bool] = {}
        recent = []
        for count in counts:
            if (prefix := self._cache.prefixes.get((self.key, hashes[count]))) is not None:
                prefixes[count] = prefix
                continue
            kind = (count.bit_length(), *_kind(messages[count - 1])) if count else (0, "", False)
            if kind not in local:
                local[kind] = self._is_local(messages[:count])
            if local[kind]:
                recent.append(count)
            else:
                add({count: self._ask(messages[:count])})
        if recent:
            # Last, so that the encoder caches the longest text for the next turn.
            add(self._ask_recent(messages, recent))
        for count in recent:
            if count not in prefixes:
                # Later messages changed the text, such as the next question after thinking and tool calls.
                path = messages[:count]
                found = self._ask_recent(path, [count]) if count < len(messages) else {}
                add(found or {count: self._ask(path)})
        return prefixes

    def _is_local(self, messages: Sequence[Message]) -> bool:
        """Whether a long path's last messages can stand for all of it when continuations are rendered.

        Most templates render recent messages the same whatever came long before, and do not change older
        ones. Whenever a path has doubled in length, its continuations are rendered both ways. The answer
        depends on the path alone, as boundaries must.
        """
        power = 1 << max(len(messages).bit_length() - 1, 0)
        if power <= RECENT_MESSAGES:
            return False
        ends_alike = (at for at in range(power, 0, -1) if _kind(messages[at - 1]) == _kind(messages[-1]))
        tried = messages[: next(ends_alike, 0)]
        key = self.key, self._known(tried).hashes[len(tried)]
        local = self._cache.local.get(key)
        if local is None:
            prefix = self._ask_recent(tried, [len(tried)]).get(len(tried))
            local = prefix is not None and prefix == self._ask(tried)
            if local and not next_input(tried):
                whole = self._generation_prompt_after(self._safe_path(tried))
                local = whole == self._generation_prompt_after(self._recent(tried))
            self._cache.local = _with_newest(self._cache.local, {key: local})
        return local

    def _recent(self, messages: Sequence[Message]) -> list[SafeMessage]:
        """The system prompt and the last messages from a question on; empty if that leaves nothing out."""
        safe, first = self._safe_path(messages), int(bool(messages) and messages[0].role == "system")
        before = range(len(messages) - RECENT_MESSAGES, first, -1)
        question = next((at for at in before if messages[at].role == "user"), None)
        return [] if question is None else [*safe[:first], *safe[question:]]

    def _ask(self, messages: Sequence[Message]) -> StablePrefix:
        """The stable prefix of a path, from whole renderings of all its continuations."""
        prompt = self.text([*messages, *next_input(messages)], generation=True)
        continuations = self._continuations(self._safe_path(messages), messages)
        renderings = self._render_all([(each.messages, True) for each in continuations])
        probes = [_prompt_probe(messages, prompt), *_probes(continuations, renderings)]
        common = common_text([text for text, _ in probes])
        return self._shared(messages, self._cache.encoder.encoded(prompt), common, probes, common)

    def _ask_recent(self, messages: Sequence[Message], counts: Sequence[int]) -> dict[int, StablePrefix]:
        """`_ask` for the first `counts` messages each, in time that is linear in the path.

        Continuations are rendered after the system prompt and the last messages alone. One rendering of the
        whole path, with more messages behind it, has to contain the same text in the same place. Counts for
        which it does not are left out, and so are short ones.
        """
        safe, first = self._safe_path(messages), int(bool(messages) and messages[0].role == "system")
        questions = [at for at, each in enumerate(messages) if at > first and each.role == "user"]
        # The recent messages begin with the last question that has enough messages after it.
        starts = {count: bisect_right(questions, count - RECENT_MESSAGES) - 1 for count in counts}
        starts = {count: questions[at] for count, at in starts.items() if at >= 0}
        if not starts:
            return {}
        whole_path = [*messages, *next_input(messages)]
        later = [Message("assistant", INVENTED_TEXTS[0]), INVENTED_QUESTION]
        if whole_path[-1].role == "tool":
            # A question would end the tool loop, and templates drop the loop's thinking there.
            call = Message("assistant", "", tool_calls=(INVENTED_CALL,))
            later = [call, Message("tool", INVENTED_TEXTS[0], tool_call_id=INVENTED_CALL.id)]
        whole_path += later * RECENT_MESSAGES
        whole: Encoded | None = None
        found: dict[int, StablePrefix] = {}
        # For the previous count: where its recent messages began (0: there is none), and by how many
        # characters the whole prompt was longer than theirs (None: unknown).
        begun = 0
        shift: int | None = None
        for at in range(0, len(starts), BATCH):
            asked: list[tuple[int, bool, list[Continuation]]] = []
            conversations: list[SafeConversation] = []
            if whole is None:
                conversations.append((self._safe_path(whole_path), True))
            for count, start in list(starts.items())[at : at + BATCH]:
                last = messages[count - 1]
                recent = [*safe[:first], *safe[start:count]]
                follows = [self._following(recent, message) for message in next_input([last])]
                continuations = self._continuations(recent, [last])
                moved = begun not in (0, start)
                if moved:
                    conversations.append(([*safe[:first], *safe[begun:count], *follows], True))
                conversations.append(([*recent, *follows], True))
                conversations += [(each.messages, True) for each in continuations]
                asked.append((count, moved, continuations))
                begun = start
            renderings = iter(self._render_all(conversations))
            if whole is None:
                text = next(renderings)
                if isinstance(text, TemplateRefused):
                    if isinstance(text, TemplateCutOff):
                        raise text
                    return {}
                whole = self._cache.encoder.encoded(text)
            for count, moved, continuations in asked:
                previous = next(renderings) if moved else ""
                prompt = next(renderings)
                others = [next(renderings) for _ in continuations]
                path = messages[:count]
                try:
                    if shift is None:
                        complete = self.text([*path, *next_input(path)], generation=True)
                        shift = len(complete) - len(text_of(prompt))
                    elif moved:
                        shift += len(text_of(previous)) - len(text_of(prompt))
                    probes = [_prompt_probe(path[-1:], text_of(prompt)), *_probes(continuations, others)]
                except TemplateRefused:
                    shift = None
                    continue
                if not self._stop.is_over() and self._stop.is_set():
                    raise TemplateStopped("The search for boundaries was stopped.")
                common = common_text([text for text, _ in probes])
                head, end = common_text([probes[0][0], whole.text[: len(probes[0][0])]]), shift + common
                if whole.text[shift + head : end] != probes[0][0][head:common]:
                    shift = None
                    continue
                found[count] = self._shared(path, whole, end, probes, common)
        return found

    def _shared(
        self, messages: Sequence[Message], whole: Encoded, position: int, probes: Sequence[Probe], common: int
    ) -> StablePrefix:
        """The tokens that probes share whose first `common` characters end at `position` in `whole`."""
        encoder, rests = self._cache.encoder, [text[common:] for text, _ in probes]
        # If more than one probe continues with its invented text, any text may follow here.
        pairs = zip(rests, probes, strict=True)
        invented = sum(rest.lstrip().startswith(starts) for rest, (_, starts) in pairs)
        shared = encoder.shared(whole, position, rests, any_text_follows=invented > 1)
        shared = max(min(shared, encoder.length(whole, position, rests[0]) - 1), 0)
        if self.vision is not None and (images := pictures(messages)):
            # Each image is one token in a rendered text, so the prefix ends between images.
            shared = self.vision.widened(shared, whole.tokens, images)
        return StablePrefix(shared, position)

    # Continuations

    def _continuations(self, path: list[SafeMessage], messages: Sequence[Message]) -> list[Continuation]:
        """Messages that may follow `path`, which ends as `messages` do, besides `next_input`."""
        last = messages[-1] if messages else None
        if last is not None and last.role == "user":
            return list(self._replies(path))
        if last is not None and last.role == "tool":
            return list(self._calls(path))
        if last is not None and last.tool_calls:
            return list(self._results(path, last.tool_calls[0].id, INVENTED_TEXTS[1:]))
        return list(self._questions(path))

    def _replies(self, path: list[SafeMessage]) -> Iterator[Continuation]:
        """After a question: replies of every kind, with and without thinking."""
        for text, thought in zip(INVENTED_TEXTS, INVENTED_THOUGHTS, strict=True):
            yield self._reply(path, text, thought)
        if self.vision is not None:
            with_image = self._reply(path, INVENTED_TEXTS[0], INVENTED_THOUGHTS[0], (INVENTED_IMAGE,))
            yield replace(with_image, optional=True)
        # If the template shows thinking, a reply without any may diverge elsewhere.
        for text in INVENTED_TEXTS:
            yield replace(self._reply(path, text, ""), without_thought=True)
        # A reply that was stopped at once.
        yield replace(self._reply(path, "", INVENTED_THOUGHTS[0]), optional=True)
        yield replace(self._reply(path, "", ""), optional=True, without_thought=True)

    def _reply(
        self, path: list[SafeMessage], text: str, thought: str, images: tuple[Picture, ...] = ()
    ) -> Continuation:
        reply = self._safe(Message("assistant", text, thought))
        question = self._safe(Message("user", INVENTED_TEXTS[0], images=images))
        return Continuation([*path, reply, question], _starts(text, thought))

    def _questions(self, path: list[SafeMessage]) -> Iterator[Continuation]:
        """After a reply: every question but the first invented one, and two questions in a row."""
        first, *others = (self._safe(Message("user", text)) for text in INVENTED_TEXTS)
        for question in others:
            yield Continuation([*path, question], _starts(question.text))
        if self.vision is not None:
            with_image = self._safe(Message("user", INVENTED_TEXTS[0], images=(INVENTED_IMAGE,)))
            yield Continuation([*path, with_image], optional=True)
        another = self._reply([*path, first], INVENTED_TEXTS[1], INVENTED_THOUGHTS[0])
        yield replace(another, starts=())

    def _calls(self, path: list[SafeMessage]) -> Iterator[Continuation]:
        """After a tool result: another result, and replies that call a tool again.

        The next question is left out: templates drop the thinking of these replies there, but every prompt
        until then has it.
        """
        for continuation in self._results(path, INVENTED_CALL.id, INVENTED_TEXTS):
            yield replace(continuation, optional=True)
        with_text = Message("assistant", INVENTED_TEXTS[0], tool_calls=(INVENTED_CALL,))
        # Text that becomes a reply of its own would end the tool loop for a template. No path decides that.
        trial = list(map(self._safe, (INVENTED_QUESTION, with_text)))
        has_text = self._learned_for([trial]).forms.beside != "before"
        for text, thought in zip(INVENTED_TEXTS, INVENTED_THOUGHTS, strict=True):
            said = text if has_text else ""
            reply = self._safe(Message("assistant", said, thought, tool_calls=(INVENTED_CALL,)))
            result = self._following([reply], Message("tool", text, tool_call_id=INVENTED_CALL.id))
            yield Continuation([*path, reply, result], _starts(said, thought), optional=True)

    def _results(self, path: list[SafeMessage], call_id: str, texts: Sequence[str]) -> Iterator[Continuation]:
        """After a reply that calls a tool: a result with each of these texts."""
        for text in texts:
            result = self._following(path, Message("tool", text, tool_call_id=call_id))
            yield Continuation([*path, result], _starts(text))

    def _following(self, path: Sequence[SafeMessage], message: Message) -> SafeMessage:
        """A message that follows a path. A tool result answers the newest call with its id."""
        calls = ((each, call) for each in reversed(path) for call in each.calls)
        answered = (pair for pair in calls if message.role == "tool" and pair[1].id == message.tool_call_id)
        return self._safe(message, next(answered, None))


def next_input(messages: Sequence[Message]) -> list[Message]:
    """The message that must come before the next reply; empty if the path already ends with it."""
    last = messages[-1] if messages else None
    if last is not None and last.role in ("user", "tool"):
        return []
    if last is not None and last.tool_calls:
        return [Message("tool", INVENTED_TEXTS[0], tool_call_id=last.tool_calls[0].id)]
    return [INVENTED_QUESTION]


def _starts(*texts: str) -> tuple[str, ...]:
    return tuple(text.lstrip() for text in texts if text)


def _prompt_probe(messages: Sequence[Message], prompt: str) -> Probe:
    """The first probe: a path's prompt, with `next_input` behind it."""
    return prompt, tuple(message.content for message in next_input(messages))


def _probes(continuations: Sequence[Continuation], renderings: Sequence[Rendering]) -> Iterator[Probe]:
    """The continuations that the template renders. Raises `TemplateRefused` if a required one is refused."""
    without = next((at for at, each in enumerate(continuations) if each.without_thought), None)
    # The first one without thinking has the text of the very first. If they differ, thinking is shown.
    shows_thinking = without is not None and text_of(renderings[without]) != text_of(renderings[0])
    for continuation, rendering in zip(continuations, renderings, strict=True):
        is_refused = isinstance(rendering, TemplateRefused)
        if (is_refused and continuation.optional) or (continuation.without_thought and not shows_thinking):
            continue
        yield text_of(rendering), continuation.starts


def _kind(message: Message) -> tuple[str, bool]:
    """Paths whose last messages are of the same kind have the same continuations."""
    return message.role, bool(message.tool_calls)


def _with_newest(items: dict[K, T], newest: Mapping[K, T]) -> dict[K, T]:
    """At most `MAX_PREFIXES` items, as a new dictionary, so that no other thread sees one change."""
    return dict(list({**items, **newest}.items())[-MAX_PREFIXES:])


def tools_notice(tokenizer: Any, cache: TemplateCache) -> str:
    """A sentence if the model cannot see tools or its calls cannot be parsed; else empty.

    Raises `TemplateRefused`.
    """
    template = Template(tokenizer, INVENTED_DATE.isoformat(), cache=cache, arguments={"tools": [ladder.TOOL]})
    if not template.shows_tools:
        return "The model's chat template does not show tools: the model does not see a request's tools."
    if not format_of(tokenizer).has_calls:
        return "This model's tool calls cannot be told from text: they arrive as text."
    return ""


def adaptations(tokenizer: Any) -> list[str]:
    """A clause for each part that a tokenizer's template shows in an unusual form, or not at all.

    Raises `TemplateRefused`.
    """
    cache = TemplateCache.of(tokenizer)
    for tools in ([], [ladder.TOOL]):
        template = Template(tokenizer, INVENTED_DATE.isoformat(), cache=cache, arguments={"tools": tools})
        template.try_all()
    lost = [f"it {each}" for learned in cache.learned.values() for each in learned.lost.values()]
    notice = tools_notice(tokenizer, cache)
    return list(dict.fromkeys([*cache.adapted, *lost, *filter(None, [notice])]))
