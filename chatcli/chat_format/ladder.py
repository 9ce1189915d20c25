"""Learns the form in which a chat template shows each part of a conversation.

A template is code from the model's makers. Some refuse a role, and some silently drop a field. So each part
gets an invented word, and the template renders the part in a short list of forms: the first form in which
every word appears is used. A part is tried when a conversation has it for the first time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any, Literal

from chatcli.chat_format.forms import Forms, SafeCall, SafeMessage, calls_as_text, shape
from chatcli.chat_format.tokenizing import common_text
from chatcli.errors import TemplateCutOff, TemplateRefused
from chatcli.replies.thinking import THINKING_MARKERS

# Invented words that appear in no template and that no template rewrites.
QUESTION, NEXT, REPLY, OTHER = "zarvolin", "mofrikel", "tulvanor", "pelquisto"
SYSTEM, THOUGHT, RESULT, OTHER_RESULT = "hindrovat", "wexamble", "cravosin", "jubrantel"
NAME, OTHER_NAME, KEY, VALUE = "dranix_fetch", "subelto_find", "quilmar", "brenfolk"
OTHER_VALUE, ODD, DESCRIPTION = "skavinto", "ploverund", "grestimal"
TOOL_NAME, PARAMETER = "vostrin_query", "halmeric"
# An invented tool: some templates show calls only if there are tools.
TOOL = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": DESCRIPTION,
        "parameters": {
            "type": "object",
            "properties": {PARAMETER: {"type": "string", "description": "A word."}},
        },
    },
}
EVERY_ROLE = frozenset({"system", "user", "assistant", "tool"})
ARGUMENTS = {KEY: {"deep": [VALUE, True, None]}, "count": 1}

# Renders conversations, each with a flag for the generation prompt and its forms, to texts or refusals.
Render = Callable[[Sequence[tuple[Sequence[SafeMessage], bool, Forms]]], Sequence[str | TemplateRefused]]


def _system(text: str) -> SafeMessage:
    return SafeMessage("system", text)


def _user(text: str) -> SafeMessage:
    return SafeMessage("user", text)


def _reply(text: str = "", *calls: SafeCall, thinking: str = "") -> SafeMessage:
    return SafeMessage("assistant", text, thinking, calls)


def _call_of(name: str, value: Any, index: int = 0) -> SafeCall:
    text = value if isinstance(value, str) else json.dumps(value)
    return SafeCall(name, text, value, f"call_{index:024x}")


def _results(reply: SafeMessage, *texts: str) -> list[SafeMessage]:
    pairs = zip(texts, reply.calls, strict=True)
    return [SafeMessage("tool", text, call_id=call.id, answers=(reply, call)) for text, call in pairs]


CALL = _call_of(NAME, ARGUMENTS)
CALLING = _reply("", CALL)
BOTH_CALLING = _reply("", CALL, _call_of(OTHER_NAME, {KEY: OTHER_VALUE}, 1))
BESIDE = _reply(REPLY, CALL)
THINKING = _reply(REPLY, CALL, thinking=THOUGHT)
ASKED, REPLIED, END = _user(QUESTION), _reply(REPLY), [_reply(OTHER), _user(NEXT)]
# The words that a rendering must contain if the messages do. Old thinking may be dropped.
VISIBLE = [QUESTION, NEXT, REPLY, OTHER, SYSTEM, RESULT, OTHER_RESULT]
VISIBLE += [NAME, OTHER_NAME, KEY, VALUE, OTHER_VALUE, ODD]


@dataclass(frozen=True)
class Step:
    """A part (`shows`) that conversations may have, conversations that try it, and its forms in order.

    A rung is a change of `Forms` and a clause that describes it. The default form is tried before all rungs,
    and the steps in `after` before this one.
    """

    name: str
    shows: str
    conversations: Sequence[Sequence[SafeMessage]]
    rungs: Sequence[tuple[Mapping[str, Any], str]]
    after: tuple[str, ...] = ()

    def words(self, messages: Sequence[SafeMessage]) -> list[str]:
        """The words that a rendering of these messages must contain."""
        texts = [each.text for each in messages]
        texts += [f"{call.name} {call.text}" for each in messages for call in each.calls]
        words = [word for word in VISIBLE if any(word in text for text in texts)]
        return [*words, TOOL_NAME, DESCRIPTION] if self.name == "tools" else words


def _call_rungs() -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every form of a call, in order of difference from the default; text comes last."""
    clauses = {
        "json": "arguments are given as JSON text",
        "none": "a reply that only calls has no content",
        "absent": "a reply that only calls has no content field",
        "nine": "call ids are rewritten to nine letters and digits",
        "flat": "calls have no inner function object",
        "tagged": "tool results are a user message in tags",
    }
    choices = {
        "arguments": ("object", "json"),
        "ids": ("given", "nine"),
        "blank": ("text", "none", "absent"),
        "calls": ("function", "flat"),
        "results": ("tool", "tagged"),
    }
    rungs = list(product(*choices.values()))
    rungs.sort(key=lambda rung: sum(value in clauses for value in rung))
    for rung in rungs[1:]:
        said = [clauses[value] for value in rung if value in clauses]
        yield dict(zip(choices, rung, strict=True)), ", ".join(said)
    yield {"calls": "text", "results": "tool"}, "tool calls are part of the reply's text"
    yield (
        {"calls": "text", "results": "tagged"},
        "tool calls are part of the reply's text, and their results are a user message in tags",
    )


