"""Composes statements of a clause or two from a large vocabulary, with questions for each of their parts.

Hardly any of them is seen twice, so what is said can only be repeated, and what is asked for only be found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from training.pocket import lexicon as lex
from training.pocket import words as w
from training.pocket.grammar import yours
from training.pocket.phrases import capital, listed
from training.pocket.statements import STARTS, contracted, helpers, plural, verbs
from training.pocket.values import invented
from training.pocket.written import Exchange, Written

Verb = tuple[str, ...]
HABIT, PAST = ("", "love to", "have to"), ("past", "used to")
TENSES = (
    *[""] * 5,
    *["past"] * 8,
    "ing",
    "ing",
    "will",
    "going to",
    "have to",
    "used to",
    "want to",
    "plan to",
)


@dataclass(frozen=True)
class Noun:
    """A noun phrase as the user says it: `form` is "I", "she" (one) or "you" (several)."""

    text: str
    form: str = "she"
    person: bool = False
    short: tuple[str, ...] = ()

    def mention(self, rng: Random) -> str:
        """As it is named once it is known."""
        return rng.choice(self.short or (self.text,))


@dataclass(frozen=True)
class Part:
    """What follows the verb: its text, and how it is asked for."""

    role: str
    text: str
    ask: tuple[str, ...] = ()
    core: bool = False
    tail: str = ""
    again: Callable[[], Part] | None = None


@dataclass(frozen=True)
class Clause:
    """A subject, a verb and its parts in order."""

    subject: Noun
    verb: Verb
    aux: str
    parts: tuple[Part, ...]
    negative: bool = False
    inner: Clause | None = None

    def finite(self) -> str:
        """The verb as it follows the subject."""
        return conjugated(self.verb, self.aux, self.subject.form, self.negative)

    def said(self) -> str:
        """The clause in its plain order, as the user says it."""
        return " ".join([self.subject.text, self.finite(), *(part.text for part in self.parts)])

    def told(self, rng: Random, subject: bool = True) -> str:
        """The clause in one of its orders."""
        verb, front = self.finite(), ""
        if self.negative and rng.random() < 0.8:
            verb = contracted(verb)
        elif rng.random() < 0.6:
            verb = re.sub("^will ", "'ll ", verb) if self.subject.form == "I" else verb
        parts = list(self.parts)
        loose = [part for part in parts if not part.core]
        if subject and loose and rng.random() < 0.2:
            first = rng.choice(loose)
            parts.remove(first)
            front = first.text + rng.choice([", ", " "])
        elif len(loose) > 1 and rng.random() < 0.2:
            rng.shuffle(loose)
            parts = [part for part in parts if part.core] + loose
        start = self.subject.text if subject else ""
        if start == "I" and verb.startswith("am ") and rng.random() < 0.7:
            verb, start = verb[3:], "I'm"
        text = f"{start} {verb} {' '.join(part.text for part in parts)}".strip()
        text = (front + text).replace(" 'll", "'ll")
        return text.replace(" that ", " ", 1) if self.inner and rng.random() < 0.3 else text

    def states(self) -> str:
        """The clause as the assistant repeats it."""
        return yours(self.said())

    def asking(self, role: str, rng: Random | None = None) -> tuple[str, str]:
        """A question for a part, and the same as it follows "do you know".

        With `rng` as somebody asks it who need not say all of it again, else plainly, with all names in full.
        """
        subject = self.subject.mention(rng) if rng else self.subject.text
        part = next((each for each in self.parts if each.role == role), None)
        others = [each for each in self.parts if each.role != role]
        kept = [definite(each.text) for each in others if each.core or (rng and role == "whether")]
        loose = [each.text for each in others if not each.core]
        if rng and role != "whether" and loose and rng.random() < 0.25:
            kept.append(rng.choice(loose))
        core = " ".join(kept)
        if role == "who":
            word = "who" if self.subject.person else "what"
            asked = f"{word} {conjugated(self.verb, self.aux, 'she', False)} {core}".strip()
            return asked, asked
        helper, rest = asked_for(self.verb, self.aux, self.subject.form)
        negative = self.negative and not rng and role != "whether"
        finite = conjugated(self.verb, self.aux, self.subject.form, negative)
        tail = part.tail if part else ""
        words = part.ask if part and part.ask else (LACKING.get(role, "what"),)
        word = rng.choice(words) if rng else words[0]
        if role == "whether":
            direct, embedded = f"{helper} {subject} {rest} {core}", f"whether {subject} {finite} {core}"
        else:
            direct = f"{word} {helper} {subject} {rest} {core} {tail}"
            embedded = f"{word} {subject} {finite} {core} {tail}"
        return re.sub(" +", " ", direct).strip(), re.sub(" +", " ", embedded).strip()

    def topic(self, role: str) -> str:
        """What a question is for, as the assistant says it."""
        return yours(self.asking(role)[1])

    def label(self) -> str:
        """What was told, in a few words."""
        asked = [part for part in self.parts if part.ask]
        first = next((part for part in asked if part.core), None) or next(iter(asked), None)
        return self.topic(first.role if first else "whether")

    def roles(self) -> list[str]:
        """What can be asked for."""
        found = [part.role for part in self.parts if part.ask and not self.negative]
        asks = [*found, *(["who"] if self.subject.form != "I" and not self.negative else [])]
        return [*asks, "whether"]


KINDS = {(names := name.split("/"))[0]: (names, items) for name, items in lex.KINDS.items()}
CLOCKS = (
    "at half past nine",
    "at noon",
    "around eight",
    "at quarter to six",
    "at five sharp",
    "at 7 in the morning",
)
LACKING = {"why": "why", "place": "where", "time": "when", "manner": "how"}


def conjugated(verb: Verb, aux: str, form: str, negative: bool) -> str:
    """A verb, "be" among them, for "I", "you" or "she"."""
    if verb[0].split()[0] != "be":
        return verbs((verb[0], verb[1], verb[-1]), aux, form, negative)
    tail = verb[0][2:]
    no = " not" if negative else ""
    if aux == "past":
        return f"{'were' if form == 'you' else 'was'}{no}{tail}"
    return f"{ {'I': 'am', 'you': 'are', 'she': 'is'}[form] }{no}{tail}"


def asked_for(verb: Verb, aux: str, form: str) -> tuple[str, str]:
    """What comes before the subject of a question and after it."""
    if verb[0].split()[0] != "be":
        return helpers((verb[0], verb[1], verb[-1]), aux, form)
    return conjugated(("be",), aux, form, False), verb[0][3:]


def definite(text: str) -> str:
    """ "a lamp" is "the lamp" once it is known."""
    return re.sub(r"^(an?|some) ", "the ", text)


ABOUT = [
    ("talk", "talked", "talked", "talking"),
    ("worry", "worried", "worried", "worrying"),
    ("argue", "argued", "argued", "arguing"),
    ("read", "read", "read", "reading"),
]


@dataclass
class Composer:
    """Draws clauses; names and the like are slots, so that they are drawn as those of other dialogues are."""

    rng: Random
    slots: dict[str, int] = field(default_factory=dict)

    def slot(self, kind: str) -> str:
        """A slot that was not used before."""
        number = self.slots.get(kind, 0) + 1
        self.slots[kind] = number
        return f"[{kind}{number if number > 1 else ''}]"

    def somebody(self, me: float = 0.3) -> Noun:
        """Who does something."""
        rng = self.rng
        if rng.random() < me:
            return Noun("we", "you", True) if rng.random() < 0.2 else Noun("I", "I", True)
        chance = rng.random()
        if chance < 0.2:
            name = self.slot("name")
            return Noun(name, person=True)
        if chance < 0.32:
            body = rng.choice(lex.BODIES)
            return Noun(body, person=True)
        if chance < 0.4:
            role = plural(rng.choice(lex.ROLES))
            return Noun(f"{rng.choice(['my', 'the', 'two', 'some'])} {role}", "you", True, (f"the {role}",))
        role = rng.choice(lex.ROLES) if rng.random() < 0.6 else rng.choice(w.PEOPLE)
        noun = f"{rng.choice(['my', 'my', 'my', 'the'])} {role}"
        if chance < 0.5:
            noun = rng.choice([f"{self.slot('name')}'s {role}", f"my {rng.choice(w.PEOPLE)}'s {role}"])
        if rng.random() < 0.45:
            name = self.slot("name")
            return Noun(f"{noun} {name}", "she", True, (noun, name, name, f"{noun} {name}"))
        return Noun(noun, person=True)

    def something(self) -> Noun:
        """A thing."""
        rng = self.rng
        chance = rng.random()
        if chance < 0.06:
            text = self.slot(rng.choice(["food", "title", "word", "drink", "animal"]))
            return Noun(f"the {text}")
        if chance < 0.2:
            stuff = rng.choice(lex.STUFF)
            several = stuff.endswith("s") and not stuff.endswith("ss")
            return Noun(f"{rng.choice(['the', 'some', 'my'])} {stuff}", "you" if several else "she")
        if chance < 0.3:
            return Noun(
                f"{rng.choice(['two', 'three', 'four', 'both', 'the', '12', '30'])} {plural(self.noun())}",
                "you",
            )
        noun = self.noun()
        if rng.random() < 0.25:
            noun = f"{rng.choice(lex.QUALITIES)} {noun}"
        owner = rng.choice(["my", "my", "the", "the", "the", "a", "a", "our"])
        if rng.random() < 0.06:
            owner = f"{self.slot('name')}'s"
        owner = "an" if owner == "a" and noun[0] in "aeiou" else owner
        return Noun(f"{owner} {noun}")

    def noun(self) -> str:
        """A thing's name, now and then one that nobody knows."""
        return invented(self.rng) if self.rng.random() < 0.05 else self.rng.choice(lex.THINGS)

    def verb(self, pool: list[Verb]) -> Verb:
        """A verb, now and then one that nobody knows."""
        if self.rng.random() > 0.04:
            return self.rng.choice(pool)
        stem = re.sub(r"[aeiouwy]+$", "", invented(self.rng)) or "blick"
        return (stem, f"{stem}ed", f"{stem}ed", f"{stem}ing")

    def object(self) -> Part:
        """What something is done to."""
        return Part("object", self.something().text, ("what",), True, again=self.object)

    def person(self) -> Part:
        """Whom something is done to."""
        noun = self.somebody(0.0)
        return Part("person", noun.text, ("who", "who", "whom"), True, again=self.person)

    def place(self) -> Part:
        """Where."""
        rng = self.rng
        text = rng.choice(lex.SPOTS) if rng.random() < 0.75 else f"in {self.slot('place')}"
        return Part("place", text, ("where", "where", "where", "in which place"), again=self.place)

    def city(self) -> Part:
        """In which place, beside a spot in it."""
        ask = ("where", "in which town", "in which place", "in what city")
        return Part("city", f"in {self.slot('place')}", ask, again=self.city)

    def clock(self) -> Part:
        """At what time, beside a day."""
        text = f"at {self.slot('clock')}" if self.rng.random() < 0.7 else self.rng.choice(CLOCKS)
        return Part("clock", text, ("at what time", "what time", "when exactly"), again=self.clock)

    def length(self) -> Part:
        """For how long."""
        count, unit = self.rng.randint(2, 50), self.rng.choice(["minutes", "hours", "weeks", "days", "years"])
        text = f"for {count} {unit}"
        ask = ("how long", "for how long", f"how many {unit}", f"for how many {unit}")
        return Part("length", text, ask, again=self.length)

    def time(self, aux: str) -> Part:
        """When."""
        pool = lex.PAST_TIMES if aux in PAST else lex.PRESENT_TIMES if aux in HABIT else lex.FUTURE_TIMES
        text = self.rng.choice(pool)
        if self.rng.random() < 0.2 and aux not in HABIT:
            word, kind = self.rng.choice([("on", "day"), ("at", "clock"), ("in", "month")])
            asked_so = {
                "day": ("on which day", "what day"),
                "clock": ("what time",),
                "month": ("in which month",),
            }
            more = ("when", *asked_so[kind])
            return Part("time", f"{word} {self.slot(kind)}", more, again=lambda: self.time(aux))
        ask: tuple[str, ...] = ("when",)
        if text.startswith(("every", "twice", "once", "three times")):
            ask = ("when", "how often", "how often")
        elif text.startswith(("since", "for ")):
            ask = ("since when", "how long") if text.startswith("since") else ("how long",)
        return Part("time", text, ask, again=lambda: self.time(aux))

    def why(self, aux: str) -> Part:
        """For what cause."""
        pool = lex.REASONS if aux in PAST else lex.REASONS_NOW
        return Part("why", f"because {self.rng.choice(pool)}", ("why", "why", "for what reason", "how come"))

    def loose(self, aux: str, most: int) -> list[Part]:
        """Parts that any clause may have."""
        rng = self.rng
        found: list[Part] = []
        for kind in rng.sample(["manner", "company", "place", "place", "time", "time", "time", "end"], most):
            if any(part.role == kind for part in found):
                continue
            if kind == "manner":
                found.append(Part("manner", rng.choice(lex.MANNERS), ("how",)))
            elif kind == "company":
                who = self.somebody(0.0)
                found.append(Part("company", f"with {who.text}", ("who",), tail="with"))
            elif kind == "place":
                found.append(self.place())
            elif kind == "time":
                found.append(self.time(aux))
            else:
                found.append(self.end(aux))
        if rng.random() < 0.12 and all(part.role not in ("time", "why", "when") for part in found):
            found.append(self.length())
        elif rng.random() < 0.12 and any(re.match("on |tomorrow|yesterday", part.text) for part in found):
            found.append(self.clock())
        if rng.random() < 0.12 and any(part.role == "place" and "[" not in part.text for part in found):
            found.append(self.city())
        order = "manner length company place city time clock why goal when".split()
        return sorted(found, key=lambda part: order.index(part.role))

    def end(self, aux: str) -> Part:
        """Why, what for, or on what condition."""
        rng = self.rng
        chance = rng.random()
        if chance < 0.45 or (aux in PAST and chance < 0.6):
            return self.why(aux)
        if chance < 0.7:
            return Part("goal", f"to {rng.choice(lex.GOALS)}", ("what for", "why"))
        if aux in PAST:
            return self.time(aux) if rng.random() < 0.5 else self.why(aux)
        word = rng.choice(["if", "when", "as soon as", "until", "unless"])
        return Part("when", f"{word} {rng.choice(lex.CONDITIONS)}", ("when",))

    def deed(self) -> str:
        """What may follow "to": a verb with its object."""
        rng = self.rng
        if rng.random() < 0.2:
            text = self.verb(lex.ALONE)[0]
        elif rng.random() < 0.3:
            text = f"{self.verb(lex.TRANSITIVE_PERSON)[0]} {self.somebody(0.0).text}"
        else:
            text = f"{self.verb(lex.TRANSITIVE_THING)[0]} {self.something().text}"
        return f"{text} {rng.choice(lex.SPOTS)}" if rng.random() < 0.2 else text

    def clause(self, who: Noun | None = None, deep: bool = True) -> Clause:
        """Any statement; `deep` ones may hold another."""
        if deep and self.rng.random() < 0.09:
            return self.saying(who)
        (make,) = self.rng.choices(list(MAKERS), list(MAKERS.values()))
        return make(self, who or self.somebody(), self.rng.choice(TENSES))

    def some(self, aux: str) -> list[Part]:
        """Loose parts of a clause that is whole without them."""
        return self.loose(aux, self.rng.choice([0, 1, 1, 2]))

    def of_kind(self, who: Noun, aux: str) -> Clause:
        """Somebody keeps an animal or plays an instrument: things that are asked for by their kind."""
        rng = self.rng
        forms, kind = rng.choice(lex.OF_KIND)
        verb = tuple(part.replace("-", " ") for part in forms.split())
        names, items = KINDS[kind]

        def again() -> Part:
            name = rng.choice(names)
            ask = (
                f"what {name}",
                f"which {name}",
                f"what kind of {name}",
                f"what sort of {name}",
                "what",
                "what",
            )
            return Part("object", rng.choice(items), tuple(rng.sample(ask, len(ask))), True, again=again)

        return Clause(who, verb, aux, (again(), *self.loose(aux, rng.choice([1, 2, 2, 3]))))

    def doing(self, who: Noun, aux: str) -> Clause:
        """Somebody does something to a thing."""
        parts = (self.object(), *self.some(aux))
        return Clause(who, self.verb(lex.TRANSITIVE_THING), aux, parts, self.negative(aux))

    def dealing(self, who: Noun, aux: str) -> Clause:
        """Somebody does something to somebody."""
        parts = (self.person(), *self.some(aux))
        return Clause(who, self.verb(lex.TRANSITIVE_PERSON), aux, parts, self.negative(aux))

    def giving(self, who: Noun, aux: str) -> Clause:
        """Somebody gives a thing to somebody."""
        to = Part("recipient", f"to {self.somebody(0.0).text}", ("who",), True, tail="to")
        return Clause(who, self.verb(lex.GIVING), aux, (self.object(), to, *self.some(aux)[:1]))

    def being_about(self, who: Noun, aux: str) -> Clause:
        """Somebody sleeps, arrives or laughs."""
        parts = tuple(self.loose(aux, self.rng.choice([1, 1, 2])))
        return Clause(who, self.verb(lex.ALONE), aux, parts, self.negative(aux))

    def talking(self, who: Noun, aux: str) -> Clause:
        """Somebody talks about something."""
        topic = Part("topic", f"about {self.rng.choice(lex.TOPICS)}", ("what",), True, tail="about")
        return Clause(who, self.rng.choice(ABOUT), aux, (topic, *self.some(aux)[:1]))

    def saying(self, who: Noun | None) -> Clause:
        """Somebody says something."""
        inner = self.clause(deep=False)
        who = who if who and who.form != "I" else self.somebody(0.05)
        content = Part("content", f"that {inner.said()}", ("what",), True)
        return Clause(
            who, self.rng.choice(lex.SAYING), self.rng.choice(["", "past"]), (content,), inner=inner
        )

    def requesting(self, who: Noun, aux: str) -> Clause:
        """Somebody asks somebody to do something."""
        rng = self.rng
        me = rng.random() < 0.55 and who.form != "I"
        whom = Part("person", rng.choice(["me", "me", "us"])) if me else self.person()
        task = Part("task", f"to {self.deed()}", ("what",), True, tail="to do")
        parts = (replace(whom, core=True), task)
        return Clause(who, rng.choice(lex.ASKING), rng.choice(["", "past", "past"]), parts)

    def wanting(self, who: Noun, aux: str) -> Clause:
        """Somebody plans to do something."""
        aux = self.rng.choice(["", "past"])
        task = Part("task", f"to {self.deed()}", ("what",), True, tail="to do")
        return Clause(who, self.rng.choice(lex.WANTING), aux, (task, *self.some(aux)[:1]))

    def starting(self, who: Noun, aux: str) -> Clause:
        """Somebody stops doing something."""
        aux = self.rng.choice(["", "past"])
        text = f"{self.verb(lex.TRANSITIVE_THING)[-1]} {self.something().text}"
        deed = Part("deed", text, ("what",), True, tail="doing")
        return Clause(who, self.rng.choice(lex.STARTING), aux, (deed, *self.some(aux)[:1]))

    def describing(self, who: Noun, aux: str) -> Clause:
        """Something is rusty."""
        aux = self.rng.choice(["", "past"])
        noun = who if who.form == "she" and self.rng.random() < 0.4 else self.something()
        quality = Part("quality", self.rng.choice(lex.QUALITIES), ("how",), True)
        return Clause(noun, ("be", "was", "being"), aux, (quality, *self.some(aux)[:1]))

    def suffering(self, who: Noun, aux: str) -> Clause:
        """Something was mended by somebody."""
        aux = self.rng.choice(["", "past", "past"])
        done = self.verb(lex.TRANSITIVE_THING)[2]
        parts = [Part("agent", f"by {self.somebody(0.0).text}", ("who",), tail="by")]
        parts = (parts if self.rng.random() < 0.6 else []) + self.loose(aux, 1)
        return Clause(self.something(), (f"be {done}", "", ""), aux, tuple(parts))

    def going_on(self, who: Noun, aux: str) -> Clause:
        """A thing leaks or rattles."""
        aux = self.rng.choice(["", "past", "past", "will"])
        return Clause(self.something(), self.verb(lex.THINGS_DO), aux, tuple(self.loose(aux, 1)))

    def negative(self, aux: str) -> bool:
        """Whether a clause says that something is not so."""
        return aux != "used to" and self.rng.random() < 0.08

    def rising(self, who: Noun, aux: str) -> Clause:
        """An amount that changes."""
        rng = self.rng
        name, _, forms = rng.choice(lex.MEASURES).partition("=")
        form = rng.choice(forms.split(",")).strip()
        size = rng.choice([9, 30, 99, 400, 2000])
        low, high = rng.randint(2, size), rng.randint(2, size)
        before, now = re.sub(r"\bN\b", str(low), form), re.sub(r"\bN\b", str(high + (high == low)), form)
        aux = "past"
        parts = [Part("from", f"from {before}", ("what",), True, tail="from")] if rng.random() < 0.5 else []
        parts.append(Part("to", f"to {now}", ("what",), True, tail="to"))
        parts += [self.time(aux)] if rng.random() < 0.6 else []
        return Clause(Noun(name.strip()), rng.choice(lex.RISING), aux, tuple(parts))

    def beside(self, first: Clause) -> Clause:
        """A clause that is easily mixed up with the first: another subject, or another deed of the same."""
        rng = self.rng
        if rng.random() < 0.4 or not first.subject.person or first.inner:
            return self.clause(first.subject if first.subject.person else None)
        parts = tuple(part.again() if part.again else part for part in first.parts)
        verb = first.verb if rng.random() < 0.6 else rng.choice(lex.TRANSITIVE_THING)
        if first.parts[:1] and first.parts[0].role != "object":
            verb = first.verb
        return replace(first, subject=self.somebody(0.15), verb=verb, parts=parts)


