"""The rows of the full-screen lists without a screen: a tree's lines, filtering, cutting and wrapping."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

import pytest
from prompt_toolkit.utils import get_cwidth

from chatcli.conversation.tree import Conversation, Entry, Message, Role
from chatcli.store.sessions.listing import Summary
from chatcli.store.sessions.search import Hit, SearchResult
from chatcli.tui.pickers.picker import Matcher, Picker, ago
from chatcli.tui.pickers.search import SearchRows
from chatcli.tui.pickers.sessions import SessionRows
from chatcli.tui.pickers.tree import TreeRows, guides, matching_rows, tree_nodes, unfolded_rows
from chatcli.tui.text.fit import first_words, fit, fit_name, padded, wrapped
from tests.support.pickers import session_actions

HOSTILE = "a\x1b[31mred\x9b2J\x07\r\u202ebc"


def test_a_search_lists_what_holds_the_words_that_are_typed() -> None:
    hits = [Hit("日本-3", 12, "user", "a", True, f"see the {HOSTILE} dog", 0.0, 1.0, [(8, 11)])] * 3

    async def act() -> SearchRows:
        rows = SearchRows(lambda query: SearchResult([query], hits if query == "dog" else [], True))
        picker: Picker[Hit] = Picker(rows)
        for query, count in (("dog", 3), ("cat", 0), ("dog", 3)):
            picker.query.text = query
            assert "searching…" == rows.tally()
            while rows.tally() == "searching…":
                await asyncio.sleep(0.01)
            assert count == rows.count()
        return rows

    rows = asyncio.run(act())
    assert "the newest 3 messages" == rows.tally() and hits[0] == rows.choose(0)
    for width in (8, 20, 37, 48, 77, 127):
        line = "".join(part[1] for part in rows.line(0, width))
        assert width == get_cwidth(line) and not any(char in line for char in "\x1b\x9b\x07\r\u202e")


def tree(*places: str, head: str | None = None) -> Conversation:
    """A tree of `child<parent`; a letter in upper case is a reply."""
    conversation = Conversation("2025-03-01")
    for place in places:
        identifier, _, parent = place.partition("<")
        role: Role = "assistant" if identifier[0].isupper() else "user"
        conversation.add(Entry(identifier, parent or None, Message(role, f"says {identifier}"), 0.0))
    conversation.head = head or conversation.head
    return conversation


def drawn(conversation: Conversation, folded: frozenset[str] = frozenset()) -> list[str]:
    rows = unfolded_rows(tree_nodes(conversation), set(folded))
    return [f"{row.guide}{row.node.entry.id}{row.node.turn}" for row in rows]


def texts(rows: TreeRows, width: int) -> list[str]:
    lines = (rows.line(index, width) for index in range(rows.count()))
    return ["".join(part[1] for part in line) for line in lines]


def test_a_conversation_without_forks_is_drawn_without_lines() -> None:
    assert ["u1", "A1", "v2", "B2"] == drawn(tree("u", "A<u", "v<A", "B<v"))


def test_the_path_to_the_head_keeps_its_depth_and_other_branches_come_first() -> None:
    conversation = tree("u", "A<u", "v<A", "B<v", "w<B", "x<A", "C<x", head="C")
    assert ["u1", "A1", "├─v2", "│ B2", "│ w3", "x2", "C2"] == drawn(conversation)
    conversation.head = "w"
    assert ["u1", "A1", "├─x2", "│ C2", "v2", "B2", "w3"] == drawn(conversation)


def test_where_the_path_has_ended_the_larger_branch_goes_straight_on() -> None:
    conversation = tree("u", "A<u", "v<A", "B<v", "x<A", head="u")
    assert ["u1", "A1", "├─x2", "v2", "B2"] == drawn(conversation)


def test_branches_of_branches_go_deeper_and_other_beginnings_hang_from_the_top() -> None:
    conversation = tree("u", "A<u", "v<A", "B<v", "p<v", "z", "Z<z", "y", head="B")
    assert ["┌─z1", "│ Z1", "├─y1", "u1", "A1", "v2", "├─p3", "B2"] == drawn(conversation)
    conversation = tree("u", "A<u", "v<A", "B<v", "C<v", "D<C", "w<A", head="w")
    assert ["u1", "A1", "├─v2", "│ ├─B2", "│ C2", "│ D2", "w2"] == drawn(conversation)


def test_another_try_at_every_turn_goes_one_step_deep_at_most() -> None:
    places = ["u0", "A0<u0", "B0<u0"]
    for turn in range(1, 300):
        places += [f"u{turn}<B{turn - 1}", f"A{turn}<u{turn}", f"B{turn}<u{turn}"]
    conversation = tree(*places)
    assert {"", "├─"} == {row.guide for row in unfolded_rows(tree_nodes(conversation), set())}


def test_an_empty_tree_has_no_rows() -> None:
    assert ([], []) == (drawn(Conversation("2025-03-01")), guides([]))


def test_a_folded_branch_shows_its_first_message_and_how_many_it_hides() -> None:
    conversation = tree("u", "A<u", "v<A", "B<v", "p<B", "q<B", "w<A", head="w")
    assert ["u1", "A1", "├─v2", "w2"] == drawn(conversation, frozenset({"v"}))
    rows = unfolded_rows(tree_nodes(conversation), {"v"})
    assert [0, 0, 3, 0] == [row.hidden for row in rows]


def test_a_filter_keeps_what_was_found_and_the_forks_that_lead_there() -> None:
    nodes = tree_nodes(tree("u", "A<u", "v<A", "B<v", "p<B", "q<B", "w<A", head="w"))
    at = {node.entry.id: index for index, node in enumerate(nodes)}
    rows = matching_rows(nodes, [at["p"]])
    assert [("A", "", True), ("v", "└─", True), ("B", "  ", True), ("p", "  └─", False)] == [
        (row.node.entry.id, row.guide, row.is_hint) for row in rows
    ]
    rows = matching_rows(nodes, [at["w"]])
    assert [("w", "", False)] == [(row.node.entry.id, row.guide, row.is_hint) for row in rows]


def test_every_row_of_a_tree_has_the_width_that_there_is() -> None:
    conversation = tree("u", "A<u", "v<A", "B<v", "x<A", head="B")
    conversation.add(Entry("日", "B", Message("user", "日本語" * 40 + HOSTILE), 1.0))
    conversation.add(Entry("E", "日", Message("assistant", ""), 1.0, record={"prompt_tokens": 1_234_567}))
    rows = TreeRows(conversation, lambda _: 123_456, {"v": "日" * 50}, lambda *_: None)
    for width in (8, 20, 37, 48, 77, 127):
        lines = texts(rows, width)
        assert {width} == {get_cwidth(line) for line in lines}
        assert not any(char in line for line in lines for char in "\x1b\x9b\x07\r\u202e")
    assert "1,234k    ~123k tok" in texts(rows, 77)[-1]
    assert "(empty)  ◀ here" in texts(rows, 77)[-1]


def test_only_rows_that_are_drawn_are_asked_for_their_cost_and_only_once() -> None:
    conversation = tree("u0", *(f"u{n}<u{n - 1}" for n in range(1, 2000)))
    asked: list[str] = []

    def cost(entry_id: str) -> int:
        asked.append(entry_id)
        return 0

    rows = TreeRows(conversation, cost, {}, lambda *_: None)
    for _ in range(2):
        for index in range(100, 110):
            assert "".join(part[1] for part in rows.line(index, 77)).endswith(" " * 12 + "0")
    assert [f"u{n}" for n in range(100, 110)] == asked


def test_a_longer_query_finds_less_and_a_shorter_one_more_again() -> None:
    matcher = Matcher(lambda: ["Rye flour", "wheat FLOUR", "Straße", "rye bread"])
    assert [0, 1, 2, 3] == matcher.find("")
    assert [0, 1] == matcher.find("flo")
    assert [0] == matcher.find("flo ry")
    assert [] == matcher.find("flo ryx")
    assert [0, 3] == matcher.find("ry")
    assert [2] == matcher.find("STRASSE")
    assert [0, 1, 2, 3] == matcher.find("  ")


def test_texts_are_read_once_and_only_for_a_filter() -> None:
    reads: list[int] = []

    def read() -> Iterator[str]:
        reads.append(1)
        yield from ("one", "two")

    matcher = Matcher(read)
    assert [] == reads
    assert [[0], [1], [0, 1]] == [matcher.find("one"), matcher.find("two"), matcher.find("o")]
    assert [1] == reads


@pytest.mark.parametrize("text", ["", "short", "a much longer line", "日本語の長い文です", "🇩🇪👍🏽" * 9])
def test_a_text_is_cut_to_the_columns_that_there_are(text: str) -> None:
    for width in range(30):
        line = first_words(text)
        assert get_cwidth(fit(line, width)) <= width
        assert width == get_cwidth(padded(line, width))
        assert (fit(line, width) == line) == (get_cwidth(line) <= width)


def test_a_message_is_wrapped_at_spaces_without_losing_a_word() -> None:
    text = "Flour and water,\r\n\n\tequal parts. " + "x" * 50 + " 日本語の長い文です。" + HOSTILE
    for width in (10, 17, 40):
        lines = list(wrapped(text, width))
        assert all(get_cwidth(line) <= width for line in lines)
        assert "" in lines
        kept = "".join("".join(lines).split())
        assert kept.startswith("Flourandwater,equalparts." + "x" * 50 + "日本語の長い文です。a␛[31mred")
        assert kept.endswith("bc") and not set(kept) & set("\x1b\x9b\x07\r\u202e")
    assert ["Flour and", "water,"] == list(wrapped(text, 10))[:2]


def test_a_huge_message_is_wrapped_only_as_far_as_it_is_shown() -> None:
    lines = wrapped("word " * 2_000_000, 78)
    assert [("word " * 15).rstrip()] * 5 == list(islice(lines, 5))


def test_an_age_has_one_unit() -> None:
    ages = [ago(1e9 - back, 1e9) for back in (5, 65, 7300, 86_400 * 3, 86_400 * 70, 86_400 * 800)]
    assert ["now", "1 min ago", "2 h ago", "3 d ago", "2 mo ago", "2 y ago"] == ages
    assert "" == ago(0, 1e9)


def test_every_row_of_the_sessions_has_the_width_that_there_is() -> None:
    summaries = [
        Summary("plain", 3, "hello " * 50, None, 1.0),
        Summary("日本語" * 20, 1234, "日本語" * 50 + HOSTILE, None, 2.0),
        Summary("broken" * 20, problem="damaged"),
    ]
    rows = SessionRows(summaries, session_actions())
    for width in (20, 37, 48, 77, 127):
        for index in range(rows.count()):
            line = "".join(part[1] for part in rows.line(index, width))
            assert width == get_cwidth(line)
            assert not set(line) & set("\x1b\x9b\x07\r\u202e")
            assert (index == 2) == ("cannot be read" in line)


def test_ten_thousand_sessions_are_narrowed_letter_by_letter() -> None:
    summaries = [Summary(f"chat-{n}", 1, f"topic {n % 7}", None, float(n)) for n in range(10_000)]
    rows = SessionRows(summaries, session_actions())

    async def narrow() -> None:
        assert [10_000, 10_000, 1_111, 1] == [
            rows.filter(query, 0) or rows.count() for query in ("", "chat", "chat-9", "chat-9999")
        ]
        assert "chat-9999" == rows.choose(0)
        assert 9_999 == rows.filter("", 0)

    asyncio.run(narrow())


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("hi-there-im-orla-2", 18, "hi-there-im-orla-2"),
        ("hi-there-im-orla-2", 12, "hi-there-…-2"),
        ("hi-there-im-orla-13", 12, "hi-there…-13"),
        ("hi-there-im-orla", 12, "hi-there-im…"),
        ("名前はオルラ-2", 7, "名前…-2"),
        ("hi-123456", 6, "hi-12…"),
        ("hi-2", 1, "…"),
    ],
)
def test_a_name_that_is_cut_keeps_its_number(name: str, width: int, shown: str) -> None:
    assert shown == fit_name(name, width)