TOOL_RUNGS: list[tuple[Mapping[str, Any], str]] = [
    ({"tools": "flat"}, "tools are given without their inner function object"),
    ({"tools": "definitions"}, "tools are given with parameter definitions"),
    ({"tools": "withheld"}, ""),
    ({"tools": "functions"}, "tools are given as JSON text named functions"),
]
STEPS: tuple[Step, ...] = (
    Step(
        "question",
        "user messages",
        [[ASKED]],
        [
            ({"parts": EVERY_ROLE}, "content is given as typed parts"),
            ({"no_tools": "empty"}, "an empty list of tools is given if there are none"),
            *TOOL_RUNGS,
        ],
    ),
    Step(
        "tools",
        "tools",
        [[ASKED]],
        [
            *(rung for rung in TOOL_RUNGS if rung[1]),
            ({"tools": "unshown"}, ""),
            ({"tools": "withheld"}, ""),
        ],
        ("question",),
    ),
    Step(
        "reply",
        "earlier messages",
        [[ASKED, REPLIED, _user(NEXT)]],
        [
            ({"parts": frozenset({"user"})}, "user messages are given as typed parts"),
            ({"parts": frozenset()}, "content is given as text"),
        ],
        ("question",),
    ),
    Step(
        "system",
        "a system prompt",
        [[_system(SYSTEM), ASKED]],
        [({"system": "question"}, "the system prompt goes before the first question")],
        ("question",),
    ),
    Step(
        "consecutive questions",
        "two consecutive user messages",
        [[ASKED, _user(NEXT)]],
        [({"joined": {"user"}}, "consecutive user messages are joined")],
        ("question",),
    ),
    Step(
        "consecutive replies",
        "two consecutive replies",
        [[ASKED, REPLIED, *END]],
        [({"joined": {"assistant"}}, "consecutive replies are joined")],
        ("reply",),
    ),
    Step(
        "reply first",
        "a reply before any question",
        [[REPLIED, ASKED]],
        [({"first_reply": "tagged"}, "a reply before any question is a user message in tags")],
        ("reply", "consecutive questions"),
    ),
    Step(
        "later system",
        "a system message that is not the first",
        [
            [ASKED, REPLIED, _system(SYSTEM), _user(NEXT)],
            # Of two system messages, some templates show only the last.
            [_system(OTHER), ASKED, REPLIED, _system(SYSTEM), _user(NEXT)],
        ],
        [({"later_system": "tagged"}, "later system messages are user messages in tags")],
        ("system", "reply", "consecutive questions"),
    ),
    Step(
        "calls",
        "tool calls",
        [
            [ASKED, CALLING, *_results(CALLING, RESULT), *END],
            [ASKED, CALLING, *_results(CALLING, RESULT)],
        ],
        list(_call_rungs()),
        ("reply", "consecutive questions"),
    ),
    Step(
        "several calls",
        "several calls in one reply",
        [[ASKED, BOTH_CALLING, *_results(BOTH_CALLING, RESULT, OTHER_RESULT), *END]],
        [
            ({"several": "apart"}, "each of several calls is a reply of its own"),
            ({"several": "text"}, "several calls are part of the reply's text"),
        ],
        ("calls",),
    ),
    Step(
        "text and call",
        "text beside a call",
        [[ASKED, BESIDE, *_results(BESIDE, RESULT), *END]],
        [
            ({"beside": "before"}, "text before a call is a reply of its own"),
            ({"beside": "text"}, "a call that has text before it is part of that text"),
        ],
        ("calls", "consecutive replies"),
    ),
    Step(
        "thinking, text and call",
        "text and thinking beside a call",
        [[ASKED, THINKING, *_results(THINKING, RESULT)]],
        [
            ({"thought": "joined"}, "text before a call is part of the thinking, if there is any"),
            ({"thought": "dropped"}, "thinking is left out beside text and a call"),
        ],
        ("text and call",),
    ),
)


