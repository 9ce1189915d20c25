"""The full-screen list of saved sessions, to resume one.

It searches and reads in the background, so typing never waits for a disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import wcwidth
from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.text import Text

from chatcli.conversation.tree import Conversation
from chatcli.errors import ChatcliError, SessionUnreadable
from chatcli.store import maintenance
from chatcli.store.sessions import search
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.listing import Summary
from chatcli.text import clean_line, count
from chatcli.tui.pickers.picker import GAP, Action, Matcher, Picker, PickerRows, Question, ago
from chatcli.tui.saved import layout_console, portable_entry, question_rows, reply_rows
from chatcli.tui.text.console import DIM, fragments
from chatcli.tui.text.fit import first_words, fit, fit_name, padded, portable, wrapped

T = TypeVar("T")

# Seconds without a key after which a session is read for its preview, or the folder is searched.
PREVIEW_DELAY, SEARCH_DELAY = 0.1, 0.2
MAX_PREVIEWS = 64
PREVIEW_TURNS = 2
MAX_NAME_COLUMNS = 32
# The least width of a row that shows first words beside the name.
FIRST_WORDS_WIDTH = 56
UNREADABLE = "cannot be read"


@dataclass(frozen=True)
class SessionActions:
    """The list's actions. `load` and `search` are called on a thread, the others are not.

    Each may raise `ChatcliError`, whose sentence is shown. `search` returns the names of the sessions
    whose messages contain the words; `rename(old, new)` returns the new name. `check_closed` raises for a
    session that is open.
    """

    load: Callable[[str], Conversation]
    rename: Callable[[str, str], str]
    delete: Callable[[str], object]
    search: Callable[[str], Collection[str]]
    check_closed: Callable[[str], None]

    @classmethod
    def on(cls, folder: SessionFolder) -> SessionActions:
        """Read, rename, delete and search the sessions in `folder`."""
        return cls(
            load=lambda name: folder.read(name).conversation,
            rename=folder.rename,
            delete=lambda name: maintenance.delete(folder, name),
            search=lambda words: search.names(folder.folder, words),
            check_closed=folder.check_closed,
        )


class SessionRows(PickerRows[str]):
    """Sessions in the given order. Picking one returns its name."""

    title = "Resume a session"
    enter_label = "resume"
    preview_scrolls = False
    COLUMNS = (("turns", 6, 64), ("last used", 10, 36))

    def __init__(self, summaries: Sequence[Summary], actions: SessionActions) -> None:
        self._summaries = list(summaries)
        self._session_actions = actions
        # Indices of the summaries that match the filter.
        self._shown = list(range(len(self._summaries)))
        self._query = ""
        # Names of sessions whose messages match.
        self._message_matches: frozenset[str] = frozenset()
        self._previews: dict[str, Conversation | ChatcliError] = {}
        # The preview in sight. It is drawn again at each key, but laid out once.
        self._drawn_previews: dict[tuple[str, int, int], list[StyleAndTextTuples]] = {}
        self._matcher = Matcher(self._texts)
        widths = (wcwidth.width(_shown_name(summary)) for summary in self._summaries)
        self._name_width = min(max(widths, default=0), MAX_NAME_COLUMNS)
        self._loading: asyncio.Task[None] | None = None
        self._searching: asyncio.Task[None] | None = None

    def _texts(self) -> Iterator[str]:
        for summary in self._summaries:
            yield f"{summary.name}\n{summary.first_words}"

    def count(self) -> int:
        return len(self._shown)

    def _summary(self, index: int) -> Summary:
        return self._summaries[self._shown[index]]

    def tally(self) -> str:
        total = len(self._summaries)
        busy = "searching… · " if self._is_searching else ""
        if self._query.strip():
            return f"{busy}{len(self._shown):,} of {total:,} sessions"
        return count("session", total)

    def empty_text(self, query: str) -> str:
        if not query.strip():
            return "No saved sessions yet. Esc leaves: what you say in a chat is saved as you go."
        if self._is_searching:
            return "Searching the messages…"
        return f"No sessions match '{query}'. Esc clears the filter."

    def choose(self, index: int) -> str:
        """The session's name. Raises `SessionUnreadable`."""
        summary = self._summary(index)
        if summary.problem is not None:
            raise SessionUnreadable(summary.problem)
        return summary.name

    # Filtering: by names and first words at once, by messages when these have been searched

    def filter(self, query: str, selected: int) -> int:
        """Select the newest match, and the same session again once the filter is cleared."""
        name = self._summary(selected).name if self._shown else None
        words = clean_line(query)
        # A session that matches some words may match more: it stays until these have been searched for.
        if not words or not query.startswith(self._query):
            self._message_matches = frozenset()
        self._searching = replaced(
            self._searching, SEARCH_DELAY, self._session_actions.search, words or None, self._searched
        )
        self._query = query
        self._apply_filter()
        return 0 if query.strip() else self.find(name)

    def _searched(self, words: str, names: Collection[str] | ChatcliError) -> None:
        if words != clean_line(self._query) or self.picker is None:
            return
        if isinstance(names, ChatcliError):
            self.picker.notice = clean_line(str(names))
            names = ()
        selected = self._summary(self.picker.selected).name if self._shown else None
        self._message_matches = frozenset(names)
        self._apply_filter()
        self.picker.select(self.find(selected))

    def _apply_filter(self) -> None:
        matches = set(self._matcher.find(self._query))
        self._shown = [
            index
            for index, summary in enumerate(self._summaries)
            if index in matches or summary.name in self._message_matches
        ]

    @property
    def _is_searching(self) -> bool:
        return self._searching is not None and not self._searching.done()

    def find(self, name: str | None) -> int:
        """The row of a session, the first one if it is not in sight."""
        return next((row for row in range(len(self._shown)) if self._summary(row).name == name), 0)

    # Drawing

    def line(self, index: int, width: int) -> StyleAndTextTuples:
        summary, columns = self._summary(index), self.columns(width)
        name, room = _shown_name(summary), width - sum(GAP + taken for _, taken in columns)
        name_width = min(self._name_width, room * 2 // 5) if room + GAP >= FIRST_WORDS_WIDTH else room
        if summary.problem is not None:
            # In words too, for terminals without colours.
            name = padded(name, min(name_width, width - len(UNREADABLE) - GAP))
            return [("class:bad", padded(f"{name}  {UNREADABLE}", width))]
        words = padded("  " + first_words(summary.first_words), room - name_width)
        cells = {"turns": f"{summary.turns:,}", "last used": ago(summary.last_used, time.time())}
        right = "".join(" " * GAP + cells[column].rjust(taken) for column, taken in columns)
        return [
            ("class:name", padded(fit_name(name, name_width), name_width)),
            ("", words),
            ("class:dim", right),
        ]

    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        summary = self._summary(index)
        preview = self._previews.get(summary.name)
        if isinstance(preview, Conversation):
            if (key := (summary.name, width, height)) not in self._drawn_previews:
                self._drawn_previews = {key: _last_turns(preview, width, height)}
            yield from self._drawn_previews[key]
            return
        text, style = summary.first_words, "class:dim"
        if summary.problem is not None or preview is not None:
            text, style = summary.problem or str(preview), "class:bad"
        for line in wrapped(text, width):
            yield [(style, line)]

    def on_select(self, index: int) -> None:
        summary = self._summary(index)
        is_known = summary.problem is not None or summary.name in self._previews
        name = None if is_known else summary.name
        self._loading = replaced(self._loading, PREVIEW_DELAY, self._session_actions.load, name, self._loaded)

    def _loaded(self, name: str, preview: Conversation | ChatcliError) -> None:
        if len(self._previews) >= MAX_PREVIEWS:
            self._previews.pop(next(iter(self._previews)))
        self._previews[name] = preview
        if self.picker is not None:
            self.picker.refresh()

    # Renaming and deleting

    def actions(self, picker: Picker[str]) -> Sequence[Action]:
        return [
            Action(("f2", "c-r"), "Ctrl-R", "rename", lambda: self._ask_name(picker)),
            Action(("delete", "c-x"), "Ctrl-X", "delete", lambda: self._ask_delete(picker)),
        ]

    def _ask_name(self, picker: Picker[str]) -> None:
        if self._shown:
            summary = self._summary(picker.selected)
            picker.ask(Question("New name:", lambda name: self._rename(picker, summary, name), summary.name))

    def _rename(self, picker: Picker[str], summary: Summary, name: str) -> None:
        """Raises `ChatcliError` if the session cannot have this name."""
        name = name.strip()
        if not name or name == summary.name:
            return
        name = self._session_actions.rename(summary.name, name)
        self._summaries[self._summaries.index(summary)] = replace(summary, name=name)
        if summary.name in self._previews:
            self._previews[name] = self._previews.pop(summary.name)
        self._refresh_list()
        picker.select(self.find(name))

    def _ask_delete(self, picker: Picker[str]) -> None:
        if self._shown:
            summary = self._summary(picker.selected)
            # Short enough that a narrow screen shows the end of the question.
            text = f"Delete '{fit(_shown_name(summary), picker.width - 30)}' for good? y/N"
            with picker.errors_as_notice():
                self._session_actions.check_closed(summary.name)
                picker.ask(Question(text, lambda _: self._delete(picker, summary), yes_or_no=True))

    def _delete(self, picker: Picker[str], summary: Summary) -> None:
        """Raises `ChatcliError` if the session cannot be deleted."""
        self._session_actions.delete(summary.name)
        self._previews.pop(summary.name, None)
        self._summaries.remove(summary)
        self._refresh_list()
        picker.select(picker.selected)

    def _refresh_list(self) -> None:
        self._matcher = Matcher(self._texts)
        self._apply_filter()


def _shown_name(summary: Summary) -> str:
    return portable(clean_line(summary.name))


def _last_turns(conversation: Conversation, width: int, height: int) -> list[StyleAndTextTuples]:
    """The last turns, each message cut so that all fit; questions get the least room."""
    turns = conversation.turns()[-PREVIEW_TURNS:]
    if not turns:
        return [[("class:dim", "No messages yet.")]]
    question_room = max(height // 6, 1)
    reply_room = max((height - 1) // len(turns) - question_room, 1)
    console = layout_console(width + 1)
    rows: list[Text] = []
    for turn in turns:
        question = portable(turn.user.message.brief).strip()[: width * (question_room + 1)]
        rows += _cut(
            question_rows(question or "(empty)", width + 1, f"{turn.number} › "), question_room, width
        )
        if turn.reply is not None:
            reply = portable_entry(turn.reply)
            # More characters than fit into the rows, to allow for blanks and Markdown's marks.
            begin = reply.message.content[: 4 * width * (reply_room + 4)]
            reply = replace(reply, message=replace(reply.message, content=begin))
            rows += _cut(reply_rows(reply, console), reply_room, width)
    return [fragments(row, console) for row in rows]


def _cut(rows: Sequence[Text], height: int, width: int) -> Sequence[Text]:
    """The first rows that are not blank; an ellipsis stands for the others."""
    shown = [row for row in rows if row.plain]
    if len(shown) <= height:
        return shown
    last = shown[height - 1].copy()
    last.truncate(min(last.cell_len, width - 1))
    return [*shown[: height - 1], last.append("…", DIM)]


async def choose_session(summaries: Sequence[Summary], actions: SessionActions) -> str | None:
    """The name of the session that the person picks on the whole screen, None if they leave.

    The summaries come last used first, as `SessionFolder.summaries` returns them.
    """
    return await Picker(SessionRows(summaries, actions)).run()


def pick_session(summaries: Sequence[Summary], actions: SessionActions) -> str | None:
    """`choose_session` without a running event loop."""
    return asyncio.run(choose_session(summaries, actions))


def replaced(
    task: asyncio.Task[None] | None,
    seconds: float,
    run: Callable[[str], T],
    key: str | None,
    done: Callable[[str, T | ChatcliError], None],
) -> asyncio.Task[None] | None:
    """Cancel `task`, and start one that runs `run(key)` on a thread after `seconds`, unless `key` is None.

    `done(key, result)` is called in the event loop, with the error if `run` raised a `ChatcliError`.
    """

    async def query(key: str) -> None:
        await asyncio.sleep(seconds)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T | ChatcliError] = loop.create_future()

        def work() -> None:
            result: T | ChatcliError
            try:
                result = run(key)
            except ChatcliError as error:
                result = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: the list was left
                loop.call_soon_threadsafe(deliver, result)

        def deliver(result: T | ChatcliError) -> None:
            if not answer.cancelled():
                answer.set_result(result)

        # A daemon, so that leaving the list does not wait for it.
        threading.Thread(target=work, daemon=True).start()
        done(key, await answer)

    if task is not None:
        task.cancel()
    return None if key is None else asyncio.get_running_loop().create_task(query(key))
