"""The stable prefix and boundaries, compared with brute force, for templates that behave like real ones."""

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
from tests.support.families import at_night, every_second_by_day
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
    stable_prefix,
)


@pytest.mark.parametrize("merging", [at_night(False), True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", every_second_by_day(TEMPLATES))
def test_the_stable_prefix_of_a_question_is_common_to_all_continuations(
    load: Templates, name: str, merging: bool
) -> None:
    template = load(name, merging=merging)
    prefixes = {label(path): stable_prefix(template, path) for path in PATHS}
    assert {label(path): by_brute_force(template, path) for path in PATHS} == prefixes
    for path in PATHS:
        assert 0 <= prefixes[label(path)] < len(template.prompt(path))


@pytest.mark.slow
@pytest.mark.parametrize("merging", [False, True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_stable_prefix_of_a_reply_is_common_to_all_continuations(
    load: Templates, name: str, merging: bool
) -> None:
    template = load(name, merging=merging)
    prefixes = {label(path): stable_prefix(template, path) for path in ANSWERED}
    assert {label(path): by_brute_force(template, path) for path in ANSWERED} == prefixes


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - MOVES_SYSTEM))
def test_after_a_reply_only_the_next_question_is_unsettled(load: Templates, name: str) -> None:
    template = load(name)
    path = ANSWERED[0]
    next_path = [*path, Message("user", "And where do I live?")]
    unsettled = len(template.prompt(next_path)) - stable_prefix(template, path)
    question_tokens = len(template.encode("And where do I live?"))
    assert question_tokens <= unsettled <= question_tokens + 60
    shown = template._tokenizer.decode(template.prompt(next_path)[: stable_prefix(template, path)])
    assert "Noted." in shown


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - MOVES_SYSTEM))
def test_a_question_is_stable_to_its_end(load: Templates, name: str) -> None:
    template = load(name)
    stable = stable_prefix(template, PATHS[0])
    assert "called Biscuit." in template._tokenizer.decode(template.prompt(PATHS[0])[:stable])


def test_a_template_that_moves_its_system_prompt_keeps_what_comes_before_it(
    load: Templates,
) -> None:
    """Each question is rendered without the system prompt once another follows."""
    template = load("mistral-nemo")
    stable = stable_prefix(template, PATHS[0])
    assert template.encode("<|endoftext|>[INST]") == template.prompt(PATHS[0])[:stable]
    settled = stable_prefix(template, ANSWERED[0])
    next_prompt = template.prompt([*ANSWERED[0], Message("user", "x")])
    shown = template._tokenizer.decode(next_prompt[:settled])
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
def test_boundaries_of_a_shorter_path_are_a_prefix_of_those_of_a_longer(
    load: Templates, name: str, path: list[Message]
) -> None:
    """The tokens before them are the same too: otherwise nothing could be reused."""
    template = load(name)
    all_boundaries, whole_prompt = template.boundaries(path, {}), template.prompt(path)
    for end in range(1, len(path) + 1):
        boundaries = template.boundaries(path[:end], {})
        assert all_boundaries[: len(boundaries)] == boundaries
        # One for each message, and one before the first if there is no system prompt.
        assert end + (path is not LONG) == len(boundaries)
        if path[end - 1].role == "user":
            prompt = template.prompt(path[:end])
            assert (
                TokenPath.cut("00", whole_prompt, boundaries).ids
                == TokenPath.cut("00", prompt, boundaries).ids
            )


@pytest.mark.parametrize("name", TEMPLATES)
def test_boundaries_never_decrease(load: Templates, name: str) -> None:
    boundaries = load(name).boundaries(LONG, {})
    assert sorted(boundaries) == boundaries


