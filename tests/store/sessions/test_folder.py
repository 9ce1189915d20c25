"""Session files: appending, damage, locks, failed writes, names and listings."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chatcli import files
from chatcli.conversation.tree import Message
from chatcli.errors import (
    BadName,
    ChatcliError,
    FolderError,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    SessionUnreadable,
    SessionVersionError,
)
from chatcli.session import opening
from chatcli.store.sessions import folder as sessions
from chatcli.store.sessions import listing
from chatcli.store.sessions.folder import SessionFile, SessionFolder, slug
from chatcli.store.sessions.listing import Summary
from chatcli.store.sessions.transcript import parse, recovered
from tests.support.program import folder_contents, sessions_in_use

HEADER = b'{"type": "session", "version": 1, "date": "2025-03-01", "model": "m", "system": null}\n'
HARD_TEXTS = [
    "quotes \" and \\ and '",
    "lines\nand\r\nreturns\r",
    "line separators \u2028 \u2029 \x85 \x0b \x0c",
    "NUL \0 and ESC \x1b[31m",
    "emoji 👩‍👩‍👧 and e\u0301 and 日本語 and \U0010ffff",
    "",
    " \t ",
    '{"type": "head", "id": null}',
]


def create(folder: SessionFolder, name: str = "dog", system: str | None = None) -> SessionFile:
    return folder.create(name, model="m", system=system, date="2025-03-01")


def line(**fact: object) -> bytes:
    return json.dumps(fact).encode() + b"\n"


def user(identifier: str, parent: str | None, content: str = "hi") -> bytes:
    return line(type="user", id=identifier, parent=parent, content=content, time=1.0)


def create_one_turn(folder: SessionFolder, name: str = "dog") -> Path:
    """Write and close a session of one turn; returns its path."""
    with create(folder, name) as session:
        user_entry = session.append(Message("user", "My dog is Biscuit."), None)
        session.append(Message("assistant", "Noted.", "A dog."), user_entry.id, finish_reason="stop")
        return session.path


@contextmanager
def child(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has printed "ready"; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


HOLDER = """
import sys
from pathlib import Path
from chatcli.store.sessions.folder import SessionFolder
session = SessionFolder(Path(sys.argv[1])).open("dog")
print("ready", flush=True)
sys.stdin.read()
"""


# Appending and reading back


def test_a_file_only_ever_grows_at_its_end(folder: SessionFolder) -> None:
    with create(folder) as session:
        contents = [session.path.read_bytes()]
        first = session.append(Message("user", "one"), None)
        contents.append(session.path.read_bytes())
        reply = session.append(Message("assistant", "two", "why"), first.id)
        contents.append(session.path.read_bytes())
        session.note(reply, {"reused_tokens": 7})
        contents.append(session.path.read_bytes())
        session.move_head(first.id)
        contents.append(session.path.read_bytes())
        session.set_system("Be brief.")
        contents.append(session.path.read_bytes())
        session.set_model("other")
        contents.append(session.path.read_bytes())
    for before, after in itertools.pairwise(contents):
        assert before == after[: len(before)]
        assert 1 == after[len(before) :].count(b"\n")
        assert after.endswith(b"\n")


def test_appended_entries_are_read_back_equal(folder: SessionFolder) -> None:
    with create(folder, system="Be brief.") as session:
        user_entry = session.append(Message("user", "one"), None)
        reply = session.append(
            Message("assistant", "two", "because"),
            user_entry.id,
            finish_reason="stop",
            record={"prompt_tokens": 41, "hit_ratio": 0.5, "miss_reason": None},
        )
        session.note(reply, {"settled_tokens": 9})
        original = session.conversation
    back = folder.read("dog")
    assert [] == back.problems
    assert (original.date, original.system, original.model, original.head) == (
        back.conversation.date,
        back.conversation.system,
        back.conversation.model,
        back.conversation.head,
    )
    assert ("2025-03-01", "Be brief.", "m", reply.id) == (
        original.date,
        original.system,
        original.model,
        original.head,
    )
    for identifier, entry in original.entries.items():
        reread = back.conversation.entries[identifier]
        assert (entry.message, entry.parent) == (reread.message, reread.parent)
        assert (entry.finish_reason, dict(entry.record)) == (
            reread.finish_reason,
            dict(reread.record),
        )
        assert abs(entry.created - reread.created) < 0.001
    assert 9 == back.conversation.entries[reply.id].record["settled_tokens"]


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_any_text_survives(folder: SessionFolder, text: str) -> None:
    with create(folder, system=text) as session:
        asked = session.append(Message("user", text), None)
        session.append(Message("assistant", text, text), asked.id)
    back = folder.read("dog")
    assert [] == back.problems
    assert text == back.conversation.system
    assert [Message("user", text), Message("assistant", text, text)] == [
        entry.message for entry in back.conversation.path()
    ]


def test_a_message_is_on_disk_when_append_returns(folder: SessionFolder) -> None:
    with create(folder) as session:
        session.append(Message("user", "one"), None)
        assert ["one"] == [e.message.content for e in folder.read("dog").conversation.path()]


def test_a_session_keeps_its_creation_date(folder: SessionFolder) -> None:
    create_one_turn(folder)
    assert "2025-03-01" == folder.read("dog").conversation.date


def test_a_date_can_be_set(folder: SessionFolder) -> None:
    path = create_one_turn(folder)
    old_bytes = path.read_bytes()
    with folder.open("dog") as session:
        session.set_date("2026-11-21")
        session.append(Message("user", "later"), session.conversation.head)
        session.set_date("2026-12-24")
        assert "2026-12-24" == session.conversation.date
    assert path.read_bytes().startswith(old_bytes)
    assert "2026-12-24" == folder.read("dog").conversation.date
    assert 1 == folder.read("dog").conversation.turns()[0].number


@pytest.mark.parametrize("bad", ["yesterday", "2026-13-01", "", None, 20261121, ["2026-11-21"]])
def test_a_damaged_date_is_reported_and_the_one_before_it_stays(bad: object) -> None:
    good = line(type="date", date="2026-11-21")
    back = parse("dog", HEADER + good + line(type="date", date=bad) + user("a", None))
    assert "2026-11-21" == back.conversation.date
    assert ["line 3 of the session 'dog' is damaged: skipped"] == back.problems
    assert ["a"] == [entry.id for entry in back.conversation.path()]


def test_a_branch_has_the_date_of_its_source(folder: SessionFolder) -> None:
    create_one_turn(folder)
    with folder.open("dog") as session:
        session.set_date("2026-11-21")
    opening.branch(folder, "dog", None, "puppy").close()
    assert "2026-11-21" == folder.read("puppy").conversation.date
    assert b"2025-03-01" not in (folder.folder / "puppy.jsonl").read_bytes()


def test_a_new_session_has_todays_date(folder: SessionFolder) -> None:
    with folder.create("today", model=None, system=None) as session:
        assert session.conversation.date == time.strftime("%Y-%m-%d")


def test_siblings_and_head_moves_are_kept(folder: SessionFolder) -> None:
    with create(folder) as session:
        root = session.append(Message("user", "root"), None)
        left_reply = session.append(Message("assistant", "left"), root.id)
        session.move_head(root.id)
        right_reply = session.append(Message("assistant", "right"), root.id)
        session.move_head(left_reply.id)
    back = folder.read("dog").conversation
    assert left_reply.id == back.head
    assert [left_reply.id, right_reply.id] == [entry.id for entry in back.children(root.id)]
    assert ["root", "right"] == [entry.message.content for entry in back.path(right_reply.id)]


def test_the_head_can_go_back_before_the_first_message(folder: SessionFolder) -> None:
    with create(folder) as session:
        session.append(Message("user", "root"), None)
        session.move_head(None)
    assert None is folder.read("dog").conversation.head


def test_setting_the_current_value_writes_nothing(folder: SessionFolder) -> None:
    with create(folder, system="Be brief.") as session:
        entry = session.append(Message("user", "root"), None)
        old_bytes = session.path.read_bytes()
        session.move_head(entry.id)
        session.set_system("Be brief.")
        session.set_model("m")
        session.set_date("2025-03-01")
        assert old_bytes == session.path.read_bytes()


def test_an_entry_of_another_session_is_copied_unchanged(folder: SessionFolder) -> None:
    create_one_turn(folder)
    original = folder.read("dog").conversation
    with create(folder, "copy") as session:
        for entry in original.path():
            session.copy(entry)
    copied = folder.read("copy").conversation
    assert (original.entries, original.head) == (copied.entries, copied.head)


# Damage


def test_a_torn_last_line_is_dropped_and_nothing_else(folder: SessionFolder) -> None:
    path = create_one_turn(folder)
    complete = path.read_bytes()
    torn = '{"type": "user", "content": "é'.encode()[:-1]
    path.write_bytes(complete + torn)
    with folder.open("dog") as session:
        assert complete == path.read_bytes()
        assert [f"an unfinished last line ({len(torn)} bytes) was dropped"] == (session.transcript.problems)
        assert 1 == len(session.conversation.turns())
        session.append(Message("user", "next"), session.conversation.head)
    assert [] == folder.read("dog").problems
    assert complete == path.read_bytes()[: len(complete)]


def test_a_file_cut_at_any_byte_has_the_complete_lines_before(folder: SessionFolder) -> None:
    data = create_one_turn(folder).read_bytes()
    ends = [at for at in range(len(data) + 1) if data[:at].endswith(b"\n")]
    for length in range(ends[0], len(data) + 1):
        last = max(end for end in ends if end <= length)
        back = parse("dog", data[:length])
        assert ends.index(last) == len(back.conversation.entries)
        assert (last if length > last else None) == back.torn_at


def test_an_unterminated_last_line_is_dropped_even_if_it_is_valid(folder: SessionFolder) -> None:
    path = folder.folder / "dog.jsonl"
    path.write_bytes(HEADER + user("a", None) + user("b", "a").rstrip(b"\n"))
    with folder.open("dog") as session:
        assert ["a"] == list(session.conversation.entries)
    assert HEADER + user("a", None) == path.read_bytes()


def test_reading_alone_never_changes_a_file(folder: SessionFolder) -> None:
    path = folder.folder / "dog.jsonl"
    path.write_bytes(HEADER + b"garbage\n" + user("a", None) + b'{"torn')
    old_bytes = path.read_bytes()
    assert 2 == len(folder.read("dog").problems)
    folder.summaries()
    assert old_bytes == path.read_bytes()


@pytest.mark.parametrize(
    "bad",
    [
        b"garbage\n",
        b"\n",
        b"\xff\xfe\x00\n",
        b"null\n",
        b"[]\n",
        b'"text"\n',
        b"{}\n",
        b'{"type": "user"}\n',
        line(type="user", id="x", parent="x", content="lost", time=1.0),
        line(type="user", id="x", parent=None, content=5, time=1.0),
        line(type="user", id=["x"], parent=None, content="lost", time=1.0),
        line(type="user", id="x", parent=None, content="lost", time="noon"),
        line(type="note", id="nobody", record={}),
        line(type="head", id="nobody"),
        line(type="head"),
        line(type="system"),
        b"[" * 100_000 + b"\n",
    ],
    ids=lambda bad: bad[:24].decode("ascii", "replace").strip(),
)
def test_a_bad_middle_line_is_skipped_and_reported(bad: bytes) -> None:
    back = parse("dog", HEADER + user("a", None) + bad + user("b", "a"))
    assert ["line 3 of the session 'dog' is damaged: skipped"] == back.problems
    assert ["a", "b"] == [entry.id for entry in back.conversation.path()]
    assert None is back.torn_at


def test_a_line_whose_parent_is_lost_is_kept_in_its_place() -> None:
    back = parse("dog", HEADER + user("a", None) + b"garbage\n" + user("c", "b") + user("d", "c"))
    assert ["a", "b", "c", "d"] == [entry.id for entry in back.conversation.path()]
    assert Message("assistant", "") == back.conversation.entries["b"].message
    assert [
        "line 3 of the session 'dog' is damaged: skipped",
        "line 4 of the session 'dog' continues a missing message: attached to the current path",
    ] == back.problems


def test_turns_still_alternate_after_a_lost_turn() -> None:
    answer = line(type="assistant", id="b", parent="a", content="yes", time=1.0)
    other_branch = line(type="head", id="y") + user("e", "y", "other")
    back = parse("dog", HEADER + user("a", None) + answer + user("z", "y") + user("d", "z") + other_branch)
    assert ["a", "b", "e"] == [entry.id for entry in back.conversation.path()]
    assert ["a", "b", "z", "d"] == [entry.id for entry in back.conversation.path("d")]


def test_a_line_of_an_unknown_type_is_ignored() -> None:
    back = parse("dog", HEADER + user("a", None) + line(type="label", id="a", text="x"))
    assert ["a"] == [entry.id for entry in back.conversation.path()]


def test_a_repeated_id_cannot_make_a_cycle() -> None:
    back = parse("dog", HEADER + user("a", None, "first") + user("b", "a") + user("a", "b", "ring"))
    assert None is back.conversation.entries["a"].parent
    assert "first" == back.conversation.entries["a"].message.content
    assert ["line 4 of the session 'dog' is damaged: skipped"] == back.problems


def test_a_bad_line_stays_in_the_file_when_the_session_goes_on(folder: SessionFolder) -> None:
    path = folder.folder / "dog.jsonl"
    path.write_bytes(HEADER + user("a", None) + b"garbage\n")
    old_bytes = path.read_bytes()
    with folder.open("dog") as session:
        session.append(Message("assistant", "yes"), "a")
    assert old_bytes == path.read_bytes()[: len(old_bytes)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"garbage\n" + user("a", None),
        HEADER.rstrip(b"\n"),
        b"[]\n",
        b"null\n",
        b"{}\n",
        line(type="user", version=1, date="2025-03-01"),
        line(type="session", version="1", date="2025-03-01"),
        line(type="session", version=1),
        line(type="session", version=1, date="yesterday"),
        line(type="session", version=1, date=None),
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
    ],
    ids=lambda data: data[:50].decode("ascii", "replace").strip() or "empty",
)
def test_a_damaged_header_is_refused_and_the_file_untouched(folder: SessionFolder, data: bytes) -> None:
    path = folder.folder / "dog.jsonl"
    path.write_bytes(data)
    for attempt in (folder.read, folder.open):
        with pytest.raises(SessionUnreadable, match="'dog'"):
            attempt("dog")
    assert data == path.read_bytes()


def test_a_later_version_is_refused_and_the_file_untouched(folder: SessionFolder) -> None:
    path = folder.folder / "dog.jsonl"
    data = line(type="session", version=2, new="field") + user("a", None) + b'{"torn'
    path.write_bytes(data)
    for attempt in (folder.read, folder.open, folder.delete):
        with pytest.raises(SessionVersionError, match="upgrade"):
            attempt("dog")
    assert data == path.read_bytes()


# Locks


def test_a_session_open_in_another_process_is_locked_until_its_end(
    folder: SessionFolder,
) -> None:
    create_one_turn(folder)
    with child(HOLDER, folder.folder) as holder:
        with pytest.raises(SessionLocked, match="'dog'"):
            folder.open("dog")
        with pytest.raises(SessionLocked):
            folder.delete("dog")
        assert 1 == len(folder.read("dog").conversation.turns())
        holder.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == holder.wait()
        with folder.open("dog") as session:
            assert 1 == len(session.conversation.turns())


def test_a_session_open_in_this_process_is_refused_as_open_here(
    folder: SessionFolder,
) -> None:
    with create(folder):
        for change in (lambda: folder.delete("dog"), lambda: folder.rename("dog", "cat")):
            with pytest.raises(SessionLocked, match="'dog' is open in this chat: /new"):
                change()
    with child(HOLDER, folder.folder), pytest.raises(SessionLocked, match="in another chatcli"):
        folder.delete("dog")


def test_closing_a_session_frees_it(folder: SessionFolder) -> None:
    session = create(folder)
    with pytest.raises(SessionLocked):
        folder.open("dog")
    session.close()
    folder.open("dog").close()


def test_a_session_that_cannot_be_opened_is_not_left_locked(folder: SessionFolder) -> None:
    path = folder.folder / "dog.jsonl"
    path.write_bytes(b"garbage\n")
    with pytest.raises(SessionUnreadable):
        folder.open("dog")
    path.write_bytes(HEADER)
    folder.open("dog").close()


LOCK_PROBE = """
import sys
from pathlib import Path
from chatcli import files
print("ready", flush=True)
while True:
    files.is_locked(Path(sys.argv[1]))
