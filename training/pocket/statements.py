"""Statements about anything anyone does: verb, object, place, time and company, told and asked for freely."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from training.pocket import words as w
from training.pocket.grammar import singular
from training.pocket.grammar import yours as as_yours
from training.pocket.lexicon import entries
from training.pocket.people import Who, finished
from training.pocket.phrases import frame_held_out
from training.pocket.values import Source, invented, thing

# Verb, past, -ing, and the pool its objects come from.
ENTRIES = entries("""
keep kept keeping animals;breed bred breeding animals;raise raised raising animals
feed fed feeding animals;train trained training animals;draw drew drawing anything
paint painted painting anything;build built building things;repair repaired repairing things
restore restored restoring things;sell sold selling things;rent rented renting things
borrow borrowed borrowing things;lend lent lending things;carry carried carrying things
make made making things;design designed designing things;clean cleaned cleaning things
buy bought buying things;order ordered ordering things;bake baked baking foods
cook cooked cooking foods;fry fried frying foods;grow grew growing foods;eat ate eating foods
prepare prepared preparing foods;bring brought bringing foods;serve served serving foods
brew brewed brewing drinks;drink drank drinking drinks;pour poured pouring drinks
write wrote writing titles;read read reading titles;translate translated translating titles
publish published publishing titles;watch watched watching titles;film filmed filming titles
teach taught teaching skills;practise practised practising skills;try tried trying skills
do did doing skills;study studied studying subjects;research researched researching subjects
speak spoke speaking languages;learn learned learning languages;play played playing instruments
tune tuned tuning instruments;visit visited visiting places;love loved loving anything
hate hated hating anything;prefer preferred preferring anything;want wanted wanting anything
need needed needing anything;miss missed missing anything;use used using things
own owned owning things;fear feared fearing animals;collect collected collecting things
photograph photographed photographing anything;study studied studying anything
find found finding things;lose lost losing things;hide hid hiding things;wear wore wearing things
plant planted planting foods;pick picked picking foods;catch caught catching animals
ride rode riding animals;rescue rescued rescuing animals;drive drove driving cars
wash washed washing things;manage managed managing places;run ran running places
open opened opening places;own owned owning places;lead led leading people
coach coached coaching people;help helped helping people;meet met meeting people
call called calling people;invite invited inviting people;admire admired admiring people
know knew knowing people;marry married marrying people;hire hired hiring people
look-after looked-after looking-after animals;listen-to listened-to listening-to music
dance-to danced-to dancing-to music;sing sang singing titles;work-on worked-on working-on titles
work-with worked-with working-with people;go-to went-to going-to places
fly-to flew-to flying-to places;travel-to travelled-to travelling-to places
drive-to drove-to driving-to places;look-for looked-for looking-for things
wait-for waited-for waiting-for anything;dream-of dreamed-of dreaming-of anything
think-about thought-about thinking-about anything;talk-about talked-about talking-about subjects
live-next-to lived-next-to living-next-to people;share shared sharing things
throw threw throwing things;knit knitted knitting things;sew sewed sewing things
weave wove weaving things;carve carved carving things;win won winning prizes;get got getting things
receive received receiving things;send sent sending things;forget forgot forgetting things
break broke breaking things;steal stole stealing things;count counted counting animals
have had having counted;have had having counted;have had having counted;have had having counted
own owned owning counted
""")
# Verbs with no object, which need a place, a time or company.
ALONE_ENTRIES = entries("""
sleep slept sleeping;swim swam swimming;run ran running;walk walked walking;work worked working
sit sat sitting;wait waited waiting;arrive arrived arriving;leave left leaving;dance danced dancing
train trained training;stay stayed staying;camp camped camping;study studied studying
hide hid hiding;cook cooked cooking;shop shopped shopping;eat ate eating;land landed landing
start started starting;travel travelled travelling;climb climbed climbing;fish fished fishing
retire retired retiring;practise practised practising;volunteer volunteered volunteering
sing sang singing;park parked parking;sail sailed sailing;perform performed performing
jog jogged jogging;get-married got-married getting-married;move-in moved-in moving-in
get-up got-up getting-up;leave left leaving;leave left leaving;arrive arrived arriving
depart departed departing;meet met meeting;have-lunch had-lunch having-lunch
""")
FROM = ["from", "at", "near", "in"]
PEOPLE_PLURAL = (
    """
