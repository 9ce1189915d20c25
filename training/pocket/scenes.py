"""Makes passages of every family: lists, what is not so, comparisons, kinship, things told of by "it", and more.

Passages are written of "I" and "you"; `retold` says the same of somebody else.
"""

# Frames are one line each.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from training.pocket import words as w
from training.pocket.grammar import about, singular, yours
from training.pocket.passages import Passage, Question, distinct, slotted
from training.pocket.people import MEN, WOMEN, Who, gender
from training.pocket.statements import plural
from training.pocket.values import Source, clock, short_code

# Those whose pronoun is known, and others.
RELATIONS = [noun for noun in w.PEOPLE if noun in WOMEN or noun in MEN]
PEERS = "boss;neighbour;teacher;doctor;dentist;colleague;flatmate;coach;cousin;friend;partner;manager".split(
    ";"
)


def relatives(rng: Random, count: int) -> list[str]:
    """Relations that no mention confuses: not both "sister" and "big sister"."""
    while True:
        nouns = rng.sample(RELATIONS + PEERS, count)
        if len({noun.split(" ")[-1] for noun in nouns}) == count:
            return nouns


def somebody(source: Source) -> tuple[Who, str]:
    """Somebody whose pronoun is known, and the name that slot [n] holds or nothing."""
    rng = source.rng
    noun = f"my {rng.choice(RELATIONS)}" if rng.random() < 0.8 else ""
    called = distinct(source, "name", 1)[0] if not noun or rng.random() < 0.4 else ""
    return Who(
        noun, "[n]" if called else "", gender(rng, noun, False) if noun else rng.choice(["she", "he"])
    ), called


def retold(passage: Passage, source: Source, share: float = 0.4) -> Passage:
    """The passage, said of somebody else now and then."""
    rng = source.rng
    if rng.random() >= share:
        return passage
    who, called = somebody(source)
    first, again = who.person(who.introduced(rng).rstrip(",")), who.person(who.pronoun)
    full = who.person(who.full())
    short = who.person(who.mention(rng))
    pieces = []
    for number, (said, claim) in enumerate(passage.pieces):
        # Each sentence begins anew, and names them only once.
        subject = again if number else first
        pieces.append((about(said, subject), about(claim, full)))

    def other(question: Question) -> Question:
        frames = ";".join(
            about(frame, short)
            for frame in question.frames.split(";")
            if "I say" not in frame and ("you" not in frame or " I " in frame)
        )
        start, _, rest = (
            question.reply.partition(", ")
            if question.reply.startswith(("Yes, ", "No, "))
            else ("", "", question.reply)
        )
        reply = about(rest, full)
        return Question(
            frames,
            about(question.topic, full),
            about(question.told, again),
            f"{start}, {reply}" if start else reply,
        )

    return replace(
        passage,
        pieces=pieces,
        questions=[other(question) for question in passage.questions],
        missing=[other(question) for question in passage.missing],
        slots=passage.slots | ({"n": called} if called else {}),
        claim=about(passage.claim, full) if passage.claim else "",
        extra=f"{passage.extra} {who.noun}",
    )


# Lists.


@dataclass(frozen=True)
class Listing:
    """One sort of list. {all} is its items; an open one can grow."""

    name: str
    pool: str
    unit: str
    tell: str
    claim: str
    what: str
    topic: str
    many: str
    count: str
    whether: str
    within: str
    more: str = ""
    less: str = ""
    extra: str = ""


def named_list(name: str, pool: str, more: str = "", less: str = "", grow: str = "") -> Listing:
    """A list that has a name."""
    other = name.removesuffix(" list")
    return Listing(
        name,
        pool,
        "things",
        f"my {name}: {{all}};my {name} is {{all}};on my {name} (are|I have|there are|we have) {{all}};here is my {name}: {{all}};(please |)put {{all}} on my {name};"
        f"{name}: {{all}};(make|start) a {name} (please|for me)(: |, with ){{all}};(please |can you |)(remember|note|write down|keep) my {name}: {{all}};{{all}} (are on|go on|belong on) my {name};I have {{all}} on my {name}{more}",
        f"your {name} says: {{all}}" if pool == "tasks" else f"your {name} has {{all}}",
        f"what is on my {name}?;what's on my {name}?;what is on the {name}?;what's on the {name} (now|so far)?;(show|read|tell|give) me my {name}(.| please.);what do I have on my {name}?;which things are on my {name}?;my {name}(?| please.);"
        f"(can|could) you (read|list|repeat|show) my {name}?;what did I put on my {name}?;list (everything|all|what is) on my {name}.;remind me what is on my {name}.;what does my {name} say?;what was on my {name}?;what's on my list?;what is on my list (now|)?;read me the list.;{other} list?",
        f"what is on your {name}",
        f"how many things are on my {name}?;how many things are on the list?;how many things do I have on my {name}?;how long is my {name}?;how many items are on my {name}?;how many items are there on the list?;count the things on my {name}.;how many are on my {name}?;~how many things is that?;~how many things are on it?;~how many are there?",
        f"there are [k] things on your {name}",
        f"is [i] on my {name}?;do I have [i] on my {name}?;did I put [i] on my {name}?;does my {name} have [i]?;is [i] on (it|the list|my list)?;have I got [i] on the list?",
        f"on your {name}",
        f"add {{all}} (to my {name}|to the list|to it|)(| please);and (also |){{all}};also {{all}};{{all}} too(| please);(oh, and|and|plus) {{all}} (too|as well);put {{all}} on (it|the list|my {name}) (too|as well|);"
        f"(please |)add {{all}}(| too| as well);one more: {{one}};(one|another) thing (for|on) my {name}: {{one}};my {name} also has {{all}};don't forget {{all}};(add|put) {{all}} as well;plus {{all}}"
        + (f";{grow}" if grow else ""),
        f"(remove|take|cross|strike) [i] (off|from) (my {name}|the list|it);(remove|delete|drop|forget|scratch) [i](| please);no [i] (any more|after all)(| please);[i] is done;I have [i] already{less}",
        f"list {other}",
    )


def having(
    pool: str, unit: str, verb: str, what: str, extra: str = "", tell: str = "", past: str = ""
) -> Listing:
    """What the user does with several things: "I speak a, b and c"."""
    do = "did" if past else "do"
    return Listing(
        "",
        pool,
        unit,
        f"I {past or verb} {{all}};I {past or verb} {{all}};I can tell you that I {past or verb} {{all}};{{all}}: I {past or verb} {{them}};the {unit} that I {past or verb} are {{all}}{tell}",
        f"you {past or verb} {{all}}",
        f"{what} {do} I {verb}?;which {unit} {do} I {verb}?;what {unit} {do} I {verb}?;tell me which {unit} I {past or verb}.;do you know which {unit} I {past or verb}?;which are the {unit} that I {past or verb}?;name the {unit} that I {past or verb}.;list the {unit} I {past or verb}.;all the {unit} that I {past or verb}(, please|)?",
        f"which {unit} you {past or verb}",
        f"how many {unit} {do} I {verb}?;how many {unit} did I say I {past or verb}?;can you count the {unit} that I {past or verb}?;do you know how many {unit} I {past or verb}?",
        f"you {past or verb} [k] {unit}",
        f"{do} I {verb} [i]?;did I say that I {past or verb} [i]?;is it true that I {past or verb} [i]?;is [i] one of the {unit} that I {past or verb}?",
        "",
        f"I also {past or verb} {{all}};I {past or verb} {{all}} too;and {{all}};also {{all}};and I {past or verb} {{all}} (too|as well);oh, and {{all}};and {{all}} (too|as well);I forgot {{all}}",
        "",
        f"{unit} {extra}",
    )


LISTS: tuple[Listing, ...] = (
    named_list(
        "shopping list",
        "goods",
        ";I (need|have|want) to buy {all};we need {all} from the shop;(please |)remind me to buy {all};to buy: {all};I'm going shopping for {all}",
        ";I (bought|got) [i] already",
        "I (also |)need {all} (too|as well|);we need {all} too",
    ),
    named_list(
        "to-do list",
        "tasks",
        ";I (need|have|want) to {all};today I (must|have to) {all};to do: {all};today: {all};my plan for today: {all};tasks: {all}",
        "",
    ),
    named_list(
        "packing list",
        "objects",
        ";I (need|have|want) to pack {all};to pack: {all};we must pack {all}",
        ";I packed [i] already",
    ),
    named_list(
        "guest list",
        "name",
        ";I (invited|am inviting|will invite) {all};the guests are {all};{all} are coming to my party",
        ";[i] (can't come|is not coming|cancelled)",
    ),
    named_list("wish list", "objects", ";I wish for {all};for my birthday I want {all}"),
    named_list("reading list", "title", ";I (want|need) to read {all}"),
    named_list("menu", "food", ";we are (serving|having) {all};for dinner there will be {all}"),
    named_list("list", "goods", ";my list has {all} on it;start a list: {all};list: {all};new list: {all}"),
    named_list("list", "tasks"),
    named_list("playlist", "title", ";I (added|put) {all} to my playlist"),
    having("language", "languages", "speak", "what", tell=";I speak {all} (fluently|at home)"),
    having("instrument", "instruments", "play", "what", "play"),
    having(
        "place",
        "places",
        "visited",
        "what",
        "visit visited",
        tell=";I have been to {all};I've been to {all} so far;so far I have seen {all}",
        past="visited",
    ),
    having(
        "activity",
        "sports",
        "do",
        "what",
        "sport do hobby hobbies",
        tell=";my hobbies are {all};my sports are {all}",
    ),
    having("animals", "animals", "keep", "what", "keep kept pet pets"),
    having("food", "foods", "hate", "what", "hate hated", tell=";I can't stand {all}"),
    having("subject", "subjects", "study", "what", "study studied"),
    having("goods", "things", "bought", "what", "buy bought", past="bought"),
    having("food", "things", "ate", "what", "eat ate eaten", past="ate"),
)
LISTS = tuple(
    replace(
        each,
        what=each.what.replace(" did I visited", " did I visit")
        .replace(" did I bought", " did I buy")
        .replace(" did I ate", " did I eat"),
        many=each.many.replace(" did I visited", " did I visit")
        .replace(" did I bought", " did I buy")
        .replace(" did I ate", " did I eat"),
        whether=each.whether.replace("did I visited", "did I visit")
        .replace("did I bought", "did I buy")
        .replace("did I ate", "did I eat"),
    )
    for each in LISTS
)
TASK_VERBS = "call clean paint repair visit water buy wash feed fix sell return check pay open find finish measure".split()
TASK_THINGS = w.THINGS[:80] + w.NOUNS


def several(source: Source, pool: str, count: int) -> list[str]:
    """Items of a list, none of which shares a word with another."""
    rng = source.rng
    if pool == "goods":
        return distinct(source, rng.choice(["food", "food", "drink"]), count)
    if pool == "tasks":
        verbs, things = rng.sample(TASK_VERBS, count), rng.sample(TASK_THINGS, count)
        return [f"{verb} the {thing_}" for verb, thing_ in zip(verbs, things, strict=True)]
    if pool == "objects":
        return [a(thing_) for thing_ in rng.sample(w.THINGS, count)]
    if pool == "animals":
        return [plural(animal) for animal in rng.sample([each for each in w.ANIMALS if each != "pet"], count)]
    return distinct(source, pool, count)