"""


def test_opening_waits_out_a_lock_probe(folder: SessionFolder) -> None:
    path = create_one_turn(folder)
    with child(LOCK_PROBE, path):
        for _ in range(300):
            folder.open("dog").close()


def test_sessions_in_use_are_those_open_here_or_in_another_process(folder: SessionFolder) -> None:
    for name in ("dog", "cat", "cow"):
        create_one_turn(folder, name)
    assert [] == sessions_in_use(folder.folder)
    with child(HOLDER, folder.folder), folder.open("cat") as session:
        assert ["cat", "dog"] == sessions_in_use(folder.folder)
        session.append(Message("user", "one"), None)
        with pytest.raises(SessionLocked):
            folder.open("cat")
    assert [] == sessions_in_use(folder.folder)


def test_a_named_pipe_does_not_block(folder: SessionFolder) -> None:
    os.mkfifo(folder.folder / "dog.jsonl")
    assert ["dog"] == [summary.name for summary in folder.summaries() if summary.problem]
    for attempt in (folder.read, folder.open, folder.delete):
        with pytest.raises(ChatcliError, match="'dog'"):
            attempt("dog")


# Failed writes

# A session in a process that may write 20 more bytes to a file, and two appends that must fail.
LIMITED_WRITER = """
import resource, signal, subprocess, sys
from pathlib import Path
from chatcli.conversation.tree import Message
from chatcli.errors import FolderError
from chatcli.store.sessions.folder import SessionFolder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
session = SessionFolder(Path(sys.argv[1])).open("dog")
before = session.path.read_bytes()
head = session.conversation.head
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
"""
REFUSED = """
for _ in range(2):
    try:
        session.append(Message("user", "x" * 1000), head)
    except FolderError as error:
        assert "'dog'" in str(error), error
    else:
        raise SystemExit("it was not refused")
