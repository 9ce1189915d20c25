"""`chatcli.Chat`: events, errors, and what is saved when a chat ends early."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import chatcli
from chatcli import Chat
from chatcli.errors import EmptyPrompt, MemoryFull, SessionLocked, TurnOutOfRange, UsageError
from chatcli.events import Event, Settled, TextDelta, ThinkingDelta, TurnDone
from chatcli.store.sessions.folder import SessionFolder
from tests import ROOT
from tests.support.harness import MESSAGES, SYSTEM, open_all_along, outcome
from tests.support.program import DEADLINE, Program, user_messages

HEAVY = {"mlx", "mlx_lm", "numpy", "transformers", "typer", "prompt_toolkit", "rich"}


def python(code: str, folder: Path) -> str:
    """What a program prints, with a home and sessions of its own."""
    env = Program(folder, folder).environment()
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=env,
        cwd=folder,
        timeout=DEADLINE,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def open_chat(model: Path, folder: Path, name: str | None = "talk", **options: Any) -> Chat:
    return Chat(name, model=str(model), sessions=folder, **{"max_tokens": 24, "system": SYSTEM, **options})


def finish_reasons(folder: Path, name: str = "talk") -> list[str | None]:
    turns = SessionFolder(folder).read(name).conversation.turns()
    return [turn.reply.finish_reason if turn.reply else None for turn in turns]


def test_the_package_and_chat_are_imported_without_anything_heavy(tmp_path: Path) -> None:
    loaded = f"print(sorted({{name.split('.')[0] for name in sys.modules}} & {HEAVY}))"
    code = f"import sys, chatcli; chatcli.__version__; print('chatcli.api' in sys.modules); {loaded}"
    assert ["False", "[]"] == python(code, tmp_path).splitlines()
    code = f"import sys; from chatcli import Chat; {loaded}"
    assert ["[]"] == python(code, tmp_path).splitlines()
    with pytest.raises(AttributeError, match="Chatter"):
        _ = chatcli.Chatter


@pytest.mark.parametrize(
    ("page", "sessions"), [("README.md", ["notes.jsonl"]), ("docs/guide.md", ["notes.jsonl", "other.jsonl"])]
)
def test_the_examples_of_the_documentation_run(page: str, sessions: list[str], tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    printed = python(example, tmp_path)
    assert "Biscuit" in printed
    assert sessions == sorted(path.name for path in (tmp_path / "data").rglob("*.jsonl"))


def test_turns_are_the_same_as_anyone_elses_to_the_bit(models: Path, tmp_path: Path) -> None:
    model = models / "qwen3_5"
    expected = [outcome(record) for record in open_all_along(model, tmp_path / "harness")]
    with open_chat(model, tmp_path / "chat") as chat:
        for message, (tokens, logprobs, text, thinking) in zip(MESSAGES, expected, strict=True):
            assert text == chat.send(message).text() == chat.text
            assert (tokens, logprobs) == (chat.stats["tokens"], chat.stats["logprobs"])
            assert thinking == chat.stats["thinking"]
        assert list(MESSAGES) == [turn.user.message.content for turn in chat.turns]


def test_events_come_in_order_and_the_settled_tokens_are_in_the_numbers(models: Path, tmp_path: Path) -> None:
    with open_chat(models / "speaker", tmp_path) as chat:
        assert (None, [], "", {}) == (chat.name, chat.turns, chat.text, chat.stats)
        events: list[Event] = list(chat.send("Hello"))
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        thought = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
        (settled,) = [event for event in events if isinstance(event, Settled)]
        assert (text.rstrip("\n"), thought.rstrip("\n")) == (chat.text, chat.stats["thinking"])
        assert settled.tokens == chat.stats["settled_tokens"] > 0
        assert settled is events[-1]


def test_without_settle_the_reply_is_settled_behind_and_the_next_turn_is_the_same(
    models: Path, tmp_path: Path
) -> None:
    replies = []
    for settle in (True, False):
        with open_chat(models / "qwen3_5", tmp_path / str(settle), settle=settle) as chat:
            kinds = {type(event) for event in chat.send(MESSAGES[0])}
            assert settle == (Settled in kinds)
            replies.append((chat.send(MESSAGES[1]).text(), chat.stats["logprobs"]))
    assert replies[0] == replies[1]


def test_a_branch_goes_on_in_a_new_session_and_leaves_the_other_as_it_is(
    models: Path, tmp_path: Path
) -> None:
    with open_chat(models / "qwen3", tmp_path) as chat:
        for message in MESSAGES[:3]:
            chat.send(message).text()
        with pytest.raises(TurnOutOfRange):
            chat.branch(at=9)
        assert "other" == chat.branch(at=1, name="other") == chat.name
        chat.send("Something else.").text()
        assert chat.stats["reused_tokens"] > 0
        assert [MESSAGES[0], "Something else."] == [t.user.message.content for t in chat.turns]
    assert list(MESSAGES[:3]) == user_messages(tmp_path / "talk.jsonl")
    with open_chat(models / "qwen3", tmp_path, at=2) as chat:
        assert 2 == len(chat.turns)


def test_another_reply_stands_beside_the_first(models: Path, tmp_path: Path) -> None:
    with open_chat(models / "qwen3", tmp_path, temp=1.0, seed=3) as chat:
        first = chat.send("Hello").text()
        again = chat.regenerate().text()
        assert chat.text == again != first
        assert 1 == len(chat.turns) and 1 == chat.stats["turn"]


@pytest.mark.parametrize("held", [False, True], ids=["dropped", "held"])
def test_a_reply_that_is_left_half_way_is_stopped_and_what_came_is_kept(
    models: Path, tmp_path: Path, held: bool
) -> None:
    with open_chat(models / "speaker", tmp_path, max_tokens=500, think=False) as chat:
        reply = chat.send("Hello")
        deltas = [event for event in islice(reply, 12) if isinstance(event, TextDelta | ThinkingDelta)]
        if not held:
            del reply
            assert ["cancelled"] == finish_reasons(tmp_path)
        chat.send("Again").text()
        assert ["cancelled", "length"] == finish_reasons(tmp_path)
        kept = chat.turns[0].reply
        assert kept is not None
        whole = kept.message.thinking + kept.message.content
        assert whole.startswith("".join(event.text for event in deltas)) and deltas
        assert len(whole) < 500


def test_a_chat_that_is_closed_in_a_reply_keeps_what_came(models: Path, tmp_path: Path) -> None:
    with open_chat(models / "speaker", tmp_path, max_tokens=500) as chat:
        reply = chat.send("Hello")
        for _ in islice(reply, 9):
            pass
    assert ["cancelled"] == finish_reasons(tmp_path)
    assert [] == list(reply)
    assert chat.close() is None
    with pytest.raises(UsageError, match="closed"):
        chat.send("Again")


def test_a_program_that_is_killed_in_a_reply_leaves_what_came_and_goes_on(
    models: Path, tmp_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    code = (
        "import os, pathlib, signal\nfrom chatcli import Chat\n"
        f"chat = Chat('talk', model={str(models / 'speaker')!r}, sessions={str(tmp_path)!r}, seed=2)\n"
        "for event in chat.send('Hello'):\n"
        "    print(end=getattr(event, 'text', ''), flush=True)\n"
        f'    if b\'"type": "part"\' in pathlib.Path({str(path)!r}).read_bytes():\n'
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    killed = subprocess.run(command, env=env, timeout=DEADLINE, check=False, stdout=subprocess.PIPE)
    assert -signal.SIGKILL == killed.returncode
    assert ["Hello"] == user_messages(path)
    (turn,) = SessionFolder(tmp_path).read("talk").conversation.turns()
    assert turn.reply is not None
    kept, came = turn.reply.message, killed.stdout.decode()
    assert came.startswith(kept.thinking) and kept.content in came and kept.thinking + kept.content
    with open_chat(models / "speaker", tmp_path) as chat:
        assert chat.send("Again").text()
        assert ["cancelled", "length"] == finish_reasons(tmp_path)


@pytest.mark.slow
def test_a_program_that_ends_without_closing_ends_well_and_keeps_what_came(
    models: Path, tmp_path: Path
) -> None:
    python(
        "from chatcli import Chat\n"
        f"options = dict(model={str(models / 'speaker')!r}, sessions={str(tmp_path)!r})\n"
        "chats = [Chat(str(number), max_tokens=8, **options) for number in range(4)]\n"
        "for chat in chats: chat.send('Hello').text()\n"
        "talk = Chat('talk', max_tokens=4000, **options)\n"
        "reply = talk.send('Hello')\n"
        "for _ in zip(range(9), reply): pass\n",
        tmp_path,
    )
    assert ["length"] == finish_reasons(tmp_path, "3")
    assert ["cancelled"] == finish_reasons(tmp_path)


@pytest.mark.slow
def test_a_chat_that_is_forgotten_while_it_settles_keeps_no_program_from_ending(
    models: Path, tmp_path: Path
) -> None:
    python(
        "from chatcli import Chat\n"
        "def ask():\n"
        f"    chat = Chat('talk', model={str(models / 'speaker')!r}, sessions={str(tmp_path)!r},\n"
        "                max_tokens=300, settle=False)\n"
        "    chat.send('Hello').text()\n"
        "ask()\n",
        tmp_path,
    )
    assert ["length"] == finish_reasons(tmp_path)


@pytest.mark.slow
def test_a_fork_of_a_program_with_a_chat_ends(models: Path, tmp_path: Path) -> None:
    printed = python(
        "import os, sys\nfrom chatcli import Chat\n"
        f"chat = Chat('talk', model={str(models / 'speaker')!r}, sessions={str(tmp_path)!r},\n"
        "            max_tokens=4)\n"
        "chat.send('Hello').text()\n"
        "child = os.fork()\n"
        "if not child: sys.exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n",
        tmp_path,
    )
    assert "0" == printed.strip()


def test_an_event_stops_a_reply_from_anywhere(models: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    with open_chat(models / "speaker", tmp_path, max_tokens=500) as chat:
        for event in chat.send("Hello", stop):
            if isinstance(event, ThinkingDelta | TextDelta):
                stop.set()
        assert isinstance(event, TurnDone)
        assert "cancelled" == chat.stats["finish_reason"]


def test_after_an_error_the_chat_goes_on(models: Path, tmp_path: Path) -> None:
    with open_chat(models / "qwen3", tmp_path, memory_limit=2_000_000) as chat:
        with pytest.raises(EmptyPrompt):
            chat.send(" ")
        with pytest.raises(MemoryFull):
            chat.send("word " * 500).text()
        assert {} == chat.stats and [] == chat.turns
        chat.send("Hello").text()
        assert 1 == len(chat.turns)
        with pytest.raises(SessionLocked):
            open_chat(models / "qwen3", tmp_path)
    with pytest.raises(TypeError, match="temprature"):
        open_chat(models / "qwen3", tmp_path, temprature=1)


def test_each_reply_has_its_own_text(models: Path, tmp_path: Path) -> None:
    with open_chat(models / "qwen3", tmp_path, temp=1.0, seed=3) as chat:
        half = chat.send("One.")
        for event in half:
            if isinstance(event, TextDelta):
                break
        unread, last = chat.send("Two."), chat.send("Three.")
        assert last.text() == chat.text
        first = chat.turns[0].reply
        assert first is not None and "cancelled" == first.finish_reason
        assert [first.message.content, "", chat.text] == [half.text(), unread.text(), last.text()]
        assert len({half.text(), unread.text(), last.text()}) == 3
        never = chat.send("Four.")
    assert ["", "Three."] == [never.text(), chat.turns[-1].user.message.content]


FORKED = """
import os, sys
from chatcli import Chat
from chatcli.errors import ChatcliError
chat = Chat('talk', model={model!r}, sessions={sessions!r}, max_tokens=4)
chat.send('Hello').text()
reading, writing = os.pipe()
child = os.fork()
if not child:
    for use in (lambda: chat.send('And?').text(), chat.branch, lambda: chat.regenerate().text()):
        try:
            use()
        except ChatcliError as error:
            print(error, flush=True)
    chat.close()
    os.write(writing, b'closed')
    os.read(0, 1)  # until the program is told to end
    os._exit(0)