def _odd_step(name: str, key: str, values: Sequence[Any], forms: Sequence[str]) -> Step:
    replies = [_reply("", _call_of(NAME, value)) for value in values]
    clauses = {
        "empty": f"{name} are given as an empty object",
        "json": f"{name} are given as JSON text",
        "wrapped": f"{name} are given in an object",
        "text": f"a call with {name} is part of the reply's text",
    }
    conversations = [[ASKED, reply, *_results(reply, RESULT), *END] for reply in replies]
    return Step(name, name, conversations, [({key: form}, clauses[form]) for form in forms], ("calls",))


ODD_TEXT = "arguments that are not JSON"
ODD_NULL = "arguments that are null"
ODD_VALUE = "arguments that are not a JSON object"
STEPS += (
    _odd_step(ODD_TEXT, "odd_text", [ODD], ("wrapped", "text")),
    _odd_step(ODD_VALUE, "odd_value", [[ODD], 7], ("json", "wrapped", "text")),
    _odd_step(ODD_NULL, "odd_null", [None], ("empty",)),
)
BY_NAME = {step.name: step for step in STEPS}


@dataclass(frozen=True)
class Frame:
    """The text that a template writes before (`lead`) and after (`end`) the calls of a reply.

    `counted`: other text may stand between `lead` and the first call's name. `closes`: `end` closes each call
    rather than the reply. `by` is the field of a call that the template writes.
    """

    lead: str
    end: str
    counted: bool = False
    closes: bool = False
    by: Literal["name", "id"] = "name"


