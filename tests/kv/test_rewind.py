"""Tokens that were run are taken back on every class of cache: what comes then is as if they never were."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

from chatcli.kv import prompt_cache
from chatcli.kv.leaf import leaves
from tests.kv.test_cache_classes import MAKERS, all_equal, feed
from tests.support.architectures import ARCHITECTURES, PROMPT, build, caches
from tests.support.families import at_night

# The classes that are cut where several tokens are run in one pass, and those whenever.
CUT = {"full", "concatenated", "4 bits", "8 bits", "window", "window with keep", "chunked", "nested"}
CUT_ALWAYS = {"full", "concatenated", "4 bits", "8 bits", "chunked"}
FILLINGS = [3, 11, 12, 30, 300]


def fed(maker: Callable[[], Any], count: int, steps: list[int]) -> list[Any]:
    cache = [maker()]
    feed(cache, 1, count, mx.float32)
    for number, step in enumerate(steps):
        feed(cache, 2 + number, step, mx.float32)
    return cache


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("before", FILLINGS)
@pytest.mark.parametrize("kept", [0, 1, 4, 6])
def test_the_first_tokens_of_a_pass_stay_or_none_do(name: str, before: int, kept: int) -> None:
    cache = fed(MAKERS[name], before, [1, 1])
    mark = prompt_cache.snapshot(cache, 0)
    feed(cache, 9, 6, mx.float32)
    held = prompt_cache.take_back(cache, mark, 6, kept)
    assert (kept if kept == 6 or name in CUT else 0) == held
    expected = fed(MAKERS[name], before, [1, 1])
    if held:
        feed_first(expected, 9, 6, held)
    for seed, count in ((20, 1), (21, 1), (22, 3), (23, 1)):
        assert all_equal(feed(expected, seed, count, mx.float32), feed(cache, seed, count, mx.float32))


def feed_first(cache: list[Any], seed: int, count: int, kept: int) -> None:
    """Feed the first `kept` of the rows that `feed` would feed, in one pass."""
    if kept == count:
        feed(cache, seed, count, mx.float32)
        return
    mx.random.seed(seed)
    for leaf in (each.cache for each in leaves(cache)):
        if hasattr(leaf, "maybe_trim_front"):
            leaf.maybe_trim_front()
        rows = mx.random.normal((2, 1, 2, count, 32))[..., :kept, :]
        if kept == 1 and hasattr(leaf, "_update_concat"):
            leaf._update_concat(rows[0], rows[1])
        else:
            leaf.update_and_fetch(rows[0], rows[1])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("before", FILLINGS)
def test_tokens_that_were_run_alone_are_taken_back(name: str, before: int) -> None:
    cache = fed(MAKERS[name], before, [1, 1])
    mark = prompt_cache.snapshot(cache, 0)
    for seed in (9, 10, 11):
        feed(cache, seed, 1, mx.float32)
    held = prompt_cache.take_back(cache, mark, 3, 2, in_one_pass=False)
    assert held == 2 if name in CUT_ALWAYS else held in (0, 2)
    expected = fed(MAKERS[name], before, [1, 1])
    for seed in (9, 10)[:held]:
        feed(expected, seed, 1, mx.float32)
    for seed, count in ((20, 1), (21, 3), (22, 1)):
        assert all_equal(feed(expected, seed, count, mx.float32), feed(cache, seed, count, mx.float32))


def by_day() -> list[Any]:
    """Every architecture; by day one for each set of cache classes."""
    seen: set[frozenset[str]] = set()
    cases = []
    for name in ARCHITECTURES:
        kinds = frozenset(caches(name))
        cases.append(at_night(name) if kinds in seen else name)
        seen.add(kinds)
    return cases


@pytest.mark.parametrize("name", by_day())
def test_guessing_and_checking_gives_the_tokens_of_single_passes(name: str) -> None:
    """Whatever part of a guess is right, on a real model's cache; logits are the same within rounding."""
    model, chance = build(name), random.Random(1)
    reply, expected = single_passes(model, 40)
    cache = prompt_cache.new(model)
    model(mx.array(PROMPT[:-1])[None], cache=cache)
    prompt_cache.evaluate(cache)
    done, waiting, found = 0, PROMPT[-1:], []
    while done < 40:
        right = chance.randrange(4)
        guess = [*reply[done : done + right], *((token + 1) % 128 for token in reply[done + right :][:2])]
        if (most := prompt_cache.most_in_one_pass(model, cache)) is not None:
            del guess[max(most - len(waiting), 0) :]
            right = min(right, len(guess))
        run, mark = [*waiting, *guess], prompt_cache.snapshot(cache, 0)
        logits = model(mx.array(run)[None], cache=cache)[0, len(waiting) - 1 :]
        chosen = reply[done : done + right + 1]
        found += [logits[place] for place in range(len(chosen))]
        held = prompt_cache.take_back(cache, mark, len(run), len(waiting) + min(right, len(chosen)))
        waiting, done = [*waiting, *chosen][held:], done + len(chosen)
        if len(waiting) > 12:
            # In the loop a state's place ends it.
            model(mx.array(waiting[:-1])[None], cache=cache)
            waiting = waiting[-1:]
    for left, right_logits in zip(expected, found, strict=False):
        assert mx.allclose(left, right_logits, atol=2e-2).item()


def single_passes(model: Any, count: int) -> tuple[list[int], list[mx.array]]:
    cache = prompt_cache.new(model)
    model(mx.array(PROMPT[:-1])[None], cache=cache)
    reply, rows = [PROMPT[-1]], []
    for _ in range(count + 4):
        rows.append(model(mx.array(reply[-1:])[None], cache=cache)[0, -1])
        reply.append(mx.argmax(rows[-1]).item())
    return reply[1:], rows
