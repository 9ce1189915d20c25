"""Imports: the same tree as was exported, and nothing is lost without a message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatcli.conversation.tree import Conversation, Message
from chatcli.errors import BadName, NotImportable, SessionExists
from chatcli.events import ToolCall
from chatcli.exchange import export, importing
from chatcli.exchange.importing import Imported
from chatcli.store.sessions.folder import SessionFolder
from tests.exchange.conftest import with_branches

# A reply of gpt-oss, as its tokens spell it.
HARMONY = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"


def exported(conversation: Conversation, name: str = "fruit") -> dict[str, Any]:
    return json.loads(export.to_json(export.to_dict(name, conversation)))


def read(value: Any) -> Imported:
    return importing.read(json.dumps(value).encode())


def messages_of(imported: Imported) -> list[tuple[str, str, str]]:
    path = imported.conversation.path()
    return [(e.message.role, e.message.content, e.message.thinking) for e in path]


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def reply(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


# JSON: the whole tree


def test_tool_calls_and_their_results_come_back_from_the_file_and_from_an_export(
    folder: SessionFolder,
) -> None:
    call = ToolCall("weather", '{"city": "Lisbon"}', "call_1", 3, 9)
    messages = [
        Message("user", "Is it warm?"),
        Message("assistant", "Hm.[call]", "So.", tool_calls=(call,)),
        Message("tool", "21 degrees", tool_call_id="call_1"),
        Message("assistant", "Yes."),
    ]
    with folder.create("tools", model=None, system=None) as session:
        for message in messages:
            session.append(message, session.conversation.head)
    saved = folder.read("tools")
    assert messages == [entry.message for entry in saved.conversation.path()]
    assert [] == saved.problems
    assert 1 == folder.summaries()[0].turns
    with importing.save(folder, read(exported(saved.conversation, "again"))) as session:
        assert messages == [entry.message for entry in session.conversation.path()]


def test_an_import_of_an_export_is_the_same_tree(folder: SessionFolder) -> None:
    source = with_branches(folder)
    with importing.save(folder, read(exported(source))) as session:
        assert "fruit-2" == session.name
    assert folder.read("fruit").conversation == folder.read("fruit-2").conversation
    assert (source.head, source.labels) == (session.conversation.head, session.conversation.labels)


def test_an_export_says_what_it_is_and_is_ascii(folder: SessionFolder) -> None:
    fields = exported(with_branches(folder))
    assert ("chatcli", 1, "fruit", "pocket", "Be kind.", "2025-03-01") == tuple(
        fields[key] for key in ("format", "version", "session", "model", "system", "date")
    )
    assert ["user", "assistant", "user", "user", "assistant"] == [
        entry["role"] for entry in fields["entries"]
    ]
    assert fields["entries"][3]["id"] == fields["head"]
    assert export.to_json(fields).isascii()


def test_an_imported_conversation_takes_a_given_name_or_none(folder: SessionFolder) -> None:
    imported = read(exported(with_branches(folder)))
    with importing.save(folder, imported, "new") as session:
        assert "new" == session.name
    with pytest.raises(SessionExists):
        importing.save(folder, imported, "new")
    with pytest.raises(BadName):
        importing.save(folder, imported, "../new")
    hostile = Imported(imported.conversation, "../../etc/passwd")
    with importing.save(folder, hostile) as session:
        assert session.path.parent == folder.folder
        assert "etc-passwd" == session.name


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
        {"system": ["x"]},
        {"labels": [1]},
        {"labels": {"nobody": "x"}},
    ],
)
def test_a_damaged_export_is_refused_in_a_sentence(folder: SessionFolder, change: dict[str, Any]) -> None:
    fields = exported(with_branches(folder))
    with pytest.raises(NotImportable, match=r"^This export is damaged: .*\.$"):
        read({**fields, **change})
    for key in change:
        if key != "labels":
            with pytest.raises(NotImportable, match=f"'{key}' is missing"):
                read({name: value for name, value in fields.items() if name != key})


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../x"},
        {"id": 7},
        {"parent": "nobody"},
        {"role": "system"},
        {"content": None},
        {"time": "NaN"},
        {"time": 10**400},
        {"thinking": 7, "role": "assistant"},
    ],
)
def test_a_damaged_entry_is_refused(folder: SessionFolder, change: dict[str, Any]) -> None:
    fields = exported(with_branches(folder))
    fields["entries"][0] |= change
    with pytest.raises(NotImportable, match="damaged"):
        read(fields)


def test_entries_that_repeat_or_go_in_rings_are_refused(folder: SessionFolder) -> None:
    fields = exported(with_branches(folder))
    for entries in (fields["entries"][:1] * 2, fields["entries"][::-1]):
        with pytest.raises(NotImportable, match=r"entry . has no place"):
            read({**fields, "entries": entries})
    with pytest.raises(NotImportable, match="no user or assistant messages"):
        read({**fields, "entries": [], "labels": {}, "head": None})


def test_an_export_of_a_newer_program_is_refused(folder: SessionFolder) -> None:
    with pytest.raises(NotImportable, match="newer chatcli"):
        read({**exported(with_branches(folder)), "version": 2})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"session": 5}, "the session's name is not text"),
        ({"version": "1"}, "its version is not a number"),
        ({"version": True}, "its version is not a number"),
        ({"system": 5}, "the system prompt is not text"),
        ({"model": {}}, "the model's name is not text"),
        ({"date": 5}, "the date is not text"),
        ({"labels": []}, "'labels' is not an object"),
        ({"entries": {}}, "'entries' is not a list"),
        ({"effort": 5}, "the effort is not text"),
    ],
)
def test_a_damaged_export_is_refused_with_what_is_wrong(
    folder: SessionFolder, change: dict[str, Any], says: str
) -> None:
    fields = exported(with_branches(folder))
    with pytest.raises(NotImportable, match=f"^This export is damaged: {says}.$"):
        read({**fields, **change})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"content": 5}, "the content of entry 1 is not text"),
        ({"time": "5"}, "the time of entry 1 is invalid"),
        ({"time": -1e200}, "the time of entry 1 is invalid"),
        ({"images": 5}, "'images' of entry 1 is not a list of images"),
        ({"images": ["x"]}, "'images' of entry 1 is not a list of images"),
        ({"finish_reason": 5}, "the finish_reason of entry 1 is not text"),
        ({"thinking": 7, "role": "assistant"}, "the thinking of entry 1 is not text"),
    ],
)
def test_a_damaged_entry_is_refused_with_its_number(
    folder: SessionFolder, change: dict[str, Any], says: str
) -> None:
    fields = exported(with_branches(folder))
    fields["entries"][0] |= change
    with pytest.raises(NotImportable, match=f"^This export is damaged: {says}.$"):
        read(fields)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("notes;touch x", "notes-touch-x"),
        ("$(touch x)`y`", "touch-x-y"),
        ("-rf ..", "rf"),
        ("naïve 日本語 हिन्दी_v1.2", "naïve-日本語-हिन्दी_v1.2"),
        ("\x1b[31m", "31m"),
        ("🍎", "two-pears"),
        ("|&;<>(){}*?'\"\\!#~", "two-pears"),
    ],
)
def test_an_imported_name_keeps_what_no_shell_acts_on(
    folder: SessionFolder, name: str, expected: str
) -> None:
    imported = importing.Imported(read([user("Two pears")]).conversation, name)
    with importing.save(folder, imported) as session:
        assert expected == session.name


# Messages


@pytest.mark.parametrize(
    ("content", "thinking", "text"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "hm", "Yes."),
        ("\n<think></think>\n\nYes.", "", "Yes."),
        ("hm\n</think>\n\nYes.", "hm", "Yes."),
        ("<think>cut in its thinking", "cut in its thinking", ""),
        (HARMONY, "hm", "Yes."),
        ("<|channel>thought\nhm<channel|>Yes.", "hm", "Yes."),
        ("[THINK]hm[/THINK]Yes.", "hm", "Yes."),
        ("<seed:think>hm</seed:think>Yes.", "hm", "Yes."),
        ("hm</think>Yes.", "hm", "Yes."),
        (f"<|start|>assistant{HARMONY}", "hm", "Yes."),
        ("```\n<think>\nx\n</think>\n```\nIt closes.", "", "```\n<think>\nx\n</think>\n```\nIt closes."),
        ("```\nhm\n</think>\n```\nIt closes.", "", "```\nhm\n</think>\n```\nIt closes."),
        ("What </think> closes.", "", "What </think> closes."),
        (
            "The marker `<think>` opens, `</think>` closes.",
            "",
            "The marker `<think>` opens, `</think>` closes.",
        ),
        ("  Yes.\n", "", "  Yes.\n"),
    ],
)
def test_thinking_is_split_off_by_the_markers_of_models(content: str, thinking: str, text: str) -> None:
    imported = read([user("Well?"), reply(content)])
    assert [("user", "Well?", ""), ("assistant", text, thinking)] == messages_of(imported)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_thinking_has_several_names(key: str) -> None:
    imported = read([user("Well?"), reply("<think>is text here", **{key: "hm"})])
    assert ("assistant", "<think>is text here", "hm") == messages_of(imported)[1]


def test_thinking_may_be_a_part_of_the_content() -> None:
    for thought in ("hm", [{"type": "text", "text": "hm"}]):
        parts = [{"type": "thinking", "thinking": thought}, {"type": "output_text", "text": "Yes."}]
        assert ("assistant", "Yes.", "hm") == messages_of(read([user("Well?"), reply(parts)]))[1]


def test_a_person_may_write_markers() -> None:
    assert ("user", "<think>x</think>", "") == messages_of(read([user("<think>x</think>")]))[0]


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
    for imported in (
        read(given),
        read({"messages": given}),
        importing.read(lines),
        importing.read(b"\xef\xbb\xbf" + lines),
    ):
        assert expected == messages_of(imported)
        assert (None, None, None) == (
            imported.name,
            imported.conversation.model,
            imported.conversation.system,
        )


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
    imported = read(given)
    assert "Be kind.\n\nBe brief." == imported.conversation.system
    assert [("user", "one\n\ntwo", ""), ("assistant", "a\n\nb\n\nc", "x\n\ny")] == messages_of(imported)
    assert "Top.\n\nBe kind.\n\nBe brief." == (
        read({"system": "Top.", "messages": given}).conversation.system
    )


def test_a_greeting_keeps_its_place() -> None:
    imported = read([reply("Hello!"), user("Hi.")])
    assert [("user", ""), ("assistant", "Hello!"), ("user", "Hi.")] == [
        one[:2] for one in messages_of(imported)
    ]
    assert [1, 2] == [turn.number for turn in imported.conversation.turns()]


def test_a_session_is_named_by_its_first_words(folder: SessionFolder) -> None:
    for given in ([user("Two pears!")], [reply("Two pears!")]):
        with importing.save(folder, read(given)) as session:
            assert session.name.startswith("two-pears")


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
        (user("x", images=["aGk="]), "Message 2 is not text alone"),
        (user({"type": "text", "text": "x"}), "Message 2 is not text alone"),
        (reply("x", thinking={"a": 1}), "Message 2 is not text alone"),
        ({"messages": [user("x")]}, "several conversations"),
        ("x", "not a list of messages"),
    ],
)
def test_what_cannot_be_kept_whole_is_refused_by_its_number(bad: Any, says: str) -> None:
    with pytest.raises(NotImportable, match=says):
        read([user("one"), bad])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no user or assistant messages"),
        (b"[]", "no user or assistant messages"),
        (b'[{"role": "system", "content": "x"}]', "no user or assistant messages"),
        (b"hello there", "not a conversation"),
        (b"\xff\xfe", "not a conversation"),
        (b"[" * 200_000, "not a conversation"),
        (b"7", "not a list of messages"),
        (b'{"a": 1}', "not a list of messages"),
        (b'[{"title": "Trip", "mapping": {}}]', "format of its own"),
        (b'{"messages": 7}', "not a list of messages"),
        (b'{"type": "session", "version": 1}\n{"type": "user"}\n', "a session file"),
    ],
)
def test_what_is_no_conversation_is_refused_in_a_sentence(data: bytes, says: str) -> None:
    with pytest.raises(NotImportable, match=says) as caught:
        importing.read(data)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_thinking_alone_is_a_reply_and_half_characters_do_no_harm(folder: SessionFolder) -> None:
    imported = importing.read(
        b'[{"role": "user", "content": "\\ud800 x"},{"role": "assistant", "content": null, "thinking": "hm"}]'
    )
    assert [("user", "? x", ""), ("assistant", "", "hm")] == messages_of(imported)
    importing.save(folder, imported).close()


def test_what_cannot_be_saved_whole_leaves_nothing(folder: SessionFolder) -> None:
    imported = read(exported(with_branches(folder)))
    first, *_ = imported.conversation.entries.values()
    imported.conversation.entries["again"] = first
    with pytest.raises(KeyError):
        importing.save(folder, imported, "half")
    assert ["fruit"] == folder.names()