@dataclass(frozen=True)
class Learned:
    """What is known about a template: its forms, and the parts that were tried.

    `adapted` has a clause for each part that needs another form than the default, `lost` for each part that
    no form shows. `refused` are parts that the template refuses in every form.
    """

    forms: Forms = field(default_factory=Forms)
    tried: frozenset[str] = frozenset()
    adapted: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    frame: Frame | None = None

    def with_parts(self, parts: Iterable[str], render: Render, control: re.Pattern[str]) -> Learned:
        """Learn the forms of these parts. `control` matches a control token.

        Raises `TemplateCutOff` if the template takes too long or too much memory, or is stopped.
        """
        wanted = set(parts)
        for step in reversed(STEPS):
            if step.name in wanted:
                wanted.update(step.after)
        steps = [step for step in STEPS if step.name in wanted - self.tried]
        if not steps:
            return self
        # Most templates show everything in the default form. One request confirms that.
        tried = _render(render, [(self.forms, step) for step in steps])
        learned = self
        for step, shown in zip(steps, tried, strict=True):
            if step.name in learned.tried:
                continue
            if shown and learned.forms == self.forms:
                learned = replace(learned, tried=learned.tried | {step.name})
            else:
                learned = learned._try_step(step, render, control)
        return learned

    def _try_step(self, step: Step, render: Render, control: re.Pattern[str]) -> Learned:
        learned = self
        if step.name == "text and call":
            learned = self.with_frame(render, control)
            if learned.frame is not None and not _render(render, [(learned.forms, step)])[0]:
                # The text need not be rendered: it is inserted where the template begins the reply.
                return replace(
                    learned,
                    forms=replace(learned.forms, beside="inserted"),
                    tried=learned.tried | {step.name},
                    adapted=(*learned.adapted, "text before a call is inserted before it"),
                )
        rungs: list[tuple[Mapping[str, Any], str]] = [({}, ""), *step.rungs]
        forms = []
        for changes, _ in rungs:
            joined = learned.forms.joined | changes.get("joined", frozenset())
            forms.append(replace(learned.forms, **{**changes, "joined": joined}))
        shown = _render(render, [(each, step) for each in forms])
        learned = replace(learned, tried=learned.tried | {step.name})
        if not any(shown):
            # A template that refuses every form may work with a real request, or will say what it lacks.
            if False not in shown:
                return replace(learned, refused=learned.refused | {step.name})
            return replace(learned, lost={**learned.lost, step.name: f"does not show {step.shows}"})
        at = shown.index(True)
        if step.name == "tools" and forms[at].tools in ("unshown", "withheld"):
            # Some templates show only a tool's name.
            at = _render(render, [(each, step) for each in forms], described=False).index(True)
        clause = rungs[at][1]
        adapted = (*learned.adapted, clause) if clause else learned.adapted
        return replace(learned, forms=forms[at], adapted=adapted)

    def with_frame(self, render: Render, control: re.Pattern[str]) -> Learned:
        """Learn the text that the template writes around the calls of a reply."""
        if "frame" in self.tried:
            return self
        learned = self.with_parts(["calls", "several calls"], render, control)
        frame = _frame(learned.forms, render, control)
        return replace(learned, tried=learned.tried | {"frame"}, frame=frame)


def parts_of(messages: Sequence[SafeMessage], forms: Forms) -> set[str]:
    """The parts of a conversation, as names of steps."""
    parts: set[str] = set()
    asked = False
    for at, message in enumerate(messages):
        match message.role:
            case "system":
                parts.add("later system" if at else "system")
            case "user":
                asked = True
                parts.add("question")
            case "assistant":
                parts.add("reply" if asked else "reply first")
            case "tool":
                parts.add("calls")
        if message.calls:
            parts.add("calls")
            if len(message.calls) > 1:
                parts.add("several calls")
            if message.text:
                parts.add("thinking, text and call" if message.thinking else "text and call")
            for call in message.calls:
                if isinstance(call.value, str):
                    parts.add(ODD_TEXT)
                elif not isinstance(call.value, dict):
                    parts.add(ODD_NULL if call.value is None else ODD_VALUE)
    turns = shape(messages, forms)
    for before, turn in pairwise(turns):
        if before["role"] == turn["role"] and "tool_calls" not in before and "tool_calls" not in turn:
            if turn["role"] == "user":
                parts.add("consecutive questions")
            elif turn["role"] == "assistant":
                parts.add("consecutive replies")
    return parts


