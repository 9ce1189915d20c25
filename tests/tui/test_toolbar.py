"""What the toolbar counts and shows."""

from __future__ import annotations

from pathlib import Path

from chatcli.conversation.tree import Conversation, Message
from chatcli.events import PrefixMatched, TextDelta, ThinkingDelta
from chatcli.session.background import BackgroundWork
from chatcli.session.open_session import OpenSession
from chatcli.session.opening import SessionRequest
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript
from chatcli.tui import toolbar
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


class Model:
    """As much of a `ModelSlot` as the toolbar asks for."""

    name = "pocket"
    loading = False

    def context_size(self) -> int:
        return 4096


class Leaving(OpenSession):
    """A session that another thread leaves and opens again, as unluckily as can be: between any two reads."""

    _is_open = True

    @property  # type: ignore[override]
    def log(self) -> SessionLog:
        self._is_open = not self._is_open
        return SessionLog(Transcript("", Conversation(""))) if self._is_open else self._log

    @log.setter
    def log(self, log: SessionLog) -> None:
        self._log = log


class Chat:
    """As much of a `LiveChat` as the toolbar asks for, with a real session of one message."""

    def __init__(self, folder: SessionFolder) -> None:
        file = folder.create("dogs", model=None, system=None)
        file.append(Message("user", "My dog is called Biscuit."), None)
        file.close()
        self.background, self.model = BackgroundWork(), Model()
        self.session = Leaving(folder, SessionRequest(name="dogs"), self.background)


def test_a_session_may_be_left_on_another_thread_while_the_toolbar_is_drawn(tmp_path: Path) -> None:
    chat = Chat(SessionFolder(tmp_path))
    shown = set()
    for reads_before in range(6):
        for _ in range(reads_before):
            assert chat.session.name in ("dogs", None)
        shown |= {fragment[1] for fragment in toolbar.text(chat, False, None, 80)}
    assert {"turn 1", "pocket"} <= shown


def test_the_name_of_a_session_is_shown_before_its_first_message(tmp_path: Path) -> None:
    chat = Chat(SessionFolder(tmp_path))
    chat.session = OpenSession(SessionFolder(tmp_path), SessionRequest(name="recipes"), chat.background)
    assert ("class:toolbar.name", "  recipes") == toolbar.text(chat, False, None, 80)[0]
    chat.session.new(None)
    assert ("class:toolbar.name", "  new conversation") == toolbar.text(chat, False, None, 80)[0]
