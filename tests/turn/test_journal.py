"""A reply is in the session's file while it streams: a killed process does not lose it."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chatcli.conversation.tree import Conversation
from chatcli.events import Batched, TextDelta, ThinkingDelta
from chatcli.settings.values import Sampling
from chatcli.store.sessions import search
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.transcript import Transcript, encode, parse, part_line, recovered
from chatcli.turn import batch, regenerate, turn
from tests.store.sessions.test_folder import HEADER, line, user
from tests.support.harness import Harness, finish
from tests.support.program import Program, entries
from tests.support.tiny import OPEN_THINK, SPECIAL, restrict_to_tokens, write_model
from tests.support.waiting import wait_until

SEED = int(os.environ.get("CHATCLI_SEED", "20261122"))
# What a killed process may have shown and not saved.
BEHIND_SECONDS = 1.0
CUT_OFF = "Turn 1's reply was cut off. /continue resumes it, /regenerate writes another."


class Watched:
    """A process whose output is read as it comes: (when, characters so far)."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.out, self.err = b"", b""
        self._times: list[tuple[float, int, int]] = []
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream.fileno()))
            for name, stream in (("out", process.stdout), ("err", process.stderr))
            if stream is not None
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, descriptor: int) -> None:
        while data := os.read(descriptor, 65536):
            setattr(self, name, getattr(self, name) + data)
            self._times.append((time.monotonic(), len(self.out), len(self.err)))

    def kill(self, number: int) -> tuple[str, str]:
        """End the process with a signal. Returns text and thinking that were there long enough."""
        killed = time.monotonic()
        self.process.send_signal(number)
        self.process.wait()
        for reader in self._readers:
            reader.join()
        out = max((out for when, out, _ in self._times if when < killed - BEHIND_SECONDS), default=0)
        err = max((err for when, _, err in self._times if when < killed - BEHIND_SECONDS), default=0)
        return self.out[:out].decode(errors="ignore"), self.err[:err].decode(errors="ignore")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that never stops thinking and one that answers, with room for more than is waited for."""
    folder = tmp_path_factory.mktemp("endless")
    for name, fourth in (("thinker", "d"), ("speaker", "</think>")):
        model = write_model(folder / name, "gpt_oss", template=OPEN_THINK, max_position_embeddings=131072)
        restrict_to_tokens(model, ["a", "b", fourth, "c"])
    return folder


def start(program: Program, kind: str, name: str) -> Watched:
    """A process that streams a reply which does not stop, to a prompt or to the message of a script."""
    endless = ("--logit-bias", f"{SPECIAL.index('<|im_end|>')}:-1000")
    options = ("-S", name, "--temp", "1", "--top-k", "2", *endless, "-m", program.model)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.PIPE}
    process = program.start(*(("ask", "Hello.") if kind == "ask" else ("chat",)), *options, **pipes)
    assert process.stdin is not None
    process.stdin.write(b"" if kind == "ask" else b"Hello.\n")
    process.stdin.close()
    return Watched(process)


@pytest.mark.parametrize(
    ("kind", "model", "number", "attempts"),
    [
        ("chat", "thinker", signal.SIGKILL, 1),
        pytest.param("ask", "speaker", signal.SIGTERM, 1, marks=pytest.mark.slow),
        pytest.param("ask", "thinker", signal.SIGHUP, 1, marks=pytest.mark.slow),
        pytest.param("ask", "speaker", signal.SIGKILL, 3, marks=pytest.mark.slow),
        pytest.param("chat", "thinker", signal.SIGKILL, 3, marks=pytest.mark.slow),
        pytest.param("chat", "speaker", signal.SIGHUP, 3, marks=pytest.mark.slow),
        pytest.param("chat", "thinker", signal.SIGTERM, 3, marks=pytest.mark.slow),
    ],
)
def test_what_was_shown_a_second_before_a_kill_is_there(
    kind: str, model: str, number: signal.Signals, attempts: int, endless: Path, tmp_path: Path
) -> None:
    program = Program(tmp_path / "home", endless / model)
    rng = random.Random(SEED)
    kept = 0
    for attempt in range(attempts):
        victim = start(program, kind, name := f"talk-{attempt}")
        while not (victim.out or victim.err):
            assert None is victim.process.poll()
            time.sleep(0.01)
        time.sleep(rng.uniform(1, 2.5))
        assert None is victim.process.poll()
        text, thinking = victim.kill(number)
        folder = SessionFolder(program.sessions)
        with folder.open(name) as session:
            (entry,) = (turn.reply for turn in session.conversation.turns() if turn.reply)
            assert [CUT_OFF] == list(recovered(session.transcript))
        saved = entry.message
        assert "cancelled" == entry.finish_reason
        assert saved.content.startswith(text.strip()), (text, saved)
        assert saved.thinking.startswith(thinking.strip()), (thinking, saved)
        # Every token is a character, but for the mark that closes thinking and later is text.
        written = (saved.content + saved.thinking).replace("</think>", "/")
        assert len(written) <= len(entry.record["generated"])
        kept += len(text) + len(thinking)
        # Opened once, it is a reply like any other.
        assert [] == list(recovered(folder.read(name)))
        assert entry == folder.read(name).conversation.entries[entry.id]
    assert kept


def test_what_came_is_kept_where_the_reader_leaves(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path / "home", models / "speaker")
    endless = ("--temp", "1", "--top-k", "2", "--logit-bias", f"{SPECIAL.index('<|im_end|>')}:-1000")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = program.start("ask", "Hello.", "-S", "talk", *endless, **streams)
    shown = b""
    assert process.stdout is not None
    while len(shown) < 20:
        shown += os.read(process.stdout.fileno(), 20)
    process.stdout.close()
    assert process.wait(60)
    (reply,) = (each.reply for each in SessionFolder(program.sessions).read("talk").conversation.turns())
    assert reply is not None and "cancelled" == reply.finish_reason
    assert reply.message.content.startswith(shown.decode().strip()) and shown


def streamed(harness: Harness, sessions: Path, copies: Path, message: str) -> tuple[Transcript, list[int]]:
    """A session's transcript as a kill in the middle of a reply would leave it, and the whole reply's tokens.

    The copy is made in `copies` when the file has a part of the reply.
    """
    path, copy = sessions / "talk.jsonl", copies / "talk.jsonl"
    chat = harness.chat("talk")
    events = turn.take(chat, message, threading.Event())
    for event in events:
        if isinstance(event, TextDelta | ThinkingDelta):
            break
    wait_until(lambda: b'"type": "part"' in path.read_bytes())
    copies.mkdir()
    copy.write_bytes(path.read_bytes())
    return SessionFolder(copies).read("talk"), finish(events).tokens


def test_an_interrupted_reply_goes_on_as_if_it_never_was(models: Path, tmp_path: Path) -> None:
    sessions, copies = tmp_path / "sessions", tmp_path / "copies"
    with Harness(models / "qwen3_5", sessions, tokens=40) as harness:
        transcript, whole = streamed(harness, sessions, copies, "My dog is called Biscuit.")
        assert entries(sessions / "talk.jsonl")[-1]["id"] in transcript.interrupted
    (reply,) = (each.reply for each in transcript.conversation.turns())
    assert reply is not None
    generated = reply.record["generated"]
    assert generated == whole[: len(generated)] and generated
    with Harness(models / "qwen3_5", copies, tokens=40 - len(generated)) as harness:
        chat = harness.chat("talk")
        assert whole == finish(regenerate.continue_reply(chat, threading.Event())).tokens
        assert 2 == len(chat.conversation.children(reply.parent))


def batched(harness: Harness, sessions: Path, copies: Path, kind: str) -> tuple[Transcript, Conversation]:
    """A session as a kill in the middle of two replies at once would leave it, and as it is in the end.

    It has one turn before. The copy is made in `copies` when the file has a part of each reply.
    """
    path, copy = sessions / "talk.jsonl", copies / "talk.jsonl"
    chat = replace(harness.chat("talk"), sampling=Sampling(1.0, seed=5, max_tokens=40))
    harness.say(chat, "My dog is called Biscuit.")
    if kind == "each":
        events = batch.answer_each(chat, ["7 and 5?", "What is my dog called?"], threading.Event())
    else:
        events = batch.alternatives(chat, 2, threading.Event())
    for event in events:
        if isinstance(event, Batched) and event.tokens >= 20:
            break
    part_of = re.compile(r'"part", "id": "(\w+)"')
    wait_until(lambda: 2 == len({*part_of.findall(path.read_text())} - {*chat.conversation.entries}))
    copies.mkdir()
    copy.write_bytes(path.read_bytes())
    assert list(events)
    return SessionFolder(copies).read("talk"), chat.conversation


@pytest.mark.parametrize("kind", ["each", "alternatives"])
def test_of_replies_at_once_each_is_there_as_far_as_it_came(kind: str, models: Path, tmp_path: Path) -> None:
    sessions, copies = tmp_path / "sessions", tmp_path / "copies"
    with Harness(models / "qwen3_5", sessions) as harness:
        transcript, whole = batched(harness, sessions, copies, kind)
    cut = transcript.conversation
    assert 2 == len(transcript.interrupted)
    for identifier in transcript.interrupted:
        reply, all_of_it = cut.entries[identifier], whole.entries[identifier]
        assert (all_of_it.parent, "cancelled") == (reply.parent, reply.finish_reason)
        assert all_of_it.message.content.startswith(reply.message.content)
        tokens = reply.record["generated"]
        assert all_of_it.record["generated"][: len(tokens)] == tokens and tokens
        assert all_of_it.record["segments"] == reply.record["segments"]
    if kind == "each":
        assert whole.head == cut.head
        told = ["2 other replies were cut off: /tree shows what came."]
    else:
        assert cut.head in transcript.interrupted
        told = [CUT_OFF, "1 other reply was cut off: /tree shows what came."]
    assert told == list(recovered(transcript))
    ended = SessionFolder(sessions).read("talk")
    assert (whole.head, whole.entries.keys()) == (ended.conversation.head, ended.conversation.entries.keys())
    assert [] == [*ended.problems, *ended.interrupted]
    with SessionFolder(copies).open("talk") as session:
        assert cut.head == session.conversation.head
    assert (cut, set()) == ((reread := SessionFolder(copies).read("talk")).conversation, reread.interrupted)


# What a reader makes of the lines


def part(at: int, content: str, thinking: str = "", count: int = 1, **more: object) -> bytes:
    return encode({**part_line("r", at, content, thinking, [7] * count), **more})


FIRST = {"parent": "u", "time": 2.0, "record": {"prompt_tokens": 5}}
PARTS = [part(0, "", "Hm", 2, **FIRST), part(2, "Bis", " hm.\n"), part(3, "cuit.\n", count=2)]
WHOLE = line(type="assistant", id="r", parent="u", content="Biscuit.", time=3.0, finish_reason="stop")
AFTER = user("v", "r", "And?")


def reply_of(data: bytes) -> tuple[str, str, str | None, list[int]]:
    reply = parse("dog", data).conversation.entries["r"]
    return (
        reply.message.content,
        reply.message.thinking,
        reply.finish_reason,
        list(reply.record.get("generated", ())),
    )


def test_parts_without_an_end_are_a_reply_that_was_cut() -> None:
    data = HEADER + user("u", None) + b"".join(PARTS)
    assert ("Biscuit.", "Hm hm.", "cancelled", [7] * 5) == reply_of(data)
    transcript = parse("dog", data)
    assert "r" == transcript.conversation.head
    assert 5 == transcript.conversation.entries["r"].record["prompt_tokens"]
    assert [CUT_OFF] == list(recovered(transcript))


@pytest.mark.parametrize("rest", [b"", AFTER, line(type="head", id=None), line(type="head", id="u")])
def test_a_whole_reply_takes_the_place_of_its_parts(rest: bytes) -> None:
    without = HEADER + user("u", None) + WHOLE + rest
    transcript = parse("dog", HEADER + user("u", None) + b"".join(PARTS) + WHOLE + rest)
    assert parse("dog", without).conversation == transcript.conversation
    assert [] == [*transcript.problems, *transcript.interrupted]


def test_a_whole_reply_may_come_after_other_lines() -> None:
    label = line(type="label", id="u", label="here")
    data = HEADER + user("u", None) + PARTS[0] + label + b"".join(PARTS[1:]) + label + WHOLE
    assert (
        parse("dog", HEADER + user("u", None) + label + WHOLE).conversation == parse("dog", data).conversation
    )


def test_other_lines_may_stand_between_all_parts_of_a_reply_that_was_cut() -> None:
    """Joined at each of them, ten thousand parts would take minutes."""
    label, count = line(type="label", id="u", label="here"), 10_000
    parts = [part(0, "x", **FIRST), *(part(at, "x", "y") for at in range(1, count))]
    data = HEADER + user("u", None) + label.join(parts)
    assert ("x" * count, "y" * (count - 1), "cancelled", [7] * count) == reply_of(data)
    assert "r" == parse("dog", data).conversation.head


def test_the_head_stays_where_it_went_after_an_interruption() -> None:
    data = HEADER + user("u", None) + b"".join(PARTS) + user("w", None, "Else?")
    transcript = parse("dog", data)
    assert "w" == transcript.conversation.head
    assert "cancelled" == transcript.conversation.entries["r"].finish_reason


@pytest.mark.parametrize(
    ("parts", "content", "tokens"),
    [
        ([PARTS[0], b"{]\n", PARTS[2]], "", 2),
        ([PARTS[0], PARTS[2]], "", 2),
        ([*PARTS[:2], PARTS[2].replace(b"cuit", b'cu"it')], "Bis", 3),
        ([*PARTS[:2], PARTS[2].replace(b"[7, 7]", b"[7, true]")], "Bis", 3),
    ],
)
def test_a_reply_ends_before_a_part_that_is_damaged_or_lost(
    parts: list[bytes], content: str, tokens: int
) -> None:
    data = HEADER + user("u", None) + b"".join(parts)
    assert (content, tokens) == (reply_of(data)[0], len(reply_of(data)[3]))
    assert any("is damaged" in problem for problem in parse("dog", data).problems)


def test_without_its_first_part_a_message_has_no_reply() -> None:
    transcript = parse("dog", HEADER + user("u", None) + PARTS[1])
    assert "u" == transcript.conversation.head
    assert "Turn 1 got no reply. /regenerate answers it." == list(recovered(transcript))[-1]


def test_an_interrupted_reply_is_listed_and_found(tmp_path: Path) -> None:
    (tmp_path / "dog.jsonl").write_bytes(HEADER + user("u", None) + b"".join(PARTS))
    (summary,) = SessionFolder(tmp_path).summaries()
    assert 1 == summary.turns
    assert ["r"] == [hit.entry for hit in search.find(tmp_path, ["Biscuit"])]
    assert ["r"] == [hit.entry for hit in search.find(tmp_path, ["hm."], thinking=True)]
    assert [] == [*search.find(tmp_path, ["hm."])]
    with SessionFolder(tmp_path).open("dog") as session:
        assert {"r"} == session.transcript.interrupted
    assert b'"assistant"' in (tmp_path / "dog.jsonl").read_bytes()
    assert ["r"] == [hit.entry for hit in search.find(tmp_path, ["Biscuit"])]
    assert 1 == SessionFolder(tmp_path).summaries()[0].turns