MAKERS: dict[Callable[[Composer, Noun, str], Clause], float] = {
    Composer.doing: 22,
    Composer.of_kind: 16,
    Composer.dealing: 9,
    Composer.giving: 9,
    Composer.being_about: 8,
    Composer.requesting: 8,
    Composer.wanting: 6,
    Composer.starting: 5,
    Composer.rising: 7,
    Composer.describing: 7,
    Composer.suffering: 5,
    Composer.going_on: 6,
    Composer.talking: 3,
}
OPENINGS = (
    "guess what, |so |hey, |btw |just so you know, |ugh. |news: |well, |ok so |note: |oh, |haha |listen, "
)
ASIDES = (*[""] * 14, *OPENINGS.split("|"))
ENDS = (
    *[""] * 16,
    " :(",
    " lol",
    ", anyway",
    " haha",
    "!",
    "...",
    ", just so you know",
    " :)",
    ", believe it or not",
)
JOINS = (". ", ". ", ". ", " and ", ", and ", ", but ", "; ", ", ", ". also ", "\n", " while ")


def message(rng: Random, clauses: list[Clause]) -> str:
    """Clauses as one message."""
    text = ""
    for number, clause in enumerate(clauses):
        same = number and clause.subject == clauses[number - 1].subject
        if same and rng.random() < 0.7:
            text += rng.choice([" and ", " and ", ", "]) + clause.told(rng, subject=False)
            continue
        join = rng.choice(JOINS) if number else ""
        one = clause.told(rng)
        text += join + (capital(one) if join in (". ", "\n") else one)
    text = rng.choice(ASIDES) + text
    text = text if rng.random() < 0.15 else capital(text)
    end = rng.choice(ENDS)
    return text + (end if end or rng.random() < 0.3 else ".")