"""
DISK_FULL = f"""{LIMITED_WRITER}{REFUSED}
assert before == session.path.read_bytes(), "the file changed"
assert head == session.conversation.head, "the head moved"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
session.append(Message("user", "after"), head)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_write_that_fails_raises_and_leaves_the_file_as_it_was(folder: SessionFolder) -> None:
    create_one_turn(folder)
    with child(DISK_FULL, folder.folder):
        back = folder.read("dog")
    assert [] == back.problems
    assert ["My dog is Biscuit.", "Noted.", "after"] == [
        entry.message.content for entry in back.conversation.path()
    ]


def test_after_its_folder_was_moved_away_a_new_session_is_where_it_was(folder: SessionFolder) -> None:
    moved = folder.folder.with_name("moved")
    with create(folder) as lost:
        folder.folder.rename(moved)
        with pytest.raises(FolderError, match="moved or replaced"):
            lost.append(Message("user", "hi"), None)
        with create(folder, "cat") as session:
            session.append(Message("user", "hi"), None)
        with pytest.raises(FolderError, match="moved or replaced"):
            lost.append(Message("user", "hi"), None)
    assert ["cat"] == folder.names()
    assert ["dog.jsonl"] == [path.name for path in moved.glob("*.jsonl")]


def test_an_unusable_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = SessionFolder(tmp_path / "file")
    with pytest.raises(FolderError, match="file"):
        create(folder)
    with pytest.raises(FolderError, match="file"):
        folder.names()


