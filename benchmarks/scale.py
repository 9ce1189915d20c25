"""Measures what a turn costs besides the model, in long or wide conversations and in full folders.

    python -m benchmarks.scale [--quick]

Real turns are taken with a model that computes nothing: its cache grows like any other, and its replies are
scripted. So the measured time is that of everything around a model: the transcript, the template, the token
path, the lookup, the checkpoints and their files.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import KVCache

from benchmarks import crowd
from benchmarks.measure import Announce, announce, milliseconds, options, timed
from chatcli.bench.run import temporary_folder
from chatcli.bench.scripted import script
from chatcli.bench.workloads import SYSTEM, long_text
from chatcli.chat_format.template import Template, TemplateCache
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.cli.bench import show
from chatcli.cli.output import show_result
from chatcli.commands.results import Table
from chatcli.conversation.tree import Conversation
from chatcli.events import PrefixMatched, TurnDone
from chatcli.kv.expected import ExpectedCache
from chatcli.model.load import LoadedModel, load
from chatcli.settings.values import DEFAULTS, Sampling
from chatcli.store import maintenance
from chatcli.store.segments import inventory
from chatcli.store.segments.budget import MAX_BYTES, Budget
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript
from chatcli.text import file_size
from chatcli.threads.mlx_thread import Worker
from chatcli.tui.tree_layout import tree_nodes
from chatcli.turn import turn
from chatcli.turn.prompt import TurnContext, render_history

NAME = "talk"
REPLY_TOKENS = 8
# With the reply and the markers around both, a turn is about a hundred tokens.
MESSAGE = long_text(300)
CONTEXT_TOKENS = 1 << 20
# How many turns before a point of a curve belong to it. The fastest one counts, because other programs only
# add time.
TURNS_AT_POINT = 9
# The points of a curve, as fractions of its end.
PARTS = (16, 4, 2, 1)
FOLDER_PARTS = (100, 10, 1)
FOLDER_ROUNDS = 3
# This many segments are real files, the rest are hard links.
MAX_SEGMENT_FILES = 10_000
TURNS_BEFORE_BRANCHES = 8
NEVER = threading.Event()


@dataclass(frozen=True)
class GrowthPlan:
    """The model whose tokenizer and template to use, and the sizes at the ends of the curves."""

    model: str
    turns: int = 2000
    branches: int = 300
    sessions: int = 10_000
    segments: int = 1_000_000

    def quick(self) -> GrowthPlan:
        """Sizes that take a second or two."""
        return replace(self, turns=16, branches=4, sessions=20, segments=100)


@dataclass(frozen=True)
class Turn:
    """The cost of a turn, in seconds.

    `cpu` is the CPU time in this process; templates are rendered in another. `render` is from the message to
    its token path, including writing it. `match` is finding the path in memory and on disk. `answer` is the
    rest until the reply is on disk, `settle` the background work afterwards.
    """

    cpu: float
    render: float
    match: float
    answer: float
    settle: float


@dataclass(frozen=True)
class Point:
    """A conversation after so many turns, with the least cost of the last ones.

    `reopen` is the time to read its session and restore its checkpoint as a new process does, `tree` the time
    to lay out its tree, in seconds. `memory` is the process's peak so far, in bytes.
    """

    turns: int
    tokens: int
    turn: Turn
    reopen: float
    tree: float
    memory: int


@dataclass(frozen=True)
class FolderPoint:
    """A folder of so many sessions and segments, and the seconds to read all of it.

    `match` is the lookup of a path that exists, `missed` of one with only its system prompt there.
    """

    sessions: int
    segments: int
    match: float
    missed: float
    open_store: float
    newest_session: float
    list: float
    stats: float
    gc: float


@dataclass(frozen=True)
class Growth:
    """The curves: a conversation that grows long, one that grows wide, and folders that fill."""

    long: Sequence[Point]
    wide: Sequence[Point]
    folders: Sequence[FolderPoint]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class NoModel(nn.Module):  # type: ignore[misc]
    """Computes nothing: each token adds a row to its cache and determines the next token."""

    def __init__(self, vocabulary: int, script_ids: Sequence[int]) -> None:
        super().__init__()
        self.layers = [nn.Identity()]
        successors = [script_ids[0]] * vocabulary
        for token, successor in pairwise(script_ids):
            successors[token] = successor
        self._next = mx.array(successors)

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]

    def __call__(self, inputs: Any, cache: Any = None, **_: Any) -> Any:
        if cache is not None:
            rows = mx.zeros((1, 1, inputs.shape[-1], 4))
            cache[0].update_and_fetch(rows, rows)
        return (mx.arange(self._next.size) == self._next[inputs][..., None]).astype(mx.float32)


def run(plan: GrowthPlan, announce: Announce, show: Callable[[Table], None]) -> Growth:
    """Measure everything in temporary folders, and show each table when it is ready. Raises `ModelError`."""
    worker = Worker()
    try:
        loaded = worker.call(_with_no_model, plan.model)
        announce(f"{plan.turns:,} turns of one session …")
        with temporary_folder() as folder:
            long = _long(worker, loaded, SessionFolder(folder), plan.turns)
        show(conversation_table("One session that grows long", "turns", long))
        announce(f"{plan.branches:,} branches at one place …")
        with temporary_folder() as folder:
            wide = _wide(worker, loaded, SessionFolder(folder), plan.branches)
        show(conversation_table("Branches at one place", "branches", wide))
        folders = []
        for part in FOLDER_PARTS:
            sessions, segments = max(plan.sessions // part, 1), max(plan.segments // part, 2)
            announce(f"{sessions:,} sessions and {segments:,} segments in one folder …")
            with temporary_folder() as folder:
                folders.append(_folder(folder, sessions, segments))
        show(folder_table(folders))
        return Growth(long, wide, folders)
    finally:
        worker.close()


def _with_no_model(name: str) -> LoadedModel:
    """A model's tokenizer and template, with `NoModel`."""
    loaded = load(name)
    vocabulary = len(loaded.tokenizer.get_vocab())
    model = NoModel(vocabulary, script(loaded.tokenizer, REPLY_TOKENS, 4).ids)
    expected = ExpectedCache(model, DEFAULTS)
    return replace(loaded, model=model, fingerprint="0" * 32, context=CONTEXT_TOKENS, expected=expected)


