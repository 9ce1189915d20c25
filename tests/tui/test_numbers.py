"""The panel, /stats, --json and the transcript agree on every number of a turn."""

from __future__ import annotations

import re

import pytest

from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import percent
from tests.support.program import Program
from tests.support.shell import PANEL, ready, turns_of
from tests.support.terminal import ENTER
from tests.support.window import Window, command_output, leave_window

TOLD = "My dog is called Biscuit and I live in Lisbon, by the river."


def type_and_send(window: Window, message: str) -> None:
    """Send a message once it was read while it was typed."""
    seen = window.count(PANEL)
    window.send(message)
    window.wait_for("tokens prepared")
    window.send(ENTER)
    window.wait_for(lambda: window.count(PANEL) > seen and ready(window))
    window.wait_for("next turn ready")


@pytest.mark.slow
def test_the_panel_stats_json_and_the_transcript_say_the_same(chatcli: Program) -> None:
    with Window(chatcli, "-m", chatcli.model, "-S", "talk", "-n", "8", columns=140, lines=60) as window:
        window.wait_for(lambda: ready(window))
        type_and_send(window, TOLD)
        type_and_send(window, "What is my dog called?")
        command_output(window, "/system Be kind.")
        window.wait_for("next turn ready")
        type_and_send(window, "And where do I live?")
        panels = re.findall(r"╭─ turn .*?╯", window.all_text(), re.DOTALL)
        stats = command_output(window, "/stats").split("\n")
        leave_window(window)
    records = [
        turn.reply.record
        for turn in SessionFolder(chatcli.sessions).read("talk").conversation.turns()
        if turn.reply
    ]
    header = stats[1].replace("hit ratio", "bar hit ratio")
    columns = header.replace("hit ratio", "ratio").split()
    for number, (panel, record, shown) in enumerate(
        zip(panels, records, turns_of(chatcli, "talk"), strict=True), 1
    ):
        prompt, reused = record["prompt_tokens"], record["reused_tokens"]
        typed, new, ahead = (record[f"{key}_tokens"] for key in ("typeahead", "prefilled", "reused_settled"))
        assert prompt == reused + typed + new and typed > 0
        # After a change of the prompt, what was settled again was prepared, not reused.
        again = ahead if record["settle_reason"] else 0
        kept, prepared = reused - again, typed + again
        assert record["hit_ratio"] == reused / prompt
        assert {key: shown[key] for key in record if key in shown} == {
            key: record[key] for key in record if key in shown
        }
        ratio = percent(kept, prompt)
        assert f"turn {number} · hit ratio {ratio} " in panel
        assert (
            f"  {percent(kept, prompt)} reused · {percent(prepared, prompt)} prepared · {new} new " in panel
        )
        row = dict(zip(columns, stats[1 + number].replace(" %", "%").split(), strict=False))
        assert (str(number), ratio.replace(" ", "")) == (row["turn"], row["ratio"])
        assert [prompt, kept, prepared, new] == [
            int(row[key]) for key in ("prompt", "reused", "prepared", "new")
        ]
    first, second, third = records
    assert (0, 0) == (first["reused_tokens"], first["reused_settled_tokens"])
    assert 0 < second["reused_settled_tokens"] < second["reused_tokens"] and second["settle_reason"] is None
    # After another system prompt all that is reused was run again.
    assert third["reused_settled_tokens"] == third["reused_tokens"]
    told = f"{third['reused_tokens']} tokens prepared while you read: {third['settle_reason']}"
    assert (
        told[:60] in panels[2] and "0 % reused" in panels[2] and f"turn 3 · {told}"[:120] in "\n".join(stats)
    )
    answer = chatcli.ask("Say it twice.", "-S", "talk", "-n", "4")
    (*_, last) = SessionFolder(chatcli.sessions).read("talk").conversation.turns()
    assert last.reply is not None and 0 == answer["typeahead_tokens"]
    same = [key for key in answer if key in last.reply.record]
    assert {"prompt_tokens", "reused_tokens", "hit_ratio", "reused_settled_tokens", "settled_tokens"} <= {
        *same
    }
    assert {key: answer[key] for key in same} == {key: last.reply.record[key] for key in same}