def a(noun: str) -> str:
    """The noun with its article."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    return noun if noun in MASS else f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


MASS = frozenset("bread cheese jam honey medicine money treasure jewellery furniture music".split())


@dataclass
class ListState:
    """What a list is, and what is on it."""

    listing: Listing
    items: list[str]


def made_list(source: Source, state: ListState, typed: str, slots: dict[str, str]) -> Passage:
    """The passage of a list as it stands; `typed` is how the last of it was told."""
    listing, items = state.listing, state.items
    names = "abcdefg"[: len(items)]
    everything = slotted(list(names))
    all_slots = dict(zip(names, items, strict=True)) | slots
    claim = listing.claim.replace("{all}", everything)
    there = listing.topic.removeprefix("what is ")
    count = ", ".join(f"[{slot}] {number + 1}" for number, slot in enumerate(names))
    asks = [
        Question(listing.what, listing.topic, everything, claim),
        Question(listing.what, listing.topic, everything, claim),
        Question(
            listing.many,
            f"how many {listing.unit} are {listing.within}"
            if listing.within
            else listing.topic.replace("which", "how many", 1),
            count,
            listing.count.replace("[k]", str(len(items))),
        ),
    ]
    if listing.within:
        more = [("first", names[0]), ("last", names[-1]), *zip(("second", "third"), names[1:], strict=False)]
        where = f"on my {listing.name}"
        for order, slot in more[:3]:
            what = f"what is the {order} thing {where}?;what's the {order} thing on the list?;what comes {order} {where}?;which thing is {order} {where}?;{order} thing {where}?;what is {order} {where}?"
            what += (
                f";what do I have to do {order}?;what should I do {order}?"
                if listing.pool == "tasks" and order in ("first", "last")
                else ""
            )
            asks.append(
                Question(
                    what, f"the {order} thing {there}", f"[{slot}]", f"the {order} thing {there} is [{slot}]"
                )
            )
        at = source.rng.randrange(len(names) - 1)
        after = f"what comes after [{names[at]}] {where}?;what comes after [{names[at]}]?;what is next after [{names[at]}]?;after [{names[at]}], what is next?;what is after [{names[at]}] on the list?"
        asks.append(
            Question(
                after,
                f"what comes after [{names[at]}]",
                f"[{names[at + 1]}]",
                f"after [{names[at]}] comes [{names[at + 1]}]",
            )
        )
    at = source.rng.randrange(len(names))
    verb = "is" if listing.within else ""
    topic = (
        f"whether [{names[at]}] {verb} {listing.within}"
        if verb
        else f"whether {listing.claim.replace('{all}', f'[{names[at]}]')}"
    )
    asks.append(
        Question(
            listing.whether.replace("[i]", f"[{names[at]}]"), topic, f"{everything}. So yes", f"Yes, {claim}"
        )
    )
    none = [
        item
        for item in several(source, listing.pool, 4)
        if all(item.lower() not in other.lower() for other in items)
    ]
    if none and none[0].lower() not in str(slots).lower():
        all_slots["z"] = none[0]
        asks.append(
            Question(
                listing.whether.replace("[i]", "[z]"),
                topic.replace(f"[{names[at]}]", "[z]"),
                f"{everything}. So no",
                f"No, {claim}",
            )
        )
    asks = [agreeing(question, all_slots) for question in asks]
    passage = Passage("list", [(typed, claim)], asks, all_slots, claim=claim, extra=listing.extra)
    passage.state = state
    return passage


def agreeing(question: Question, slots: dict[str, str]) -> Question:
    """The question with "are" for "is" before a thing of which there are several."""
    frames, topic = question.frames, question.topic
    for slot, value in slots.items():
        if value.endswith("s") and not value.endswith("ss") and not value.startswith(tuple(TASK_VERBS)):
            frames = frames.replace(f"is [{slot}]", f"are [{slot}]")
            topic = topic.replace(f"[{slot}] is ", f"[{slot}] are ")
    return replace(question, frames=frames, topic=topic)


def start_list(source: Source) -> Passage:
    """A list of two to five things."""
    rng = source.rng
    listing = rng.choice(LISTS)
    items = several(source, listing.pool, rng.choice([2, 3, 3, 4, 4, 5]))
    names = "abcdefg"[: len(items)]
    parts = [f"[{slot}]" for slot in names]
    together = rng.choice([slotted(list(names)), slotted(list(names)), ", ".join(parts)])
    frames = [frame for frame in listing.tell.split(";") if "{them}" not in frame]
    if listing.pool == "tasks":
        no = ("ut {all}", "I have {all}", ", with")
        frames = [frame for frame in frames if not any(part in frame for part in no)]
    typed = rng.choice(frames).replace("{all}", together)
    return made_list(source, ListState(listing, items), typed, {})


def change_list(source: Source, old: Passage) -> Passage | None:
    """The list with more on it or with less, or None if there is no room.

    Right after the telling the list need not be named.
    """
    rng = source.rng
    state = old.state
    assert isinstance(state, ListState)
    listing, items = state.listing, [old.slots["abcdefg"[i]] for i in range(len(state.items))]
    if listing.less and len(items) > 2 and rng.random() < 0.25:
        gone = rng.randrange(len(items))
        typed = rng.choice(
            [frame for frame in listing.less.split(";") if old.near or f"my {listing.name}" in frame]
        ).replace("[i]", "[y]")
        kept = [item for number, item in enumerate(items) if number != gone]
        passage = made_list(source, ListState(listing, kept), typed, {"y": items[gone]})
        passage.changed = True
        return passage
    if not listing.more or len(items) > 5:
        return None
    taken = " ".join(items).lower()
    fresh = [
        item
        for item in several(source, listing.pool, 3)
        if item.lower() not in taken
        and not set(item.lower().split()) & set(taken.split()) - {"a", "an", "the"}
    ]
    fresh = fresh[: rng.choice([1, 1, 2])][: 7 - len(items)]
    if not fresh:
        return None
    names = "abcdefg"[len(items) : len(items) + len(fresh)]
    frames = [frame for frame in listing.more.split(";") if "{one}" not in frame or len(fresh) == 1]
    frames = [
        frame
        for frame in frames
        if old.near or f"my {listing.name}" in frame or (frame.startswith("I also") and not listing.name)
    ]
    typed = rng.choice(frames).replace("{all}", slotted(list(names))).replace("{one}", f"[{names[0]}]")
    passage = made_list(source, ListState(listing, [*items, *fresh]), typed, {})
    passage.changed = True
    return passage


# What is not so.

REASONS = (
    """