def _long(worker: Worker, loaded: LoadedModel, folder: SessionFolder, turns: int) -> list[Point]:
    """Take turn after turn in one conversation."""
    with _begun(worker, loaded, folder) as context:
        return list(_curve(context, folder, turns))


def _wide(worker: Worker, loaded: LoadedModel, folder: SessionFolder, branches: int) -> list[Point]:
    """Take a turn on each branch, all from one place."""
    with _begun(worker, loaded, folder) as context:
        for number in range(TURNS_BEFORE_BRANCHES):
            _take(context, number)
        place = context.conversation.head
        return list(_curve(context, folder, branches, lambda: context.session.move_head(place)))


@contextlib.contextmanager
def _begun(worker: Worker, loaded: LoadedModel, folder: SessionFolder) -> Iterator[TurnContext]:
    with (
        folder.create(NAME, model=loaded.name, system=SYSTEM) as session,
        _store(loaded, folder) as store,
    ):
        checkpoints = Checkpoints(worker, loaded, store)
        template = _template(loaded, session.conversation)
        yield TurnContext(session, template, checkpoints, Sampling())


@contextlib.contextmanager
def _store(loaded: LoadedModel, folder: SessionFolder) -> Iterator[SegmentStore]:
    budget = Budget(folder.location, MAX_BYTES, set)
    with contextlib.closing(SegmentStore(folder.location, loaded.fingerprint, budget.written)) as store:
        yield store


def _template(loaded: LoadedModel, conversation: Conversation) -> Template:
    return Template(loaded.tokenizer, conversation.date, None, TemplateCache.of(loaded.tokenizer))


