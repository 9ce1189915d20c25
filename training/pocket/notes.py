"""Composes logs, plans and lists as people keep them: entries of a key and some fields, asked for by either.

"day 4: Kutaisi, hotel not booked yet", "07:15 pump 3 leaking", "box 2: kitchen stuff".
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from training.pocket import lexicon as lex
from training.pocket.phrases import capital
from training.pocket.said_back import turned
from training.pocket.written import Exchange, Written, kind_of, slots_of


@dataclass(frozen=True)
class Field:
    """What stands in an entry: values or slots, and how it is asked for by its key ``{k}``, or that by it."""

    values: tuple[str, ...]
    asks: tuple[str, ...]
    back: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """Entries of one sort: how they are announced, their keys in order, and their fields."""

    leads: tuple[str, ...]
    keys: tuple[str, ...]
    ordered: bool
    fields: tuple[Field, ...]


def lines(text: str) -> tuple[str, ...]:
    """The entries of a text."""
    return tuple(lex.lines(text))


THINGS = tuple(f"{thing}s" for thing in lex.THINGS if " " not in thing and thing[-1] not in "sxyhf")
FAMILIES = (
    Family(
        lines("our trip; plan for the trip; travel plan; itinerary; the tour so far; route"),
        tuple(f"day {number}" for number in range(1, 10)),
        True,
        (
            Field(
                ("[place]",),
                lines(
                    """
where are we on {k}?; {k}, which place?; which town is {k}?; where do we go on {k}; so where on {k}?
"""
                ),
                lines(
                    """
on which day are we in {v}?; which day is {v}?; when do we get to {v}; {v} is what day?
"""
                ),
            ),
            Field(
                (
                    *lines(
                        """
hotel [title]; hotel [title], room [number]; hotel not booked yet; we sleep at [name]'s; camping
"""
                    ),
                    *lines(
                        """
hostel [company]; night train; guest house [title]; room [number] at the [title]; nothing booked
"""
                    ),
                ),
                lines(
                    """
where do we sleep on {k}?; which bed for {k}?; what is booked for {k}; the night of {k}?
hotel on {k}?
"""
                ),
            ),
            Field(
                lines(
                    """
museum; boat trip; rest day; long hike; market; swimming; visit to [name]; washing day; cave tour
free
"""
                ),
                lines(
                    """
what do we do on {k}?; {k}, what is planned?; programme for {k}; what's up on {k}
"""
                ),
            ),
        ),
    ),
    Family(
        lines(
            """
shift log; log; my notes from the night; duty book; what happened so far; timeline
"""
        ),
        lines(
            """
05:40; 06:00; 06:25; 07:15; 07:50; 08:05; 08:30; 09:10; 10:10; 10:45; 11:00; 11:35; 12:20; 13:05
14:15; 15:10; 16:40; 17:55; 19:20; 21:30; 22:15; 23:50
"""
        ),
        True,
        (
            Field(
                (
                    *lines(
                        """
pump [count] leaking; pump [count] fixed by [name]; delivery of [count] drums; fire drill
"""
                    ),
                    *lines(
                        """
[name] arrived; [name] went home sick; phone call from [company]; power cut; gate [count] open
"""
                    ),
                    *lines(
                        """
started, on duty: [name] and me; [name] takes over from [name2]; tea with [name]
alarm in hall [count]
"""
                    ),
                    *lines(
                        """
lift stuck, [name] called; lost keys found; visitor from [place]; printer broken
window shut by [name]
"""
                    ),
                    *lines(
                        """
patient in room [number] asleep; bed [count] free; fed the [animal]; truck from [place] unloaded
"""
                    ),
                ),
                lines(
                    """
what happened at {k}?; what was at {k}; {k}, what did I note?; what's in the log for {k}?
entry of {k}?
"""
                ),
                lines("when was this: {v}?; at what time did I note {v}?; {v}: when?; what time: {v}"),
            ),
        ),
    ),
    Family(
        lines("moving boxes; what's in which box; the boxes; storage; my shelves, for later"),
        tuple(
            f"{name} {key}" for name in ("box", "shelf", "drawer", "crate") for key in (*range(1, 8), *"abc")
        ),
        False,
        (
            Field(
                (
                    *THINGS,
                    *lines(
                        """