AMOUNTS = {"from": ("was", "before"), "to": ("is", "now")}
WRAPS = ("{}?", "{}?", "{}?", "{}?", "so {}?", "{} again?", "and {}?", "quick question: {}?", "hm, {}?", "{}")


def question(rng: Random, clause: Clause, role: str) -> str:
    """One wording of a question."""
    direct, embedded = clause.asking(role, rng)
    if role in AMOUNTS and rng.random() < 0.6:
        word, is_, then = rng.choice(["what", "how much"]), *AMOUNTS[role]
        name = clause.subject.text
        direct, embedded = f"{word} {is_} {name} {then}", f"{word} {name} {is_} {then}"
    if role == "who" and rng.random() < 0.15:
        direct = embedded = re.sub(r"^who ", rng.choice(["who was it that ", "which person "]), direct)
    if rng.random() < 0.25:
        text = f"{rng.choice(STARTS)} {embedded}" + rng.choice(["?", "?", ""])
    else:
        text = rng.choice(WRAPS).format(direct)
    return capital(text) if rng.random() < 0.8 else text


def asked(rng: Random, clause: Clause, role: str) -> Exchange:
    """A question for a part that was told, in two wordings."""
    topic = clause.topic(role)
    part = next((each for each in clause.parts if each.role == role), None)
    start, found = "", yours(part.text) if part else yours(clause.subject.text)
    if role == "whether":
        start, found = ("No, ", "no") if clause.negative else ("Yes, ", "yes")
    reply = start + (clause.states() if start else capital(clause.states()))
    wordings = tuple(question(rng, clause, role) for _ in range(2))
    return Exchange(wordings, f"Asked: {topic}. Told: {found}.", f"{reply}.")