sisters brothers children kids sons daughters cousins uncles aunts nieces nephews friends
neighbours flatmates colleagues students teachers grandchildren siblings
""".strip()
    .replace("\n", " ")
    .split(" ")
)
COUNTABLE = (
    """
houses cars bikes books guitars plants trees jobs phones computers cameras boats clocks
hats keys suitcases tickets paintings records shops gardens rooms windows tattoos shoes
stamps coins chairs
""".strip()
    .replace("\n", " ")
    .split(" ")
)
PRIZES = (
    """
the first prize;a medal;a cup;the lottery;a race;a bet;a trophy;a chess tournament
the marathon;a competition
""".strip()
    .replace("\n", ";")
    .split(";")
)
IRREGULAR_PLURALS = {
    "mouse": "mice",
    "goose": "geese",
    "sheep": "sheep",
    "fish": "fish",
    "ox": "oxen",
    "goldfish": "goldfish",
}
EVERY = (
    """
every day;every morning;every evening;every week;on weekends;on Sundays;in summer
in winter;at night;since last year;since 2015;for ten years;for a long time;twice a week
three times a month;after work;before breakfast;all the time
""".strip()
    .replace("\n", ";")
    .split(";")
)
BEFORE = (
    """
yesterday;last week;last night;last year;last summer;two days ago;a year ago;this morning
in 2019;when I was ten;on Monday;an hour ago;in May;three weeks ago
""".strip()
    .replace("\n", ";")
    .split(";")
)
AFTER = (
    """
tomorrow;next week;next year;tonight;next summer;on Friday;in June;soon;in two weeks
at noon;on the weekend;later today
""".strip()
    .replace("\n", ";")
    .split(";")
)
PAST_REASONS = (
    """
it was too old;it was too loud;it rained all day;the old one was broken;it was cold;nobody else wanted to
there was a storm;the boss asked for it;it was a holiday;the children wanted it;it was too small
the price was good;a friend asked for it;the guests were hungry;there was no other way;the doctor said so
it was a present;the neighbours complained;I had promised it;I was bored;it was fun;I had time
""".strip()
    .replace("\n", ";")
    .split(";")
)
REASONS = (
    """
it makes me happy;I like it;I need the money;I have to;it is cheap;it is good for me;my family does it, too
it is fun;everybody does it;I am bored;it is close to my home;I promised it;it is an old habit
it calms me down;my doctor wants it;the weather is nice;my friends do it;it is easy;nobody else does it
""".strip()
    .replace("\n", ";")
    .split(";")
)
AUX = [
    "",
    "",
    "",
    "",
    "past",
    "past",
    "past",
    "past",
    "ing",
    "ing",
    "will",
    "going to",
    "used to",
    "want to",
    "need to",
    "would like to",
    "plan to",
    "love to",
    "have to",
]


def plural(noun: str) -> str:
    """The plural of a noun."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


NUMBERS = "two three four five six seven eight nine ten eleven twelve".split()


def count(rng: Random) -> str:
    """How many, in digits or in a word."""
    return rng.choice(
        [str(rng.randint(2, 12)), str(rng.randint(2, 12)), rng.choice(NUMBERS), str(rng.randint(2, 400))]
    )


def counted_noun(rng: Random) -> str:
    """What can be had in numbers."""
    pick = rng.random()
    if pick < 0.45:
        return plural(rng.choice(w.ANIMALS))
    if pick < 0.7:
        return rng.choice(PEOPLE_PLURAL)
    return rng.choice(COUNTABLE) if pick < 0.9 else invented(rng) + "s"


