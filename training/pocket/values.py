"""Draws the open vocabulary of values that facts carry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from zlib import crc32

from training.pocket import words as w

HELD_OUT = 12


def held_out(value: str) -> bool:
    """Whether a value is kept for evaluation and never trained on."""
    return crc32(value.lower().encode()) % HELD_OUT == 0


def invented(rng: Random) -> str:
    """A lower-case word that no list has."""
    syllables = rng.choice([1, 2, 2, 2, 3])
    parts = [rng.choice(w.CONSONANTS) + rng.choice(w.VOWELS) for _ in range(syllables)]
    return "".join(parts) + rng.choice([*w.ENDINGS, "", "", "", "", "", "", ""])


def letters(rng: Random) -> str:
    """A few unpronounceable letters."""
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 8)))


def name(rng: Random) -> str:
    """A person's name, often never seen before."""
    first = invented(rng).capitalize() if rng.random() < 0.45 else rng.choice(w.NAMES)
    if rng.random() < 0.12:
        last = invented(rng).capitalize() if rng.random() < 0.4 else rng.choice(w.SURNAMES)
        return f"{first} {last}"
    return rng.choice(["Mr. ", "Dr. ", "Mrs. "]) + first if rng.random() < 0.02 else first


def pet(rng: Random) -> str:
    """A pet's name: any word may be one."""
    if rng.random() < 0.5:
        return name(rng)
    pool = rng.choice([w.FOODS, w.NOUNS, w.COLOURS, w.ADJECTIVES, w.PLACES, w.MONTHS, w.DRINKS])
    text = " ".join(word.capitalize() for word in rng.choice(pool).split())
    return rng.choice(["Mr ", "Sir ", "Lady ", "Captain "]) + text if rng.random() < 0.05 else text


def place(rng: Random) -> str:
    """A town or country."""
    if rng.random() < 0.35:
        start = rng.choice(["New ", "Port ", "San ", *[""] * 9])
        return start + invented(rng).capitalize()
    return rng.choice(w.PLACES)


def digits(rng: Random) -> str:
    """A number or code of one to eight digits."""
    length = rng.choice([1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 6, 6, 8])
    text = "".join(rng.choice("0123456789") for _ in range(length))
    return f"{text[:-3]}-{text[-3:]}" if length > 5 and rng.random() < 0.2 else text


def password(rng: Random) -> str:
    """Letters and digits mixed."""
    word = rng.choice([invented(rng), letters(rng), rng.choice(w.NOUNS), rng.choice(w.ADJECTIVES)])
    word = rng.choice([word, word, word.capitalize(), word.upper()])
    tail = digits(rng)[:4]
    word += rng.choice(w.NOUNS) if rng.random() < 0.25 and word.islower() else ""
    joint = rng.choice(["", "", "-", "_", "."])
    other = rng.choice([rng.choice(w.NOUNS), tail, tail, tail])
    return rng.choice([word + joint + other, word + joint + other, tail + joint + word])


def short_code(rng: Random) -> str:
    """Such as B12 or 14C."""
    letter, number = rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ"), str(rng.randint(1, 99))
    return rng.choice([letter + number, number + letter, letter + "-" + number])


def number(rng: Random) -> str:
    """What a numbered thing may hold."""
    return rng.choice([digits, digits, digits, digits, password, short_code])(rng)


def age(rng: Random) -> str:
    """Years, as digits."""
    return str(rng.randint(1, 99))


def colour(rng: Random) -> str:
    """A colour, perhaps with a shade."""
    shade = rng.choice(["dark ", "light ", "pale ", "bright ", "deep "])
    return (shade if rng.random() < 0.15 else "") + rng.choice(w.COLOURS)


def clock(rng: Random) -> str:
    """A time of day."""
    hour, minute = rng.randint(1, 12), rng.choice(["00", "15", "30", "45", "10", "20", "05", "50"])
    half = rng.choice(["am", "pm", " am", " pm"])
    forms = [f"{hour}{half}", f"{hour}{half}", f"{hour}:{minute}", f"{hour}:{minute}{half}"]
    forms += [f"{rng.randint(13, 23)}:{minute}", f"{hour} o'clock", "noon", "midnight", str(hour)]
    forms += [f"half past {rng.choice(['six', 'seven', 'eight', 'nine', 'ten', 'two', 'three'])}"]
    return rng.choice(forms)


def day(rng: Random) -> str:
    """A day, with its preposition where it wants one."""
    month, date = rng.choice(w.MONTHS), rng.randint(1, 31)
    forms = [f"on {rng.choice(w.DAYS)}"] * 5 + [f"next {rng.choice(w.DAYS)}", "tomorrow", "today"]
    forms += [f"on {date} {month}", f"on {month} {date}", f"on the {date}th", f"in {month}"]
    forms += [f"this {rng.choice(w.DAYS)}", "next week", "tonight", f"on {rng.choice(w.DAYS)}"]
    parts = ["morning", "evening", "afternoon", "night"]
    forms += [f"{rng.choice(['tomorrow', 'on ' + rng.choice(w.DAYS)])} {rng.choice(parts)}"]
    return rng.choice(forms)


def when(rng: Random) -> str:
    """A day, a time, or both."""
    both = f"{day(rng)} at {clock(rng)}"
    both = rng.choice([both, both, f"at {clock(rng)} {day(rng)}"])
    text = rng.choice([both, both, both, day(rng), day(rng), f"at {clock(rng)}"])
    return text.removeprefix("on ") if rng.random() < 0.2 else text


