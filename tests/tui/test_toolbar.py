"""What the toolbar counts."""

from __future__ import annotations

from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta
from chatcli.tui.toolbar import TokenMeter


def test_the_running_turn_is_counted_from_its_prompt_on() -> None:
    meter = TokenMeter()
    meter.event(TextDelta("nothing is known yet"))
    assert None is meter.tokens
    for event in (PrefixMatched(100, 90, None), ThinkingDelta("a", 1), ThinkingDelta("b", 5)):
        meter.event(event)
    assert 105 == meter.tokens
    meter.event(TextDelta("c"))
    assert 106 == meter.tokens
    meter.reset()
    assert None is meter.tokens
