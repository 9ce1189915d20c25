"""Generates single turns: the user's message, pocket's thinking and its reply."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from training.pocket import facts
from training.pocket import words as w
from training.pocket.advert import says_advert
from training.pocket.deeds import SELF
from training.pocket.facts import Fact
from training.pocket.grammar import PRONOUNS, about, genitive, singular
from training.pocket.kinds import EVENT, MANY, MEET, PERSON, PET, PLACED
from training.pocket.passages import Passage, Question, content
from training.pocket.people import ME, SHARED, Deed, Who, draw_deed, draw_who
from training.pocket.phrases import capital, expand, fill, framed, listed, roughen
from training.pocket.said_back import acknowledged
from training.pocket.scenes import CHANGES, FAMILIES, draw_passage
from training.pocket.statements import Statement, draw_statement, object_of, plural
from training.pocket.values import Source, name, thing

Known = Fact | Deed | Statement | Passage

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
    "Please remember a few things: ",
    "About me: ",
    "Remember this for later: ",
    "A few facts: ",
    "Nice to meet you. ",
    "Quick intro: ",
    "Hi there, ",
    "hey pocket, ",
    "Guess what, ",
    "To be clear, ",
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
DISTRACTIONS = (
    "[but] (I|we) used to (like|have|say|use) [v]",
    "[but] (before that|earlier|last year|in the past) it was [v]",
    ", not [v]",
    ", (and |)(not|no longer|never) [v]",
    " instead of [v]",
    " (rather than|and not|but not) [v]",
    " ((it was|formerly|once) [v](| before))",
    "[but] my [p] (says|thinks|prefers|likes|wants) [v]",
    " because (I like it|of my [p]|it is [a]|that is how it is|it was [a])",
    ", which (is [a]|I love|makes me happy|is a long story|my [p] hates)",
    "[but] (don't tell anyone|that is a secret|it may change|I am not proud of it|nobody knows)",
    ", (thanks to my [p]|as my [p] always says|and that is that|and I am happy about it)",
)
READ = (
    "(here is|this is) (a text|an article|a story|a note|a page|something)(:| for you:|.)",
    "(listen|look)(:|.)",
    "I (found|read|heard|copied) (this|something|a story|an article)(:| today:| yesterday.|.)",
    "(some|a few) (notes|lines|words|news)(:|.)",
    "just (a story|some text|chatting)(:|.)",
)
LOOKS = (
    "(was|is|seems|looks) (quiet|busy|full|empty|closed|open|loud|warm|lost|famous)"
    "(| in (summer|winter|spring)| at night)",
    "(lies|stood|hangs|waits) (by|behind|over|between) the (river|road|hill|trees|houses|walls)",
    "was (sold|moved|painted|built|burnt|made|broken) (again|twice|long ago|by hand|in a hurry)",
    "(has|had) (no|a|its own) (name|smell|roof|story|garden|sound|owner)",
    "(came|goes|went) (up|down|away|back|home) (slowly|at last|every year|with the rain)",
)
BUTS = (" but ", ", but ", ", although ", ", though ", ". Well, ", " even though ")
ELLIPTIC = (
    "(no|sorry|oops|wait|actually|correction|hmm)(, |: | - |... )[v]",
    "(actually|no|sorry|wait|oops)(, | )(it's|it is|that's|I meant|make it|I mean|it should be) [v]",
    "I (meant|mean) [v]( instead|, sorry|)",
    "(scratch|strike|forget) that(, |: |. )[v]",
    "(scratch|strike|forget) that(, |: |. )(it's|it is|I meant|make it) [v]",
    "(no no|no wait|oh no|oh wait|hang on|hold on|wait wait)(, |, it's |, I meant )[v]",
    "(hmm|hm|um), no(. It's|, it's|. It is) [v](| actually|. Always was)",
    "(that was|that's|that is) (wrong|not right|a mistake|false)(, |: |, it's |. It's |. I meant )[v]",
    "(wrong|mistake|my bad|my mistake|typo|misspelled|let me correct that)(, |: |, it's )[v]",
    "(*[v]|[v]*)",
    "[v](, I mean|, sorry| actually| rather|, I meant|, that is)",
    "it's (actually|really|rather) [v]",
    "(that|it) (should|must) (be|say|read|have been) [v]",
    "I (got|had|said|wrote|typed) (that|it) wrong(, |: |, it's |. It's )[v]",
    "(I lied|I was wrong|I misspoke)(, it's |, |: )[v]",
    "correct (that|it) to [v](| please)",
    "(change|make) (that|it) (to|into|) [v](| please)",
    "(please |)(change|correct) (that|it)(: |, it's )[v]",
    "(no|nope|nah)! [v]!",
    "(sorry|oops), (typo|wrong|my mistake)(: |, it is |, I meant )[v]",
    "did I say that? I meant [v]",
)
REPLACING = (
    "(I meant|it's|it is|make that) [v], not [w]",
    "[v], not [w](|, sorry)",
    "not [w](,| but) [v]",
    "(forget|scratch) [w](, |: |. )(it's|it is|I meant|make it) [v]",
    "not [w]! [v]!",
    "replace [w] (with|by) [v]",
    "[v] instead of [w]",
    "I said [w] but (I meant|it is|it's) [v]",
    "it used to be [w], now it's [v]",
    "[w] is wrong, it's [v]",
    "[w] should be [v]",
    "not [w] any more, now it's [v]",
    "(change|correct) [w] (to|into) [v](| please)",
    "(sorry|oops|no|wait), [v], not [w]",
    "(where|when) I said [w] I meant [v]",
)
SECOND_THOUGHTS = (
    ", no wait, [v]",
    ", sorry, I meant [v]",
    ". No, [v]",
    "... actually [v]",
    ". Sorry, I mean [v]",
    ", I mean [v]",
    ". Oops, [v]",
    ". Scratch that, [v]",
    " - scratch that, [v]",
    ". Wait, [v]",
    ", or rather [v]",
    ". Correction: [v]",
    ". Hmm, no, [v]",
    ", no, [v]",
    " - no, [v]",
    ", no sorry [v]",
    ", sorry [v]",
    ", wait no [v]",
    " no wait [v]",
    ", no make that [v]",
    ", make that [v]",
    " i mean [v]",
    ", ugh, [v]",
    ". Sorry, [v]",
)
ABOUT = (
    "what do you know about [x]?",
    "(tell me|say) (everything|all|what you know) about [x](|.)",
    "what (did I|have I) (tell|say|told) (you |)about [x]?",
    "what do you remember about [x]?",
    "what (can you tell me|have I told you) about [x]?",
)
WHO = (
    "(who is [v]|who's [v]|do you know who [v] is|tell me who [v] is|and who is [v]|who was [v](| again))(?|)"
)
WHAT = "(what is [v]|what's [v]|what sort of animal is [v]|what kind of animal is [v]|what animal is [v])(?|)"
PETS = (
    "(what|which) (pets|animals) do I have(| again| at home)?",
    "(tell me|what do you know) about my (pets|animals)(|.)",
    "what are my (pets|animals)(| called)?",
    "do I have (any |)(pets|animals)?",
    "(name|list) my (pets|animals)(| please).",
    "what are the names of my (pets|animals)?",
)
FAMILY = (
    "who is in my family?",
    "(tell me|what do you know) about my (family|family and friends|friends and family|relatives)(|.)",
    "(name|list) my (family|relatives|friends)(| please).",
    "(which|what) (people|relatives) did I (mention|tell you about)?",
    "who did I (mention|tell you about)?",
)
FIRST = (
    "what did I (say|tell you|write|type) (first|at first|in the beginning|at the beginning|at the start)?",
    "what was (my first message|the first thing I (said|told you|wrote|typed))?",
    "(repeat|quote|tell me|say) my first message(.|)",
    "how did I (start|begin) this (conversation|chat)?",
    "what were my first words?",
    "what was the (very |)first thing I (told you|said to you|said|wrote|typed)?",
    "how did our (chat|talk|conversation) (begin|start)?",
    "what did I open with?",
    "what did my (very |)first (message|line|sentence) say?",
    "do you (remember|recall|know) (what I said first|my first message|how I began)?",
    "(go back|scroll up) to the (start|beginning|top)(:|,) what did I (say|write|tell you)?",
    "my (very |)first (message|line|sentence)(|, what was it)?",
    "the first thing I (said|told you|wrote), what was it(| again)?",
    "which words did I (begin|start|open) with?",
    "with what did I (begin|start)?",
)
JUST = (
    "what did I (just |)(say|write|tell you)(| just now| a moment ago)?",
    "what's the last thing I (said|told you|wrote|typed)?",
    "what did I (tell you|say|write) last?",
    "what was (my last message|the last thing I (said|told you|wrote|typed))?",
    "(repeat|quote|say again) (my last message|what I just said|what I said)(.|)",
    "what did I say (last|before this|right before)?",
    "what did my last (message|line|sentence) say?",
    "(can|could) you (repeat|say again) what I (just |)(said|wrote|typed|told you)?",
    "what were my last words?",
    "what did I just (send|type|mention)?",
    "my last (message|line|sentence)(|, what was it)?",
    "say back what I (just |)(said|wrote|told you)(| please).",
    "what was it I just (said|told you|wrote)?",
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
    "what do you have on me(| so far)?",
    "what have you (learned|learnt|noted|kept|written down) (about me|so far|about me so far)?",
    "(sum|wrap) up what (I told you|you know|I have told you)(| about me)(| please).",
    "(give me|I want|make) a summary of (me|what I (told you|said)|what you know about me)(| please)",
    "what('s| is| do you have) in your memory(| about me)?",
    "let's see what you (remember|kept|know)(| about me)",
    "(recap|recap please|please recap)(| what I told you| everything I told you)",
    "what did you (learn|find out|write down|keep|note) about me?",
    "(repeat|say|read) back (everything|all|what) I told you(| please).",
    "what (things|facts) did I tell you(| about me| so far)?",
    "(describe|summarise|summarize) me(| please)(| in a few words).",
    "tell me about myself(| please).",
    "all you know about me(|, please)?",
    "(so |ok |and )what do you know(| now| by now| so far)?",
    "(show|prove) me what you (remember|know about me|have remembered)(|.)",
    "how much do you know about me?",
    "what all did I (tell|say to) you?",
)


@dataclass
class Turn:
    """One exchange. ``sort`` names what it exercises; ``cut`` marks a reply broken off.

    ``meant`` is the message before a hasty hand slipped on it, ``bound`` a question that is one only after
    the turn before, ``told`` what a message tells beside what it is answered to. What is asked was told in
    the message number ``place`` of the conversation, if that is known.
    """

    user: str
    thinking: str
    reply: str
    sort: str
    cut: bool = False
    meant: str = ""
    bound: bool = False
    told: str = ""
    place: int | None = None

    def __post_init__(self) -> None:
        self.meant = self.meant or self.user


JOINTS = {
    "it": (". ", ". ", ". ", ". ", ", ", " and ", "; ", "\n"),
    "labels": (". ", ". ", ", ", ", ", ", ", "; ", "\n", "\n"),
}
ABOUT_PASSAGE = {
    "list": "a list",
    "not": "what is not so",
    "compare": "who is more than who",
    "kinship": "who is who",
    "it": "a thing",
    "numbers": "how many or how much",
    "roles": "who does what",
    "event": "what happened",
    "appointment": "an appointment",
    "former": "what was and what is",
    "labels": "things under labels",
}
MANY_TOLD = 6
MANY_LETTERS = 500


@dataclass
class Desk:
    """Makes turns one after another and remembers the facts told, oldest first."""

    source: Source
    told: list[Known] = field(default_factory=list)
    people: list[Who] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    advert: bool = True
    latest: tuple[Known, ...] = ()
    focus: Who | None = None
    passage: Passage | None = None
    telling: int = -1
    # Each fact, by its identity, and the number of the message that told it.
    places: dict[int, tuple[Known, int]] = field(default_factory=dict)

    @property
    def rng(self) -> Random:
        """The one source of chance."""
        return self.source.rng

    def lower(self) -> bool:
        """Whether a message is typed without capitals."""
        return self.rng.random() < 0.25

    def record(self, turn: Turn) -> Turn:
        """Note what was said; only a telling of one fact can be put right in a word."""
        self.advert = self.advert and not says_advert(turn.reply)
        if turn.sort not in ("tell", "tell more"):
            self.latest = ()
        for who in self.people:
            who.near = who is self.focus
        for fact in self.told:
            if isinstance(fact, Passage):
                fact.near = fact is self.passage
        self.passage = None
        self.focus = None
        if not self.said or self.said[-1] is not turn.user:
            self.said.append(turn.user)
        if turn.sort.startswith(TELLING):
            self.telling = len(self.said) - 1
        for known in self.told:
            self.places.setdefault(id(known), (known, len(self.said) - 1))
        return turn

    def place(self, fact: Known) -> int | None:
        """The number of the message that told a fact."""
        return self.places[id(fact)][1] if id(fact) in self.places else None

    # What is told.

    def tell(self, most: int = 4) -> Turn:
        """The user tells new facts, in as many sentences as come."""
        left = min(most, self.rng.choice([1, 1, 1, 1, 2, 2, 2, 3, 3, 4]))
        lower = self.lower()
        sentences: list[str] = []
        fresh: list[Known] = []
        while left > 0:
            chance = self.rng.random()
            some: list[Known]
            if chance < 0.07 and left > 1 and not fresh:
                some, said_ = self._profile(lower)
                sentences += [said_] if some else []
                left -= not some
            elif chance < 0.13 and left > 1:
                some, said_ = self._gapped(fresh, lower) if chance < 0.1 else self._alike(fresh, lower)
                sentences += [said_] if some else []
                left -= not some
            elif chance < 0.38:
                thing_ = self._thing(fresh)
                sentences.append(thing_.tell(self.rng, lower, self.source.held).rstrip(".!"))
                self._name(thing_)
                some = [thing_]
            elif chance < 0.68:
                some = self._deeds(ME, min(left, self.rng.choice([1, 1, 2, 2, 3])), fresh)
                said = self._mine(some, lower)
                if self.rng.random() < 0.15 and left > len(some):
                    more, said[-1] = self._household(some[-1], said[-1], [*fresh, *some], lower)
                    some += more
                sentences += said
            else:
                some = self._others(left, lower, fresh, sentences)
            fresh += some
            left -= len(some)
        return self.record(self._telling(fresh, sentences, lower, OPENERS))

    def _thing(self, fresh: list[Known]) -> Fact:
        while True:
            fact = facts.draw(self.source)
            if not self._clashes(fact, fresh):
                return fact

    def _name(self, fact: Known) -> None:
        """Know somebody by the name that a fact gives them."""
        if not isinstance(fact, Fact) or fact.kind not in (PERSON, PET):
            return
        for who in self.people:
            if who.noun == fact.thing.lower() or who.noun == fact.thing:
                who.name = fact.value
                return
        self.people.append(Who(fact.thing, fact.value, self.rng.choice(["he", "she"]), fact.kind is PET))

    def _deeds(self, who: Who, count: int, fresh: list[Known]) -> list[Known]:
        found: list[Known] = []
        for _ in range(40):
            if len(found) == count:
                break
            free = self.rng.random() < 0.45 or who.thing
            deed = draw_statement(self.source, who) if free else draw_deed(self.source, who)
            if not self._clashes(deed, [*fresh, *found]):
                found.append(deed)
        return found or [draw_statement(self.source, who)]

    def _clashes(self, fact: Known, fresh: list[Known]) -> bool:
        """Whether a question for the fact could ask for another one told."""
        words: frozenset[str] = frozenset()
        for other in [*self.told, *fresh]:
            if isinstance(other, Passage):
                words = words or means(fact)
                if words & other.words():
                    return True
            elif isinstance(fact, Passage):
                words = words or fact.words()
                if words & means(other):
                    return True
            elif isinstance(fact, Fact) and isinstance(other, Fact):
                if facts.clashes(fact, other):
                    return True
            elif not isinstance(fact, Fact) and not isinstance(other, Fact):
                same = fact.who is other.who and alike(fact, other)
                if same or fact.key == other.key:
                    return True
            elif isinstance(fact, Fact) and not isinstance(other, Fact):
                named = fact.thing == other.who.noun and bool(other.who.name)
                if named and fact.kind in (PERSON, PET):
                    return True
        return False

    def _mine(self, some: list[Known], lower: bool) -> list[str]:
        clauses = [fact.clause(self.rng, "I", self.source.held, lower) for fact in some]  # type: ignore[union-attr]
        return self._coordinated(clauses, "I ")

    def _gapped(self, fresh: list[Known], lower: bool) -> tuple[list[Known], str]:
        """Several names in one breath: "my dog is called Rex, my cat Momo"."""
        found: list[Fact] = []
        while len(found) < self.rng.choice([2, 2, 3]):
            kind = self.rng.choice([PET, PET, PERSON])
            fact = facts.draw(self.source, kind)
            if fact.thing.startswith("my ") and not self._clashes(fact, [*fresh, *found]):
                fact.value = fact.value.lower() if lower else fact.value
                found.append(fact)
                self._name(fact)
        start = self.rng.choice(
            [
                "{x} is called {v}",
                "{x} is {v}",
                "{x} is named {v}",
                "{x}'s name is {v}",
                "I have {a} {n} called {v}",
                "I have {a} {n}, {v}",
            ]
        )
        rest = (
            "{a} {n} called {v}"
            if "called" in start and "have" in start
            else "{a} {n}, {v}"
            if "have" in start
            else self.rng.choice(["{x} {v}", "{x} is {v}"])
        )
        parts = []
        for i, fact in enumerate(found):
            noun = fact.thing[3:]
            form = rest if i else start
            parts.append(form.format(x=fact.thing, v=fact.value, n=noun, a=article(noun)))
        return list(found), listed(parts) if self.rng.random() < 0.7 else ", ".join(parts)

    def _profile(self, lower: bool) -> tuple[list[Known], str]:
        """Somebody in a few words: "I'm Ada, 34, a nurse from Oslo", "my aunt (71, from Bern)"."""
        rng = self.rng
        me = rng.random() < 0.6
        who = ME if me else self._new_person()
        if who.thing or (not me and (who.pet or who.pronoun == "they" or not who.noun)):
            return [], ""
        if lower and not me:
            who.name, who.noun = who.name.lower(), who.noun.lower()
        order = [topic for topic in PROFILE if rng.random() < 0.6 and (me or topic != "their name")]
        if len(order) < 2:
            return [], ""
        if rng.random() < 0.3:
            order.sort(key=lambda topic: (topic != "their name", rng.random()))
        found: list[Known] = []
        parts: list[str] = []
        for topic in order:
            deed = draw_deed(self.source, who, PROFILE_KINDS[topic])
            deed.value = deed.value.lower() if lower else deed.value
            if self._clashes(deed, []):
                return [], ""
            found.append(deed)
            parts.append(fill(rng.choice(PROFILE[topic]), v=deed.value))
        joined = listed(parts) if rng.random() < 0.35 else ", ".join(parts)
        if me:
            bare = order[0] == "their name" and rng.random() < 0.25
            return found, joined if bare else rng.choice(["I'm ", "I'm ", "I am "]) + joined
        if who.name:
            called = Fact(PERSON, who.noun, who.name)
            if self._clashes(called, []):
                return [], ""
            found.insert(0, called)
        self.people.append(who)
        full = f"{who.noun} {who.name}".strip()
        return found, rng.choice([f"{full} is {joined}", f"{full} ({', '.join(parts)}) is here"])

    def _household(
        self, deed: Known, clause: str, fresh: list[Known], lower: bool
    ) -> tuple[list[Known], str]:
        """Whom one does it with, by relation and name: "I live in Ghent with my wife Noor"."""
        if not isinstance(deed, Deed) or deed.kind.values != "place" or not clause.endswith(deed.value):
            return [], clause
        fact = facts.draw(self.source, PERSON)
        noun = fact.thing
        if not deed.who.me:
            if deed.who.pronoun == "they" or not noun.startswith("my "):
                return [], clause
            fact.thing = f"{genitive(deed.who.noun or deed.who.name)} {noun[3:]}"
            fact.alias = f"{genitive(deed.who.name)} {noun[3:]}" if deed.who.name else ""
            noun = f"{PRONOUNS[deed.who.pronoun][0]} {noun[3:]}"
        if not fact.thing.startswith("my ") or self._clashes(fact, fresh):
            return [], clause
        fact.value = fact.value.lower() if lower else fact.value
        self._name(fact)
        joint = self.rng.choice([" ", " ", ", "])
        return [fact], f"{clause} with {noun}{joint}{fact.value}"

    def _alike(self, fresh: list[Known], lower: bool) -> tuple[list[Known], str]:
        """The same of several people: "my mother is 61 and my father is 64"."""
        rng = self.rng
        kind = rng.choice(
            [
                k
                for k in SHARED
                if k.values in ("age", "place", "job", "foods", "company", "car", "instrument")
            ]
        )
        people: list[Who] = (
            [who for who in self.people if not who.thing and who.noun][-2:] if rng.random() < 0.4 else []
        )
        while len(people) < rng.choice([2, 2, 3]):
            who = replace(self._new_person(), name="")
            if (
                who.noun.startswith("my ")
                and not who.thing
                and all(who.noun != other.noun for other in people)
            ):
                people.append(who)
        found = [draw_deed(self.source, who, kind) for who in people]
        if any(self._clashes(deed, fresh) for deed in found):
            return [], ""
        for who in people:
            if all(who is not other for other in self.people):
                self.people.append(who)
        pattern, parts = framed(rng, kind.tellings(self.source.held), self.source.held), []
        if "[u]" in pattern or not pattern.startswith("I "):
            pattern = expand(rng, kind.tell[0])
        gap = rng.random() < 0.3 and pattern.endswith("[v]")
        for i, deed in enumerate(found):
            deed.value = deed.value.lower() if lower else deed.value
            subject = deed.who.mention(rng)
            subject = subject.lower() if lower else subject
            said = fill(about(pattern, deed.who.person(subject)), v=deed.value)
            short = pattern.removesuffix("[v]").rstrip().rsplit(" ", 1)[-1]
            prep = f"{short} " if short in ("in", "at", "for", "as", "a", "by") else ""
            parts.append(fill(f"{subject} {prep}{deed.value}") if gap and i else said)
        joint = rng.choice([" and ", " and ", ", ", " but ", "; ", ". ", ", and ", " while "])
        return list(found), joint.join(parts)

    def _coordinated(self, clauses: list[str], start: str) -> list[str]:
        """Sentences of clauses, those that begin alike sometimes joined: "I live in Oslo and paint"."""
        out = clauses[:1]
        for clause in clauses[1:]:
            if out[-1].startswith(start) and clause.startswith(start) and self.rng.random() < 0.55:
                joint = self.rng.choice([" and ", " and ", ", ", " but ", " and also ", ", and "])
                out[-1] += joint + clause[len(start) :]
            else:
                out.append(clause)
        return out

    def _others(self, left: int, lower: bool, fresh: list[Known], sentences: list[str]) -> list[Known]:
        """Facts about somebody else, known or new; their sentences are added."""
        rng = self.rng
        new = not self.people or rng.random() < 0.55
        who = self._new_person() if new else rng.choice(self.people)
        named = new and who.noun and who.name
        if lower and new:
            who.name, who.noun = who.name.lower(), who.noun.lower()
        found: list[Known] = []
        if not new and who.noun and not who.name and rng.random() < 0.4:
            who.name = self._free_name("pet" if who.pet else "name", lower)
            called = Fact(PET if who.pet else PERSON, who.noun, who.name)
            sentences.append(called.tell(rng, lower, self.source.held).rstrip(".!"))
            who.name = called.value
            return [called]
        mention = who.introduced(rng) if new else who.mention(rng)
        mention = mention.lower() if lower else mention
        if named:
            called = Fact(PET if who.pet else PERSON, who.noun, who.name)
            found.append(called)
            if rng.random() < 0.45:
                if rng.random() < 0.6:
                    sentences.append(called.tell(rng, lower, self.source.held).rstrip(".!"))
                    who.name = called.value
                else:
                    sentences.append(rng.choice([f"{who.name} is {who.noun}", f"{who.noun} is {who.name}"]))
                mention = self._again(who)
                if left < 2:
                    self._join(who, new)
                    self.focus = who
                    return found
        elif new and who.noun.startswith("my ") and not who.name and rng.random() < 0.25:
            bare = who.noun[3:]
            sentences.append(f"{rng.choice(['I have', 'I also have', 'there is'])} {article(bare)} {bare}")
            mention = self._again(who)
        some = self._deeds(who, min(left, rng.choice([1, 1, 2, 2, 3])), fresh)
        self._join(who, new)
        subjects = [mention] + [mention if rng.random() < 0.5 else self._again(who) for _ in some[1:]]
        clauses = [
            fact.clause(rng, subject, self.source.held, lower)  # type: ignore[union-attr]
            for fact, subject in zip(some, subjects, strict=True)
        ]
        start = f"{who.pronoun} "
        follows = bool(sentences and found) and mention == who.pronoun and clauses[0].startswith(start)
        if follows and sentences[-1].endswith(who.name) and rng.random() < 0.4:
            joint = rng.choice([" who ", " who ", ", who ", f" and {start}"])
            sentences[-1] += f"{joint}{clauses.pop(0)[len(start) :]}"
        relative = len(clauses) > 1 and subjects[0] == subjects[1] and mention != who.pronoun
        relative = relative and not mention.endswith(",") and rng.random() < 0.5
        if relative and all(clause.startswith(f"{mention} ") for clause in clauses[:2]):
            first, second = (clause[len(mention) + 1 :] for clause in clauses[:2])
            joined = f", who {first}, {second}" if rng.random() < 0.7 else f" {first} and {second}"
            clauses[:2] = [mention + joined]
        said = self._coordinated(clauses, f"{mention} ")
        self.focus = who
        if said and rng.random() < 0.12:
            more, said[-1] = self._household(some[-1], said[-1], [*fresh, *some, *found], lower)
            some += more
        sentences += said
        return found + some

    def _again(self, who: Who) -> str:
        """A pronoun, or another mention."""
        if self.rng.random() < 0.65 and who.pronoun != "they":
            return who.pronoun
        return who.mention(self.rng)

    def _join(self, who: Who, new: bool) -> None:
        if new:
            self.people.append(who)

    def _free_name(self, kind: str, lower: bool) -> str:
        while True:
            found = self.source.draw(kind)
            if all(found.lower() != who.name.lower() for who in self.people):
                return found.lower() if lower else found

    def _new_person(self) -> Who:
        while True:
            who = draw_who(self.source)
            alike_ = any(
                (who.noun and who.noun.lower() == other.noun.lower())
                or (who.name and who.name.lower() == other.name.lower())
                for other in self.people
            )
            taken = any(isinstance(f, Fact) and f.thing.lower() == who.noun.lower() for f in self.told)
            taken = taken or self._in_passage(f"{who.noun} {who.name}")
            if not alike_ and not taken:
                return who

    def _in_passage(self, text: str) -> bool:
        """Whether a passage shares a word with the text."""
        passages = [fact for fact in self.told if isinstance(fact, Passage)]
        return bool(passages) and any(content(text) & passage.words() for passage in passages)

    def _stranger(self) -> Who:
        """Somebody who was never spoken of, by relation or by name."""
        who = self._new_person()
        if who.noun and who.name:
            who = replace(who, name="") if self.rng.random() < 0.6 else replace(who, noun="")
        return who

    def correct(self) -> Turn:
        """The user changes a fact told before, in a sentence or, right after it, in a word."""
        choices = [fact for fact in self.told if isinstance(fact, (Fact, Deed))]
        if self.latest and self.rng.random() < 0.85:
            fact = self.rng.choice(self.latest)
            if isinstance(fact, Statement):
                return self._reworded(fact)
            # Of two things told, the one that is meant is named by its value.
            named = len(self.latest) > 1 or self.rng.random() < 0.3
            if not isinstance(fact, Passage):
                return self._elliptic(fact, REPLACING if named else ELLIPTIC)
        if not choices:
            return self.tell()
        old = self.rng.choice(choices)
        before, lower = old.value, self.lower()
        values = old.kind.values if old.kind.things != "category" else facts.category_values(old.thing)  # type: ignore[union-attr]
        new = replace(old, value=self._other(values, before))
        held = self.source.held
        text = (
            new.tell(self.rng, lower, held)
            if isinstance(new, Fact)
            else new.clause(self.rng, new.who.mention(self.rng), held, lower)
        )
        self._name(new)
        if self.rng.random() < 0.15:
            text = f"{text.rstrip('.!')}, not {before}"
        elif self.rng.random() < 0.15:
            now = self.rng.choice([" now", " these days", " from now on", f", no longer {before}"])
            text = text.rstrip(".!") + now
        openers = FIXES if self.rng.random() < 0.8 else OPENERS
        return self._telling([new], [text.rstrip(".!")], lower, openers, changed=True)

    def _other(self, kind: str, before: str) -> str:
        while True:
            value = self.source.draw(kind)
            if value.lower() != before.lower():
                return value

    def _reworded(self, old: Statement) -> Turn:
        """A statement put right in a word: its place, its object or when it was."""
        rng = self.rng
        new = replace(old)
        lower = self.lower()
        if old.place and rng.random() < 0.6:
            before = old.place
            new.place = f"in {self.source.draw('place')}" if rng.random() < 0.6 else self.source.draw("spot")
            after = new.place = new.place.lower() if lower else new.place
        else:
            before = old.object
            new.object, new.noun, new.many = object_of(self.source, old.pool)
            if lower:
                new.object, new.noun, new.many = new.object.lower(), new.noun.lower(), new.many.lower()
            after = new.object
        if before.lower() == after.lower() or self._clashes_but(new, old):
            return self.ask()
        new.value = new.place.split(" ", 1)[-1] if new.place else new.noun
        frames = REPLACING[:5] if rng.random() < 0.3 else ELLIPTIC[:8]
        text = fill(roughen(rng, framed(rng, frames, self.source.held), lower), v=after, w=before)
        self.told[next(i for i, fact in enumerate(self.told) if fact is old)] = new
        self.latest = ()
        return Turn(text, f"Changed: {new.label()}.", f"Got it, now {new.says()}.", "correct")

    def _clashes_but(self, new: Known, old: Known) -> bool:
        """Whether the new fact would clash with any told but the old one."""
        told = self.told
        self.told = [fact for fact in told if fact is not old]
        clash = self._clashes(new, [])
        self.told = told
        return clash

    def _elliptic(self, old: Fact | Deed, frames: tuple[str, ...]) -> Turn:
        kind = old.kind.values
        if isinstance(old, Fact) and old.thing.startswith("my favourite"):
            kind = facts.category_values(old.thing)
        new = replace(old, value=self._other(kind, old.value))
        lower = self.lower()
        if lower:
            new.value = new.value.lower()
        text = roughen(self.rng, framed(self.rng, frames, self.source.held), lower)
        text = fill(text, v=new.value, w=old.value)
        self._name(new)
        self._note([new])
        return Turn(text, f"Changed: {new.topic()}.", f"Got it, now {new.says()}.", "correct")

    def _telling(
        self,
        fresh: list[Known],
        sentences: list[str],
        lower: bool,
        openers: tuple[str, ...],
        changed: bool = False,
    ) -> Turn:
        rng = self.rng
        text = self._joined(sentences, lower)
        only = fresh[0] if len(fresh) == 1 and isinstance(fresh[0], (Fact, Deed)) else None
        ends = only is not None and text.lower().endswith(only.value.lower())
        if only is not None and ends and not changed and rng.random() < 0.2:
            text += self._distraction(only, lower)
        elif only is not None and ends and not changed and rng.random() < 0.05:
            only.value = self._other(only.kind.values, only.value)
            if lower:
                only.value = only.value.lower()
            text += fill(rng.choice(SECOND_THOUGHTS), v=only.value)
            self._name(only)
        start = rng.choice(openers) if rng.random() < (0.8 if openers is FIXES else 0.25) else ""
        if start:
            text = (start.lower() if lower else start) + soften(start, text, getattr(fresh[0], "value", ""))
        if rng.random() < 0.12:
            aside = roughen(rng, expand(rng, rng.choice(ASIDES)), lower)
            text = rng.choice([f"{aside.rstrip('.')}. {text}", f"{text.rstrip('.!')}. {aside}"])
        elif rng.random() < 0.1:
            text = text.rstrip(".!") + (rng.choice(TAILS).lower())
        text += rng.choice([".", ".", ".", "", "", "!"]) if text[-1].isalnum() or rng.random() < 0.4 else ""
        self._note(fresh)
        values = [fact for fact in fresh if isinstance(fact, (Fact, Deed))]
        apart = len({fact.value.lower() for fact in values}) == len(fresh)
        single = fresh[0] if len(fresh) == 1 else None
        if only is not None:
            self.latest = (only,)
        elif isinstance(single, Statement):
            simple = single.object and not single.negative and single.pool != "counted"
            self.latest = (single,) if simple else ()
        else:
            self.latest = tuple(values) if apart and len(fresh) < 4 else ()
        said = stated(fresh)
        topics = topics_of(fresh)
        sort = "correct" if changed else "tell" if len(fresh) == 1 else "tell more"
        if changed:
            return Turn(text, f"Changed: {topics}.", f"Got it, now {said}.", sort)
        thinking, reply = acknowledged(text, f"New: {topics}.", f"Got it: {said}.")
        return Turn(text, thinking, reply, sort)

    def _distraction(self, fact: Fact | Deed, lower: bool) -> str:
        rng = self.rng
        text = expand(rng, rng.choice(DISTRACTIONS)).replace("[but]", rng.choice(BUTS))
        text = " " + text if text[0] not in " ,." else text
        other = self._other(fact.kind.values, fact.value)
        text = fill(text, v=other, p=rng.choice(w.PEOPLE), a=rng.choice(w.ADJECTIVES)).replace("  ", " ")
        return text.lower() if lower else text

    def _joined(self, parts: list[str], lower: bool) -> str:
        text = parts[0] if lower else capital(parts[0])
        for part in parts[1:]:
            have = re.match(r"(I have|I've got|I've|I own|i have|my) ", part)
            if have and text.startswith(have[0]) and have[0] != "my " and self.rng.random() < 0.6:
                text += self.rng.choice([" and ", " and ", ", ", " and also "]) + part[len(have[0]) :]
                continue
            joint = self.rng.choice(
                [". ", ". ", ". ", " and ", ", and ", ", ", "; ", "! ", " but ", "\n", " & ", ", while "]
            )
            begins = joint in (". ", "! ", "\n") and not lower
            text += joint + (capital(part) if begins else part if lower else soften("and ", part, ""))
        return text.lower() if lower and self.rng.random() < 0.5 and False else text

    def _note(self, fresh: list[Known]) -> None:
        old = [fact.key for fact in self.told]
        for fact in fresh:
            if fact.key in old:
                self.told[old.index(fact.key)] = fact
            else:
                self.told.append(fact)

    # Passages.

    def tell_passage(self, family: str = "") -> list[Turn]:
        """The user tells a passage, in one message or sentence by sentence."""
        rng = self.rng
        passage = self._fresh_passage(family or rng.choice(list(FAMILIES)))
        if passage is None:
            return [self.tell()]
        lower = self.lower()
        if lower:
            passage.small()
        self.told.append(passage)
        turns: list[Turn] = []
        texts: list[str] = []
        claims: list[str] = []
        together = rng.random() < (0.8 if passage.state == "together" else 0.65)
        for number in range(len(passage.pieces)):
            joint = rng.choice(JOINTS["labels" if passage.family == "labels" else "it"]) if texts else ""
            texts.append(joint + passage.typed(rng, number, lower, joint in ("", ". ", "\n")))
            claims.append(fill(passage.pieces[number][1], **passage.slots))
            if number + 1 < len(passage.pieces) and (together or rng.random() < 0.4):
                continue
            text = "".join(texts)
            text = self._opened(text, lower)
            self.passage = passage
            said = f"Got it: {listed(list(dict.fromkeys(claims)))}."
            thinking, reply = acknowledged(text, f"New: {ABOUT_PASSAGE[passage.family]}.", said)
            turns.append(self.record(Turn(text, thinking, reply, f"tell {passage.family}")))
            texts, claims = [], []
        return turns

    def _opened(self, text: str, lower: bool) -> str:
        """A telling with what people write before it and after it."""
        rng = self.rng
        if rng.random() < 0.15:
            start = rng.choice(OPENERS)
            text = (start.lower() if lower else start) + soften(start, text, "")
        elif rng.random() < 0.06:
            aside = roughen(rng, expand(rng, rng.choice(ASIDES[:13])), lower)
            text = f"{aside.rstrip('.')}. {text}"
        return text + (rng.choice([".", ".", ".", "", "", "!"]) if text[-1].isalnum() else "")

    def _fresh_passage(self, family: str) -> Passage | None:
        """A passage that shares no word with what was told, so that each question has one answer."""
        for _ in range(8):
            passage = draw_passage(self.source, family)
            if self._clashes(passage, []):
                continue
            people = " ".join(f"{who.noun} {who.name}" for who in self.people)
            if not content(people) & passage.words():
                return passage
        return None

    def change_passage(self, family: str = "") -> Turn:
        """The user adds to a list, or puts an appointment right."""
        passages = [fact for fact in self.told if isinstance(fact, Passage) and fact.family in CHANGES]
        passages = [fact for fact in passages if fact.family == (family or fact.family)]
        if not passages:
            return self.ask()
        old = self.rng.choice(passages)
        new = CHANGES[old.family](self.source, old)
        others = [fact for fact in self.told if fact is not old]
        if new is None or any(new.words() & means(fact) for fact in others):
            return self.ask_passage(old.family)
        lower = self.lower()
        if lower:
            kept = set(old.slots.values())
            new.slots = {slot: text if text in kept else text.lower() for slot, text in new.slots.items()}
        self.told[self.told.index(old)] = new
        self.passage = new
        text = new.typed(self.rng, 0, lower)
        text += self.rng.choice([".", "", ""]) if text[-1].isalnum() else ""
        thinking = f"Changed: {ABOUT_PASSAGE[new.family]}."
        return Turn(text, thinking, f"Got it, now {new.claims()}.", f"change {new.family}")

    def ask_passage(self, family: str = "") -> Turn:
        """The user asks for something of a passage, now and then for what it leaves out."""
        passages = [
            fact for fact in self.told if isinstance(fact, Passage) and fact.family == (family or fact.family)
        ]
        if not passages:
            return self.ask()
        passage = self.rng.choice(passages)
        self.passage = passage
        if passage.missing and self.rng.random() < 0.15:
            return self._not_told(passage, self.rng.choice(passage.missing))
        turn = self._asking([passage])
        turn.sort = f"ask {passage.family}"
        return turn

    def _not_told(self, passage: Passage, question: Question) -> Turn:
        """A question of a passage to which nobody told the answer."""
        passage = replace(passage, asked=question)
        lower = self.lower()
        text = passage.worded(self.rng, lower, self.source.held)
        topic = passage.topic()
        return Turn(text, f"Asked: {topic}. Not told.", f"You have not told me {topic} yet.", "unknown")

    # What is asked.

    def ask(self) -> Turn:
        """The user asks for what was told, now and then for two things at once."""
        if not self.told:
            return self.tell()
        if len(self.told) > 1 and self.rng.random() < 0.08:
            return self._asking(self.rng.sample(self.told, 2))
        fact = self.rng.choice(self.told)
        chance = self.rng.random()
        if isinstance(fact, (Fact, Deed)) and chance < 0.1 and doubtful(fact):
            return self._doubting(fact)
        if isinstance(fact, Deed) and not fact.who.me and chance < 0.2 and self._only(fact):
            return self._whose(fact)
        return self._asking([fact])

    def _only(self, fact: Deed) -> bool:
        return sum(isinstance(f, Deed) and f.kind.topic == fact.kind.topic for f in self.told) == 1

    def _doubting(self, fact: Fact | Deed) -> Turn:
        right = self.rng.random() < 0.5
        value = fact.value if right else self._other(fact.kind.values, fact.value)
        lower = self.lower()
        value = value.lower() if lower and not right else value
        text = fact.doubt(self.rng, lower, value)
        claim = replace(fact, value=value).says()
        start = "Yes" if right else "No"
        thinking, reply = f"Asked: whether {claim}. Told: {fact.value}.", f"{start}, {fact.says()}."
        return Turn(text, thinking, reply, "ask", place=self.place(fact))

    def _whose(self, fact: Deed) -> Turn:
        text = fact.whose(self.rng, self.lower())
        return Turn(
            text, f"Asked: {fact.whose_topic()}. Told: {fact.who.full()}.", f"{capital(fact.says())}.", "ask"
        )

    def unknown(self) -> Turn:
        """The user asks for what was never told."""
        if self.rng.random() < 0.12:
            return self._whether_there_is()
        partly = [fact for fact in self.told if isinstance(fact, Statement) and fact.lacking()]
        if partly and self.rng.random() < 0.2:
            return self._left_out(self.rng.choice(partly))
        if self.rng.random() < 0.12:
            passage = self._fresh_passage(self.rng.choice(["list", "it", "appointment", "event", "labels"]))
            if passage is not None:
                return self._not_told(passage, self.rng.choice(passage.questions))
        fact = self._unlike()
        if isinstance(fact, (Fact, Deed)) and doubtful(fact) and self.rng.random() < 0.25:
            return self._doubting_untold(fact)
        return self._asking([fact])

    def _doubting_untold(self, fact: Fact | Deed) -> Turn:
        """Whether something is so of which nothing was told."""
        text = fact.doubt(self.rng, self.lower(), fact.value)
        claim = fact.says()
        return Turn(
            text,
            f"Asked: whether {claim}. Not told.",
            f"You have not told me whether {claim} yet.",
            "unknown",
        )

    def _left_out(self, fact: Statement) -> Turn:
        """The user asks where, when, why or with whom, of which nothing was told."""
        slot = self.rng.choice(fact.lacking())
        fact = replace(fact)
        text = fact.ask(self.rng, self.lower(), self.source.held, slot)
        topic = fact.topic()
        return Turn(text, f"Asked: {topic}. Not told.", f"You have not told me {topic} yet.", "unknown")

    def _whether_there_is(self) -> Turn:
        """Whether the user has somebody or something that was never spoken of."""
        rng = self.rng
        noun = rng.choice(rng.choice([w.ANIMALS, w.ANIMALS, w.PEOPLE, w.THINGS]))
        if any(noun.split(" ")[-1] in fact.says() for fact in self.told):
            return self._asking([self._unlike()])
        a = "" if noun.endswith("s") else "an " if noun[0] in "aeiou" else "a "
        start = rng.choice(
            [
                "do I have",
                "do I have",
                "have I got",
                "did I say that I have",
                "do you know whether I have",
                "do I own",
            ]
        )
        text = roughen(rng, f"{start} {a}{noun}?", self.lower())
        return Turn(
            text,
            f"Asked: whether you have {a}{noun}. Not told.",
            f"You have not told me whether you have {a}{noun} yet.",
            "unknown",
        )

    def _unlike(self) -> Known:
        """A fact that none of those told tells; often near one of them."""
        rng = self.rng
        near = rng.choice(self.told) if self.told and rng.random() < 0.5 else None
        while True:
            chance = rng.random()
            who = (
                ME
                if rng.random() < 0.55
                else rng.choice(self.people)
                if self.people and rng.random() < 0.6
                else None
            )
            fact: Known
            if isinstance(near, Fact) or (near is None and chance < 0.4):
                fact = facts.draw(self.source, near.kind if isinstance(near, Fact) else None)
            elif isinstance(near, Statement) or (near is None and chance < 0.6):
                fact = draw_statement(self.source, who or self._stranger())
            else:
                kind = near.kind if isinstance(near, Deed) and who and not who.me else None
                kind = kind if kind in SHARED_KINDS else None
                somebody = who or self._stranger()
                thing_ = somebody.thing
                fact = (
                    draw_statement(self.source, somebody)
                    if thing_
                    else draw_deed(self.source, somebody, kind)
                )
            if not self._clashes(fact, []):
                return fact
            near = None

    def half_known(self) -> Turn:
        """Two questions, one of them for what was never told."""
        pair = [self._unlike()]
        if self.told:
            pair.append(self.rng.choice(self.told))
        self.rng.shuffle(pair)
        return self._asking(pair)

    def _asking(self, wanted: list[Known]) -> Turn:
        lower = self.lower()
        if lower:
            wanted = [fact if any(fact is other for other in self.told) else small(fact) for fact in wanted]
        parts = [fact.ask(self.rng, lower, self.source.held) for fact in wanted]
        text = parts[0]
        for part in parts[1:]:
            joint = self.rng.choice([" and ", " And ", " ", ", and "])
            text = (
                text.rstrip("?.") + joint + soften("and ", part, "")
                if "and" in joint
                else text + joint + part
            )
        if self.rng.random() < 0.08:
            text = text.rstrip(".?") + self.rng.choice(ASK_TAILS)
        if self.rng.random() < 0.12:
            start = self.rng.choice(ASK_OPENERS)
            text = (start.lower() if lower else start) + soften(start, text, "")
        if len(wanted) == 1 and isinstance(wanted[0], (Deed, Statement)) and wanted[0].who in self.people:
            self.focus = wanted[0].who
        known = [any(fact is other for other in self.told) for fact in wanted]
        thoughts = [
            f"Asked: {fact.topic()}. " + (f"Told: {answer(fact)}." if told else "Not told.")
            for fact, told in zip(wanted, known, strict=True)
        ]
        replies = [
            capital(reply(fact)) + "." if told else f"You have not told me {fact.lack()} yet."
            for fact, told in zip(wanted, known, strict=True)
        ]
        sort = ("ask" if all(known) else "unknown") + (" two" if len(wanted) > 1 else "")
        place = self.place(wanted[0]) if len(wanted) == 1 else None
        return Turn(text, " ".join(thoughts), " ".join(replies), sort, place=place)

    def who(self) -> Turn:
        """The user asks who somebody is, by name."""
        named = [who for who in self.people if who.noun and who.name]
        known = self.rng.choice(named) if named and self.rng.random() < 0.75 else None
        value = known.name if known else name(self.rng)
        if not known and any(value.lower() in fact.says().lower() for fact in self.told):
            return self.tell()
        what = known is not None and known.pet and self.rng.random() < 0.3
        frame = expand(self.rng, WHAT if what else WHO)
        text = fill(roughen(self.rng, frame, self.lower()), v=value)
        if known:
            noun = known.full().removesuffix(f" {known.name}")
            return Turn(text, f"Asked: who {value} is. Told: {noun}.", f"{capital(value)} is {noun}.", "who")
        return Turn(
            text, f"Asked: who {value} is. Not told.", f"You have not told me who {value} is yet.", "who"
        )

    def about_someone(self) -> Turn:
        """The user asks for everything told about somebody."""
        choices = [who for who in self.people if 0 < len(self._facts_of(who)) < 5]
        if not choices:
            return self.know()
        who = self.rng.choice(choices)
        text = roughen(self.rng, expand(self.rng, self.rng.choice(ABOUT)), self.lower())
        text = fill(text, x=who.mention(self.rng))
        said = stated(self._facts_of(who))
        topics = topics_of(self._facts_of(who))
        return Turn(text, f"Asked: all about {who.full()}. Told: {topics}.", f"You told me: {said}.", "know")

    def _facts_of(self, who: Who) -> list[Known]:
        return [
            fact
            for fact in self.told
            if (
                fact.thing.lower() == who.noun.lower()
                if isinstance(fact, Fact)
                else isinstance(fact, (Deed, Statement)) and fact.who is who
            )
        ]

    def know(self) -> Turn:
        """The user asks for everything told."""
        text = roughen(self.rng, expand(self.rng, self.rng.choice(KNOW)), self.lower())
        if not self.told:
            return Turn(
                text, "Asked: all that I was told. Nothing.", "You have not told me anything yet.", "know"
            )
        more = " And more." if len(self.told) > MANY_TOLD else ""
        reply_ = f"You told me: {stated(self.told[:MANY_TOLD])}.{more}"
        if len(reply_) > MANY_LETTERS:
            return self.ask()
        thinking = f"Asked: all that I was told. Told: {topics_of(self.told[:MANY_TOLD])}."
        return Turn(text, thinking, reply_, "know")

    def kin(self) -> Turn:
        """The user asks for their pets, or for their family and friends."""
        pets = self.rng.random() < 0.6
        nouns = w.ANIMALS if pets else w.PEOPLE
        found = [fact for fact in self.told if self._is_kin(fact, nouns)]
        if self._in_passage(" ".join(w.ANIMALS if pets else w.PEOPLE) + " family pets"):
            return self.ask()
        if len(found) > 4 or (not found and self.rng.random() < 0.7):
            return self.ask()
        text = roughen(self.rng, framed(self.rng, PETS if pets else FAMILY, self.source.held), self.lower())
        word = "pets" if pets else "family and friends"
        if not found:
            return Turn(
                text, f"Asked: your {word}. Not told.", f"You have not told me about your {word} yet.", "know"
            )
        return Turn(text, f"Asked: your {word}.", f"You told me: {stated(found)}.", "know")

    def _is_kin(self, fact: Known, nouns: list[str]) -> bool:
        if isinstance(fact, Fact):
            return fact.kind in (PET, PERSON) and fact.thing.rsplit(" ", 1)[-1] in nouns
        counted = isinstance(fact, Statement) and fact.pool == "counted" and fact.who.me
        return counted and fact.noun in [plural(noun) for noun in nouns]  # type: ignore[union-attr]

    def quote(self) -> Turn:
        """The user asks what they said first, or last."""
        return looking_back(self.source, self.said, self.telling, self.lower()) or self.ask()

    def chatter(self, sentences: int = 0) -> Turn:
        """Lines in which nothing is about the user."""
        rng = self.rng
        parts = [expand(rng, rng.choice(READ))] if rng.random() < 0.6 else []
        subjects = [f"the {thing(rng)}" for _ in range(rng.choice([1, 3, 9]))]
        for _ in range(sentences or rng.randint(3, 9)):
            subject = rng.choice(subjects)
            if rng.random() < 0.15:
                subject = rng.choice(["nobody", "somebody", "every visitor", "the whole town", "an old man"])
            clause = draw_statement(self.source, Who(subject, "", "it")).clause(rng, subject, False, False)
            if rng.random() < 0.4:
                clause = f"{subject} {expand(rng, rng.choice(LOOKS))}"
            parts.append(capital(clause).rstrip(".") + rng.choice([".", ".", ".", ".", "!"]))
        return Turn(
            " ".join(parts),
            "Read: nothing about you.",
            "Thank you for telling me. I have read it.",
            "chatter",
        )

    def tell_and_ask(self) -> Turn:
        """A fact and, in the same message, a question for it or another."""
        turn = self.tell(1)
        wanted = self.told[-1] if self.rng.random() < 0.5 else self.rng.choice(self.told)
        question = self._asking([wanted])
        text = turn.user.rstrip(".!") + ". " + question.user
        if self.rng.random() < 0.2:
            # A question with the text that answers it, as `chatcli ask` joins them.
            text = f"{question.user}\n\n{turn.user}"
        self.said[-1] = text
        return Turn(text, f"{turn.thinking} {question.thinking}", question.reply, "tell and ask")


def soften(start: str, text: str, value: str) -> str:
    """The text with a small first letter where it goes on after a comma or a word."""
    first = text.split(" ", 1)[0].rstrip(",.?")
    keep = start.rstrip().endswith((".", "!", ":")) or first in ("I", "I'm", "I've", "I'd")
    proper = first in w.NAMES or first in w.PLACES or (value and value.startswith(first))
    known = first.lower() in STARTS
    return text if keep or proper or not known else text[:1].lower() + text[1:]


def article(noun: str) -> str:
    """ "a" or "an"."""
    return "an" if noun[0] in "aeiou" else "a"


def small(fact: Known) -> Known:
    """The fact in small letters."""
    if isinstance(fact, Passage):
        return replace(fact, slots={slot: value.lower() for slot, value in fact.slots.items()})
    if isinstance(fact, Fact):
        return replace(fact, thing=fact.thing.lower())
    who = fact.who
    if not who.me:
        who = replace(who, name=who.name.lower(), noun=who.noun.lower())
    if isinstance(fact, Deed):
        return replace(fact, who=who)
    texts = {part: getattr(fact, part).lower() for part in ("object", "noun", "place", "time", "company")}
    return replace(fact, who=who, **texts)


def stated(known: list[Known]) -> str:
    """Facts one after another, each person's full name only once."""
    parts: list[str] = []
    before: list[str] = []
    for fact in known:
        whose = ""
        if not isinstance(fact, Passage):
            whose = fact.thing if isinstance(fact, Fact) else fact.who.noun or fact.who.name
        parts.append(fact.says(again=whose in before))
        before = [whose]
    return listed(parts)


