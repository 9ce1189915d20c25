"""Template settings of a session: effort and arguments reach the prompt, are saved, or are refused."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer
from rich.console import Console

import chatcli.commands.handlers  # noqa: F401  (registers what a line may run)
from chatcli.chat_format.arguments import check_arguments, parse_argument, template_variables
from chatcli.chat_format.template import Template, TemplateCache
from chatcli.commands import registry
from chatcli.commands.results import PlainText
from chatcli.conversation.tree import Conversation, Message
from chatcli.errors import UsageError
from chatcli.events import Event, TextDelta, ToolCall, ToolCalled, TurnDone, TurnRecord
from chatcli.exchange import export, importing
from chatcli.session import opening
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling, Settings
from chatcli.store.sessions.folder import SessionFolder
from chatcli.tui.render.pipe import Pipe
from chatcli.tui.render.screen import Screen
from chatcli.turn.prompt import history
from tests.support import tiny
from tests.support.program import Program, entries
from tests.support.templates import DATE, GPT_OSS, PATHS

NOT_CANCELLED = threading.Event()
EFFORT = (
    "{%- if reasoning_effort is not defined %}{%- set reasoning_effort = 'medium' %}{%- endif %}"
    "{{- 'Reasoning: ' + reasoning_effort + '\n' }}"
    "{%- if preserve_thinking is defined and preserve_thinking %}{{- 'All thinking.\n' }}{%- endif %}"
    "{%- for tool in tools or [] %}{{- tool.function.name + '\n' }}{%- endfor %}"
    "{% generation %}{% endgeneration %}"
) + tiny.OPEN_THINK


@pytest.fixture(scope="module")
def thinking_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose template reads reasoning_effort and preserve_thinking."""
    return tiny.write_model(tmp_path_factory.mktemp("m") / "thinker", "qwen3_5", template=EFFORT)


@pytest.fixture(scope="module")
def tokenizer(thinking_model: Path) -> Any:
    return load_tokenizer(thinking_model)


class ChatSession:
    """A live chat without a terminal; closing it is the end of its process."""

    def __init__(self, folder: Path, model: Path, request: SessionRequest | None = None) -> None:
        settings = Settings(sessions=folder, sampling=Sampling(max_tokens=6))
        self.chat = LiveChat(settings, request or SessionRequest("talk"), str(model))

    def __enter__(self) -> ChatSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.chat.close()

    def run(self, line: str) -> str:
        result = registry.run(self.chat, line)
        assert isinstance(result, PlainText)
        return result.text

    def say(self, text: str) -> TurnRecord:
        events = list(self.chat.take(text, NOT_CANCELLED))
        for _ in self.chat.settle(NOT_CANCELLED):
            pass
        return next(event.record for event in events if isinstance(event, TurnDone))

    def prompt(self) -> str:
        context = self.chat.turn_context()
        return context.template.text([*history(context, None), Message("user", "x")], generation=True)


def rendered(tokenizer: Any, **options: Any) -> str:
    return Template(tokenizer, DATE, **options).text(PATHS[1], generation=True)


def test_the_effort_has_the_name_that_the_template_reads(tokenizer: Any) -> None:
    assert "Reasoning: medium" in rendered(tokenizer)
    assert "Reasoning: high" in rendered(tokenizer, effort="high")
    for name in ("thinking_effort", "reasoning_effort"):
        other = TokenizerWrapper(tokenizer._tokenizer.__class__.from_pretrained(tokenizer.name_or_path))
        other.chat_template = EFFORT.replace("reasoning_effort", name)
        assert "Reasoning: low" in rendered(other, effort="low")


def test_a_thinking_switch_of_another_name_is_set(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, tiny.OPEN_THINK.replace("enable_thinking", "thinking"))
    assert "</think>" in rendered(load_tokenizer(tmp_path), think=False)


def test_variables_are_those_that_a_session_can_set(tokenizer: Any) -> None:
    read = {"reasoning_effort", "preserve_thinking", "tools", "enable_thinking"}
    assert read == template_variables(tokenizer, EFFORT)
    assert frozenset() == template_variables(tokenizer, GPT_OSS)
    assert frozenset() == template_variables(tokenizer, "{% if %}")

    def render(messages: Any, tools: Any = None, level: int = 1, **_: Any) -> str:
        return f"{level}{messages}"

    python = TokenizerWrapper(tokenizer._tokenizer, chat_template=render)
    assert {"tools", "level"} == template_variables(python, "")
    assert rendered(python, arguments={"level": 7, "other": 1}).startswith("7")


