"""Turns a clause that the user says of themselves into the same clause about you or anyone else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

PAST = frozenset(
    """
    was had did moved grew met saw called visited bought got lost broke forgot sold parked left ate
    married turned started booked planned ordered watched went came put spent took gave told made
    chose adopted found named kept hid built wrote won lent borrowed planted painted
    became began brought drew ran said sat stood wed blew drove dug fought learnt
    """.split()
)
MODALS = frozenset("can cannot can't will would could should must mustn't may might ought used".split())
ADVERBS = frozenset(
    """
    just recently really always usually also still now first originally actually only currently often
    sometimes finally already secretly absolutely totally mostly mainly rarely once never no longer
    """.split()
)
IRREGULAR = {"have": "has", "am": "is", "are": "is", "do": "does", "don't": "doesn't", "go": "goes"}
# What stands before the subject of a question, and its third person where that is another word.
INVERTED = {
    **dict.fromkeys(
        ("was", "did", "can", "can't", "cannot", "will", "should", "shouldn't", "must", "could"), ""
    ),
    **{"would": "", "am": "is", "are": "is", "were": "was", "do": "does", "don't": "doesn't", "have": "has"},
}
ME = {
    "I": "you",
    "i": "you",
    "am": "are",
    "my": "your",
    "My": "Your",
    "me": "you",
    "mine": "yours",
    "myself": "yourself",
    "our": "your",
    "we": "you",
    "us": "you",
}
WORD = re.compile(r"\w+(?:'[a-z]+)?|\[[a-z]+\]|[^\w\[]+|\[")


@dataclass(frozen=True)
class Person:
    """Somebody's grammar: subject, possessive, and the pronouns that stand for them afterwards."""

    subject: str
    possessive: str
    pronoun: str = "they"
    pronoun_possessive: str = "their"
    pronoun_object: str = "them"


REFLEXIVE = {"her": "herself", "him": "himself", "it": "itself", "them": "themselves"}
PRONOUNS = {"she": ("her", "her"), "he": ("his", "him"), "it": ("its", "it"), "they": ("their", "them")}


def someone(subject: str, pronoun: str) -> Person:
    """A Person of a noun phrase and "she", "he", "it" or "they"."""
    possessive, obj = PRONOUNS[pronoun]
    return Person(subject, genitive(subject), pronoun, possessive, obj)


def genitive(noun: str) -> str:
    """ "Anna" is "Anna's"."""
    return f"{noun}'s"


def singular(verb: str) -> str:
    """The third person of a verb: "live" is "lives"."""
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


@lru_cache(50_000)
def pieces(text: str) -> tuple[str, ...]:
    """Words, slots and what is between them; "I'm" and "I've" opened."""
    text = re.sub(r"\b(I|you)'(m|re)\b", r"\1 am", text)
    text = re.sub(r"\b(I|you)'ve\b", r"\1 have", text)
    return tuple(WORD.findall(re.sub(r"\b(I|you)'d\b", r"\1 would", text)))


@lru_cache(100_000)
def third(text: str) -> str:
    """A clause of "I" or "you" with {S}, {P}, {s}, {p}, {o} and {r} where another's words belong.

    The first mention is {S} or {P}; later ones are the pronouns {s}, {p}, {o} and {r}, "herself".
    """
    parts = list(pieces(text))
    words = [i for i, part in enumerate(parts) if part[0].isalpha()]
    named = False
    out = list(parts)
    for at, i in enumerate(words):
        word = parts[i]
        if word in ("I", "you") and not (word == "you" and "I" in parts):
            out[i] = "{s}" if named else "{S}"
            named = True
            before = parts[words[at - 1]] if at else ""
            if before.lower() in INVERTED:
                out[words[at - 1]] = INVERTED[before.lower()] or before
                if before[:1].isupper():
                    out[words[at - 1]] = out[words[at - 1]].capitalize()
            else:
                conjugate(parts, out, words[at + 1 :])
        elif word in ("my", "your", "My", "Your") and not (word.lower() == "your" and "my" in parts):
            out[i] = "{p}" if named else "{P}"
            named = True
        elif word in ("me", "myself") and named:
            out[i] = "{o}" if word == "me" else "{r}"
        elif word == "mine" and not named:
            out[i] = "{P}"
            named = True
        elif word == "me" and not {"I", "my", "My", "you"}.intersection(parts):
            out[i] = "{S}"
            named = True
    return "".join(out)


def conjugate(parts: list[str], out: list[str], following: list[int]) -> None:
    """Put the verb among the words that follow a subject in the third person."""
    for i in following:
        word = parts[i]
        if word.lower() in ADVERBS:
            continue
        if word == "were":
            out[i] = "was"
        elif word not in PAST and word not in MODALS and (word == "need" or not word.endswith("ed")):
            out[i] = singular(word)
        return


def about(text: str, person: Person) -> str:
    """A first- or second-person clause, said of a person."""
    form = third(text)
    if "{" not in form:
        return text
    form = form.replace("{S}", person.subject).replace("{P}", person.possessive)
    form = form.replace("{s}", person.pronoun).replace("{p}", person.pronoun_possessive)
    return form.replace("{o}", person.pronoun_object).replace("{r}", REFLEXIVE[person.pronoun_object])


@lru_cache(100_000)
def yours(text: str) -> str:
    """What the user says of themselves, as said to them: "I keep my bees" is "you keep your bees"."""
    out: list[str] = []
    parts = pieces(text)
    for i, part in enumerate(parts):
        # "me" in an address or a code is no pronoun.
        if (i and parts[i - 1][-1] not in " (") or (i + 1 < len(parts) and parts[i + 1][0] not in " ,.;:!?)"):
            out.append(part)
            continue
        after_you = out[-2:-1] == ["you"]
        if part == "was" and after_you:
            out.append("were")
        else:
            # "at 12 am" is no verb.
            out.append(part if part == "am" and not after_you and out else ME.get(part, part))
    return "".join(out)
