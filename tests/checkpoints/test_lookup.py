"""Looking up what was said before: the same conversation, fewer passes, and checkpoints that hold it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from chatcli.commands import handlers as _commands  # noqa: F401  (registers the commands)
from chatcli.commands import registry
from chatcli.commands.results import PlainText
from chatcli.engine.known_costs import KnownCosts, default_path
from chatcli.engine.pace import LENGTHS, PassCosts
from chatcli.errors import UsageError
from chatcli.model.load import load
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling, Settings
from chatcli.turn import regenerate
from tests.support.families import FAMILIES, at_night
from tests.support.harness import MESSAGES, Harness, finish, open_all_along, outcome, reopened
from tests.support.program import Program

# Replies of few words that never end: there is much to look up.
ENDLESS = tuple((token, 30.0) for token in (60, 75, 90))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes cost is kept in the home folder."""
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))


def eager(*models: Path) -> None:
    """Have every guess seem worth it, whatever this machine is busy with."""
    for model in models:
        fingerprint = load(str(model), needs_chat_template=False).fingerprint
        KnownCosts(fingerprint, default_path()).after(0, lambda: PassCosts(dict.fromkeys(LENGTHS, 1.0)))


def conversation(
    model: Path, sessions: Path, *, lookup: bool, close: bool = False, **options: Any
) -> list[Any]:
    sampling = Sampling(lookup=lookup, logit_bias=ENDLESS)
    said = reopened if close else open_all_along
    return said(model, sessions, sampling=sampling, tokens=48, **options)


@pytest.mark.parametrize("family", ["qwen3_5", *(at_night(name) for name in FAMILIES if name != "qwen3_5")])
def test_a_conversation_is_the_same_with_and_without(models: Path, tmp_path: Path, family: str) -> None:
    eager(models / family)
    plain = conversation(models / family, tmp_path / "plain", lookup=False)
    live = conversation(models / family, tmp_path / "live", lookup=True)
    closed = conversation(models / family, tmp_path / "closed", lookup=True, close=True)
    cold = conversation(models / family, tmp_path / "cold", lookup=True, cache=False)
    assert [outcome(record) for record in live] == [outcome(record) for record in closed]
    if family != "gpt_oss":
        # That one goes on from what was generated, which rounds otherwise than a prefill.
        assert [outcome(record) for record in live] == [outcome(record) for record in cold]
    for other in (live, closed):
        assert [record.tokens for record in plain] == [record.tokens for record in other]
        assert [record.text for record in plain] == [record.text for record in other]
        for left, right in zip(plain, other, strict=True):
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)
            assert left.prompt_tokens == right.prompt_tokens and right.miss_reason is None
            assert (left.reused_tokens, left.settled_tokens) == (right.reused_tokens, right.settled_tokens)
        assert sum(record.accepted_tokens for record in other) > 20
    assert [0] * len(plain) == [record.guessed_tokens for record in plain]


def test_a_reply_that_was_cut_goes_on(models: Path, tmp_path: Path) -> None:
    sampling = Sampling(lookup=True, logit_bias=ENDLESS)
    eager(models / "qwen3_5")
    with Harness(models / "qwen3_5", tmp_path, sampling=sampling, tokens=40) as harness:
        chat = harness.chat("talk")
        cut = harness.say(chat, MESSAGES[0])
        whole = finish(regenerate.continue_reply(chat, threading.Event()))
        assert "length" == cut.finish_reason and cut.tokens == whole.tokens[:40] and 80 == len(whole.tokens)
        assert whole.accepted_tokens and whole.reused_tokens
        again = finish(regenerate.regenerate(chat, threading.Event()))
        assert cut.tokens == again.tokens and again.accepted_tokens > 20


def test_two_replies_at_once_do_not_share_it(models: Path, tmp_path: Path) -> None:
    """One has it, the other goes without; afterwards it is there again."""
    sampling = Sampling(lookup=True, logit_bias=ENDLESS)
    with Harness(models / "qwen3", tmp_path, sampling=sampling, tokens=30) as harness:
        chat = harness.chat("talk")
        expected = harness.say(chat, MESSAGES[0])
        lookup = chat.checkpoints._lookup
        chat.checkpoints._lookup = None
        without = finish(regenerate.regenerate(chat, threading.Event()))
        assert expected.tokens == without.tokens and 0 == without.guessed_tokens
        chat.checkpoints._lookup = lookup
        assert outcome(without)[0] == outcome(finish(regenerate.regenerate(chat, threading.Event())))[0]
        assert lookup is chat.checkpoints._lookup


@pytest.mark.slow
def test_the_program_looks_up_unless_told_not_to(tmp_path: Path) -> None:
    program = Program(tmp_path / "home", Path("pocket"))
    words = "Proofread this: The quick brown fox jump over the lazy dog by the river in Lisbon.", "--temp", 0
    found, without = program.ask(*words), program.ask(*words, "--no-lookup")
    assert found["tokens"] == without["tokens"]
    assert found["guessed_tokens"] >= found["accepted_tokens"] > 0
    assert 0 == without["guessed_tokens"] == without["accepted_tokens"]


def test_a_shell_turns_it_off_and_on(models: Path, tmp_path: Path) -> None:
    settings = Settings(sessions=tmp_path, sampling=Sampling(lookup=True), typeahead=False)
    chat = LiveChat(settings, SessionRequest("talk"), str(models / "qwen3"))
    try:
        chat.model.wait()
        for word, value in (("off", False), ("on", True), ("no", False), ("default", True)):
            assert PlainText(f"lookup is {value}.") == registry.run(chat, f"/set lookup {word}")
            assert chat.model.sampling.lookup is value
        with pytest.raises(UsageError, match="lookup must be true or false, not 'maybe'"):
            registry.run(chat, "/set lookup maybe")
    finally:
        chat.close()
