"""A tokenizer's chat template: its source, its clock, and one call that renders conversations with it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from chatcli.chat_format import renderer, sandbox
from chatcli.chat_format.arguments import python_renderer
from chatcli.chat_format.forms import Json
from chatcli.chat_format.renderer import Rendering, Stop, text_of
from chatcli.errors import ModelBroken, TemplateCutOff, TemplateRefused

# strftime directives that are replaced in a template, and the format of `date_string`.
DIRECTIVES = "aAbBcdDeFhHIjmMpRSTuUwWxXyYZ"
DATE_FORMAT = "%d %b %Y"
SAMPLE = [("system", "a"), ("user", "b"), ("assistant", "c"), ("user", "d")]


def template_sources(tokenizer: Any) -> dict[str, str]:
    """The source of each chat template by name; empty if Python code renders instead.

    Raises `ModelBroken` if a template is not text.
    """
    template = tokenizer.chat_template or ""
    sources = template if isinstance(template, dict) else {"default": template}
    if not all(isinstance(source, str) for source in sources.values()):
        raise ModelBroken("The model's chat template is not text.")
    return sources


def template_source(tokenizer: Any, tools: bool = False) -> str:
    """The chat template's source. If there are several, `tools` selects the one for tools."""
    sources = template_sources(tokenizer)
    names = ("tool_use", "default") if tools else ("default",)
    return next((sources[name] for name in names if name in sources), next(iter(sources.values()), ""))


def text_with_control_tokens(tokenizer: Any) -> str:
    """Text that contains every control token of the template: its source, named tokens, a sample."""
    named = " ".join(map(str, tokenizer.special_tokens_map.values()))
    conversation = [
        {"role": role, "content": text, "reasoning_content": text, "thinking": text} for role, text in SAMPLE
    ]
    sample = ""
    for messages in (conversation, conversation[1:]):
        try:
            sample += text_of(render(tokenizer, [(messages, True, {})], None)[0])
        except TemplateCutOff:
            raise
        except TemplateRefused:
            continue
    return " ".join((*template_sources(tokenizer).values(), named, sample))


def render(
    tokenizer: Any,
    conversations: Sequence[tuple[list[Json], bool, Mapping[str, Any]]],
    stop: Stop | None,
) -> list[Rendering]:
    """Render conversations: (messages, whether a generation prompt follows, template variables) each.

    All must select the same template. Raises `TemplateStopped`.
    """
    if not conversations:
        return []
    if python_renderer(tokenizer) is not None:
        return [_render_in_python(tokenizer, *each) for each in conversations]
    first = conversations[0][2]
    try:
        source = first.get("chat_template") or tokenizer.get_chat_template(tools=first.get("tools"))
    except Exception as error:
        # The tokenizer may be third-party code, which can raise anything.
        return [_refusal(error)] * len(conversations)
    standard = {
        "tools": None,
        "documents": None,
        # mlx-lm passes this to every template.
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


def _render_in_python(
    tokenizer: Any, messages: list[Json], generation: bool, options: Mapping[str, Any]
) -> Rendering:
    flags = {"tokenize": False, "add_generation_prompt": generation}
    try:
        # A copy, because the code may change its arguments.
        return str(tokenizer.apply_chat_template(_copied(messages), **flags, **options))
    except Exception as error:
        # Third-party code can raise anything.
        return _refusal(error)


def _refusal(error: Exception) -> TemplateRefused:
    refusal = TemplateRefused(renderer.refusal(sandbox.reason(error)))
    refusal.__cause__ = error
    return refusal


def _copied(value: Any) -> Any:
    """A deep copy of dictionaries, lists and tuples as plain dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return list(map(_copied, value)) if isinstance(value, list | tuple) else value


def clock(source: str, date: datetime.date) -> dict[str, Any]:
    """Template variables that fix the date to `date`, for those that the source mentions."""
    noon = datetime.datetime.combine(date, datetime.time(12))
    in_words = noon.strftime(DATE_FORMAT)
    dates = {"date_string": in_words, "current_date": date.isoformat(), "datetime": in_words}
    options: dict[str, Any] = {name: value for name, value in dates.items() if name in source}
    if "strftime_now" in source:
        # A macro hides the live function, because transformers cannot pass a function to a template.
        directives = [f"%{flag}{letter}" for letter in DIRECTIVES for flag in ("", "-")]
        filters = "".join(f"|replace({each!r}, {noon.strftime(each)!r})" for each in directives)
        macro = "{%- macro strftime_now(format) %}{{ format" + filters + " }}{%- endmacro %}"
        # Jinja drops the line break after a tag, so the template's own leading one is doubled.
        options["chat_template"] = macro + ("\n" if source.startswith("\n") else "") + source
    return options
