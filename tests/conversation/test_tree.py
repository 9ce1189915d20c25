"""The tree of messages: paths, turns, siblings and the head."""

from __future__ import annotations

import re

import pytest

from chatcli.conversation.tree import Conversation, Entry, Message, Role, date_in_words, new_id
from chatcli.errors import TurnOutOfRange


def entry(identifier: str, parent: str | None, role: Role = "user", text: str = "") -> Entry:
    return Entry(identifier, parent, Message(role, text or identifier), 0.0)


def talk(*identifiers: str) -> Conversation:
    """Messages in one line, users' first."""
    conversation = Conversation("2025-03-01")
    for number, identifier in enumerate(identifiers):
        conversation.add(entry(identifier, conversation.head, "assistant" if number % 2 else "user"))
    return conversation


def ids(entries: list[Entry]) -> list[str]:
    return [item.id for item in entries]


def test_elsewhere_is_what_other_branches_say_and_all_thinking() -> None:
    conversation = Conversation("2026-01-01")
    conversation.add(entry("u1", None, text="first"))
    conversation.add(Entry("a1", "u1", Message("assistant", "reply", "a thought"), 0.0))
    conversation.add(entry("u2", "a1", text="branch"))
    conversation.add(Entry("a2", "u2", Message("assistant", "other", "another thought"), 0.0))
    conversation.add(entry("u3", "a1", text="second"))
    assert ["a thought", "branch", "another thought", "other"] == conversation.elsewhere("u3")
    assert ["a thought", "another thought", "second"] == conversation.elsewhere("a2")


def test_an_added_entry_becomes_the_head() -> None:
    conversation = talk("u1", "a1", "u2")
    assert "u2" == conversation.head
    assert ["u1", "a1", "u2"] == ids(conversation.path())


def test_an_entry_without_its_parent_is_refused_and_nothing_changes() -> None:
    conversation = talk("u1")
    with pytest.raises(KeyError):
        conversation.add(entry("a1", "nobody"))
    assert (["u1"], "u1") == (list(conversation.entries), conversation.head)


def test_a_path_ends_at_the_leaf_that_is_asked_for() -> None:
    conversation = talk("u1", "a1", "u2", "a2")
    assert ["u1", "a1"] == ids(conversation.path("a1"))
    assert ["u1", "a1", "u2", "a2"] == ids(conversation.path(None))


def test_an_empty_conversation_has_no_path_turns_or_children() -> None:
    conversation = Conversation("2025-03-01")
    assert ([], [], [], None) == (
        conversation.path(),
        conversation.turns(),
        conversation.children(None),
        conversation.unanswered(),
    )


def test_siblings_are_children_of_one_entry_oldest_first() -> None:
    conversation = talk("u1", "a1")
    conversation.add(entry("b1", "u1", "assistant"))
    conversation.add(entry("other", None))
    assert ["a1", "b1"] == ids(conversation.children("u1"))
    assert ["u1", "other"] == ids(conversation.children(None))
    assert ["u1", "b1"] == ids(conversation.path("b1"))


def test_turns_are_numbered_from_one_along_the_path() -> None:
    turns = talk("u1", "a1", "u2", "a2", "u3").turns()
    assert [(1, "u1", "a1"), (2, "u2", "a2"), (3, "u3", None)] == [
        (turn.number, turn.user.id, turn.reply.id if turn.reply else None) for turn in turns
    ]


def test_turns_of_another_leaf_are_numbered_along_its_own_path() -> None:
    conversation = talk("u1", "a1", "u2", "a2")
    conversation.add(entry("v2", "a1"))
    assert ["u1", "v2"] == [turn.user.id for turn in conversation.turns()]
    assert ["u1", "u2"] == [turn.user.id for turn in conversation.turns("a2")]


def test_two_messages_in_a_row_are_two_turns() -> None:
    conversation = talk("u1")
    conversation.add(entry("u2", "u1"))
    assert [(1, None), (2, None)] == [(turn.number, turn.reply) for turn in conversation.turns()]


def test_a_turn_ends_with_its_reply_or_without_one_with_its_message() -> None:
    conversation = talk("u1", "a1", "u2")
    assert ("a1", "u2") == (conversation.end_of_turn(1), conversation.end_of_turn(2))


@pytest.mark.parametrize("number", [0, -1, 3])
def test_a_turn_out_of_range_names_the_range(number: int) -> None:
    with pytest.raises(TurnOutOfRange, match=rf"no turn {number}: .*turns 1 to 2"):
        talk("u1", "a1", "u2").end_of_turn(number)