def object_of(source: Source, pool: str) -> tuple[str, str, str]:
    """An object: its text, its noun, and its count or nothing."""
    rng = source.rng
    if pool == "counted":
        many, noun = count(rng), counted_noun(rng)
        adjective = f"{rng.choice(w.ADJECTIVES + w.COLOURS)} " if rng.random() < 0.1 else ""
        return f"{many} {adjective}{noun}", noun, many
    if rng.random() < 0.06:
        value = source.draw("wild")
        return value, value, ""
    if pool == "anything":
        pool = rng.choice(["animals", "things", "foods", "places", "skills", "drinks", "titles", "nouns"])
    if pool == "animals" or (pool in ("things", "nouns") and rng.random() < 0.3):
        if rng.random() < 0.5:
            many, noun = count(rng), plural(rng.choice(w.ANIMALS if pool == "animals" else w.NOUNS))
            return f"{many} {noun}", noun, many
        noun = plural(rng.choice(w.ANIMALS if pool == "animals" else w.NOUNS))
        return noun, noun, ""
    if pool == "people":
        text = source.draw("name") if rng.random() < 0.7 else f"my {rng.choice(w.PEOPLE)}"
        return text, text, ""
    if pool in ("things", "nouns"):
        noun = thing(rng) if rng.random() < 0.9 else invented(rng)
        article = rng.choice(["a", "a", "the", "my", "an old", "a new"])
        several = noun.endswith("s") and not noun.endswith("ss")
        article = rng.choice(["the", "my", "some", ""]) if several else article
        article = "an" if article == "a" and noun[0] in "aeiou" else article
        return f"{article} {noun}".strip(), noun, ""
    kinds = {
        "foods": "food",
        "drinks": "drink",
        "titles": "title",
        "skills": "activity",
        "subjects": "subject",
    }
    kinds |= {
        "languages": "language",
        "instruments": "instrument",
        "places": "place",
        "cars": "car",
        "music": "music",
    }
    if pool == "prizes":
        text = rng.choice(PRIZES)
        return text, text, ""
    value = source.draw(kinds[pool])
    text = (
        f"a {value}"
        if pool == "cars"
        else f"the {value}"
        if pool == "titles" and rng.random() < 0.1
        else value
    )
    return text, value, ""