def test_template_settings_are_part_of_the_cache_key(tokenizer: Any) -> None:
    memory = TemplateCache.of(tokenizer)
    keys = [
        Template(tokenizer, DATE, None, memory, **options).key
        for options in (
            {},
            {"effort": "low"},
            {"effort": "high"},
            {"arguments": {"preserve_thinking": True}},
            {"arguments": {"preserve_thinking": False}},
        )
    ]
    assert 5 == len(set(keys))
    unknown = Template(tokenizer, DATE, None, memory, arguments={"nothing": 1})
    assert keys[0] == unknown.key


def test_effort_and_arguments_are_saved_and_a_reopened_session_is_the_same(
    thinking_model: Path, tmp_path: Path
) -> None:
    request = SessionRequest("talk", template_args={"preserve_thinking": True})
    with ChatSession(tmp_path / "open", thinking_model, request) as shell:
        assert "Thinking: the model's default, with low effort." == shell.run("/think low")
        first, second = shell.say("One."), shell.say("Two.")
        prompt = shell.prompt()
    assert "Reasoning: low\nAll thinking.\n" in prompt
    with ChatSession(tmp_path / "closed", thinking_model, request) as shell:
        shell.run("/think low")
        assert first.tokens == shell.say("One.").tokens
    (saved,) = [line for line in entries(tmp_path / "closed" / "talk.jsonl") if line["type"] == "template"]
    assert ("low", {"preserve_thinking": True}) == (saved["effort"], saved["args"])
    with ChatSession(tmp_path / "closed", thinking_model) as shell:
        reopened = shell.say("Two.")
        assert prompt == shell.prompt()
    outcomes = [
        (record.tokens, record.logprobs, record.prompt_tokens, record.reused_tokens)
        for record in (second, reopened)
    ]
    assert outcomes[0] == outcomes[1]
    assert reopened.reused_tokens > 0 and reopened.miss_reason is None


def test_another_effort_changes_the_prompt_and_can_be_reset(thinking_model: Path, tmp_path: Path) -> None:
    with ChatSession(
        tmp_path, thinking_model, SessionRequest("talk", template_args={"reasoning_effort": "x"})
    ) as shell:
        shell.say("One.")
        assert "Reasoning: x" in shell.prompt()
        shell.run("/think off")
        assert "Thinking: on, with high effort." == shell.run("/think high")
        assert "Reasoning: high" in shell.prompt()
        assert "prompt changed" in str(shell.say("Two.").miss_reason)
        assert "Thinking: off." == shell.run("/think off")
        assert "Thinking: the model's default." == shell.run("/think default")
        assert "Reasoning: medium" in shell.prompt()
        with pytest.raises(UsageError, match=r"Usage: /think \[on\|off\|low\|medium\|high\|default\]"):
            shell.run("/think much")


def test_branches_and_exports_keep_template_settings(thinking_model: Path, tmp_path: Path) -> None:
    with ChatSession(
        tmp_path, thinking_model, SessionRequest("talk", template_args={"preserve_thinking": True})
    ) as shell:
        shell.run("/think high")
        shell.say("One.")
    folder = SessionFolder(tmp_path)
    with opening.branch(folder, "talk", None, "twin") as twin:
        assert ("high", {"preserve_thinking": True}) == saved_settings(twin.conversation)
    exported = export.to_json(export.to_dict("talk", folder.read("talk").conversation))
    with importing.save(folder, importing.read(exported.encode()), "copy") as copy:
        assert ("high", {"preserve_thinking": True}) == saved_settings(copy.conversation)


def saved_settings(conversation: Conversation) -> tuple[str | None, dict[str, Any]]:
    return conversation.effort, dict(conversation.template_args)


def test_an_effort_set_before_the_first_message_reaches_no_other_session(
    thinking_model: Path, tmp_path: Path
) -> None:
    SessionFolder(tmp_path).create("other", model=str(thinking_model), system=None).close()
    with ChatSession(tmp_path, thinking_model, SessionRequest()) as shell:
        shell.run("/think high")
        registry.run(shell.chat, "/resume other")
        assert shell.chat.session.effort is None


def test_an_effort_that_the_template_does_not_know_is_refused(models: Path, tmp_path: Path) -> None:
    with ChatSession(tmp_path, models / "qwen3") as shell:
        with pytest.raises(UsageError, match="only supports /think on and /think off"):
            shell.run("/think high")
        assert "Thinking: on." == shell.run("/think on")


def test_a_model_without_an_effort_still_opens_a_session_with_one(
    thinking_model: Path, models: Path, tmp_path: Path
) -> None:
    with ChatSession(tmp_path, thinking_model) as shell:
        shell.run("/think low")
        shell.say("One.")
    with ChatSession(tmp_path, models / "qwen3") as shell:
        assert shell.say("Two.").tokens
        assert "low" == shell.chat.session.effort


