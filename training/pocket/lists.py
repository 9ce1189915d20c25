"""Composes lists that grow and shrink: who or what belongs to them, how many, and which is first in order.

"my cats are called Pixel and Moss", "and a new one, Bo", "how many cats do i have": names are counted that
nobody counted in telling them.
"""

# Frames are one line each.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from training.pocket import lexicon as lex
from training.pocket.notes import asking, telling
from training.pocket.phrases import capital, listed
from training.pocket.statements import NUMBERS, plural
from training.pocket.written import Exchange, Written

MOST = 6
# Other nouns follow rules that all generators share.
PLURALS = {"child": "children", "grandchild": "grandchildren", "person": "people"}


@dataclass(frozen=True)
class Family:
    """One sort of list. In frames ``{a}`` is all items, ``{i}`` one, ``{n}`` their number, ``{k}`` what they are.

    ``{p}`` is the plural of that. `all` and `has` are what is so in the end, without the number and with it.
    """

    kinds: tuple[str, ...]
    items: str
    tells: tuple[str, ...]
    which: tuple[str, ...]
    many: tuple[str, ...]
    adds: tuple[str, ...]
    takes: tuple[str, ...]
    all: str
    has: str


def frames(text: str) -> tuple[str, ...]:
    """The frames of a text."""
    return tuple(lex.lines(text))


