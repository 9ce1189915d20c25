"""Generates single turns: the user's message, pocket's thinking and its reply."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from training.pocket import about, arithmetic, beyond, facts
from training.pocket import words as w
from training.pocket.about import Topic
from training.pocket.facts import Fact
from training.pocket.phrases import capital, expand, fill, listed, roughen
from training.pocket.values import Source, name, thing

OPENERS = (
    "By the way, ",
    "Just so you know, ",
    "Remember: ",
    "Please remember that ",
    "Remember that ",
    "Note that ",
    "FYI, ",
    "Oh, and ",
    "Also, ",
    "So, ",
    "Well, ",
    "Hey, ",
    "Fun fact: ",
    "Please keep in mind that ",
    "I want you to know that ",
    "You should know that ",
    "Ok. ",
    "And ",
    "Don't forget: ",
    "For your information: ",
    "Let me tell you something: ",
    "Please note: ",
    "Hi! ",
    "Hello. ",
    "Listen: ",
    "Another thing: ",
    "One more thing: ",
    "Before I forget, ",
    "Keep in mind that ",
    "I should mention that ",
    "Please remember this: ",
    "Btw ",
    "Now, ",
)
FIXES = (
    "Actually, ",
    "No, ",
    "Sorry, ",
    "Correction: ",
    "Wait, ",
    "I was wrong, ",
    "I made a mistake: ",
    "Actually ",
    "Oh no, ",
    "Things changed: ",
    "Update: ",
    "Not any more: ",
    "Change of plan: ",
    "I changed my mind, ",
    "Oops, ",
    "No wait, ",
    "Sorry, I meant ",
    "From now on, ",
    "Now ",
)
TAILS = (
    ", by the way",
    ", you know",
    ", please remember it",
    ". Please remember that",
    ", remember that",
    ". Can you remember that?",
    ". Don't forget it",
    ". Keep that in mind",
    ", just so you know",
    " :)",
    ". It matters to me",
    ", believe it or not",
    ", I think",
    ". Nice, right?",
    ", ok?",
)
ASK_OPENERS = (
    "Hey, ",
    "So, ",
    "Hi! ",
    "Ok, ",
    "Now tell me, ",
    "Quick question: ",
    "Pocket, ",
    "And ",
    "Now, ",
    "By the way, ",
    "Hello, ",
    "One question: ",
    "Well, ",
    "Please tell me: ",
    "Sorry, ",
    "Thanks. ",
    "I wonder, ",
    "Any idea ",
    "I need to know, ",
    "Great. ",
    "Nice. ",
    "Can you help? ",
    "Tell me, ",
    "I'd like to know: ",
)
ASK_TAILS = (
    ", please?",
    " again?",
    ", do you remember?",
    ", do you know?",
    " I told you?",
    ", pocket?",
    " please",
    ", by the way?",
    "? I forgot",
    "? I forget",
    ", can you say?",
    " then?",
    "? Do you know?",
    " exactly?",
)
ASIDES = (
    "It (was|is) a (nice|long|cold|hot|busy|strange) (day|week|morning|evening).",
    "I am (tired|happy|bored|busy|back).",
    "I (just|) (came home|got up|had lunch|finished work).",
    "We (went|walked) to the (park|beach|shop|lake).",
    "How nice to talk to you.",
    "I hope you are well.",
    "This is my first time here.",
    "Let me tell you something.",
    "Here are some facts about me.",
    "I want to test you.",
    "(He|She|It) is (very |so |)(nice|big|small|old|funny|sweet|loud).",
    "(He|She|It) (likes|loves) (to sleep|to play|the garden|long walks|me).",
    "I am quite happy about (it|that).",
    "It is really (great|nice|far|old|useful|important).",
    "You can use it later.",
    "That is important.",
    "Nice, isn't it?",
    "I like it a lot.",
    "I will ask you later.",
    "The (weather|sun|rain|traffic) is (bad|great|awful|nice).",
)
KNOW = (
    "what do you know about me(| so far| now)?",
    "what have I told you(| so far| about me| about myself)?",
    "what do you remember(| about me| so far)?",
    "tell me (everything|what|all) you (know|remember)(| about me).",
    "(list|repeat|summarise|summarize) (everything|what|all the facts) I (told|have told) you(| about me).",
    "what did I tell you(| about me| so far| about myself)?",
    "what facts do you (know|have)(| about me)?",
    "(can|could) you (summarise|summarize|list|repeat) what (you know|I told you)(| about me)?",
    "do you know anything about me?",
    "who am I and what do you know about me?",
    "tell me about me.",
)


@dataclass
class Turn:
    """One exchange. ``sort`` names what it exercises; ``cut`` marks a reply broken off."""

    user: str
    thinking: str
    reply: str
    sort: str
    cut: bool = False


@dataclass
class Desk:
    """Makes turns one after another and remembers the facts told, oldest first."""

    source: Source
    told: list[Fact] = field(default_factory=list)

    @property
    def rng(self) -> Random:
        """The one source of chance."""
        return self.source.rng

    def lower(self) -> bool:
        """Whether a message is typed without capitals."""
        return self.rng.random() < 0.25

    def tell(self, most: int = 4) -> Turn:
        """The user tells new facts."""
        count = min(most, self.rng.choice([1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4]))
        fresh: list[Fact] = []
        for _ in range(count):
            fresh.append(facts.unlike(self.source, self.told + fresh))
        return self._telling(fresh, OPENERS)

    def correct(self) -> Turn:
        """The user changes a fact told before."""
        if not self.told:
            return self.tell()
        old = self.rng.choice(self.told)
        new = Fact(old.kind, old.thing, self.source.draw(old.kind.values))
        before = old.value
        turn = self._telling([new], FIXES if self.rng.random() < 0.8 else OPENERS)
        if self.rng.random() < 0.15:
            turn.user = f"{turn.user.rstrip('.!')}, not {before}"
        return turn

    def _telling(self, fresh: list[Fact], openers: tuple[str, ...]) -> Turn:
        lower = self.lower()
        parts = [fact.tell(self.rng, lower) for fact in fresh]
        text = self._joined(parts, lower)
        start = self.rng.choice(openers) if self.rng.random() < (0.8 if openers is FIXES else 0.3) else ""
        if start:
            text = (start.lower() if lower else start) + soften(start, text, fresh[0].value)
        if self.rng.random() < 0.12:
            aside = roughen(self.rng, expand(self.rng, self.rng.choice(ASIDES)), lower)
            text = self.rng.choice([f"{aside.rstrip('.')}. {text}", f"{text.rstrip('.!')}. {aside}"])
        elif self.rng.random() < 0.1:
            text = text.rstrip(".!") + (self.rng.choice(TAILS).lower())
        text += self.rng.choice([".", ".", "", "", "!"]) if text[-1].isalnum() else ""
        self._note(fresh)
        noted = ". ".join(capital(fact.noted()) for fact in fresh)
        said = listed([fact.says() for fact in fresh])
        return Turn(
            text,
            f"The user tells me: {soft(noted)}.",
            f"Nice, {said}. I will remember that.",
            "tell" if len(fresh) == 1 else "tell more",
        )

    def _joined(self, parts: list[str], lower: bool) -> str:
        text = parts[0].rstrip(".")
        for part in parts[1:]:
            joint = self.rng.choice([". ", ". ", " and ", ", and ", ", ", "; ", "! "])
            text += joint + (part if joint in (". ", "! ") or lower else soften("and ", part, ""))
        return text

    def _note(self, fresh: list[Fact]) -> None:
        keys = {fact.key for fact in fresh}
        old = [fact.key for fact in self.told]
        for fact in fresh:
            if fact.key in old:
                self.told[old.index(fact.key)] = fact
            else:
                self.told.append(fact)
        assert keys <= {fact.key for fact in self.told}

    def ask(self) -> Turn:
        """The user asks for what was told, now and then for two things at once."""
        if not self.told:
            return self.unknown()
        if len(self.told) > 1 and self.rng.random() < 0.1:
            return self._asking(self.rng.sample(self.told, 2))
        return self._asking([self.rng.choice(self.told)])

    def unknown(self) -> Turn:
        """The user asks for what was never told."""
        return self._asking([facts.unlike(self.source, self.told)])

    def half_known(self) -> Turn:
        """Two questions, one of them for what was never told."""
        pair = [facts.unlike(self.source, self.told)]
        if self.told:
            pair.append(self.rng.choice(self.told))
        self.rng.shuffle(pair)
        return self._asking(pair)

    def _asking(self, wanted: list[Fact]) -> Turn:
        lower = self.lower()
        parts = [fact.ask(self.rng, lower) for fact in wanted]
        text = parts[0]
        for part in parts[1:]:
            joint = self.rng.choice([" and ", " And ", " ", ", and "])
            text = (
                text.rstrip("?.") + joint + soften("and ", part, "")
                if "and" in joint
                else text + joint + part
            )
        if self.rng.random() < 0.1:
            text = text.rstrip(".?") + self.rng.choice(ASK_TAILS)
        if self.rng.random() < 0.12:
            start = self.rng.choice(ASK_OPENERS)
            text = (start.lower() if lower else start) + soften(start, text, "")
        known = [any(fact is other for other in self.told) for fact in wanted]
        thoughts = [
            f"The user asks for {fact.topic()}. "
            + (f"They said: {fact.value}." if told else "They have not told me.")
            for fact, told in zip(wanted, known, strict=True)
        ]
        replies = [
            capital(fact.says()) + "." if told else f"You have not told me {fact.lack()} yet."
            for fact, told in zip(wanted, known, strict=True)
        ]
        sort = ("ask" if all(known) else "unknown") + (" two" if len(wanted) > 1 else "")
        return Turn(text, " ".join(thoughts), " ".join(replies), sort)

    def who(self) -> Turn:
        """The user asks who somebody is, by name."""
        named = [fact for fact in self.told if fact.kind.who]
        known = bool(named) and self.rng.random() < 0.7
        fact = self.rng.choice(named) if known else None
        value = fact.value if fact else name(self.rng)
        if not fact and any(value.lower() == other.value.lower() for other in self.told):
            return self.tell()
        pattern = expand(
            self.rng,
            "(who is [v]|who's [v]|do you know who [v] is|tell me who [v] is|and who is [v])(?|)",
        )
        text = fill(roughen(self.rng, pattern, False), v=value)
        if fact:
            slots = fact.slots()
            thinking = f"The user asks who {value} is. They said: {fact.noted()}."
            return Turn(text, thinking, f"{capital(value)} is {slots['y']}.", "who")
        thinking = f"The user asks who {value} is. They have not told me."
        return Turn(text, thinking, f"You have not told me who {value} is yet.", "who")

    def know(self) -> Turn:
        """The user asks for everything told."""
        if len(self.told) > 5:
            return self.ask()
        text = roughen(self.rng, expand(self.rng, self.rng.choice(KNOW)), self.lower())
        if not self.told:
            return Turn(
                text,
                "The user asks what I know. They have not told me anything.",
                "You have not told me anything about you yet.",
                "know",
            )
        noted = ". ".join(capital(fact.noted()) for fact in self.told)
        reply = f"You told me: {listed([fact.says() for fact in self.told])}."
        return Turn(text, f"The user asks what I know. {noted}.", reply, "know")

    def tell_and_ask(self) -> Turn:
        """A fact and, in the same message, a question for it or another."""
        turn = self.tell(1)
        wanted = self.told[-1] if self.rng.random() < 0.5 else self.rng.choice(self.told)
        question = self._asking([wanted])
        text = turn.user.rstrip(".!") + ". " + question.user
        return Turn(text, f"{turn.thinking} {question.thinking}", question.reply, "tell and ask")

    def sum(self) -> Turn:
        """The user wants a sum or a difference."""
        found = arithmetic.draw(self.rng, self.source.held)
        text = arithmetic.ask(self.rng, found, self.lower())
        if self.rng.random() < 0.08:
            text = self.rng.choice(ASK_OPENERS) + soften("and ", text, "")
        if self.rng.random() < 0.06:
            text = text.rstrip(".?") + self.rng.choice(
                [" please", ", please?", " for me", " for me?", " then?", " thanks"]
            )
        return Turn(text, found.thinking(), found.answer(), "sum")

    def topic(self, topics: tuple[Topic, ...], sort: str) -> Turn:
        """One of the fixed exchanges."""
        found = self.rng.choices(topics, [each.weight for each in topics])[0]
        text = roughen(self.rng, expand(self.rng, self.rng.choice(found.asks)), self.lower())
        text = self._numbers(text)
        if self.rng.random() < 0.1 and sort != "talk":
            text = self.rng.choice(ASK_OPENERS) + soften("and ", text, "")
        return Turn(text, found.thinking, found.reply, sort)

    def _numbers(self, text: str) -> str:
        while "[d]" in text:
            text = text.replace("[d]", str(self.rng.randint(2, 99)), 1)
        while "[h]" in text:
            text = text.replace("[h]", str(self.rng.randint(100, 9999)), 1)
        return text

    def beyond(self) -> Turn:
        """The user wants what pocket cannot do."""
        text = expand(self.rng, self.rng.choice(beyond.ASKS))
        for slot, pool in (
            ("t", beyond.THEMES),
            ("c", beyond.COUNTRIES),
            ("s", beyond.TASKS),
            ("l", beyond.TONGUES.split()),
            ("p", beyond.CODES.split()),
        ):
            while f"[{slot}]" in text:
                choice = self.rng.choice(pool)
                if slot == "t" and self.rng.random() < 0.3:
                    choice = f"{self.rng.choice(['the ', 'a ', ''])}{thing(self.rng)}"
                text = text.replace(f"[{slot}]", choice, 1)
        text = roughen(self.rng, text, self.lower())
        if self.rng.random() < 0.15:
            text = self.rng.choice((*ASK_OPENERS, "Please ", "Can you ")) + soften("and ", text, "")
        return Turn(text, beyond.THINKING, beyond.REPLY, "beyond")


def soft(text: str) -> str:
    """The text as it is: a place for sentences after a colon."""
    return text


def soften(start: str, text: str, value: str) -> str:
    """The text with a small first letter where it goes on after a comma or a word."""
    first = text.split(" ", 1)[0].rstrip(",.?")
    keep = start.rstrip().endswith((".", "!", ":")) or first in ("I", "I'm", "I've", "I'd")
    proper = first in w.NAMES or first in w.PLACES or (value and value.startswith(first))
    known = first.lower() in STARTS
    return text if keep or proper or not known else text[:1].lower() + text[1:]


STARTS = set(
    re.findall(
        r"[a-z']+",
        "my the our what what's which where where's who who's when when's how do can could tell "
        "remind we there you call people home on in at people this it as for of if everyone please "
        "is are write give explain translate why should say add take subtract calculate compute",
    )
)
Maker = Callable[[Desk], Turn]
MAKERS: dict[str, Maker] = {
    "tell": Desk.tell,
    "ask": Desk.ask,
    "unknown": Desk.unknown,
    "half": Desk.half_known,
    "correct": Desk.correct,
    "who": Desk.who,
    "know": Desk.know,
    "both": Desk.tell_and_ask,
    "sum": Desk.sum,
    "beyond": Desk.beyond,
    "talk": lambda desk: desk.topic(about.TALK, "talk"),
    "self": lambda desk: desk.topic(about.SELF, "self"),
    "command": lambda desk: desk.topic(about.COMMANDS, "command"),
    "limit": lambda desk: desk.topic(about.LIMITS, "limit"),
}
