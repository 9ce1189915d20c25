"""The form that structured output imposes on an answer, and a check of its schemas before the model runs.

llguidance enforces it (`engine/structured.py`).
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatcli.errors import SchemaRefused
from chatcli.records import is_shallow
from chatcli.text import shorten

# OpenAI allows 120,000 characters for the names and constants of one schema; agents send many tools.
MAX_SCHEMA_LETTERS = 1 << 18
MAX_SCHEMA_DEPTH = 64
# The limits of a check. llguidance has its own limits, but none for intersections of patterns or for
# long chains of references, which overflow its stack.
TRIAL_CPU_SECONDS, TRIAL_BYTES, TRIAL_STACK_BYTES, TRIAL_SECONDS = 3, 1 << 30, 1 << 20, 60
TRIAL = """
import json, resource, sys, threading
from llguidance import LLMatcher
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
threading.stack_size({stack})
schemas = [json.loads(schema) for schema in json.load(sys.stdin)]
def run():
    grammars = [json.dumps({{"grammars": [{{"json_schema": schema}}]}}) for schema in schemas]
    print(json.dumps(list(map(LLMatcher.validate_grammar, grammars))))
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
TOO_COMPLEX = "it is too complex"
MAX_SHOWN_REASON = 200
# White space between values: a space or a line break with an indentation. Without a limit, some models write
# only white space.
WHITE_SPACE = r" |\r?\n[ \t]{0,24}"

# The keywords of JSON schemas that hold another schema, or several, and those that allow more properties.
HOLD_SCHEMA = {"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"}
HOLD_SCHEMAS = {
    *("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"),
    *("prefixItems", "anyOf", "oneOf", "allOf"),
}
MORE_PROPERTIES = {"additionalProperties", "patternProperties", "unevaluatedProperties", "minProperties"}


@dataclass(frozen=True)
class AnswerForm:
    """An answer is JSON that matches `schema`, or calls of `tools`, or either if both are given.

    Schemas are JSON texts; `tools` are names with the schemas of their arguments. `several`: there may be
    more than one call. If a schema is given too, calls need only begin as in the model's own format.
    """

    schema: str | None = None
    tools: tuple[tuple[str, str], ...] = ()
    several: bool = True

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> AnswerForm:
        """From its fields as `dataclasses.asdict` and JSON represent them."""
        return cls(**{**fields, "tools": tuple((name, schema) for name, schema in fields["tools"])})

    @property
    def forces_calls(self) -> bool:
        return self.schema is None


def schema_text(schema: Mapping[str, Any], *, lenient: bool = False) -> str:
    """A JSON schema for `AnswerForm`. `lenient`: ignore the keywords that llguidance does not implement.

    Objects have only the properties that their schema names, unless it explicitly allows others. xgrammar and
    llama.cpp do the same, because small models would invent properties without end.
    """
    if not any(map(_extends, _subschemas(schema))):
        schema = json.loads(json.dumps(schema))
        for each in _subschemas(schema):
            if "properties" in each and not MORE_PROPERTIES & each.keys():
                each["additionalProperties"] = False
    options = {"whitespace_pattern": WHITE_SPACE, **({"lenient": True} if lenient else {})}
    return json.dumps({**schema, "x-guidance": options}, ensure_ascii=False)


def _extends(schema: Mapping[str, Any]) -> bool:
    """Whether an object's properties come from several schemas."""
    return "allOf" in schema or ("properties" in schema and bool({"$ref", "anyOf", "oneOf"} & schema.keys()))


def _subschemas(schema: Any) -> Iterator[Any]:
    """A schema and the schemas inside it."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for key, value in list(schema.items()):
        if key in HOLD_SCHEMA:
            yield from _subschemas(value)
        elif key in HOLD_SCHEMAS and isinstance(value, Mapping | list):
            for each in value.values() if isinstance(value, Mapping) else value:
                yield from _subschemas(each)


# Any JSON object.
JSON_OBJECT = schema_text({"type": "object"})


def check(form: AnswerForm) -> None:
    """Raises `SchemaRefused` if the form cannot be enforced, or if checking it would take too long."""
    schemas = [form.schema] if form.schema is not None else [schema for _, schema in form.tools]
    if reason := _refusal(tuple(dict.fromkeys(schemas))):
        raise SchemaRefused(f"The answer cannot be constrained to this JSON schema: {reason}.")


def form_of(schema: Any) -> AnswerForm:
    """The form of an answer that matches a JSON schema. Raises `SchemaRefused`."""
    if not isinstance(schema, Mapping) or not is_shallow(schema, MAX_SCHEMA_DEPTH):
        raise SchemaRefused(f"A JSON schema must be an object of at most {MAX_SCHEMA_DEPTH} levels.")
    form = AnswerForm(schema_text(schema))
    check(form)
    return form


def is_json(text: str) -> bool:
    """Whether an answer is complete, valid JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@functools.lru_cache(maxsize=64)
def _refusal(schemas: Sequence[str]) -> str:
    """Why one of these schemas is refused; empty if none is. Runs in another process, which may crash."""
    letters = sum(map(len, schemas))
    if letters > MAX_SCHEMA_LETTERS:
        return f"it has {letters:,} characters; the limit is {MAX_SCHEMA_LETTERS:,}"
    limits = {"seconds": TRIAL_CPU_SECONDS, "memory": TRIAL_BYTES, "stack": TRIAL_STACK_BYTES}
    try:
        trial = subprocess.run(
            # -P: no module of the current folder is imported.
            [sys.executable, "-P", "-c", TRIAL.format(**limits)],
            input=json.dumps(schemas).encode(),
            capture_output=True,
            timeout=TRIAL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return TOO_COMPLEX
    if trial.returncode or not trial.stdout:
        return TOO_COMPLEX
    reasons: Iterable[str] = json.loads(trial.stdout)
    first = next(filter(None, reasons), "").strip()
    # The remaining lines show where in the pattern the error is.
    line, _, rest = first.partition("\n")
    detail = rest.rpartition("error: ")[2].strip() if "error: " in rest else ""
    line = line.partition(". Enable ")[0]
    return shorten(f"{line.rstrip(':')}{f': {detail}' if detail else ''}".rstrip("."), MAX_SHOWN_REASON)