my flat is too small;I have no time;I have no money;they are too loud;it is too expensive;I am always tired
I never learned how;nobody asked me;it is too far;it makes me sad;my neighbours would complain;I am too old
I travel too much;the doctor said so;it is bad for me;I was ill as a child;my landlord forbids it;it is boring
I work too much;it was too cold;I hurt my back;I am afraid of it;it reminds me of school;I prefer to walk
""".strip()
    .replace("\n", ";")
    .split(";")
)
DISLIKES = (
    ("eat", "food"),
    ("like", "food"),
    ("drink", "drink"),
    ("like", "activity"),
    ("play", "instrument"),
    ("speak", "language"),
    ("study", "subject"),
    ("like", "music"),
    ("like", "animals"),
    ("drive", "cars"),
    ("watch", "title"),
    ("read", "title"),
    ("need", "objects"),
    ("want", "objects"),
)


def why(negative: str, user: str, claim: str, reason: str) -> Question:
    """Why something is not so."""
    return Question(
        f"why {negative}?;why is it that {user}?;can you tell me why {user}?;do you know why {user}?;tell me why {user}.;what was the reason that {user}?;remind me why {user}.",
        f"why {claim}",
        yours(reason),
        f"{claim} because {yours(reason)}",
    )


def lacking(source: Source) -> Passage:
    """What the user does not have."""
    rng = source.rng
    pool = rng.choice([w.ANIMALS, w.ANIMALS, w.THINGS, w.THINGS, RELATIONS])
    noun = rng.choice([each for each in pool if not each.endswith("s") and each not in MASS])
    thing_ = a(noun)
    slots: dict[str, str] = {}
    claim = f"you do not have {thing_}"
    said = rng.choice(
        [
            f"I don't have {thing_}",
            f"I don't have {thing_}",
            f"I do not have {thing_}",
            f"I have no {noun}",
            f"I don't own {thing_}" if pool is not RELATIONS else f"I have no {noun}",
            f"I don't have any {plural(noun)}",
            f"I have no {plural(noun)}",
        ]
    )
    asks = [
        Question(
            f"do I have {thing_}?;do I have {thing_} at home?;did I say I have {thing_}?;do I own {thing_}?;do I have any {plural(noun)}?;do you know whether I have {thing_}?;is there {thing_} in my life?;I have {thing_}, right?",
            f"whether you have {thing_}",
            "no",
            f"No, {claim}",
        )
    ]
    missing = []
    pieces = [(said, claim)]
    chance = rng.random()
    if chance < 0.45:
        reason = rng.choice(REASONS)
        joint = rng.choice([" because ", ", because ", ", ", " as ", " since "])
        pieces = [(f"{said}{joint}{reason}", f"{claim} because {yours(reason)}")]
        asks += [why(f"don't I have {thing_}", f"I don't have {thing_}", claim, reason)] * 2
    else:
        missing.append(why(f"don't I have {thing_}", f"I don't have {thing_}", claim, ""))
        if chance < 0.8:
            other = a(
                rng.choice(
                    [
                        each
                        for each in (w.ANIMALS if pool is w.ANIMALS else w.THINGS)
                        if each != noun and not each.endswith("s")
                    ]
                )
            )
            more = rng.choice([f" but I have {other}", f", but I have {other}", f", only {other}"])
            pieces = [(said + more, f"{claim}, but you have {other}")]
            asks.append(
                Question(
                    f"do I have {other}?;did I say I have {other}?;do I own {other}?",
                    f"whether you have {other}",
                    "yes",
                    f"Yes, you have {other}",
                )
            )
            asks.append(
                Question(
                    "~what do I have?;what do I have instead?;~so what do I have?",
                    "what you have",
                    other,
                    f"you have {other}",
                )
            )
    return retold(
        Passage(
            "not",
            pieces,
            asks,
            slots,
            missing,
            extra="own pet pets animal animals" if pool is w.ANIMALS else "own",
        ),
        source,
        0.3,
    )


def disliking(source: Source) -> Passage:
    """What the user does not do, and what they do."""
    rng = source.rng
    verb, pool = rng.choice(DISLIKES)
    if pool in ("animals", "objects"):
        x, y, z = several(source, pool, 3)
    elif pool == "cars":
        x, y, z = (a(each) for each in distinct(source, "car", 3))
    else:
        x, y, z = distinct(source, pool, 3)
    slots = {"x": x, "y": y, "z": z}
    no = rng.choice(
        [f"I don't {verb} [x]", f"I don't {verb} [x]", f"I do not {verb} [x]", f"I never {verb} [x]"]
    )
    claim = f"you do not {verb} [x]"

    def whether(slot: str, yes: bool) -> Question:
        answer = f"Yes, you {verb} [{slot}]" if yes else f"No, you do not {verb} [{slot}]"
        return Question(
            f"do I {verb} [{slot}]?;do I {verb} [{slot}]?;did I say I {verb} [{slot}]?;is it true that I {verb} [{slot}]?;I {verb} [{slot}], right?;do you know whether I {verb} [{slot}]?;do you think I {verb} [{slot}]?",
            f"whether you {verb} [{slot}]",
            "yes" if yes else "no",
            answer,
        )

    asks = [whether("x", False)] * 2
    missing: list[Question] = []
    chance = rng.random()
    if chance < 0.25:
        reason = rng.choice(REASONS)
        joint = rng.choice([" because ", ", because ", " since "])
        pieces = [(f"{no}{joint}{reason}", f"{claim} because {yours(reason)}")]
        asks += [why(f"don't I {verb} [x]", f"I don't {verb} [x]", claim, reason)] * 2
    else:
        missing.append(why(f"don't I {verb} [x]", f"I don't {verb} [x]", claim, ""))
        pieces = [(no, claim)]
        if chance < 0.5:
            pieces = [
                (
                    no
                    + rng.choice([f", and I don't {verb} [y] either", " or [y]", f" and I don't {verb} [y]"]),
                    f"{claim} or [y]",
                )
            ]
            asks.append(whether("y", False))
            claim = f"{claim} or [y]"
        if chance > 0.4:
            said, told = pieces[0]
            pieces = [
                (
                    said
                    + rng.choice(
                        [f", but I {verb} [z]", f" but I {verb} [z]", ", only [z]", f", I {verb} [z]"]
                    ),
                    f"{told}, but you {verb} [z]",
                )
            ]
            asks += [whether("z", True)]
            asks.append(
                Question(
                    f"what do I {verb}?;so what do I {verb}?;what do I {verb} then?;do you know what I {verb}?",
                    f"what you {verb}",
                    "[z]",
                    f"you {verb} [z]",
                )
            )
        asks.append(
            Question(
                f"what don't I {verb}?;what do I not {verb}?;what did I say I don't {verb}?;do you know what I don't {verb}?",
                f"what you do not {verb}",
                "[x] or [y]" if chance < 0.5 and "[y]" in claim else "[x]",
                claim,
            )
        )
    return retold(Passage("not", pieces, asks, slots, missing, extra=verb), source)


def able(source: Source) -> Passage:
    """What somebody cannot do, and what they can."""
    rng = source.rng
    skills = "swim;cook;drive;dance;sing;whistle;ski;knit;juggle;paint;climb;sail;bake;sew;type;skate;ride a bike;play chess;read music;ride a horse".split(
        ";"
    )
    no, yes = rng.sample(skills, 2)
    said = rng.choice(
        [
            f"I can't {no}",
            f"I cannot {no}",
            f"I never learned to {no}",
            f"I can't {no} at all",
            f"I have never learned to {no}",
        ]
    )
    claim = f"you cannot {no}"
    asks = [
        Question(
            f"can I {no}?;can I {no}?;did I say I can {no}?;do you think I can {no}?;do you know whether I can {no}?",
            f"whether you can {no}",
            "no",
            f"No, {claim}",
        )
    ] * 2
    missing = [why(f"can't I {no}", f"I can't {no}", claim, "")]
    pieces = [(said, claim)]
    if rng.random() < 0.6:
        pieces = [
            (said + rng.choice([", but", " but", "."]) + f" I can {yes}", f"{claim}, but you can {yes}")
        ]
        asks.append(
            Question(
                f"can I {yes}?;did I say I can {yes}?;do you know whether I can {yes}?",
                f"whether you can {yes}",
                "yes",
                f"Yes, you can {yes}",
            )
        )
    return retold(Passage("not", pieces, asks, {}, missing, extra="can skill"), source, 0.6)


def rather(source: Source) -> Passage:
    """Not this but that: what is wrong is said first."""
    rng = source.rng
    case = rng.randrange(6)
    if case == 0:
        x, y = rng.sample(w.DAYS, 2)
        verb = rng.choice(["come", "meet you", "work", "train", "help", "call", "travel", "visit you"])
        said = rng.choice(
            [
                f"I can't {verb} on [x], only on [y]",
                f"I cannot {verb} on [x] but I can on [y]",
                f"I can only {verb} on [y], not on [x]",
                f"[x] is no good for me, I can {verb} on [y]",
            ]
        )
        mine = verb.replace("you", "me")
        claim = f"you can {mine} on [y], not on [x]"
        asks = [
            Question(
                f"when can I {verb}?;which day can I {verb}?;on which day can I {verb}?;what day can I {verb}?;do you know when I can {verb}?",
                f"when you can {mine}",
                "on [y]",
                claim,
            ),
            Question(
                f"can I {verb} on [x]?;is [x] fine for me?",
                f"whether you can {mine} on [x]",
                "no",
                f"No, {claim}",
            ),
            Question(
                f"can I {verb} on [y]?;is [y] fine for me?",
                f"whether you can {mine} on [y]",
                "yes",
                f"Yes, {claim}",
            ),
        ]
        return Passage("not", [(said, claim)], asks, {"x": x, "y": y}, extra="when day can")
    kinds = (
        (
            "place",
            "am from",
            "are from",
            "where am I from?;where do I come from?;which country am I from?;which place am I from?",
            "where you are from",
            "am I from [v]?;do I come from [v]?",
            "from come",
        ),
        (
            "job",
            "am a",
            "are a",
            "what is my job?;what do I do?;what do I work as?;what do I do for a living?",
            "your job",
            "am I a [v]?;do I work as a [v]?",
            "job work profession",
        ),
        (
            "place",
            "live in",
            "live in",
            "where do I live?;which city do I live in?;where's my home?",
            "where you live",
            "do I live in [v]?;is my home in [v]?",
            "live home house flat city town",
        ),
        (
            "age",
            "am",
            "are",
            "how old am I?;what is my age?;what's my age?",
            "how old you are",
            "am I [v]?;am I [v] years old?",
            "old age years",
        ),
        (
            "company",
            "work at",
            "work at",
            "where do I work?;who do I work for?",
            "where you work",
            "do I work at [v]?;do I work for [v]?",
            "work job company",
        ),
    )
    kind, mine, your, what, topic, whether, extra = kinds[case - 1]
    x, y = distinct(source, kind, 2)
    head, _, tail = mine.partition(" ")
    tail = f" {tail}" if tail else ""
    negated = f"am not{tail}" if head == "am" else f"don't {mine}"
    denied = f"are not{tail}" if head == "am" else f"do not {your}"
    years = " years old" if kind == "age" else ""
    said = rng.choice(
        [
            f"I {negated} [x], I {mine} [y]",
            f"I {negated} [x]. I {mine} [y]",
            f"I {negated} [x] but{tail} [y]" if head == "am" else f"I {mine} [y], not{tail} [x]",
            f"people think that I {mine} [x] but I {mine} [y]",
            f"I {negated} [x], people always get that wrong, I {mine} [y]",
            f"I {mine} [y] and not{tail} [x]",
        ]
    )
    claim = f"you {your} [y]{years}, not [x]" if kind != "job" else "you are a [y], not a [x]"
    yes = f"you {your} [y]{years}"
    asks = [
        Question(what, topic, "[y]", yes),
        Question(what, topic, "[y]", yes),
        Question(
            whether.replace("[v]", "[x]"),
            f"whether you {your} [x]{years}",
            "no",
            f"No, you {denied} [x]{years}. You {your} [y]",
        ),
        Question(whether.replace("[v]", "[y]"), f"whether you {your} [y]{years}", "yes", f"Yes, {yes}"),
    ]
    return Passage("not", [(said, claim)], asks, {"x": x, "y": y}, extra=extra)


# Comparisons.

DEGREES = (
    ("taller", "tallest", "shorter", "shortest"),
    ("older", "oldest", "younger", "youngest"),
    ("faster", "fastest", "slower", "slowest"),
    ("stronger", "strongest", "weaker", "weakest"),
    ("richer", "richest", "poorer", "poorest"),
    ("louder", "loudest", "quieter", "quietest"),
    ("bigger", "biggest", "smaller", "smallest"),
    ("heavier", "heaviest", "lighter", "lightest"),
    ("happier", "happiest", "sadder", "saddest"),
)


def comparison(source: Source) -> Passage:
    """Two or three people, one more of something than the other."""
    rng = source.rng
    more, most, less, least = rng.choice(DEGREES)
    count = rng.choice([2, 3, 3])
    slots = dict(zip("abc", distinct(source, "name", count), strict=False))
    mine = [f"[{slot}]" for slot in "abc"[:count]]
    if rng.random() < 0.35:
        for i, noun in enumerate(relatives(rng, count)):
            mine[i] = f"my {noun}"
            slots.pop("abc"[i])
    theirs = [yours(each) for each in mine]
    pairs = list(zip(range(count - 1), range(1, count), strict=True))
    pieces = []
    for high, low in pairs:
        if rng.random() < 0.65:
            pieces.append(
                (f"{mine[high]} is {more} than {mine[low]}", f"{theirs[high]} is {more} than {theirs[low]}")
            )
        else:
            pieces.append(
                (f"{mine[low]} is {less} than {mine[high]}", f"{theirs[low]} is {less} than {theirs[high]}")
            )
    if rng.random() < 0.3:
        pieces.reverse()
    order = ", then ".join(theirs)
    top, bottom = (most, least) if count > 2 else (more, less)
    asks = []
    for word, who in ((top, 0), (bottom, count - 1)):
        said = (
            f"{theirs[who]} is the {word}" if count > 2 else f"{theirs[who]} is {word} than {theirs[1 - who]}"
        )
        among = f"who is the {word}?;who's the {word}?;~which of them is the {word}?;and who is the {word}?;~who is the {word} of them?;do you know who is the {word}?;tell me who the {word} is."
        if count == 2:
            among = f"who is {word}?;who is {word}, {mine[0]} or {mine[1]}?;who's {word}?;~which of the two is {word}?;who is {word}, {mine[1]} or {mine[0]}?;~which one is {word}?;~who of them is {word}?"
        the = "the " if count > 2 else ""
        asks += [Question(among, f"who is {the}{word}", f"{more} first: {order}", said)] * 2
    high, low = sorted(rng.sample(range(count), 2))
    asks.append(
        Question(
            f"is {mine[high]} {more} than {mine[low]}?",
            f"whether {theirs[high]} is {more} than {theirs[low]}",
            f"{more} first: {order}. So yes",
            f"Yes, {theirs[high]} is {more} than {theirs[low]}",
        )
    )
    asks.append(
        Question(
            f"is {mine[low]} {more} than {mine[high]}?",
            f"whether {theirs[low]} is {more} than {theirs[high]}",
            f"{more} first: {order}. So no",
            f"No, {theirs[high]} is {more} than {theirs[low]}",
        )
    )
    return Passage(
        "compare",
        pieces,
        asks,
        slots,
        extra=f"{more} {most} {less} {least}" + (" age" if more == "older" else ""),
    )


def ages(source: Source) -> Passage:
    """The ages of two people, who are then compared."""
    rng = source.rng
    slots = dict(zip("ab", distinct(source, "name", 2), strict=True))
    x, y = rng.sample(range(3, 95), 2)
    mine = ["[a]", "[b]"]
    if rng.random() < 0.4:
        for i, noun in enumerate(relatives(rng, 2)):
            mine[i] = f"my {noun}"
        slots = {}
    theirs = [yours(each) for each in mine]
    slots |= {"x": str(x), "y": str(y)}
    old = rng.choice([" years old", "", ""])
    said = rng.choice(
        [
            f"{mine[0]} is [x]{old} and {mine[1]} is [y]",
            f"{mine[0]} is [x]{old}, {mine[1]} is [y]{old}",
            f"{mine[0]} is [x]{old}. {mine[1]} is [y]{old}",
            f"{mine[0]} ([x]) and {mine[1]} ([y]) are here",
        ]
    )
    claim = f"{theirs[0]} is [x] years old and {theirs[1]} is [y]"
    high, low = (0, 1) if x > y else (1, 0)
    told = f"{theirs[0]} [x], {theirs[1]} [y]"
    asks = [
        Question(
            f"how old is {who}?;what is {who}'s age?;do you know how old {who} is?",
            f"how old {their} is",
            f"[{slot}]",
            f"{their} is [{slot}] years old",
        )
        for who, their, slot in zip(mine, theirs, "xy", strict=True)
    ]
    for word, who, other in (("older", high, low), ("younger", low, high)):
        asks.append(
            Question(
                f"who is {word}?;who is {word}, {mine[0]} or {mine[1]}?;~which of the two is {word}?;who's {word}?",
                f"who is {word}",
                f"{told}. {max(x, y)} is more than {min(x, y)}",
                f"{theirs[who]} is {word} than {theirs[other]}",
            )
        )
    asks.append(
        Question(
            "who is [x]?;~which of them is [x]?;who is [x] years old?",
            "who is [x] years old",
            theirs[0],
            f"{theirs[0]} is [x] years old",
        )
    )
    return Passage("compare", [(said, claim)], asks, slots, extra="age old older younger")


# Kinship.

CHAINS = {
    ("father", "mother"): "grandfather",
    ("father", "father"): "grandfather",
    ("mother", "mother"): "grandmother",
    ("mother", "father"): "grandmother",
    ("sister", "mother"): "aunt",
    ("sister", "father"): "aunt",
    ("brother", "mother"): "uncle",
    ("brother", "father"): "uncle",
    ("son", "sister"): "nephew",
    ("son", "brother"): "nephew",
    ("daughter", "sister"): "niece",
    ("daughter", "brother"): "niece",
    ("son", "uncle"): "cousin",
    ("daughter", "aunt"): "cousin",
    ("son", "aunt"): "cousin",
    ("daughter", "uncle"): "cousin",
    ("son", "son"): "grandson",
    ("son", "daughter"): "grandson",
    ("daughter", "son"): "granddaughter",
    ("daughter", "daughter"): "granddaughter",
    ("father", "wife"): "father-in-law",
    ("father", "husband"): "father-in-law",
    ("mother", "wife"): "mother-in-law",
    ("mother", "husband"): "mother-in-law",
    ("wife", "brother"): "sister-in-law",
    ("husband", "sister"): "brother-in-law",
}
LINKS = tuple(CHAINS.items())
CLOSE = "boyfriend;girlfriend;best friend;boss;neighbour;teacher;dog;cat;husband;wife;doctor;tutor;parrot;horse".split(
    ";"
)


def kinship(source: Source) -> Passage:
    """Somebody's relation by way of another: my mother's father is my grandfather."""
    rng = source.rng
    a_, b = distinct(source, "name", 2)
    slots = {"a": a_, "b": b}
    (outer, inner), result = rng.choice(LINKS)
    pieces = [
        rng.choice(
            [
                (f"[a] is [b]'s {outer}", f"[a] is [b]'s {outer}"),
                (f"[b]'s {outer} is [a]", f"[b]'s {outer} is [a]"),
            ]
        ),
        rng.choice(
            [
                (f"[b] is my {inner}", f"[b] is your {inner}"),
                (f"my {inner} is [b]", f"your {inner} is [b]"),
                (f"my {inner} is called [b]", f"your {inner} is called [b]"),
            ]
        ),
    ]
    if rng.random() < 0.5:
        pieces.reverse()
    if rng.random() < 0.3:
        pieces = [
            (f"my {inner}'s {outer} is called [a]", f"your {inner}'s {outer} is called [a]"),
            (f"my {inner} is called [b]", f"your {inner} is called [b]"),
        ]
    a_or = f"your {inner}'s {outer} [a]"
    asks = [
        Question(
            f"who is my {result}?;what is my {result} called?;what is my {result}'s name?;what's the name of my {result}?;do you know who my {result} is?",
            f"who your {result} is",
            f"{a_or}",
            f"your {result} is [a]",
        ),
        Question(
            f"who is my {result}?;what is my {result} called?",
            f"who your {result} is",
            f"{a_or}",
            f"your {result} is [a]",
        ),
        Question(
            "who is [a] to me?;how is [a] related to me?;what is [a] to me?",
            "who [a] is to you",
            a_or,
            f"[a] is your {result}",
        ),
        Question(
            "who is [b]?;who's [b]?;do you know who [b] is?;who was [b]?",
            "who [b] is",
            f"your {inner}",
            f"[b] is your {inner}",
        ),
        Question(
            f"who is [b]'s {outer}?;what is [b]'s {outer} called?;who is my {inner}'s {outer}?",
            f"who [b]'s {outer} is",
            "[a]",
            f"[b]'s {outer} is [a]",
        ),
        Question(
            f"what is my {inner} called?;what's my {inner}'s name?;who is my {inner}?",
            f"your {inner}'s name",
            "[b]",
            f"your {inner} is called [b]",
        ),
    ]
    return Passage("kinship", pieces, asks, slots, extra=f"{result} family")


def household(source: Source) -> Passage:
    """The people of the user's home, each with a name, and how many they are."""
    rng = source.rng
    count = rng.choice([2, 2, 3, 4])
    nouns = rng.sample(
        [
            "wife",
            "son",
            "daughter",
            "mother",
            "father",
            "sister",
            "brother",
            "grandmother",
            "aunt",
            "uncle",
            "cousin",
            "niece",
        ],
        count,
    )
    slots = dict(zip("abcd", distinct(source, "name", count), strict=False))
    parts = [f"my {noun} [{slot}]" for noun, slot in zip(nouns, "abcd", strict=False)]
    whole = NUMBERS[count + 1]
    start = rng.choice(
        [
            f"we are a family of {whole}: me, ",
            f"we are {whole} at home: me, ",
            "my family: ",
            "I live with ",
            "at home I have ",
            f"there are {whole} of us: me, ",
        ]
    )
    said = start + rng.choice([together(parts), ", ".join(parts)])
    claims = [f"your {noun} is called [{slot}]" for noun, slot in zip(nouns, "abcd", strict=False)]
    asks: list[Question] = []
    for noun, slot, claim in zip(nouns, "abcd", claims, strict=False):
        asks += [
            Question(
                f"what is my {noun} called?;what's my {noun}'s name?;what is the name of my {noun}?;who is my {noun}?;my {noun}'s name?;and my {noun}?;do you know my {noun}'s name?",
                f"your {noun}'s name",
                f"[{slot}]",
                claim,
            ),
            Question(
                f"who is [{slot}]?;who's [{slot}]?;do you know who [{slot}] is?;and who is [{slot}]?",
                f"who [{slot}] is",
                f"your {noun}",
                f"[{slot}] is your {noun}",
            ),
        ]
    if whole in start:
        asks += [
            Question(
                "how many people are in my family?;how many people live in my home?;how many are we?;how big is my family?;how many of us are there?",
                "how many people are in your family",
                whole,
                f"there are {whole} people in your family",
            )
        ] * 2
    return Passage(
        "kinship", [(said, together(claims))], asks, slots, extra="family live home people relatives"
    )


