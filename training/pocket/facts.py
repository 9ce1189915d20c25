"""Draws facts, each with a thing and a value, and writes their sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.pocket import words as w
from training.pocket.kinds import (
    COMPOUND,
    DATE,
    DISH,
    EVENT,
    FAVOURITE,
    LIST,
    MANY,
    MEET,
    NUMBER,
    OPEN,
    PERSON,
    PET,
    PLACED,
    SHADE,
    WORD,
    Kind,
)
from training.pocket.phrases import capital, fill, framed, roughen, yours
from training.pocket.statements import PEOPLE_PLURAL, plural
from training.pocket.values import Source, invented, name, thing

KINDS: tuple[Kind, ...] = (
    OPEN,
    NUMBER,
    PET,
    PERSON,
    FAVOURITE,
    PLACED,
    EVENT,
    DATE,
    WORD,
    COMPOUND,
    SHADE,
    MANY,
    MEET,
    DISH,
    LIST,
)
WEIGHTS = [kind.weight for kind in KINDS]
MEALS = ("dinner", "lunch", "breakfast", "surgery")
SINGULAR_S = ("glass", "class", "bus", "dress", "address", "access", "boss", "compass", "gas")


def owner(rng: Random) -> str:
    """Whose a thing is: mostly "my"."""
    if rng.random() < 0.86:
        return "my"
    return rng.choice([f"my {rng.choice(w.PEOPLE)}'s", f"{name(rng)}'s", "our"])


def person(rng: Random) -> str:
    """Somebody, by relation, by name, or by both."""
    if rng.random() < 0.12:
        return f"my {rng.choice(w.PEOPLE)} {rng.choice([name(rng).split()[0], rng.choice(w.NAMES)])}"
    return rng.choice([f"my {rng.choice(w.PEOPLE)}", f"my {rng.choice(w.PEOPLE)}", name(rng)])


def noun(rng: Random) -> str:
    """Anything that may be something: "my blue key", "the code for the garage"."""
    item = invented(rng) if rng.random() < 0.08 else thing(rng)
    tail = rng.choice([w.NOUNS, w.SPOTS, w.THINGS])
    longer = rng.choice(["of", "for"]) + f" the {rng.choice(tail)}"
    numbered = rng.choice(w.NUMBERED)
    return rng.choice(
        [
            f"{owner(rng)} {item}",
            f"{owner(rng)} {item}",
            f"the {item}",
            f"the {item} {longer}",
            f"the {numbered} {longer}",
            f"the {rng.choice(w.NOUNS)} {numbered}",
            f"{owner(rng)} {rng.choice(w.NOUNS)} {rng.choice(w.NOUNS)}",
            f"the capital of {name(rng)}",
            f"the name of the {item}",
            f"{owner(rng)} {rng.choice(w.ADJECTIVES)} {numbered}",
        ]
    )


def numbered(rng: Random) -> str:
    """Something that has a number or a code."""
    item = rng.choice(w.NUMBERED)
    if rng.random() < 0.15:
        item = f"{rng.choice(w.SPOTS + w.NOUNS)} {rng.choice(['code', 'number', 'password', 'pin'])}"
    return f"{owner(rng) if rng.random() < 0.75 else 'the'} {item}"


def some(rng: Random, kind: str) -> str:
    """A thing of one sort, as the user names it."""
    my = owner(rng)
    adjective = f"{rng.choice(w.ADJECTIVES + w.COLOURS)} " if rng.random() < 0.1 else ""
    topics: dict[str, Callable[[Random], str]] = {
        "noun": noun,
        "numbered": numbered,
        "someone": person,
        "pet": lambda r: f"{my} {adjective}{r.choice(w.ANIMALS)}",
        "person": lambda r: f"{my} {r.choice(w.PEOPLE)}",
        "category": lambda r: f"{my} favourite {r.choice(w.CATEGORIES)}",
        "object": lambda r: f"{my if r.random() < 0.7 else 'the'} {thing(r)}",
        "event": event,
        "birthday": lambda r: f"{person(r)}'s birthday" if r.random() < 0.4 else "my birthday",
        "compound": lambda r: (
            f"the {rng.choice(w.SPOTS + w.NOUNS + w.THINGS)} "
            f"{rng.choice(['code', 'number', 'password', 'pin', 'combination', 'key code', 'name'])}"
        ),
        "several": lambda r: (
            f"my {r.choice([plural(r.choice(w.ANIMALS)), plural(r.choice(w.PEOPLE)), *PEOPLE_PLURAL[:6]])}"
        ),
        "list": lambda r: (
            f"my {r.choice(['shopping', 'grocery', 'to-do', 'packing', 'guest', 'wish', 'birthday'])} list"
        ),
        "dish": lambda r: "my favourite food",
        "token": lambda r: f"the {r.choice(['word', 'code', 'number', 'name', 'phrase', 'code word'])}",
    }
    return topics[kind](rng) if kind else ""


def event(rng: Random) -> str:
    """Something that takes place."""
    item = rng.choice(w.EVENTS)
    if rng.random() < 0.15:
        item = f"{rng.choice(['dinner', 'lunch', 'meeting', 'call'])} with {person(rng)}"
    if rng.random() < 0.1:
        item = f"{rng.choice(w.NOUNS)} {rng.choice(['meeting', 'appointment', 'event', 'party'])}"
    return f"{rng.choice(['my', 'my', 'my', 'the'])} {item}"


@dataclass
class Fact:
    """One fact: its kind, the thing as the user names it, and the value as told last."""

    kind: Kind
    thing: str
    value: str
    alias: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What a later telling of the same replaces."""
        return self.kind.topic, self.thing.lower()

    def slots(self) -> dict[str, str]:
        """What fills the patterns."""
        bare = re.sub(r"^(my|the|our) ", "", self.thing)
        plural = bare.split(" of ")[0].split(" for ")[0]
        several = plural.endswith("s") and not plural.endswith(SINGULAR_S)
        return {
            "x": self.thing,
            "y": yours(self.thing),
            "n": bare,
            "is": "are" if several else "is",
            "h": bare.rsplit(" ", 1)[-1],
            "t": bare.rsplit(" ", 1)[0],
            "c": bare.removeprefix("favourite "),
            "k": ("one", "two", "three", "four")[self.value.count(",") + self.value.count(" and ")]
            if self.kind is MANY
            else "",
            "v": self.value,
        }

    def says(self, again: bool = False) -> str:
        """The fact as the assistant states it, without capital or stop."""
        return fill(self.kind.says, **self.slots())

    def topic(self) -> str:
        """What a question is for."""
        return fill(self.kind.topic.replace("they", "you"), **self.slots())

    def lack(self) -> str:
        """What the assistant has not been told."""
        return fill(self.kind.lack.replace("they", "you"), **self.slots())

    def doubt(self, rng: Random, lower: bool, value: str) -> str:
        """A question whether the value is such."""
        text = f"{self.slots()['is']} {self.thing} {value}"
        if self.kind.who and rng.random() < 0.4 and value == self.value and self.thing.startswith("my "):
            text = f"do I have a{'n' if self.thing[3] in 'aeiou' else ''} {self.thing[3:]}?"
            return text if lower else capital(text)
        if self.kind.who or self.kind is MANY:
            text = f"{self.slots()['is']} {self.thing} called {value}"
        text = rng.choice([text, text, f"is it true that {self.thing} {self.slots()['is']} {value}"])
        return capital_unless(lower, text.lower() if lower else text) + rng.choice("???.")

    def tell(self, rng: Random, lower: bool, held: bool = False) -> str:
        """A sentence that tells the fact; it changes the value to how it was typed."""
        options = [p for p in self.kind.tellings(held) if "[n]" not in p or self.thing.startswith("my ")]
        pattern = self._bare(framed(rng, options, held))
        if lower:
            self.value, self.thing = self.value.lower(), self.thing.lower()
        elif pattern.startswith("[v]") and self.kind.values not in ("spot", "when"):
            self.value = capital(self.value)
        pattern = american(rng, pattern).replace(" 's", "'s")
        text = capital_unless(lower, fill(roughen(rng, pattern, lower), **self.slots()))
        return text.replace("s's name", "s' name") if self.kind is MANY else text

    def _bare(self, pattern: str) -> str:
        """The pattern without an article before what takes none, such as "dinner"."""
        words = self.thing.split()
        none = self.kind is EVENT and len(words) > 1 and words[1] in MEALS
        return pattern.replace("a [n]", "[n]") if none else pattern

    def _shorter(self, rng: Random) -> dict[str, str]:
        """ "my sister Clara" asked for as "Clara", "my sister" or both."""
        both = re.fullmatch(r"(my .+) ([A-Z]\w+)", self.thing)
        wanted = both is not None and self.kind.things == "someone"
        return {"x": rng.choice([self.thing, both[1], both[2]])} if wanted and both else {}

    def ask(self, rng: Random, lower: bool, held: bool = False) -> str:
        """A question for the fact."""
        owned = self.thing.startswith(("my ", "the "))
        options = [p for p in self.kind.askings(held) if "[c]" not in p or self.thing.startswith("my fav")]
        options = [p for p in options if "[n]" not in p or owned]
        pattern = self._bare(framed(rng, options, held))
        slots = self.slots() | self._shorter(rng)
        if self.alias and rng.random() < 0.6:
            slots["x"] = self.alias
        if lower:
            slots = {key: text.lower() for key, text in slots.items()}
        if rng.random() < 0.3:
            slots["x"] = slots["x"].replace("favourite", "favorite")
        text = capital_unless(lower, fill(roughen(rng, pattern, lower), **slots))
        return re.sub(r"'s's\b", "'s", text)