PEOPLE = "child;son;daughter;brother;sister;cousin;niece;nephew;aunt;uncle;flatmate;colleague;neighbour;pupil;grandchild;best friend;student"
PETS = "cat;dog;hen;rabbit;goat;horse;donkey;sheep;parrot;hamster;tortoise;goldfish;guinea pig;duck;goose;pony;ferret;llama;alpaca;kitten;puppy;snake;lizard;budgie"
FAMILIES = (
    Family(
        tuple(PEOPLE.split(";")),
        "[name]",
        frames(
            """
my {p} are {a}; my {p} are called {a}; my {p}: {a}; i have {n} {p}, {a}; {a} are my {p}; i've got {n} {p}: {a}
the names of my {p} are {a}; {p}: {a}; meet my {p} {a}; my {n} {p} are called {a}; we have {n} {p}, {a}
"""
        ),
        frames(
            """
who are my {p}?; what are my {p} called?; what are the names of my {p}?; names of my {p}?; my {p} are?; name my {p}
which {p} do i have?; what are my {p}'s names?; can you name all my {p}?; list my {p}
"""
        ),
        frames(
            """
how many {p} do i have?; how many {p} have i got?; number of {p}?; how many {p} are there?; so how many {p} is that?
how many {p}?; count my {p}; and how many {p} in total?; do you know how many {p} i have?
"""
        ),
        frames(
            """
i forgot {i}, also my {k}; and {i}, my other {k}; oh and a new {k}: {i}; {i} is my {k} too; plus {i}; i also have a {k} called {i}
and {i}; one more {k}, {i}; {i} as well; i left out {i}, sorry
"""
        ),
        frames(
            """
{i} is not my {k}; no, {i} is only a friend; not {i}, i mixed that up; {i} doesn't count, sorry; scratch {i}; without {i}
"""
        ),
        "your {p} are {a}",
        "you have {n} {p}: {a}",
    ),
    Family(
        tuple(PETS.split(";")),
        "[pet]",
        frames(
            """
my {p} are called {a}; i have {n} {p}: {a}; i have {p}, {a}; our {p} are {a}; the {p} are called {a}; {a} are my {p}
my {p}: {a}; we keep {n} {p}, they are called {a}; my {n} {p} are {a}; i live with my {p} {a}; i feed {n} {p}: {a}
"""
        ),
        frames(
            """
what are my {p} called?; what are the names of my {p}?; names of the {p}?; which {p} do i have?; who are my {p}?
what did i call my {p}?; how are my {p} called?; list my {p}; the {p}' names again?; name all my {p}
"""
        ),
        frames(
            """
how many {p} do i have?; how many {p} have i got?; how many {p} do i feed?; number of {p}?; how many {p} are there now?
so how many {p} is that?; how many {p}?; count the {p}; how many {p} in all?; do you know how many {p} i have?
"""
        ),
        frames(
            """
we got another {k}, {i}; and a new {k}: {i}; i adopted one more {k}, {i}; oh and {i}, another {k}; {i} is new, a {k} too
a {k} moved in, {i}; i forgot one {k}: {i}; plus {i}; we also have {i} now; there is one more, {i}
"""
        ),
        frames(
            """
{i} died; {i} ran away; i gave {i} away; {i} lives with my neighbour now; {i} was sold; {i} is gone; we lost {i}
{i} belongs to my sister now; a fox took {i}; i no longer have {i}
"""
        ),
        "your {p} are called {a}",
        "you have {n} {p}: {a}",
    ),
    Family(
        ("guest", "guest", "person"),
        "[name]",
        frames(
            """
i invited {a}; i have invited {a}; {a} are coming; guests: {a}; {a} are invited; coming to dinner: {a}; {a} come to my party
my guest list: {a}; i asked {a} to come; so far {a} said yes; party guests are {a}
"""
        ),
        frames(
            """
who did i invite?; who is invited?; who is coming?; who are my guests?; guest list?; which {p} are coming?; who comes?; who said yes?
list the {p}; names of the {p}?; who will be there?
"""
        ),
        frames(
            """
how many {p} are coming?; how many {p} did i invite?; how many are invited?; how many {p} is that?; number of {p}?; how many {p}?
for how many {p} do i cook?; how many will come?; count the {p}; how many chairs do i need for the {p}?; how many are we without me?
"""
        ),
        frames(
            """
{i} comes too; and {i}; {i} said yes; i also invited {i}; {i} as well; add {i}; plus {i}; {i} wants to come; don't forget {i}; {i} is in
put {i} on it; actually also {i}; i forgot {i}; {i} can make it after all; also add {i}; {i} joins us; let's have {i} too
"""
        ),
        frames(
            """
{i} can't come; {i} is ill; {i} cancelled; without {i}; {i} isn't coming; {i} said no; cross out {i}; {i} won't make it; remove {i}; not {i}
drop {i}; scratch {i}; {i} is out; uninvite {i}; {i} has to work; take {i} off; strike {i}; delete {i}; {i} dropped out; leave {i} out
"""
        ),
        "{a} are coming",
        "{n} {p} are coming: {a}",
    ),
    Family(
        ("thing",),
        "thing",
        frames(
            """
i packed {a}; packed so far: {a}; in my suitcase: {a}; i have packed {a}; my bag has {a} in it; i put {a} in the bag
{a} are packed; packing list: {a}; i'm taking {a}; in the backpack i have {a}
"""
        ),
        frames(
            """
what have i packed?; what did i pack?; what is packed?; what's in my bag?; what am i taking?; what have i got in the bag so far?
what is in there?; list what i packed; packed things?; what did i put in?
"""
        ),
        frames(
            """
how many {p} have i packed?; how many {p} did i pack?; how many {p} are packed?; how many {p} am i taking?; number of {p}?
how many {p} is that?; count what i packed; how many {p} in the bag?; how many {p} so far?
"""
        ),
        frames(
            """
and {i}; {i} too; also {i}; plus {i}; {i} as well; i added {i}; just threw in {i}; now {i} is in as well; don't forget {i}; add {i}
also add {i}; actually {i} too; i forgot {i}; {i} comes along; put {i} in; pack {i} as well; {i} still fits
"""
        ),
        frames(
            """
i took {i} out again; no {i} after all; {i} stays at home; without {i}; {i} doesn't fit; remove {i}; {i} is too heavy; leave out {i}
drop {i}; scrap {i}; unpack {i}; i don't need {i}; {i} can stay; scratch {i}; delete {i}; forget {i}; strike {i}; never mind {i}
"""
        ),
        "you packed {a}",
        "you packed {n} {p}: {a}",
    ),
    Family(
        ("thing",),
        "thing",
        frames(
            """
i still need {a}; to buy: {a}; i have to get {a}; we need {a}; shopping list: {a}; please remember {a} for the shop
i want to buy {a}; don't let me forget {a}; on my list: {a}; i need to bring {a}
"""
        ),
        frames(
            """
what do i need?; what do i still need?; what is on my list?; what's on the list?; what do i have to get?; the list again?
what should i buy?; which {p} do i need?; read me the list; what must i not forget?
"""
        ),
        frames(
            """
how many {p} do i need?; how many {p} are on my list?; how many {p} are on the list?; how many {p} is that?; how long is my list?
number of {p}?; how many {p} are left?; count the {p} on the list; how many {p} do i still need?
"""
        ),
        frames(
            """
and {i}; also {i}; {i} too; plus {i}; add {i}; put {i} on it; {i} as well; oh, and {i}; one more: {i}; i need {i} too
put {i} on the list; we are out of {i}; i forgot {i}; throw in {i}; actually also {i}; also add {i}; get {i} as well; don't forget {i}; {i} should be on it
"""
        ),
        frames(
            """
i got {i}; no {i}; {i} is done; remove {i}; cross off {i}; i have {i} already; without {i}; take {i} off; i found {i} at home; not {i}
drop {i}; scrap {i}; strike {i}; delete {i}; {i} can go; forget {i}; we still have {i}; take {i} off the list; never mind {i}; scratch {i}; leave {i} out; bought {i}
"""
        ),
        "you need {a}",
        "you need {n} {p}: {a}",
    ),
)
ORDERS = (
    (
        frames(
            "{p} from oldest to youngest: {a}; my {p} by age, oldest first: {a}; my {p} {a}, the oldest first"
        ),
        ("oldest", "youngest"),
    ),
    (
        frames(
            "{p} from tallest to smallest: {a}; my {p} by height, tallest first: {a}; my {p} {a}, the tallest first"
        ),
        ("tallest", "smallest"),
    ),
    (
        frames(
            "my {p} came in this order: {a}; {p} in the order they arrived: {a}; my {p} {a} arrived in this order"
        ),
        ("first", "last"),
    ),
)
# One in, one out, in a word. Nobody swaps a child.
SWAPS = frames(
    """
add {i} and drop {j}; drop {j} and add {i}; {i} instead of {j}; not {j} but {i}; no {j}, {i} instead; replace {j} with {i}
{i} in, {j} out; take {j} off and put {i} on; scratch {j}, make it {i}; remove {j} and add {i}; cross out {j} and write down {i}
add {i}, remove {j}; i'd rather have {i} than {j}; {j} is off, {i} is on
"""
)
SWAPPED = ("guest", "person", "thing")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def joined(rng: Random, items: list[str]) -> str:
    """The items as a person types them."""
    if len(items) == 1:
        return items[0]
    last = rng.choice((" and ", " and ", " and ", " & ", ", ", ", and " if len(items) > 2 else " and "))
    return ", ".join(items[:-1]) + last + items[-1]


