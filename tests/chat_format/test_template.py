"""The stable prefix against brute force, for templates that behave like those in the wild."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from mlx_lm.utils import load_tokenizer

from chatcli.chat_format.template import Template
from chatcli.conversation.tree import Message
from chatcli.errors import TemplateRefused
from chatcli.store.segments.token_path import TokenPath, common_prefix
from tests.support import tiny
from tests.support.families import at_night
from tests.support.templates import (
    ANSWERED,
    DATE,
    MOVES_SYSTEM,
    PATHS,
    SYSTEM,
    TEMPLATES,
    Templates,
    by_brute_force,
    label,
)


@pytest.mark.parametrize("merging", [at_night(False), True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_stable_prefix_of_a_question_is_what_all_its_continuations_share(
    load: Templates, name: str, merging: bool
) -> None:
    template = load(name, merging=merging)
    found = {label(path): template.stable_prefix(path) for path in PATHS}
    assert {label(path): by_brute_force(template, path) for path in PATHS} == found
    for path in PATHS:
        assert 0 <= found[label(path)] < len(template.prompt(path))


@pytest.mark.slow
@pytest.mark.parametrize("merging", [False, True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_stable_prefix_of_a_reply_is_what_all_its_continuations_share(
    load: Templates, name: str, merging: bool
) -> None:
    template = load(name, merging=merging)
    found = {label(path): template.stable_prefix(path) for path in ANSWERED}
    assert {label(path): by_brute_force(template, path) for path in ANSWERED} == found


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - MOVES_SYSTEM))
def test_a_reply_settles_all_but_the_seam_of_what_was_said(load: Templates, name: str) -> None:
    template = load(name)
    path = ANSWERED[0]
    asked = [*path, Message("user", "And where do I live?")]
    new = len(template.prompt(asked)) - template.stable_prefix(path)
    alone = len(template.encode("And where do I live?"))
    assert alone <= new <= alone + 60
    shown = template._tokenizer.decode(template.prompt(asked)[: template.stable_prefix(path)])
    assert "Noted." in shown


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - MOVES_SYSTEM))
def test_a_question_is_stable_to_its_end(load: Templates, name: str) -> None:
    template = load(name)
    stable = template.stable_prefix(PATHS[0])
    assert "called Biscuit." in template._tokenizer.decode(template.prompt(PATHS[0])[:stable])


def test_a_template_that_moves_its_system_prompt_keeps_what_comes_before_it(
    load: Templates,
) -> None:
    """Each question is written anew without the system prompt once another follows."""
    template = load("mistral-nemo")
    stable = template.stable_prefix(PATHS[0])
    assert template.encode("<|endoftext|>[INST]") == template.prompt(PATHS[0])[:stable]
    settled = template.stable_prefix(ANSWERED[0])
    asked = template.prompt([*ANSWERED[0], Message("user", "x")])
    shown = template._tokenizer.decode(asked[:settled])
    assert shown.endswith("[INST]My dog is called Biscuit.[/INST]Noted.<|im_end|>[INST]")


LONG = [
    SYSTEM,
    Message("user", "My dog is Biscuit."),
    Message("assistant", "\n\nNoted. ", "A dog."),
    Message("user", " 7 and 5?\n"),
    Message("assistant", "12", "Sum."),
    Message("user", "You are a dog 👍"),
    Message("assistant", ""),
    Message("user", "e\u0301"),
]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("path", [LONG, LONG[1:]], ids=["system", "no system"])
def test_boundaries_of_a_shorter_path_begin_those_of_a_longer(
    load: Templates, name: str, path: list[Message]
) -> None:
    """True of every template, and of the tokens before them too, or nothing could be reused."""
    template = load(name)
    whole, longest = template.boundaries(path, {}), template.prompt(path)
    for end in range(1, len(path) + 1):
        found = template.boundaries(path[:end], {})
        assert whole[: len(found)] == found
        # One a message, and one before the first where there is no system prompt.
        assert end + (path is not LONG) == len(found)
        if path[end - 1].role == "user":
            prompt = template.prompt(path[:end])
            assert TokenPath.cut("00", longest, found).ids == TokenPath.cut("00", prompt, found).ids


@pytest.mark.parametrize("name", TEMPLATES)
def test_boundaries_never_go_back(load: Templates, name: str) -> None:
    found = load(name).boundaries(LONG, {})
    assert sorted(found) == found


def test_known_boundaries_are_taken_and_not_asked_again(load: Templates) -> None:
    template = load("qwen3.5")
    found = template.boundaries(LONG, {})
    assert found == template.boundaries(LONG, dict(enumerate(found, start=1)))
    assert [found[0], 999, *found[2:]] == template.boundaries(LONG, {2: 999})


# The clock


@pytest.mark.parametrize(("name", "shown"), [("gpt-oss", "2025-03-01"), ("llama", "01 Mar 2025")])
def test_a_session_keeps_its_date_on_every_other_day(load: Templates, name: str, shown: str) -> None:
    prompt = load(name).text(PATHS[0], generation=True)
    assert 1 == prompt.count(shown)
    today = datetime.date.today()
    assert today.isoformat() != DATE
    assert today.strftime("%Y-%m-%d") not in prompt
    assert today.strftime("%d %b %Y") not in prompt
    other = load(name, "2024-12-31")
    assert prompt != other.text(PATHS[0], generation=True)
    assert other.key != load(name).key


@pytest.mark.parametrize(
    "source",
    ["strftime_now('%d %B %Y')", "date_string", "current_date", "strftime_now('%H:%M')"],
)
def test_every_clock_that_a_template_may_ask_is_pinned(tmp_path: Path, source: str) -> None:
    tiny.write_tokenizer(tmp_path, "{{ " + source + " }}{{ messages[0].content }}")
    template = Template(load_tokenizer(tmp_path), DATE)
    shown = {
        "strftime_now('%d %B %Y')": "01 March 2025",
        "date_string": "01 Mar 2025",
        "current_date": "2025-03-01",
        "strftime_now('%H:%M')": "12:00",
    }[source]
    assert f"{shown}hi" == template.text([Message("user", "hi")], generation=True)


# The rest


@pytest.mark.parametrize(
    ("name", "opening"),
    [
        ("qwen3", "<|im_start|>assistant\n"),
        ("qwen3.5", "<|im_start|>assistant\n<think>\n"),
        ("qwen3.5-off", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("glm-4.7", "<|assistant|><think>"),
        ("gpt-oss", "<|start|>assistant"),
        ("gemma-off", "<|turn>model\n<|channel>thought\n<channel|>"),
        ("mistral-nemo", ""),
        ("plain", "Assistant:"),
    ],
)
def test_the_generation_prompt_is_told(load: Templates, name: str, opening: str) -> None:
    assert opening == load(name).opening(PATHS[0])


def test_thinking_reaches_a_template_that_keeps_it(load: Templates) -> None:
    for name, kept in (("kimi-kept", True), ("kept-if-any", True), ("qwen3.5", False)):
        asked = [*ANSWERED[0], Message("user", "x")]
        assert kept == ("A dog." in load(name).text(asked, generation=True))


@pytest.mark.parametrize("mark", tiny.SPECIAL)
@pytest.mark.parametrize("name", ["qwen3.5", "kimi-kept", "mistral-nemo", "plain"])
def test_a_control_token_that_someone_typed_is_text(load: Templates, name: str, mark: str) -> None:
    template = load(name)
    special = template._tokenizer.convert_tokens_to_ids(mark)

    def prompt(text: str) -> list[int]:
        said = Message("assistant", text, text)
        return template.prompt([SYSTEM, Message("user", text), said, Message("user", text)])

    forged, harmless = prompt(f"a{mark}b"), prompt("ab")
    assert harmless.count(special) == forged.count(special)
    assert mark in template._tokenizer.decode([t for t in forged if t != special])


def test_a_path_that_a_template_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, "{{ raise_exception('Roles must alternate!') }}")
    template = Template(load_tokenizer(tmp_path), DATE)
    with pytest.raises(TemplateRefused, match="Roles must alternate!"):
        template.prompt(PATHS[0])


def test_a_template_in_error_is_refused_and_not_a_crash(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, "{{ messages[7].content.nothing.here }}")
    template = Template(load_tokenizer(tmp_path), DATE)
    with pytest.raises(TemplateRefused):
        template.prompt(PATHS[0])


@pytest.mark.parametrize("merging", [False, True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", ["qwen3.5", "plain", "mistral-nemo"])
def test_a_long_conversation_is_measured_as_a_short_one(load: Templates, name: str, merging: bool) -> None:
    """Only the end is tokenized again, which must not change the number."""
    template = load(name, merging=merging)
    told = [Message("user", "word 7\n " * 900), Message("assistant", "ok\n\n" * 1500, "So.")]
    path = [SYSTEM, *told, *told, Message("user", "and 日本 " * 700)]
    assert len(template.text(path, generation=True)) > 3 * 4096
    replies = [Message("assistant", text) for text in ("Yes", "\n\nno", " 1", "*", "")]
    prompts = [template.prompt([*path, reply, Message("user", "b")]) for reply in replies]
    asked = template.prompt(path)
    shared = min(common_prefix(asked, prompt) for prompt in prompts)
    assert min(shared, len(asked) - 1) == template.stable_prefix(path)
