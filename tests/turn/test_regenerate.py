"""Regenerate and continue: replies are siblings, and only the generation prompt is prefilled."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from chatcli import pocket
from chatcli.conversation.tree import Entry
from chatcli.engine import generate
from chatcli.errors import NothingToRepeat
from chatcli.events import Notice, TurnRecord
from chatcli.settings.values import Sampling
from chatcli.store.segments.token_path import common_prefix
from chatcli.turn import regenerate, turn
from chatcli.turn.prompt import history, render, render_history
from tests.support.harness import MESSAGES, Harness, finish, outcome
from tests.support.program import segment_files
from tests.support.scripted import PLAIN
from tests.support.tiny import SPECIAL, restrict_to_tokens, write_model


def regenerated_record(chat: turn.TurnContext) -> TurnRecord:
    return finish(regenerate.regenerate(chat, threading.Event()))


def generation_prompt_tokens(chat: turn.TurnContext) -> int:
    """The number of tokens in the generation prompt."""
    return len(chat.template.encode(chat.template.generation_prompt(history(chat, question(chat)))))


def question(chat: turn.TurnContext) -> Entry:
    return chat.conversation.turns()[-1].user


@pytest.mark.parametrize("settle", [True, False], ids=["settled", "at once"])
def test_another_reply_runs_the_generation_prompt_only(model: Path, tmp_path: Path, settle: bool) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        first = harness.say(chat, MESSAGES[1], settle=settle)
        second, third = regenerated_record(chat), regenerated_record(chat)
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        reopened = regenerated_record(chat)
        max_tokens = generation_prompt_tokens(chat)
    assert [outcome(first)] * 3 == [outcome(record) for record in (second, third, reopened)]
    assert all(1 <= record.prefilled_tokens <= max_tokens for record in (second, third, reopened))


def notices(chat: turn.TurnContext) -> list[str]:
    events = list(regenerate.regenerate(chat, threading.Event()))
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_reply_that_is_the_same_at_temperature_0_says_so(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        same = notices(chat)
        chat = replace(chat, sampling=Sampling(temp=1.5, seed=1, max_tokens=12))
        assert [] == notices(chat)
    assert ["At temperature 0 the reply is the same again: /set temp 0.8 for another."] == same


def test_a_whole_reply_that_is_the_same_says_so_too(tmp_path: Path) -> None:
    with Harness(pocket.FOLDER, tmp_path, tokens=200) as harness:
        chat = harness.chat("talk", system=None)
        assert "stop" == harness.say(chat, "hi").finish_reason
        assert 1 == len(notices(chat))


def test_every_reply_is_kept_beside_the_others(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        record = regenerated_record(chat)
        assert 1 == record.turn
    with Harness(model, tmp_path) as harness:
        conversation = harness.chat("talk").conversation
        replies = conversation.children(conversation.turns()[0].user.id)
        assert [before, conversation.head] == [reply.id for reply in replies]


def test_another_reply_saves_its_boundaries(model: Path, tmp_path: Path) -> None:
    """Also where it has the text of the first reply, and so its checkpoints."""
    never = threading.Event()
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        regenerated_record(chat)
        list(turn.settle(chat, never))
        first, second = chat.conversation.children(question(chat).id)
        assert first.message == second.message
        assert first.record["boundaries"] == second.record["boundaries"]


def test_a_seed_gives_different_replies_in_the_same_order_every_time(model: Path, tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        with Harness(model, tmp_path / name) as harness:
            chat = replace(harness.chat("talk"), sampling=Sampling(1.0, seed=5, max_tokens=24))
            runs.append([harness.say(chat, MESSAGES[0]).tokens, regenerated_record(chat).tokens])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


def test_a_reply_that_never_began_leaves_the_old_one_in_place(model: Path, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        assert "cancelled" == finish(regenerate.regenerate(chat, stopped)).finish_reason
        assert before == chat.conversation.head
        assert 2 == harness.say(chat, MESSAGES[1]).turn
    with Harness(model, tmp_path) as harness:
        path = harness.chat("talk").conversation.path()
        assert 4 == len(path) and before == path[1].id


def test_an_unanswered_message_is_answered(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        turn.append(chat, MESSAGES[0], (), chat.conversation.head)
        regenerated_record(chat)
        assert chat.conversation.turns()[0].reply is not None
        assert None is chat.conversation.unanswered()


def test_without_a_question_there_is_nothing_to_repeat(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness, pytest.raises(NothingToRepeat):
        regenerated_record(harness.chat("talk"))


def test_avoided_seconds_are_the_seconds_of_the_first_prefill(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        first, second = harness.say(chat, MESSAGES[0]), harness.say(chat, MESSAGES[1])
    with Harness(model, tmp_path) as harness:
        reopened = regenerated_record(harness.chat("talk"))
    assert 0.0 == first.avoided_seconds
    # Regenerating avoids the second prompt's prefill too.
    assert 0 < second.avoided_seconds < reopened.avoided_seconds
    with Harness(model, tmp_path, cache=False) as harness:
        assert 0.0 == regenerated_record(harness.chat("talk")).avoided_seconds


def test_a_cut_reply_continues_exactly_where_it_stopped(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "whole", tokens=40) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        whole = harness.say(chat, MESSAGES[1], settle=False)
    with Harness(model, tmp_path / "cut", tokens=20) as harness:
        chat = harness.chat("talk")
        chat_of_40 = replace(chat, sampling=Sampling(max_tokens=40))
        harness.say(chat_of_40, MESSAGES[0])
        cut = harness.say(chat, MESSAGES[1])
    with Harness(model, tmp_path / "cut", tokens=20) as harness:
        chat = harness.chat("talk")
        continued = finish(regenerate.continue_reply(chat, threading.Event()))
        reply = chat.conversation.path()[-1]
        assert ("length", 2) == (cut.finish_reason, len(chat.conversation.children(reply.parent)))
    assert whole.tokens == continued.tokens
    assert (whole.text, whole.thinking) == (continued.text, continued.thinking)
    assert (continued.text, continued.thinking) == (reply.message.content, reply.message.thinking)
    assert len(continued.logprobs) == len(whole.tokens) - len(cut.tokens)


def test_a_complete_reply_is_not_continued(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        user = turn.append(chat, MESSAGES[0], (), chat.conversation.head)
        chat.session.append(turn.Message("assistant", "Yes."), user.id, finish_reason="stop")
        with pytest.raises(NothingToRepeat):
            list(regenerate.continue_reply(chat, threading.Event()))
        assert "Yes." == chat.conversation.path()[-1].message.content


@pytest.mark.slow
def test_the_first_new_word_keeps_the_space_before_it(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3", tmp_path / "whole", tokens=24) as harness:
        whole = harness.say(harness.chat("talk"), MESSAGES[0])
    with Harness(models / "qwen3", tmp_path / "bit by bit", tokens=1) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0], settle=False)
        for _ in range(23):
            continued = finish(regenerate.continue_reply(chat, threading.Event()))
    assert " " in whole.text.strip()
    assert (whole.tokens, whole.text) == (continued.tokens, continued.text)


ENDLESS = Sampling(logit_bias=((SPECIAL.index("<|im_end|>"), -1000.0),))


@pytest.fixture(scope="module", params=["qwen3", pytest.param("gpt_oss", marks=pytest.mark.slow)])
def digits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose replies are digits, which spell the same tokens again, and which history keeps."""
    folder = tmp_path_factory.mktemp("digits")
    write_model(folder, request.param, template=PLAIN, tie_word_embeddings=False)
    return restrict_to_tokens(folder, ["1", "3", "2", "4"])