def roster(rng: Random) -> Written:
    """A dialogue of such a list, with changes, and questions between them."""
    if rng.random() < 0.15:
        return in_order(rng)
    family = rng.choice(FAMILIES)
    kind = rng.choice(family.kinds)
    more = fresh(rng, family.items)
    items = [next(more) for _ in range(rng.choice((2, 2, 3, 3, 4, 5)))]

    def text(frame: str, item: str = "") -> str:
        number = rng.choice((str(len(items)), ("one", *NUMBERS)[len(items) - 1]))
        frame = frame.replace("{n}", number).replace("{p}", several(kind)).replace("{k}", kind)
        return frame.replace("{a}", joined(rng, items)).replace("{i}", item)

    def said(frame: str) -> str:
        if len(items) == 1:
            frame = frame.replace("{p}", "{k}").replace(" are ", " is ")
        frame = frame.replace("{n}", str(len(items))).replace("{p}", several(kind)).replace("{k}", kind)
        return frame.replace("{a}", listed(items))

    told = text(rng.choice(family.tells))
    exchanges = [telling(told, "a list")]
    rounds = rng.choice((1, 1, 2, 2, 3, 4))
    for left in range(rounds - 1, -1, -1):
        changed = rng.random() < 0.65
        if changed:
            coming, chance = "", rng.random()
            swaps = kind in SWAPPED and chance < 0.2
            going = rng.choice(items) if (swaps or chance > 0.65) and len(items) > 1 else ""
            if swaps or not going:
                if len(items) == MOST:
                    break
                coming = next(more)
            frame = rng.choice(SWAPS if coming and going else family.adds if coming else family.takes)
            change = text(frame.replace("{j}", going), coming or going)
            items = [item for item in items if item != going] + [coming] * bool(coming)
            now = f"Got it, now {said(family.all)}."
            exchanges.append(Exchange((change, capital(change)), f"Changed: {told}.", now))
        # Changes may follow each other before anything is asked.
        if changed and left and rng.random() < 0.4:
            continue
        count = asking(rng, [text(each) for each in family.many], numbered(items), said(family.has))
        which = asking(rng, [text(each) for each in family.which], listed(items), said(family.all))
        exchanges += rng.sample([count, which], rng.choice((1, 1, 2)))
    return Written((), tuple(exchanges), 0)


def in_order(rng: Random) -> Written:
    """A dialogue of people in an order, asked for by their places in it."""
    leads, (first, last) = rng.choice(ORDERS)
    kind = rng.choice(FAMILIES[0].kinds)
    more = fresh(rng, "[name]")
    items = [next(more) for _ in range(rng.choice((3, 3, 4, 5)))]
    lead = rng.choice(leads).replace("{p}", several(kind)).replace("{a}", joined(rng, items))
    exchanges = [telling(lead, "a list")]
    places = [(first, 0), (last, len(items) - 1)]
    places += [(ORDINALS[place], place) for place in range(1, len(items) - 1)] if first == "first" else []
    for word, place in rng.sample(places, rng.choice((1, 2, len(places)))):
        verb = "came" if first == "first" else "is the"
        wordings = [
            each.format(word=word, verb=verb, k=kind, p=several(kind))
            for each in (
                "who {verb} {word}?",
                "which of my {p} {verb} {word}?",
                "which {k} {verb} {word}?",
                "so who {verb} {word}?",
            )
        ]
        exchanges.append(
            asking(rng, wordings, f"{numbered(items)}. So {items[place]}", f"{items[place]} {verb} {word}")
        )
    return Written((), tuple(exchanges), 0)


def several(kind: str) -> str:
    """The plural of what a list has."""
    return PLURALS.get(kind) or plural(kind)


def numbered(items: list[str]) -> str:
    """The items counted, as thinking does it."""
    return ", ".join(f"{item} {place}" for place, item in enumerate(items, 1))


def fresh(rng: Random, kind: str) -> Iterator[str]:
    """Items of a kind, each another: slots, or things with an article or in the plural."""
    if kind != "thing":
        yield kind
        yield from (f"{kind[:-1]}{number}]" for number in range(2, 20))
    for noun in rng.sample(lex.THINGS, 60):
        yield rng.choice((f"the {noun}", f"my {noun}", noun, plural(noun), plural(noun)))