def date(rng: Random) -> str:
    """A birthday."""
    month, number_ = rng.choice(w.MONTHS), rng.randint(1, 31)
    return rng.choice([f"{number_} {month}", f"{month} {number_}", f"the {number_}th of {month}"])


def pair(rng: Random) -> str:
    """Two names, or three."""
    names = [rng.choice([name, pet])(rng) for _ in range(rng.choice([2, 2, 3]))]
    return " and ".join([", ".join(names[:-1]), names[-1]])


def thing(rng: Random) -> str:
    """A noun phrase without its article."""
    noun = rng.choice(rng.choice([w.THINGS, w.NOUNS]))
    start = rng.random()
    if start < 0.3:
        return f"{rng.choice(w.ADJECTIVES)} {noun}"
    return f"{rng.choice(w.COLOURS)} {noun}" if start < 0.5 else noun


def spot(rng: Random) -> str:
    """Where something lies, with its preposition."""
    adjective = rng.choice(w.ADJECTIVES + w.COLOURS) + " " if rng.random() < 0.35 else ""
    the = rng.choice(["the", "the", "the", "my"])
    inside = f"in {the} {adjective}{rng.choice(w.SPOTS)}"
    on = f"{rng.choice(['on', 'under', 'behind', 'next to', 'near', 'on top of'])} {the} {adjective}"
    room = f"{on}{rng.choice(w.SURFACES)} in the {rng.choice(w.SPOTS)}"
    level = f"on {rng.choice(['level', 'floor', 'deck', 'page'])} {rng.randint(1, 30)}"
    place_number = rng.choice([str(rng.randint(1, 300)), short_code(rng)])
    numbered = f"in {rng.choice(['room', 'row', 'box', 'hall', 'lot'])} {place_number}"
    street = (
        f"{rng.choice(['on', 'in', 'near'])} {rng.choice([name(rng), invented(rng).capitalize()])} Street"
    )
    rare = rng.choice([level, numbered, street])
    return rng.choice(
        [
            inside,
            rare,
            inside,
            on + rng.choice(w.SURFACES),
            on + thing(rng),
            room,
            f"at {name(rng)}'s house",
            f"in {place(rng)}",
        ]
    )


def title(rng: Random) -> str:
    """The title of a book, film or song."""
    made = f"{rng.choice(w.ADJECTIVES).capitalize()} {rng.choice(w.NOUNS).capitalize()}"
    return rng.choice([rng.choice(w.TITLES), made, f"The {made}", invented(rng).capitalize()])


def company(rng: Random) -> str:
    """An employer."""
    made, noun = invented(rng).capitalize(), rng.choice(w.NOUNS)
    forms = [made, made, f"{made} {noun.capitalize()}s", f"a {noun}", f"the {noun}", f"{made} Bank"]
    sort = rng.choice(["bakery", "shop", "school", "bank", noun])
    forms += [f"a {sort} {rng.choice(['called', 'named', 'in'])} {made}"]
    return rng.choice([*forms, "a hospital", "a school", "the university", "Google", "Siemens"])


def word(rng: Random) -> str:
    """Any single word."""
    pool = rng.choice([w.NOUNS, w.ADJECTIVES, w.COLOURS, w.FOODS, w.NAMES, w.PLACES])
    return rng.choice([invented(rng), letters(rng), rng.choice(pool), rng.choice(w.NOUNS)])


def chosen(pool: list[str]) -> Callable[[Random], str]:
    """A source that takes from a list."""
    return lambda rng: rng.choice(pool)


SOURCES: dict[str, Callable[[Random], str]] = {
    "name": name,
    "pet": pet,
    "place": place,
    "number": number,
    "age": age,
    "colour": colour,
    "when": when,
    "date": date,
    "thing": thing,
    "spot": spot,
    "title": title,
    "company": company,
    "word": word,
    "food": chosen(w.FOODS),
    "drink": chosen(w.DRINKS),
    "job": chosen(w.JOBS),
    "car": chosen(w.CARS),
    "activity": chosen(w.ACTIVITIES),
    "subject": chosen(w.SUBJECTS),
    "instrument": chosen(w.INSTRUMENTS),
    "language": chosen(w.LANGUAGES),
    "clock": clock,
    "music": chosen(w.MUSIC),
    "digits": digits,
    "password": password,
    "pair": pair,
    "animal": chosen(w.ANIMALS),
}
ANY = [
    "name",
    "pet",
    "place",
    "number",
    "colour",
    "thing",
    "title",
    "word",
    "word",
    "food",
    "drink",
    "activity",
    "digits",
    "password",
    "animal",
    "music",
    "language",
    "car",
]
FIXED = {"pair", "age", "when", "spot", "date", "clock", "number", "digits", "password"}


@dataclass
class Source:
    """Draws values of one side: trained on, or held out for evaluation."""

    rng: Random
    held: bool = False

    def draw(self, kind: str) -> str:
        """A value of a kind; an open kind now and then takes any word at all."""
        while True:
            value = self._draw(kind)
            if self._fits(value):
                return value

    def _draw(self, kind: str) -> str:
        if kind == "any":
            kind = self.rng.choice(ANY)
        value = SOURCES[kind](self.rng)
        if kind in FIXED or self.rng.random() < 0.72:
            return value
        strange = self.rng.choice([invented(self.rng), word(self.rng), letters(self.rng)])
        return strange.capitalize() if value[:1].isupper() else strange

    def _fits(self, value: str) -> bool:
        """Numbers of one or two digits are on both sides: there are too few of them."""
        return re.fullmatch(r"\d{1,2}", value) is not None or held_out(value) == self.held
