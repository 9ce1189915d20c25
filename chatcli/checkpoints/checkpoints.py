"""Brings the live prompt cache to a position of a prompt: from memory, from disk, or by prefilling.

A position is the end of a segment of the prompt's `TokenPath`. `advance` plans where to continue from
(`plan.py`), moves `LiveCache` there, prefills the rest, and passes new checkpoints to `CheckpointWriter`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from chatcli.checkpoints.distributed import Disk, Leader
from chatcli.checkpoints.live_cache import LiveCache
from chatcli.checkpoints.plan import Plan, make_plan, plan_kept_reply, reply_path
from chatcli.checkpoints.writer import CheckpointWriter, is_much
from chatcli.engine import generate, speculative
from chatcli.engine.decode import decode
from chatcli.engine.generate import GenerationRequest, Token
from chatcli.engine.known_costs import KnownCosts
from chatcli.engine.lookup import Lookup
from chatcli.engine.speculative import Speculator
from chatcli.errors import MemoryFull, SegmentDamaged
from chatcli.kv import prompt_cache
from chatcli.kv.memory_limit import Limit
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.model.ranks import SINGLE_PROCESS, Ranks
from chatcli.store.segments import cuts
from chatcli.store.segments.null import NullStore
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath, common_prefix
from chatcli.threads.mlx_thread import StopSignal, Worker

UNBATCHED = "Several ranks generate the replies one by one."

# What a prefill is for: a turn that someone waits for, the reply as history, or an unsent message.
Purpose = Literal["turn", "settle", "typeahead"]


class Prefilled(NamedTuple):
    """A step of a prefill: the tokens run, and the bytes handed to the store's writer."""

    tokens: int
    bytes: int


@dataclass
class BatchTrial:
    """Whether this model generates the same tokens in a batch, and `reads` prompts there.

    None: not tested yet.
    """

    generates: bool | None = None
    reads: bool = False