def test_known_boundaries_are_not_measured_again(load: Templates) -> None:
    template = load("qwen3.5")
    boundaries = template.boundaries(LONG, {})
    assert boundaries == template.boundaries(LONG, dict(enumerate(boundaries, start=1)))
    assert [boundaries[0], 999, *boundaries[2:]] == template.boundaries(LONG, {2: 999})


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
def test_every_clock_of_a_template_is_pinned(tmp_path: Path, source: str) -> None:
    tiny.write_tokenizer(tmp_path, "{{ " + source + " }}{{ messages[0].content }}")
    template = Template(load_tokenizer(tmp_path), DATE)
    shown = {
        "strftime_now('%d %B %Y')": "01 March 2025",
        "date_string": "01 Mar 2025",
        "current_date": "2025-03-01",
        "strftime_now('%H:%M')": "12:00",
    }[source]
    assert f"{shown}hi" == template.text([Message("user", "hi")], generation=True)


# Rendering


@pytest.mark.parametrize(
    ("name", "expected"),
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
def test_the_generation_prompt_precedes_a_reply(load: Templates, name: str, expected: str) -> None:
    assert expected == load(name).generation_prompt(PATHS[0])


def test_thinking_reaches_a_template_that_keeps_it(load: Templates) -> None:
    for name, kept in (("kimi-kept", True), ("kept-if-any", True), ("qwen3.5", False)):
        path = [*ANSWERED[0], Message("user", "x")]
        assert kept == ("A dog." in load(name).text(path, generation=True))


@pytest.mark.parametrize("mark", tiny.SPECIAL)
@pytest.mark.parametrize("name", ["qwen3.5", "kimi-kept", "mistral-nemo", "plain"])
def test_a_control_token_in_a_message_is_text(load: Templates, name: str, mark: str) -> None:
    template = load(name)
    special = template._tokenizer.convert_tokens_to_ids(mark)

    def prompt(text: str) -> list[int]:
        reply = Message("assistant", text, text)
        return template.prompt([SYSTEM, Message("user", text), reply, Message("user", text)])

    forged, harmless = prompt(f"a{mark}b"), prompt("ab")
    assert harmless.count(special) == forged.count(special)
    assert mark in template._tokenizer.decode([t for t in forged if t != special])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_renders_as_transformers_renders_it(load: Templates, name: str) -> None:
    template = load(name)
    for path in (PATHS[0], ANSWERED[0], [SYSTEM, *ANSWERED[0], *PATHS[1]]):
        for generation in (True, False):
            theirs = template._tokenizer.apply_chat_template(
                template._as_dicts(path),
                tokenize=False,
                add_generation_prompt=generation,
                **template._options,
            )
            assert theirs == template.text(path, generation=generation)


def test_a_refusal_of_the_template_is_quoted(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, "{{ raise_exception('Roles must alternate!') }}")
    template = Template(load_tokenizer(tmp_path), DATE)
    with pytest.raises(TemplateRefused, match="Roles must alternate!"):
        template.prompt(PATHS[0])


def test_an_error_in_the_template_is_a_refusal(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path, "{{ messages[7].content.nothing.here }}")
    template = Template(load_tokenizer(tmp_path), DATE)
    with pytest.raises(TemplateRefused):
        template.prompt(PATHS[0])


@pytest.mark.parametrize("merging", [False, True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", ["qwen3.5", "plain", "mistral-nemo"])
def test_the_stable_prefix_of_a_long_conversation_is_exact(load: Templates, name: str, merging: bool) -> None:
    """Only the end is tokenized again. That must not change the stable prefix."""
    template = load(name, merging=merging)
    turn = [Message("user", "word 7\n " * 900), Message("assistant", "ok\n\n" * 1500, "So.")]
    path = [SYSTEM, *turn, *turn, Message("user", "and 日本 " * 700)]
    assert len(template.text(path, generation=True)) > 3 * 4096
    replies = [Message("assistant", text) for text in ("Yes", "\n\nno", " 1", "*", "")]
    prompts = [template.prompt([*path, reply, Message("user", "b")]) for reply in replies]
    prompt_tokens = template.prompt(path)
    shared = min(common_prefix(prompt_tokens, prompt) for prompt in prompts)
    assert min(shared, len(prompt_tokens) - 1) == stable_prefix(template, path)
