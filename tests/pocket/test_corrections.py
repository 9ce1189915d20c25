"""Tests of corrections that name nothing, of people told of in a few words, and of slips of typing."""

from __future__ import annotations

import re
from random import Random

from training.pocket.conversations import Difficulty, conversation
from training.pocket.slips import FORMS, slipped
from training.pocket.turns import Desk
from training.pocket.values import Source

# A reply may count what was typed, and says "your" for "my".
GIVEN = {"your", "one", "two", "three", "four"}


def test_a_correction_in_a_word_changes_what_was_just_told() -> None:
    replaced = 0
    for seed in range(600):
        desk = Desk(Source(Random(seed)))
        desk.record(desk.tell(2))
        before = {id(fact): fact.says() for fact in desk.told}
        turn = desk.record(desk.correct())
        if turn.sort != "correct":
            continue
        after = [fact.says() for fact in desk.told]
        gone = [says for says in before.values() if says not in after]
        new = [says for says in after if says not in before.values()]
        # A new name is in all that is told of somebody; the rest stays.
        assert len(gone) == len(new) >= 1
        says = turn.reply.removeprefix("Got it, now ").rstrip(".").lower()
        assert says in {each.rstrip(".").lower() for each in new}
        # Whatever is new in the reply was typed.
        added = set(re.findall(r"\w+", says)) - set(re.findall(r"\w+", " ".join(gone).lower()))
        typed = re.findall(r"\w+", turn.user.lower())
        assert all(word in typed or word.removesuffix("s") in typed for word in added - GIVEN)
        replaced += 1
    assert replaced > 400


def test_after_several_facts_a_correction_names_the_one_that_it_means() -> None:
    named = 0
    for seed in range(600):
        desk = Desk(Source(Random(seed)))
        desk.record(desk.tell(2))
        values = [fact.value.lower() for fact in desk.latest if hasattr(fact, "value")]
        several = len(desk.latest) > 1
        turn = desk.record(desk.correct())
        if several and turn.thinking.startswith("Changed") and len(turn.user.split()) < 7:
            topic, user = turn.thinking.rstrip(".").split(" ")[-1].lower(), turn.user.lower()
            # Or it is said anew, in a sentence of its own: "my nephew hates rain".
            people = [who.noun for who in desk.people if who.noun and who.full() in turn.thinking]
            assert any(name in user for name in (*values, topic, *people)), turn
            named += 1
    assert named > 50


def test_slips_change_common_words_only() -> None:
    for seed in range(300):
        text = "My favourite name is Wherever What7 the-have, please remember that the code is THE_is.what"
        slip = slipped(Random(seed), text, 0.8, {"please"})
        for value in ("Wherever", "What7", "the-have", "please", "THE_is.what"):
            assert value in slip
    assert all(form not in FORMS for forms in FORMS.values() for form in forms)


def test_no_slip_is_in_a_thought_or_a_reply() -> None:
    forms = {form for forms in FORMS.values() for form in forms if len(form) > 3}
    slips = 0
    for seed in range(400):
        for turn in conversation(Source(Random(seed)), Difficulty(8, 8)).turns:
            slips += any(form in turn.user.lower().split() for form in forms)
            if turn.sort not in ("quote", "language", "noise", "code", "data"):
                # What was typed so without one may be repeated.
                slips_here = forms - set(turn.meant.lower().split())
                assert not slips_here & set(f"{turn.thinking} {turn.reply}".lower().split()), turn
    assert slips > 50


def test_what_is_told_under_slips_is_repeated_as_typed() -> None:
    for seed in range(400):
        for turn in conversation(Source(Random(seed)), Difficulty(4, 4), "tell").turns[-1:]:
            if turn.sort == "tell" and turn.reply.startswith("Got it: your name is "):
                name = turn.reply.removeprefix("Got it: your name is ").rstrip(".")
                assert name.lower() in turn.user.lower()
