"""Hand-made records: whatever they contain, a turn and /continue answer or refuse in a sentence.

A row of `RECORDS` is one field's value. A reply with it is the last of a conversation that was cut.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from chatcli.errors import NothingToRepeat
from chatcli.tui import saved
from chatcli.turn import regenerate
from tests.support.harness import Harness, finish

HUGE = 10**9
NOT_KEPT, DAMAGED = "tokens were not saved", "tokens are damaged"
ANOTHER = "Another model began this reply"
# A field, its value, and what /continue says (None: it goes on).
RECORDS: list[tuple[str, Any, str | None]] = [
    ("generated", [HUGE], DAMAGED),
    ("generated", [5, (1 << 31) - 1], DAMAGED),
    ("generated", [1 << 31], NOT_KEPT),
    ("generated", [1 << 80], NOT_KEPT),
    ("generated", [-1], NOT_KEPT),
    ("generated", [5, None], NOT_KEPT),
    ("generated", [True], NOT_KEPT),
    ("generated", [5.0], NOT_KEPT),
    ("generated", "5", NOT_KEPT),
    ("generated", {"5": 5}, NOT_KEPT),
    ("generated", [[5]], NOT_KEPT),
    ("generated", [], NOT_KEPT),
    ("generated", None, NOT_KEPT),
    ("fingerprint", "../" * 10 + "xx", ANOTHER),
    ("fingerprint", "g" * 32, ANOTHER),
    ("fingerprint", 7, ANOTHER),
    ("segments", ["x" * 64], None),
    ("segments", ["../../x"], None),
    ("segments", [""], None),
    ("segments", [7], None),
    ("segments", ["f" * 64] * 500, None),
    ("draft_segments", ["/etc/passwd"], None),
    ("boundaries", {"before": -1, "question": -5, "reply": -9}, None),
    ("boundaries", {"before": HUGE, "question": HUGE, "reply": HUGE}, None),
    ("boundaries", {"before": 1, "question": 1, "reply": 1}, None),
    ("boundaries", {"question": 1 << 70}, None),
    ("boundaries", {"question": "x"}, None),
    ("boundaries", {"elsewhere": 20}, None),
    ("boundaries", [1, 2], None),
    ("template", {"a": 1}, None),
    ("template", "x" * 10_000, None),
    ("prompt_tokens", -5, None),
    ("prompt_tokens", 1.5, None),
    ("prompt_tokens", "many", None),
    ("settled_tokens", -(1 << 80), None),
    ("settled_tokens", 10**400, None),
    ("checkpoint_bytes", [1], None),
    ("hit_ratio", float("nan"), None),
    ("avoided_seconds", float("inf"), None),
    ("time_to_first_token", "soon", None),
    ("model", 7, None),
    ("model", ["x"], None),
    ("tool_calls", [{"name": "f", "arguments": "{}", "start": 0, "end": 1, "more": 7}], None),
    ("tool_calls", [{"name": "f", "arguments": "{}", "start": 0, "end": 1, "id": 7}], None),
    ("settled_ahead", {"after": None, "tokens": {"a": -1}, "reason": None}, None),
    ("anything", {"at": ["all"]}, None),
    ("anything", [[[[[[]]]]]], None),
]


@pytest.fixture(scope="module")
def cut(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a conversation whose reply was cut after four tokens."""
    folder = tmp_path_factory.mktemp("cut")
    with Harness(models / "qwen3", folder, tokens=4) as harness:
        harness.say(harness.chat("talk"), "My dog is called Biscuit.")
    return folder


@pytest.fixture(scope="module")
def harness(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One loaded model for all cases; each opens a session of its own in it."""
    with Harness(models / "qwen3", tmp_path_factory.mktemp("all"), tokens=3) as shared:
        yield shared


def with_record(cut: Path, path: Path, key: str, value: Any) -> None:
    """The transcript with this value in every record of it that has the reply's numbers."""
    lines = [json.loads(line) for line in (cut / "talk.jsonl").read_text().splitlines()]
    for line in lines:
        if "record" in line:
            line["record"][key] = value
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(("key", "value", "refusal"), RECORDS, ids=lambda value: repr(value)[:40])
def test_a_hand_made_record_is_no_surprise(
    key: str, value: Any, refusal: str | None, cut: Path, harness: Harness, request: pytest.FixtureRequest
) -> None:
    name = f"talk{RECORDS.index((key, value, refusal)) if value == value else 'nan'}-{key}"
    with_record(cut, harness.folder.folder / f"{name}.jsonl", key, value)
    chat = harness.chat(name)
    never = threading.Event()
    if refusal is None:
        assert finish(regenerate.continue_reply(chat, never)).generated_tokens
    else:
        with pytest.raises(NothingToRepeat, match=refusal):
            regenerate.cut_reply(chat)
    assert harness.say(chat, "What is my dog's name?").generated_tokens
    for shown in chat.conversation.path():
        saved.portable_entry(shown)


def test_a_time_that_no_calendar_has_is_no_known_time(cut: Path, harness: Harness) -> None:
    for number, moment in enumerate((-5, 1e299, 10**20, 253402300800)):
        lines = [json.loads(line) for line in (cut / "talk.jsonl").read_text().splitlines()]
        changed = [{**line, "time": moment} if "time" in line else line for line in lines]
        path = harness.folder.folder / f"time{number}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in changed))
        entries = harness.chat(path.stem).conversation.path()
        assert (2, {0.0}) == (len(entries), {entry.created for entry in entries})