def theirs(source: Source) -> Passage:
    """Somebody of the user's, and somebody or something of theirs."""
    rng = source.rng
    noun = rng.choice(RELATIONS)
    she = gender(rng, f"my {noun}", False)
    her = {"she": "her", "he": "his"}[she]
    other = rng.choice([each for each in CLOSE if each != noun])
    animal = other in ("dog", "cat", "parrot", "horse")
    kind = "pet" if animal else "name"
    a_, b = distinct(source, "name", 2)
    slots = {"a": a_, "b": distinct(source, kind, 1)[0] if animal else b}
    if slots["b"].lower() == a_.lower():
        slots["b"] = b
    full, yours_ = f"my {noun} [a]", f"your {noun} [a]"
    the = f"{yours_}'s {other}"
    case = rng.random()
    if case < 0.35:
        pieces = [(f"{full} has {a(other)} called [b]", f"{yours_} has {a(other)} called [b]")]
    elif case < 0.55:
        pieces = [
            (f"my {noun} is called [a]", f"your {noun} is called [a]"),
            (f"{she} has {a(other)}", f"{yours_} has {a(other)}"),
            (
                rng.choice(["it is called [b]", "it's called [b]", "its name is [b]"])
                if animal
                else f"{the} is called [b]",
                f"{the} is called [b]",
            ),
        ]
    elif case < 0.8:
        pieces = [
            (f"{full} is here", f"your {noun} is called [a]"),
            (f"{her} {other} [b] is here too", f"{the} is called [b]"),
        ]
    else:
        pieces = [
            (
                f"{full} and {her} {other} [b] are visiting me",
                f"{yours_} and {her} {other} [b] are visiting you",
            )
        ]
    asks = [
        Question(
            f"what is my {noun}'s {other} called?;what's the name of [a]'s {other}?;what is [a]'s {other} called?;who is my {noun}'s {other}?;what's my {noun}'s {other}'s name?;and my {noun}'s {other}?;do you know what [a]'s {other} is called?",
            f"the name of {the}",
            "[b]",
            f"{the} is called [b]",
        ),
        Question(
            "who is [b]?;who's [b]?;who is [b] again?;do you know who [b] is?;and who is [b]?;tell me who [b] is.",
            "who [b] is",
            the,
            f"[b] is {the}",
        ),
        Question(
            "who is [a]?;who's [a]?;do you know who [a] is?;and who is [a]?;who is [a] again?",
            "who [a] is",
            f"your {noun}",
            f"[a] is your {noun}",
        ),
        Question(
            f"what is my {noun} called?;what's my {noun}'s name?;what is the name of my {noun}?",
            f"your {noun}'s name",
            "[a]",
            f"your {noun} is called [a]",
        ),
    ]
    if animal:
        asks.append(
            Question(
                f"who has {a(other)}?;who owns [b]?;whose {other} is [b]?;who has {a(other)} called [b]?;whose is [b]?",
                f"who has {a(other)}",
                yours_,
                f"{yours_} has {a(other)} called [b]",
            )
        )
    else:
        asks.append(Question(f"whose {other} is [b]?", f"whose {other} [b] is", yours_, f"[b] is {the}"))
    missing = [
        Question(f"how old is [b]?;how old is my {noun}'s {other}?", f"how old {the} is", "", ""),
        Question("where does [a] live?;do you know where [a] lives?", f"where {yours_} lives", "", ""),
    ]
    return Passage("kinship", pieces, asks, slots, missing, extra="pet pets animal family")


# Things told of by "it".

OWNED = "boat tent guitar bike car house flat garden piano camera laptop violin caravan cabin van desk watch ring coat lamp clock phone bag sofa kite motorbike tractor telescope drum rug vase chair table scarf hat jacket robot suitcase teapot painting".split()
FIRMS = "shop;bakery;cafe;restaurant;bookshop;flower shop;hotel;bar;farm;studio;workshop;band;choir;club;company;school;blog;podcast;guesthouse;gallery;garage;barber shop;tea house;pet shop;bike shop;music school".split(
    ";"
)


def owned(source: Source) -> Passage:
    """A thing and some of its attributes, most of them told of by "it"."""
    rng = source.rng
    firm = rng.random() < 0.35
    noun = rng.choice(FIRMS if firm else OWNED)
    adjective = rng.choice(["", "", "little ", "small ", "new ", "old "])
    start = rng.choice(
        ["I run {}", "I have {}", "I own {}", "I opened {}"]
        if firm
        else ["I have {}", "I bought {}", "I've got {}", "I own {}", "I got {}", "there is {} in my life"][:5]
    )
    thing_ = a(f"{adjective}{noun}")
    it = f"my {noun}"
    your = f"your {noun}"
    slots: dict[str, str] = {}
    said = {start: f"you have {thing_}"}
    options: list[tuple[str, str, str, Question]] = []

    def option(slot: str, value: str, user: str, claim: str, frames: str, topic: str, told: str = "") -> None:
        options.append((slot, value, user, Question(frames, topic, told or f"[{slot}]", claim)))

    option(
        "v",
        distinct(source, rng.choice(["name", "pet", "title"]), 1)[0],
        "it is called [v];it's called [v];its name is [v];the name is [v];I call it [v]",
        f"{your} is called [v]",
        f"what is {it} called?;what's the name of {it}?;what is {it}'s name?;do you know the name of {it}?;how is {it} called?;name of {it}?",
        f"the name of {your}",
    )
    if firm:
        option(
            "p",
            distinct(source, "place", 1)[0],
            "it is in [p];it's in [p];you find it in [p]",
            f"{your} is in [p]",
            f"where is {it}?;in which town is {it}?;which city is {it} in?;in which city is {it}?;where's {it}?",
            f"where {your} is",
        )
        option(
            "y",
            str(rng.randint(1950, 2025)),
            "I opened it in [y];I started it in [y];it opened in [y];it started in [y]",
            f"{your} started in [y]",
            f"when did I open {it}?;when did {it} start?;when did I start {it}?;since when is there {it}?;in which year did {it} open?;what year did I open {it}?;when did {it} open?",
            f"when {your} started",
        )
        option(
            "k",
            str(rng.randint(2, 60)),
            "it has [k] workers;[k] people work there",
            f"[k] people work in {your}",
            f"how many people work in {it}?;how many workers does {it} have?;how many people work there?",
            f"how many people work in {your}",
        )
        option(
            "t",
            clock(rng),
            "it opens at [t];it's open from [t] on",
            f"{your} opens at [t]",
            f"when does {it} open?;what time does {it} open?;at what time does {it} open?",
            f"when {your} opens",
        )
    else:
        option(
            "c",
            rng.choice(w.COLOURS),
            "it is [c];it's [c];the colour is [c];its colour is [c]",
            f"{your} is [c]",
            f"what colour is {it}?;what color is {it}?;which colour is {it}?;what colour does {it} have?;what is the colour of {it}?",
            f"the colour of {your}",
        )
        option(
            "y",
            str(rng.randint(1950, 2025)),
            "it is from [y];it's from [y];it was made in [y]",
            f"{your} is from [y]",
            f"from what year is {it}?;which year is {it} from?;how old is {it}?;when was {it} made?;from which year is {it}?",
            f"from which year {your} is",
        )
        option(
            "m",
            f"{rng.randint(2, 900)} {rng.choice(['euros', 'dollars', 'pounds', 'francs'])}",
            "it cost [m];it cost me [m];I paid [m] for it;the price was [m]",
            f"{your} cost [m]",
            f"how much did {it} cost?;what did {it} cost?;how much did I pay for {it}?;what did I pay for {it}?;how expensive was {it}?;how much was {it}?;what was the price of {it}?",
            f"how much {your} cost",
        )
        option(
            "g",
            distinct(source, "name", 1)[0],
            "[g] gave it to me;I got it from [g];it was a present from [g];it is from [g]",
            f"{your} is from [g]",
            f"who gave me {it}?;from whom is {it}?;who did I get {it} from?;from whom did I get {it}?;who gave {it} to me?",
            f"who gave you {it.replace('my', 'your')}",
        )
        option(
            "p",
            distinct(source, "place", 1)[0],
            "it comes from [p];I bought it in [p];it is from [p];I found it in [p]",
            f"{your} comes from [p]",
            f"where does {it} come from?;where is {it} from?;where did I get {it}?;which place is {it} from?",
            f"where {your} comes from",
        )
        option(
            "s",
            rng.choice(["in", "behind", "next to"]) + f" the {rng.choice(w.SPOTS[:24])}",
            "it stands [s];it is [s];it's [s];I keep it [s];you find it [s]",
            f"{your} is [s]",
            f"where is {it}?;where's {it}?;where do I keep {it}?;in which place is {it}?;do you know where {it} is?",
            f"where {your} is",
        )
    rng.shuffle(options)
    # What "from" could mean twice is told once.
    picked, rest = options[: rng.choice([1, 2, 2, 3, 4])], options[4:]
    if sum("is from" in question.reply or "comes from" in question.reply for *_, question in picked) > 1:
        picked = picked[:1]
    pieces = [(start.format(thing_), said[start])]
    asks: list[Question] = []
    for slot, value, user, question in picked:
        slots[slot] = value
        typed = rng.choice(user.split(";"))
        near = rng.random() < 0.3
        pieces.append(
            (
                typed.replace("it ", f"the {noun} ", 1) if near and typed.startswith("it ") else typed,
                question.reply,
            )
        )
        asks += [question] * 2
    if firm and rng.random() < 0.4 and "p" in slots:
        pieces = [
            (f"{pieces[0][0]} in [p]", pieces[0][1]),
            *[(said_, told) for said_, told in pieces[1:] if "[p]" not in said_],
        ]
        pieces[0] = (pieces[0][0], f"{pieces[0][1]} in [p]")
    asks.append(
        Question(
            f"do I have {a(noun)}?;did I say I have {a(noun)}?",
            f"whether you have {a(noun)}",
            "yes",
            f"Yes, you have {thing_}",
        )
    )
    missing = [question for slot, _, _, question in rest if slot not in slots][:2]
    if any(slot in ("p", "s", "g", "y") for slot in slots):
        missing = [
            question
            for question in missing
            if "from" not in question.topic and "where" not in question.topic and "when" not in question.topic
        ]
    return retold(Passage("it", pieces, asks, slots, missing, extra=noun), source, 0.25)