def otherwise(rng: Random, clause: Clause) -> tuple[Clause, Part, Part] | None:
    """The clause with another of one of its parts; that part as it was, and as it is."""
    places = [(at, part.again) for at, part in enumerate(clause.parts) if part.again]
    if not places or clause.negative:
        return None
    at, again = rng.choice(places)
    old, new = clause.parts[at], again()
    if new.text == old.text:
        return None
    return replace(clause, parts=(*clause.parts[:at], new, *clause.parts[at + 1 :])), old, new


def doubted(rng: Random, clause: Clause) -> Exchange | None:
    """A question that assumes what is not so."""
    made = otherwise(rng, clause)
    if made is None:
        return None
    wrong, right, assumed = made
    direct, embedded = wrong.asking("whether", rng)
    if assumed.text not in direct and definite(assumed.text) not in direct:
        return None
    return Exchange(
        (capital(direct) + "?", f"{direct}?"),
        f"Asked: {yours(embedded)}. Told: {yours(right.text)}. So no.",
        f"No, {clause.states()}.",
    )


def missing(rng: Random, clause: Clause) -> Exchange | None:
    """A question for what was not told."""
    roles = [role for role in LACKING if all(part.role != role for part in clause.parts)]
    goal = any(part.role in ("goal", "when", "why") for part in clause.parts)
    roles = [role for role in roles if not (goal and role in ("why", "time"))]
    if not roles or clause.negative or clause.verb[0].split()[0] == "be" or clause.inner:
        return None
    role = rng.choice(roles)
    topic = clause.topic(role)
    wordings = tuple(question(rng, clause, role) for _ in range(2))
    return Exchange(wordings, f"Asked: {topic}. Not told.", f"You have not told me {topic} yet.")


