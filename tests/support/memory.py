"""How much memory a first message needs."""

from __future__ import annotations

from pathlib import Path

from chatcli.turn import turn
from chatcli.turn.prompt import render
from tests.support.harness import Harness

SHORT_MESSAGE = "My dog is called Biscuit."


def needed_bytes(model: Path, folder: Path, text: str, *, cache: bool = True) -> int:
    """The bytes that a first message takes, as the memory limit estimates them."""
    with Harness(model, folder, cache=cache) as harness:
        chat = harness.chat("measure")
        limit = chat.checkpoints.memory
        assert limit is not None
        prompt = render(chat, turn.append(chat, text, (), chat.conversation.head))
        longest = max(segment.end - segment.start for segment in prompt.path)
        return limit.needed_bytes(len(prompt.tokens) + 1, longest, written=cache)
