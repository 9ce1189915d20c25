"""Conversations going out and coming in: the same tree back, nothing active, nothing lost unsaid."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from chatcli.conversation.tree import Conversation, Message
from chatcli.errors import BadName, SessionExists
from chatcli.exchange import export
from chatcli.exchange.export import Imported, NotImportable
from chatcli.store.sessions.folder import SessionFolder

HARD = 'a "quote" \\ and\nline\r\n\u2028 \0 \x1b[31m 日本 👩‍👩‍👧 </script> {title}'
ACTIVE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> ![pixel](https://evil.example/p.png)\n\n"
    "[a](javascript:alert(1)) [b](data:text/html,x) [c](vbscript:x) [d](file:///etc/passwd)\n\n"
    "<iframe src=https://evil.example></iframe> &#x1b;[31m\n\n```html\n<script>\n```\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    return SessionFolder(tmp_path / "saved")


def with_branches(folder: SessionFolder, name: str = "fruit") -> Conversation:
    """A session with two branches, whose head is not the last message."""
    with folder.create(name, model="pocket", system="Be kind.", date="2025-03-01") as session:
        one = session.append(Message("user", HARD), None)
        two = session.append(Message("assistant", "two", "hm"), one.id, finish_reason="stop")
        session.append(Message("user", "three"), two.id)
        other = session.append(Message("user", "other"), two.id)
        session.append(Message("assistant", "cut"), other.id, finish_reason="cancelled")
        session.set_label(two.id, "good")
        session.move_head(other.id)
        return session.conversation


def exported(conversation: Conversation, name: str = "fruit") -> dict[str, Any]:
    return json.loads(export.as_text(export.whole(name, conversation)))


def read(value: Any) -> Imported:
    return export.read(json.dumps(value).encode())


def said(imported: Imported) -> list[tuple[str, str, str]]:
    path = imported.conversation.path()
    return [(e.message.role, e.message.content, e.message.thinking) for e in path]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def reply(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


# JSON: the whole tree


def test_an_import_of_an_export_is_the_same_tree(folder: SessionFolder) -> None:
    source = with_branches(folder)
    with export.save(folder, read(exported(source))) as made:
        assert "fruit-2" == made.name
    assert folder.read("fruit").conversation == folder.read("fruit-2").conversation
    assert (source.head, source.labels) == (made.conversation.head, made.conversation.labels)


def test_an_export_says_what_it_is_and_is_ascii(folder: SessionFolder) -> None:
    found = exported(with_branches(folder))
    assert ("chatcli", 1, "fruit", "pocket", "Be kind.", "2025-03-01") == tuple(
        found[key] for key in ("format", "version", "session", "model", "system", "date")
    )
    assert ["user", "assistant", "user", "user", "assistant"] == [entry["role"] for entry in found["entries"]]
    assert found["entries"][3]["id"] == found["head"]
    assert export.as_text(found).isascii()


def test_an_imported_conversation_takes_a_given_name_or_none(folder: SessionFolder) -> None:
    found = read(exported(with_branches(folder)))
    with export.save(folder, found, "new") as made:
        assert "new" == made.name
    with pytest.raises(SessionExists):
        export.save(folder, found, "new")
    with pytest.raises(BadName):
        export.save(folder, found, "../new")
    hostile = Imported(found.conversation, "../../etc/passwd")
    with export.save(folder, hostile) as made:
        assert made.path.parent == folder.folder
        assert made.name.startswith("a-quote-and-line")


@pytest.mark.parametrize(
    "change",
    [
        {"entries": 7},
        {"entries": [{"id": "a"}]},
        {"entries": [None]},
        {"head": "nobody"},
        {"head": ["x"]},
        {"date": "someday"},
        {"model": 7},
        {"labels": [1]},
        {"labels": {"nobody": "x"}},
    ],
)
def test_a_damaged_export_is_refused_in_a_sentence(folder: SessionFolder, change: dict[str, Any]) -> None:
    found = exported(with_branches(folder))
    with pytest.raises(NotImportable, match=r"^This export is damaged: .*\.$"):
        read({**found, **change})
    for key in change:
        if key != "labels":
            with pytest.raises(NotImportable, match=f"'{key}' is not there"):
                read({name: value for name, value in found.items() if name != key})


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../x"},
        {"id": 7},
        {"parent": "nobody"},
        {"role": "tool"},
        {"content": None},
        {"time": "NaN"},
        {"time": 10**400},
        {"thinking": 7, "role": "assistant"},
    ],
)
def test_a_damaged_entry_is_refused(folder: SessionFolder, change: dict[str, Any]) -> None:
    found = exported(with_branches(folder))
    found["entries"][0] |= change
    with pytest.raises(NotImportable, match="damaged"):
        read(found)


def test_entries_that_repeat_or_go_in_rings_are_refused(folder: SessionFolder) -> None:
    found = exported(with_branches(folder))
    for entries in (found["entries"][:1] * 2, found["entries"][::-1]):
        with pytest.raises(NotImportable, match=r"entry . has no place"):
            read({**found, "entries": entries})
    with pytest.raises(NotImportable, match="no messages"):
        read({**found, "entries": [], "labels": {}, "head": None})


def test_an_export_of_a_newer_program_is_refused(folder: SessionFolder) -> None:
    with pytest.raises(NotImportable, match="newer chatcli"):
        read({**exported(with_branches(folder)), "version": 2})


# Messages


def test_a_list_of_messages_becomes_a_conversation() -> None:
    parts = [{"type": "text", "text": "two "}, {"type": "text", "text": "pears"}]
    given = [
        user(parts),
        reply("Yes.", reasoning_content="hm"),
        user("And?"),
        reply("No.", thinking="why"),
        user("Last."),
    ]
    expected = [
        ("user", "two pears", ""),
        ("assistant", "Yes.", "hm"),
        ("user", "And?", ""),
        ("assistant", "No.", "why"),
        ("user", "Last.", ""),
    ]
    lines = "\n".join(map(json.dumps, given)).encode() + b"\n\n"
    for found in (
        read(given),
        read({"messages": given}),
        export.read(lines),
        export.read(b"\xef\xbb\xbf" + lines),
    ):
        assert expected == said(found)
        assert (None, None, None) == (found.name, found.conversation.model, found.conversation.system)


def test_system_messages_are_joined_and_neighbours_of_one_role_too() -> None:
    given = [
        {"role": "system", "content": "Be kind."},
        user("one"),
        user("two"),
        {"role": "developer", "content": "Be brief."},
        user(""),
        reply("a", thinking="x"),
        reply("b"),
        reply("c", thinking="y"),
    ]
    found = read(given)
    assert "Be kind.\n\nBe brief." == found.conversation.system
    assert [("user", "one\n\ntwo", ""), ("assistant", "a\n\nb\n\nc", "x\n\ny")] == said(found)
    assert "Top.\n\nBe kind.\n\nBe brief." == (
        read({"system": "Top.", "messages": given}).conversation.system
    )


def test_a_greeting_keeps_its_place() -> None:
    found = read([reply("Hello!"), user("Hi.")])
    assert [("user", ""), ("assistant", "Hello!"), ("user", "Hi.")] == [one[:2] for one in said(found)]
    assert [1, 2] == [turn.number for turn in found.conversation.turns()]


def test_a_session_is_named_by_its_first_words(folder: SessionFolder) -> None:
    for given in ([user("Two pears!")], [reply("Two pears!")]):
        with export.save(folder, read(given)) as made:
            assert made.name.startswith("two-pears")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"role": "tool", "content": "7"}, "Message 2 is from 'tool'"),
        ({"role": "function", "content": "7"}, "Message 2 is from 'function'"),
        ({"content": "7"}, "Message 2 is from nobody"),
        ({"role": ["user"], "content": "7"}, "Message 2 is from nobody"),
        (reply(None, tool_calls=[{"id": "x"}]), "Message 2 calls a tool"),
        (reply(None), "Message 2 is not text alone"),
        (user([{"type": "image_url", "image_url": {"url": "x"}}]), "Message 2 is not text alone"),
        (user([{"type": "text", "text": "x"}, {"type": "file"}]), "Message 2 is not text alone"),
        (user([{"type": "text", "text": 7}]), "Message 2 is not text alone"),
        (user(["x"]), "Message 2 is not text alone"),
        (user({"type": "text", "text": "x"}), "Message 2 is not text alone"),
        (reply("x", thinking={"a": 1}), "Message 2 is not text alone"),
        ({"messages": [user("x")]}, "several conversations"),
        ("x", "no list of messages"),
    ],
)
def test_what_cannot_be_kept_whole_is_refused_by_its_number(bad: Any, says: str) -> None:
    with pytest.raises(NotImportable, match=says):
        read([user("one"), bad])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no messages"),
        (b"[]", "no messages"),
        (b'[{"role": "system", "content": "x"}]', "no messages"),
        (b"hello there", "no conversation"),
        (b"\xff\xfe", "no conversation"),
        (b"[" * 200_000, "no conversation"),
        (b"7", "no list of messages"),
        (b'{"a": 1}', "no list of messages"),
        (b'{"messages": 7}', "no list of messages"),
        (b'{"type": "session", "version": 1}\n{"type": "user"}\n', "session's own file"),
    ],
)
def test_what_is_no_conversation_is_refused_in_a_sentence(data: bytes, says: str) -> None:
    with pytest.raises(NotImportable, match=says) as caught:
        export.read(data)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_thinking_alone_is_a_reply_and_half_characters_do_no_harm(folder: SessionFolder) -> None:
    found = export.read(
        b'[{"role": "user", "content": "\\ud800 x"},{"role": "assistant", "content": null, "thinking": "hm"}]'
    )
    assert [("user", "? x", ""), ("assistant", "", "hm")] == said(found)
    export.save(folder, found).close()


def test_what_cannot_be_saved_whole_leaves_nothing(folder: SessionFolder) -> None:
    found = read(exported(with_branches(folder)))
    first, *_ = found.conversation.entries.values()
    found.conversation.entries["again"] = first
    with pytest.raises(KeyError):
        export.save(folder, found, "half")
    assert ["fruit"] == folder.names()


# Markdown and HTML


def test_markdown_is_the_current_path_with_thinking_quoted(folder: SessionFolder) -> None:
    conversation = with_branches(folder)
    conversation.head = list(conversation.entries)[-1]
    text = export.markdown("fruit", conversation)
    assert text.startswith("# fruit\n\n*pocket · 1 March 2025 · 2 turns*\n\n")
    assert "> Be kind.\n" in text
    assert "three" not in text and "hm" not in text
    assert "## 2 · You\n\nother\n\n### Reply (stopped)\n\ncut\n" in text
    assert "\x1b" not in text and "\r" not in text and "␛[31m" in text
    assert "> *Thinking*\n>\n> hm\n\ntwo" in export.markdown("fruit", conversation, thinking=True)


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
        return [found for name, found in self.tags if name == tag]


def page(asked: str, said: str, thought: str = "", *, shown: bool = False) -> Page:
    """One turn; the name and the system prompt are as hostile as what was said."""
    found = read([user(asked), reply(said, thinking=thought)]).conversation
    found.system = ACTIVE
    return Page(export.page("a <b>name</b>", found, thinking=shown))


def test_nothing_in_a_page_is_active_or_loaded() -> None:
    found = page(ACTIVE, ACTIVE, ACTIVE, shown=True)
    names = {name for name, _ in found.tags}
    assert not names & {"script", "img", "iframe", "link", "object", "base", "form"}
    attributes = {key for _, held in found.tags for key in held}
    assert not {key for key in attributes if key.startswith("on")} | attributes & {"src", "srcset"}
    targets = [str(link["href"]) for link in found.named("a")]
    assert {"#turn-1", "https://evil.example/p.png"} == set(targets)
    assert "a <b>name</b>" in found.text and "alert(1)" in found.text
    assert "default-src 'none'; style-src 'unsafe-inline'" in {
        held.get("content") for held in found.named("meta")
    }
    style = export.STYLE
    assert "url(" not in style and "@import" not in style


def test_a_page_has_replies_as_markdown_and_questions_as_they_were_typed() -> None:
    found = page(
        "**typed** {style}",
        "**bold** and `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx < 1\n```",
    )
    assert "**typed** {style}" in found.text
    names = [name for name, _ in found.tags]
    assert {"strong", "code", "pre", "table"} <= set(names)
    assert "x < 1" in found.text
    viewport = {held.get("name"): held.get("content") for held in found.named("meta")}
    assert "width=device-width, initial-scale=1" == viewport["viewport"]
    assert "prefers-color-scheme: dark" in export.STYLE


def test_a_page_folds_thinking_away_and_shows_it_only_if_asked() -> None:
    hidden = page("one", "two", "quince </details><b>")
    assert "quince" not in hidden.text
    shown = page("one", "two", "quince </details><b>", shown=True)
    assert "quince </details><b>" in shown.text
    assert len(hidden.named("details")) + 1 == len(shown.named("details"))


def test_a_page_is_well_formed(folder: SessionFolder) -> None:
    text = export.page("fruit", with_branches(folder), thinking=True)
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
    found = [export.format_of(suffix) for suffix in (".md", ".HTML", ".htm", ".json", ".txt", "")]
    assert ["md", "html", "html", "json", "md", "md"] == found
