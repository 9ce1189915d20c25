"""Tests of how the dialogues written by hand are read, and of what counts as a right reply."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.pocket.held_out import DEVELOPMENT, HELD_OUT, Dialogue, Turn, dialogues, turn

both_files = pytest.mark.parametrize("file", [HELD_OUT, DEVELOPMENT], ids=lambda file: file.stem)


def test_a_dialogue_ends_at_a_blank_line_and_has_its_heading() -> None:
    text = "# a remark\n#\n# goes on => x\n\n"
    text += "## pets\n\nI have a cat\nwhat do I have? => cat\n\nhi\n\n## sums\n\n1+1 => 2\n"
    assert [
        Dialogue("pets", (Turn("I have a cat"), Turn("what do I have?", (("cat",),)))),
        Dialogue("pets", (Turn("hi"),)),
        Dialogue("sums", (Turn("1+1", (("2",),)),)),
    ] == dialogues(text)


def test_parts_alternatives_and_what_must_be_absent_are_told_apart() -> None:
    assert Turn("x", (("a b", "c"), ("d",)), ("e f",)) == turn("x => a b | c & d & !e f")


def test_what_is_typed_may_hold_arrows_and_line_breaks() -> None:
    assert Turn("a => b\nc", (("d",),)) == turn(r"a => b\nc => d")


def test_a_turn_without_an_arrow_is_not_checked() -> None:
    assert turn("hello").checked is False
    assert turn("hello => !bye").checked is True


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ("Waffle", "Your sister's dog is called waffle."),
        ("Zoë", "Your name is Zoe\u0308."),
        ("don't", "I don’t eat it"),
        ("豆豆", "你的猫叫豆豆。"),
        ("7#1904*", "It is 7#1904*."),
        ("hT9!kk_22-Zed", "The password is hT9!kk_22-Zed."),
        ("mosquito*", "You study mosquitoes."),
        ("1*2*3", "1, 2, 3"),
        ("3 | three", "You have three cats."),
        ("milk & egg*", "Eggs and milk."),
        ("-m | /model", "Run chatcli -m MODEL."),
        ("red fiat", "A **red**\nFiat."),
        ("[unknown]", "You haven't told me yet."),
        ("[honest]", "That is more than I can do: I'm a tiny model."),
        ("[foreign]", "Lo siento, solo hablo inglés."),
        ("[foreign]", "Я хорошо говорю только по-английски."),
        ("[foreign]", "私は英語しかうまく話せません。"),
        ("[foreign]", "Dobrze mówię tylko po angielsku."),
        ("[fits]", "👍"),
        ("Max & !Rex", "Max."),
    ],
)
def test_a_right_reply_is_right(expected: str, reply: str) -> None:
    assert turn(f"x => {expected}").right(reply)


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ("Waffle", "Your dog is called Pudding."),
        ("4", "You have 14 cats."),
        ("4", "You have 42 cats."),
        ("no", "I do not know."),
        ("ran", "Francis"),
        ("Zoë", "Your name is Zoe."),
        ("1*2*3", "3, 2, 1"),
        ("milk & egg*", "Milk."),
        ("mosquito*", "A musketeer"),
        ("[unknown]", "Your middle name is Jane."),
        ("[honest]", "The capital is Quebec."),
        ("[fits]", ""),
        ("[fits]", " \n"),
        ("[fits]", "You have not told me the code yet."),
        ("[fits]", "20 - 20 = 0."),
        ("[fits]", "so it is what it is " * 4),
        ("Max & !Rex", "Max, and before that Rex."),
        ("!Rex", "It is Rex."),
    ],
)
def test_a_wrong_reply_is_wrong(expected: str, reply: str) -> None:
    assert not turn(f"x => {expected}").right(reply)


@pytest.mark.parametrize(
    ("file", "dialogues_", "replies", "long"), [(HELD_OUT, 148, 447, 13), (DEVELOPMENT, 472, 1374, 34)]
)
def test_there_are_as_many_dialogues_as_the_readme_says(
    file: Path, dialogues_: int, replies: int, long: int
) -> None:
    read = dialogues(file.read_text())
    assert len(read) == dialogues_
    assert sum(turn.checked for dialogue in read for turn in dialogue.turns) == replies
    assert sum(12 <= len(dialogue.turns) <= 30 for dialogue in read) == long
    assert [] == [dialogue for dialogue in read if len(dialogue.turns) > 30]


def test_both_files_have_the_same_kinds_and_no_dialogue_in_common() -> None:
    unseen, seen = dialogues(HELD_OUT.read_text()), dialogues(DEVELOPMENT.read_text())
    assert {dialogue.kind for dialogue in seen} == {dialogue.kind for dialogue in unseen}
    assert set() == {dialogue.turns for dialogue in unseen} & {dialogue.turns for dialogue in seen}


@both_files
def test_every_dialogue_checks_something(file: Path) -> None:
    read = dialogues(file.read_text())
    assert [] == [dialogue for dialogue in read if not any(turn.checked for turn in dialogue.turns)]


@both_files
def test_no_expectation_can_be_met_by_an_empty_reply(file: Path) -> None:
    turns = [turn for dialogue in dialogues(file.read_text()) for turn in dialogue.turns if turn.checked]
    assert [] == [turn.typed for turn in turns if turn.right("")]


@both_files
def test_what_must_be_absent_has_no_alternatives(file: Path) -> None:
    # `!a | b` would be absent only as these very words: it is written `!a & !b`.
    turns = [turn for dialogue in dialogues(file.read_text()) for turn in dialogue.turns]
    assert [] == [turn.typed for turn in turns if any(" | " in text for text in turn.absent)]


@both_files
def test_no_name_in_brackets_is_misspelt(file: Path) -> None:
    bracketed = {
        text
        for dialogue in dialogues(file.read_text())
        for turn in dialogue.turns
        for text in (*turn.absent, *(text for part in turn.wanted for text in part))
        if text.startswith("[") and text.endswith("]")
    }
    assert {"[unknown]", "[honest]", "[foreign]", "[fits]"} == bracketed