def _render(
    render: Render, trials: Sequence[tuple[Forms, Step]], *, described: bool = True
) -> list[bool | None]:
    """Whether each form shows its step's part, in one request; None if the template refuses the form.

    Unless `described`, the description of a tool may be missing.
    """
    conversations = [(messages, True, forms) for forms, step in trials for messages in step.conversations]
    renderings = iter(render(conversations))
    shown: list[bool | None] = []
    for forms, step in trials:
        is_refused, shows = False, True
        for messages in step.conversations:
            text, words = next(renderings), set(step.words(messages))
            if isinstance(text, TemplateCutOff):
                raise text
            if isinstance(text, TemplateRefused):
                is_refused = True
                continue
            if step.name == "tools" and forms.tools in ("unshown", "withheld"):
                words -= {TOOL_NAME, DESCRIPTION}
            if forms.beside == "inserted":
                words.discard(REPLY)
            if not described:
                words.discard(DESCRIPTION)
            # Python's repr of an object is not JSON.
            is_repr = forms.arguments == "object" and "calls" in step.name and str(ARGUMENTS) in text
            shows &= all(word in text for word in words) and not is_repr
        shown.append(None if is_refused else shows)
    return shown


def _frame(forms: Forms, render: Render, control: re.Pattern[str]) -> Frame | None:
    """Find the frame of a reply that calls by comparing renderings.

    None if it cannot be told from the frame of a plain reply, or differs between calls.
    """
    if calls_as_text(CALLING, forms):
        return None
    question = _user(QUESTION)
    several = BOTH_CALLING if forms.several == "together" else CALLING
    texts = render(
        [
            ([question], True, forms),
            ([question, _reply(REPLY)], False, forms),
            ([question, CALLING], False, forms),
            ([question, several], False, forms),
            ([question, CALLING, *_results(CALLING, RESULT), *END], True, forms),
        ]
    )
    if any(isinstance(text, TemplateRefused) for text in texts):
        return None
    prompt, plain, *calling = map(str, texts)
    by: Literal["name", "id"] = "name" if NAME in calling[0] else "id"
    word = NAME if by == "name" else CALL.id
    if REPLY not in plain or not all(word in text for text in calling):
        return None
    before, after = plain.split(REPLY)[0], plain.split(REPLY)[-1]
    start = common_text([calling[0], before])
    begins_alike = not before[start:].strip()
    if not begins_alike and calling[0].startswith(prompt):
        start = len(prompt)
    for mark in control.finditer(calling[0]):
        # The two may diverge inside a control token.
        start = mark.start() if mark.start() < start < mark.end() else start
    lead = calling[0][start : max(calling[0].index(word), start)]
    for _, closing in THINKING_MARKERS:
        lead = lead.rpartition(closing)[2]
    # Line breaks before a reply are not part of it. After the first control tokens there may be a call count.
    lead = lead.lstrip("\n")
    counted = bool(control.match(lead))
    if counted:
        length = 0
        while marked := control.match(lead, length):
            length = marked.end()
        lead = lead[:length]
    if not lead or not (begins_alike or control.match(lead)):
        return None
    # The reply ends as other replies do, or else with its last control token.
    end, closes = after[len(after) - common_text([calling[0][::-1], after[::-1]]) :], False
    if token := control.search(end):
        end = token[0]
    else:
        marks = [match[0] for match in control.finditer(calling[1][calling[1].index(word) :])]
        end = marks[-1] if marks else ""
        closes = marks.count(end) == len(several.calls) > 1
        if not closes and marks.count(end) != 1:
            return None
    for text in calling:
        place = text.index(word)
        until = text.find(end, place)
        led = lead in text[:place] if counted else text[:place].endswith(lead)
        if not end or not led or until < 0 or RESULT in text[place:until]:
            return None
    both = calling[1][: calling[1].index(end, calling[1].index(word))]
    if not closes and getattr(several.calls[-1], by) not in both:
        return None
    return Frame(lead, end, counted, closes, by)
