"""Grounds thinking in what was said: first the question and the closest clause, word for word.

A tiny model that puts a question in its own words asks another one, and one that must say at once whether
something was told says too often that it was not. Here both are copied, as what is told is
(`said_back.py`), and the answer is found in a clause beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, compress
from random import Random
from zlib import crc32

from training.pocket.passages import content
from training.pocket.phrases import words_in
from training.pocket.said_back import (
    COMMON,
    OPENING,
    SENTENCES,
    THINKING,
    bare,
    said_back,
    too_long,
    turned,
)
from training.pocket.turns import Turn

THOUGHT = re.compile(r"Asked: (?P<question>.+?)\. (?P<found>Told: .+|Not told\.)", re.DOTALL)
TWO = re.compile(
    r"Asked: ([^.]+)\. (?:Told: (.+)|Not told)\. Asked: ([^.]+)\. (?:Told: (.+)|Not told)\.", re.DOTALL
)
EVERYTHING = "Asked: all that I was told."
ALL = re.compile(r"Asked: (all that I was told|everything (you told me|I was told|that I was told))\b")
# What is asked of pocket before the question itself, and after it.
LEAD = re.compile(
    r"\A(?:(?:"
    r"(?:can|could|would|will|do) (?:you|u) (?:(?:please|still|also) )?"
    r"(?:remember|recall|know|remind me|tell me|say)|"
    r"(?:(?:please|pls|now) )?(?:remind me|tell me|say)|(?:(?:do )?(?:you|u) )?(?:remember|know)|"
    r"(?:(?:quick|one|one more|another|last|small|next) )?question|quiz(?: time)?|pop quiz|(?:ok )?test|"
    r"pocket|i forgot|i forget|i wonder)(?: again| once more| please| pls)?(?:\s*[,!.:;?–—-]+\s*|\s+))+",
    re.IGNORECASE,
)
TAIL = re.compile(
    r"(?:[\s.!?,;:…)(]+|,? (?:please|pls|again|then|remember|do you (?:remember|know|recall)|pocket|lol|"
    r"haha|btw|by the way|exactly|(?:that )?I (?:told|said|mentioned)(?: to)?(?: you| u)?|"
    r"did I (?:say|tell you|mention)))+\Z",
    re.IGNORECASE,
)
# A question with one of these needs what came before it, so that its thinking says it in full.
PRONOUN = re.compile(
    r"\b(he|she|it|its|he's|she's|it's|his|her|hers|him|they|they're|them|their|theirs|this|these|those|there|"
    r"one|ones|other|both|same|else|former|latter)\b",
    re.IGNORECASE,
)
# What stands for nothing that was said.
EXPLETIVE = re.compile(
    r"\b(?:there(?= (?:is|are|was|were|any|some|something|anything|a|an|for|to)\b)|(?<=is )there|"
    r"(?<=are )there|(?:is|was) it (?:true|false|right|correct|wrong|a fact) that|(?<=is )it that|"
    r"(?<=was )it (?:that|who|which)|this (?:week|weekend|year|month|summer|winter|spring|autumn|morning|"
    r"evening|afternoon|time|chat|conversation)|"
    r"(?:something|somebody|anything|anyone|someone|everything|who|what) else|one day|one of (?:my|our|us)|"
    r"which one|no one|(?:at |on )?the other (?:day|week))\b",
    re.IGNORECASE,
)
# Pronouns, and whether they are possessive.
STANDS_FOR = {word: False for word in ("he", "she", "it", "they", "him", "them")} | {
    word: True for word in ("his", "her", "its", "their")
}
BETWEEN = frozenset(
    """
    is are was were be been am do does did has have had will would can could should whether what who whom
    whose when where why how which of to in at on for from with by about and or not that a an you now before
    first last called name names go goes
    """.split()
)
ASKING = frozenset(
    """
    what who whom whose when where why how which is are was were do does did have has had can could will
    would should am name any anything anyone
    """.split()
)
CLAUSE = re.compile(
    r"(?<=[^\d\s][.!;])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\bProf\.)\s+(?=\S)|;\s+|"
    r"(?:,|,? and) (?=(?:you|he|she|they|it|I) )|"
    r"(?:, and|,? but|,? while|,? because) (?=(?:you|your|he|she|they|his|her|their|it|its|the) )",
    re.IGNORECASE,
)
# How a message that puts something right begins, beside what it says.
AMENDING = re.compile(
    r"\A(?:(?:wait|hang on|hold on|(?:(?:I'm|im|I am) )?(?:(?:so|very|really) )?sorry|apologies|oops|ups|"
    r"whoops|actually|scratch that|strike that|my (?:mistake|bad)|"
    r"no(?= (?:wait|no|sorry|actually|hang|hold|I)\b)|I (?:was wrong|meant(?: to say)?|mean|changed my mind|"
    r"made an? (?:mistake|error)|(?:got|said) (?:it|that) wrong))\b(?:\s*[,!.:;…–—-]+\s*|\s+)|"
    r"(?:no|nope|not any ?more|correction|forget that|wrong|I (?:misspoke|apologi[sz]e|"
    r"mixed (?:it|that|them) up|(?:must )?correct myself)|let me correct (?:it|that|myself))"
    r"\s*[,!.:;…–—]+\s*)+(?=\S)",
    re.IGNORECASE,
)
# What is added to what was told; without it, it would take its place.
ADDING = re.compile(r"(?:oh,? )?(?:and|also|plus|add)\b", re.IGNORECASE)
AMENDED = re.compile(r"now: (?P<now>.+) \(before: (?P<before>.+)\)", re.DOTALL)
WHO = re.compile(r"(?:who|whose)\b", re.IGNORECASE)
SHE = re.compile(r"(?:he|she|it|they|his|her|its|their)\b", re.IGNORECASE)
NOT_TOLD = "You have not told me that yet."
FORGOTTEN = "I forget "
RETRACTED = re.compile(rf"\b({FORGOTTEN}.+)\Z", re.DOTALL)
ACKNOWLEDGED = re.compile(r"Got it(?:, (?=now: )|: )(.+)\Z", re.DOTALL)
SMALL = frozenset(
    """
    a an the is are was were be been of to at on in for by with it its you your he she they his her their
    him them now then first yes no not never that there and or but i my me
    """.split()
)
MOST_QUESTION, MOST_CLAUSE, MOST_CLAUSES, MOST_EVIDENCE, MOST_SUMMARY = 24, 32, 4, 48, 420


def grounded(turns: list[Turn], deep: int = 1) -> list[Turn]:
    """The turns, the thinking of the last `deep` ones with its question and the clauses closest to it."""
    first = len(turns) - deep
    said: list[Turn] = []
    for turn in turns:
        if turn.thinking.startswith("Changed: ") and not turn.cut:
            said.append(amended(said, turn))
        else:
            said.append(replace(turn, reply=NOT_TOLD) if is_unknown(turn) else turn)
    turns = said
    return [
        _grounded(turns[:place], turn) if place >= first or ALL.match(turn.thinking) else turn
        for place, turn in enumerate(turns)
    ]


def is_unknown(turn: Turn) -> bool:
    """Whether a turn asks one thing, which was never told, and its reply says what.

    To say it in a clause of its own is as hard as to sum up; the thinking has the question already.
    """
    match = THOUGHT.fullmatch(turn.thinking)
    unknown = match is not None and match["found"] == "Not told."
    return unknown and turn.reply.startswith("You have not told me ") and not turn.cut


def amended(before: list[Turn], turn: Turn) -> Turn:
    """A turn that changes what was told: said back word by word, beside the clause that it changes.

    That is one that shares a word with the new state of things, else the last of what was told just before.
    Where there is none, the turn tells something new.
    """
    topic, start = turn.thinking.removeprefix("Changed: "), turn.reply.partition("Got it")[0]
    change = AMENDING.sub("", bare(turn.meant), count=1)
    new = said_back(change)
    if new is not None and ADDING.match(change) and not ADDING.match(new):
        new = f"also {new}"
    told = [part for clause in told_in(before) for part in versions(clause)]
    # A list is named as it was told; what was swapped in it may share more words with it now.
    whole = words_in(turned(topic))
    old = next((each for each in told if words_in(each) == whole), "")
    old = old or nearest(told, f"{topic} {turn.reply}", 1) or "".join(told_in(before[-1:])[-1:])
    if new is None:
        return replace(turn, thinking=THINKING, reply=f"{start}Got it, I keep that in mind.")
    if not old:
        return replace(turn, thinking=THINKING, reply=f"{start}Got it: {new}.")
    return replace(turn, thinking=f"Changed: {old}.", reply=f"{start}Got it, now: {new} (before: {old}).")


def versions(clause: str) -> list[str]:
    """What a clause says now and what it said before, or the clause."""
    match = AMENDED.fullmatch(clause)
    return [match["before"], match["now"]] if match else [clause]


def replaced_by(clause: str) -> str:
    """The clause that a change replaces; empty for what is no change."""
    match = AMENDED.fullmatch(clause)
    return match["before"] if match else ""


def told_in(turns: list[Turn]) -> list[str]:
    """The clauses of turns, in order."""
    return [clause for each in turns for clause in clauses(each)]


def _grounded(before: list[Turn], turn: Turn) -> Turn:
    if ALL.match(turn.thinking) and turn.reply.startswith("You told me: "):
        return summary(before, turn)
    told = told_in(before)
    if match := re.fullmatch(r"Taken back: (.+)\.", turn.thinking, re.DOTALL):
        old = nearest(told, f"{match[1]} {turn.reply}")
        return replace(turn, thinking=f"Taken back: {old}.") if old else turn
    told += parted(turned(" ".join(told_and_asked(turn.meant)[0])))
    if match := TWO.fullmatch(turn.thinking):
        return replace(turn, thinking=_two(told, turn, match) or turn.thinking)
    match = THOUGHT.fullmatch(turn.thinking)
    if match is None or "Asked: " in match["found"] or match["question"].startswith(("all ", "everything ")):
        return turn
    question = match["question"]
    if not turn.bound:
        question = asked_back(turn.meant, question, told) or question
    close = closest(told, question, match["found"], f"{match['question']} {turn.reply}", own_of(before, turn))
    found = f"Closest: {close}. " if close else ""
    return replace(turn, thinking=f"Asked: {question}. {found}{match['found']}")


def own_of(before: list[Turn], turn: Turn) -> range:
    """Which of all clauses told are those of the message that told what a turn asks, if it is known."""
    if turn.place is None or turn.place >= len(before):
        return range(0)
    start = len(told_in(before[: turn.place]))
    return range(start, start + len(clauses(before[turn.place])))


def _two(told: list[str], turn: Turn, match: re.Match[str]) -> str | None:
    """The thinking of two questions in one message."""
    question = asked_back(turn.meant, whole=True)
    if question is None:
        return None
    parts = [(match[1], match[2]), (match[3], match[4])]
    close = [closest(told, meant, f"Told: {each}.", meant) for meant, each in parts if each]
    found = f"Closest: {'; '.join(dict.fromkeys(close))}. " if close and all(close) else ""
    return f"Asked: {question}. {found}Told: {'; '.join(each or 'not told' for _, each in parts)}."


def summary(before: list[Turn], turn: Turn) -> Turn:
    """The turn that asks for all that was told, answered by what was said back, in order.

    Where something was taken back it keeps its own reply.
    """
    turn = replace(turn, thinking=EVERYTHING)
    if any(RETRACTED.search(each.reply) for each in before if each.thinking.startswith("Taken back")):
        return turn
    told = [text for each in before if (text := acknowledged_in(each))]
    said = [each.rstrip(".") for each in told]
    # What was changed is said with its change.
    changed = [match["before"] for each in said if (match := AMENDED.fullmatch(each))]
    said = [each for each in said if each not in changed]
    fits = [total <= MOST_SUMMARY for total in accumulate(len(each) + 2 for each in said)]
    if not fits or not fits[0]:
        return turn
    more = "" if all(fits) else " And more."
    return replace(turn, reply=f"You told me: {'; '.join(compress(said, fits))}.{more}")


def acknowledged_in(turn: Turn) -> str | None:
    """What a turn was told, as it was said back, or would have been had nothing been asked with it."""
    if turn.told:
        return said_back(turn.told)
    match = ACKNOWLEDGED.search(turn.reply) if tells(turn) else None
    return match[1] if match else None


def tells(turn: Turn) -> bool:
    """Whether a turn only tells, or changes what was told."""
    return not turn.thinking.startswith("Asked")


def asked_back(text: str, full: str = "", told: Sequence[str] = (), whole: bool = False) -> str | None:
    """A question, the last of several or the whole of them, as it is said to who typed it.

    A pronoun becomes what the `full` question names instead, if that was `told`. None where it points to
    what came before all the same, or is long.
    """
    part = text.strip() if whole else told_and_asked(text)[1][-1]
    for _ in range(2):
        part = TAIL.sub("", LEAD.sub("", OPENING.sub("", part, count=1), count=1))
    words = part.split()
    if not words or len(words) > MOST_QUESTION or not content(part):
        return None
    if any(word.lower() not in words_in(full) for word in PRONOUN.findall(EXPLETIVE.sub("", part))):
        named = named_instead(part, full, told)
        if named is None:
            return None
        part = named
    first = re.split(r"[^a-z]", words[0].lower())[0]
    if first in ASKING or first in COMMON:
        part = part[:1].lower() + part[1:]
    return turned(part)


def told_and_asked(text: str) -> tuple[list[str], list[str]]:
    """The sentences of a message around its questions, and these; without a mark the last one asks."""
    sentences = [each for each in SENTENCES.split(text.strip()) if each] or [""]
    asking = [each for each in sentences if "?" in each] or sentences[-1:]
    return [each for each in sentences if each not in asking], asking


def named_instead(question: str, full: str, told: Sequence[str]) -> str | None:
    """The question with its one pronoun replaced by the person or thing that the full question names."""
    pronouns = PRONOUN.findall(question)
    if len(pronouns) != 1 or pronouns[0].lower() not in STANDS_FOR:
        return None
    typed = {word[:4] for word in words_in(question)}
    said = " ".join(told).lower()
    run: list[str] = []
    found: list[str] = []
    for token in [*re.findall(r"[^\s,]+", full), ""]:
        if token and token.lower() not in BETWEEN and token.lower().removesuffix("'s")[:4] not in typed:
            run.append(token)
            continue
        name = " ".join(run).removesuffix("'s")
        begins = name.startswith(("your ", "the ")) or name[:1].isupper() or not name[:1].isascii()
        if name and begins and len(run) < 6 and re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", said):
            found.append(name)
        run = []
    if len(found) != 1:
        return None
    name = f"{found[0]}'s" if STANDS_FOR[pronouns[0].lower()] else found[0]
    return PRONOUN.sub(lambda _: name, question)


def clauses(turn: Turn) -> tuple[str, ...]:
    """What a turn tells, clause by clause, as it was said back; nothing of what it asks."""
    if turn.told:
        return parted(said_back(turn.told) or turned(turn.told))
    if not tells(turn):
        return ()
    if match := RETRACTED.search(turn.reply):
        return (match[1].rstrip("."),)
    if match := ACKNOWLEDGED.search(turn.reply):
        said = match[1].rstrip(".")
        if AMENDED.fullmatch(said) and len(said.split()) <= MOST_CLAUSE:
            return (said,)
        return parted(said)
    if too_long(turn.user) or turn.cut or turn.thinking.startswith(("New", THINKING, "Changed")):
        return parted(turned(turn.user))
    return ()


@lru_cache(2000)
def parted(text: str) -> tuple[str, ...]:
    """The clauses of a text."""
    found = [part.strip().rstrip(".!;, ") for part in CLAUSE.split(text)]
    return tuple(part for part in found if part and len(part.split()) <= MOST_CLAUSE)


def needed(found: str) -> set[str]:
    """The words of an answer that its evidence must have."""
    told = found.removeprefix("Told: ").partition(". So ")[0]
    if re.search(r" 1[,.;]", told) and " 2" in told:
        told = re.sub(r" \d\b", "", told)
    return words_in(told) - SMALL


def closest(told: list[str], question: str, found: str, meant: str, own: range = range(0)) -> str:
    """The clauses that hold the answer, those of its `own` message first; else the nearest to what is meant.

    Where the answer was not told, one that is as near to the question as any.
    """
    if not told:
        return "nothing" if found.startswith("Not told") else ""
    if found.startswith("Not told"):
        near = overlaps(told, question)
        best = [clause for clause, score in zip(told, near, strict=True) if score == max(near)]
        best = [clause for clause in best if clause.startswith(FORGOTTEN)] or best
        return Random(crc32(f"{question} {len(told)}".encode())).choice(best)
    shared = overlaps(told, f"{meant} {question}")
    words = [words_in(clause) for clause in told]
    wanted = needed(found)
    left, chosen = set(wanted), list[int]()
    while left and len(chosen) < MOST_CLAUSES:
        first = not chosen
        place = max(
            range(len(told)),
            key=lambda i: (first and i in own and bool(left & words[i]), len(left & words[i]), shared[i], i),
        )
        if not left & words[place]:
            break
        if sum(len(told[i].split()) for i in [*chosen, place]) > MOST_EVIDENCE:
            break
        chosen.append(place)
        left -= words[place]
    if not chosen or len(left) > len(wanted) / 2:
        about = f"{meant} {question}"
        return nearest(told[own.start : own.stop], about, 1) or nearest(told, about)
    # Who it was may be named in one clause, and in that which tells it be "she".
    if WHO.match(question):
        meets = overlaps(told, question)
        she = max(
            (i for i in range(len(told)) if SHE.match(told[i])), key=lambda i: (meets[i], i), default=None
        )
        if she is not None and she not in chosen and meets[she] > max(1, *(meets[i] for i in chosen)):
            chosen.append(she)
    # What changed a chosen clause belongs to it, and so does what changed the same one.
    bases = {base for place in chosen for base in (told[place], replaced_by(told[place])) if base}
    chosen += [i for i, each in enumerate(told) if i not in chosen and replaced_by(each) in bases]
    return "; ".join(told[place] for place in sorted(chosen))


def nearest(told: list[str], text: str, least: int = 2) -> str:
    """The clause that shares most words with a text, the latest of several; none that shares too few."""
    shared = overlaps(told, text)
    place = max(range(len(told)), key=lambda i: (shared[i], i), default=0)
    return told[place] if told and shared[place] >= min(least, len(content(text)) - 1) else ""


def overlaps(told: list[str], text: str) -> list[int]:
    """How many words each clause shares with a text."""
    about = content(text)
    return [len(about & content(clause)) for clause in told]
