"""A turn's counts are those of the model's own calls, on every way that a turn can come about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from chatcli.conversation.tree import Conversation
from chatcli.session import opening
from chatcli.turn import turn
from tests.conftest import FAMILIES
from tests.support.core import MESSAGES, SYSTEM
from tests.support.scripted import BARE, PLAIN, REPLY_TOKENS, Ran, ScriptedHouse
from tests.support.tiny import write_model

WORDS = "dog the quick brown fox jumps over lazy what name is remember "
# Several chunks, of which the last is neither nearly empty nor nearly full.
LONG = (WORDS * 25).strip()


def check(house: ScriptedHouse, ran: Ran, prompt: Sequence[int]) -> None:
    """The model ran the prompt's last tokens, then each token that it generated, all of them once.

    And it ran them on a cache of all the tokens before them, or its logprobs would be others.
    """
    record, tokens = ran
    generated = house.script.ids
    assert generated == record.tokens
    assert list(prompt[record.reused_tokens :]) + generated == tokens
    assert len(tokens) - len(generated) == record.prefilled_tokens > 0
    alone = house.logprobs([*prompt, *generated], len(prompt))
    # One token at a time and many at once differ by rounding.
    assert alone == pytest.approx(record.logprobs, abs=1e-4)
    assert len(prompt) == record.prompt_tokens == record.reused_tokens + record.prefilled_tokens


def first_turn(house: ScriptedHouse, name: str = "talk") -> turn.Chat:
    """A session with one settled turn."""
    chat = house.chat(name)
    house.settle(chat, house.take(chat, MESSAGES[0]).record)
    return chat


def test_turns_and_settles_count_what_the_model_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat, settled = house.chat("talk"), []
        for number, text in enumerate(MESSAGES[:3]):
            ran, prompt = house.take(chat, text), house.prompt(MESSAGES[: number + 1])
            check(house, ran, prompt)
            reused = ran.record.reused_tokens
            assert settled == prompt[reused - len(settled) : reused]
            assert 0 == ran.record.settled_tokens == ran.record.drafted_tokens
            settled = house.settle(chat, ran.record)
            assert len(settled) == ran.record.settled_tokens > REPLY_TOKENS
            assert (number == 0) == (reused == 0)
        assert [] == house.settle(chat, ran.record)


def test_an_unsettled_turn_counts_the_reply_as_prefilled(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = house.chat("talk")
        house.take(chat, MESSAGES[0])
        ran = house.take(chat, MESSAGES[1])
        check(house, ran, house.prompt(MESSAGES[:2]))
    assert ran.record.prefilled_tokens > REPLY_TOKENS


def test_a_settle_that_was_cut_short_counts_its_chunks(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = house.chat("talk")
        record = house.take(chat, MESSAGES[0]).record
        settled = house.settle(chat, record, events=1)
        ran, prompt = house.take(chat, MESSAGES[1]), house.prompt(MESSAGES[:2])
        check(house, ran, prompt)
    reused = ran.record.reused_tokens
    assert len(settled) == record.settled_tokens == house.loaded.prefill_step
    assert settled == prompt[reused - len(settled) : reused]


def test_a_settle_that_goes_on_adds_to_what_is_noted(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = house.chat("talk")
        record = house.take(chat, MESSAGES[0]).record
        settled = house.settle(chat, record, events=1) + house.settle(chat, record)
        noted = chat.conversation.path()[-1].record["settled_tokens"]
        ran, prompt = house.take(chat, MESSAGES[1]), house.prompt(MESSAGES[:2])
        check(house, ran, prompt)
    reused = ran.record.reused_tokens
    assert len(settled) == noted == record.settled_tokens > REPLY_TOKENS
    assert settled == prompt[reused - len(settled) : reused]


def test_a_turn_after_a_cancelled_prefill_goes_on_from_its_chunks(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        cut = house.take(chat, LONG, events=2)
        replies = [house.script.reply, ""]
        prompt = house.prompt([MESSAGES[0], LONG, MESSAGES[1]], replies)
        ran = house.take(chat, MESSAGES[1])
        check(house, ran, prompt)
    assert house.loaded.prefill_step == len(cut.tokens)
    start, end = cut.record.reused_tokens, ran.record.reused_tokens
    assert prompt[start:end] == cut.tokens


def test_a_cancelled_prefill_counts_what_there_was_to_run(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        cut = house.take(chat, LONG, events=2)
        prompt = house.prompt([MESSAGES[0], LONG], [house.script.reply])
    assert 0 < len(cut.tokens) < cut.record.prefilled_tokens
    assert len(prompt) == cut.record.reused_tokens + cut.record.prefilled_tokens


def test_a_cancelled_reply_counts_the_tokens_that_came(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        cut = house.take(chat, MESSAGES[1], events=40)
        assert "cancelled" == cut.record.finish_reason
        assert cut.tokens[cut.record.prefilled_tokens :] == cut.record.tokens
        assert 20 < len(cut.record.tokens) < len(house.script.ids)
        settled = house.settle(chat, cut.record)
        assert len(settled) == cut.record.settled_tokens
        prompt = house.prompt(MESSAGES[:3], [house.script.reply, cut.record.text])
        ran = house.take(chat, MESSAGES[2])
        check(house, ran, prompt)
    reused = ran.record.reused_tokens
    assert settled == prompt[reused - len(settled) : reused]


@pytest.mark.parametrize("events", [1, None])
def test_a_draft_that_is_sent_counts_as_drafted(model: Path, tmp_path: Path, events: int | None) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        drafted = house.draft(chat, LONG, events)
        ran, prompt = house.take(chat, LONG), house.prompt([MESSAGES[0], LONG])
        check(house, ran, prompt)
    reused = ran.record.reused_tokens
    assert len(drafted) == ran.record.drafted_tokens
    assert drafted == prompt[reused - len(drafted) : reused]


def test_of_a_draft_that_is_changed_only_what_is_sent_counts(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        before = house.draft(chat, f"{LONG} And.")
        after = house.draft(chat, f"{LONG} Or.")
        ran, prompt = house.take(chat, f"{LONG} Or."), house.prompt([MESSAGES[0], f"{LONG} Or."])
        check(house, ran, prompt)
    reused, drafted = ran.record.reused_tokens, ran.record.drafted_tokens
    kept = drafted - len(after)
    assert 0 < kept < len(before)
    assert before[:kept] + after == prompt[reused - drafted : reused]


def test_of_a_draft_that_is_changed_at_the_last_moment_whole_chunks_count(
    model: Path, tmp_path: Path
) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        drafted = house.draft(chat, f"{LONG} And.")
        ran, prompt = house.take(chat, f"{LONG} Or."), house.prompt([MESSAGES[0], f"{LONG} Or."])
        check(house, ran, prompt)
    reused, kept = ran.record.reused_tokens, ran.record.drafted_tokens
    assert 0 < kept < len(drafted)
    assert drafted[:kept] == prompt[reused - kept : reused]


def test_a_draft_of_something_else_counts_for_nothing(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        house.draft(chat, LONG)
        ran = house.take(chat, MESSAGES[1])
        check(house, ran, house.prompt(MESSAGES[:2]))
    assert 0 == ran.record.drafted_tokens


def test_a_first_message_is_drafted_with_what_stands_before_it(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        drafted = house.draft(house.unsaved(Conversation("2026-01-01", SYSTEM)), LONG)
        ran, prompt = house.take(house.chat("talk"), LONG), house.prompt([LONG])
        check(house, ran, prompt)
    assert drafted == prompt[: ran.record.reused_tokens]
    assert len(drafted) == ran.record.drafted_tokens


def test_a_draft_counts_what_was_not_settled_before_it(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = house.chat("talk")
        house.take(chat, MESSAGES[0])
        drafted = house.draft(chat, LONG)
        ran, prompt = house.take(chat, LONG), house.prompt([MESSAGES[0], LONG])
        check(house, ran, prompt)
    reused = ran.record.reused_tokens
    assert drafted == prompt[reused - len(drafted) : reused]
    assert len(drafted) == ran.record.drafted_tokens > len(house.prompt([LONG])) // 2 + REPLY_TOKENS


@pytest.mark.parametrize("settled", [True, False])
def test_a_reopened_session_counts_what_the_model_ran(model: Path, tmp_path: Path, settled: bool) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = house.chat("talk")
        record = house.take(chat, MESSAGES[0]).record
        if settled:
            house.settle(chat, record)
    with ScriptedHouse(model, tmp_path) as house:
        ran, prompt = house.take(house.chat("talk"), MESSAGES[1]), house.prompt(MESSAGES[:2])
        check(house, ran, prompt)
    assert settled == (ran.record.prefilled_tokens < REPLY_TOKENS)


def test_settling_a_reopened_session_counts_what_the_model_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        house.take(house.chat("talk"), MESSAGES[0])
    with ScriptedHouse(model, tmp_path) as house:
        chat = house.chat("talk")
        settled = house.settle(chat, turn.TurnRecord("talk", 1))
        noted = chat.conversation.path()[-1].record["settled_tokens"]
        ran, prompt = house.take(chat, MESSAGES[1]), house.prompt(MESSAGES[:2])
        check(house, ran, prompt)
    reused = ran.record.reused_tokens
    assert len(settled) == noted > REPLY_TOKENS
    assert settled == prompt[reused - len(settled) : reused]


def test_a_branch_counts_what_the_model_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = first_turn(house)
        for text in MESSAGES[1:3]:
            house.settle(chat, house.take(chat, text).record)
        opening.branch_from(house.folder, "talk", chat.conversation, 1, "branch").close()
        branch, texts = house.chat("branch"), [MESSAGES[0], LONG]
        ran = house.take(branch, LONG)
        check(house, ran, house.prompt(texts))
        settled = house.settle(branch, ran.record)
        assert len(settled) == ran.record.settled_tokens > REPLY_TOKENS
        again = house.take(chat, MESSAGES[3])
        check(house, again, house.prompt(MESSAGES[:4]))
    assert len(house.prompt([MESSAGES[0], ""])) - 16 < ran.record.reused_tokens
    assert again.record.prefilled_tokens < REPLY_TOKENS


@pytest.mark.parametrize("closed", [True, False])
def test_the_same_question_in_a_new_session_runs_the_generation_prompt(
    model: Path, tmp_path: Path, closed: bool
) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        first_turn(house, "one")
        if not closed:
            ask_again(house)
    if closed:
        with ScriptedHouse(model, tmp_path) as house:
            ask_again(house)


def ask_again(house: ScriptedHouse) -> None:
    """The first question, in another session."""
    again = house.take(house.chat("two"), MESSAGES[0])
    check(house, again, house.prompt(MESSAGES[:1]))
    opened = house.loaded.tokenizer.encode("<|im_start|>assistant\n<think>\n")
    assert again.record.prefilled_tokens <= len(opened)


def test_without_the_cache_everything_is_run_and_nothing_ahead(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path, cache=False) as house:
        chat = house.chat("talk")
        for number, text in enumerate(MESSAGES[:3]):
            ran = house.take(chat, text)
            check(house, ran, house.prompt(MESSAGES[: number + 1]))
            assert 0 == ran.record.reused_tokens
            assert [] == house.settle(chat, ran.record)
            assert 0 == ran.record.settled_tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_that_is_known_to_its_end_leaves_one_token(family: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family, template=BARE)
    with ScriptedHouse(model, tmp_path / "sessions") as house:
        first = house.take(house.chat("one"), LONG)
        check(house, first, house.prompt([LONG]))
    with ScriptedHouse(model, tmp_path / "sessions") as house:
        again = house.take(house.chat("two"), LONG)
        check(house, again, house.prompt([LONG]))
    assert 1 == again.record.prefilled_tokens


# Where history keeps what was generated, only the markers after the reply are left to be run.
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("template", [PLAIN, BARE], ids=["plain", "bare"])
def test_a_reply_that_history_keeps_is_not_run_again(family: str, template: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family, template=template)
    with ScriptedHouse(model, tmp_path / "sessions") as house:
        chat = house.chat("talk")
        for number, text in enumerate(MESSAGES[:3]):
            ran = house.take(chat, text)
            check(house, ran, house.prompt(MESSAGES[: number + 1]))
            settled = house.settle(chat, ran.record)
            assert len(settled) == ran.record.settled_tokens <= 8


@pytest.mark.parametrize("events", [None, 40])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_after_a_reply_that_history_keeps_has_the_whole_of_it(
    family: str, events: int | None, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", family, template=PLAIN)
    with ScriptedHouse(model, tmp_path / "sessions") as house:
        chat = house.chat("talk")
        first = house.take(chat, MESSAGES[0], events).record
        settled = house.settle(chat, first)
        ran, prompt = house.take(chat, LONG), house.prompt([MESSAGES[0], LONG], [first.text])
        check(house, ran, prompt)
    reused = ran.record.reused_tokens
    assert ("stop" if events is None else "cancelled") == first.finish_reason
    assert len(settled) == first.settled_tokens <= 8
    assert settled == prompt[reused - len(settled) : reused]


def test_a_reply_whose_thinking_is_dropped_is_run_again(model: Path, tmp_path: Path) -> None:
    with ScriptedHouse(model, tmp_path) as house:
        chat = house.chat("talk")
        for text in MESSAGES[:3]:
            assert len(house.settle(chat, house.take(chat, text).record)) > REPLY_TOKENS