def alike(fact: Deed | Statement, other: Deed | Statement) -> bool:
    """Whether two facts about one person turn on the same verb."""
    if isinstance(fact, Deed) and isinstance(other, Deed):
        return False
    verb = fact if isinstance(fact, Statement) else other
    second = other if verb is fact else fact
    assert isinstance(verb, Statement)
    lemma = verb.verb[0].split(" ")[0]
    if isinstance(second, Statement):
        return verb.key == second.key or (
            verb.verb == second.verb and "counted" not in (verb.pool, second.pool)
        )
    return bool(
        {lemma, singular(lemma), verb.verb[1]} & set(f"{second.kind.says} {second.kind.ask[0]}".split(" "))
    )


def doubtful(fact: Fact | Deed) -> bool:
    """Whether "is it so?" makes a sentence of the fact."""
    return isinstance(fact, Deed) or fact.kind not in (EVENT, MEET, PLACED, MANY)


def topics_of(facts_: list[Known]) -> str:
    """What facts are about, each in a few words."""
    return "; ".join(
        ABOUT_PASSAGE[fact.family]
        if isinstance(fact, Passage)
        else fact.label()
        if isinstance(fact, Statement)
        else fact.topic()
        for fact in facts_
    )


def looking_back(source: Source, said: list[str], telling: int, lower: bool) -> Turn | None:
    """The user asks which message was the first, or the last, or the last that told something."""
    rng = source.rng
    first = rng.random() < 0.7
    text = roughen(rng, framed(rng, FIRST if first else JUST, source.held), lower)
    told = not first and telling >= 0 and re.search(r"\b(?:tell|told)\b", text, re.IGNORECASE)
    quoted = said[0 if first else telling if told else -1].strip() if said else ""
    if not quoted or len(quoted) > 160:
        return None
    if told:
        return Turn(text, "Asked: the last that they told.", f"The last you told me: {quoted}", "quote")
    when, word = ("First", "first") if first else ("Just before", "last")
    return Turn(text, f"Asked: the {word} message.", f"{when} you said: {quoted}", "quote")


