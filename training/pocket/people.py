"""Somebody a conversation is about, and what they are and do: one triple each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from training.pocket import grammar
from training.pocket import words as w
from training.pocket.deeds import NAME, SELF
from training.pocket.grammar import Person, about, someone
from training.pocket.kinds import Kind
from training.pocket.phrases import capital, expand, fill, framed, roughen
from training.pocket.values import Source, place

WOMEN = frozenset(
    "sister;mother;mum;mom;aunt;niece;grandmother;grandma;wife;girlfriend;daughter;twin sister;big sister;"
    "younger sister;stepmother".split(";")
)
MEN = frozenset(
    "brother;father;dad;uncle;nephew;grandfather;grandpa;husband;boyfriend;son;little brother;"
    "older brother;godfather;landlord".split(";")
)
SHARED = tuple(k for k in SELF if k is not NAME)
SHARED_WEIGHTS = [k.weight for k in SHARED]
SELF_WEIGHTS = [k.weight for k in SELF]


@dataclass
class Who:
    """The user, or somebody by relation ("my sister"), by name, or by both."""

    noun: str = ""
    name: str = ""
    pronoun: str = "they"
    pet: bool = False
    near: bool = False
    thing: bool = False

    @property
    def me(self) -> bool:
        """Whether this is the user."""
        return not (self.noun or self.name)

    def full(self) -> str:
        """As the assistant names them."""
        return " ".join(part for part in (grammar.yours(self.noun), self.name) if part)

    def short(self) -> str:
        """As the assistant names them the second time."""
        return self.name or self.full()

    def mention(self, rng: Random) -> str:
        """As the user names them once both are known; "she" where the last message was about her."""
        if self.near and self.pronoun != "they" and rng.random() < 0.4:
            return self.pronoun
        if self.noun and self.name:
            return rng.choice([self.noun, self.name, self.name, f"{self.noun} {self.name}"])
        return self.noun or self.name

    def introduced(self, rng: Random) -> str:
        """As the user names them for the first time."""
        if not (self.noun and self.name):
            return self.noun or self.name
        forms = [f"{self.noun} {self.name}"] * 5
        forms += [f"{self.noun}, {self.name},", f"{self.name}, {self.noun},", f"{self.name} ({self.noun})"]
        return rng.choice(forms)

    def person(self, subject: str) -> Person:
        """Their grammar under one mention."""
        made = someone(subject, self.pronoun)
        return replace(made, possessive=made.pronoun_possessive) if subject == self.pronoun else made


ME = Who()


def gender(rng: Random, noun: str, animal: bool) -> str:
    """The pronoun for somebody."""
    if animal:
        return rng.choice(["he", "she", "it"])
    last = noun.removeprefix("my ").rsplit("'s ", 1)[-1]
    return "she" if last in WOMEN else "he" if last in MEN else rng.choice(["he", "she", "she", "they"])


def draw_who(source: Source) -> Who:
    """Somebody new."""
    rng = source.rng
    if rng.random() < 0.08:
        return Who(f"{rng.choice(['the', 'my'])} {rng.choice(w.EVENTS + w.NOUNS)}", "", "it", thing=True)
    chance = rng.random()
    animal = chance < 0.3
    if chance > 0.9:
        return Who("", source.draw("name"), rng.choice(["he", "she"]))
    noun = f"my {rng.choice(w.ANIMALS if animal else w.PEOPLE)}"
    if rng.random() < 0.1:
        noun = f"my {rng.choice(w.PEOPLE)}'s {noun[3:]}"
    called = source.draw("pet" if animal else "name") if rng.random() < 0.65 else ""
    return Who(noun, called, gender(rng, noun, animal), animal)


AUXILIARY = {
    "am": "am",
    "is": "is",
    "are": "are",
    "was": "was",
    "were": "were",
    "can": "can",
    "will": "will",
    "has to": "",
}


def inverted(clause: str) -> str:
    """A statement as a question: "I live in Oslo" is "do I live in Oslo"."""
    head, _, rest = clause.partition(" ")
    if head in ("I", "you", "we"):
        verb, _, tail = rest.partition(" ")
        if verb in AUXILIARY:
            return f"{verb} {head} {tail}"
        return f"did {head} {LEMMAS.get(verb, verb)} {tail}" if verb in LEMMAS else f"do {head} {verb} {tail}"
    for verb in (" is ", " are ", " was "):
        if verb in clause:
            subject, _, tail = clause.partition(verb)
            return f"{verb.strip()} {subject} {tail}"
    return f"is it true that {clause}"


LEMMAS = {"parked": "park", "bought": "buy", "met": "meet", "lost": "lose", "ate": "eat", "had": "have"}
LEMMAS |= {"grew": "grow", "moved": "move"}


@dataclass
class Deed:
    """What somebody is or does: a kind of fact about a person, with its value."""

    who: Who
    kind: Kind
    value: str

    @property
    def key(self) -> tuple[str, str]:
        """What a later telling of the same replaces."""
        return self.kind.topic, (self.who.noun or self.who.name).lower()

    def _said(self, text: str, again: bool = False) -> str:
        if self.who.me:
            return text
        return about(text, self.who.person(self.who.short() if again else self.who.full()))

    def says(self, again: bool = False) -> str:
        """The fact as the assistant states it, without capital or stop; briefly if just named."""
        return fill(self._said(self.kind.says, again), v=self.value)

    def topic(self) -> str:
        """What a question is for."""
        text = self.kind.topic.replace("they are", "you are").replace("they were", "you were")
        return fill(self._said(text.replace("they", "you").replace("their", "your")), v=self.value)

    lack = topic

    def _mine(self, text: str, subject: str) -> str:
        if self.who.me:
            return text
        return about(text, self.who.person(subject)).replace(",'s ", "'s ")

    def clause(self, rng: Random, subject: str, held: bool, lower: bool) -> str:
        """A sentence that tells the fact, with a mention of its subject and no capital or stop."""
        if lower:
            self.value = self.value.lower()
        pattern = framed(rng, self.kind.tellings(held), held)
        said = self._mine(pattern, subject)
        if not self.who.me and said == pattern:
            said = self._mine(expand(rng, self.kind.tell[0]), subject)
        former = place(rng).lower() if lower else place(rng)
        return fill(said, v=self.value, u=former)

    def ask(self, rng: Random, lower: bool, held: bool = False) -> str:
        """A question for the fact."""
        pattern, mention = framed(rng, self.kind.askings(held), held), self.who.mention(rng)
        said = self._mine(pattern, mention)
        # "Place of birth?" names nobody else.
        if not self.who.me and said == pattern:
            said = self._mine(expand(rng, self.kind.ask[0]), mention)
        return fill(finished(rng, said, lower), v=self.value)

    def doubt(self, rng: Random, lower: bool, value: str) -> str:
        """A question whether the value is such."""
        pattern = expand(rng, self.kind.tell[0])
        mention = self.who.mention(rng)
        start = rng.choice(["", "", "", "", "did I say that ", "is it true that "])
        if start:
            text = start + self._mine(pattern, mention)
        else:
            text = inverted(pattern) if self.who.me else about(inverted(pattern), self.who.person(mention))
        return fill(finished(rng, text + "?", lower), v=value)

    def whose(self, rng: Random, lower: bool) -> str:
        """A question for the person, by the value."""
        text = about(expand(rng, self.kind.tell[0]), someone("who", "they")).replace("who's ", "whose ")
        return fill(finished(rng, text + "?", lower), v=self.value)

    def whose_topic(self) -> str:
        """What that question is for."""
        return fill(about(self.kind.says, someone("who", "they")).replace("who's ", "whose "), v=self.value)


def finished(rng: Random, text: str, lower: bool) -> str:
    """A question as it is typed."""
    text = roughen(rng, text, False) if not lower else roughen(rng, text, True)
    return text if lower else capital(text)


def draw_deed(source: Source, who: Who, kind: Kind | None = None) -> Deed:
    """Something that somebody is or does."""
    pool, weights = (SELF, SELF_WEIGHTS) if who.me else (SHARED, SHARED_WEIGHTS)
    kind = kind or source.rng.choices(pool, weights)[0]
    return Deed(who, kind, source.draw(kind.values))
