"""Tests of talking to pocket: the parts of a reply, and many replies at once."""

from __future__ import annotations

import pytest

from chatcli.pocket import FOLDER
from training.pocket.talk import Engine, Talk, read, replies


@pytest.mark.parametrize(
    ("text", "think", "ended", "well_formed"),
    [
        ("A dog.\n</think>\n\nYour dog.", True, True, True),
        ("A dog.\n</think>\n\nYour dog.", True, False, False),
        ("Your dog.", True, True, False),
        ("A dog.\n</think>\n\n ", True, True, False),
        ("A <think> dog.\n</think>\n\nYour dog.", True, True, False),
        ("</think>A</think>B", True, True, False),
        ("Your code is <3 and <b>.", False, True, True),
        ("Your dog.<|im_start|>", False, True, False),
    ],
)
def test_a_reply_is_well_formed_or_not(text: str, think: bool, ended: bool, well_formed: bool) -> None:
    assert read(text, think, ended, 5, 1.0).well_formed is well_formed


def test_replies_in_batches_are_those_of_prompts_run_alone() -> None:
    engine = Engine.open(FOLDER)
    typed = ["What is 1 + 2?", "What is 7 + 9?", "What is 9 - 4?", "hi", "How do I leave? " * 20]
    together = dict(replies(engine, [[{"role": "user", "content": text}] for text in typed], think=True))
    alone = [Talk(engine).say(text) for text in typed]
    assert [(a.thinking, a.text, a.tokens) for a in alone] == [
        (together[n].thinking, together[n].text, together[n].tokens) for n in range(len(typed))
    ]
