"""The schema of a reply's record, and validation of records from files."""

import contextlib
import functools
import platform
import re
import types
from collections.abc import Callable
from importlib import metadata
from typing import (
    Annotated,
    Any,
    NotRequired,
    TypedDict,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

# The names of the cache's folders and files.
Fingerprint = Annotated[str, re.compile(r"[0-9a-f]{32}")]
SegmentId = Annotated[str, re.compile(r"[0-9a-f]{64}")]
# MLX's limit for token ids and positions.
TokenId = Annotated[int, (1 << 31) - 1]
MAX_COUNT = (1 << 63) - 1
MAX_NUMBER = 1e300
# The deepest JSON accepted in an unknown part.
MAX_DEPTH = 3


def program(device: str = "") -> str:
    """The libraries and the machine that compute here, as a record names them, without importing MLX."""
    versions = []
    for name, distribution in (("MLX", "mlx"), ("mlx-lm", "mlx-lm")):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(distribution)}")
    return ", ".join([*versions, f"{platform.system()} {platform.machine()}", *([device] if device else [])])


class Boundaries(TypedDict, total=False):
    """Token positions before a reply's question, after the question, and after the reply."""

    before: TokenId
    question: TokenId
    reply: TokenId


class SettledAhead(TypedDict):
    """Tokens prefilled since the reply `after`, by the first digits of their segment's id; and why."""

    after: str | None
    tokens: dict[str, int]
    reason: str | None


class WrittenCall(TypedDict):
    """A tool call, and its [start, end) in the reply's text."""

    name: str
    arguments: str
    start: int
    end: int
    id: NotRequired[str]


class ReplyRecord(TypedDict, total=False):
    """The numbers of `events.TurnRecord`, and where the reply came from. FORMAT.md defines each part.

    Integers are not negative. Any part may be missing, and unknown ones may be present.
    """

    prompt_tokens: int
    reused_tokens: int
    typeahead_tokens: int
    prefilled_tokens: int
    unrun_tokens: int
    settled_tokens: int
    reused_settled_tokens: int
    hit_ratio: float
    miss_reason: str | None
    settle_reason: str | None
    restore_seconds: float
    prefill_seconds: float
    avoided_seconds: float
    time_to_first_token: float | None
    generation_tps: float
    checkpoint_bytes: int
    settled_bytes: int
    upkeep_bytes: int
    generated_tokens: int
    draft_model: str | None
    draft_accepted_tokens: int
    guessed_tokens: int
    accepted_tokens: int
    thinking_tokens: int
    thinking_seconds: float
    tool_calls: list[WrittenCall]
    generated: list[TokenId]
    model: str | None
    program: str
    fingerprint: Fingerprint
    settled_by: Fingerprint
    segments: list[SegmentId]
    draft_segments: list[SegmentId]
    reply_segments: list[SegmentId]
    template: str | None
    boundaries: Boundaries
    settled_ahead: SettledAhead


def valid_record(value: Any) -> ReplyRecord:
    """The parts of a record from a file that have the right type."""
    items = value.items() if isinstance(value, dict) else ()
    checks = _checks(ReplyRecord)
    return cast(ReplyRecord, {key: part for key, part in items if checks.get(key, is_shallow)(part)})


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < MAX_NUMBER


def is_shallow(value: Any, max_depth: int = MAX_DEPTH) -> bool:
    """Whether a JSON value has at most `max_depth` levels."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max_depth > 0 and all(is_shallow(part, max_depth - 1) for part in inner)


@functools.cache
def _checks(typed_dict: Any) -> dict[str, Callable[[Any], bool]]:
    """The type check of each key of a TypedDict."""
    return {key: _check(hint) for key, hint in get_type_hints(typed_dict, include_extras=True).items()}


def _check(hint: Any) -> Callable[[Any], bool]:
    """A function that tells whether a JSON value has this type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return _check(parts[0])
    if origin is Annotated:
        kind, limit = parts
        if kind is str:
            return lambda value: isinstance(value, str) and limit.fullmatch(value) is not None
        return lambda value: type(value) is int and 0 <= value <= limit
    if origin in (Union, types.UnionType):
        of_other, _ = map(_check, parts)  # the last is None
        return lambda value: value is None or of_other(value)
    if origin is list:
        of_item = _check(parts[0])
        return lambda value: isinstance(value, list) and all(map(of_item, value))
    if origin is dict:
        of_value = _check(parts[1])
        return lambda value: isinstance(value, dict) and all(map(of_value, value.values()))
    if is_typeddict(hint):
        checks, required = _checks(hint), hint.__required_keys__
        return lambda value: (
            isinstance(value, dict)
            and required <= value.keys() <= checks.keys()
            and all(checks[key](part) for key, part in value.items())
        )
    return {int: is_count, float: is_number}.get(hint, lambda value: isinstance(value, hint))
