"""What a reply's record says about its thinking and tool calls."""

from __future__ import annotations

from typing import Any

from chatcli.engine.generate import Token
from chatcli.events import ToolCall, TurnRecord
from chatcli.replies.splitter import Part
from chatcli.turn.reply import ReplyCollector


class Parts:
    """A splitter that gives the parts it was made with, one list for each token."""

    def __init__(self, *parts: list[Part]) -> None:
        self._parts = iter(parts)

    def feed(self, text: str) -> list[Part]:
        return next(self._parts)

    def finish(self) -> list[Part]:
        return []


def collected(parts: Parts, seconds: list[float], recalled: float | None = None) -> TurnRecord:
    splitter: Any = parts
    collector = ReplyCollector(TurnRecord("talk", 1), splitter, (), iter([*seconds, 99.0]).__next__)
    if recalled is not None:
        collector.recall([1], "", 1, recalled)
    token: Any = Token.__new__(Token)
    for name, value in {"id": 1, "text": "", "logprob": 0, "from_draft": False, "tps": 1.0}.items():
        object.__setattr__(token, name, value)
    object.__setattr__(token, "finish_reason", None)
    for _ in range(3 - (recalled is not None)):
        list(collector.take(token))
    return collector.record


def test_a_record_says_where_the_text_holds_calls() -> None:
    call = ToolCall("search", "{}")
    parts = Parts([Part("Wait.\n")], [Part("<call>\n", calls=(call, call))], [Part("Done.")])
    record = collected(parts, [])
    place = {"start": 6, "end": 12, "name": "search", "arguments": "{}"}
    assert [place, place] == record.tool_calls and "<call>" == record.text[6:12]


def test_a_reply_that_goes_on_adds_to_the_time_of_its_thinking() -> None:
    thinking = [[Part("a", True)], [Part("b", True)], [Part("c", True)]]
    assert 4.0 == collected(Parts(*thinking), [1.0, 1.0, 2.0, 5.0]).thinking_seconds
    assert 7.5 == collected(Parts(*thinking), [0.0, 0.0, 10.0, 10.0, 11.0], 6.5).thinking_seconds