FODDER = [food for food in w.FOODS if food not in ("pollen", "dust", "penicillin", "gluten")]


def animal(source: Source) -> Passage:
    """A pet, its name, and what is told of it by "he", "she" or "it"."""
    rng = source.rng
    noun = rng.choice(
        [each for each in w.ANIMALS if each not in ("pet", "sheep", "fish", "goldfish", "cattle")]
    )
    he, his = rng.choice([("he", "his"), ("she", "her"), ("it", "its")])
    it, your = f"my {noun}", f"your {noun}"
    slots = {
        "v": distinct(source, "pet", 1)[0],
        "c": rng.choice(w.COLOURS),
        "k": str(rng.randint(1, 30)),
        "f": rng.choice(FODDER),
        "s": rng.choice(["in", "under", "behind", "next to"]) + f" the {rng.choice(w.SPOTS[:24])}",
    }
    both = [it, it, "[v]"]
    options = {
        "c": (
            f"{he} is [c]",
            f"{your} is [c]",
            "what colour is {};what color is {};which colour is {};what colour does {} have",
            f"the colour of {your}",
        ),
        "k": (
            rng.choice([f"{he} is [k] years old", f"{he} is [k]"]),
            f"{your} is [k] years old",
            "how old is {};what is the age of {};do you know how old {} is",
            f"how old {your} is",
        ),
        "f": (
            rng.choice([f"{he} eats [f]", f"{he} only eats [f]"]),
            f"{your} eats [f]",
            "what does {} eat;what do I feed {};what food does {} eat;do you know what {} eats",
            f"what {your} eats",
        ),
        "s": (
            f"{he} sleeps [s]",
            f"{your} sleeps [s]",
            "where does {} sleep;in which place does {} sleep;do you know where {} sleeps",
            f"where {your} sleeps",
        ),
    }
    picked = rng.sample(list(options), rng.choice([1, 1, 2, 3]))
    start = rng.choice(["I have", "I've got", "we have", "I own", "I got"])
    named = rng.random() < 0.8
    pieces = [(f"{start} {a(noun)}", f"you have {a(noun)}")]
    asks, missing = [], []
    called = Question(
        f"what is {it} called?;what's the name of {it}?;what is {it}'s name?;name of {it}?;what did I name {it}?;do you know {it}'s name?",
        f"the name of {your}",
        "[v]",
        f"{your} is called [v]",
    )
    if named:
        claim = f"{your} is called [v]"
        if rng.random() < 0.5:
            pieces = [(f"{start} {a(noun)} {rng.choice(['called', 'named'])} [v]", claim)]
        else:
            pieces.append(
                (
                    rng.choice(
                        [f"{his} name is [v]", f"{he} is called [v]", f"{he}'s called [v]", "the name is [v]"]
                    ),
                    claim,
                )
            )
        asks += [called] * 2
        asks.append(
            Question(
                "who is [v]?;what is [v]?;who's [v]?;what sort of animal is [v]?;what kind of animal is [v]?",
                "who [v] is",
                your,
                f"[v] is {your}",
            )
        )
    else:
        missing.append(called)
    for slot, (said, claim, frames, topic) in options.items():
        names = both if named else [it]
        question = Question(
            ";".join(f"{frame.format(rng.choice(names))}?" for frame in frames.split(";"))
            + f";~{frames.split(';')[0].format(he)}?",
            topic,
            f"[{slot}]",
            claim,
        )
        if slot in picked:
            pieces.append((said, claim))
            asks += [question] * 2
        else:
            missing.append(question)
    asks.append(
        Question(
            "what animal do I have?;which animal do I have?;which pet do I have?;what pet do I have?",
            "which animal you have",
            a(noun),
            pieces[0][1] if not named else f"you have {a(noun)} called [v]",
        )
    )
    unused = {slot for slot in options if slot not in picked} | (set() if named else {"v"})
    slots = {slot: value for slot, value in slots.items() if slot not in unused}
    missing = [
        question
        for question in missing
        if not any(f"[{slot}]" in question.frames + question.topic for slot in unused)
    ]
    return Passage("it", pieces, asks, slots, missing[:2], extra=f"{noun} pet pets animal animals")


# Who does what.

ROLES = (
    ("bring", "food", "[v]"),
    ("bring", "drink", "[v]"),
    ("teach", "subject", "[v]"),
    ("study", "subject", "[v]"),
    ("play", "instrument", "[v]"),
    ("speak", "language", "[v]"),
    ("drive", "car", "a [v]"),
    ("drink", "drink", "[v]"),
    ("eat", "food", "[v]"),
    ("like", "activity", "[v]"),
    ("hate", "food", "[v]"),
    ("cook", "food", "[v]"),
    ("read", "title", "[v]"),
    ("love", "music", "[v]"),
    ("collect", "things", "[v]"),
    ("want", "objects", "[v]"),
    ("need", "objects", "[v]"),
    ("keep", "animals", "[v]"),
    ("sell", "things", "[v]"),
    ("prefer", "drink", "[v]"),
)


def together(claims: list[str]) -> str:
    """Claims in one."""
    return " and ".join([part for part in (", ".join(claims[:-1]), claims[-1]) if part])


def roles(source: Source) -> Passage:
    """Two or three people, and what each of them does."""
    rng = source.rng
    count = rng.choice([2, 2, 2, 3])
    same = rng.random() < 0.65
    drawn = [rng.choice(ROLES)] * count if same else rng.sample(ROLES, count)
    if not same and len({verb for verb, _, _ in drawn}) < count:
        drawn = [drawn[0]] * count
        same = True
    nouns = relatives(rng, count)
    called = distinct(source, "name", count)
    slots: dict[str, str] = {}
    people: list[tuple[str, str, str]] = []
    style = rng.random()
    for i in range(count):
        slot = "abc"[i]
        if style < 0.4:
            slots[slot] = called[i]
            people.append((f"[{slot}]", f"[{slot}]", f"[{slot}]"))
        elif style < 0.75:
            people.append((f"my {nouns[i]}", f"your {nouns[i]}", f"my {nouns[i]}"))
        else:
            slots[slot] = called[i]
            people.append(
                (
                    f"my {nouns[i]} [{slot}]",
                    f"your {nouns[i]} [{slot}]",
                    rng.choice([f"my {nouns[i]}", f"[{slot}]"]),
                )
            )
    if rng.random() < 0.25:
        slots.pop("abc"[count - 1], None)
        people[-1] = ("I", "you", "I")
    values = [
        {
            "things": lambda n: [
                f"{each}s" if not each.endswith("s") else each for each in rng.sample(w.NOUNS, n)
            ]
        }.get(pool, lambda n, pool=pool: several(source, pool, n))(count)
        for _, pool, _ in drawn
    ]
    progressive = (
        same and drawn[0][0] in ("bring", "cook", "drink", "eat", "read", "sell") and rng.random() < 0.3
    )
    ing = {
        "bring": "bringing",
        "cook": "cooking",
        "drink": "drinking",
        "eat": "eating",
        "read": "reading",
        "sell": "selling",
    }.get(drawn[0][0], "")
    clauses, claims, asks = [], [], []
    for i, ((verb, _, pattern), (user, your, mention)) in enumerate(zip(drawn, people, strict=True)):
        slot = "xyz"[i]
        slots[slot] = values[0 if same else i][i]
        thing_ = pattern.replace("[v]", f"[{slot}]")
        me = user == "I"
        does = (f"am {ing}" if me else f"is {ing}") if progressive else verb if me else singular(verb)
        says = (f"are {ing}" if me else f"is {ing}") if progressive else verb if me else singular(verb)
        who = f"is {ing}" if progressive else singular(verb)
        do = ("am" if me else "is") if progressive else "do" if me else "does"
        rest = ing if progressive else verb
        clauses.append(
            f"{user} {thing_}" if i and same and not me and rng.random() < 0.15 else f"{user} {does} {thing_}"
        )
        claim = f"{your} {says} {thing_}"
        claims.append(claim)
        asks += [
            Question(
                f"who {who} {thing_}?;who {who} {thing_}?;do you know who {who} {thing_}?;and who {who} {thing_}?;tell me who {who} {thing_}.;~which of them {who} {thing_}?",
                f"who {who} {thing_}",
                your,
                claim,
            ),
            Question(
                f"what {do} {mention} {rest}?;what {do} {mention} {rest}?;and what {do} {mention} {rest}?;do you know what {mention} {does}?;tell me what {mention} {does}.;what did I say {mention} {does}?",
                f"what {your} {says}",
                thing_,
                claim,
            ),
        ]
    joint = rng.choice([" and ", ", ", " and ", ", and ", ". ", ", but ", "; ", " while "])
    said = joint.join(clauses[:2])
    if count > 2:
        said += rng.choice([" and ", ", and ", ". "]) + clauses[2]
    # The same verb of two people: a doubt is answered by the right one.
    if same and "I" not in {user for user, _, _ in people[:2]} and not progressive:
        verb, _, pattern = drawn[0]
        wrong = pattern.replace("[v]", "[y]")
        asks.append(
            Question(
                f"does {people[0][2]} {verb} {wrong}?",
                f"whether {people[0][1]} {singular(verb)} {wrong}",
                f"no, {pattern.replace('[v]', '[x]')}",
                f"No, {claims[0]}",
            )
        )
        right = pattern.replace("[v]", "[x]")
        asks.append(
            Question(
                f"does {people[0][2]} {verb} {right}?",
                f"whether {people[0][1]} {singular(verb)} {right}",
                "yes",
                f"Yes, {claims[0]}",
            )
        )
    verbs = " ".join(verb for verb, _, _ in drawn)
    return Passage(
        "roles",
        [(said, together(claims))],
        asks,
        slots,
        extra=f"{verbs} {' '.join(singular(v) for v in verbs.split(' '))}",
    )


# Why, with who, what, when and where.

DONE = (
    ("paint", "painted", "fence door wall shed kitchen gate boat chair"),
    ("sell", "sold", "car boat house bike piano sofa camera"),
    ("repair", "repaired", "roof bike tap radio clock engine fence"),
    ("buy", "bought", "tent lamp sofa ticket printer ladder coat"),
    ("clean", "cleaned", "garage attic oven window car cellar"),
    ("break", "broke", "window vase cup mirror glasses"),
    ("lose", "lost", "key wallet umbrella phone ring passport"),
    ("hide", "hid", "present letter money key cake"),
    ("open", "opened", "window door parcel bottle letter"),
    ("cancel", "cancelled", "trip party meeting lesson concert"),
    ("bake", "baked", "cake bread pie"),
    ("borrow", "borrowed", "ladder car drill tent book"),
    ("call", "called", "police doctor plumber bank dentist"),
    ("plant", "planted", "tree rose hedge"),
    ("close", "closed", "shop window gate cafe"),
    ("move", "moved", "piano desk bed sofa"),
    ("write", "wrote", "letter report poem song"),
    ("burn", "burned", "letter toast soup"),
    ("miss", "missed", "bus train flight lesson"),
    ("return", "returned", "book jacket parcel camera"),
)
CAUSES = "the neighbours complained;it was too old;it was too loud;it rained all day;it was dirty;the old one was broken;it was cold;nobody needed it;the boss asked for it;it was a holiday;there was a storm;the children wanted it;it was too small;the price was good;a friend asked for it;the guests were hungry;it was dark;there was no other way;the doctor said so;the train was late".split(
    ";"
)
WHENS = "yesterday;last week;last night;this morning;on Monday;on Friday;last summer;two days ago;in May;an hour ago;last year;on Sunday;in 2019".split(
    ";"
)
PLACES = "in the garden;at the market;in the kitchen;at work;at school;in the park;at the station;on the beach;at home;in the cellar;behind the house;by the lake".split(
    ";"
)