@dataclass
class Statement:
    """Somebody does something somewhere, at some time, with someone."""

    who: Who
    verb: tuple[str, str, str]
    aux: str
    object: str
    noun: str
    many: str
    place: str = ""
    time: str = ""
    company: str = ""
    negative: bool = False
    asked: str = ""
    pool: str = ""
    value: str = field(default="")
    we: bool = False
    reason: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """One statement a verb and person."""
        extra = f" {self.noun}" if self.pool == "counted" else ""
        return f"{self.verb[0]}{extra}", (self.who.noun or self.who.name).lower()

    def _verbs(self, subject: str) -> str:
        """The verb as it follows "I", "you" or "they who are one"."""
        return verbs(self.verb, self.aux, subject, self.negative)

    def _tail(self, skip: str = "") -> str:
        parts = [
            ("object", self.object),
            ("company", self.company),
            ("place", self.place),
            ("time", self.time),
            ("why", f"because {self.reason}" if self.reason else ""),
        ]
        return " ".join(text for kind, text in parts if text and kind != skip)

    def says(self, again: bool = False) -> str:
        """The statement as the assistant repeats it."""
        if self.who.me:
            return f"you {self._verbs('you')} {as_yours(self._tail())}"
        subject = self.who.short() if again else self.who.full()
        return f"{subject} {self._verbs('she')} {as_yours(self._tail())}"

    def clause(self, rng: Random, subject: str, held: bool, lower: bool) -> str:
        """The statement as the user makes it."""
        if lower:
            for part in ("object", "noun", "many", "place", "time", "company", "value", "reason"):
                setattr(self, part, getattr(self, part).lower())
        verb = self._verbs("you" if self.we else "I" if self.who.me else "she")
        if self.negative and rng.random() < 0.75:
            verb = contracted(verb)
        subject = "we" if self.we else "I" if self.who.me else subject
        parts = [text for text in (self.company, self.place, self.time) if text]
        if rng.random() < 0.25:
            rng.shuffle(parts)
        because = f" because {self.reason}" if self.reason else ""
        if parts and rng.random() < 0.12:
            front = parts.pop(rng.randrange(len(parts)))
            after = " ".join(part for part in [self.object, *parts] if part)
            return f"{front}{rng.choice([', ', ' '])}{subject} {verb} {after}".strip() + because
        if not self.negative and self.aux in ("ing", "going to") and self.who.me and rng.random() < 0.6:
            verb = verb.removeprefix("am ").removeprefix("are ")
            subject = "we're" if self.we else "I'm"
        return f"{subject} {verb} {' '.join(part for part in [self.object, *parts] if part)}{because}"

    def slots(self) -> list[str]:
        """What can be asked for."""
        slots = ["object", "whether"] if self.object else []
        slots += [slot for slot in ("place", "time", "company", "many") if getattr(self, slot)] * 4
        slots += ["why"] * 5 if self.reason else []
        return slots + ([] if self.we else ["who"])

    def lacking(self) -> list[str]:
        """What could be asked for and was not told."""
        if self.negative or self.pool in ("places", "alone", "counted"):
            return []
        return [slot for slot in ("place", "time", "company") if not getattr(self, slot)] + (
            [] if self.reason else ["why", "why"]
        )

    def question(self, slot: str, subject: str, you: bool) -> tuple[str, str]:
        """Before the subject and after it: "where do", "keep bees"."""
        form = "you" if you or self.we else "I" if self.who.me else "she"
        helper, rest = helpers(self.verb, self.aux, form)
        return helper, f"{subject} {rest}"

    def _wanted(self, slot: str) -> tuple[str, str]:
        """The question word, and what follows the verb."""
        thing_ = f"{self.noun}" if self.many or self.noun in self.object else self.object
        if self.many == "" and self.object != self.noun:
            thing_ = re.sub(r"^an? ", "the ", self.object)
        return {
            "object": ("what", self.place or self.company if self.place or self.company else ""),
            "place": ("where", thing_),
            "time": ("when", thing_),
            "company": ("who", f"{thing_} with".strip()),
            "many": (f"how many {self.noun}", ""),
            "whether": ("", thing_),
            "why": ("why", thing_),
            "who": ("who", thing_),
        }[slot]

    def ask(self, rng: Random, lower: bool, held: bool = False, slot: str = "") -> str:
        """A question for the statement; it fixes what is asked for."""
        self.asked = slot or rng.choice(self.slots())
        word, after = self._wanted(self.asked)
        if self.asked == "object" and rng.random() < 0.5 and not self.who.me:
            after = ""
        if self.asked == "object" and self.pool == "people":
            word = "who"
        subject = "we" if self.we else "I" if self.who.me else self.who.mention(rng)
        form = "you" if self.we else "I" if self.who.me else "she"
        spot = re.fullmatch(r"(from|at|near|in) (gate|platform|terminal|stop|room) \S+", self.place)
        if self.asked == "place" and spot and rng.random() < 0.6:
            word, after = f"which {spot[2]}", spot[1]
            if rng.random() < 0.3:
                return finished(rng, f"which {spot[2]}?", lower)
        if self.asked == "time" and rng.random() < 0.4:
            often = self.time.startswith(("every", "twice", "three", "on ", "all"))
            lasting = self.time.startswith(("since", "for"))
            word = "how often" if often else rng.choice(["since when", "how long"]) if lasting else "when"
        owned = (
            self.asked == "place"
            and self.noun
            and (self.object.startswith(("a ", "an ", "my ")) or self.many)
        )
        if owned and self.who.me and rng.random() < 0.25:
            are = "are" if self.many or self.noun.endswith("s") else "is"
            return finished(
                rng, f"where {are} (my) {self.noun}?".replace("(my)", rng.choice(["my", "the"])), lower
            )
        if self.asked == "who":
            text = f"who {self._verbs('she')} {after}"
        else:
            helper, rest = self.question(self.asked, subject, False)
            embedded = f"{word or 'whether'} {subject} {verbs(self.verb, self.aux, form, False)} {after}"
            if self.asked == "many":
                embedded = f"{word} {subject} {verbs(self.verb, self.aux, form, False)}"
            start = rng.choice(STARTS) if rng.random() < 0.25 else ""
            start = start or (
                "do you know" if frame_held_out(self.verb[0] + self.asked) != held and held else ""
            )
            text = f"{start} {embedded.strip()}" if start else f"{word} {helper} {rest} {after}"
        return finished(rng, text.strip() + "?", lower)

    def topic(self) -> str:
        """What the question is for."""
        word, after = self._wanted(self.asked or "whether")
        if self.asked == "object" and self.pool == "people":
            word = "who"
        if self.asked == "who":
            return f"who {self._verbs('she')} {as_yours(after)}".strip()
        subject, form = ("you", "you") if self.who.me else (self.who.full(), "she")
        verb = verbs(self.verb, self.aux, form, False)
        return f"{word or 'whether'} {subject} {verb} {as_yours(after)}".strip()

    lack = topic

    def label(self) -> str:
        """What was told, in a word or two."""
        subject, form = ("you", "you") if self.who.me else (self.who.full(), "she")
        word = "what" if self.object else "where" if self.place else "when"
        return f"{word} {subject} {verbs(self.verb, self.aux, form, self.negative)}"

    def answer(self) -> str:
        """What the thinking finds."""
        if self.asked in ("place", "time", "company", "many", "object"):
            return as_yours(str(getattr(self, self.asked)))
        if self.asked == "why":
            return as_yours(self.reason)
        if self.asked == "who":
            return self.who.full() or "you"
        return "no" if self.negative else "yes"

    def replies(self) -> str:
        """The reply to the question that was asked last."""
        start = {"yes": "Yes, ", "no": "No, "}.get(self.answer(), "") if self.asked == "whether" else ""
        return start + self.says()