def american(rng: Random, text: str) -> str:
    """The text as an American would spell it, now and then."""
    return text.replace("favourite", "favorite") if rng.random() < 0.3 else text


def capital_unless(lower: bool, text: str) -> str:
    """The text with a capital first, unless it is all lower case."""
    return text if lower else capital(text)


def draw(source: Source, kind: Kind | None = None) -> Fact:
    """A new fact."""
    kind = kind or source.rng.choices(KINDS, WEIGHTS)[0]
    subject = some(source.rng, kind.things)
    values = kind.values
    if kind is FAVOURITE:
        values = category_values(subject)
    if values == "any" and source.rng.random() < 0.12:
        values = source.rng.choice(["number", "when", "spot", "place", "name"])
    if kind is FAVOURITE and source.rng.random() < 0.12 and not subject.endswith("s"):
        return Fact(kind, plural(subject), f"{source.draw(values)} and {source.draw(values)}")
    return Fact(kind, subject, source.draw(values))


def category_values(subject: str) -> str:
    """The sort of value that a favourite thing has."""
    table = {
        "colour": "colour",
        "color": "colour",
        "food": "food",
        "dish": "food",
        "fruit": "food",
        "drink": "drink",
        "city": "place",
        "country": "place",
        "book": "title",
        "film": "title",
        "movie": "title",
        "song": "title",
        "sport": "activity",
        "number": "digits",
        "animal": "animal",
        "music": "music",
        "hobby": "activity",
        "language": "language",
        "singer": "name",
        "author": "name",
        "actor": "name",
        "car": "car",
        "game": "activity",
    }
    last = subject.rsplit("favourite ", 1)[-1]
    return table.get(last, table.get(last.removesuffix("s"), "any"))


def bare_thing(fact: Fact) -> str:
    """The thing without its owner, in one spelling."""
    text = re.sub(r"^(my|the|our) ", "", fact.thing.lower())
    return re.sub(r"favourite (dish|meal)", "favourite food", text)


def clashes(fact: Fact, other: Fact) -> bool:
    """Whether two facts could be asked for with the same words."""
    mine, others = bare_thing(fact), bare_thing(other)
    if mine != others or (fact.kind.things == "someone" and fact.kind is not other.kind):
        return False
    return fact.kind is not other.kind or fact.kind.topic == other.kind.topic