def answer(fact: Known) -> str:
    """What the thinking finds for a question."""
    return fact.answer() if isinstance(fact, (Statement, Passage)) else fact.value


def reply(fact: Known) -> str:
    """What the reply says to a question."""
    return fact.replies() if isinstance(fact, (Statement, Passage)) else fact.says()


def value_text(fact: Known) -> str:
    """What must be typed as it is, since replies repeat it."""
    if isinstance(fact, Passage):
        return " ".join(fact.slots.values())
    if isinstance(fact, Statement):
        return f"{fact.object} {fact.place} {fact.time} {fact.company} {fact.reason} {fact.who.name}"
    return fact.value if isinstance(fact, Fact) else f"{fact.value} {fact.who.name}"


def means(fact: Known) -> frozenset[str]:
    """The words that a question for the fact could have."""
    if isinstance(fact, Passage):
        return fact.words()
    if isinstance(fact, Statement):
        return content(f"{fact.says()} {' '.join(fact.verb)} {fact.noun} {fact.who.noun}")
    return content(f"{fact.says()} {fact.topic()}")


PROFILE = {
    "their name": ("[v]",),
    "how old they are": ("[v]", "[v] years old"),
    "their job": ("a [v]", "a [v]"),
    "where they are from": ("from [v]",),
    "where they live": ("living in [v]",),
    "what they study": ("studying [v]",),
}
PROFILE_KINDS = {kind.topic: kind for kind in SELF if kind.topic in PROFILE and "country" not in kind.things}
SHARED_KINDS = frozenset(SHARED)
# Sorts of turns in which the user tells something.
TELLING = ("tell", "correct", "change", "written new", "written changed")
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
    "about": Desk.about_someone,
    "know": Desk.know,
    "kin": Desk.kin,
    "quote": Desk.quote,
    "chatter": Desk.chatter,
    "both": Desk.tell_and_ask,
}
