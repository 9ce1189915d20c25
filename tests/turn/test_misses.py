"""The reason why less was reused than possible: always true, and one short sentence."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from chatcli.conversation.tree import Message
from chatcli.events import Notice, PrefixMatched
from chatcli.session import opening
from chatcli.store.sessions.folder import SessionFolder
from chatcli.turn import turn
from chatcli.turn.misses import CACHE_WAS_OFF, EVICTED_MESSAGE, NEW_HERE, NOT_SETTLED
from chatcli.turn.prompt import TurnContext
from tests.support import tiny
from tests.support.harness import MESSAGES, SYSTEM, Harness

OTHER_SYSTEM = "You are someone else entirely, and you never answer in a word."


@pytest.fixture
def model(models: Path) -> Path:
    return models / "qwen3"


def say(
    model: Path,
    sessions: Path,
    text: str,
    name: str = "talk",
    *,
    system: str | None = SYSTEM,
    settle: bool = True,
    cache: bool = True,
) -> str | None:
    """The miss reason of one turn in a process of its own. `system` changes that of the session."""
    with Harness(model, sessions, tokens=6, cache=cache) as harness:
        chat = harness.chat(name)
        chat.session.set_system(system)
        return harness.say(chat, text, settle=settle).miss_reason


def settle(chat: TurnContext) -> None:
    for _ in turn.settle(chat, threading.Event()):
        pass


def import_messages(sessions: Path, name: str = "talk") -> None:
    """A session that was never run here: its replies have no records."""
    with SessionFolder(sessions).create(name, model="m", system=SYSTEM) as session:
        question = session.append(Message("user", "My dog is called Biscuit."), None)
        session.append(Message("assistant", "A fine name."), question.id, finish_reason="stop")


@pytest.mark.parametrize(("settled", "reason"), [(False, NOT_SETTLED), (True, None)])
def test_a_message_that_comes_at_once_finds_the_reply_not_run(
    model: Path, tmp_path: Path, settled: bool, reason: str | None
) -> None:
    with Harness(model, tmp_path, tokens=6) as harness:
        chat = harness.chat("talk")
        harness.say(chat, "My dog is called Biscuit.", settle=settled)
        assert reason == harness.say(chat, "What is its name?", settle=settled).miss_reason


def test_a_new_session_misses_nothing(model: Path, tmp_path: Path) -> None:
    assert [None, None] == [say(model, tmp_path, "Hello.", name) for name in ("first", "second")]


def test_an_imported_session_is_new_here(model: Path, tmp_path: Path) -> None:
    import_messages(tmp_path)
    assert NEW_HERE == say(model, tmp_path, "What is my dog's name?")
    assert None is say(model, tmp_path, "And now?")


def test_a_branch_of_an_imported_session_is_new_here(model: Path, tmp_path: Path) -> None:
    import_messages(tmp_path)
    with Harness(model, tmp_path) as harness:
        opening.branch(harness.folder, "talk", None, "branch").close()
    assert NEW_HERE == say(model, tmp_path, "What is my dog's name?", "branch")


def test_an_imported_session_that_was_settled_misses_nothing(model: Path, tmp_path: Path) -> None:
    import_messages(tmp_path)
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        settle(chat)
        assert None is harness.say(chat, "What is my dog's name?").miss_reason
    import_messages(tmp_path, "again")
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("again")
        settle(chat)
        chat.session.set_system(OTHER_SYSTEM)
        reason = harness.say(chat, "What is my dog's name?").miss_reason
    assert str(reason).startswith("the prompt changed at token")


def test_records_without_a_fingerprint_name_no_model(model: Path, tmp_path: Path) -> None:
    """As chatcli 0.2 wrote them when it settled an imported session."""
    import_messages(tmp_path)
    say(model, tmp_path, "Hello.")
    path = tmp_path / "talk.jsonl"
    lines = [json.loads(each) for each in path.read_text().splitlines()]
    for fields in lines:
        for key in ("fingerprint", "settled_by", "model"):
            fields.get("record", {}).pop(key, None)
    path.write_text("".join(json.dumps(fields) + "\n" for fields in lines))
    assert None is say(model, tmp_path, "And now?")
    reason = say(model, tmp_path, "And then?", system=OTHER_SYSTEM)
    assert str(reason).startswith("the prompt changed at token")


def test_another_model_is_named_until_it_has_run_the_conversation(model: Path, tmp_path: Path) -> None:
    other = tiny.write_model(tmp_path / "other", "qwen3", seed=8)
    assert None is say(model, tmp_path / "saved", MESSAGES[0])
    with Harness(other, tmp_path / "saved", tokens=6) as harness:
        chat = harness.chat("talk")
        settle(chat)
        assert None is harness.say(chat, MESSAGES[1]).miss_reason
        chat.session.set_system(OTHER_SYSTEM)
        assert str(harness.say(chat, MESSAGES[2]).miss_reason).startswith("the prompt changed at token")
    reason = say(model, tmp_path / "saved", MESSAGES[3])
    assert f"the model changed (before: {other})" == reason


@pytest.mark.parametrize("count", [1, 2])
def test_the_last_of_several_changes_is_shown(count: int, model: Path, tmp_path: Path) -> None:
    systems = [SYSTEM, OTHER_SYSTEM, "You are someone else completely, and you are kind."][: count + 1]
    reasons = [
        say(model, tmp_path, text, system=system)
        for text, system in zip(MESSAGES[: count + 1], systems, strict=True)
    ]
    parted = ["' a helpful", "'entirely, and"][count - 1]
    assert f": {parted}" in str(reasons[-1])


def test_checkpoints_that_are_gone_are_named(model: Path, tmp_path: Path) -> None:
    say(model, tmp_path, MESSAGES[0])
    for path in tmp_path.rglob("*.safetensors"):
        path.unlink()
    assert EVICTED_MESSAGE == say(model, tmp_path, MESSAGES[1])


@pytest.mark.parametrize("cached_before", [False, True])
def test_a_turn_after_one_without_the_cache_says_so(cached_before: bool, model: Path, tmp_path: Path) -> None:
    if cached_before:
        say(model, tmp_path, MESSAGES[0])
    assert "the cache is off" == say(model, tmp_path, MESSAGES[1], cache=False)
    assert CACHE_WAS_OFF == say(model, tmp_path, MESSAGES[2])
    assert None is say(model, tmp_path, MESSAGES[3])


def test_a_second_prefill_of_another_machines_tokens_is_announced(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3", tmp_path, tokens=4) as harness:
        chat = harness.chat("talk")
        harness.say(chat, "All that there is to know of herons. " * 20)
        here = chat.checkpoints.loaded
    session, there = tmp_path / "talk.jsonl", "MLX 0.1, mlx-lm 0.1, Plan9 vax"
    text = session.read_text().replace(here.fingerprint, "e" * 32).replace(here.program, there)
    session.write_text(text)
    shutil.rmtree(tmp_path / "kv")
    (sentence,) = opening.read_again(SessionFolder(tmp_path).read("talk").conversation)
    assert f"was held with {there}. This is MLX " in sentence and "prefilled again first" in sentence
    with Harness(models / "qwen3", tmp_path, tokens=4) as harness:
        chat = harness.chat("talk")
        matched, notice, *_ = turn.take(chat, "Go on.", threading.Event())
        assert isinstance(matched, PrefixMatched) and isinstance(notice, Notice)
        unread = matched.prompt_tokens - matched.reused_tokens
        reason = f"Made with {there}; this is {here.program}: {unread:,} tokens are prefilled again."
        assert reason == notice.text
        assert not any(isinstance(event, Notice) for event in turn.take(chat, "And on.", threading.Event()))
