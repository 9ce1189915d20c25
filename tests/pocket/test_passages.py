"""Tests of passages: what is asked of one follows from what was told, worked out here from the typed text."""

from __future__ import annotations

import re
from random import Random

import pytest

from training.pocket.conversations import Difficulty, conversation
from training.pocket.passages import Passage
from training.pocket.phrases import fill
from training.pocket.scenes import CHAINS, FAMILIES, ListState
from training.pocket.turns import Desk, Turn, value_text
from training.pocket.values import Source

SEEDS = range(150)


def talk(seed: int, family: str) -> tuple[list[Turn], Passage, list[tuple[Turn, str]]]:
    """The turns that tell a passage, the passage, and questions with the value that was told of each."""
    desk = Desk(Source(Random(seed)))
    turns = desk.tell_passage(family)
    asked = []
    for _ in range(6):
        turn = desk.record(desk.ask_passage(family))
        passage = desk.told[-1]
        assert isinstance(passage, Passage)
        asked.append((turn, "" if turn.sort == "unknown" else passage.answer()))
    return turns, passage, asked


@pytest.mark.parametrize("family", list(FAMILIES))
def test_what_a_reply_says_was_typed(family: str) -> None:
    for seed in SEEDS:
        turns, passage, asked = talk(seed, family)
        told = " ".join(turn.user for turn in turns).lower()
        for turn, _ in asked:
            for value in passage.slots.values():
                if len(value) > 3 and value in turn.reply:
                    assert value.lower() in told + turn.user.lower()


@pytest.mark.parametrize("family", list(FAMILIES))
def test_one_question_has_one_reply(family: str) -> None:
    for seed in SEEDS:
        replies: dict[str, str] = {}
        for turn, _ in talk(seed, family)[2]:
            asked = re.sub(r"\W", "", turn.user.lower())
            assert replies.setdefault(asked, turn.reply) == turn.reply


@pytest.mark.parametrize("family", list(FAMILIES))
def test_thinking_names_what_the_reply_says(family: str) -> None:
    for seed in SEEDS:
        for turn, told in talk(seed, family)[2]:
            if turn.sort == "unknown":
                assert "Not told." in turn.thinking
                assert turn.reply.startswith("You have not told me ")
            else:
                assert f"Told: {told}." in turn.thinking


def test_no_conversation_tells_two_things_that_a_question_could_mean() -> None:
    for seed in range(400):
        talk = conversation(Source(Random(seed)), Difficulty(16, 16))
        replies: dict[str, str] = {}
        for turn in talk.turns:
            if turn.sort.startswith(("tell", "correct", "change", "half")):
                replies = {}
            elif turn.sort.startswith("ask ") and not turn.cut and turn.sort != "ask two":
                asked = re.sub(r"\W", "", turn.user.lower())
                assert replies.setdefault(asked, turn.reply) == turn.reply


def test_a_list_has_what_was_put_on_it() -> None:
    counted = 0
    for seed in range(400):
        desk = Desk(Source(Random(seed)))
        typed = " ".join(turn.user for turn in desk.tell_passage("list"))
        for _ in range(2):
            change = desk.record(desk.change_passage("list"))
            typed += f" {change.user}" if change.sort == "change list" else ""
        passage = desk.told[-1]
        assert isinstance(passage, Passage)
        assert isinstance(passage.state, ListState)
        items = passage.state.items
        for _ in range(6):
            turn = desk.record(desk.ask_passage("list"))
            assert all(item.lower() in typed.lower() for item in items)
            if turn.thinking.startswith("Asked: how many"):
                assert f" {len(items)} " in f" {turn.reply} "
                counted += 1
            elif turn.thinking.startswith("Asked: whether"):
                thing = turn.thinking.removeprefix("Asked: whether ").split(". Told")[0].lower()
                listed = any(re.search(rf"(^| ){re.escape(item.lower())}( |$)", thing) for item in items)
                assert turn.reply.startswith("Yes, " if listed else "No, ")
    assert counted > 100


def test_the_one_who_is_more_is_the_one_of_whom_that_was_said() -> None:
    asked = 0
    for seed in range(400):
        _, passage, questions = talk(seed, "compare")
        above: set[tuple[str, str, str]] = set()
        for _, claim in passage.pieces:
            if match := re.fullmatch(r"(.+) is (\w+) than (.+)", claim):
                above |= {match.groups(), (match[3], OPPOSITE[match[2]], match[1])}  # type: ignore[arg-type]
        for _ in range(2):
            above |= {(a, more, d) for a, more, b in above for c, same, d in above if (b, more) == (c, same)}
        above = {tuple(fill(part, **passage.slots).lower() for part in each) for each in above}  # type: ignore[misc]
        for turn, _ in questions:
            reply = turn.reply.lower()
            if above and (match := re.fullmatch(r"(?:yes, |no, |)(.+) is (\w+er) than (.+)\.", reply)):
                assert match.groups() in above
                asked += 1
            if above and (match := re.fullmatch(r"(.+) is the (\w+)est\.", reply)):
                others = {someone for someone, _, _ in above} - {match[1]}
                assert {(match[1], f"{match[2]}er", other) for other in others} <= above
                asked += 1
    assert asked > 300