def event(source: Source) -> Passage:
    """Somebody did something, when, where, for how much and why."""
    rng = source.rng
    lemma, past, things = rng.choice(DONE)
    noun = rng.choice(things.split(" "))
    the = f"the {noun}"
    colour = lemma == "paint" and rng.random() < 0.6
    slots: dict[str, str] = {}
    if rng.random() < 0.3:
        user, your, mention, do = "I", "you", "I", "did I"
        subject = "you"
    else:
        who, called = somebody(source)
        slots |= {"n": called} if called else {}
        user, your = (who.noun + " " + who.name).strip(), who.full()
        mention = who.mention(rng)
        do, subject = f"did {mention}", your
    base = f"{subject} {past} {the}"
    tail = ""
    told_tail = ""
    asks: list[Question] = []
    missing: list[Question] = []
    parts: list[tuple[str, Question]] = []
    if colour:
        slots["c"] = rng.choice(w.COLOURS)
        tail = " [c]"
        asks.append(
            Question(
                f"what colour is {the} now?;what colour is {the}?;what color did {mention} paint {the}?;which colour is {the}?;what colour {do} {lemma} {the}?",
                f"the colour of {the}",
                "[c]",
                f"{the} is [c]",
            )
        )
    where, when, cause = rng.choice(PLACES), rng.choice(WHENS), rng.choice(CAUSES)
    because = rng.choice(["because ", "because ", "because ", "since ", "as "])
    money = lemma in ("sell", "buy") and rng.random() < 0.6
    if money:
        slots["m"] = f"{rng.randint(3, 900)} {rng.choice(['euros', 'dollars', 'pounds'])}"
        parts.append(
            (
                " for [m]",
                Question(
                    f"how much {do} {'pay' if lemma == 'buy' else 'get'} for {the}?;for how much {do} {lemma} {the}?;what was the price of {the}?;how much was {the}?",
                    f"for how much {subject} {past} {the}",
                    "[m]",
                    f"{base}{tail} for [m]",
                ),
            )
        )
    place = Question(
        f"where {do} {lemma} {the}?;where was {the} when {mention} {past} it?;do you know where {mention} {past} {the}?;in which place {do} {lemma} {the}?",
        f"where {subject} {past} {the}",
        where,
        f"{base}{tail} {where}",
    )
    time = Question(
        f"when {do} {lemma} {the}?;when was it that {mention} {past} {the}?;do you know when {mention} {past} {the}?;~when {do} do that?;~when {do} do it?;~when was that?",
        f"when {subject} {past} {the}",
        when,
        f"{base}{tail} {when}",
    )
    reason = Question(
        f"why {do} {lemma} {the}?;~why {do} {lemma} it?;~why {do} do that?;~why?;~why {do} do it?;do you know why {mention} {past} {the}?;tell me why {mention} {past} {the}.;what was the reason that {mention} {past} {the}?;for what reason {do} {lemma} {the}?;why {do} {lemma} {the}?",
        f"why {subject} {past} {the}",
        cause,
        f"{base}{tail} because {cause}",
    )
    for share, text, question in (
        (0.35, f" {where}", place),
        (0.5, f" {when}", time),
        (0.65, f" {because}{cause}", reason),
    ):
        if rng.random() < share:
            parts.append((text, question))
        else:
            missing.append(question)
    for text, question in parts:
        tail_ = text if " as " not in text and " since " not in text else f" because {cause}"
        told_tail += tail_
        asks += [question] * (2 if question is not reason else 3)
    said = f"{user} {past} {the}{tail}{''.join(text for text, _ in parts)}"
    if rng.random() < 0.2 and (f" {when}", time) in parts:
        rest = "".join(text for text, question in parts if question is not time)
        said = f"{when}{rng.choice([', ', ' '])}{user} {past} {the}{tail}{rest}"
    claim = f"{base}{tail}{told_tail}"
    asks += [
        Question(
            f"who {past} {the}?;who {past} {the}?;who was it who {past} {the}?;do you know who {past} {the}?;tell me who {past} {the}.;by whom was {the} {past if past.endswith('ed') else 'done'}?"
            if past.endswith("ed")
            else f"who {past} {the}?;who was it who {past} {the}?;do you know who {past} {the}?;tell me who {past} {the}.",
            f"who {past} {the}",
            your,
            claim if len(claim) < 70 else f"{base}{tail}",
        ),
        Question(
            f"what {do} {lemma}?;what was it that {mention} {past}?;do you know what {mention} {past}?;and what {do} {lemma}?",
            f"what {subject} {past}",
            the,
            f"{base}{tail}",
        ),
    ]
    return Passage("event", [(said, claim)], asks, slots, missing, extra=f"{lemma} {past} {noun}")


# An appointment that changes, and other things of which the latest word counts.

MEETINGS = "meeting;exam;interview;lesson;party;concert;flight;train;dinner;wedding;class;game;talk;rehearsal;appointment;show;workshop;match;course;bus;ferry;test;picnic".split(
    ";"
)


@dataclass
class Appointment:
    """An appointment's noun, and its attributes by name."""

    noun: str
    values: dict[str, str]


PARTS: dict[str, tuple[str, str, str, str, str]] = {
    # User's clause, claim, questions, what is asked, how a change is said of "it".
    "t": (
        "at [t]",
        "at [t]",
        "what time is {it}?;at what time is {it}?;what time does {it} start?;when does {it} start?;what time was {it}?;~what time?;~at what time is it?;and what time is {it}?",
        "the time of {your}",
        "at [t];to [t];at [t] now",
    ),
    "d": (
        "on [d]",
        "on [d]",
        "which day is {it}?;what day is {it}?;on which day is {it}?;on what day is {it}?;~what day is it?;~which day?",
        "the day of {your}",
        "on [d];to [d];on [d] instead",
    ),
    "r": (
        "in room [r]",
        "in room [r]",
        "which room is {it} in?;in which room is {it}?;what room is {it} in?;~which room?;~which room is it?",
        "the room of {your}",
        "in room [r];to room [r];in room [r] instead",
    ),
    "w": (
        "with [w]",
        "with [w]",
        "who is {it} with?;with whom is {it}?;who do I have {it} with?",
        "who {your} is with",
        "with [w];with [w] instead",
    ),
}


def part_value(source: Source, part: str) -> str:
    """A value of an attribute of an appointment."""
    rng = source.rng
    if part == "t":
        return clock(rng)
    if part == "d":
        return rng.choice(w.DAYS)
    if part == "w":
        return distinct(source, "name", 1)[0]
    return rng.choice([str(rng.randint(1, 400)), short_code(rng), distinct(source, "name", 1)[0]])


def made_appointment(state: Appointment, typed: str) -> Passage:
    """The passage of an appointment as it stands."""
    it, your = f"my {state.noun}", f"your {state.noun}"
    claim = f"{your} is " + " ".join(PARTS[part][1] for part in state.values)
    asks, missing = [], []
    for part, (_, said, frames, topic, _) in PARTS.items():
        question = Question(
            frames.replace("{it}", it), topic.replace("{your}", your), f"[{part}]", f"{your} is {said}"
        )
        if part in state.values:
            asks.append(question)
        elif part != "r" or state.noun not in ("flight", "train", "bus", "ferry"):
            missing.append(question)
    if "r" in state.values:
        asks.append(
            Question(
                f"where is {it}?;where's {it}?;and where is {it}?;where was {it} again?",
                f"where {your} is",
                "in room [r]",
                f"{your} is in room [r]",
            )
        )
    if state.noun in ("flight", "train", "bus", "ferry") and "t" in state.values:
        leave = f"what time does {it} leave?;when does {it} leave?;at what time does {it} go?;what time does {it} go?;~what time does it leave?;~when does it leave?"
        asks.append(Question(leave, f"when {your} leaves", "at [t]", f"{your} leaves at [t]"))
    whole = f"when is {it}?;when's {it}?;when do I have {it}?;and when is {it}?;do you know when {it} is?;when was {it} again?"
    when = [PARTS[part][1] for part in state.values if part in "td"]
    if when:
        asks += [Question(whole, f"when {your} is", " ".join(when), f"{your} is {' '.join(when)}")] * 2
    passage = Passage(
        "appointment", [(typed, claim)], asks, dict(state.values), missing, claim=claim, extra=state.noun
    )
    passage.state = state
    return passage


def start_appointment(source: Source) -> Passage:
    """A new appointment with two or three attributes."""
    rng = source.rng
    noun = rng.choice(MEETINGS)
    parts = [
        part
        for part in rng.sample(list(PARTS), rng.choice([2, 2, 3]))
        if part != "r" or noun not in ("flight", "train", "bus", "ferry")
    ]
    parts = parts if len(parts) > 1 else ["d", "t"]
    state = Appointment(noun, {part: part_value(source, part) for part in parts})
    clause = " ".join(PARTS[part][0] for part in parts)
    typed = rng.choice(
        [
            f"my {noun} is {clause}",
            f"my {noun} is {clause}",
            f"I have {a(noun)} {clause}",
            f"there is {a(noun)} {clause}",
            f"{noun}: {clause}",
            f"{noun} {clause}",
            f"the {noun} is {clause}",
            f"I've got {a(noun)} {clause}",
        ]
    )
    return made_appointment(state, typed)


def change_appointment(source: Source, old: Passage) -> Passage | None:
    """The appointment with one attribute put right, often in a word or by "it"."""
    rng = source.rng
    state = old.state
    assert isinstance(state, Appointment)
    part = rng.choice(list(state.values))
    fresh = part_value(source, part)
    if fresh.lower() == old.slots[part].lower() or {"t": "noon" in fresh, "r": False}.get(part, False):
        return None
    values = {each: old.slots[each] for each in state.values} | {part: fresh}
    how = rng.choice(PARTS[part][4].split(";"))
    it = f"the {state.noun}"
    to = how.startswith("to ")
    frames = (
        [
            f"they moved it {how}",
            f"they moved {it} {how}",
            f"it was moved {how}",
            f"I moved it {how}",
            f"{it} was moved {how}",
            f"it got moved {how}",
            f"we moved it {how}",
        ]
        if to
        else [
            f"it is {how}",
            f"it's {how}",
            f"it's {how} now",
            f"{it} is now {how}",
            f"no, {how}",
            f"no, it's {how}",
            f"sorry, {how}",
            f"actually {how}",
            f"I meant {how}",
            f"make that {how}",
            f"it will be {how}",
            f"change of plan: {how}",
            f"wait, {how}",
            f"scratch that, {how}",
            f"my {state.noun} is {how} now",
        ]
    )
    typed = rng.choice([frame for frame in frames if old.near or state.noun in frame])
    passage = made_appointment(Appointment(state.noun, values), typed)
    passage.changed = True
    return passage


