"""The server's engine: what it reuses, how requests share it, and what is left after a restart."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import PIL.Image
import pytest

from chatcli.chat_format.token_bytes import as_bytes
from chatcli.conversation.images import Image, read
from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError, ContextFull, ImagesRefused, UsageError
from chatcli.events import PrefillProgress, PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.engine import Engine, Job, Reading
from chatcli.serve.request import CallsMade, ReplyDone, ReplyRequest, TokenLogprob
from chatcli.settings.values import ModelOptions, Sampling, Settings
from chatcli.store import maintenance
from chatcli.store.sessions.folder import SessionFolder
from tests.support.asking import Asked, Served, question, with_reply
from tests.support.families import at_night
from tests.support.harness import MESSAGES, SYSTEM, Harness
from tests.support.serving import serving
from tests.support.templates import QWEN3_TOOLS
from tests.support.tiny import SPECIAL, update_json, write_model, write_reciter
from tests.support.waiting import wait_until

DOCUMENT = "\n".join(f"{number}. My dog is called Biscuit." for number in range(30))
TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},)
# A model that cannot be run, nor its batch be left, while a file is there.
BRITTLE = """
from pathlib import Path

from mlx_lm.models import cache, qwen3
from mlx_lm.models.qwen3 import ModelArgs

BROKEN = Path({path!r})


def check():
    if BROKEN.exists():
        raise RuntimeError("broken")


class BatchCache(cache.BatchKVCache):
    def filter(self, kept):
        check()
        super().filter(kept)


class Cache(cache.KVCache):
    @classmethod
    def merge(cls, caches):
        return BatchCache.merge(caches)


class Model(qwen3.Model):
    def __call__(self, *given, **named):
        check()
        return super().__call__(*given, **named)

    def make_cache(self):
        return [Cache() for _ in self.layers]