def test_arguments_are_json_where_they_parse() -> None:
    words = [
        "a=true",
        "b=1.5",
        'c=["x"]',
        "d=text",
        "e=a=b",
        "f=",
        'g="7"',
        "h=NaN",
        "i=null",
        "j={",
    ]
    assert {
        "a": True,
        "b": 1.5,
        "c": ["x"],
        "d": "text",
        "e": "a=b",
        "f": "",
        "g": "7",
        "h": "NaN",
        "i": None,
        "j": "{",
    } == dict(map(parse_argument, words))
    deep = "[" * 40 + "]" * 40
    assert ("a", deep) == parse_argument(f"a={deep}")
    assert "\ud800" not in parse_argument('a="\\ud800"')[1]
    for wrong in ("a", "=1", "a b=1", "1=2"):
        with pytest.raises(UsageError, match="use --template-arg NAME=VALUE"):
            parse_argument(wrong)


def test_a_null_argument_removes_the_saved_one(thinking_model: Path, tmp_path: Path) -> None:
    with ChatSession(
        tmp_path, thinking_model, SessionRequest("talk", template_args={"preserve_thinking": True})
    ) as shell:
        shell.say("One.")
    with ChatSession(
        tmp_path, thinking_model, SessionRequest("talk", template_args={"preserve_thinking": None})
    ) as shell:
        shell.say("Two.")
        assert "All thinking." not in shell.prompt()


def test_tools_reach_the_template_and_calls_in_history_render(thinking_model: Path, tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "search"}}]
    with ChatSession(
        tmp_path, thinking_model, SessionRequest("talk", template_args={"tools": tools})
    ) as shell:
        shell.say("One.")
        assert "\nsearch\n" in shell.prompt()
        head = shell.chat.session.conversation.head
        call = '<tool_call>{"name": "search"}</tool_call><|im_end|>'
        session = shell.chat.session.log
        question = session.append(Message("user", "Two."), head)
        session.append(Message("assistant", call), question.id, finish_reason="stop")
        assert shell.say("Three.").tokens


@pytest.mark.slow
def test_the_program_keeps_arguments_and_refuses_others(thinking_model: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, thinking_model)
    options = ("-S", "talk", "--think-budget", "2", "-n", "5")
    reply = program.ask("One.", "--template-arg", "preserve_thinking=true", *options)
    close = tiny.SPECIAL.index("</think>")
    assert 2 == reply["tokens"].index(close)
    saved = [line for line in entries(program.sessions / "talk.jsonl") if line["type"] == "template"]
    assert [{"preserve_thinking": True}] == [line["args"] for line in saved]
    refused = program.run("ask", "Hi", "-S", "new", "--template-arg", "nope=1", expect=2)
    assert (
        "chatcli: This model's chat template has no variable 'nope': it has preserve_thinking, "
        "reasoning_effort, tools.\n"
    ) == refused.errors
    assert not (program.sessions / "new.jsonl").exists()


def test_arguments_that_switch_thinking_are_refused() -> None:
    with pytest.raises(UsageError, match="--think and --no-think"):
        check_arguments(frozenset({"enable_thinking"}), {"enable_thinking": True})
    with pytest.raises(UsageError, match="has no variable 'a': it has none"):
        check_arguments(frozenset({"enable_thinking"}), {"a": 1})


@pytest.mark.parametrize("line", [{"effort": 7, "args": {}}, {"effort": None, "args": []}, {"args": {}}])
def test_a_damaged_line_is_skipped(line: dict[str, Any], tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    folder.create("talk", model=None, system=None).close()
    with (tmp_path / "talk.jsonl").open("a") as file:
        file.write(json.dumps({"type": "template", **line}) + "\n")
    read = folder.read("talk")
    assert (None, {}) == saved_settings(read.conversation)
    assert ["line 2 of the session 'talk' is damaged: skipped"] == read.problems


CALL = ToolCalled("<tool_call>…</tool_call>", (ToolCall("search", '{"q": "\x1b[2J"}'),))
SHOWN = '⚙ calls search({"q": "␛[2J"}), which chatcli does not run'


def draw(screen: Any, events: list[Event]) -> None:
    for event in events:
        screen.event(event)


def test_a_call_is_a_line_of_its_own_in_the_shell_and_in_a_pipe() -> None:
    events: list[Event] = [
        TextDelta("Wait."),
        CALL,
        TextDelta("Done."),
        TurnDone(TurnRecord("a", 1)),
    ]
    out, err, screen = io.StringIO(), io.StringIO(), io.StringIO()
    draw(Pipe(out, err), events)
    assert (f"Wait.\n{SHOWN}\nDone.\n", "") == (out.getvalue(), err.getvalue())
    draw(Screen(Console(file=screen, width=100), "off"), events)
    lines = [line.strip() for line in screen.getvalue().splitlines() if line.strip()]
    assert ["Wait.", SHOWN, "Done."] == lines[:3]