class Checkpoints:
    """The live cache, the checkpoints on its path, and the store.

    `advance` plans, restores, prefills and checkpoints. `generate` continues from there.
    """

    def __init__(
        self,
        worker: Worker,
        loaded: LoadedModel,
        store: SegmentStore | None,
        memory: Limit | None = None,
        ranks: Ranks = SINGLE_PROCESS,
        costs: KnownCosts | None = None,
    ) -> None:
        """`store` None: checkpoints are off. `memory` None: no limit besides MLX's own.

        `costs` are the costs of the model's passes; None: measure them for this object.
        """
        self.worker, self.loaded = worker, loaded
        self.store = NullStore() if store is None else store
        self.live = worker.call(LiveCache, loaded, self.store, memory, ranks)
        self._writer = CheckpointWriter(self.live, worker)
        self._leader = Leader(ranks)
        self.disk = Disk(self.live, self._writer, self._leader)
        # Signals other work, which a prefill lets run between two layers.
        self.others: StopSignal | None = None
        # Guesses tokens from earlier text; None while a reply uses it.
        encode = partial(loaded.tokenizer.encode, add_special_tokens=False)
        self._new_lookup = partial(Lookup, encode, costs or KnownCosts(loaded.fingerprint))
        self._lookup: Lookup | None = self._new_lookup()
        self.in_batch = BatchTrial()
        # Why no model can generate in a batch here; None if models can.
        self.unbatched_reason = UNBATCHED if ranks.size > 1 else None
        # The parent of every path's first segment.
        self.root = self.live.root
        self._newest_path: TokenPath | None = None

    @property
    def memory(self) -> Limit | None:
        """The memory limit of the model and its cache; None: no limit besides MLX's own."""
        return self.live.memory

    @memory.setter
    def memory(self, limit: Limit | None) -> None:
        self.live.memory = limit

    @property
    def stateful(self) -> bool:
        """Whether the model has recurrent state, which is not on disk at every checkpoint."""
        return self.live.traits.stateful

    @property
    def live_ids(self) -> list[str]:
        """The ids of the checkpoints that the live cache has passed, oldest first."""
        return self.live.position.path.ids

    def cut(self, tokens: Sequence[int], boundaries: Sequence[int]) -> TokenPath:
        """A prompt's path. Hashes are taken from the live path where both agree."""
        distance = cuts.distance(self.loaded.prefill_step)
        self._newest_path = TokenPath.cut(self.root, tokens, boundaries, self._newest_path, distance)
        return self._newest_path

    def fork(self) -> PromptCache:
        """A copy of the live cache, to be run on the same thread: `worker`'s."""
        return self.worker.call(prompt_cache.fork, self.live.cache)

    def beside(self) -> Checkpoints:
        """A copy on the same store with its own live cache, which continues from this one's last checkpoint.

        It allows one prompt to be prefilled while another waits between two chunks.
        """
        other = copy.copy(self)
        other.live = self.worker.call(self.live.beside)
        other._writer = CheckpointWriter(other.live, self.worker)
        other.disk = Disk(other.live, other._writer, self._leader)
        other._lookup = self._new_lookup()
        return other

    def retire(self) -> None:
        """Hand what is unwritten to the writer, then free the live cache: nothing continues from it."""
        self._writer.add_state_at_end()
        self._writer.hand_over()
        self.worker.call(self.live.give_up)

    def room(self, used: int, most: int) -> int:
        """How many of `most` more tokens fit in memory after `used` tokens; at least 1."""
        return most if self.memory is None else max(self.memory.max_tokens(used + most) - used, 1)

    # Plan, then execute

    def advance(
        self, path: TokenPath, cancelled: StopSignal, purpose: Purpose = "turn", *, private: bool = False
    ) -> tuple[Plan, Iterator[Prefilled]]:
        """Bring the live cache to the end of `path`: plan, execute, prefill, checkpoint.

        Returns the plan that was executed, and an iterator that prefills the rest as it is iterated. Setting
        `cancelled` ends it after the current chunk and keeps what is done. A turn also writes what typeahead
        has kept in memory. Writing does not delay a turn: checkpoints are handed over after its first token
        or by `hand_over`, during a long prefill, or when it is cancelled. Nothing of a `private` prompt is
        written. Raises `MemoryFull`, before changing anything, if the path does not fit.
        """
        if private != self.live.private:
            self.set_private(private)
        plan = self.plan(path)
        if self.memory is not None:
            ends = [plan.start, *path.after(plan.depth).boundaries]
            longest = max((end - start for start, end in pairwise(ends)), default=0)
            self.memory.check(len(path.tokens), longest, written=not self.disk.is_off)
        plan = self.restore(plan)
        return plan, self._prefill_rest(plan, cancelled, purpose)

    def set_private(self, private: bool) -> None:
        """From now on write nothing that is run, or everything.

        Leaving privacy drops the private tokens first: a public prompt that continued them would write them.
        """
        with self._leader.together("set_private", private=private):
            if private:
                self.leave()
            else:
                self._newest_path = None
                self.worker.call(self.live.forget)
            self.live.private = private

    def keep(self) -> None:
        """Make the private conversation in memory public: write as much of it as possible."""
        with self._leader.together("keep"):
            self.live.private = False
            self._writer.put_path()

    def plan(self, path: TokenPath, max_depth: int | None = None) -> Plan:
        """Plan how to reach the end of `path`, without moving anything."""
        live = self.live
        return make_plan(path, live.position, live.snapshots, self.disk, live.traits, max_depth)

    def restore(self, plan: Plan) -> Plan:
        """Execute a plan, or if files are missing or damaged, the next best. Returns the executed one."""
        reason = plan.reason
        while isinstance(done := self.execute(plan), SegmentDamaged):
            reason = reason or f"the checkpoint at token {plan.start} is {done}"
            plan = self.plan(plan.path, plan.depth - 1)
        return replace(done, reason=reason or done.reason)

    def execute(self, plan: Plan) -> Plan | SegmentDamaged:
        """Move the live cache as planned. Returns the executed plan, or why it failed."""
        path = plan.path
        with self._leader.together("execute", path, **plan.orders()):
            self._writer.hand_over()
            if common_prefix(path.ids, self.live_ids) <= path.beginning:
                # The cache moves to another conversation.
                self._writer.add_state_at_end()
            try:
                return self.worker.call(self.live.apply, plan)
            except SegmentDamaged as error:
                return error

    def _prefill_rest(self, plan: Plan, cancelled: StopSignal, purpose: Purpose) -> Iterator[Prefilled]:
        if purpose == "turn":
            self.accept_typeahead()
        yield from self.prefill(plan.path, plan.depth, cancelled, purpose)
        if purpose != "turn" or cancelled.is_set():
            yield Prefilled(0, self.hand_over())

    def prefill(
        self, path: TokenPath, depth: int, cancelled: StopSignal, purpose: Purpose = "turn"
    ) -> Iterator[Prefilled]:
        """Prefill from the end of segment `depth` to the end of `path`, one segment at a time.

        What typeahead runs after the second-to-last boundary is not written before its message is sent.
        """
        live, writer, is_typed = self.live, self._writer, purpose == "typeahead"
        with self._leader.together("prefill", path, depth=depth, purpose=purpose):
            stop = self._leader.stop(cancelled)
            live.forget_snapshots(len(path.tokens))
            for end in range(depth + 1, len(path) + 1):
                unsent = is_typed and end > path.last_start
                for count in self.worker.stream(
                    live.extend, path.upto(end), stop, self.others, typeahead=is_typed, unsent=unsent
                ):
                    yield Prefilled(count, 0)
                max_states = self.memory.max_snapshots(path.upto(end).end) if self.memory else 0
                is_at_boundary = purpose != "turn" and not path[end - 1].ends_at_cut
                if is_at_boundary or is_much(writer.waiting, max_states):
                    writer.hand_over()
                if is_at_boundary:
                    yield Prefilled(0, writer.take_bytes())
                if stop.is_set():
                    return

    def prefill_tail(self, tail: Sequence[int]) -> Iterator[int]:
        """Run all of `tail` except its last token; `generate` continues from there.

        The live cache must be at the end of the path before `tail`. Yields the number of tokens of each step.
        If iteration stops early, what is done is kept for `generate`.
        """
        return self.worker.stream(self.live.prefill_tail, tail)

    # Writing

    def accept_typeahead(self) -> None:
        """The message was sent: let its checkpoints, kept in memory so far, be written."""
        with self._leader.together("accept_typeahead"):
            self.live.message_sent()

    def hand_over(self) -> int:
        """Hand new checkpoints to the store's writer.

        Returns the bytes handed over since the last call.
        """
        with self._leader.together("hand_over"):
            self._writer.hand_over()
            return self._writer.take_bytes()

    def persist_state(self) -> int:
        """Hand the state at the end of the live path to the writer, even if recomputing it would be fast.

        The conversation is reopened there, also after a kill. Returns the state's bytes; 0 if it is on disk.
        """
        with self._leader.together("persist_state"):
            return self._writer.put_state_at_end()

    def leave(self) -> None:
        """Write the state at the end of the live path that is left, unless settling has."""
        self.store.upkeep_bytes += self._writer.put_state_at_end()

    def keep_reply(self, path: TokenPath, *, expected: bool) -> tuple[str, int] | None:
        """`CheckpointWriter.put_reply`; None with several ranks."""
        return None if self._leader.ranks.size > 1 else self._writer.put_reply(path, expected=expected)

    def resume_reply(self, path: TokenPath, tail: Sequence[int]) -> int:
        """Restore as much of the reply in `tail` as `keep_reply` has written; `generate` continues after it.

        The live cache must be at the end of `path`. Returns the number of restored tokens.
        """
        position = self.live.position
        if (
            self.disk.is_off
            or self._leader.ranks.size > 1
            or position.beyond
            or position.path.ids != path.ids
        ):
            return 0
        self.store.flush()
        plan = plan_kept_reply(reply_path(path, tail), self.disk, self.live.traits)
        return self.worker.call(self.live.apply, plan).extra

    # Generate

    def leave_live_cache(self) -> None:
        """Give the live cache away to the reply that is generated on it, and continue from the last
        checkpoint.
        """
        self.worker.call(self.live.leave_to_reply)

    def generate(
        self,
        request: GenerationRequest,
        cancelled: StopSignal,
        speculator: Speculator | None = None,
        *,
        others: StopSignal | None = None,
    ) -> Generator[Token]:
        """Run the rest of the prompt and generate. The cache of a `speculator` must be at the same token.

        Closing the generator early rewinds the caches to the last checkpoint. Where history shows the reply
        as it was generated, the next prefill continues after it. With `others`, other work may run between
        its tokens, and after `leave_live_cache` prefills too.
        """
        run_model = generate.generate
        if speculator is not None:
            run_model = partial(speculative.generate_with_draft, speculator)
        lookup = None
        if request.sampling.lookup and speculator is None and self._leader.ranks.size == 1:
            lookup, self._lookup = self._lookup, None
        if lookup is not None:
            run_model = partial(decode, lookup)
        run, done = list(request.tail), len(self.live.position.beyond)
        with self._leader.generating(self.root, request) as request:
            stop = self._leader.stop(cancelled)
            # A resumed reply already has some of its rows.
            request = replace(request, tail=run[done:], prefix=[*request.prefix, *run[:done]])
            with self.lent(run, len(request.reply_start)) as (cache, log):

                def run_reply() -> Iterator[Token]:
                    for token in run_model(self.loaded, cache, request, stop, log):
                        yield token
                        self._writer.put_waiting()

                try:
                    with contextlib.closing(self.worker.pump(run_reply, others)) as tokens:
                        for token in tokens:
                            run.append(token.id)
                            yield token
                finally:
                    if lookup is not None:
                        lookup.finish()
                        self._lookup = lookup

    @contextlib.contextmanager
    def lent(self, run: list[int], reply_tokens: int = 0) -> Iterator[tuple[PromptCache, RowLog]]:
        """Lend the live cache and its log to a reply. `run` collects the tokens it has run after the
        checkpoint.

        The last `reply_tokens` of `run` already belong to the reply.
        """
        (cache, log), reply_start = self.live.begin_reply(), len(run) - reply_tokens
        try:
            yield cache, log
        except MemoryFull:
            self.worker.call(self.live.give_up)
            raise
        if cache is self.live.cache:
            self.worker.call(self.live.end_reply, run, log, reply_start)

    def vocabulary_size(self) -> int:
        """The number of token ids; the model must not be run on others."""
        return self.worker.call(self.live.vocabulary_size)

    def memory_bytes(self) -> int:
        """The bytes that the model and all caches use now."""
        return self.worker.call(device.used)

    def floats(self, scalars: Sequence[Any]) -> list[float]:
        """The logprobs of generated tokens as numbers."""
        return self.worker.call(generate.floats, scalars)