"""
# JSON as a model may write it, and no library does.
CALL = '{"name":"look",  "arguments":{"at":"caf\\u00e9"}}'


def image(folder: Path, colour: str) -> Image:
    PIL.Image.new("RGB", (64, 48), colour).save(path := folder / f"{colour}.png")
    return read(path)


def counts(record: TurnRecord) -> tuple[int, int, int]:
    return record.prompt_tokens, record.reused_tokens, record.prefilled_tokens


def served_talk(served: Served, count: int, history: list[Message] | None = None) -> list[ReplyDone]:
    """The replies of the conversation, each settled before the next request."""
    messages, replies = history or [Message("system", SYSTEM)], []
    for text in MESSAGES[len(messages) // 2 :][:count]:
        messages = question(text, messages)
        replies.append(served.ask(messages))
        messages = with_reply(messages, replies[-1])
        served.rest()
    return replies


def test_each_request_reuses_what_the_shells_turn_does(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "shell") as harness:
        chat = harness.chat("talk")
        turns = [harness.say(chat, text) for text in MESSAGES]
    with Served(model, tmp_path / "server") as served:
        replies = served_talk(served, len(MESSAGES))
    assert [counts(turn) for turn in turns] == [counts(reply.record) for reply in replies]
    assert [turn.text for turn in turns] == [reply.record.text for reply in replies]
    assert [turn.tokens for turn in turns] == [reply.record.tokens for reply in replies]


def test_shell_and_server_continue_from_each_others_checkpoints(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness, Served(recurrent, tmp_path) as served:
        chat = harness.chat("talk")
        first = harness.say(chat, MESSAGES[0])
        harness.runtime.checkpoints.store.flush()  # type: ignore[union-attr]
        history = [*question(MESSAGES[0]), Message("assistant", first.text)]
        (second,) = served_talk(served, 1, history)
        again = harness.say(chat, MESSAGES[1], settle=False)
        # The server has the question's checkpoint too: the generation prompt is left.
        assert 0 < again.prefilled_tokens < second.record.prefilled_tokens
        assert first.prompt_tokens < second.record.reused_tokens < again.reused_tokens
        assert second.record.text == again.text


def test_after_a_restart_the_next_request_reuses_what_the_last_one_did(
    recurrent: Path, tmp_path: Path
) -> None:
    with Served(recurrent, tmp_path / "open") as served:
        replies = served_talk(served, 3)
    messages = [Message("system", SYSTEM)]
    for text, reply in zip(MESSAGES, replies, strict=False):
        with Served(recurrent, tmp_path / "reopened") as served:
            messages = question(text, messages)
            again = served.ask(messages)
            served.rest()
        assert (reply.record.text, counts(reply.record)) == (again.record.text, counts(again.record))
        assert again.record.miss_reason is None
        messages = with_reply(messages, again)


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.serve.test_engine import served_talk
from tests.support.asking import Served
served_talk(Served(Path(sys.argv[1]), Path(sys.argv[2]), recompute_seconds=1.0), 2)
print("settled", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_killed_server_leaves_what_it_settled(model: Path, tmp_path: Path) -> None:
    with Served(model, tmp_path / "open") as served:
        replies = served_talk(served, 3)
    command = [sys.executable, "-c", KILLED, str(model), str(tmp_path / "killed")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and b"settled\n" == process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    history = [Message("system", SYSTEM)]
    for text, reply in zip(MESSAGES[:2], replies, strict=False):
        history = with_reply(question(text, history), reply)
    with Served(model, tmp_path / "killed") as served:
        (third,) = served_talk(served, 1, history)
    assert (replies[2].record.text, counts(replies[2].record)) == (third.record.text, counts(third.record))


def test_a_prompt_is_counted_without_being_run(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path) as served:
        counted = served.ask(question(MESSAGES[0]), count_only=True).record
        assert (0, 0) == (served.engine.status()["requests"], counted.generated_tokens)
        served.rest()
        first = served.ask(question(MESSAGES[0])).record
        assert (first.prompt_tokens, 0) == (counted.prompt_tokens, first.reused_tokens)
        # Also of a prompt that does not fit.
        assert served.ask(question("word " * 3000), count_only=True).record.prompt_tokens > 3000


def test_an_identical_request_runs_what_comes_after_its_stable_prefix(model: Path, tmp_path: Path) -> None:
    with Served(model, tmp_path) as served:
        first = served.ask(question(DOCUMENT))
        served.rest()
        other = served.ask(question(MESSAGES[0]))
        again = served.ask(question(DOCUMENT))
        assert first.record.prompt_tokens == again.record.prompt_tokens
        assert again.record.prefilled_tokens <= 16
        assert first.record.tokens == again.record.tokens
        assert other.record.reused_tokens > 0


def test_requests_at_once_get_the_replies_that_they_get_alone(model: Path, tmp_path: Path) -> None:
    texts = [*MESSAGES, "Answer briefly.", DOCUMENT]
    with Served(model, tmp_path / "alone") as served:
        alone = [served.ask(question(text)).record for text in texts]
    with Served(model, tmp_path / "together") as served:
        asked = [served.submit(question(text)) for text in texts]
        together = [each.done().record for each in asked]
        served.rest()
    assert [record.tokens for record in alone] == [record.tokens for record in together]
    # What they begin with is computed once.
    system = together[1].reused_tokens
    assert 0 < system and [0, *[system] * (len(texts) - 1)] == [each.reused_tokens for each in together]


def test_a_reply_that_is_generated_goes_on_while_another_request_comes(
    recurrent: Path, tmp_path: Path
) -> None:
    # One chunk, which is longer than a reply is to wait.
    options = {"tokens": 64, "model_options": ModelOptions(prefill_step_size=4096)}
    long = "\n".join([DOCUMENT] * 4)
    with Served(recurrent, tmp_path / "alone", **options) as served:
        expected = [served.ask(question(text)).record.tokens for text in (MESSAGES[0], long)]
    with Served(recurrent, tmp_path / "both", **options) as served:
        first = served.submit(question(MESSAGES[0]))
        first.until(TextDelta)
        second = served.submit(question(long))
        replies = [first.done(), second.done()]
        assert expected == [reply.record.tokens for reply in replies]
        # Between two layers of the chunk, too.
        done = [event.done for event in second.events if isinstance(event, PrefillProgress)]
        assert 0 in done
        served.rest()
        history = with_reply(question(MESSAGES[0]), replies[0])
        # It was settled although another request took the live cache from it.
        third = served.ask(question(MESSAGES[1], history)).record
        assert third.reused_tokens > replies[0].record.prompt_tokens


def test_a_short_request_is_answered_while_a_long_prompt_is_read(model: Path, tmp_path: Path) -> None:
    long, short = question("\n".join([DOCUMENT] * 4)), question(MESSAGES[0])
    options = {"tokens": 2, "model_options": ModelOptions(prefill_step_size=64)}
    with Served(model, tmp_path / "alone", **options) as served:
        expected = [served.ask(messages).record for messages in (long, short)]
    with Served(model, tmp_path / "both", **options) as served:
        first = served.submit(long)
        first.until(PrefillProgress)
        reply = served.ask(short)
        first.cancelled.set()
        stopped = first.done().record
        assert ("cancelled", []) == (stopped.finish_reason, stopped.tokens)
        # What it has read is kept.
        again = served.ask(long)
        assert stopped.prompt_tokens - stopped.unrun_tokens == again.record.reused_tokens
    assert [record.tokens for record in expected] == [again.record.tokens, reply.record.tokens]


def test_who_waits_long_is_read_before_the_shortest() -> None:
    request = ReplyRequest(tuple(question("Hi.")))
    long, short, later = (
        Reading(Job(request, print, threading.Event(), received), seconds=seconds)
        for received, seconds in ((0.0, 12.0), (1.0, 0.1), (60.0, 0.1))
    )
    assert short.urgency(2.0) > long.urgency(2.0)
    assert long.urgency(61.0) > later.urgency(61.0)


def test_prompts_prefilled_together_are_stored_as_if_alone(model: Path, tmp_path: Path) -> None:
    texts = [f"{number}. {text}" for number, text in enumerate(MESSAGES[:4])]
    outcomes = []
    for name in ("alone", "together"):
        with Served(model, tmp_path / name) as served:
            if name == "alone":
                replies = []
                for text in texts:
                    replies.append(served.ask(question(text)))
                    served.rest()
            else:
                asked = [served.submit(question(text)) for text in texts]
                replies = [each.done() for each in asked]
                # Its newest message was read for the reply only.
                progress = [event for event in asked[-1].events if isinstance(event, PrefillProgress)]
                assert all(event.done < event.total for event in progress)
                served.rest()
        with Served(model, tmp_path / name) as served:
            for text, reply in zip(texts, replies, strict=True):
                record = served.ask(question("And now?", with_reply(question(text), reply))).record
                outcomes.append((counts(record), record.tokens, record.logprobs))
                served.rest()
    assert outcomes[: len(texts)] == outcomes[len(texts) :]


def ask_many(served: Served, count: int, at_once: int) -> list[TurnRecord]:
    """The records of so many requests, of which each one that ends makes room for the next; few are long."""
    texts = [f"{n}. {DOCUMENT if n % 8 == 0 else MESSAGES[n % len(MESSAGES)]}" for n in range(count)]
    with ThreadPoolExecutor(at_once) as clients:
        return list(clients.map(lambda text: served.ask(question(text)).record, texts))


@pytest.mark.slow
def test_of_64_at_once_all_are_answered(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path, tokens=4) as served:
        records = ask_many(served, 64, 64)
        assert {"length"} >= {record.finish_reason for record in records} - {"stop"}
        assert all(record.tokens for record in records)
        assert (0, 0) == (served.engine.status()["active"], served.engine.status()["queued"])


@pytest.mark.slow
def test_memory_is_flat_while_500_requests_come_and_go(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path, tokens=16) as served:
        used = []
        for _ in range(2):
            assert all(record.tokens for record in ask_many(served, 250, 64))
            served.rest()
            used.append(served.engine.status()["memory_bytes"])
        assert used[1] <= 1.1 * used[0]


def test_a_short_reply_does_not_wait_for_a_long_one(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path, tokens=1500) as served:
        long = served.submit(question(MESSAGES[0]))
        long.until(ThinkingDelta)
        short = served.ask(question(DOCUMENT), sampling=Sampling(max_tokens=2))
        long.cancelled.set()
        assert (2, "cancelled") == (short.record.generated_tokens, long.done().record.finish_reason)


def test_a_seed_draws_the_same_beside_others(recurrent: Path, tmp_path: Path) -> None:
    sampling = Sampling(temp=1.0, seed=5)
    with Served(recurrent, tmp_path) as served:
        alone = served.ask(question(MESSAGES[0]), sampling=sampling).record.tokens
        first, *others = [served.submit(question(text), sampling=sampling) for text in MESSAGES[:3]]
        assert alone == first.done().record.tokens
        assert all(other.done().record.tokens != alone for other in others)


def test_a_cancelled_prefill_keeps_what_was_done(recurrent: Path, tmp_path: Path) -> None:
    long = question("\n".join([DOCUMENT] * 4))
    with Served(recurrent, tmp_path) as served:
        asked = served.submit(long)
        asked.until(PrefillProgress)
        asked.cancelled.set()
        stopped = asked.done().record
        assert ("cancelled", []) == (stopped.finish_reason, stopped.tokens)
        done = stopped.prompt_tokens - stopped.unrun_tokens
        assert 0 < done < stopped.prompt_tokens
        again = served.ask(long).record
        assert done == again.reused_tokens
        assert "length" == again.finish_reason


def test_a_cancelled_reply_ends_and_leaves_the_others(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path) as served:
        # With a bias against the token that ends a reply, none ends by itself before it is cancelled.
        endless = ((SPECIAL.index("<|im_end|>"), -100.0),)
        asked = [
            served.submit(question(text), sampling=Sampling(max_tokens=count, logit_bias=endless))
            for text, count in zip(MESSAGES, (200, 3000, 200), strict=False)
        ]
        asked[1].until(ThinkingDelta)
        asked[1].cancelled.set()
        reasons = [each.done().record.finish_reason for each in asked]
        assert [False, True, False] == [reason == "cancelled" for reason in reasons]


def test_a_request_that_fails_leaves_the_others(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path) as served:
        good = served.submit(question(MESSAGES[0]))
        with pytest.raises(ContextFull, match="does not fit"):
            served.ask(question("word " * 5000))
        with pytest.raises(ContextFull, match="more tokens than the model's context"):
            served.ask(question("word " * 1_000_000))
        with pytest.raises(UsageError, match="no message"):
            served.ask([Message("system", "a")])
        assert good.done().record.tokens


def test_a_batch_that_cannot_be_closed_ends_its_replies_only(models: Path, tmp_path: Path) -> None:
    folder, broken = Path(shutil.copytree(models / "qwen3", tmp_path / "model")), tmp_path / "broken"
    (folder / "arch.py").write_text(BRITTLE.format(path=str(broken)))
    update_json(folder / "config.json", model_file="arch.py")
    endless = Sampling(max_tokens=2000, logit_bias=((SPECIAL.index("<|im_end|>"), -100.0),))
    with Served(folder, tmp_path / "sessions", trust_remote_code=True) as served:
        asked = [served.submit(question(text), sampling=endless) for text in MESSAGES[:3]]
        for each in asked:
            each.until(TextDelta)
        broken.touch()
        for each in asked:
            with pytest.raises(ChatcliError, match="failed on this request"):
                each.done()
        broken.unlink()
        assert served.ask(question(MESSAGES[3])).record.tokens
        assert not served.engine.failed


def test_a_server_whose_scheduler_has_died_says_so(recurrent: Path, tmp_path: Path) -> None:
    engine = Engine(Settings(sessions=tmp_path), str(recurrent))
    with serving(engine) as url:
        assert {"status": "ok"} == json.load(urlopen(f"{url}/health"))
        # A bug, in place of a reply that is to be settled.
        engine._ended._unsettled.append(None)  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(ChatcliError, match="failed on this request"):
                Asked(engine, ReplyRequest(tuple(question(MESSAGES[0])))).done()
        wait_until(lambda: engine.failed)
        with pytest.raises(HTTPError, match="503") as refused:
            urlopen(f"{url}/health")
        assert {"status": "failed"} == json.load(refused.value)
    engine.close()


@pytest.mark.slow
def test_replies_take_turns_where_the_cache_cannot_be_batched(models: Path, tmp_path: Path) -> None:
    options = ModelOptions(max_kv_size=64)
    with Served(models / "qwen3", tmp_path / "alone", model_options=options) as served:
        alone = [served.ask(question(text)).record for text in MESSAGES]
    with Served(models / "qwen3", tmp_path / "in_turns", model_options=options) as served:
        asked = [served.submit(question(text)) for text in MESSAGES]
        in_turns = [each.done().record for each in asked]
        starts = [record.time_to_first_token or 0.0 for record in in_turns]
    assert [record.tokens for record in alone] == [record.tokens for record in in_turns]
    assert starts == sorted(starts)


@pytest.mark.slow
def test_images_hit_by_their_content(vision_model: Path, tmp_path: Path) -> None:
    cat, dog = (image(tmp_path, colour) for colour in ("red", "blue"))
    asked = Message("user", "What is this?", images=(cat.picture,))
    with Served(vision_model, tmp_path / "s", trust_remote_code=True) as served:
        first = served.ask([asked], images=(cat,))
        served.rest()
        again = [*with_reply([asked], first), Message("user", "And now?")]
        second = served.ask(again, images=(cat,))
        assert second.record.reused_tokens > first.record.prompt_tokens - 8
        other = served.ask([replace(asked, images=(dog.picture,))], images=(dog,))
        assert other.record.reused_tokens < 8
    with Served(vision_model, tmp_path / "s", trust_remote_code=True) as served:
        text = served.ask(question(MESSAGES[0]))
        assert text.record.tokens
        third = served.ask([*with_reply(again, second), Message("user", "Again?")], images=(cat,))
        assert third.record.reused_tokens > second.record.prompt_tokens - 8


def test_closing_ends_a_prefill_and_refuses_what_waits(recurrent: Path, tmp_path: Path) -> None:
    served = Served(recurrent, tmp_path)
    long = served.submit(question("\n".join([DOCUMENT] * 4)))
    # Longer: it does not get its turn before.
    waiting = served.submit(question("\n".join([DOCUMENT] * 6)))
    long.until(PrefillProgress)
    assert served.engine.close() is None
    assert "cancelled" == long.done().record.finish_reason
    for refused in (waiting, served.submit(question(MESSAGES[0]))):
        with pytest.raises(ChatcliError, match="stopping"):
            refused.done()


def test_a_prompt_without_template_is_run_as_it_is(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path) as served:
        asked = served.submit([], prompt=DOCUMENT, top_logprobs=3)
        first = asked.done().record
        shown = [event for event in asked.events if isinstance(event, TokenLogprob)]
        assert first.tokens == [each.id for each in shown]
        assert all(each.logprob == pytest.approx(each.top[0][2], abs=1e-5) for each in shown)
        again = served.ask([], prompt=DOCUMENT).record
        assert (1, first.tokens) == (again.prefilled_tokens, again.tokens)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose every reply is a call."""
    folder: Path = tmp_path_factory.mktemp("caller")
    return write_reciter(folder, QWEN3_TOOLS, ["<tool_call>", CALL, "</tool_call>"])


