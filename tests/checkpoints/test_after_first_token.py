"""The work for a turn's checkpoints happens after its first token."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.engine.generate import GenerationRequest
from chatcli.model.load import load
from chatcli.settings.values import Sampling
from chatcli.store.segments.catalog import cache_files
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import Worker

TOKENS = [*range(5, 45)]
NEVER = threading.Event()


@pytest.mark.parametrize("model", ["gpt_oss", "qwen3_5"], indirect=True)
def test_checkpoints_are_written_with_the_first_token(model: Path, tmp_path: Path) -> None:
    worker = Worker()
    loaded = worker.call(load, str(model))
    store = SegmentStore(tmp_path, loaded.fingerprint)
    checkpoints = Checkpoints(worker, loaded, store)
    path = TokenPath.cut(checkpoints.root, TOKENS, [10, 38])
    _, steps = checkpoints.advance(path, NEVER)
    assert [0, 0] == [step.bytes for step in steps]
    store.flush()
    assert [] == list(cache_files(store.location))
    request = GenerationRequest(TOKENS[38:], Sampling(temp=0.0, max_tokens=3), 3)
    assert 3 == len(list(checkpoints.generate(request, NEVER)))
    written = checkpoints.hand_over()
    assert 0 == checkpoints.hand_over()
    store.flush()
    assert written == sum(file.stat().st_size for file in cache_files(store.location)) > 0

    again = Checkpoints(worker, loaded, SegmentStore(tmp_path, loaded.fingerprint))
    assert 2 == again.restore(again.plan(path)).depth
    store.close()
    worker.close()


def test_what_waits_for_a_first_token_that_never_comes_is_written_before_the_next_turn(
    model: Path, tmp_path: Path
) -> None:
    worker = Worker()
    loaded = worker.call(load, str(model))
    store = SegmentStore(tmp_path, loaded.fingerprint)
    checkpoints = Checkpoints(worker, loaded, store)
    first, other = (TokenPath.cut(checkpoints.root, tokens, [30]) for tokens in (TOKENS, TOKENS[::-1]))
    for path in (first, other):
        _, steps = checkpoints.advance(path, NEVER)
        assert 30 == sum(step.tokens for step in steps)
    store.flush()
    assert 1 == store.depth(first, stateful=False)
    store.close()
    worker.close()
