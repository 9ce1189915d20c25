"""A Markdown export's turns can all be found again, whatever the messages contain."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.exchange import readable
from chatcli.exchange.readable import contained
from tests.support.markdown import FRAGMENTS

HOSTILE = [
    *("```\n", "```py\n", "````\n", "~~~\n", "~~~~ a\n", "   ```\n", "- ```\n", "> ```\n", "1. ~~~\n"),
    *("# One\n", "## 2 · You\n", "### Reply\n", "###### six\n", "#\n", "Under\n===\n", "Under\n---\n"),
    *(
        "<!--",
        "-->",
        "<div>\n",
        "</div>\n",
        "<details>\n\n",
        "<pre>",
        "<script>",
        "</script>",
        "<h2>x</h2>\n",
    ),
    *("<b>", "</b>", "<br>", "<?php ", "<![CDATA[", "<!DOCTYPE", "<a href='", "<http://x.y>", "`<b>`"),
    *("<h2>x</h2>\n", "<"),
    *(
        "<![foo[",
        "<![",
        "<!x",
        "<!-",
        "<!ELEMENT [",
        "<!DOCTYPE x [<!",
        "]]>",
        "]>",
        "<![if IE]>",
        "<![endif]-->",
    ),
    *(
        "<?",
        "?>",
        "</>",
        "</ x>",
        "<a\n",
        "<a b='>",
        "&#x3c;div>",
        "<svg><![CDATA[",
        "<math>",
        "<p/>",
        "\x0b<b",
    ),
]
# Text that is hard for the parsers, and that grows.
HARD = [
    "<",
    "<!",
    "<![",
    "<!--",
    "<a ",
    "</",
    "<?",
    "<a b='",
    "&",
    "`<b>",
    "[",
    "> ",
    "<div>\n",
    "<![x[\n",
    "# <!\n",
]
ANY_MESSAGE = st.lists(st.sampled_from([*HOSTILE, *FRAGMENTS]), max_size=12).map("".join)


class Headings(HTMLParser):
    """The texts of a page's headings of the second level that stand in nothing else."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("br", "hr", "img"):
            self.open.append(tag)
        if ["h2"] == self.open:
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if ["h2"] == self.open:
            self.texts[-1] += data


def turns_found(question: str, reply: str, thinking: str = "", system: str | None = None) -> list[str]:
    """The headings of an export of three turns, of which the second holds these messages."""
    conversation = Conversation("2025-03-01", system)
    parent = None
    for number, (user, text) in enumerate([("one", "1"), (question, reply), ("three", "3")]):
        conversation.add(Entry(f"u{number}", parent, Message("user", user), 0.0))
        message = Message("assistant", text, thinking)
        parent = conversation.add(Entry(f"a{number}", f"u{number}", message, 0.0, "length")).id
    text = readable.markdown("talk", conversation, thinking=bool(thinking))
    return Headings(MarkdownIt("commonmark").render(text)).texts


TURNS = ["1 · You", "2 · You", "3 · You"]


@pytest.mark.parametrize("text", HOSTILE)
def test_every_turn_is_found_after_a_message_that_leaves_something_open(text: str) -> None:
    assert TURNS == turns_found(text, "fine")
    assert TURNS == turns_found("fine", text)
    assert ["System prompt", *TURNS] == turns_found("fine", "fine", text, text)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANY_MESSAGE, ANY_MESSAGE)
def test_no_messages_hide_a_turn_or_make_one(question: str, reply: str) -> None:
    assert TURNS == turns_found(question, reply)


@pytest.mark.parametrize("inner", [text for text in HOSTILE if text.startswith("<")])
def test_any_html_within_other_html_leaves_the_turns(inner: str) -> None:
    assert ["System prompt", *TURNS] == turns_found("a", "b", f"\t{inner}", f" \t{inner}")
    for text in (
        f"2) {inner}\n<t>",
        f"> {inner}\n<t>\n",
        f"<div>\n{inner}\n</div>",
        f"<div>\n{inner}x]]>\n</div>",
        f"a <b>{inner}</b>",
    ):
        assert TURNS == turns_found(text, text)


@pytest.mark.parametrize("text", HARD)
def test_long_text_that_is_hard_to_parse_takes_no_long_time(text: str) -> None:
    began = time.process_time()
    contained(text * (20_000 // len(text)), 3)
    assert time.process_time() - began < 10


def test_a_reply_that_was_cut_in_a_fence_is_closed() -> None:
    assert "Here:\n\n````py\nx = 1\n````" == contained("Here:\n\n````py\nx = 1", 3)
    assert "```\na\n```" == contained("```\na\n```", 3)
    assert "```\na\n```\n " == contained("```\na\n```\n ", 3)


def test_headings_stand_below_the_documents_own() -> None:
    assert "#### One\n\n##### Two\n\n###### Four" == contained("# One\n\n## Two\n\n#### Four", 3)
    assert "```\n# a comment\n```" == contained("```\n# a comment\n```", 3)
    assert "Line\n\\===" == contained("Line\n===", 3) and "Line\n\n---" == contained("Line\n---", 3)


def test_html_is_text_but_for_line_breaks_and_what_stands_in_code() -> None:
    for text in ("| a<br>b |\n", "<http://x.y>", "`<div>` and\n\n```html\n<div>\n```", "1 < 2"):
        assert text == contained(text, 3)
    assert "`<div>` &lt;div>" == contained("`<div>` <div>", 3)
    assert "&lt;kbd>x&lt;/kbd>" == contained("<kbd>x</kbd>", 3)