@pytest.mark.parametrize("restarted", [False, True])
def test_a_tool_call_is_replayed_as_it_was_written(caller: Path, tmp_path: Path, restarted: bool) -> None:
    served = Served(caller, tmp_path)
    asked = served.submit(question("Look."), tools=TOOLS)
    calls = asked.until(CallsMade).calls
    reply = asked.done()
    assert ("look", f"<tool_call>{CALL}</tool_call>") == (calls[0].name, reply.record.text)
    assert calls[0].id == reply.calls[0].id
    served.rest()
    if restarted:
        served.engine.close()
        served = Served(caller, tmp_path)
    messages = with_reply(question("Look."), reply)
    assert CALL not in messages[-1].content + messages[-1].tool_calls[0].arguments
    result = Message("tool", "a cat", tool_call_id=calls[0].id)
    second = served.ask([*messages, result], tools=TOOLS).record
    # Nothing before the result is run again.
    assert second.reused_tokens >= reply.record.prompt_tokens + reply.record.generated_tokens
    assert second.miss_reason is None
    served.engine.close()


def test_a_message_in_place_of_a_tools_result_is_no_miss(caller: Path, tmp_path: Path) -> None:
    with Served(caller, tmp_path, keep=True) as served:
        first = served.ask(question("Look."), tools=TOOLS).record
        served.rest()
    (name,) = SessionFolder(tmp_path).names()
    with Harness(caller, tmp_path) as harness:
        record = harness.say(harness.chat(name), "And now?", settle=False)
        assert record.reused_tokens > first.prompt_tokens - 8 and record.miss_reason is None


