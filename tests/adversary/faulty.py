"""Runs in a process with `faults.c` preloaded: each operation with each fault, in a separate process.

`python -m tests.adversary.faulty LIBRARY FOLDER [night]` prints a line for each case after which the folder
is not as it should be, and at last how the cases ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from chatcli import files
from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError
from chatcli.exchange import export, importing
from chatcli.files import Location
from chatcli.session import opening
from chatcli.store.sessions import history
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.history import Typed

TURNS = 46
TEXT = "What I said in turn {0}. " * 4
OLD_EXPORT = "the export before"
ERRORS, KILLS, SHORT = ("EIO", "ENOSPC"), ("kill",), ("short",)
# The calls, the faults that each can have, and which calls have it: negative is from there on.
FAULTS = {
    "write": (*ERRORS, *KILLS, *SHORT),
    "pread": ("EIO", *SHORT),
    "fsync": (*ERRORS, *KILLS),
    "link": (*ERRORS, *KILLS),
    "rename": (*ERRORS, *KILLS),
    "unlink": ("EIO", *KILLS),
    "ftruncate": ("EIO", *KILLS),
}
DAY, NIGHT = (1, -2), (1, 2, 3, 5, 40, -1, -2, -30)


TYPED = [Typed("long", TEXT.format(number)) for number in range(TURNS)]


def long_conversation(folder: Path) -> None:
    with SessionFolder(folder).building("long", model=None, system=None) as session:
        for number in range(TURNS):
            user = session.append(Message("user", TEXT.format(number)), session.conversation.head)
            session.append(Message("assistant", "So it is."), user.id)
    session.close()
    history.append(Location.of(folder), TYPED)


def branch(folder: Path) -> None:
    opening.branch(SessionFolder(folder), "long", None, "copy").close()


def rename(folder: Path) -> None:
    SessionFolder(folder).rename("long", "copy")


def import_(folder: Path) -> None:
    messages = [{"role": role, "content": "x"} for _ in range(TURNS) for role in ("user", "assistant")]
    importing.save(SessionFolder(folder), importing.read(json.dumps(messages).encode()), "copy").close()


def export_(folder: Path) -> None:
    conversation = SessionFolder(folder).read("long").conversation
    export.write(folder / "out.md", export.text_of("md", "long", conversation).encode(), force=True)


def append(folder: Path) -> None:
    with SessionFolder(folder).open("long") as session:
        session.append(Message("user", "one more"), session.conversation.head)


def delete(folder: Path) -> None:
    SessionFolder(folder).delete("long")


def open_and_leave(folder: Path) -> None:
    SessionFolder(folder).open("long").close()


OPERATIONS: tuple[Callable[[Path], None], ...] = (
    branch,
    rename,
    import_,
    export_,
    append,
    delete,
    open_and_leave,
)


def state(folder: Path) -> dict[str, int]:
    """The turns of each session. A session that cannot be read has -1."""
    sessions = SessionFolder(folder)
    turns = {}
    for name in sessions.names():
        turns[name] = -1
        with contextlib.suppress(ChatcliError):
            turns[name] = len(sessions.read(name).conversation.turns())
    return turns


def problems(operation: Callable[[Path], None], folder: Path, done: bool) -> Iterator[str]:
    """What is wrong in the folder after an operation, `done` if it said that it succeeded."""
    turns = state(folder)
    before, after = {"long": TURNS}, {"long": TURNS, "copy": TURNS}
    allowed = {
        branch: [after] if done else [before, after],
        import_: [after] if done else [before, after],
        rename: [{"copy": TURNS}] if done else [before, {"copy": TURNS}],
        append: [{"long": TURNS + 1}] if done else [before, {"long": TURNS + 1}],
        delete: [{}] if done else [before, {}],
    }.get(operation, [before])
    if turns not in allowed:
        yield f"the sessions are {turns}"
    if operation is export_:
        text = (folder / "out.md").read_text()
        whole = text.count("What I said in turn 45.") == 4 and text.count("So it is.") == TURNS
        if not whole and (done or text != OLD_EXPORT):
            yield f"the export has {len(text)} characters"
    owners = {typed.session for typed in history.entries(Location.of(folder))}
    if done and owners != {"long", "copy"}.intersection(
        turns if operation is rename else turns.keys() - {"copy"}
    ):
        yield f"what was typed belongs to {owners}"
    files.sweep(Location.of(folder), files.UNNAMED_FILE)
    known = {".chatcli", ".last", ".history", "out.md", *(f"{name}.jsonl" for name in turns)}
    left = {path.name for path in folder.iterdir() if not files.TEMPORARY_FILE.fullmatch(path.name)}
    if left - known:
        yield f"it left {left - known}"


def main(library: str, root: Path, numbers: Sequence[int]) -> None:
    faults = ctypes.CDLL(library)
    template = root / "template"
    long_conversation(template)
    (template / "out.md").write_text(OLD_EXPORT)
    cases: Counter[int] = Counter()
    for operation in OPERATIONS:
        for call, kinds in FAULTS.items():
            for kind in kinds:
                for number in numbers:
                    folder = root / "case"
                    shutil.copytree(template, folder)
                    child = os.fork()
                    if not child:
                        code = 2
                        try:
                            faults.fault_arm(call.encode(), number, kind.encode(), str(folder).encode())
                            operation(folder)
                            code = 0
                        except ChatcliError:
                            code = 1
                        finally:
                            os._exit(code)
                    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                    faults.fault_arm(b"", 0, b"", b"/")
                    case = f"{operation.__name__} with {kind} at {call} {number} (exit code {code})"
                    if code == 2:
                        print(f"{case}: not a sentence")
                    for problem in problems(operation, folder, code == 0):
                        print(f"{case}: {problem}")
                    shutil.rmtree(folder)
                    cases[code] += 1
    print(f"{cases[0]} done, {cases[1]} refused, {cases[-signal.SIGKILL]} killed")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), NIGHT if "night" in sys.argv[3:] else DAY)
