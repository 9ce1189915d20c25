"""What is printed while a prompt is up, and what changes above it."""

from __future__ import annotations

import asyncio

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import create_app_session
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput

from chatcli.tui.live_region import LiveRegion


def test_what_is_printed_when_the_prompt_has_just_ended_comes_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live_region = LiveRegion({})
    with create_app_session(DummyInput(), DummyOutput()):
        app: Application[None] = Application()
        with live_region.attached(app) as start_drawing:

            async def prompt() -> None:
                start_drawing()

            asyncio.run(prompt())
            print("too late to be drawn", file=live_region, flush=True)
            assert "" == capsys.readouterr().out
    print("and after", file=live_region, flush=True)
    assert "too late to be drawn\nand after\n" == capsys.readouterr().out
