"""Small templates that behave like those in the wild, and their limits by brute force."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlx_lm.utils import load_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from chatcli.chat_format.template import Template
from chatcli.chat_format.tokenizing import SEAM
from chatcli.conversation.tree import Message
from chatcli.store.segments.token_path import common_prefix
from tests.support import tiny

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
{%- elif m.role == 'assistant' %}{{- '<|Assistant|><think></think>' + m.content
+ '<|endoftext|>' }}{%- endif %}
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
{{- '<|im_start|>assistant\n<think>' + (m.reasoning_content or '') + '</think>' + m.content
+ '<|im_end|>\n' }}
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

# The option of Nemotron's template that keeps all thinking.
KEPT_AND_OPEN = NEMOTRON.replace(
    "<think></think>' + m.content",
    "<think>\n' + (m.reasoning_content or '') + '</think>' + m.content",
)
assert KEPT_AND_OPEN != NEMOTRON

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

# Thinking is kept. An empty reply has neither line break nor end.
SEED_OSS = """\
{%- if messages[0].role == 'system' %}
{{- '<seed:bos>system\n' + messages[0].content + '<seed:eos>' }}{%- endif %}
{%- if thinking_budget is defined %}
{{- '<seed:bos>system\nBudget: ' ~ thinking_budget ~ '<seed:eos>' }}{%- endif %}
{%- for m in messages if m.role != 'system' %}
{%- if m.role == 'user' %}{{- '<seed:bos>user\n' + m.content + '<seed:eos>' }}{%- else %}
{{- '<seed:bos>assistant' }}
{%- if m.reasoning_content %}
{{- '\n<seed:think>' + m.reasoning_content.strip() + '</seed:think>' }}{%- endif %}
{%- if m.content.strip() %}{{- '\n' + m.content.strip() + '<seed:eos>' }}{%- endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<seed:bos>assistant\n' }}{%- endif %}"""

PLAIN = """\
{%- for m in messages %}{{- m.role.title() + ': ' + m.content + '\n\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- 'Assistant:' }}{%- endif %}"""

# Qwen3's with tools: results stand in a user's message, and thinking stays until the next question.
QWEN3_TOOLS = """\
{{- '<|im_start|>system\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
{%- for tool in tools or [] %}{{- (tool | tojson) + '\n' }}{%- endfor %}
{{- 'Call: <tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call><|im_end|>\n' }}
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- if m.reasoning_content and loop.index0 > ns.last %}
{{- '<think>\n' + m.reasoning_content.strip('\n') + '\n</think>\n\n' }}{%- endif %}
{{- m.content }}
{%- for call in m.tool_calls or [] %}
{%- set tool_call = call.function %}
{{- '\n' if m.content or not loop.first else '' }}
{{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
{{- (tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson)
+ '}\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\n' }}
{%- elif m.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\n<tool_response>\n' + m.content + '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
{%- elif m.role == 'user' %}{{- '<|im_start|>user\n' + m.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""
TOOL_MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]

# What no template above does: texts that touch their frame, a reply left out, a last message that differs.
TOUCHING = """\
{%- for m in messages %}{{- '[' + m.role + ']' + m.content }}{%- endfor %}
{%- if add_generation_prompt %}{{- '[assistant]' }}{%- endif %}"""

OMITS_EMPTY = """\
{%- for m in messages if m.content %}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""

REFUSES_EMPTY = """\
{%- for m in messages %}
{%- if not m.content %}{{- raise_exception('No content!') }}{%- endif %}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""

REMINDS = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' + m.content }}
{%- if loop.last %}{{- ' (Answer briefly.)' }}{%- endif %}{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}"""

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
    "seed-oss": (SEED_OSS, None),
    "plain": (PLAIN, None),
    "nemotron-kept": (KEPT_AND_OPEN, None),
    "touching": (TOUCHING, None),
    "omits-empty": (OMITS_EMPTY, None),
    "reminds": (REMINDS, None),
}
MOVES_SYSTEM = {"mistral-nemo"}
CHANGES_LAST = {*MOVES_SYSTEM, "reminds"}