def corrected(rng: Random, clause: Clause, alone: bool) -> tuple[Clause, Exchange] | None:
    """The clause with a part put right in the next message; in a word, if it was told `alone`."""
    made = otherwise(rng, clause)
    if made is None:
        return None
    changed, old, new = made
    forms = [
        f"correction: {changed.said()}",
        f"scratch that, {changed.said()}",
        f"I was wrong: {changed.said()}.",
        f"no, {changed.said()}",
    ]
    if alone:
        forms += [
            f"no wait, {new.text}, not {old.text}",
            f"actually {new.text}",
            f"sorry, I meant {new.text}",
            f"not {old.text}, it was {new.text}",
            f"oh no, {new.text}",
        ]
    exchange = Exchange(
        tuple(capital(form) if rng.random() < 0.6 else form for form in rng.sample(forms, 2)),
        f"Changed: {clause.topic(old.role)}.",
        f"Got it, now {changed.states()}.",
    )
    return changed, exchange


def composed(rng: Random) -> Written:
    """A dialogue of a few such statements, and questions for them."""
    made = Composer(rng)
    exchanges: list[Exchange] = []
    known: list[Clause] = []
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        clauses = [made.clause()]
        while rng.random() < 0.4 and len(clauses) < 3:
            clauses.append(made.beside(clauses[-1]))
        clauses = [each for i, each in enumerate(clauses) if each not in clauses[:i]]
        labels = "; ".join(dict.fromkeys(clause.label() for clause in clauses))
        wordings = tuple(message(rng, clauses) for _ in range(2))
        exchanges.append(
            Exchange(
                wordings, f"New: {labels}.", f"Got it: {listed([clause.states() for clause in clauses])}."
            )
        )
        change = corrected(rng, clauses[-1], len(clauses) == 1) if rng.random() < 0.2 else None
        if change:
            clauses[-1] = change[0]
            exchanges.append(change[1])
        known += clauses
        known += [clause.inner for clause in clauses if clause.inner]
    topics = Counter(clause.topic(role) for clause in known for role in set(clause.roles()))
    for clause in known:
        roles = clause.roles()
        if clause.parts and clause.parts[0].role == "content":
            roles = ["content", "content", "who"]
        for role in dict.fromkeys(rng.choices(roles, k=rng.choice([1, 2, 3]))):
            # A question that two of the statements answer is none.
            if topics[clause.topic(role)] == 1:
                exchanges.append(asked(rng, clause, role))
        if rng.random() < 0.12 and (extra := missing(rng, clause)):
            exchanges.append(extra)
        if rng.random() < 0.12 and (doubt := doubted(rng, clause)):
            exchanges.append(doubt)
    return Written((), tuple(exchanges), 0)