os.read(reading, 6)
chat.send('Mine?').text()
chat.close()
with Chat('talk', model={model!r}, sessions={sessions!r}, max_tokens=4) as again:
    print(len(again.turns), again.send('Again?').text() == again.text)
os.write(told, b'.')
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.slow
def test_a_forked_process_leaves_the_chat_to_its_parent(models: Path, tmp_path: Path) -> None:
    code = FORKED.replace(
        "import os, sys\n", "import os, sys\ninput_, told = os.pipe()\nos.dup2(input_, 0)\n"
    )
    printed = python(code.format(model=str(models / "qwen3"), sessions=str(tmp_path / "s")), tmp_path)
    refused = "This chat belongs to the parent process: open another one here."
    assert [*[refused] * 3, "2 True", "0"] == printed.splitlines()


@pytest.mark.slow
def test_a_forked_process_does_not_wait_for_its_parents_reply(models: Path, tmp_path: Path) -> None:
    printed = python(
        "import os\nfrom chatcli import Chat\nfrom chatcli.errors import UsageError\n"
        f"chat = Chat('talk', model={str(models / 'speaker')!r}, sessions={str(tmp_path)!r},\n"
        "            max_tokens=40)\n"
        "reply = chat.send('Hello')\n"
        "next(reply)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try: reply.text()\n"
        "    except UsageError as error: print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(len(reply.text()) > 0)\n",
        tmp_path,
    )
    assert ["This chat belongs to the parent process: open another one here.", "True"] == (
        printed.splitlines()
    )


def test_a_closed_chat_branches_nowhere(models: Path, tmp_path: Path) -> None:
    with open_chat(models / "qwen3", tmp_path, max_tokens=2) as chat:
        chat.send("Hello").text()
    with pytest.raises(UsageError, match="closed"):
        chat.branch(name="other")
    assert ["talk"] == [path.stem for path in tmp_path.glob("*.jsonl")]