OPPOSITE = dict(
    pair
    for a, b in (
        ("taller", "shorter"),
        ("older", "younger"),
        ("faster", "slower"),
        ("stronger", "weaker"),
        ("richer", "poorer"),
        ("louder", "quieter"),
        ("bigger", "smaller"),
        ("heavier", "lighter"),
        ("happier", "sadder"),
    )
    for pair in ((a, b), (b, a))
)


def test_kinship_keeps_sexes_and_generations() -> None:
    women = ("mother", "sister", "daughter", "wife", "aunt", "niece")
    women += ("grandmother", "granddaughter", "mother-in-law", "sister-in-law")
    level = {
        "father": 1,
        "mother": 1,
        "sister": 0,
        "brother": 0,
        "son": -1,
        "daughter": -1,
        "wife": 0,
        "husband": 0,
    }
    level |= {
        "uncle": 1,
        "aunt": 1,
        "nephew": -1,
        "niece": -1,
        "cousin": 0,
        "grandfather": 2,
        "grandmother": 2,
    }
    level |= {"grandson": -2, "granddaughter": -2, "father-in-law": 1, "mother-in-law": 1}
    level |= {"sister-in-law": 0, "brother-in-law": 0}
    for (outer, inner), result in CHAINS.items():
        assert level[outer] + level[inner] == level[result]
        assert result == "cousin" or (outer in women) == (result in women)


def test_what_is_not_so_is_answered_with_no() -> None:
    denied = 0
    for seed in range(300):
        _, passage, asked = talk(seed, "not")
        for turn, told in asked:
            if turn.thinking.startswith("Asked: whether") and turn.sort != "unknown":
                assert turn.reply.startswith("No, " if told == "no" else "Yes, ")
                # A denial repeats words of the telling that stand after a "not".
                if told == "no":
                    denied += 1
                    assert re.search(r"\b(not|cannot|no)\b", passage.claims())
                    assert re.search(r"\b(not|cannot)\b", turn.reply)
    assert denied > 200


def test_the_latest_word_on_an_appointment_counts() -> None:
    changed = 0
    for seed in range(300):
        desk = Desk(Source(Random(seed)))
        (told,) = desk.tell_passage("appointment")
        change = desk.record(desk.change_passage("appointment"))
        if change.sort != "change appointment":
            continue
        changed += 1
        after = re.split(r" is ", change.reply.rstrip("."), maxsplit=1)[1]
        assert after not in told.reply
        for _ in range(4):
            turn = desk.record(desk.ask_passage("appointment"))
            if turn.sort != "unknown":
                said = re.split(" is | leaves ", turn.reply.rstrip("."), maxsplit=1)[1]
                assert said in after or all(word in after for word in said.split())
    assert changed > 100


def test_a_conversation_that_ends_with_a_family_is_about_it() -> None:
    for family in FAMILIES:
        ends = [conversation(Source(Random(seed)), Difficulty(8, 8), family).turns[-1] for seed in range(60)]
        kinds = {f"tell {family}", f"ask {family}", f"change {family}"}
        assert sum(turn.sort in kinds for turn in ends) > 45


def test_a_question_for_a_reason_is_answered_by_what_stood_after_because() -> None:
    reasons, left_out = 0, 0
    for seed in range(3000):
        talk = conversation(Source(Random(seed)), Difficulty(8, 8))
        for number, turn in enumerate(talk.turns):
            if turn.sort == "ask event" and turn.thinking.startswith("Asked: why "):
                reason = turn.thinking.split("Told: ")[1].rstrip(".").lower()
                # Slips of typing may be in it; what was repeated has none.
                assert any(
                    reason in f"{earlier.user} {earlier.reply}".lower() for earlier in talk.turns[:number]
                )
                assert turn.reply.lower().endswith(f"because {reason}.")
                reasons += 1
            if turn.sort == "unknown" and turn.thinking.startswith("Asked: why "):
                what = turn.thinking.removeprefix("Asked: why ").removesuffix(". Not told.")
                assert not any(f"{what} because" in earlier.reply for earlier in talk.turns[:number])
                left_out += 1
    assert reasons > 10
    assert left_out > 10


def test_how_many_is_the_number_that_stood_before_the_thing() -> None:
    numbers = 0
    for seed in range(300):
        turns, _, asked = talk(seed, "numbers")
        told = " ".join(turn.user for turn in turns).lower()
        for turn, value in asked:
            if turn.sort != "unknown" and turn.thinking.startswith("Asked: how many "):
                thing = turn.thinking.removeprefix("Asked: how many ").split(" you ")[0].lower()
                said = f" {value} {thing[0]}".lower()
                assert said in told
                assert said in turn.reply.lower()
                numbers += 1
    assert numbers > 200


def test_all_that_is_known_is_said_once_in_the_order_in_which_it_was_told() -> None:
    several = 0
    for seed in range(300):
        desk = Desk(Source(Random(seed)))
        for _ in range(2):
            desk.record(desk.tell(2))
            desk.tell_passage()
        turn = desk.record(desk.know())
        if turn.sort != "know":
            continue
        places = []
        for fact in desk.told[:6]:
            says = (fact.claims() if isinstance(fact, Passage) else value_text(fact).split(" ")[0]).lower()
            assert says.replace("my", "your") in turn.reply.lower().replace("my", "your")
            if isinstance(fact, Passage):
                assert turn.reply.lower().count(says) == 1
                places.append(turn.reply.lower().find(says))
                several += 1
        assert sorted(places) == places
    assert several > 300
