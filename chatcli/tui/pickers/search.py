"""A full-screen search of the messages of all sessions, to pick the one to go to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import wcwidth
from prompt_toolkit.formatted_text import StyleAndTextTuples

from chatcli.conversation.tree import ROLE_NAMES
from chatcli.errors import ChatcliError
from chatcli.store.sessions.search import Hit, SearchResult
from chatcli.text import clean_line, count
from chatcli.tui.pickers.picker import GAP, Action, Picker, PickerRows, ago
from chatcli.tui.pickers.sessions import SEARCH_DELAY, replaced
from chatcli.tui.text.fit import fit, fit_name, padded, portable, wrapped

MAX_NAME_COLUMNS = 24


class SearchRows(PickerRows[Hit]):
    """Hits of `search`, which is called on a thread with what is typed and may raise `ChatcliError`."""

    title = "Search all sessions"
    enter_label = "go there"
    filter_hint = "type words to search for"
    preview_scrolls = False
    COLUMNS = (("turn", 6, 64), ("age", 10, 50))

    def __init__(self, search: Callable[[str], SearchResult]) -> None:
        self._search = search
        self._found = SearchResult([], [])
        self._searching: asyncio.Task[None] | None = None

    def count(self) -> int:
        return len(self._found.hits)

    @property
    def _is_searching(self) -> bool:
        return self._searching is not None and not self._searching.done()

    def tally(self) -> str:
        if self._is_searching:
            return "searching…"
        if not self._found.words:
            return ""
        hits = count("message", self.count())
        return f"the newest {hits}" if self._found.more else hits

    def empty_text(self, query: str) -> str:
        if self._is_searching:
            return "Searching the messages…"
        if query.strip():
            return f"No messages match '{query}'."
        return "Type words, or a phrase in quotes: every message that has all of them is listed."

    def choose(self, index: int) -> Hit:
        return self._found.hits[index]

    def filter(self, query: str, selected: int) -> int:
        """Search for the query. The earlier results stay visible until it is done."""
        words = query.strip() or None
        self._searching = replaced(self._searching, SEARCH_DELAY, self._search, words, self._searched)
        if words is None:
            self._found = SearchResult([], [])
        return 0

    def _searched(self, query: str, result: SearchResult | ChatcliError) -> None:
        if self.picker is not None:
            if isinstance(result, ChatcliError):
                self.picker.notice, result = clean_line(str(result)), SearchResult([], [])
            self._found = result
            self.picker.select(0)

    def line(self, index: int, width: int) -> StyleAndTextTuples:
        """The session's name, the words in their sentence, and the columns at the right."""
        hit, columns = self._found.hits[index], self.columns(width)
        cells = {"turn": f"{hit.turn:,}", "age": ago(hit.time, time.time())}
        right = "".join(" " * GAP + cells[column].rjust(taken) for column, taken in columns)
        room = width - len(right)
        name_columns = min(MAX_NAME_COLUMNS, room // 3)
        name = padded(fit_name(portable(clean_line(hit.session)), name_columns), name_columns)
        line: StyleAndTextTuples = [("class:name", name), ("", " " * GAP)]
        left, end = room - name_columns - GAP, 0
        for start, stop in [*hit.marks, (len(hit.excerpt), len(hit.excerpt))]:
            for style, text in (("", hit.excerpt[end:start]), ("class:strong", hit.excerpt[start:stop])):
                fitting = fit(portable(text), left)
                left -= wcwidth.width(fitting)
                line.append((style, fitting))
            end = stop
        return [*line, ("", " " * left), ("class:dim", right)]

    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        hit = self._found.hits[index]
        facts = [portable(clean_line(hit.session)), f"turn {hit.turn}", ROLE_NAMES[hit.role]]
        facts += [] if hit.on_path else ["another branch"]
        yield [("class:dim", fit(" · ".join(facts), width))]
        for line in wrapped(hit.excerpt, width):
            yield [("", line)]

    def actions(self, picker: Picker[Hit]) -> Sequence[Action]:
        return ()


async def choose_hit(query: str, search: Callable[[str], SearchResult]) -> Hit | None:
    """The hit that the person picks in the full-screen list, None if they leave."""
    return await Picker(SearchRows(search), query=query).run()