FORMER = (
    # Kind, how it is told, claim, now, before, extra words.
    (
        "job",
        "I used to be a [x](, but| but|,) (now|these days) I (am|work as) a [y];I was a [x] (before|once), now I am a [y];I quit my job as a [x] and became a [y];after years as a [x] I am a [y] now",
        "you were a [x] before, and now you are a [y]",
        "what is my job?;what do I do now?;what do I work as?;what's my job now?",
        "your job",
        "[y]",
        "you are a [y]",
        "what was my job before?;what did I do before?;what did I use to be?;what was my old job?;what was I before?",
        "your job before",
        "[x]",
        "you were a [x] before",
        "job work profession",
    ),
    (
        "place",
        "I used to live in [x](, but| but|,) now I live in [y];I moved from [x] to [y];I lived in [x] before, now I live in [y];I left [x] and moved to [y]",
        "you lived in [x] before, and now you live in [y]",
        "where do I live?;where do I live now?;which city do I live in?;where's my home now?",
        "where you live",
        "[y]",
        "you live in [y]",
        "where did I live before?;where did I use to live?;where did I live in the past?;which city did I leave?",
        "where you lived before",
        "[x]",
        "you lived in [x] before",
        "live home city town house flat",
    ),
    (
        "car",
        "I drive a [x]. (Scratch that|No wait|Oh no|Forget that|Actually), I sold it and bought a [y];I sold my [x] and bought a [y];I had a [x], now I drive a [y];I used to drive a [x] but now I drive a [y];I traded my [x] for a [y]",
        "you had a [x] before, and now you drive a [y]",
        "what do I drive?;what do I drive now?;which car do I have?;what car do I have now?;what did I buy?",
        "what you drive",
        "a [y]",
        "you drive a [y]",
        "what did I sell?;what did I drive before?;which car did I have before?;what did I have before?;what did I use to drive?",
        "what you drove before",
        "a [x]",
        "you had a [x] before",
        "car drive drove sell sold buy bought",
    ),
    (
        "digits",
        "forget my pin [x], the new one is [y];my pin is not [x] any more, it is [y];my old pin was [x], the new one is [y];I changed my pin from [x] to [y];my pin was [x], now it is [y]",
        "your pin was [x] before, and now it is [y]",
        "what is my pin?;what's my pin now?;what is my new pin?;my pin?",
        "your pin",
        "[y]",
        "your pin is [y]",
        "what was my old pin?;what was my pin before?",
        "your old pin",
        "[x]",
        "your old pin was [x]",
        "pin code",
    ),
    (
        "name",
        "I broke up with [x]. (I'm|I am) with [y] now;[x] and I broke up, now I am with [y];my partner was [x], now it is [y];I left [x] for [y]",
        "your partner was [x] before, and now it is [y]",
        "who is my partner?;who am I with?;who am I with now?;what is my partner called?",
        "your partner",
        "[y]",
        "your partner is [y]",
        "who was my partner before?;who did I break up with?;who is my ex?;who was I with before?",
        "your partner before",
        "[x]",
        "your partner before was [x]",
        "partner ex girlfriend boyfriend husband wife",
    ),
    (
        "company",
        "I used to work at [x](, but| but|,) now I work at [y];I left [x] and work at [y] now;I moved from [x] to [y] at work: I work at [y] now;I quit at [x] and started at [y]",
        "you worked at [x] before, and now you work at [y]",
        "where do I work?;where do I work now?;who do I work for?",
        "where you work",
        "[y]",
        "you work at [y]",
        "where did I work before?;where did I use to work?;who did I work for before?",
        "where you worked before",
        "[x]",
        "you worked at [x] before",
        "work job company",
    ),
    (
        "name",
        "my (hotel|HOTEL) is the [x]. They cancelled, (now it's|we are in) the [y] instead;the hotel [x] cancelled on us, we are in the [y] now;we are not in the hotel [x] any more but in the [y]",
        "your hotel was the [x] before, and now it is the [y]",
        "which hotel am I in?;what is my hotel called?;what's my hotel?;which hotel are we in?;what is my hotel now?",
        "your hotel",
        "the [y]",
        "your hotel is the [y]",
        "which hotel cancelled?;what was my hotel before?;which hotel was it before?",
        "your hotel before",
        "the [x]",
        "your hotel before was the [x]",
        "hotel",
    ),
)


def former(source: Source) -> Passage:
    """What was so before, and what is so now."""
    rng = source.rng
    kind, said, claim, now, topic, told, reply, before, then, was, past, extra = rng.choice(FORMER)
    x, y = distinct(source, kind, 2)
    asks = [Question(now, topic, told, reply)] * 2 + [Question(before, then, was, past)] * 2
    typed = rng.choice([frame.replace("HOTEL", "hotel") for frame in said.split(";")])
    return Passage("former", [(typed, claim)], asks, {"x": x, "y": y}, extra=extra)


# Labels: days, boxes, rules, and short notes.


def labels(source: Source) -> Passage:
    """Things under labels: boxes and what is in them, rules, who sits where."""
    rng = source.rng
    case = rng.randrange(5)
    count = rng.choice([2, 3, 3, 4])
    slots: dict[str, str] = {}
    pieces, asks = [], []
    if case == 0:
        noun = rng.choice(["box", "drawer", "bag", "crate", "room", "locker"])
        kept = (
            distinct(source, rng.choice(["food", "drink"]), count)
            if rng.random() < 0.4
            else [f"{each}s" if not each.endswith("s") else each for each in rng.sample(w.NOUNS, count)]
        )
        numbers = [
            str(n)
            for n in (range(1, count + 1) if rng.random() < 0.7 else sorted(rng.sample(range(1, 40), count)))
        ]
        colon = rng.choice(
            [
                "{n} {k}: [s]",
                "{n} {k} has [s]",
                "[s] (is|are) in {n} {k}",
                "{n} {k} = [s]",
                "{n} {k} holds [s]",
            ]
        )
        for i in range(count):
            slot = "abcd"[i]
            slots[slot] = kept[i]
            here = f"{noun} {numbers[i]}"
            typed = (
                colon.format(n=noun, k=numbers[i], s=slot)
                .replace("[s]", f"[{slot}]")
                .replace("(is|are)", "are" if kept[i].endswith("s") else "is")
            )
            claim = f"{here} has [{slot}]"
            pieces.append((typed, claim))
            asks += [
                Question(
                    f"what is in {here}?;what's in {here}?;and what is in {here}?;and in {here}?;what does {here} have?;what did I put in {here}?;{here}?",
                    f"what is in {here}",
                    f"[{slot}]",
                    claim,
                ),
                Question(
                    f"which {noun} has the [{slot}]?;which {noun} has [{slot}]?;in which {noun} (are|is) the [{slot}]?;which {noun} for the [{slot}]?;where is the [{slot}]?".replace(
                        "(are|is)", "are" if kept[i].endswith("s") else "is"
                    ),
                    f"which {noun} has [{slot}]",
                    here,
                    claim,
                ),
            ]
        asks.append(
            Question(
                f"how many {plural(noun)} are there?;how many {plural(noun)} do I have?;how many {plural(noun)} did I tell you about?",
                f"how many {plural(noun)} there are",
                ", ".join(f"{i + 1} is {noun} {k}" for i, k in enumerate(numbers)),
                f"there are {count} {plural(noun)}",
            )
        )
        extra = noun
    elif case == 1:
        verbs = rng.sample(
            "stop go dance jump wait sing sit run sleep turn shout smile bow swim".split(), count
        )
        signs = rng.sample(w.COLOURS, count)
        for i in range(count):
            slots["abcd"[i]], slots["wxyz"[i]] = signs[i], verbs[i]
            slot, value = f"[{'abcd'[i]}]", f"[{'wxyz'[i]}]"
            claim = f"{slot} means {value}"
            pieces.append(
                (
                    rng.choice(
                        [
                            f"{slot} means {value}",
                            f"{slot} means {value}",
                            f"{slot} is for {value}",
                            f"rule {i + 1}: {slot} means {value}",
                            f"{slot} = {value}",
                        ]
                    ),
                    claim,
                )
            )
            asks += [
                Question(
                    f"what does {slot} mean?;what does {slot} stand for?;and {slot}?;what did {slot} mean?;what is {slot} for?;what must I do at {slot}?",
                    f"what {slot} means",
                    value,
                    claim,
                ),
                Question(
                    f"what means {value}?;which colour means {value}?;what colour means {value}?;which colour is {value}?;what stands for {value}?",
                    f"which colour means {value}",
                    slot,
                    claim,
                ),
            ]
        extra = "mean means colour rule"
    elif case == 2:
        days = rng.sample(w.DAYS, count)
        acts = [
            (f"{past} the {noun}", f"{lemma} the {noun}")
            for lemma, past, noun in (
                (lemma, past, rng.choice(things.split(" ")))
                for lemma, past, things in rng.sample(DONE, count)
            )
        ]
        for i in range(count):
            slot = "abcd"[i]
            slots[slot] = days[i]
            did, do = acts[i]
            claim = f"on [{slot}] you {did}"
            pieces.append(
                (
                    rng.choice(
                        [
                            f"[{slot}]: {did}",
                            f"[{slot}]: {did}",
                            f"on [{slot}] I {did}",
                            f"[{slot}] I {did}",
                            f"I {did} on [{slot}]",
                        ]
                    ),
                    claim,
                )
            )
            asks += [
                Question(
                    f"what did I do on [{slot}]?;what did I do [{slot}]?;and on [{slot}]?;what happened on [{slot}]?;what was on [{slot}]?",
                    f"what you did on [{slot}]",
                    did,
                    claim,
                ),
                Question(
                    f"which day did I {do}?;when did I {do}?;on which day did I {do}?;what day did I {do}?;do you know when I {did}?",
                    f"when you {did}",
                    f"on [{slot}]",
                    claim,
                ),
            ]
        extra = "day week " + " ".join(did for did, _ in acts)
    elif case == 3:
        days_of = rng.sample(
            "yoga;choir;football;piano;chess;pottery;swimming;karate;drawing;ballet;judo;band practice;tennis;drama".split(
                ";"
            ),
            count,
        )
        days = rng.sample(w.DAYS, count)
        times = [clock(rng) for _ in range(count)]
        withtime = rng.random() < 0.6
        for i in range(count):
            slots["abcd"[i]], slots["wxyz"[i]] = days[i], times[i]
            day, time, act = f"[{'abcd'[i]}]", f"[{'wxyz'[i]}]", days_of[i]
            at = f" at {time}" if withtime else ""
            claim = f"{act} is on {day}{at}"
            pieces.append(
                (
                    rng.choice(
                        [
                            f"{act} is on {day}{at}",
                            f"{act} is on {day}{at}",
                            f"{act} on {day}{at}",
                            f"{day}{at}: {act}",
                            f"on {day}{at} I have {act}",
                        ]
                    ),
                    claim,
                )
            )
            asks += [
                Question(
                    f"when is {act}?;which day is {act}?;when do I have {act}?;when's {act}?;on which day is {act}?;and {act}?;and when is {act}?",
                    f"when {act} is",
                    f"on {day}{at}",
                    claim,
                ),
                Question(
                    f"what do I have on {day}?;what is on {day}?;what's on {day}?;and on {day}?;what happens on {day}?",
                    f"what you have on {day}",
                    act,
                    claim,
                ),
            ]
            if withtime:
                asks.append(
                    Question(
                        f"what time is {act}?;at what time is {act}?;what time does {act} start?",
                        f"the time of {act}",
                        time,
                        f"{act} is at {time}",
                    )
                )
        extra = "day week when " + " ".join(days_of)
    else:
        heads = rng.sample(
            "seat;coach;gate;platform;terminal;booking code;row;cabin;table;room;locker;order number;bus line;deck;member number;host;port;blood type;shoe size;licence plate;track".split(
                ";"
            ),
            count,
        )
        colon = rng.choice(["{} [s]", "{} [s]", "{}: [s]", "{} is [s]", "my {} is [s]", "{} = [s]"])
        for i in range(count):
            slot = "abcd"[i]
            slots[slot] = rng.choice([str(rng.randint(2, 999)), short_code(rng), source.draw("password")])
            head = heads[i]
            claim = f"your {head} is [{slot}]"
            pieces.append((colon.format(head).replace("[s]", f"[{slot}]"), claim))
            number = (
                f";what is my {head} number?;what's my {head} number?;which {head} am I in?"
                if head in ("seat", "coach", "row", "cabin", "room", "deck")
                else ""
            )
            asks.append(
                Question(
                    f"what is my {head}?;what's my {head}?;which {head} do I have?;my {head}?;{head}?;and the {head}?;what {head} do I have?;what {head}?;and my {head}?;do you know my {head}?{number}",
                    f"your {head}",
                    f"[{slot}]",
                    claim,
                )
            )
        extra = " ".join(heads)
    passage = Passage("labels", pieces, asks, slots, extra=extra)
    passage.state = "together"
    return passage


# Numbers, debts, ways, and what stands where.


