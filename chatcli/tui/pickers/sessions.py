"""The saved sessions on the whole screen, to pick the one to resume; refuses to know files.

What the sessions folder does (search, read, rename, delete) is handed in. Searching and reading run
behind the list, so typing never waits for a disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from chatcli.conversation import finish
from chatcli.conversation.tree import Conversation
from chatcli.errors import ChatcliError, SessionUnreadable
from chatcli.store import maintenance
from chatcli.store.sessions import search
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.listing import Summary
from chatcli.text import clean_line
from chatcli.tui.pickers.debounce import DebouncedQuery
from chatcli.tui.pickers.picker import Action, Picker, Question, Rows
from chatcli.tui.text.fit import Matcher, ago, first_words, fit, padded, wrapped

# Seconds without a key after which a session is read for its preview, or the folder is searched.
READ_REST, SEARCH_REST = 0.1, 0.2
# Sessions kept for their previews; turns shown of each.
KEPT, SHOWN = 64, 2
LONGEST_NAME = 32
# The columns at the right: name, columns taken, and the width of a row from which it is shown.
COLUMNS = (("turns", 6, 64), ("last used", 10, 36))
GAP = 2
# Rows at least this wide have first words beside the name.
WITH_WORDS = 56
CANNOT = "cannot be read"


@dataclass(frozen=True)
class SessionActions:
    """What the list can have done. `search` and `load` are called on a thread, the others are not.

    Each may raise `ChatcliError`, whose sentence is shown. `search` gives the names of the sessions
    whose messages hold the words; `rename(old, new)` gives the name that the session has then.
    """

    load: Callable[[str], Conversation] | None = None
    rename: Callable[[str, str], str] | None = None
    delete: Callable[[str], object] | None = None
    search: Callable[[str], Collection[str]] | None = None

    @classmethod
    def on(cls, folder: SessionFolder) -> SessionActions:
        """Read, rename, delete and search the sessions in `folder`."""
        return cls(
            load=lambda name: folder.read(name).conversation,
            rename=folder.rename,
            delete=lambda name: maintenance.delete(folder, name),
            search=lambda words: search.names(folder.folder, words),
        )


class SessionRows(Rows[str]):
    """Sessions, in the order that they are given in."""

    title = "Resume a session"
    enter = "resume"
    scrolls = False

    def __init__(self, summaries: Sequence[Summary], actions: SessionActions) -> None:
        self._all = list(summaries)
        self._actions_given = actions
        self._shown = list(range(len(self._all)))
        self._query = ""
        self._elsewhere: frozenset[str] = frozenset()
        self._previews: dict[str, Conversation | ChatcliError] = {}
        self._matcher = Matcher(self._texts)
        widths = (get_cwidth(clean_line(one.name)) for one in self._all)
        self._name_width = min(max(widths, default=0), LONGEST_NAME)
        self._picker: Picker[str] | None = None
        self._reader = DebouncedQuery(actions.load, self._loaded, READ_REST) if actions.load else None
        self._searcher = DebouncedQuery(actions.search, self._found, SEARCH_REST) if actions.search else None

    def _texts(self) -> Iterator[str]:
        for one in self._all:
            yield f"{one.name}\n{one.first_words}"

    def count(self) -> int:
        return len(self._shown)

    def _at(self, index: int) -> Summary:
        return self._all[self._shown[index]]

    def tally(self) -> str:
        total = len(self._all)
        busy = "searching… · " if self._searcher is not None and self._searcher.busy else ""
        if self._query.strip():
            return f"{busy}{len(self._shown):,} of {total:,} sessions"
        return f"{total:,} session{'s' * (total != 1)}"

    def nothing(self, query: str) -> str:
        if not query.strip():
            return "No saved sessions yet. Esc leaves: what you say in a chat is saved as you go."
        if self._searcher is not None and self._searcher.busy:
            return "Searching the messages…"
        return f"No session holds '{query}'. Esc clears the filter."

    def choose(self, index: int) -> str:
        """Raises `SessionUnreadable`."""
        one = self._at(index)
        if one.problem is not None:
            raise SessionUnreadable(one.problem)
        return one.name

    def filter(self, query: str, selected: int) -> int:
        """The newest match; the same session again once the filter is cleared."""
        before = self._at(selected).name if self._shown else None
        self._search(query)
        self._query = query
        self._lay_out()
        return 0 if query.strip() else self.find(before)

    def _search(self, query: str) -> None:
        """What the words were found in holds for more words too, until these are searched for."""
        if self._searcher is None:
            return
        words = clean_line(query)
        if not words or not query.startswith(self._query):
            self._elsewhere = frozenset()
        self._searcher.ask(words or None)

    def _found(self, words: str, names: Collection[str] | ChatcliError) -> None:
        if words != clean_line(self._query) or self._picker is None:
            return
        if isinstance(names, ChatcliError):
            self._picker.notice = clean_line(str(names))
            names = ()
        before = self._at(self._picker.selected).name if self._shown else None
        self._elsewhere = frozenset(names)
        self._lay_out()
        self._picker.select(self.find(before))

    def _lay_out(self) -> None:
        matched = self._matcher.find(self._query)
        if self._elsewhere:
            known = set(matched)
            self._shown = [
                index for index, one in enumerate(self._all) if index in known or one.name in self._elsewhere
            ]
        else:
            self._shown = list(matched)

    def find(self, name: str | None) -> int:
        """The row of a session, the first one if it is not in sight."""
        return next((at for at in range(len(self._shown)) if self._at(at).name == name), 0)

    def headings(self, width: int) -> str:
        return "".join(" " * GAP + name.rjust(taken) for name, taken in _columns(width))

    def line(self, index: int, width: int) -> StyleAndTextTuples:
        one = self._at(index)
        columns = _columns(width)
        room = width - sum(taken + GAP for _, taken in columns)
        if one.problem is not None:
            return _unreadable(one, width, self._width_of_name(room))
        facts = {"turns": f"{one.turns:,}", "last used": ago(one.last_used, time.time())}
        right = "".join(" " * GAP + facts[name].rjust(taken) for name, taken in columns)
        return [*self._named(one, room), ("class:dim", right)]

    def _width_of_name(self, room: int) -> int:
        return min(self._name_width, room * 2 // 5) if room + GAP >= WITH_WORDS else room

    def _named(self, one: Summary, room: int) -> StyleAndTextTuples:
        width = self._width_of_name(room)
        name = ("class:name", padded(clean_line(one.name), width))
        words = padded("  " + first_words(one.first_words), room - width) if width < room else ""
        return [name, ("", words)]

    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        one = self._at(index)
        if one.problem is not None:
            yield from _told(one.problem, width, "class:bad")
            return
        read = self._previews.get(one.name)
        if isinstance(read, Conversation):
            yield from _last_turns(read, width, height)
        elif read is not None:
            yield from _told(str(read), width, "class:bad")
        else:
            yield from _told(one.first_words, width, "class:dim")

    def rest_on(self, index: int) -> None:
        one = self._at(index)
        if self._reader is not None:
            known = one.problem is not None or one.name in self._previews
            self._reader.ask(None if known else one.name)

    def _loaded(self, name: str, read: Conversation | ChatcliError) -> None:
        if len(self._previews) >= KEPT:
            self._previews.pop(next(iter(self._previews)))
        self._previews[name] = read
        if self._picker is not None:
            self._picker.refresh()

    def actions(self, picker: Picker[str]) -> Sequence[Action]:
        self._picker = picker
        given = self._actions_given
        found = []
        if given.rename is not None:
            found.append(Action(("f2", "c-r"), "Ctrl-R", "rename", self._ask_name))
        if given.delete is not None:
            found.append(Action(("delete", "c-x"), "Ctrl-X", "delete", self._ask_delete))
        return found

    def _selected(self) -> tuple[Picker[str], Summary] | None:
        if self._picker is None or not self._shown:
            return None
        return self._picker, self._at(self._picker.selected)

    def _ask_name(self) -> None:
        if (at := self._selected()) is not None:
            picker, one = at
            picker.ask(Question("New name:", lambda new: self._rename(one, new), one.name))

    def _rename(self, one: Summary, wanted: str) -> None:
        """Raises `ChatcliError` if it cannot be called so."""
        rename, wanted = self._actions_given.rename, wanted.strip()
        if rename is None or not wanted or wanted == one.name:
            return
        name = rename(one.name, wanted)
        self._all[self._all.index(one)] = replace(one, name=name)
        if one.name in self._previews:
            self._previews[name] = self._previews.pop(one.name)
        self._changed(name)

    def _ask_delete(self) -> None:
        if (at := self._selected()) is not None:
            picker, one = at
            # The question's end must be in sight on a narrow screen too.
            text = f"Delete '{fit(clean_line(one.name), picker.width - 30)}' for good? y/N"
            picker.ask(Question(text, lambda _: self._delete(one), yes_or_no=True))

    def _delete(self, one: Summary) -> None:
        """Raises `ChatcliError` if it cannot be deleted."""
        if self._actions_given.delete is not None:
            self._actions_given.delete(one.name)
            self._previews.pop(one.name, None)
            self._all.remove(one)
            self._changed(None)

    def _changed(self, name: str | None) -> None:
        self._matcher = Matcher(self._texts)
        self._lay_out()
        if self._picker is not None:
            self._picker.select(self._picker.selected if name is None else self.find(name))


def _columns(width: int) -> list[tuple[str, int]]:
    return [(name, taken) for name, taken, least in COLUMNS if width >= least]


def _unreadable(one: Summary, width: int, name_width: int) -> StyleAndTextTuples:
    """A row that says in words what its colour says."""
    name = padded(clean_line(one.name), min(name_width, width - len(CANNOT) - GAP))
    return [("class:bad", padded(f"{name}  {CANNOT}", width))]


def _told(text: str, width: int, style: str) -> Iterator[StyleAndTextTuples]:
    for line in wrapped(text, width):
        yield [(style, line)]


def _last_turns(conversation: Conversation, width: int, height: int) -> Iterator[StyleAndTextTuples]:
    """The last turns, each message cut so that all have a place; what is asked needs the least."""
    turns = conversation.turns()[-SHOWN:]
    if not turns:
        yield [("class:dim", "No messages yet.")]
    asked = max(height // 6, 1)
    answered = max((height - 1) // max(len(turns), 1) - asked, 1)
    for turn in turns:
        yield from _message(
            f"{turn.number} › ",
            finish.marked(turn.user.message.brief, None),
            width,
            asked,
            "class:strong",
        )
        if turn.reply is not None:
            yield from _message("    ", finish.said(turn.reply), width, answered, "")


def _message(mark: str, text: str, width: int, height: int, style: str) -> Iterator[StyleAndTextTuples]:
    room = max(width - get_cwidth(mark), 2)
    lines = (line for line in wrapped(text.strip(), room) if line)
    shown = [line for line, _ in zip(lines, range(height + 1), strict=False)]
    for number, line in enumerate(shown[:height]):
        cut = number == height - 1 and len(shown) > height
        start = mark if number == 0 else " " * get_cwidth(mark)
        yield [("class:dim", start), (style, fit(f"{line}…", room) if cut else line)]


async def choose_session(summaries: Sequence[Summary], actions: SessionActions) -> str | None:
    """The name of the session that the person picks on the whole screen, None if they leave.

    The summaries come last used first, as `SessionFolder.summaries` gives them.
    """
    return await Picker(SessionRows(summaries, actions)).run()


def pick_session(summaries: Sequence[Summary], actions: SessionActions) -> str | None:
    """`choose_session` where no event loop runs."""
    return asyncio.run(choose_session(summaries, actions))