kitchen stuff; winter clothes; books; photos; [thing]; papers of [company]; things of [name]
"""
                    ),
                ),
                lines("what is in {k}?; {k} has what in it; content of {k}?; what did I put into {k}"),
                lines(
                    """
where are the {v}?; which one has the {v}?; where did i put {v}; in what do I find {v}?
"""
                ),
            ),
        ),
    ),
    Family(
        lines("our party; the players; dnd group; who plays whom; cast; my game night"),
        lines(
            """
[name]; [name2]; [name3]; [name4]; player 1; player 2; player 3; my dad; my cousin; the boss
"""
        ),
        False,
        (
            Field(
                tuple(
                    f"{who} {name}"
                    for who in lines("the wizard; the rogue; an orc bard; the cleric; a thief; the mayor")
                    for name in ("[pet]", "[pet2]", "[word]")
                ),
                lines(
                    """
who does {k} play?; what is {k} in the game; {k}'s character?; which part has {k}
"""
                ),
                lines("who plays {v}?; {v} is played by whom?; whose character is {v}"),
            ),
        ),
    ),
    Family(
        lines("rota; who does what this week; chores; cleaning plan; duties; who cooks when"),
        lines("monday; tuesday; wednesday; thursday; friday; saturday; sunday"),
        True,
        (
            Field(
                lines(
                    """
[name]; [name2]; [name3]; me; my brother; my sister; nobody; dad; both kids; [name] and [name2]
"""
                ),
                lines("whose turn is {k}?; who is on {k}?; {k}, who?; who has {k}; who does it on {k}"),
            ),
            Field(
                lines(
                    """
bathroom; kitchen; stairs; bins; windows; lentil soup; pizza; pasta; laundry; garden; the dog
dishes; leftovers
"""
                ),
                lines(
                    """
what is to do on {k}?; what is it on {k}; {k}, which job?; what's on the list for {k}
"""
                ),
                lines("when is it {v}?; which day is for {v}?; {v} is when"),
            ),
        ),
    ),
    Family(
        lines("training diary; my runs; gym log; this week's training; sports"),
        lines("mon; tue; wed; thu; fri; sat; sun; monday; wednesday; friday; sunday"),
        True,
        (
            Field(
                lines(
                    """
ran [count] km; bench 62.5 x 6; bench 60 x 8; squats 80 x 5; rest; swam [count] laps
[count2] push-ups; yoga with [name]; rowed [number] m; bike, [count] km; sick; climbing in [place]
stretching; 10k race
"""
                ),
                lines(
                    """
what did I do on {k}?; {k}, what was it?; my training on {k}; what's down for {k}?
"""
                ),
                lines("on which day was this: {v}?; when did I note {v}; {v}, what day?"),
            ),
        ),
    ),
    Family(
        lines("for the network; my devices; logins; passwords and the like; office machines"),
        lines(
            """
printer; router; door; camera; alarm; wifi; safe; server; tablet; locker; bike lock; garage
"""
        ),
        False,
        (
            Field(
                lines(
                    """
pin [digits]; code [digits]; password [password]; ip 192.168.[count].[count2]; key [password]
number [number]
"""
                ),
                lines(
                    """
what do I need for the {k}?; {k}?; what did I note for the {k}; how do I get into the {k}?
"""
                ),
                lines("what is {v} for?; {v} belongs to what?"),
            ),
            Field(
                lines(
                    """
in the hall; third floor; behind the desk; [place] office; cellar; at [name]'s; on the left; kitchen
"""
                ),
                lines("where is the {k}?; place of the {k}; where do I find the {k}?"),
            ),
        ),
    ),
    Family(
        lines("scores; results; points so far; who spent what; the bill; votes"),
        lines("[name]; [name2]; [name3]; [name4]; [name5]; the twins; team red; team blue; the others"),
        False,
        (
            Field(
                lines(
                    """
[count]; [count2]; [number]; [count] points; [amount]; 0; 10.50; [count2] points; nothing yet
"""
                ),
                lines(
                    """