NEGATIVES = {
    "do not ": "don't ",
    "does not ": "doesn't ",
    "did not ": "didn't ",
    "will not ": "won't ",
    "would not ": "wouldn't ",
    "is not ": "isn't ",
}


def contracted(verb: str) -> str:
    """ "do not eat" is "don't eat"."""
    for long, short in NEGATIVES.items():
        verb = verb.replace(long, short)
    return verb


STARTS = [
    "do you know",
    "do you remember",
    "can you tell me",
    "tell me",
    "remind me",
    "I forgot",
    "did I say",
    "any idea",
]


@lru_cache(20_000)
def verbs(verb: tuple[str, str, str], aux: str, form: str, negative: bool) -> str:
    """A verb with its auxiliary, for "I", "you" or "she"."""
    lemma, past, ing = verb
    head, _, tail = lemma.partition(" ")
    tail = f" {tail}" if tail else ""
    be = {"I": "am", "you": "are", "she": "is"}[form]
    do = "does" if form == "she" else "do"
    if aux == "ing":
        return f"{be}{' not' if negative else ''} {ing}"
    if aux == "will":
        return f"will{' not' if negative else ''} {lemma}"
    if aux == "going to":
        return f"{be}{' not' if negative else ''} going to {lemma}"
    if aux == "would like to":
        return f"would{' not' if negative else ''} like to {lemma}"
    if aux == "past":
        return f"did not {lemma}" if negative else past
    if aux == "used to":
        return f"used to {lemma}"
    if aux:
        start, _, to = aux.partition(" ")
        if negative:
            return f"{do} not {start} {to} {lemma}"
        return f"{singular(start) if form == 'she' else start} {to} {lemma}"
    if negative:
        return f"{do} not {lemma}"
    return f"{singular(head)}{tail}" if form == "she" else lemma


