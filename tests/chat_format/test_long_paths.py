"""Boundaries of long paths equal those found one message at a time, in linear time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mlx_lm.utils import load_tokenizer

from chatcli.chat_format.template import Template, TemplateCache
from chatcli.conversation.images import read
from chatcli.conversation.tree import Message
from chatcli.errors import TemplateStopped
from chatcli.events import ToolCall
from tests.chat_format.test_template_limits import FORGETS, KEEPS_SIX, varied
from tests.support import tiny
from tests.support.families import at_night
from tests.support.harness import Harness
from tests.support.sight import write_picture
from tests.support.templates import DATE, QWEN3_TOOLS, TEMPLATES, TOOL_MARKS, Templates

COUNT = 316
ENOUGH = range(17, COUNT, 23)


def letters(count: int) -> list[Message]:
    return [Message("assistant" if number % 2 else "user", "x") for number in range(count)]


def tool_loops(count: int) -> list[Message]:
    """At least `count` messages: questions that are answered after a tool was called twice."""
    path: list[Message] = []
    while len(path) < count:
        number = len(path)
        path.append(Message("user", f"{number}?"))
        for call_id in (f"a_{number}", f"b_{number}"):
            call = ToolCall("weather", f'{{"city": "{number}"}}', call_id)
            path.append(Message("assistant", "", "So.", tool_calls=(call,)))
            path.append(Message("tool", f"{number} degrees", tool_call_id=call_id))
        path.append(Message("assistant", f"{number}."))
    return path


def one_by_one(template: Template, path: list[Message], counts: range) -> list[int]:
    """The last boundary of each prefix of a path, found separately."""
    return [template.boundaries(path[:count], dict.fromkeys(range(count), 1))[-1] for count in counts]


@pytest.mark.parametrize(
    "name", [each if each in ("qwen3", "gpt-oss") else at_night(each) for each in TEMPLATES]
)
@pytest.mark.parametrize("path", [letters(COUNT), varied(COUNT)], ids=["letters", "varied"])
def test_many_boundaries_equal_those_found_one_by_one(
    load: Templates, name: str, path: list[Message]
) -> None:
    first = int(path[0].role == "system")
    boundaries = load(name).boundaries(path, {})
    assert one_by_one(load(name), path, ENOUGH) == [boundaries[count - first] for count in ENOUGH]


@pytest.mark.parametrize("source", [KEEPS_SIX, FORGETS])
def test_many_boundaries_equal_those_found_one_by_one_if_the_template_looks_far_back(
    tmp_path: Path, source: str
) -> None:
    tiny.write_tokenizer(tmp_path, source)
    tokenizer, path = load_tokenizer(tmp_path), varied(COUNT)
    boundaries = Template(tokenizer, DATE).boundaries(path, {})
    assert one_by_one(Template(tokenizer, DATE), path, ENOUGH) == [boundaries[each - 1] for each in ENOUGH]


def test_many_boundaries_of_a_tool_loop_equal_those_found_one_by_one(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, QWEN3_TOOLS, [*tiny.SPECIAL, *TOOL_MARKS])
    tokenizer = load_tokenizer(tmp_path)
    path = tool_loops(COUNT)
    boundaries = Template(tokenizer, DATE).boundaries(path, {})
    assert one_by_one(Template(tokenizer, DATE), path, ENOUGH) == [boundaries[count] for count in ENOUGH]


class CountingTemplate(Template):
    """Counts the rendered messages."""

    messages = 0

    def _render_all(self, conversations: object) -> object:
        self.messages += sum(len(messages) for messages, _ in conversations)  # type: ignore[attr-defined]
        return super()._render_all(conversations)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_renderings_per_message_do_not_grow_with_the_path(load: Templates) -> None:
    tokenizer, rendered = load("qwen3")._tokenizer, {}
    for count in (400, 1600):
        template = CountingTemplate(tokenizer, DATE)
        template.boundaries(letters(count), {})
        rendered[count] = template.messages / count
    assert rendered[1600] < 1.3 * rendered[400]


def test_a_turn_of_a_tool_loop_renders_the_whole_path_only_a_few_times(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, QWEN3_TOOLS, [*tiny.SPECIAL, *TOOL_MARKS])
    tokenizer = load_tokenizer(tmp_path)
    path, cache = tool_loops(120)[:-1], TemplateCache.of(tokenizer)
    known = dict(enumerate(Template(tokenizer, DATE, cache=cache).boundaries(path[:-2], {})))
    template = CountingTemplate(tokenizer, DATE, cache=cache)
    template.prompt(path)
    template.boundaries(path, known)
    assert template.messages < 5 * len(path)


@dataclass(frozen=True)
class Signal:
    is_set: Callable[[], bool]


def test_a_stop_ends_the_search_for_boundaries(load: Templates) -> None:
    asked, stop = [], threading.Event()

    def is_set() -> bool:
        asked.append(time.monotonic())
        return stop.is_set()

    template = Template(load("qwen3")._tokenizer, DATE, stop=Signal(is_set))
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    with pytest.raises(TemplateStopped):
        template.boundaries(letters(6_001), {})
    assert time.monotonic() - began < 5
    assert asked


def test_boundaries_of_a_long_path_with_images_are_exact(vision_model: Path, tmp_path: Path) -> None:
    with Harness(vision_model, tmp_path / "sessions", trust_remote_code=True) as harness:
        template = harness.chat("talk").template
        image = read(write_picture(tmp_path / "a.png", 1, 16, 12))
        assert template.vision is not None
        template.vision.learn(image)
        path = [
            replace(message, images=(image.picture,)) if number % 4 == 0 else message
            for number, message in enumerate(letters(40))
        ]
        assert template._is_local(path)
        counts = range(20, 41)
        boundaries = template.boundaries(path, {})
        assert [template._ask(path[:count]).tokens for count in counts] == [boundaries[c] for c in counts]