def continued(model: Path, sessions: Path, *, cache: bool = True, settle: bool = True) -> TurnRecord:
    """The record of a reply of 200 tokens that goes on for 60, and is settled between."""
    with Harness(model, sessions, tokens=200, cache=cache, sampling=ENDLESS) as harness:
        chat = harness.chat("talk")
        assert 200 == len(harness.say(chat, MESSAGES[0], settle=settle).tokens)
        chat.sampling = replace(chat.sampling, max_tokens=60)
        return finish(regenerate.continue_reply(chat, threading.Event()))


def test_a_cut_reply_goes_on_without_being_run_again(model: Path, tmp_path: Path) -> None:
    uncached = continued(model, tmp_path / "uncached", cache=False)
    unsettled = continued(model, tmp_path / "unsettled", settle=False)
    settled = continued(model, tmp_path / "settled")
    assert uncached.prefilled_tokens > 200
    for record in (unsettled, settled):
        assert record.prefilled_tokens <= generate.STATE_TOKENS
        assert record.prefilled_tokens + record.reused_tokens == record.prompt_tokens
        assert (uncached.tokens, uncached.text, 60) == (record.tokens, record.text, record.generated_tokens)
        assert record.logprobs == pytest.approx(uncached.logprobs, abs=1e-5)
    assert unsettled.logprobs == settled.logprobs


