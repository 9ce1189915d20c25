"""Tellings as strangers phrase them: contrasts, people with pronouns, lists; facts go to the desk."""

from __future__ import annotations

from random import Random

from . import words as w
from .deeds import HOME, OTHERS, SELF
from .facts import Fact, unlike
from .kinds import PERSON, PET, Kind
from .phrases import capital, expand, fill
from .values import Source

BY_TOPIC: dict[str, Kind] = {kind.topic: kind for kind in SELF}
BORN, FORMER = BY_TOPIC["where they were born"], BY_TOPIC["where they used to live"]
FROM, GREW = BY_TOPIC["where they are from"], BY_TOPIC["where they grew up"]
WORK, JOB = BY_TOPIC["where they work"], BY_TOPIC["their job"]
LIKE, HATE = BY_TOPIC["what they like"], BY_TOPIC["what they do not like"]
NOW = "(now |these days |today |currently |)"
LATER = "(| now| these days| today| at the moment)"
BUT = "(, but | but | and | and |, |, and |; )"
CONTRASTS: tuple[tuple[Kind, Kind, str], ...] = (
    (BORN, HOME, f"I was born in [a]{BUT}{NOW}I live in [b]{LATER}"),
    (BORN, HOME, f"(I'm living|I live|home is) in [b]{LATER}(, but | but |, although )I was born in [a]"),
    (BORN, HOME, f"born in [a], (living|now living|now) in [b]{LATER}"),
    (BORN, HOME, f"I was born in [a]{BUT}{NOW}my home is in [b]"),
    (BORN, HOME, "I was born in [a] and (later|then) moved to [b]"),
    (BORN, GREW, "I was born in [a](, but| but| and) (I |)grew up in [b]"),
    (GREW, HOME, f"I grew up in [a]{BUT}{NOW}I live in [b]{LATER}"),
    (GREW, HOME, "I grew up in [a] (before|and then) (moving|I moved) to [b]"),
    (FROM, HOME, f"I'm (originally |)from [a]{BUT}{NOW}(I |I'm )(live|living|based) in [b]{LATER}"),
    (FROM, HOME, f"I come from [a]{BUT}(I |){NOW}live in [b]{LATER}"),
    (FORMER, HOME, f"I used to live in [a]{BUT}{NOW}(I'm|I am|I live|I'm living) in [b]{LATER}"),
    (FORMER, HOME, "I used to live in [a](, now | but now |; now )(I'm|it's|I am|I live) in [b]"),
    (FORMER, HOME, "I (just |recently |)moved from [a] to [b](| last year| last month| recently|)"),
    (FORMER, HOME, "(we|I) (moved|relocated) (from [a] to [b]|to [b] from [a])(| in the spring|)"),
    (FORMER, HOME, f"I lived in [a] (before|for years|once|for a while){BUT}{NOW}I live in [b]"),
    (FORMER, HOME, f"I (left|moved away from) [a] and {NOW}(live|settled) in [b]{LATER}"),
    (FORMER, HOME, "before (I moved to|moving to|coming to) [b](,|) I lived in [a]"),
    (HOME, WORK, "I live in [a] (but|and|but I|and I) work (at|for) [b]"),
    (HOME, JOB, "I live in [a] (and|, and) (I |)work as a [b]"),
    (JOB, WORK, "I (work as|am) a [a] (at|for) [b]"),
    (JOB, HOME, "I'm a [a] (from|in|living in|based in) [b]"),
    (LIKE, HATE, "I (like|love) [a](, but | but |, )I (hate|can't stand|don't like|dislike) [b]"),
    (HATE, LIKE, "I (don't like|hate|dislike) [a](, but | but )I (do |)(like|love) [b]"),
)
SHE = "sister wife mother mum mom daughter aunt niece grandmother grandma girlfriend granny".split()
HE = "brother husband father dad son uncle nephew grandfather grandpa boyfriend".split()
MEET_PERSON = (
    "[x]'s name is [v]",
    "[x] is (called|named) [v]",
    "I have a [n] called [v]",
    "[v] is [x]",
    "the name of [x] is [v]",
    "[x] is [v]",
    "this is about [x] [v]",
)
INTROS = (
    "(Three|Some|A few|Several) (things|facts) about me: ",
    "[k] (things|facts|details) (about me|about myself|to remember|you should know|for you): ",
    "(Please |)remember (these|the following|this|all of this|these things|these [k] things): ",
    "(Here are|Here come|I have) [k] (things|facts)(| about me| to remember): ",
    "(Please |)(keep in mind|note|memorise|save|store)(| the following| these facts): ",
    "(Let me|I'll|I want to) tell you [k] things: ",
    "(About me|Facts|Quick intro|My notes|Info|Things to remember|Intro|A bit about me): ",
    "",
)
COUNTS = ("no", "one", "two", "three", "four", "five", "six")


def contrast(source: Source, lower: bool) -> tuple[str, list[Fact]]:
    """Two facts about the user in one sentence, set against one another."""
    rng = source.rng
    first, second, pattern = rng.choice(CONTRASTS)
    one, two = source.draw(first.values), source.draw(second.values)
    while two.lower() == one.lower():
        two = source.draw(second.values)
    if lower:
        one, two = one.lower(), two.lower()
    text = fill(cased(rng, expand(rng, pattern), lower), a=one, b=two)
    return text, [Fact(first, "", one), Fact(second, "", two)]


def cased(rng: Random, text: str, lower: bool) -> str:
    """A pattern with its first letter a capital, or all small; now and then without apostrophes."""
    text = text.replace(" ,", ",")
    if rng.random() < (0.4 if lower else 0.06):
        text = text.replace("'", "")
    return text.lower() if lower else capital(text)


