"""A shell that is ended in the middle of a reply leaves what came, and the next one goes on."""

from __future__ import annotations

import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.transcript import recovered
from tests.support.shell import (
    check_terminal_restored,
    leave,
    open_shell,
    ready,
    send_message,
    speaking,
    turns_of,
    wait_for_some_reply,
)
from tests.support.tiny import update_json

# How far the file may be behind the screen.
BEHIND_SECONDS = 1.0
CONTEXT = 1 << 20
# Bias against the token that ends a reply: one in some hundreds is drawn.
ENDLESS = ("--logit-bias", "2:-100")
CUT_OFF = "Turn 1's reply was cut off. /continue resumes it, /regenerate writes another."


def with_room(models: Path, folder: Path) -> Path:
    """The speaker again, with a context that no machine fills while a test looks at it."""
    shutil.copytree(models / "speaker", folder / "speaker")
    update_json(folder / "speaker" / "config.json", max_position_embeddings=CONTEXT)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_shell_that_is_ended_in_a_reply_leaves_what_was_shown(
    number: signal.Signals, models: Path, tmp_path: Path
) -> None:
    room = with_room(models, tmp_path)
    with speaking(room, tmp_path / "home", CONTEXT // 2, *ENDLESS) as (program, terminal):
        terminal.line("Hello.")
        wait_for_some_reply(terminal)
        # What the speaker says has no spaces: its longest run of letters is within one row.
        shown = max(re.findall("[abc]+", terminal.text()), key=len)
        killed_at = time.monotonic() + BEHIND_SECONDS
        while time.monotonic() < killed_at:
            terminal.read(0.05)
        terminal.process.send_signal(number)
        leaves_by_itself = number == signal.SIGTERM
        assert (0 if leaves_by_itself else -number) == terminal.wait_for_exit()
        if leaves_by_itself:
            check_terminal_restored(terminal)
    transcript = SessionFolder(program.sessions).read("talk")
    (turn,) = transcript.conversation.turns()
    assert turn.reply is not None and "cancelled" == turn.reply.finish_reason
    assert ([] if leaves_by_itself else [CUT_OFF]) == list(recovered(transcript))
    kept = turn.reply.message
    assert shown in kept.thinking + kept.content and len(shown) > 3
    with open_shell(program, "chat", "-m", program.model, "-S", "talk", "-n", "8", *ENDLESS) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        if not leaves_by_itself:
            terminal.wait_for(lambda: CUT_OFF in " ".join(terminal.text().split()))
        send_message(terminal, "/continue")
        send_message(terminal, "And?")
        leave(terminal)
    first, second = turns_of(program, "talk")
    assert first["thinking"].startswith(kept.thinking.strip()) and first["text"].startswith(kept.content)
    assert len(first["thinking"] + first["text"]) > len(kept.thinking + kept.content)
    assert "And?" == second["user"]