def counts(source: Source) -> Passage:
    """How many of each: "three sisters, one brother and eleven cousins"."""
    rng = source.rng
    count = rng.choice([2, 3, 3, 4])
    relations = "sister;brother;cousin;aunt;uncle;niece;nephew;son;daughter;child;friend;neighbour".split(";")
    pool = rng.choice(
        [
            relations,
            [each for each in w.ANIMALS if each != "pet"],
            [each for each in w.THINGS if not each.endswith("s") and " " not in each and each not in MASS],
        ]
    )
    nouns = [each for each in rng.sample(pool, count + 1) if each not in MASS]
    if len(nouns) <= count:
        return counts(source)
    bought = pool is not relations and rng.random() < 0.4
    numbers = [rng.randint(1, 12) for _ in range(count)]
    spelled = rng.random() < 0.5
    slots = {"abcd"[i]: (NUMBERS[number] if spelled else str(number)) for i, number in enumerate(numbers)}
    many = [
        "children" if noun == "child" and number != 1 else plural(noun) if number != 1 else noun
        for noun, number in zip(nouns, numbers, strict=False)
    ]
    several = ["children" if noun == "child" else plural(noun) for noun in nouns]
    things = [f"[{'abcd'[i]}] {many[i]}" for i in range(count)]
    verb, do, past = ("buy", "did", "bought") if bought else ("have", "do", "have")
    tail, price = "", ""
    asks = []
    if bought and rng.random() < 0.6:
        slots["m"] = f"{rng.randint(5, 900)} {rng.choice(['euros', 'dollars', 'pounds'])}"
        price = " for [m]"
    if bought and rng.random() < 0.6:
        where = rng.choice(["at the market", "in town", "at the flea market", "at the station", "in a shop"])
        tail = f" {where}"
        asks.append(
            Question(
                f"where did I buy the {many[0]}?;where did I buy everything?;~where did I buy them?;~where did I buy that?",
                "where you bought that",
                where,
                f"you bought {together(things)}{tail}",
            )
        )
    claim = f"you {past} {together(things)}{tail}{price}"
    if price:
        asks.append(
            Question(
                "how much did I pay?;how much did everything cost?;~how much was that?;~what did I pay?;for how much did I buy that?",
                "how much you paid",
                "[m]",
                "you paid [m]",
            )
        )
    for i in range(count):
        reply = f"you {past} {things[i]}"
        asks += [
            Question(
                f"how many {several[i]} {do} I {verb}?;how many {several[i]} {do} I {verb}?;how many {several[i]}?;and how many {several[i]}?;how many {several[i]} did I say I {past}?;do you know how many {several[i]} I {past}?;number of {several[i]}?",
                f"how many {several[i]} you {past}",
                f"[{'abcd'[i]}]",
                reply,
            )
        ] * 2
        if not bought:
            asks.append(
                Question(
                    f"do I have any {several[i]}?;do I have {several[i]}?",
                    f"whether you have {several[i]}",
                    things[i],
                    f"Yes, {reply}",
                )
            )
    missing = [
        Question(
            f"how many {several[count]} {do} I {verb}?;how many {several[count]}?;and how many {several[count]}?",
            f"how many {several[count]} you {past}",
            "",
            "",
        )
    ]
    said = rng.choice(
        [
            f"I {past} {together(things)}{tail}{price}",
            f"I {past} {', '.join(things)}{tail}{price}",
            f"I {past} {' and '.join(things)}{tail}{price}",
        ]
    )
    return Passage(
        "numbers",
        [(said, claim)],
        asks,
        slots,
        missing,
        extra=f"{' '.join(several)} {' '.join(nouns)} {verb} {past}"
        + (" family" if pool is relations else " pets animals"),
    )


NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()


def debt(source: Source) -> Passage:
    """Who lent or owes how much, and until when; or a bill and when it is due."""
    rng = source.rng
    slots = {
        "m": f"{rng.randint(2, 900)} {rng.choice(['euros', 'dollars', 'pounds', 'pesos', 'francs'])}",
        "d": rng.choice(
            [*w.DAYS, *w.DAYS, f"{rng.randint(1, 28)} {rng.choice(w.MONTHS)}", "the weekend", "next week"]
        ),
    }
    if rng.random() < 0.45:
        bill = rng.choice(
            [
                "rent",
                "electricity bill",
                "phone bill",
                "insurance",
                "ticket",
                "subscription",
                "tuition",
                "water bill",
                "fine",
                "gym fee",
            ]
        )
        the, your = rng.choice([(f"my {bill}", f"your {bill}"), (f"the {bill}", f"the {bill}")])
        day = f"{rng.choice(['1st', '3rd', '5th', '10th', '12th', '15th', '20th', '28th'])}"
        slots["d"] = day
        it = rng.choice(
            ["it is due on the [d]", "it's due on the [d]", "is due on the [d]", "I pay it on the [d]"]
        )
        said = f"{the} is [m] and {it}"
        claim = f"{your} is [m] and is due on the [d]"
        asks = [
            Question(
                f"how much is {the}?;how much is my {bill}?;what is my {bill}?;how much do I pay for my {bill}?;how high is {the}?",
                f"how much {your} is",
                "[m]",
                f"{your} is [m]",
            ),
            Question(
                f"when is {the} due?;when is my {bill} due?;when do I pay {the}?;on which day is {the} due?;when must I pay my {bill}?",
                f"when {your} is due",
                "on the [d]",
                f"{your} is due on the [d]",
            ),
        ]
        return Passage("numbers", [(said, claim)], asks * 2, slots, extra=f"{bill} pay due")
    who = rng.choice(["[n]", "[n]", f"my {rng.choice(RELATIONS)}"])
    if who == "[n]":
        slots["n"] = distinct(source, "name", 1)[0]
    your = yours(who)
    back = rng.choice(
        [
            ", I have to give it back before [d]",
            " and I must pay it back before [d]",
            ", I will give it back before [d]",
            " and wants it back before [d]",
        ]
    )
    owe = rng.random() < 0.3
    if owe:
        said, claim = f"{who} owes me [m]", f"{your} owes you [m]"
        asks = [
            Question(
                f"how much does {who} owe me?;what does {who} owe me?;how much money does {who} owe me?",
                f"how much {your} owes you",
                "[m]",
                claim,
            ),
            Question(
                "who owes me money?;who owes me [m]?;who owes me something?",
                "who owes you money",
                your,
                claim,
            ),
        ]
        return Passage("numbers", [(said, claim)], asks, slots, extra="owe owes money")
    said, claim = f"{who} lent me [m]", f"{your} lent you [m]"
    until = rng.random() < 0.7
    asks = [
        Question(
            f"how much did {who} lend me?;how much money did {who} lend me?;what did {who} lend me?;how much did I borrow from {who}?;how much do I owe {who}?",
            f"how much {your} lent you",
            "[m]",
            claim,
        ),
        Question(
            "who lent me money?;who lent me [m]?;who lent me something?;from whom did I borrow money?;who did I borrow money from?",
            "who lent you money",
            your,
            claim,
        ),
    ]
    when = Question(
        f"until when do I have to pay it back?;when do I have to pay {who} back?;by when must I pay back {who}?;until when do I have to give it back?;before when do I have to pay it back?;when must I give {who} the money back?",
        f"when you have to pay {your} back",
        "before [d]",
        f"you have to pay {your} back before [d]",
    )
    full = f"{claim}, and you have to pay it back before [d]" if until else claim
    return Passage(
        "numbers",
        [(said + (back if until else ""), full)],
        asks + [when] * 2 * until,
        slots,
        [] if until else [when],
        extra="lend lent borrow owe owes money pay",
    )


WAYS = (
    "by bus",
    "by tram",
    "by bike",
    "by train",
    "by car",
    "on foot",
    "by boat",
    "by taxi",
    "on horseback",
    "by scooter",
    "by metro",
    "by plane",
)


def ways(source: Source) -> Passage:
    """How people get somewhere."""
    rng = source.rng
    count = rng.choice([2, 2, 3])
    people = rng.sample(
        [("I", "you"), *((f"my {noun}", f"your {noun}") for noun in relatives(rng, 4))], count
    )
    how = rng.sample(WAYS, count)
    goal = [rng.choice(["work", "school", "town", "the office", "the gym"])] * count
    clauses: list[str] = []
    claims: list[str] = []
    asks: list[Question] = []
    for (user, your), way, to in zip(people, how, goal, strict=True):
        me = user == "I"
        goes = "go" if me else "goes"
        do = "do" if me else "does"
        claim = f"{your} {goes} to {to} {way}"
        clauses.append(
            f"{user} {goes} {way}" if clauses and rng.random() < 0.4 else f"{user} {goes} to {to} {way}"
        )
        claims.append(claim)
        asks += [
            Question(
                f"how {do} {user} get to {to}?;how {do} {user} go to {to}?;and how {do} {user} get to {to}?;how {do} {user} travel to {to}?;do you know how {user} {goes} to {to}?",
                f"how {your} {goes} to {to}",
                way,
                claim,
            ),
            Question(
                f"who goes {way}?;who goes to {to} {way}?;who gets to {to} {way}?;who travels {way}?;and who goes {way}?",
                f"who goes to {to} {way}",
                your,
                claim,
            ),
        ]
    said = rng.choice([", ", " and ", ", but ", ". "]).join(clauses[:2]) + (
        f" and {clauses[2]}" if count > 2 else ""
    )
    return Passage("roles", [(said, together(claims))], asks, {}, extra=f"go goes get way {goal[0]}")


def nested(source: Source) -> Passage:
    """What is in something that is somewhere else."""
    rng = source.rng
    inner = rng.choice(
        [
            "hamster",
            "ring",
            "key",
            "passport",
            "ticket",
            "letter",
            "watch",
            "phone",
            "wallet",
            "money",
            "camera",
            "turtle",
            "cake",
            "parrot",
        ]
    )
    box = rng.choice(
        ["box", "bag", "cage", "drawer", "suitcase", "basket", "cupboard", "chest", "jar", "backpack"]
    )
    outer = rng.choice(
        [
            "kitchen",
            "garage",
            "attic",
            "cellar",
            "garden",
            "bedroom",
            "office",
            "bathroom",
            "shed",
            "hallway",
            "living room",
            "barn",
        ]
    )
    colour = rng.choice(
        ["", "", *(f"{each} " for each in ("red", "blue", "green", "black", "white", "old", "small"))]
    )
    the = f"the {colour}{box}"
    mine, your = f"my {inner}", f"your {inner}"
    pieces = [
        rng.choice(
            [
                (f"{mine} is in {the}", f"{your} is in {the}"),
                (f"{mine} is inside {the}", f"{your} is in {the}"),
            ]
        ),
        (
            rng.choice(
                [
                    f"{the} is in the {outer}",
                    f"{the} stands in the {outer}",
                    f"you find {the} in the {outer}",
                    f"{the} is kept in the {outer}",
                ]
            ),
            f"{the} is in the {outer}",
        ),
    ]
    if rng.random() < 0.3:
        pieces.reverse()
    told = f"in {the}, which is in the {outer}"
    whole = f"{your} is in {the} in the {outer}"
    asks = [
        Question(
            f"where is {mine}?;where's {mine}?;where can I find {mine}?;do you know where {mine} is?;and where is {mine}?",
            f"where {your} is",
            told,
            whole,
        ),
        Question(
            f"in which room is {mine}?;which room is {mine} in?;in what room is {mine}?;which room has {mine}?",
            f"in which room {your} is",
            told,
            whole,
        ),
        Question(
            f"where is {the}?;where's {the}?;which room is {the} in?;in which room is {the}?",
            f"where {the} is",
            f"in the {outer}",
            f"{the} is in the {outer}",
        ),
        Question(
            f"what is in {the}?;what's in {the}?;what did I put in {the}?",
            f"what is in {the}",
            your,
            f"{your} is in {the}",
        ),
    ]
    return Passage("it", pieces, asks, {}, extra="where room")


FAMILIES: dict[str, tuple[tuple[Callable[[Source], Passage], float], ...]] = {
    "list": ((start_list, 1),),
    "not": ((lacking, 2), (disliking, 2), (able, 1), (rather, 2)),
    "compare": ((comparison, 3), (ages, 1)),
    "kinship": ((kinship, 2), (theirs, 3), (household, 1.5)),
    "it": ((owned, 4), (animal, 3), (nested, 1)),
    "numbers": ((counts, 2), (debt, 1)),
    "roles": ((roles, 4), (ways, 1)),
    "event": ((event, 1),),
    "appointment": ((start_appointment, 1),),
    "former": ((former, 1),),
    "labels": ((labels, 1),),
}
CHANGES = {"list": change_list, "appointment": change_appointment}


def draw_passage(source: Source, family: str) -> Passage:
    """A new passage of a family."""
    makers = FAMILIES[family]
    maker = source.rng.choices([each for each, _ in makers], [weight for _, weight in makers])[0]
    return maker(source)
