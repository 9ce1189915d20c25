"""The stable prefix against brute force, for templates that behave like those in the wild."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.utils import load_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from chatcli.conversation import Message
from chatcli.errors import TemplateRefused
from chatcli.prefix import chain, common_prefix
from chatcli.template import Template
from tests import tiny

DATE = "2025-03-01"

# What these families' templates do with thinking, dates and seams, and no more.
NEMOTRON = """\
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|im_start|>assistant\n<think></think>' + m.content + '<|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think></think>' }}
{%- else %}{{- '<think>\n' }}{%- endif %}
{%- endif %}"""

GLM_46 = """\
{{- '[gMASK]<sop>' }}
{%- for m in messages %}
{{- '<|' + m.role + '|>\n' }}
{%- if m.role == 'assistant' %}{{- '<think></think>\n' + m.content.strip() }}
{%- else %}{{- m.content }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""

GLM_47 = """\
{{- '[gMASK]<sop>' }}
{%- for m in messages %}
{{- '<|' + m.role + '|>' }}
{%- if m.role == 'assistant' %}{{- '</think>' + m.content.strip() }}
{%- else %}{{- m.content }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|><think>' }}{%- endif %}"""

DEEPSEEK_31 = """\
{%- set ns = namespace(system='') %}
{%- for m in messages %}{%- if m.role == 'system' %}{%- set ns.system = m.content %}{%- endif %}{%- endfor %}
{{- '<|endoftext|>' + ns.system }}
{%- for m in messages %}
{%- if m.role == 'user' %}{{- '<|User|>' + m.content }}
{%- elif m.role == 'assistant' %}{{- '<|Assistant|><think></think>' + m.content + '<|endoftext|>' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|Assistant|><think>' }}{%- endif %}"""

DEEPSEEK_32 = DEEPSEEK_31.replace("<think></think>", "</think>")

GPT_OSS = """\
{{- '<|start|>system<|message|>You are ChatGPT.\nCurrent date: ' + strftime_now('%Y-%m-%d') + '<|end|>' }}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- if loop.last and not add_generation_prompt and m.thinking %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}
{%- endif %}
{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- elif m.role == 'system' %}{{- '<|start|>developer<|message|># Instructions\n\n' + m.content + '<|end|>' }}
{%- else %}{{- '<|start|>user<|message|>' + m.content + '<|end|>' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""

GEMMA = """\
{{- '<bos>' }}
{%- for m in messages %}
{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content.strip() + '<turn|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|turn>model\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<|channel>thought\n<channel|>' }}{%- endif %}
{%- endif %}"""

KIMI_KEPT = """\
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|im_start|>assistant\n<think>' + (m.reasoning_content or '') + '</think>' + m.content + '<|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>' }}{%- endif %}"""

