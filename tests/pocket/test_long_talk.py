"""Long conversations to learn from: much is told first, and many questions end them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tokenizers import Tokenizer

from chatcli.pocket import FOLDER
from training.pocket.conversations import LONG, Conversation, Difficulty, by_hand, conversation
from training.pocket.grounding import grounded
from training.pocket.tokenizer import ENOUGH, HISTORY, LAST, THOUGHT, Coder
from training.pocket.turns import Turn
from training.pocket.values import Source

Make = Callable[[Source, Difficulty], Conversation]


@pytest.mark.parametrize("make", [by_hand, conversation])
def test_a_long_talk_ends_with_many_questions(make: Make) -> None:
    ends = [make(Source(Random(seed)), LONG).turns for seed in range(20)]
    assert min(map(len, ends)) > 7
    asked = [turn.thinking.startswith("Asked") for turns in ends for turn in turns[-6:]]
    assert sum(asked) / len(asked) > 0.5


def test_only_the_last_turns_think() -> None:
    coder = Coder(Tokenizer.from_file(str(FOLDER / "tokenizer.json")))
    turns = [Turn(f"my cat is {name}", "", f"Got it: {name}.", "tell") for name in ("Momo", "Rex", "Ivory")]
    turns = [*turns, *(Turn("which cat?", "Asked: the cat. Told: Rex.", "Rex.", "ask") for _ in range(3))]
    sample = coder.sample(Conversation(None, grounded(turns, 2)), think=True, deep=2)
    text = coder.tokenizer.decode(sample.ids, skip_special_tokens=False)
    assert text.count(ENOUGH) == text.count("Asked: which cat.") == 2
    assert text.index(ENOUGH) > text.index("which cat?", text.index("which cat?") + 1)
    assert set(sample.marks) == {0, HISTORY, THOUGHT, LAST}
