"""A turn's token counts equal the tokens that the model was run on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from chatcli.conversation.tree import Conversation
from chatcli.kv import prompt_cache
from chatcli.session import opening
from chatcli.turn import turn
from tests.support.families import FAMILIES
from tests.support.harness import MESSAGES, SYSTEM
from tests.support.scripted import (
    BARE,
    PLAIN,
    REPLY_TOKENS,
    RecordedTurn,
    RecordingModel,
    ScriptedHarness,
)
from tests.support.tiny import write_model

WORDS = "dog the quick brown fox jumps over lazy what name is remember "
# Several prefill chunks; the last is neither almost empty nor almost full.
LONG = (WORDS * 25).strip()


def check(harness: ScriptedHarness, recorded: RecordedTurn, prompt: Sequence[int]) -> None:
    """Assert that the model ran the rest of the prompt and each generated token once.

    The logprobs also show that the cache held every token before them.
    """
    record, tokens = recorded
    generated = harness.script.ids
    covered = record.reused_tokens + record.typeahead_tokens
    assert generated == record.tokens
    assert list(prompt[covered:]) + generated == tokens
    assert len(tokens) - len(generated) == record.prefilled_tokens > 0
    cold_logprobs = harness.logprobs([*prompt, *generated], len(prompt))
    # One token at a time and many at once differ by rounding.
    assert cold_logprobs == pytest.approx(record.logprobs, abs=1e-4)
    assert len(prompt) == record.prompt_tokens == covered + record.prefilled_tokens
    assert record.hit_ratio == record.reused_tokens / record.prompt_tokens


def first_turn(harness: ScriptedHarness, name: str = "talk") -> turn.TurnContext:
    """A session with one settled turn."""
    chat = harness.chat(name)
    harness.settle(chat, harness.take(chat, MESSAGES[0]).record)
    return chat


@pytest.mark.slow
def test_turns_and_settles_count_what_the_model_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat, settled = harness.chat("talk"), []
        for number, text in enumerate(MESSAGES[:3]):
            recorded, prompt = harness.take(chat, text), harness.prompt(MESSAGES[: number + 1])
            check(harness, recorded, prompt)
            reused = recorded.record.reused_tokens
            assert settled == prompt[reused - len(settled) : reused]
            assert 0 == recorded.record.settled_tokens == recorded.record.typeahead_tokens
            settled = harness.settle(chat, recorded.record)
            assert len(settled) == recorded.record.settled_tokens > REPLY_TOKENS
            assert (number == 0) == (reused == 0)
        assert [] == harness.settle(chat, recorded.record)


def test_an_unsettled_turn_counts_the_reply_as_prefilled(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.take(chat, MESSAGES[0])
        recorded = harness.take(chat, MESSAGES[1])
        check(harness, recorded, harness.prompt(MESSAGES[:2]))
    assert recorded.record.prefilled_tokens > REPLY_TOKENS


def test_a_settle_that_was_cut_short_counts_its_chunks(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        record = harness.take(chat, MESSAGES[0]).record
        settled = harness.settle(chat, record, events=1)
        recorded, prompt = harness.take(chat, MESSAGES[1]), harness.prompt(MESSAGES[:2])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert len(settled) == record.settled_tokens == harness.loaded.prefill_step
    assert settled == prompt[reused - len(settled) : reused]


def test_a_continued_settle_adds_to_the_saved_count(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        record = harness.take(chat, MESSAGES[0]).record
        settled = harness.settle(chat, record, events=1) + harness.settle(chat, record)
        saved = chat.conversation.path()[-1].record["settled_tokens"]
        recorded, prompt = harness.take(chat, MESSAGES[1]), harness.prompt(MESSAGES[:2])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert len(settled) == saved == record.settled_tokens > REPLY_TOKENS
    assert settled == prompt[reused - len(settled) : reused]


def test_a_turn_after_a_cancelled_prefill_reuses_its_chunks(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        cut = harness.take(chat, LONG, stop=2)
        replies = [harness.script.reply, ""]
        prompt = harness.prompt([MESSAGES[0], LONG, MESSAGES[1]], replies)
        recorded = harness.take(chat, MESSAGES[1])
        check(harness, recorded, prompt)
    assert harness.loaded.prefill_step == len(cut.tokens)
    start, end = cut.record.reused_tokens, recorded.record.reused_tokens
    assert prompt[start:end] == cut.tokens


def test_a_cancelled_prefill_counts_the_whole_prompt(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        cut = harness.take(chat, LONG, stop=2)
        prompt = harness.prompt([MESSAGES[0], LONG], [harness.script.reply])
    assert 0 < len(cut.tokens) < cut.record.prefilled_tokens
    assert len(prompt) == cut.record.reused_tokens + cut.record.prefilled_tokens


class AfterTokens(threading.Event):
    """Set once a reply has so many tokens. A reader is too late to say so: generation runs ahead of it."""

    def __init__(self, model: RecordingModel, tokens: int) -> None:
        super().__init__()
        self._model, self._tokens = model, tokens

    def is_set(self) -> bool:
        return self._model.single_runs >= self._tokens


def test_a_cancelled_reply_counts_its_tokens(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        cut = harness.take(chat, MESSAGES[1], AfterTokens(harness.model, 30))
        assert "cancelled" == cut.record.finish_reason
        assert cut.tokens[cut.record.prefilled_tokens :] == cut.record.tokens
        assert 20 < len(cut.record.tokens) < len(harness.script.ids)
        settled = harness.settle(chat, cut.record)
        assert len(settled) == cut.record.settled_tokens
        prompt = harness.prompt(MESSAGES[:3], [harness.script.reply, cut.record.text])
        recorded = harness.take(chat, MESSAGES[2])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert settled == prompt[reused - len(settled) : reused]


@pytest.mark.parametrize("events", [1, None])
def test_a_typed_message_that_is_sent_counts_as_typed_ahead(
    model: Path, tmp_path: Path, events: int | None
) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        typed_ahead = harness.typeahead(chat, LONG, events)
        recorded, prompt = harness.take(chat, LONG), harness.prompt([MESSAGES[0], LONG])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert len(typed_ahead) == recorded.record.typeahead_tokens
    assert typed_ahead == prompt[reused : reused + len(typed_ahead)]


def test_typeahead_counts_only_tokens_of_the_sent_message(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        before = harness.typeahead(chat, f"{LONG} And.")
        after = harness.typeahead(chat, f"{LONG} Or.")
        recorded, prompt = harness.take(chat, f"{LONG} Or."), harness.prompt([MESSAGES[0], f"{LONG} Or."])
        check(harness, recorded, prompt)
    reused, typed_ahead = recorded.record.reused_tokens, recorded.record.typeahead_tokens
    kept = typed_ahead - len(after)
    assert 0 <= kept < len(before)
    assert before[:kept] + after == prompt[reused : reused + typed_ahead]


def test_typeahead_of_a_changed_message_counts_what_both_share(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        typed_ahead = harness.typeahead(chat, f"{LONG} And.")
        recorded, prompt = harness.take(chat, f"{LONG} Or."), harness.prompt([MESSAGES[0], f"{LONG} Or."])
        check(harness, recorded, prompt)
        by_offset = prompt_cache.rewinds_by_offset(harness.checkpoints.fork())
    reused, kept = recorded.record.reused_tokens, recorded.record.typeahead_tokens
    assert (0 < kept) == by_offset and kept < len(typed_ahead)
    assert typed_ahead[:kept] == prompt[reused : reused + kept]


def test_typeahead_of_another_message_counts_nothing(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        harness.typeahead(chat, LONG)
        recorded = harness.take(chat, MESSAGES[1])
        check(harness, recorded, harness.prompt(MESSAGES[:2]))
    assert 0 == recorded.record.typeahead_tokens


def test_typeahead_of_a_first_message_includes_the_system_prompt(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        typed_ahead = harness.typeahead(harness.unsaved(Conversation("2026-01-01", SYSTEM)), LONG)
        recorded, prompt = harness.take(harness.chat("talk"), LONG), harness.prompt([LONG])
        check(harness, recorded, prompt)
    assert 0 == recorded.record.reused_tokens
    assert typed_ahead == prompt[: recorded.record.typeahead_tokens]


def test_typeahead_counts_an_unsettled_reply(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.take(chat, MESSAGES[0])
        typed_ahead = harness.typeahead(chat, LONG)
        recorded, prompt = harness.take(chat, LONG), harness.prompt([MESSAGES[0], LONG])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert typed_ahead == prompt[reused : reused + len(typed_ahead)]
    assert (
        len(typed_ahead) == recorded.record.typeahead_tokens > len(harness.prompt([LONG])) // 2 + REPLY_TOKENS
    )


def test_typeahead_after_a_cut_settle_counts_only_its_own_tokens(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        record = harness.take(chat, MESSAGES[0]).record
        settled = harness.settle(chat, record, events=1)
        typed_ahead = harness.typeahead(chat, LONG, events=1)
        recorded, prompt = harness.take(chat, LONG), harness.prompt([MESSAGES[0], LONG])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert settled == prompt[reused - len(settled) : reused]
    assert typed_ahead == prompt[reused : reused + len(typed_ahead)]
    assert 0 < len(typed_ahead) == recorded.record.typeahead_tokens


@pytest.mark.slow
def test_typeahead_of_a_message_that_begins_as_another_counts_only_what_it_ran(
    model: Path, tmp_path: Path
) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        harness.take(harness.chat("one"), f"{LONG} {LONG} And.")
        text = f"{LONG} {LONG} Or."
        typed_ahead = harness.typeahead(harness.unsaved(Conversation("2026-01-01", SYSTEM)), text, events=1)
        recorded, prompt = harness.take(harness.chat("two"), text), harness.prompt([text])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert typed_ahead == prompt[reused : reused + len(typed_ahead)]
    assert 0 < len(typed_ahead) == recorded.record.typeahead_tokens


@pytest.mark.parametrize("settled", [True, False])
def test_a_reopened_session_counts_what_the_model_ran(model: Path, tmp_path: Path, settled: bool) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        record = harness.take(chat, MESSAGES[0]).record
        if settled:
            harness.settle(chat, record)
    with ScriptedHarness(model, tmp_path) as harness:
        recorded, prompt = harness.take(harness.chat("talk"), MESSAGES[1]), harness.prompt(MESSAGES[:2])
        check(harness, recorded, prompt)
    assert settled == (recorded.record.prefilled_tokens < REPLY_TOKENS)


def test_settling_a_reopened_session_counts_what_the_model_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        harness.take(harness.chat("talk"), MESSAGES[0])
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        settled = harness.settle(chat, turn.TurnRecord("talk", 1))
        saved = chat.conversation.path()[-1].record["settled_tokens"]
        recorded, prompt = harness.take(chat, MESSAGES[1]), harness.prompt(MESSAGES[:2])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert len(settled) == saved > REPLY_TOKENS
    assert settled == prompt[reused - len(settled) : reused]


@pytest.mark.slow
def test_a_branch_counts_what_the_model_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = first_turn(harness)
        for text in MESSAGES[1:3]:
            harness.settle(chat, harness.take(chat, text).record)
        opening.branch(harness.folder, chat.session, 1, "branch").close()
        branch, texts = harness.chat("branch"), [MESSAGES[0], LONG]
        recorded = harness.take(branch, LONG)
        check(harness, recorded, harness.prompt(texts))
        settled = harness.settle(branch, recorded.record)
        assert len(settled) == recorded.record.settled_tokens > REPLY_TOKENS
        again = harness.take(chat, MESSAGES[3])
        check(harness, again, harness.prompt(MESSAGES[:4]))
    assert len(harness.prompt([MESSAGES[0], ""])) - 16 < recorded.record.reused_tokens
    assert again.record.prefilled_tokens < REPLY_TOKENS


@pytest.mark.parametrize("closed", [True, False])
def test_the_same_question_in_a_new_session_runs_the_generation_prompt(
    model: Path, tmp_path: Path, closed: bool
) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        first_turn(harness, "one")
        if not closed:
            ask_in_new_session(harness)
    if closed:
        with ScriptedHarness(model, tmp_path) as harness:
            ask_in_new_session(harness)


def ask_in_new_session(harness: ScriptedHarness) -> None:
    """Ask the first question in another session and check its counts."""
    again = harness.take(harness.chat("two"), MESSAGES[0])
    check(harness, again, harness.prompt(MESSAGES[:1]))
    opened = harness.loaded.tokenizer.encode("<|im_start|>assistant\n<think>\n")
    assert again.record.prefilled_tokens <= len(opened)


@pytest.mark.slow
def test_without_the_cache_everything_is_prefilled_and_nothing_ahead(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path, cache=False) as harness:
        chat = harness.chat("talk")
        for number, text in enumerate(MESSAGES[:3]):
            recorded = harness.take(chat, text)
            check(harness, recorded, harness.prompt(MESSAGES[: number + 1]))
            assert 0 == recorded.record.reused_tokens
            assert [] == harness.settle(chat, recorded.record)
            assert 0 == recorded.record.settled_tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fully_cached_prompt_prefills_one_token(family: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family, template=BARE)
    with ScriptedHarness(model, tmp_path / "sessions") as harness:
        first = harness.take(harness.chat("one"), LONG)
        check(harness, first, harness.prompt([LONG]))
    with ScriptedHarness(model, tmp_path / "sessions") as harness:
        again = harness.take(harness.chat("two"), LONG)
        check(harness, again, harness.prompt([LONG]))
    assert 1 == again.record.prefilled_tokens


# Where history keeps what was generated, only the markers after the reply are left to be run.
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("template", [PLAIN, BARE], ids=["plain", "bare"])
def test_a_reply_that_history_keeps_is_not_run_again(family: str, template: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family, template=template)
    with ScriptedHarness(model, tmp_path / "sessions") as harness:
        chat = harness.chat("talk")
        for number, text in enumerate(MESSAGES[:3]):
            recorded = harness.take(chat, text)
            check(harness, recorded, harness.prompt(MESSAGES[: number + 1]))
            settled = harness.settle(chat, recorded.record)
            assert len(settled) == recorded.record.settled_tokens <= 8


@pytest.mark.parametrize("events", [None, 40])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_after_a_reply_that_history_keeps_reuses_all_of_it(
    family: str, events: int | None, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", family, template=PLAIN)
    with ScriptedHarness(model, tmp_path / "sessions") as harness:
        chat = harness.chat("talk")
        first = harness.take(chat, MESSAGES[0], events).record
        settled = harness.settle(chat, first)
        recorded, prompt = harness.take(chat, LONG), harness.prompt([MESSAGES[0], LONG], [first.text])
        check(harness, recorded, prompt)
    reused = recorded.record.reused_tokens
    assert ("stop" if events is None else "cancelled") == first.finish_reason
    assert len(settled) == first.settled_tokens <= 8
    assert settled == prompt[reused - len(settled) : reused]


def test_a_reply_whose_thinking_is_dropped_is_run_again(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES[:3]:
            assert len(harness.settle(chat, harness.take(chat, text).record)) > REPLY_TOKENS