APPEND_ONLY = f"""{LIMITED_WRITER}
subprocess.run(["chattr", "+a", session.path], check=True)
{REFUSED}
assert len(before) + 20 == session.path.stat().st_size, "half a line should be stuck there"
if sys.argv[2] == "same":
    subprocess.run(["chattr", "-a", session.path], check=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    session.append(Message("user", "after"), head)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def append_only_file(folder: SessionFolder) -> Iterator[Path]:
    """The file of a session, on a file system with the append-only attribute."""
    path = create_one_turn(folder)
    chattr = shutil.which("chattr")
    status = chattr and subprocess.run([chattr, "+a", path], capture_output=True).returncode
    if status != 0:
        pytest.skip("this system has no append-only files, or we may not make them")
    subprocess.run(["chattr", "-a", path], check=True)
    yield path
    subprocess.run(["chattr", "-a", path], check=True)


@pytest.mark.parametrize("writer", ["same", "next"])
def test_half_a_line_that_cannot_be_truncated_spoils_no_later_one(
    folder: SessionFolder, append_only_file: Path, writer: str
) -> None:
    with child(APPEND_ONLY, folder.folder, writer):
        pass
    subprocess.run(["chattr", "-a", append_only_file], check=True)
    if writer == "next":
        with folder.open("dog") as session:
            assert ["an unfinished last line (20 bytes) was dropped"] == session.transcript.problems
            session.append(Message("user", "after"), session.conversation.head)
    back = folder.read("dog")
    assert [] == back.problems
    assert ["My dog is Biscuit.", "Noted.", "after"] == [
        entry.message.content for entry in back.conversation.path()
    ]


def unlink_file(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def rename_file(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace_file(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize(
    "lose_file",
    [unlink_file, remove_folder, rename_file, replace_file],
    ids=["gone", "folder_gone", "moved_away", "replaced"],
)
def test_appending_to_a_lost_file_is_refused_and_a_branch_saves_the_conversation(
    tmp_path: Path, lose_file: Callable[[Path], None]
) -> None:
    folder = SessionFolder(tmp_path / "saved")
    create_one_turn(folder)
    with folder.open("dog") as session:
        lose_file(session.path)
        contents = folder_contents(tmp_path)
        head = session.conversation.head
        for _ in range(2):
            with pytest.raises(FolderError, match=r"'dog'.* /branch keeps"):
                session.append(Message("user", "lost?"), head)
        assert (contents, head) == (folder_contents(tmp_path), session.conversation.head)
        with opening.branch(folder, session, None, "kept") as branch:
            branch.append(Message("user", "lost?"), branch.conversation.head)
    path = folder.read("kept").conversation.path()
    assert ["My dog is Biscuit.", "Noted.", "lost?"] == [e.message.content for e in path]


@pytest.mark.parametrize("change", [b"", HEADER, HEADER + user("a", None) * 50])
def test_a_file_that_another_program_wrote_to_is_not_appended_to(
    folder: SessionFolder, change: bytes
) -> None:
    path = create_one_turn(folder)
    with folder.open("dog") as session:
        path.write_bytes(change)
        with pytest.raises(FolderError, match="another program has changed"):
            session.append(Message("user", "next"), session.conversation.head)
        assert change == path.read_bytes()


# Names


def test_a_name_in_use_is_refused_and_the_session_kept(folder: SessionFolder) -> None:
    path = create_one_turn(folder)
    old_bytes = path.read_bytes()
    with pytest.raises(SessionExists, match="'dog'"):
        create(folder)
    assert old_bytes == path.read_bytes()


def test_a_bad_name_makes_no_file(folder: SessionFolder) -> None:
    with pytest.raises(BadName):
        create(folder, "../dog")
    assert [] == list(folder.folder.iterdir())


def test_rename_moves_the_file_and_its_bytes(folder: SessionFolder) -> None:
    old_bytes = create_one_turn(folder).read_bytes()
    assert "cat" == folder.rename("dog", "cat")
    assert (["cat"], False, True) == (folder.names(), folder.exists("dog"), folder.exists("cat"))
    assert old_bytes == (folder.folder / "cat.jsonl").read_bytes()


def test_rename_refuses_a_name_in_use_and_a_bad_one(folder: SessionFolder) -> None:
    create_one_turn(folder)
    other_bytes = create_one_turn(folder, "cat").read_bytes()
    with pytest.raises(SessionExists, match="'cat'"):
        folder.rename("dog", "cat")
    with pytest.raises(BadName):
        folder.rename("dog", "a/b")
    assert ["cat", "dog"] == sorted(folder.names())
    assert other_bytes == (folder.folder / "cat.jsonl").read_bytes()


def test_a_renamed_session_is_written_under_its_new_name(folder: SessionFolder) -> None:
    with create(folder) as session:
        with pytest.raises(SessionLocked):
            folder.rename("dog", "cat")
        folder.rename_open("dog", "cat")
        session.moved(folder.location / "cat.jsonl")
        session.append(Message("user", "one"), None)
        assert "cat" == session.name
    assert 1 == len(folder.read("cat").conversation.turns())


def test_delete_removes_the_transcript(folder: SessionFolder) -> None:
    create_one_turn(folder)
    create_one_turn(folder, "cat")
    assert "dog" == folder.delete("dog")
    assert ["cat"] == folder.names()


def test_a_free_name_is_the_requested_one_or_numbered(folder: SessionFolder) -> None:
    assert "dog" == folder.free_name("dog")
    for name in ("dog", "dog-2", "dog-4"):
        create_one_turn(folder, name)
    assert "dog-3" == folder.free_name("dog")
    create_one_turn(folder, "dog-3")
    assert "dog-5" == folder.free_name("dog")
    assert "do" == folder.free_name("do")


def test_a_branch_of_a_branch_is_counted_on(folder: SessionFolder) -> None:
    for name in ("dog", "dog-2", "chapter-1"):
        create_one_turn(folder, name)
    assert "dog-3" == folder.free_name("dog-2")
    assert "dog-3" == folder.free_name("dog-3")
    assert "chapter-1-2" == folder.free_name("chapter-1")


def test_an_exact_name_is_resolved_before_a_beginning(folder: SessionFolder) -> None:
    for name in ("dog", "dog-2", "cat"):
        create_one_turn(folder, name)
    assert "dog" == folder.resolve("dog")
    assert "cat" == folder.resolve("c")
    assert "dog-2" == folder.resolve("dog-")


def test_an_ambiguous_beginning_lists_its_matches(folder: SessionFolder) -> None:
    for name in ("dog-1", "dog-2", "cat"):
        create_one_turn(folder, name)
    with pytest.raises(SessionNotFound, match=r"'dog' matches") as caught:
        folder.resolve("dog")
    assert "'dog-1'" in str(caught.value)
    assert "'dog-2'" in str(caught.value)
    assert "'cat'" not in str(caught.value)


def test_a_near_miss_is_suggested(folder: SessionFolder) -> None:
    create_one_turn(folder, "biscuit")
    with pytest.raises(SessionNotFound, match=r"Did you mean 'biscuit'\?"):
        folder.resolve("bisciut")


def test_nothing_near_points_to_the_list(folder: SessionFolder) -> None:
    create_one_turn(folder, "biscuit")
    with pytest.raises(SessionNotFound, match="chatcli list"):
        folder.resolve("zzz")


def test_a_name_with_a_pattern_in_it_is_no_pattern(folder: SessionFolder) -> None:
    create_one_turn(folder)
    for name in ("d*", "[d]og", "d?g"):
        with pytest.raises(SessionNotFound):
            folder.resolve(name)


def test_names_are_ordered_by_last_use(folder: SessionFolder) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        path = create_one_turn(folder, name)
        os.utime(path, (1e9 - age, 1e9 - age))
    assert ["new", "middle", "old"] == folder.names()
    # The clock lies: "old" was written last.
    assert "old" == folder.latest()


def test_without_a_note_of_the_last_one_the_latest_goes_by_the_clock(folder: SessionFolder) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        path = create_one_turn(folder, name)
        os.utime(path, (1e9 - age, 1e9 - age))
    folder.delete("old")
    assert "new" == folder.latest()
    for note in (b"", b"gone\n", b"\xff"):
        (folder.folder / listing.LAST).write_bytes(note)
        assert "new" == folder.latest()


def test_the_latest_session_goes_along_with_a_rename(folder: SessionFolder) -> None:
    create_one_turn(folder, "cat")
    create_one_turn(folder, "dog")
    folder.rename("dog", "wolf")
    assert "wolf" == folder.latest()


def test_a_missing_folder_has_no_sessions(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path / "none")
    assert ([], []) == (folder.names(), folder.summaries())
    with pytest.raises(SessionNotFound):
        folder.latest()
    assert [] == list(tmp_path.iterdir())


def test_other_files_are_not_sessions(folder: SessionFolder) -> None:
    create_one_turn(folder)
    (folder.folder / "kv").mkdir()
    (folder.folder / "notes.txt").write_text("x")
    assert ["dog"] == folder.names()


# Listings


def test_a_listing_has_each_session_and_the_problems_of_unreadable_ones(
    folder: SessionFolder,
) -> None:
    path = create_one_turn(folder)
    os.utime(path, (1e9, 1e9))
    (folder.folder / "bad.jsonl").write_bytes(b"garbage\n")
    (folder.folder / "folder.jsonl").mkdir()
    (folder.folder / "future.jsonl").write_bytes(line(type="session", version=99))
    summaries = {summary.name: summary for summary in folder.summaries()}
    assert {"dog", "bad", "folder", "future"} == set(summaries)
    assert Summary("dog", 1, "My dog is Biscuit.", "m", 1e9) == summaries["dog"]
    assert "first line is damaged" in str(summaries["bad"].problem)
    assert "upgrade" in str(summaries["future"].problem)
    assert "directory" in str(summaries["folder"].problem)


def test_a_session_with_an_invalid_name_is_listed(
    folder: SessionFolder,
) -> None:
    create_one_turn(folder)
    (folder.folder / "a\x1b[2J.jsonl").write_bytes(HEADER)
    (folder.folder / "-x.jsonl").write_bytes(HEADER)
    problems = {summary.name: summary.problem for summary in folder.summaries()}
    assert 3 == len(problems)
    assert None is problems["dog"]
    assert problems["-x"]


# Problems and slugs


def test_an_undamaged_session_has_no_problems(folder: SessionFolder) -> None:
    create_one_turn(folder)
    assert [] == list(recovered(folder.read("dog")))


def test_repairs_are_reported_in_sentences() -> None:
    data = HEADER + user("a", None) + b"garbage\n" + b"torn"
    assert [
        "line 3 of the session 'dog' is damaged: skipped",
        "an unfinished last line (4 bytes) was dropped",
        "Turn 1 got no reply. /regenerate answers it.",
    ] == list(recovered(parse("dog", data)))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hello, World!", "hello-world"),
        ("What's   up?", "whats-up"),
        ("été à Lisbonne", "été-à-lisbonne"),
        ("日本語", "日本語"),
        ("snake_case", "snake-case"),
        ("../../etc/passwd", "etc-passwd"),
        ("--help", "help"),
        ("one two three four five six seven eight nine", "one-two-three-four-five-six"),
        ("My dog is called Biscuit and I live in Lisbon.", "my-dog-is-called-biscuit"),
        ("Tell me about the history of the oldest bridge", "tell-me-about-the-history"),
        ("What is the internationalization2?", "what"),
        ("where are you from", "where-are-you"),
        ("to be or not to be", "to-be-or-not-to-be"),
        ("Of the", "of-the"),
        ("a" * 32 + " b", "a" * 32),
    ],
)
def test_a_slug_is_made_of_the_first_words(text: str, name: str) -> None:
    assert name == slug(text)


@pytest.mark.parametrize("text", ["", "???", "\x1b[31m\n", "a" * 500, "日" * 500, "\u202e"])
def test_a_slug_is_always_a_name(text: str) -> None:
    assert slug(text) == files.check_name(slug(text))
    assert len(slug(text)) <= sessions.MAX_SLUG_LENGTH


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_a_slug_of_hard_text_is_a_name(text: str) -> None:
    assert slug(text)[:4] == files.check_name(slug(text))[:4]