@pytest.mark.slow
def test_a_reply_that_was_cut_again_goes_on_after_a_restart(model: Path, tmp_path: Path) -> None:
    first = continued(model, tmp_path)
    with Harness(model, tmp_path, tokens=20, sampling=ENDLESS) as harness:
        again = finish(regenerate.continue_reply(harness.chat("talk"), threading.Event()))
    assert first.tokens == again.tokens[:260]
    assert (280, 20) == (len(again.tokens), again.generated_tokens)
    assert again.prefilled_tokens <= generate.STATE_TOKENS


@pytest.mark.slow
def test_without_its_checkpoint_a_cut_reply_is_run_again(model: Path, tmp_path: Path) -> None:
    expected = continued(model, tmp_path / "kept")
    with Harness(model, tmp_path, tokens=200, sampling=ENDLESS) as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
    for path in segment_files(tmp_path):
        path.write_bytes(path.read_bytes()[:-1])
    with Harness(model, tmp_path, tokens=60, sampling=ENDLESS) as harness:
        record = finish(regenerate.continue_reply(harness.chat("talk"), threading.Event()))
    assert (0, expected.tokens) == (record.reused_tokens, record.tokens)
    assert record.logprobs == pytest.approx(expected.logprobs, abs=1e-5)


@pytest.mark.slow
def test_a_long_reply_goes_on_from_where_it_was_settled(digits: Path, tmp_path: Path) -> None:
    """A process that was killed has written no checkpoint within it."""
    expected = continued(digits, tmp_path / "kept")
    with Harness(digits, tmp_path, tokens=200, sampling=ENDLESS) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        (kept,) = chat.conversation.path()[-1].record["reply_segments"]
    (file,) = [path for path in segment_files(tmp_path) if kept[:16] in path.name]
    file.unlink()
    with Harness(digits, tmp_path, tokens=60, sampling=ENDLESS) as harness:
        record = finish(regenerate.continue_reply(harness.chat("talk"), threading.Event()))
    assert generate.STATE_TOKENS < record.prefilled_tokens < 100
    assert expected.tokens == record.tokens


@pytest.mark.parametrize(("family", "seed"), [("qwen3", 4), ("qwen3_5", 1)])
def test_settling_keeps_what_history_spells_alike(family: str, seed: int, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family, seed=seed, template=PLAIN, tie_word_embeddings=False)
    restrict_to_tokens(model, ["1", 0x0A, "2"])
    with Harness(model, tmp_path / "cached", tokens=58, sampling=ENDLESS) as harness:
        chat = harness.chat("talk")
        first = harness.say(chat, MESSAGES[0])
        run = [*render(chat, question(chat)).tokens, *first.tokens]
        path = render_history(chat, chat.conversation.path()[-1]).path
        shared = common_prefix(run, path.tokens[: path.end])
        assert first.prompt_tokens < shared < len(run)
        run_again = generate.STATE_TOKENS if family == "qwen3_5" else 1
        assert 0 <= first.settled_tokens - (path.end - shared) < run_again
        second = harness.say(chat, MESSAGES[1])
    with Harness(model, tmp_path / "uncached", tokens=58, sampling=ENDLESS, cache=False) as harness:
        chat = harness.chat("talk")
        assert [first.tokens, second.tokens] == [harness.say(chat, each).tokens for each in MESSAGES[:2]]