def _curve(
    context: TurnContext, folder: SessionFolder, count: int, before: Callable[[], None] = lambda: None
) -> Iterator[Point]:
    """Take `count` turns, calling `before` each, and return the points of their curve."""
    ends = {max(count // part, 1) for part in PARTS}
    newest: deque[Turn] = deque(maxlen=TURNS_AT_POINT)
    for number in range(1, count + 1):
        before()
        newest.append(_take(context, number))
        if number in ends:
            began = time.perf_counter()
            tree_nodes(context.conversation)
            laid_out = time.perf_counter()
            tokens = _reopen(context, folder)
            reopened = time.perf_counter()
            least = map(min, zip(*map(astuple, newest), strict=True))
            yield Point(number, tokens, Turn(*least), reopened - laid_out, laid_out - began, _memory())


def _take(context: TurnContext, number: int) -> Turn:
    began, cpu_before = time.perf_counter(), time.process_time()
    for event in turn.take(context, f"{number} {MESSAGE}", NEVER):
        if isinstance(event, PrefixMatched):
            matched = time.perf_counter()
        if isinstance(event, TurnDone):
            match = event.record.restore_seconds
    answered = time.perf_counter()
    deque(turn.settle(context, NEVER), maxlen=0)
    settled, cpu = time.perf_counter(), time.process_time() - cpu_before
    return Turn(cpu, matched - began - match, match, answered - matched, settled - answered)


def _reopen(context: TurnContext, folder: SessionFolder) -> int:
    """Restore the session's checkpoint with nothing in memory. Returns its tokens."""
    loaded, worker = context.checkpoints.loaded, context.checkpoints.worker
    if context.checkpoints.store is not None:
        context.checkpoints.store.flush()
    conversation = folder.read(NAME).conversation
    with _store(loaded, folder) as store:
        checkpoints = Checkpoints(worker, loaded, store)
        template = _template(loaded, conversation)
        context = TurnContext(SessionLog(Transcript(NAME, conversation)), template, checkpoints, Sampling())
        path = render_history(context, conversation.path()[-1]).path
        match, steps = checkpoints.advance(path, NEVER, "settle")
        assert match.depth == len(path), "all of it is on disk"
        deque(steps, maxlen=0)
    return path.end


def _folder(path: Path, sessions: int, segments: int) -> FolderPoint:
    """Most segments are hard links to a few files, which takes no space and little time."""
    crowd.write_sessions(path, sessions)
    # As many as take one or two seconds.
    paths = list(crowd.write_segments(path, max(sessions, 1), min(segments, MAX_SEGMENT_FILES)))
    crowd.link_segments(path, segments - MAX_SEGMENT_FILES)
    folder = SessionFolder(path)
    match, missed = crowd.matches(path, paths)
    return FolderPoint(
        sessions,
        segments,
        match.median,
        missed.median,
        _least(lambda: SegmentStore(path, crowd.FINGERPRINT).close()),
        _least(folder.names),
        _least(folder.summaries),
        _least(lambda: inventory.usage(path)),
        _least(lambda: maintenance.collectable(folder, MAX_BYTES)),
    )


def _least(work: Callable[[], object]) -> float:
    return timed(work, FOLDER_ROUNDS).least


def _memory() -> int:
    """The peak memory of this process, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def conversation_table(title: str, counted: str, points: Sequence[Point]) -> Table:
    columns = (counted, "tokens", "CPU", "render", "match", "answer", "settle", "reopen", "tree", "memory")
    rows = [
        (
            f"{point.turns:,}",
            f"{point.tokens:,}",
            *(milliseconds(seconds) for seconds in astuple(point.turn)),
            milliseconds(point.reopen),
            milliseconds(point.tree),
            file_size(point.memory),
        )
        for point in points
    ]
    notes = [
        f"The least of the last {TURNS_AT_POINT} turns, with a model that computes nothing. CPU: of a whole "
        "turn, without the process that renders templates. Render: from Enter to the token path. Answer: "
        "the rest until the reply is on disk. Settle: behind the prompt. "
        "Reopen: another process's way to the same place. Memory: the most so far."
    ]
    return Table(title, columns, rows, notes)


def folder_table(folders: Sequence[FolderPoint]) -> Table:
    timings: dict[str, Callable[[FolderPoint], float]] = {
        "a turn's match, found": lambda point: point.match,
        "a turn's match, of the system prompt": lambda point: point.missed,
        "opening the store": lambda point: point.open_store,
        "finding the newest session": lambda point: point.newest_session,
        "listing the sessions": lambda point: point.list,
        "counting the checkpoints": lambda point: point.stats,
        "finding what gc removes": lambda point: point.gc,
    }
    columns = ("sessions", *(f"{point.sessions:,}" for point in folders))
    segments = ("segments, a file each", *(f"{point.segments:,}" for point in folders))
    rows = [(name, *(milliseconds(of(point)) for point in folders)) for name, of in timings.items()]
    return Table("A folder that fills", columns, [segments, *rows])


if __name__ == "__main__":
    chosen = options(__doc__).parse_args()
    plan = GrowthPlan(chosen.model)
    # Parts take minutes, so each table is shown as soon as it is ready.
    grown = run(
        plan.quick() if chosen.quick else plan, announce, (lambda _: None) if chosen.json else show_result
    )
    show(chosen.json, {"scale": grown.as_json()}, ())