how many does {k} have?; {k}'s number?; what stands beside {k}; and {k}, how much?
"""
                ),
            ),
        ),
    ),
)
COLONS = (": ", ": ", ": ", " - ", " = ", " -> ", ", ", " ")
BREAKS = ("\n", "\n", "; ", "; ", ". ", ", ")


def noted(rng: Random) -> Written:
    """A dialogue of such notes, all at once or one by one, with a change now and then, and questions."""
    family = rng.choice(FAMILIES)
    fields = family.fields[: rng.randint(1, len(family.fields))]
    count = min(rng.randint(2, 6), len(family.keys))
    places = rng.sample(range(len(family.keys)), count)
    if family.ordered:
        start = rng.randrange(len(family.keys) - count + 1)
        places = sorted(places) if rng.random() < 0.5 else list(range(start, start + count))
    keys = list(dict.fromkeys(family.keys[place] for place in places))
    used: set[str] = set(keys)
    entries = {key: [fresh(rng, each, used) for each in fields] for key in keys}
    colon, between = rng.choice(COLONS), rng.choice(BREAKS)
    between = "; " if between == ", " and (len(fields) > 1 or colon == ", ") else between

    def entry(key: str) -> str:
        return key + colon + ", ".join(entries[key])

    lead = rng.choice(family.leads)
    exchanges = []
    if rng.random() < 0.6:
        start_ = lead + rng.choice([": ", ":\n", "\n", " - "]) if rng.random() < 0.7 else ""
        exchanges.append(telling(start_ + between.join(map(entry, keys))))
    else:
        exchanges += [telling(lead if rng.random() < 0.1 else entry(key)) for key in keys]
        exchanges += [
            telling(entry(key)) for key in keys if entry(key) not in [e.wordings[0] for e in exchanges]
        ]
    if rng.random() < 0.35:
        key, place = rng.choice(keys), rng.randrange(len(fields))
        entries[key][place] = fresh(rng, fields[place], used)
        new = entries[key][place]
        wordings = rng.sample(
            [f"{key}{colon}{new} now", f"no, {key} is {new}", f"change: {key}, {new}", f"{key} -> {new}"], 2
        )
        exchanges.append(
            Exchange(tuple(wordings), f"Changed: {key}.", turned(f"Got it, now {key} is {new}."))
        )
    for key in rng.sample(keys, rng.randint(1, len(keys))):
        place = rng.randrange(len(fields))
        value, each = entries[key][place], fields[place]
        alone = sum(value in other for other in entries.values()) == 1
        if each.back and alone and rng.random() < 0.3:
            wordings = [text.replace("{v}", value) for text in each.back]
            exchanges.append(asking(rng, wordings, key, f"{key}: {value}"))
        else:
            wordings = [text.replace("{k}", key) for text in each.asks]
            exchanges.append(asking(rng, wordings, value, f"{key}: {value}"))
    others = [key for key in family.keys if key not in keys and "[" not in key]
    if others and rng.random() < 0.4:
        wordings = [text.replace("{k}", rng.choice(others)) for text in rng.choice(fields).asks]
        text = rng.choice(wordings)
        exchanges.append(
            Exchange((text,), f"Asked: {text.rstrip('?')}. Not told.", "You have not told me that yet.")
        )
    return Written((), tuple(exchanges), 0)


def fresh(rng: Random, each: Field, used: set[str]) -> str:
    """A value that no entry has yet; its slots are its own."""
    taken = " ".join(used)

    def is_free(value: str) -> bool:
        return value not in used and not any(f"[{name}]" in taken for name in slots_of([value]))

    for _ in range(20):
        value = rng.choice(each.values)
        if is_free(value):
            break
        value = numbered(rng, value)
        if is_free(value):
            break
    used.add(value)
    return value


def numbered(rng: Random, text: str) -> str:
    """The text with other slots of the same kinds."""
    names = slots_of([text])
    for name, number in zip(names, rng.sample(range(2, 10), len(names)), strict=True):
        text = text.replace(f"[{name}]", f"[{kind_of(name)}{number}]")
    return text


def telling(text: str, topic: str = "notes") -> Exchange:
    """A message that tells something of a topic."""
    return Exchange((text, capital(text)), f"New: {topic}.", f"Got it: {text}.")


def asking(rng: Random, wordings: list[str], answer: str, reply: str) -> Exchange:
    """A question, whose answer thinking has before the reply."""
    some = rng.sample(wordings, min(2, len(wordings)))
    topic, told = turned(some[0].rstrip("?")), turned(answer)
    return Exchange(tuple(some), f"Asked: {topic}. Told: {told}.", f"{capital(turned(reply))}.")