def test_an_empty_conversation_says_that_it_has_no_turns() -> None:
    with pytest.raises(TurnOutOfRange, match="no turns yet"):
        Conversation("2025-03-01").end_of_turn(1)


def test_only_a_message_at_the_head_is_unanswered() -> None:
    conversation = talk("u1", "a1", "u2")
    lost = conversation.unanswered()
    assert lost is not None
    assert "u2" == lost.id
    conversation.add(entry("a2", "u2", "assistant"))
    assert None is conversation.unanswered()


def test_a_note_adds_numbers_and_leaves_earlier_values_of_the_entry_alone() -> None:
    conversation = talk("u1", "a1")
    before = conversation.entries["a1"]
    conversation.note("a1", {"x": 1, "y": 1})
    noted = conversation.note("a1", {"y": 2})
    assert {"x": 1, "y": 2} == dict(noted.record)
    assert {} == dict(before.record)
    assert (before.message, before.parent) == (noted.message, noted.parent)
    assert noted is conversation.entries["a1"]


def test_a_note_for_nobody_is_refused() -> None:
    with pytest.raises(KeyError):
        talk("u1").note("nobody", {})


@pytest.mark.parametrize(
    ("date", "words"), [("2026-11-03", "3 November 2026"), ("2025-01-31", "31 January 2025")]
)
def test_a_date_is_written_in_words(date: str, words: str) -> None:
    assert words == date_in_words(date)


def test_new_ids_are_twelve_hexadecimal_digits_and_do_not_repeat() -> None:
    identifiers = {new_id() for _ in range(1000)}
    assert 1000 == len(identifiers)
    assert all(re.fullmatch("[0-9a-f]{12}", identifier) for identifier in identifiers)


def reply(identifier: str, text: str, finish_reason: str = "stop", thinking: str = "") -> Entry:
    return Entry(identifier, "u", Message("assistant", text, thinking), 0.0, finish_reason)


def with_replies(*replies: Entry) -> Conversation:
    conversation = talk("u")
    for entry in replies:
        conversation.add(entry)
    return conversation


def test_a_cut_reply_that_was_continued_is_no_branch() -> None:
    cut, more = reply("a", "One ", "cancelled", "hm"), reply("b", "One two.", "length", "hm")
    conversation = with_replies(cut, more, reply("c", "One two. Three.", "stop", "hm"))
    assert {"a", "b"} == conversation.continued() and 1 == conversation.branch_count()
    in_thinking = with_replies(reply("a", "", "length", "hm"), reply("b", "One.", "stop", "hm, well"))
    assert {"a"} == in_thinking.continued()
    never_began = with_replies(reply("a", "", "cancelled"), reply("b", "One."))
    assert {"a"} == never_began.continued()


def test_a_reply_that_was_tried_again_is_a_branch() -> None:
    conversation = with_replies(reply("a", "One."), reply("b", "One. Two."), reply("c", "Other", "cancelled"))
    assert set() == conversation.continued() and 3 == conversation.branch_count()
    other_thinking = with_replies(reply("a", "One", "cancelled", "hm"), reply("b", "One.", "stop", "well"))
    assert set() == other_thinking.continued()


def test_a_cut_reply_that_was_gone_back_to_is_a_branch() -> None:
    conversation = with_replies(reply("a", "One", "cancelled"), reply("b", "One two."))
    conversation.head = "a"
    assert set() == conversation.continued()
    conversation.add(entry("v", "a"))
    conversation.head = "b"
    assert set() == conversation.continued() and 2 == conversation.branch_count()


def test_a_turn_whose_tools_were_run_has_the_steps_before_its_reply() -> None:
    conversation = talk("u1", "a1")
    conversation.add(entry("t1", "a1", "tool"))
    (turn,) = conversation.turns()
    assert (["a1", "t1"], None) == (ids(list(turn.steps)), turn.reply)
    assert "t1" == conversation.end_of_turn(1)
    unanswered = conversation.unanswered()
    assert unanswered is not None and "t1" == unanswered.id
    conversation.add(entry("a2", "t1", "assistant"))
    (turn,) = conversation.turns()
    assert turn.reply is not None
    assert (["a1", "t1"], "a2") == (ids(list(turn.steps)), turn.reply.id)
    assert conversation.unanswered() is None