@lru_cache(20_000)
def helpers(verb: tuple[str, str, str], aux: str, form: str) -> tuple[str, str]:
    """What comes before the subject of a question and after it."""
    lemma, _, ing = verb
    be = {"I": "am", "you": "are", "she": "is"}[form]
    do = "does" if form == "she" else "do"
    if aux == "ing":
        return be, ing
    if aux == "will":
        return "will", lemma
    if aux == "going to":
        return be, f"going to {lemma}"
    if aux == "would like to":
        return "would", f"like to {lemma}"
    if aux == "past":
        return "did", lemma
    if aux == "used to":
        return "did", f"use to {lemma}"
    return do, f"{aux} {lemma}".strip()


def in_time(source: Source, aux: str) -> str:
    """A day or an hour that fits the tense."""
    while True:
        time = source.draw("when")
        if aux not in ("past", "used to") or not re.search(r"next|tomorrow|tonight", time):
            return time


def alone(source: Source, who: Who, aux: str) -> Statement:
    """A statement with a verb that takes no object."""
    rng = source.rng
    made = Statement(who, rng.choice(ALONE_ENTRIES), aux, "", "", "", pool="alone")  # type: ignore[arg-type]
    if rng.random() < 0.7:
        number = rng.choice([str(rng.randint(1, 40)), f"{rng.choice('ABCDEFGH')}{rng.randint(1, 40)}"])
        spots = [f"in {source.draw('place')}", source.draw("spot"), f"at the {rng.choice(w.NOUNS)}"]
        spots += [
            f"{rng.choice(FROM)} {rng.choice(['gate', 'platform', 'terminal', 'stop', 'room'])} {number}"
        ]
        made.place = rng.choice(spots)
    if rng.random() < 0.5 or not made.place:
        when = BEFORE if aux in ("past", "used to") else EVERY if aux in ("", "love to") else AFTER
        made.time = rng.choice(when) if rng.random() < 0.5 else in_time(source, aux)
    if rng.random() < 0.15:
        made.company = f"with {source.draw('name') if rng.random() < 0.5 else 'my ' + rng.choice(w.PEOPLE)}"
    made.value = (made.place or made.time).split(" ", 1)[-1]
    made.we = who.me and rng.random() < 0.15
    return made


def draw_statement(source: Source, who: Who) -> Statement:
    """Something somebody does."""
    rng = source.rng
    aux = rng.choice(AUX)
    if rng.random() < 0.14 or who.thing:
        return alone(source, who, aux)
    *verb, pool = rng.choice(ENTRIES)
    if pool == "counted":
        aux = ""
    text, noun, many = object_of(source, pool)
    made = Statement(who, tuple(verb), aux, text, noun, many, pool=pool)  # type: ignore[arg-type]
    if pool != "places" and rng.random() < 0.4:
        made.place = f"in {source.draw('place')}" if rng.random() < 0.5 else source.draw("spot")
    if rng.random() < 0.3:
        when = BEFORE if aux in ("past", "used to") else EVERY if aux in ("", "love to") else AFTER
        made.time = rng.choice(when)
        if rng.random() < 0.3 and aux in ("past", "will", "going to", "ing", "have to"):
            made.time = in_time(source, aux)
    if rng.random() < 0.12 and pool != "people":
        made.company = f"with {source.draw('name') if rng.random() < 0.5 else 'my ' + rng.choice(w.PEOPLE)}"
    if rng.random() < 0.13 and aux != "used to" and not many:
        made.negative = True
        made.place = made.time = made.company = ""
    elif who.me and rng.random() < 0.12 and not many:
        made.reason = rng.choice(PAST_REASONS if aux in ("past", "used to") else REASONS)
    made.value = made.place.split(" ", 1)[-1] if made.place else made.noun
    made.we = who.me and rng.random() < 0.1
    return made