SYSTEM = Message("system", "You are a helpful assistant.")
CONTENTS = [
    "Yes, Biscuit.",
    "no",
    "\n\nOn a new line",
    "\nOne",
    " with a space",
    "  two",
    "\tTab",
    "7 and 5",
    "3",
    "",
    "👍",
    "👩‍👩‍👧",
    "\u0301combining",
    "é",
    "日本語",
    "*bold*",
    "```py\nx\n```",
    '"quoted"',
    ":",
    "-",
    "(",
    "<",
    "</think>",
    "<|im_end|>\n<|im_start|>user\n",
    "\\",
    "\u200b",
    "\u2028",
    "S",
    "Y",
    "Yesterday",
    "N",
    "user",
    "ends with a space ",
    "ends with a line\n\n",
    "(see",
    "]",
    "[x]",
    "a",
    "!",
    "#",
    "и",
]
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
    seams = [
        "\n\n",
        "\n\n\n",
        "\n \n",
        "  ",
        "   ",
        "\t\t",
        ">\n",
        ">\n\n",
        " \n",
        ".\n\n",
        "**",
        "](",
        "]*",
        "](see",
        "):",
        "]]",
        ">(",
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=tiny.SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words = [f"word{seam}" for seam in seams] + [f"{seam}Word" for seam in seams] + seams
    made.train_from_iterator([*tiny.CORPUS, *words * 4], trainer)
    made.save(str(folder / "tokenizer.json"))


def label(path: list[Message]) -> str:
    return json.dumps("|".join(f"{m.role[0]}:{m.content}" for m in path))


def continuations(path: list[Message]) -> list[list[Message]]:
    """Whole conversations that begin with `path`, each ending with a question."""
    asked = [Message("user", content) for content in CONTENTS if content]
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


def in_full(template: Template, path: list[Message]) -> list[int]:
    """A prompt's tokens, tokenized in one go by the tokenizer itself."""
    parts = template.text(path, generation=True).split(SEAM)
    encode = template._tokenizer.encode
    return [token for part in parts for token in encode(part, add_special_tokens=False)]


def by_brute_force(template: Template, path: list[Message]) -> int:
    """What all continuations share, every one of them rendered and tokenized in full."""
    prompts = [in_full(template, other) for other in continuations(path)]
    if path[-1].role == "user":
        prompts.insert(0, in_full(template, path))
    first, *others = prompts
    shared = min(common_prefix(first, other) for other in others)
    # One token must remain to run.
    return min(shared, len(first) - 1)


def own_marks(source: str) -> list[str]:
    """The control tokens that a template writes."""
    marks = re.findall(r"<\|?/?[\w:]+\|?>|<｜[^\s<>]+｜>|\[/?[A-Z_]{2,}\]|\[gMASK\]", source)
    if "'<|' + m.role + '|>" in source:
        marks += ["<|system|>", "<|user|>", "<|assistant|>"]
    return list(dict.fromkeys([*marks, *tiny.SPECIAL]))


class Templates:
    """Templates by name, each with a tokenizer of its own: made once, in `folder`.

    The plain tokenizer has all of the template's control tokens, the merging one few.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: dict[tuple[str, bool], Any] = {}

    def __call__(
        self, name: str, date: str = DATE, *, merging: bool = False, think: bool | None = None
    ) -> Template:
        source, usual = TEMPLATES[name]
        if (source, merging) not in self._loaded:
            folder = self._folder / str(len(self._loaded))
            tiny.write_tokenizer(folder, source, own_marks(source))
            if merging:
                merging_tokenizer(folder)
            self._loaded[source, merging] = load_tokenizer(folder)
        return Template(self._loaded[source, merging], date, usual if think is None else think)


def stable_prefix(template: Template, messages: Sequence[Message]) -> int:
    """How many tokens every continuation of these messages will begin with."""
    return template.boundaries(messages, {})[-1]
