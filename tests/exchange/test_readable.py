"""Readable exports: nothing in them is active, and nothing is lost without a message."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.errors import UsageError
from chatcli.exchange import export, readable
from chatcli.store.sessions.folder import SessionFolder
from tests.exchange.conftest import with_branches

ACTIVE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> ![pixel](https://evil.example/p.png)\n\n"
    "[a](javascript:alert(1)) [b](data:text/html,x) [c](vbscript:x) [d](file:///etc/passwd)\n\n"
    "<iframe src=https://evil.example></iframe> &#x1b;[31m\n\n```html\n<script>\n```\n"
)


def test_markdown_is_the_current_path_with_thinking_quoted(folder: SessionFolder) -> None:
    conversation = with_branches(folder)
    conversation.head = list(conversation.entries)[-1]
    text = readable.markdown("fruit", conversation)
    assert text.startswith("# fruit\n\n*pocket · 1 March 2025 · 2 turns*\n\n")
    assert "> Be kind.\n" in text
    assert "three" not in text and "hm" not in text
    assert "## 2 · You\n\nother\n\n### Reply (stopped)\n\ncut\n" in text
    assert "\x1b" not in text and "\r" not in text and "␛[31m" in text
    assert "> *Thinking*\n>\n> hm\n\ntwo" in readable.markdown("fruit", conversation, thinking=True)


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(question: str, reply: str, thinking: str = "", *, shown: bool = False) -> Page:
    """One turn; the name and the system prompt are as hostile as the messages."""
    conversation = Conversation("2025-03-01", ACTIVE)
    conversation.add(Entry("1", None, Message("user", question), 0.0))
    conversation.add(Entry("2", "1", Message("assistant", reply, thinking), 0.0, "stop"))
    return Page(readable.page("a <b>name</b>", conversation, thinking=shown))


def test_nothing_in_a_page_is_active_or_loaded() -> None:
    document = page(ACTIVE, ACTIVE, ACTIVE, shown=True)
    names = {name for name, _ in document.tags}
    assert not names & {"script", "img", "iframe", "link", "object", "base", "form"}
    attributes = {key for _, held in document.tags for key in held}
    assert not {key for key in attributes if key.startswith("on")} | attributes & {"src", "srcset"}
    targets = [str(link["href"]) for link in document.named("a")]
    assert {"#turn-1", "https://evil.example/p.png"} == set(targets)
    assert "a <b>name</b>" in document.text and "alert(1)" in document.text
    assert "default-src 'none'; style-src 'unsafe-inline'" in {
        held.get("content") for held in document.named("meta")
    }
    style = readable.STYLE
    assert "url(" not in style and "@import" not in style


def test_a_page_has_replies_as_markdown_and_questions_as_they_were_typed() -> None:
    document = page(
        "**typed** {style}",
        "**bold** and `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx < 1\n```",
    )
    assert "**typed** {style}" in document.text
    names = [name for name, _ in document.tags]
    assert {"strong", "code", "pre", "table"} <= set(names)
    assert "x < 1" in document.text
    viewport = {held.get("name"): held.get("content") for held in document.named("meta")}
    assert "width=device-width, initial-scale=1" == viewport["viewport"]
    assert "prefers-color-scheme: dark" in readable.STYLE


def test_a_page_breaks_lines_where_the_reply_breaks_them() -> None:
    assert 1 == len(page("", "Roses are red,\nviolets are blue.").named("br"))


def test_a_page_folds_thinking_away_and_shows_it_only_if_asked() -> None:
    hidden = page("one", "two", "quince </details><b>")
    assert "quince" not in hidden.text
    shown = page("one", "two", "quince </details><b>", shown=True)
    assert "quince </details><b>" in shown.text
    assert len(hidden.named("details")) + 1 == len(shown.named("details"))


def test_a_page_is_well_formed(folder: SessionFolder) -> None:
    text = readable.page("fruit", with_branches(folder), thinking=True)
    tags = re.findall(r"<(/?)(html|head|body|main|header|section|article|details|div|pre)\b", text)
    depth = 0
    for closing, _ in tags:
        depth += -1 if closing else 1
        assert depth >= 0
    assert 0 == depth
    assert "\x1b" not in text and "\0" not in text
    assert '<details><summary>Thinking</summary><div class="plain" dir="auto">hm</div>' in text
    assert "three" not in text


@pytest.mark.parametrize("text", ["[" * 5000, "*a_ " * 3000, "> " * 3000, "![[" * 2000, "<" * 9000])
def test_a_reply_that_is_hard_to_read_makes_a_page_all_the_same(text: str) -> None:
    assert page("one", text).named("article")


def test_formats_go_by_a_files_suffix() -> None:
    formats = [export.format_of(suffix) for suffix in (".md", ".HTML", ".htm", ".json", ".txt", "")]
    with pytest.raises(UsageError, match=r"Cannot export to \.pdf\. The formats are md, html and json\."):
        export.format_of(".pdf")
    assert ["md", "html", "html", "json", "md", "md"] == formats