def pronoun(rng: Random, relation: str) -> str:
    """He or she, as the relation wants."""
    last = relation.rsplit(" ", 1)[-1]
    return "she" if last in SHE else "he" if last in HE else rng.choice(["he", "she"])


def kin(source: Source, lower: bool) -> tuple[str, list[Fact]]:
    """Somebody's name, and one or two things about them, mostly by pronoun."""
    rng = source.rng
    animal = rng.random() < 0.2
    thing = f"my {rng.choice(w.ANIMALS if animal else w.PEOPLE)}"
    who = source.draw("pet" if animal else "name")
    kinds = [k for k in OTHERS if not animal or k.values in ("age", "food")]
    kinds = rng.sample(kinds, min(len(kinds), rng.choice([1, 1, 1, 2])))
    if not animal and rng.random() < 0.4:
        job = next(kind for kind in OTHERS if kind.values == "job")
        kinds = [job, *(kind for kind in kinds[1:] if kind is not job)]
    who = who.lower() if lower else who
    facts = [Fact(PET if animal else PERSON, thing, who)]
    for kind in kinds:
        value = source.draw(kind.values)
        facts.append(Fact(kind, thing, value.lower() if lower else value, alias=who))
    text = _apposed(rng, facts, lower) if rng.random() < 0.35 else _in_turn(rng, facts, lower)
    return text, facts


def _said(rng: Random, fact: Fact, subject: str, lower: bool) -> str:
    """One of a kind's tellings with another subject."""
    pattern = rng.choice([p for p in fact.kind.tell if p.startswith("[x] ")])
    pattern = expand(rng, pattern)
    text = pattern.lower() if lower else pattern
    return fill(text, x=subject, v=fact.value)


def _apposed(rng: Random, facts: list[Fact], lower: bool) -> str:
    """ "My brother Tom is a nurse and lives in Oslo"."""
    head, *rest = facts
    joint = rng.choice([" [v]", " [v]", ", [v],", " ([v])"])
    start = fill(f"{head.thing}{joint}", v=head.value)
    text = _said(rng, rest[0], start if lower else capital(start), lower)
    for fact in rest[1:]:
        text += rng.choice([" and ", ". "]) + _said(rng, fact, pronoun(rng, head.thing), lower)
    return text if lower else _sentences(text)


def _in_turn(rng: Random, facts: list[Fact], lower: bool) -> str:
    """ "My sister's name is Marta. She works as a carpenter"."""
    head, *rest = facts
    pattern = cased(rng, expand(rng, rng.choice(MEET_PERSON)), lower)
    slots = {"x": head.thing, "n": head.thing.removeprefix("my "), "v": head.value}
    text = capital(fill(pattern, **slots)) if not lower else fill(pattern, **slots)
    word = pronoun(rng, head.thing)
    subject = rng.choice([word, word, word, head.value, head.thing])
    for fact in rest:
        joint = rng.choice([". ", ". ", ". ", " and ", ", and ", "; ", ", ", "\n"])
        said = _said(rng, fact, subject, lower)
        text += joint + (said if lower or joint not in (". ", "\n") else capital(said))
        subject = word
    return text


def _sentences(text: str) -> str:
    return ". ".join(capital(part) for part in text.split(". "))


def several(source: Source, known: list[Fact], lower: bool) -> tuple[str, list[Fact]]:
    """Two to five facts as a list: after a colon, on lines of their own, or numbered."""
    rng = source.rng
    facts: list[Fact] = []
    for _ in range(rng.choice([2, 3, 3, 3, 3, 4, 5])):
        facts.append(unlike(source, known + facts))
    parts = [fact.tell(rng, lower).rstrip(".!?") for fact in facts]
    intro = expand(rng, rng.choice(INTROS)) + " " if rng.random() < 0.8 else ""
    intro = capital(intro.replace("[k]", COUNTS[len(facts)]).replace("Three", COUNTS[len(facts)]))
    text = _laid(rng, [_softer(p) for p in parts] if intro.strip() else parts)
    joint = intro.rstrip() + "\n" if text.startswith(("- ", "1", "* ")) else intro
    text = (joint if intro.strip() else "") + text
    return text.lower() if lower else text, facts


def _softer(text: str) -> str:
    start = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if start in ("My", "The", "You", "Our", "We") else text


def _laid(rng: Random, parts: list[str]) -> str:
    """The parts as a sentence or as lines."""
    mark = rng.choice([", ", ", ", ", ", "\n", "\n", "; ", ". ", "- ", "1. ", "1) ", "* "])
    if mark in ("- ", "* "):
        return "\n".join(mark + part for part in parts)
    if mark[0] == "1":
        return "\n".join(f"{i + 1}{mark[1:]}{part}" for i, part in enumerate(parts))
    if mark in (", ", "; ") and rng.random() < 0.8:
        joint = rng.choice([" and ", ", and ", " and ", mark + "and "])
        return mark.join(parts[:-1]) + joint + parts[-1]
    return mark.join(parts)


def counted(rng: Random, count: int) -> str:
    """A question for everything told, which names how many things that was."""
    return fill(
        expand(
            rng,
            "((what|which) (are the |) [k] (things|facts) (did I tell you|have I told you|I told you)"
            "(| about me)?|(list|repeat|name|tell me) the [k] (things|facts) (I told you|you know)."
            "|what were the [k] (things|facts)?|what [k] things do you know about me?)",
        ),
        k=COUNTS[count],
    )