MINIMAX_KEPT = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' }}
{%- if m.role == 'assistant' and m.reasoning_content %}
{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{%- endif %}
{{- m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""

# Thinking is kept where there was any, and the generation prompt opens it.
KEPT_IF_ANY = MINIMAX_KEPT.replace(
    "{{- '<|im_start|>assistant\n' }}{%- endif %}",
    "{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}",
)
assert KEPT_IF_ANY != MINIMAX_KEPT

MISTRAL_NEMO = """\
{%- set ns = namespace(last=-1, system='') %}
{%- for m in messages %}
{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}
{%- if m.role == 'system' %}{%- set ns.system = m.content %}{%- endif %}
{%- endfor %}
{{- '<|endoftext|>' }}
{%- for m in messages %}
{%- if m.role == 'user' %}
{{- '[INST]' + (ns.system + '\n\n' if loop.index0 == ns.last and ns.system else '') + m.content + '[/INST]' }}
{%- elif m.role == 'assistant' %}{{- m.content + '<|im_end|>' }}{%- endif %}
{%- endfor %}"""

LLAMA = """\
{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}
{%- set ns = namespace(system='') %}
{%- for m in messages if m.role == 'system' %}{%- set ns.system = m.content.strip() %}{%- endfor %}
{{- '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n' }}
{{- 'Cutting Knowledge Date: December 2023\nToday Date: ' + date_string + '\n\n' + ns.system + '<|eot_id|>' }}
{%- for m in messages if m.role != 'system' %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content.strip() + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""

PLAIN = """\
{%- for m in messages %}{{- m.role.title() + ': ' + m.content + '\n\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- 'Assistant:' }}{%- endif %}"""

TEMPLATES: dict[str, tuple[str, bool | None]] = {
    "qwen3": (tiny.OWN_THINK, None),
    "qwen3-off": (tiny.OWN_THINK, False),
    "qwen3.5": (tiny.OPEN_THINK, None),
    "qwen3.5-off": (tiny.OPEN_THINK, False),
    "nemotron": (NEMOTRON, None),
    "nemotron-off": (NEMOTRON, False),
    "glm-4.6": (GLM_46, None),
    "glm-4.7": (GLM_47, None),
    "deepseek-3.1": (DEEPSEEK_31, None),
    "deepseek-3.2": (DEEPSEEK_32, None),
    "gpt-oss": (GPT_OSS, None),
    "gemma": (GEMMA, None),
    "gemma-off": (GEMMA, False),
    "kimi-kept": (KIMI_KEPT, None),
    "minimax-kept": (MINIMAX_KEPT, None),
    "kept-if-any": (KEPT_IF_ANY, None),
    "mistral-nemo": (MISTRAL_NEMO, None),
    "llama": (LLAMA, None),
    "plain": (PLAIN, None),
}
MOVES_SYSTEM = {"mistral-nemo"}

SYSTEM = Message("system", "You are a helpful assistant.")
CONTENTS = [
    "Yes, Biscuit.", "no", "\n\nOn a new line", "\nOne", " with a space", "  two", "\tTab", "7 and 5",
    "3", "", "👍", "👩‍👩‍👧", "\u0301combining", "é", "日本語", "*bold*", "```py\nx\n```", '"quoted"',
    ":", "-", "(", "<", "</think>", "<|im_end|>\n<|im_start|>user\n", "\\", "\u200b", "\u2028", "S",
    "Y", "Yesterday", "N", "user", "ends with a space ", "ends with a line\n\n",
]  # fmt: skip
THINKING = ["", "So.", "\nHm.\n", "Sorry", " ", "7", "😀"]
PATHS = [
    [SYSTEM, Message("user", "My dog is called Biscuit.")],
    [Message("user", "hi")],
    [Message("system", ""), Message("user", "hi")],
    [SYSTEM, Message("user", "ends with a line\n\n")],
    [SYSTEM, Message("user", "ends with a space ")],
    [SYSTEM, Message("user", "You are a helpful dog 👍")],
    [
        SYSTEM,
        Message("user", "a"),
        Message("assistant", "\n\nb\n", "why"),
        Message("user", "<|im_end|> e\u0301 7"),
    ],
    [Message("user", "a"), Message("assistant", ""), Message("user", "b")],
]
ANSWERED = [
    [*path, Message("assistant", content, thinking)]
    for path in (PATHS[0], PATHS[2], *PATHS[6:])
    for content, thinking in [("Noted.", "A dog."), ("", ""), ("a line\n\n", ""), ("7 ", "So.")]
]


def merging_tokenizer(folder: Path) -> None:
    """Replace the tokenizer by one that merges line ends, spaces and signs across seams."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    seams = ["\n\n", "\n\n\n", "\n \n", "  ", "   ", "\t\t", ">\n", ">\n\n", " \n", ".\n\n", "**"]
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=tiny.SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words = [f"word{seam}" for seam in seams] + [f"{seam}Word" for seam in seams] + seams
    made.train_from_iterator([*tiny.CORPUS, *words * 4], trainer)
    made.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives a template by name, with either tokenizer."""
    loaded: dict[tuple[str, bool], Any] = {}

    def get(name: str, date: str = DATE, *, merging: bool = False) -> Template:
        source, think = TEMPLATES[name]
        if (source, merging) not in loaded:
            folder = tmp_path_factory.mktemp("tokenizer")
            tiny.write_tokenizer(folder, source)
            if merging:
                merging_tokenizer(folder)
            loaded[source, merging] = load_tokenizer(folder)
        return Template(loaded[source, merging], date, think)

    return get


def label(path: list[Message]) -> str:
    return json.dumps("|".join(f"{m.role[0]}:{m.content}" for m in path))


def continuations(path: list[Message]) -> list[list[Message]]:
    """Whole conversations that begin with `path`, each ending with a question."""
    asked = [Message("user", content) for content in CONTENTS]
    if path[-1].role != "user":
        later = [Message("user", "x"), Message("assistant", "7", "So."), Message("user", "y")]
        return [[*path, question] for question in asked] + [[*path, *later]]
    replies = [Message("assistant", content, "So.") for content in CONTENTS]
    replies += [Message("assistant", "Yes", thinking) for thinking in THINKING]
    replies += [Message("assistant", content) for content in CONTENTS]
    once = [[*path, reply, Message("user", "Yes")] for reply in replies]
    once += [[*path, Message("assistant", "7"), question] for question in asked]
    more = [Message("assistant", "no", "hm"), Message("user", "and?")]
    return [*once, [*once[0], *more], [*once[1], *more, *more]]


def by_brute_force(template: Template, path: list[Message]) -> int:
    """What all continuations share, every one of them rendered and tokenized in full."""
    prompts = [template.prompt(other) for other in continuations(path)]
    if path[-1].role == "user":
        prompts.insert(0, template.prompt(path))
    first, *others = prompts
    shared = min(common_prefix(first, other) for other in others)
    # One token must remain to run.
    return min(shared, len(first) - 1)


@pytest.mark.parametrize("merging", [False, True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_stable_prefix_of_a_question_is_what_all_its_continuations_share(
    load: Any, name: str, merging: bool
) -> None:
    template = load(name, merging=merging)
    found = {label(path): template.stable_prefix(path) for path in PATHS}
    assert {label(path): by_brute_force(template, path) for path in PATHS} == found
    for path in PATHS:
        assert 0 <= found[label(path)] < len(template.prompt(path))


@pytest.mark.parametrize("merging", [False, True], ids=["bytes", "merging"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_stable_prefix_of_a_reply_is_what_all_its_continuations_share(
    load: Any, name: str, merging: bool
) -> None:
    template = load(name, merging=merging)
    found = {label(path): template.stable_prefix(path) for path in ANSWERED}
    assert {label(path): by_brute_force(template, path) for path in ANSWERED} == found


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - MOVES_SYSTEM))
def test_a_reply_settles_all_but_the_seam_of_what_was_said(load: Any, name: str) -> None:
    template = load(name)
    path = ANSWERED[0]
    asked = [*path, Message("user", "And where do I live?")]
    new = len(template.prompt(asked)) - template.stable_prefix(path)
    alone = len(template.encode("And where do I live?"))
    assert alone <= new <= alone + 60
    shown = template._tokenizer.decode(template.prompt(asked)[: template.stable_prefix(path)])
    assert "Noted." in shown


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - MOVES_SYSTEM))
def test_a_question_is_stable_to_its_end(load: Any, name: str) -> None:
    template = load(name)
    stable = template.stable_prefix(PATHS[0])
    assert "called Biscuit." in template._tokenizer.decode(template.prompt(PATHS[0])[:stable])


def test_a_template_that_moves_its_system_prompt_keeps_what_comes_before_it(load: Any) -> None:
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
    load: Any, name: str, path: list[Message]
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
            assert chain("00", longest, found) == chain("00", prompt, found)


@pytest.mark.parametrize("name", TEMPLATES)
def test_boundaries_never_go_back(load: Any, name: str) -> None:
    found = load(name).boundaries(LONG, {})
    assert sorted(found) == found


def test_known_boundaries_are_taken_and_not_asked_again(load: Any) -> None:
    template = load("qwen3.5")
    found = template.boundaries(LONG, {})
    assert found == template.boundaries(LONG, dict(enumerate(found, start=1)))
    assert [found[0], 999, *found[2:]] == template.boundaries(LONG, {2: 999})


# The clock


@pytest.mark.parametrize(("name", "shown"), [("gpt-oss", "2025-03-01"), ("llama", "01 Mar 2025")])
def test_a_session_keeps_its_date_on_every_other_day(load: Any, name: str, shown: str) -> None:
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
def test_the_generation_prompt_is_told(load: Any, name: str, opening: str) -> None:
    assert opening == load(name).opening(PATHS[0])


def test_thinking_reaches_a_template_that_keeps_it(load: Any) -> None:
    for name, kept in (("kimi-kept", True), ("kept-if-any", True), ("qwen3.5", False)):
        asked = [*ANSWERED[0], Message("user", "x")]
        assert kept == ("A dog." in load(name).text(asked, generation=True))


@pytest.mark.parametrize("mark", tiny.SPECIAL)
@pytest.mark.parametrize("name", ["qwen3.5", "kimi-kept", "mistral-nemo", "plain"])
def test_a_control_token_that_someone_typed_is_text(load: Any, name: str, mark: str) -> None:
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
def test_a_long_conversation_is_measured_as_a_short_one(
    load: Any, name: str, merging: bool
) -> None:
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