def test_what_changed_in_a_prompt_is_said_with_both_texts(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path) as served:
        (first,) = served_talk(served, 1)
    system, *history = with_reply(question(MESSAGES[0]), first)
    changed = [Message("system", f"Today. {system.content}"), *history]
    with Served(recurrent, tmp_path) as served:
        asked = served.submit(question(MESSAGES[1], changed))
        reason = asked.until(PrefixMatched).miss_reason
    assert "'You are" in reason and "→ 'Today." in reason


def test_kept_conversations_are_sessions_with_branches(recurrent: Path, tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    with Served(recurrent, tmp_path, keep=True) as served:
        first, _ = served_talk(served, 2)
    history = with_reply(question(MESSAGES[0]), first)
    with Served(recurrent, tmp_path, keep=True) as served:
        served.ask(question("7 and 5?", history))
        (name,) = folder.names()
        with folder.open(name):
            served.ask(question("Another one.", history))
    assert 2 == len(folder.names())
    kept = folder.read(name).conversation
    assert SYSTEM == kept.system
    assert [MESSAGES[0], "7 and 5?"] == [turn.user.message.content for turn in kept.turns()]
    assert 2 == kept.branch_count()
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat(name)
        record = harness.say(chat, MESSAGES[2], settle=False)
        assert record.reused_tokens > first.record.prompt_tokens


def test_a_renamed_session_is_continued(recurrent: Path, tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    with Served(recurrent, tmp_path, keep=True) as served:
        (first,) = served_talk(served, 1)
        folder.rename(*folder.names(), "renamed")
        history = with_reply(question(MESSAGES[0]), first)
        served_talk(served, 2, history)
    assert ["renamed"] == folder.names()
    assert list(MESSAGES[:3]) == [
        turn.user.message.content for turn in folder.read("renamed").conversation.turns()
    ]


def test_a_conversation_that_was_deleted_is_kept_as_one_again(recurrent: Path, tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    with Served(recurrent, tmp_path, keep=True) as served:
        served_talk(served, 2)
        (name,) = folder.names()
        maintenance.delete(folder, name)
        served_talk(served, 2)
        served.ask(question(MESSAGES[0]), effort="high")
    assert [name] == folder.names()
    assert "high" == folder.read(name).conversation.effort


def test_a_folder_that_is_removed_ends_no_reply(recurrent: Path, tmp_path: Path) -> None:
    with Served(recurrent, tmp_path / "saved", keep=True) as served:
        first = served.ask(question(MESSAGES[0]))
        served.rest()
        shutil.rmtree(tmp_path / "saved")
        assert first.record.tokens == served.ask(question(MESSAGES[0])).record.tokens
        assert served.ask(question(MESSAGES[1])).record.tokens


def test_what_was_served_lately_is_not_garbage(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness, Served(recurrent, tmp_path) as served:
        harness.say(harness.chat("other"), "Something else.")
        first, _ = served_talk(served, 2)
    maintenance.delete(SessionFolder(tmp_path), "other")
    with Served(recurrent, tmp_path) as served:
        again = served_talk(served, 1, with_reply(question(MESSAGES[0]), first))
        assert again[0].record.reused_tokens > first.record.prompt_tokens


def test_the_bytes_of_all_logprobs_are_the_text(model: Path, tmp_path: Path) -> None:
    with Served(model, tmp_path) as served:
        asked = served.submit([], prompt="My dog", top_logprobs=3)
        record = asked.done().record
    tokens = [event for event in asked.events if isinstance(event, TokenLogprob)]
    data = [as_bytes(token.text) for token in tokens]
    # A random model hardly ever says a whole character.
    assert any(part != part.decode("utf-8", "replace").encode() for part in data)
    assert record.text == b"".join(data).decode("utf-8", "replace").rstrip("\n")
    for token in tokens:
        assert token.text in [text for _, text, _ in token.top] or token.logprob < token.top[-1][2]


def test_a_request_for_no_tokens_reads_its_prompt_for_the_next(model: Path, tmp_path: Path) -> None:
    with Served(model, tmp_path) as served:
        warmed = served.ask(question(DOCUMENT), sampling=Sampling(max_tokens=0)).record
        assert ("length", 0, "") == (warmed.finish_reason, warmed.generated_tokens, warmed.text)
        assert 0 < warmed.prefilled_tokens == warmed.prompt_tokens
        served.rest()
    with Served(model, tmp_path) as served:
        assert served.ask(question(DOCUMENT)).record.reused_tokens > warmed.prompt_tokens - 20


@pytest.fixture
def pictured(tmp_path: Path) -> Image:
    return image(tmp_path, "red")


def test_an_image_for_a_model_that_sees_none_is_refused_once(
    recurrent: Path, tmp_path: Path, pictured: Image, caplog: pytest.LogCaptureFixture
) -> None:
    asked = Message("user", "What is this?", images=(pictured.picture,))
    shown = {"images": (pictured,), "brought": (pictured.picture.sha256,)}
    with Served(recurrent, tmp_path) as served:
        for _ in range(2):
            with pytest.raises(ImagesRefused, match="cannot see images"):
                served.ask([asked], **shown)
        # Clients put what is said next beside it, into the same message, or after a reply.
        for messages in (
            [asked, Message("user", "Leave it.")],
            [replace(asked, content="What is this?\nLeave it.")],
            [asked, Message("assistant", "A cat."), Message("user", "Really?")],
        ):
            brings = shown if messages[-1].images else {**shown, "brought": ()}
            noted = served.ask(messages, **brings).record
            plain = [
                replace(each, images=(), content=f"[image: not shown to this model]\n{each.content}")
                if each.images
                else each
                for each in messages
            ]
            assert noted.prompt_tokens == served.ask(plain).record.prompt_tokens
        call = ToolCall("look", "{}", "c1")
        loop = [
            Message("user", "Look."),
            Message("assistant", "", tool_calls=(call,)),
            Message("tool", "", images=(pictured.picture,), tool_call_id="c1"),
        ]
        served.ask(loop, images=(pictured,))
    assert 1 == sum("is not shown" in record.getMessage() for record in caplog.records)


def huge(where: str) -> dict[str, object]:
    """A request with ten megabytes in one place."""
    words = "The quick brown fox. " * 500_000
    call = ToolCall("look", "{}", "c1")
    call = {
        "arguments": replace(call, arguments=json.dumps({"at": words})),
        "name": replace(call, name=words),
        "id": replace(call, id=words),
    }.get(where, call)
    thinking = words if where == "thinking" else ""
    described = {"type": "function", "function": {"name": "look", "description": words, "parameters": {}}}
    return {
        "messages": [
            *question(MESSAGES[0]),
            Message("assistant", "", thinking, tool_calls=(call,)),
            Message("tool", "red", tool_call_id=call.id),
        ],
        "tools": (described,) if where == "description" else TOOLS,
        "arguments": {"more": words} if where == "template argument" else {},
        "effort": words if where == "effort" else None,
    }


@pytest.mark.parametrize(
    "where",
    ["description", "arguments", "name", "id", "thinking", "template argument", "effort"],
)
def test_what_cannot_fit_is_refused_wherever_it_stands_while_others_get_tokens(
    where: str, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", "qwen3", template=QWEN3_TOOLS)
    with Served(model, tmp_path / "sessions", tokens=3000) as served:
        served.ask(**{**huge(""), "sampling": Sampling(max_tokens=1)})  # type: ignore[arg-type]
        stream = served.submit(question(DOCUMENT), sampling=Sampling(logit_bias=((2, -1e6),)))
        stream.until(TextDelta)
        request = huge(where)
        began = time.monotonic()
        with pytest.raises(ContextFull, match="context"):
            served.ask(**request)  # type: ignore[arg-type]
        assert time.monotonic() - began < 3
        stream.cancelled.set()
        assert "cancelled" == stream.done().record.finish_reason


def test_a_history_without_a_question_is_answered_and_kept(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "qwen3_5", template=QWEN3_TOOLS)
    call = ToolCall("look", "{}", "abcdefghi")
    cut = [Message("system", SYSTEM), Message("assistant", "", tool_calls=(call,))]
    cut.append(Message("tool", "a cat", tool_call_id=call.id))
    with Served(model, tmp_path / "saved", keep=True) as served:
        first = served.ask(cut, tools=TOOLS).record
        served.rest()
        again = served.ask(cut, tools=TOOLS).record
    assert first.tokens == again.tokens and again.reused_tokens > 0.9 * first.prompt_tokens
    assert 1 == len(SessionFolder(tmp_path / "saved").names())


def test_a_reply_ends_after_the_one_call_that_was_asked_for(tmp_path: Path) -> None:
    model = write_reciter(
        tmp_path / "model", QWEN3_TOOLS, ["<tool_call>", f"[{CALL},{CALL}]", "</tool_call>", "x"]
    )
    with Served(model, tmp_path / "saved") as served:
        asked = question("Look.")
        assert 2 == len(served.ask(asked, tools=TOOLS).calls)
        reply = served.ask(asked, tools=TOOLS, one_call=True)
        assert 1 == len(reply.calls) and "stop" == reply.record.finish_reason
        served.rest()
        history = [*with_reply(asked, reply), Message("tool", "a cat", tool_call_id=reply.calls[0].id)]
        record = served.ask(history, tools=TOOLS, one_call=True).record
        assert record.reused_tokens > 0.8 * record.prompt_tokens


@pytest.mark.parametrize("name", ["qwen3_5", "gpt_oss", at_night("qwen3")])
def test_a_reply_continues_from_its_beginning(models: Path, tmp_path: Path, name: str) -> None:
    asked, beginning = question(DOCUMENT), Message("assistant", "My dog is")
    with Served(models / name, tmp_path) as served:
        first = served.ask(asked, beginning=beginning, think=False).record
        assert first.text.startswith("My dog is") and len(first.text) > len("My dog is")
        assert first.generated_tokens < len(first.tokens)
        served.rest()
        together = [served.submit(asked, beginning=beginning, think=False) for _ in range(3)]
        for each in together:
            deltas = each.done().record
            assert deltas.tokens == first.tokens and deltas.reused_tokens > 0.9 * deltas.prompt_tokens
            shown = [event.text for event in each.events if isinstance(event, TextDelta)]
            assert first.text == "My dog is" + "".join(shown).rstrip("\n")
        served.rest()
        again = [*asked, Message("assistant", first.text), Message("user", "And?")]
        record = served.ask(again, think=False).record
        assert record.prompt_tokens - record.reused_tokens < 60


def test_a_thought_continues_from_its_beginning(models: Path, tmp_path: Path) -> None:
    with Served(models / "qwen3_5", tmp_path) as served:
        record = served.ask(question("Hello"), beginning=Message("assistant", "", "Biscuit is")).record
    assert record.thinking.startswith("Biscuit is") and len(record.thinking) > len("Biscuit is")
