"""Segment ids and matching: what an id depends on, and which boundaries can be used."""

from __future__ import annotations

import hashlib
import itertools
import random
import re

import pytest

from chatcli.store.segments.token_path import TokenPath, common_prefix, root_id, segment_id, usable_boundaries

ROOT = root_id("a model")


def test_an_id_is_what_the_format_says_it_is() -> None:
    tokens = [1, 2, 70000]
    data = bytes.fromhex(ROOT) + (3).to_bytes(8, "little")
    data += b"".join(token.to_bytes(8, "little", signed=True) for token in tokens)
    assert hashlib.sha256(data).hexdigest() == segment_id(ROOT, tokens)


def test_an_id_of_the_root_depends_on_the_model() -> None:
    assert hashlib.sha256(b"chatcli:1:a model").hexdigest() == ROOT
    assert root_id("another model") != ROOT


def test_an_id_depends_on_parent_tokens_order_and_length() -> None:
    ids = [
        segment_id(ROOT, [1, 2]),
        segment_id(root_id("another model"), [1, 2]),
        segment_id(ROOT, [2, 1]),
        segment_id(ROOT, [1]),
        segment_id(ROOT, [1, 2, 0]),
        segment_id(ROOT, []),
        segment_id(ROOT, [258]),
        segment_id(segment_id(ROOT, [1]), [2]),
    ]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[0-9a-f]{64}", name) for name in ids)


def test_the_same_tokens_have_the_same_id_whatever_holds_them() -> None:
    assert segment_id(ROOT, [1, 2]) == segment_id(ROOT, (1, 2))


def test_a_path_cuts_the_prompt_at_its_boundaries() -> None:
    prompt = list(range(10, 20))
    path = TokenPath.cut(ROOT, prompt, [3, 4, 9])
    assert [(0, 3), (3, 4), (4, 9)] == [(part.start, part.end) for part in path]
    assert [ROOT, path[0].id, path[1].id] == [part.parent for part in path]
    assert [segment_id(part.parent, prompt[part.start : part.end]) for part in path] == [
        part.id for part in path
    ]


@pytest.mark.parametrize("boundaries", [[3, 4, 9], [3, 5, 9], [4, 9], [3], []])
@pytest.mark.parametrize("changed", [None, 0, 3, 8, 11])
def test_a_path_is_the_same_whatever_was_known_of_another(boundaries: list[int], changed: int | None) -> None:
    prompt = list(range(12))
    known = TokenPath.cut(ROOT, [99 if at == changed else at for at in prompt], [3, 4, 9, 11])
    assert TokenPath.cut(ROOT, prompt, boundaries) == TokenPath.cut(ROOT, prompt, boundaries, known)
    other_root = TokenPath.cut(segment_id(ROOT, [1]), prompt, boundaries)
    assert other_root == TokenPath.cut(other_root.root, prompt, boundaries, known)


@pytest.mark.parametrize("at", [0, 1, 4095, 4096, 9999, 10_000])
def test_long_sequences_part_where_they_do(at: int) -> None:
    left, right = list(range(10_000)), list(range(10_100))
    right[at] = -1
    assert at == common_prefix(left, right) == common_prefix(right, left)


def test_no_boundaries_make_no_segments() -> None:
    assert () == TokenPath.cut(ROOT, [1, 2, 3], []).segments


def test_other_boundaries_lead_to_other_ids_at_the_same_place() -> None:
    prompt = list(range(10))
    assert TokenPath.cut(ROOT, prompt, [8])[-1].id != TokenPath.cut(ROOT, prompt, [4, 8])[-1].id


def test_prompts_share_ids_exactly_as_far_as_their_tokens_agree() -> None:
    first, second = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9, 6]
    ids = [[part.id for part in TokenPath.cut(ROOT, prompt, [2, 4, 6])] for prompt in (first, second)]
    assert [True, True, False] == [a == b for a, b in zip(*ids, strict=True)]


def test_tokens_after_the_last_boundary_do_not_change_the_ids() -> None:
    assert TokenPath.cut(ROOT, [1, 2, 3], [2]).ids == TokenPath.cut(ROOT, [1, 2, 9, 9], [2]).ids


def test_the_common_prefix_is_counted_one_by_one() -> None:
    for left, right in itertools.product(
        [list(tokens) for size in range(4) for tokens in itertools.product([1, 2], repeat=size)],
        repeat=2,
    ):
        counted = 0
        while counted < min(len(left), len(right)) and left[counted] == right[counted]:
            counted += 1
        assert counted == common_prefix(left, right)
        assert counted == common_prefix(tuple(left), right)


@pytest.mark.parametrize(
    ("positions", "length", "min_position", "usable"),
    [
        ([3, 5, 9], 10, 1, [3, 5, 9]),
        ([3, 5, 9], 9, 1, [3, 5]),
        ([3, 5, 10], 10, 1, [3, 5]),
        ([5, 3, 9], 10, 1, [3, 9]),
        ([3, 3, 3], 10, 1, [3]),
        ([0, 3], 10, 1, [3]),
        ([-1, 0], 10, 1, []),
        ([3, 15, 16, 17], 40, 16, [16, 17]),
        ([3, 20], 40, 16, [20]),
        ([1], 1, 1, []),
        ([1], 2, 1, [1]),
        ([], 10, 1, []),
        ([1, 2], 0, 1, []),
    ],
)
def test_usable_boundaries_are_these(
    positions: list[int], length: int, min_position: int, usable: list[int]
) -> None:
    assert usable == usable_boundaries(positions, length, min_position)


def test_usable_boundaries_always_leave_a_token_and_increase() -> None:
    rng = random.Random(1)
    for _ in range(500):
        positions = [rng.randint(-3, 30) for _ in range(rng.randint(0, 8))]
        length, min_position = rng.randint(0, 30), rng.randint(1, 10)
        usable = usable_boundaries(iter(positions), length, min_position)
        assert sorted(set(usable)) == usable
        assert set(positions) >= set(usable)
        assert all(min_position <= position < length for position in usable)
        in_range = [position for position in positions if min_position <= position < length]
        assert bool(in_range) == bool(usable)
        if positions == sorted(set(positions)):
            assert in_range == usable


def test_boundaries_of_a_longer_prompt_begin_with_those_of_a_shorter() -> None:
    positions = [4, 18, 30, 44, 60]
    for short, long in itertools.combinations(range(0, 70), 2):
        shorter = usable_boundaries(positions, short, 16)
        assert shorter == usable_boundaries(positions, long, 16)[: len(shorter)]
