"""Generates whole conversations from turns, reproducibly from a seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from training.pocket import words as w
from training.pocket.advert import says_advert
from training.pocket.beside import BESIDE
from training.pocket.clauses import composed
from training.pocket.facts import noun
from training.pocket.lists import roster
from training.pocket.notes import noted
from training.pocket.passages import content
from training.pocket.people import Deed
from training.pocket.phrases import capital
from training.pocket.problems import problem
from training.pocket.reworded import GENERAL, STRICT, SUMS, reworded
from training.pocket.said_back import acknowledged
from training.pocket.scenes import CHANGES, FAMILIES
from training.pocket.slips import slipped, words_of
from training.pocket.sums import with_number
from training.pocket.turns import MAKERS, TELLING, Desk, Known, Turn, looking_back, value_text
from training.pocket.values import Source, thing
from training.pocket.written import Written, library, rendered, stands_alone, words

DURING = {
    "tell": 34,
    "ask": 27,
    "unknown": 3,
    "half": 0.5,
    "correct": 6,
    "who": 1.5,
    "about": 1,
    "kin": 0.7,
    "know": 1,
    "quote": 1,
    "chatter": 1.2,
    "both": 1.5,
    "beside": 50,
    "told beside": 3,
    "passage": 6,
    "ask passage": 5,
    "change": 2,
}
LAST = {
    "tell": 14,
    "ask": 40,
    "unknown": 4,
    "half": 1,
    "correct": 7,
    "who": 2.5,
    "about": 2,
    "kin": 1.5,
    "know": 5,
    "quote": 2.5,
    "chatter": 0.5,
    "both": 1.5,
    "beside": 60,
    "told beside": 2,
    "sum": 10,
    "story": 5,
    "list": 6,
    "not": 6.5,
    "compare": 4,
    "kinship": 4,
    "it": 5,
    "numbers": 4.5,
    "roles": 5,
    "event": 5,
    "appointment": 5,
    "former": 4,
    "labels": 4,
}
# How a long one ends.
LATE = {
    "ask": 40,
    "unknown": 3,
    "half": 0.5,
    "correct": 3,
    "who": 2,
    "about": 1.5,
    "kin": 1.5,
    "know": 0.5,
    "quote": 0.5,
    "both": 1,
    "ask passage": 6,
    "beside": 5,
}
# The share of common words that a conversation's user slips on; most never do.
SLIPS = (0.0, 0.0, 0.0, 0.0, 0.0, 0.02, 0.05, 0.15, 0.35)
# The shares of dialogues that are no one's, but composed, among those written by hand.
COMPOSED_SHARES: tuple[tuple[float, Callable[[Random], Written]], ...] = (
    (0.22, composed),
    (0.06, problem),
    (0.05, noted),
    (0.06, roster),
)
# What is said in these may be put in other words: replies are set, and repeat a slot at most.
SET_REPLIES = ("help", "open", "talk", "self")
SUM_SORTS = ("sum", "mixed sum", "times")
# The share of conversations by hand that end with a question for the first or the last message.
LOOKING_BACK = 0.05
# The share of those in which a number was told that end with a sum of it.
SUMMING = 0.05
WHOLE = re.compile(r"(?<![\w.,:/+-])[1-9]\d{1,3}(?![\w:/-]|[.,]\d)")
BESIDE_WEIGHTS = {kind: weight for kind, (weight, _) in BESIDE.items()}


def beside(desk: Desk, kind: str = "") -> Turn:
    """A turn about nothing that was told."""
    _, maker = BESIDE[kind or pick(desk.rng, BESIDE_WEIGHTS)]
    places = [fact.value for fact in desk.told if isinstance(fact, Deed) and fact.kind.values == "place"]
    desk.source.near = tuple(places)
    turn = maker(desk.source, desk.advert)
    if not desk.source.held and turn.sort.startswith((*SET_REPLIES, *SUM_SORTS)):
        groups = SUMS if turn.sort.startswith(SUM_SORTS) else GENERAL
        user = reworded(desk.rng, turn.user, words_of(turn.reply), groups)
        turn = replace(turn, user=user, meant=user)
    return desk.record(turn)


def told_beside(desk: Desk) -> Turn:
    """Something told, with a question or a word that is answered alone: "I'm Ada, a nurse. What are you?"."""
    tell = desk.tell(1)
    turn = beside(desk, desk.rng.choice(("help", "self", "self", "talk", "open")))
    user = tell.user.rstrip(".!") + desk.rng.choice((", ", ". ", ". ", ". ", "! ")) + turn.user
    desk.said[-2:] = [user]
    return replace(turn, user=user, meant=user, told=tell.user)


def told_number(turns: list[Turn]) -> int | None:
    """A number of two to four digits in what was said last, if there is one."""
    found = [match for turn in turns[-6:] for match in WHOLE.findall(turn.user)]
    return int(found[-1]) if found else None


def aside(desk: Desk, turns: list[Turn]) -> Turn:
    """A turn about nothing that was told, though it may be a sum with a number that was."""
    known = told_number(turns)
    if known is not None and desk.rng.random() < 0.2:
        return desk.record(with_number(desk.source, known))
    return beside(desk)


# Under these names evaluate.py asks for what is said beside facts.
NAMED = {
    "sum": "sum",
    "story": "story sum",
    "beyond": "open",
    "command": "help",
    "self": "self",
    "talk": "talk",
}
MAKERS["beside"] = beside
MAKERS["told beside"] = told_beside
MAKERS |= {"ask passage": Desk.ask_passage, "change": Desk.change_passage}
MAKERS.update({name: partial(beside, kind=kind) for name, kind in NAMED.items()})
SHORT = (
    "You are a helpful assistant.",
    "Be brief.",
    "Answer in short sentences.",
    "You are kind.",
    "You are a friendly chat bot.",
    "Answer politely.",
    "Think before you answer.",
    "Be honest.",
    "You are pocket.",
    "Keep answers short and clear.",
    "Use plain English.",
    "Never lie.",
)
RULES = (
    "Always {verb} the {thing} before you {verb} the {other}.",
    "The {thing} must not {verb}.",
    "If the user talks about the {thing}, {verb} politely.",
    "Never {verb} the {thing} without the {other}.",
    "Rule {number}: {verb} every {thing} and {other}.",
    "You may {verb} a {thing} when it is ready.",
    "The handbook says that a {thing} is better than a {other}.",
    "Answers should {verb} the {thing}.",
    "Our {thing} opens at nine and the {other} closes at five.",
    "Use the {thing} to {verb} the {other}.",
    "Most people {verb} a {thing} twice a day.",
    "Keep the {thing} away from the {other}.",
)
VERBS = """
check open close read write bring carry clean move count watch mention describe greet polish sort
fold measure mark pack repair return send sign start stop test update wash weigh wrap
""".split()


@dataclass
class Conversation:
    """A system prompt, or none, and turns in order."""

    system: str | None
    turns: list[Turn]


@dataclass(frozen=True)
class Difficulty:
    """How long conversations may get."""

    turns: int = 24
    facts: int = 30
    least: int = 1

    @property
    def long(self) -> bool:
        """Whether much is told and said first, and many questions end it."""
        return self.least > 1


LONG = Difficulty(90, 60, least=20)


def system_prompt(rng: Random) -> str | None:
    """None mostly, else a short one, else a long one that has nothing to do with the talk."""
    chance = rng.random()
    if chance < 0.6:
        return None
    if chance < 0.8:
        return " ".join(rng.sample(SHORT, rng.randint(1, 3)))
    return rules(rng, rng.choice([2, 4, 8, 8, 16, 30]))


def rules(rng: Random, count: int) -> str:
    """Sentences of rules that mean nothing."""
    lines = [rng.choice(SHORT)]
    for i in range(count):
        line = rng.choice(RULES)
        lines.append(
            line.format(verb=rng.choice(VERBS), thing=thing(rng), other=rng.choice(w.NOUNS), number=i + 1)
        )
        if rng.random() < 0.05:
            lines.append(capital(f"{noun(rng).replace('my ', 'the ')} is old."))
    return rng.choice([" ", " ", "\n"]).join(lines)


def pick(rng: Random, weights: dict[str, float]) -> str:
    """A kind of turn."""
    return rng.choices(list(weights), list(weights.values()))[0]


def conversation(source: Source, difficulty: Difficulty, last: str | None = None) -> Conversation:
    """A conversation whose last turn is of the wanted kind, or of any; a long one has many of those."""
    rng = source.rng
    desk = Desk(source)
    turns: list[Turn] = []
    last = last or ("ask" if difficulty.long else pick(rng, LAST))
    early = last in ("ask", "correct", "half", "both")
    most = difficulty.turns if last in ("ask", "unknown", "half", "tell") else min(8, difficulty.turns)
    length = min(rng.randint(1, most), rng.randint(1, most) + 2)
    slips = rng.choice(SLIPS)
    chatty = 0.0
    if difficulty.long:
        chatty = rng.choice([0.0, 0.0, 0.1, 0.5, 0.8])
        if chatty > 0.3:
            difficulty = Difficulty(24, difficulty.facts, 6)
        length = rng.randint(difficulty.least, difficulty.turns)

    def say(maker: Callable[[Desk], Turn]) -> Turn:
        known = list(desk.told)
        turn = desk.record(maker(desk))
        if turn.sort.startswith(("ask", "unknown")) and not source.held:
            turn = asked_otherwise(desk, turn)
        if turn.sort in ("tell", "tell more") and not source.held:
            turn = told_otherwise(desk, turn)
        if turn.sort.startswith(("ask", "unknown", "talk", "self", "help")) and rng.random() < 0.01:
            return retyped(desk, turn, turn.user.upper())
        return slip(desk, turn, slips, known) if slips else turn

    def passage(family: str) -> list[Turn]:
        known = list(desk.told)
        told = desk.tell_passage(family)
        return [slip(desk, turn, slips, known) for turn in told] if slips else told

    def near(family: str) -> list[Turn]:
        """What follows a passage at once, if anything: changes and questions."""
        found: list[Turn] = []
        while rng.random() < 0.45:
            changes = rng.random() < 0.35 and (not family or family in CHANGES)
            found.append(say(partial(Desk.change_passage if changes else Desk.ask_passage, family=family)))
        return found

    told_at = rng.randrange(length) if last in FAMILIES else -1
    for number in range(length - 1):
        if number == told_at:
            turns += passage(last)
            continue
        begin = early and number < rng.choice([1, 1, 2, 3])
        full = len(desk.told) >= difficulty.facts
        kind = "tell" if begin else pick(rng, DURING)
        kind = "ask" if full and kind in ("tell", "both", "passage") else kind
        if difficulty.long and not begin and rng.random() < chatty:
            turns.append(cut(rng, desk.record(desk.chatter(rng.randint(5, 60)))))
        elif kind == "passage":
            turns += [cut(rng, turn) for turn in passage("")] + near("")
        else:
            turns.append(cut(rng, say(MAKERS[kind])))
    if last in ("ask", "correct", "half") and not desk.told:
        turns.append(say(partial(Desk.tell, most=min(4, difficulty.facts))))
    if last in FAMILIES:
        fresh = passage(last) if told_at == length - 1 else []
        turns += fresh + near(last)
        chance = rng.random()
        if not fresh or chance > 0.15:
            changes = chance < 0.3 and last in CHANGES
            turns.append(say(partial(Desk.change_passage if changes else Desk.ask_passage, family=last)))
    elif last == "correct":
        # What is put right in a word was told in the message before.
        turns += [say(partial(Desk.tell, most=2))] if rng.random() < 0.6 else []
        turns.append(say(MAKERS[last]))
    else:
        turns.append(say(MAKERS[last]))
    if difficulty.long:
        turns += [say(MAKERS[pick(rng, LATE)]) for _ in range(rng.randint(2, 20))]
    return Conversation(system_prompt(rng) if difficulty.turns > 4 else None, turns)


def asked_otherwise(desk: Desk, turn: Turn) -> Turn:
    """The question in other words, none of which was said of something else."""
    user = in_other_words(desk, turn.user)
    return replace(retyped(desk, turn, user), meant=user)


def told_otherwise(desk: Desk, turn: Turn) -> Turn:
    """What is told in other words, none of which was said of something else, and said back in them."""
    user = in_other_words(desk, turn.user)
    if user == turn.user:
        return turn
    thinking, reply = acknowledged(user, turn.thinking, turn.reply)
    return replace(retyped(desk, turn, user), meant=user, thinking=thinking, reply=reply)


def in_other_words(desk: Desk, text: str) -> str:
    """A message with some words exchanged, but for values; as it is where one was said of something else."""
    values = words_of(" ".join(map(value_text, desk.told)))
    return reworded(desk.rng, text, values, STRICT, content(" ".join(desk.said)))


# What is typed there is noise already, or must be repeated as it is.
EXACT = ("noise", "code", "data", "link", "long", "chatter", "language", "emoji", "key", "bare number")


def slip(desk: Desk, turn: Turn, rate: float, known: list[Known]) -> Turn:
    """The turn as a hasty hand types it; what it tells and what it wants repeated stay as they are."""
    if turn.sort.startswith(EXACT):
        return turn
    values = [fact for fact in desk.told if all(fact is not other for other in known)]
    text = " ".join(map(value_text, values))
    if not values and not turn.sort.startswith(("ask", "unknown", "know", "who", "quote")):
        text = turn.reply
    user = slipped(desk.rng, turn.user, rate, words_of(text))
    return retyped(desk, turn, user)


def retyped(desk: Desk, turn: Turn, user: str) -> Turn:
    """The turn with its message typed otherwise, which is what the desk quotes then."""
    if desk.said and desk.said[-1] is turn.user:
        desk.said[-1] = user
    return replace(turn, user=user)


def cut(rng: Random, turn: Turn) -> Turn:
    """The turn, its reply now and then empty or broken off."""
    if rng.random() > 0.025 or not turn.reply:
        return turn
    reply = turn.reply[: rng.choice([0, rng.randrange(len(turn.reply))])].rstrip()
    return replace(turn, reply=reply, cut=True)


def drawn_dialogues(rng: Random, count: int) -> Iterator[Written]:
    """Dialogues that were written by hand, composed ones, word problems, notes and lists among them."""
    dialogues, weights = library()
    for written in rng.choices(dialogues, cum_weights=weights, k=count):
        chance = rng.random()
        for share, compose in COMPOSED_SHARES:
            chance -= share
            if chance < 0:
                yield compose(rng)
                break
        else:
            yield written


def by_hand(source: Source, difficulty: Difficulty) -> Conversation:
    """A conversation of dialogues that were written by hand, with generated talk before and between them."""
    rng = source.rng
    desk = Desk(source)
    slips = rng.choice(SLIPS)
    if difficulty.long:
        return Conversation(system_prompt(rng), mingled(source, desk, slips, rng.randint(8, 30), 20))
    if rng.random() < 0.25:
        short = mingled(source, desk, slips, rng.randint(3, 10), 10)
        return Conversation(system_prompt(rng), ended(source, short))
    turns: list[Turn] = []
    used: frozenset[str] = frozenset()
    for number in range(rng.choice([1, 1, 2, 2, 3, 4])):
        (dialogue,) = drawn_dialogues(rng, 1)
        if dialogue.alone and number:
            continue
        told = rendered(source, dialogue, slips, reword=True)
        if used & words(told) and (dialogue.tells or dialogue.lacks):
            continue
        if not number and not dialogue.alone and rng.random() < 0.4:
            before = conversation(source, difficulty).turns[: rng.randint(1, 8)]
            free = not dialogue.lacks and not any(words(told) & content(turn.user) for turn in before)
            turns += before if free else []
            used |= frozenset().union(*(content(turn.user) for turn in turns))
            desk.advert = not any(says_advert(turn.reply) for turn in turns)
        used |= words(told)
        for place, (exchange, turn) in enumerate(told):
            if place and exchange.asks and not exchange.bound and not dialogue.alone:
                while rng.random() < 0.15:
                    turns.append(cut(rng, aside(desk, turns)))
            turns.append(desk.record(turn))
        if dialogue.alone or len(turns) >= difficulty.turns:
            break
    return Conversation(system_prompt(rng) if rng.random() < 0.5 else None, ended(source, turns))


def mingled(source: Source, desk: Desk, slips: float, most: int, asked: int) -> list[Turn]:
    """At `most` so many dialogues by hand one after the other, no two of which share a word.

    Much is asked late; 2 to `asked` questions at the end.
    """
    rng = source.rng
    turns: list[Turn] = []
    used: frozenset[str] = frozenset()
    late: list[Turn] = []
    beside_them = rng.choice((0.1, 0.1, 0.2, 0.4))
    taken = 0
    for dialogue in drawn_dialogues(rng, 4 * most):
        if taken == most:
            break
        if dialogue.alone or (not dialogue.tells and rng.random() < 0.5):
            continue
        told = rendered(source, dialogue, slips, reword=True)
        own = words(told)
        if used & own:
            continue
        used |= own
        taken += 1
        # What is asked once all is told may be asked at any time after it.
        end = max((place for place, (each, _) in enumerate(told) if not each.asks), default=-1)
        known = frozenset().union(*(content(turn.reply) for each, turn in told if not each.asks))
        for place, (exchange, turn) in enumerate(told):
            if place > end and stands_alone(exchange, turn, known) and rng.random() < 0.8:
                late.append(turn)
            else:
                turns.append(desk.record(turn))
            # What is told after a change need not change anything.
            if turns and turns[-1].sort == "written changed" and rng.random() < 0.3:
                fresh = rendered(source, composed(rng), slips)[:1]
                if not fresh[0][0].asks and not used & words(fresh):
                    used |= words(fresh)
                    turns.append(desk.record(fresh[0][1]))
        while rng.random() < beside_them:
            turns.append(aside(desk, turns))
        while late and rng.random() < 0.15:
            turns.append(desk.record(late.pop(rng.randrange(len(late)))))
    rng.shuffle(late)
    return turns + [desk.record(turn) for turn in late[: rng.randint(2, asked)]]


def ended(source: Source, turns: list[Turn]) -> list[Turn]:
    """Turns up to one of those written by hand, mostly a question; now and then the user looks back then."""
    rng = source.rng
    ends = [place for place, turn in enumerate(turns) if turn.sort.startswith("written")]
    asked = ("written ask", "written unknown")
    chances = [place + 1 if turns[place].sort.startswith(asked) else 0.7 * (place + 1) for place in ends]
    turns = turns[: rng.choices(ends, chances)[0] + 1]
    if rng.random() < LOOKING_BACK:
        telling = max((i for i, turn in enumerate(turns) if turn.sort.startswith(TELLING)), default=-1)
        back = looking_back(source, [turn.user for turn in turns], telling, rng.random() < 0.5)
        turns += [back] if back else []
    elif (known := told_number(turns)) is not None and rng.random() < SUMMING:
        turns.append(with_number(source, known))
    return [cut(rng, turn) for turn in turns[:-1]] + turns[-1:]
