"""Thinking repeats the question and the clause that answers it, word for word."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from training.pocket.conversations import Conversation, Difficulty, by_hand, conversation
from training.pocket.grounding import NOT_TOLD, THOUGHT, asked_back, clauses, closest, grounded, parted
from training.pocket.said_back import THINKING
from training.pocket.turns import Turn
from training.pocket.values import Source

TOLD = Turn(
    "My dog Rex sleeps on the sofa and I work nights",
    THINKING,
    "Got it: your dog Rex sleeps on the sofa, and you work nights.",
    "tell",
)


def asks(user: str, question: str, found: str, meant: str = "", bound: bool = False) -> Turn:
    return Turn(user, f"Asked: {question}. {found}", "A reply.", "ask", meant=meant, bound=bound)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Where do I live?", "where do you live"),
        ("do you remember what my dog is called", "what your dog is called"),
        ("thanks! remind me, who is my boss again?", "who is your boss"),
        ("quick question: my sister's job?", "your sister's job"),
        ("where did I park? I forgot", "where did you park"),
        ("is there milk in my fridge, please", "is there milk in your fridge"),
        ("what did I plan for this weekend?", "what did you plan for this weekend"),
    ],
)
def test_a_question_is_repeated_without_what_stands_around_it(typed: str, said: str) -> None:
    assert asked_back(typed) == said


@pytest.mark.parametrize("typed", ["where does she live?", "why?", "what is it " + "and that " * 30])
def test_a_question_that_needs_more_than_itself_is_not_repeated(typed: str) -> None:
    assert asked_back(typed) is None


def test_a_pronoun_becomes_the_name_that_was_told() -> None:
    told = ["your best mate Deshawn has a job at the zoo"]
    full = "what animals your best mate Deshawn looks after"
    assert asked_back("what animals does he look after?", full, told) == (
        "what animals does your best mate Deshawn look after"
    )
    assert asked_back("what animals does he look after?", full, ["you like zoos"]) is None


def test_what_is_told_comes_apart_into_clauses() -> None:
    assert clauses(TOLD) == ("your dog Rex sleeps on the sofa", "you work nights")
    assert clauses(asks("where is Rex?", "where Rex is", "Told: on the sofa.")) == ()


def test_thinking_has_the_question_and_the_clause_that_answers_it() -> None:
    last = asks("where's rexs bed??", "where your dog Rex sleeps", "Told: on the sofa.", "where's Rex's bed?")
    thinking = grounded([TOLD, last])[-1].thinking
    assert thinking == (
        "Asked: where's Rex's bed. Closest: your dog Rex sleeps on the sofa. Told: on the sofa."
    )


def test_the_clause_closest_to_what_was_never_told_is_named_too() -> None:
    last = asks("what does Rex eat?", "what your dog Rex eats", "Not told.")
    assert grounded([TOLD, last])[-1].thinking == (
        "Asked: what does Rex eat. Closest: your dog Rex sleeps on the sofa. Not told."
    )
    assert "Closest: nothing." in grounded([last])[-1].thinking


def test_what_was_never_told_has_one_reply() -> None:
    unknown = Turn(
        "Rex's food?", "Asked: what Rex eats. Not told.", "You have not told me what Rex eats yet.", ""
    )
    assert [turn.reply for turn in grounded([unknown, TOLD, unknown])[::2]] == [NOT_TOLD, NOT_TOLD]


def test_an_answer_of_several_parts_has_several_clauses() -> None:
    told = ["you bought two pens", "you work nights", "you bought three books"]
    assert closest(told, "what you bought", "Told: two pens; three books. So 5.", "") == (
        "you bought two pens; you bought three books"
    )


def test_two_questions_are_thought_of_together() -> None:
    thinking = "Asked: where your dog Rex sleeps. Told: on the sofa. Asked: how old you are. Not told."
    two = Turn("Where does Rex sleep? And how old am I?", thinking, "A reply.", "ask two")
    assert grounded([TOLD, two])[-1].thinking == (
        "Asked: where does Rex sleep? And how old are you. Closest: your dog Rex sleeps on the sofa. "
        "Told: on the sofa; not told."
    )


def test_a_question_bound_to_the_one_before_is_thought_in_full() -> None:
    last = asks("and hers?", "where your cat sleeps", "Not told.", bound=True)
    assert grounded([TOLD, last])[-1].thinking.startswith("Asked: where your cat sleeps. ")


def test_a_change_names_the_clause_that_it_changes() -> None:
    change = Turn("no, days now", "Changed: when you work.", "Got it, now you work days.", "correct")
    found = grounded([TOLD, change])[-1]
    assert found.thinking == "Changed: you work nights."
    assert found.reply == "Got it, now: days now (before: you work nights)."


def test_a_second_change_names_what_was_first_said_unless_the_first_says_it_in_full() -> None:
    first = Turn("no wait, days", "Changed: when you work.", "Got it, now you work days.", "correct")
    last = Turn("sorry, evenings", "Changed: when you work.", "Got it, now you work evenings.", "correct")
    assert grounded([TOLD, first, last])[-1].reply == "Got it, now: evenings (before: you work nights)."
    full = Turn("Actually I work days", "Changed: when you work.", "Got it, now you work days.", "correct")
    assert grounded([TOLD, full, last])[-1].reply == "Got it, now: evenings (before: you work days)."


def test_an_answer_after_a_change_stands_beside_both() -> None:
    change = Turn("no, days", "Changed: when you work.", "Got it, now you work days.", "correct")
    last = asks("when do I work?", "when you work", "Told: days.")
    assert (
        "Closest: now: days (before: you work nights). Told: days."
        in grounded([TOLD, change, last])[-1].thinking
    )


def test_a_title_ends_no_clause() -> None:
    assert parted("you write with Dr. Abebe. Mrs. Hu reads it") == (
        "you write with Dr. Abebe",
        "Mrs. Hu reads it",
    )


def test_a_change_of_nothing_tells() -> None:
    change = Turn("no, days", "Changed: when you work.", "Got it, now you work days.", "correct")
    assert grounded([change])[-1].reply == "Got it: days."


def test_all_that_was_told_is_what_was_said_back() -> None:
    last = Turn("what do you know?", "Asked: all that I was told. Told: a dog.", "You told me: a.", "know")
    found = grounded([TOLD, last])[-1]
    assert found.thinking == "Asked: all that I was told."
    assert found.reply == "You told me: your dog Rex sleeps on the sofa, and you work nights."
    change = Turn("no, days", "Changed: when you work.", "Got it, now you work days.", "correct")
    assert grounded([TOLD, change, last])[-1].reply == (
        "You told me: your dog Rex sleeps on the sofa, and you work nights; "
        "now: days (before: you work nights)."
    )


def test_only_the_last_turns_are_thought_anew() -> None:
    asked = asks("where is Rex?", "where Rex is", "Told: on the sofa.")
    assert grounded([TOLD, asked, asked])[1] is asked
    assert "Closest: " in grounded([TOLD, asked, asked], deep=2)[1].thinking


@pytest.mark.parametrize("make", [by_hand, conversation])
def test_nine_answers_in_ten_stand_beside_what_they_were_taken_from(
    make: Callable[[Source, Difficulty], Conversation],
) -> None:
    source = Source(Random(3))
    found = []
    for _ in range(400):
        turns = make(source, Difficulty()).turns
        if THOUGHT.fullmatch(turns[-1].thinking):
            found.append("Closest: " in grounded(turns)[-1].thinking)
    assert len(found) > 40
    assert sum(found) / len(found) > 0.9


def test_what_was_told_in_the_message_that_is_asked_for_comes_before_what_says_the_same_word() -> None:
    told = Turn("I sit near the piano", "", "Got it: you sit near the piano.", "tell")
    other = Turn("Near the piano is a broom", "", "Got it: near the piano is a broom.", "tell")
    asked = asks("where did I settle?", "where you settled", "Told: near the piano.")
    assert "Closest: near the piano is a broom." in grounded([told, other, asked])[-1].thinking
    asked = replace(asked, place=0)
    assert "Closest: you sit near the piano." in grounded([told, other, asked])[-1].thinking
