"""Draws the open vocabulary of values that facts carry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from zlib import crc32

from training.pocket import words as w

HELD_OUT = 12
WILD = 0.17


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


SCRIPTS = (
    ((0x61, 0x7A), 3.0),
    ((0xE0, 0x17F), 2.0),
    ((0x3B1, 0x3C9), 0.7),
    ((0x430, 0x44F), 1.2),
    ((0x5D0, 0x5EA), 0.4),
    ((0x627, 0x64A), 0.6),
    ((0x905, 0x939), 0.5),
    ((0xE01, 0xE2E), 0.4),
    ((0x10D0, 0x10F0), 0.3),
    ((0x3041, 0x3093), 0.8),
    ((0x30A1, 0x30F6), 0.6),
    ((0x4E00, 0x9FA0), 2.0),
    ((0xAC00, 0xD7A3), 0.8),
    ((0x1F300, 0x1F64F), 0.8),
    ((0x1F680, 0x1F6C5), 0.3),
    ((0x2600, 0x26FF), 0.3),
    ((0x21, 0x7E), 0.6),
)
ACCENTS = "áàâäãåæçéèêëíìîïñóòôöõøőœśšßúùûüűýžżłđðþğıćč"
EMOJI = "😀 😂 😍 👍 🎉 🚀 🐝 🐱 🐶 🌍 🔥 💡 🍕 ⭐ ❤️ 🤖 🎸 🏠 🌈 👩‍🚀".split()
COMMON_HAN = (
    "小大白王李张刘陈杨黄赵周吴徐孙马朱胡林明华伟芳娜秀英敏静丽强磊军洋勇艳杰"
    "山田中村佐藤鈴木高橋健一花子東京北京上海"
)


def script(rng: Random) -> str:
    """A word of one writing system, of characters at random."""
    kind = rng.random()
    if kind < 0.1:
        return "".join(rng.choice(COMMON_HAN) for _ in range(rng.randint(2, 4)))
    low, high = rng.choices([s for s, _ in SCRIPTS], [w for _, w in SCRIPTS])[0]
    length = rng.randint(1, 4) if low > 0x3000 else rng.randint(2, 9)
    text = "".join(chr(rng.randint(low, high)) for _ in range(length))
    text = "".join(c for c in text if c.isprintable() and not c.isspace() and c not in "<>")
    return text.capitalize() if kind < 0.6 else text or "ø"


def accented(rng: Random) -> str:
    """A Latin name with accents."""
    word = list(rng.choice([invented(rng), rng.choice(w.NAMES), rng.choice(w.SURNAMES)]).lower())
    for _ in range(rng.choice([1, 1, 2])):
        word[rng.randrange(len(word))] = rng.choice(ACCENTS)
    return "".join(word).capitalize()


def mixed(rng: Random) -> str:
    """Letters of any case, digits and marks."""
    marks = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+#@/&"
    if rng.random() < 0.4:
        marks += "!?*%=~^$!_-"
    text = "".join(rng.choice(marks) for _ in range(rng.randint(3, 11)))
    return text.rstrip(".") + rng.choice("abcXYZ01289")


def numerals(rng: Random) -> str:
    """Groups of digits with what stands between them."""
    groups = [
        "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 4))) for _ in range(rng.randint(2, 4))
    ]
    text = rng.choice(["-", "-", "-", " ", ".", "/", ":"]).join(groups)
    return rng.choice(["", "", "", "+", "#", "$", "€"]) + text


def amount(rng: Random) -> str:
    """A number with its unit."""
    figure = rng.choice(
        [str(rng.randint(1, 99)), f"{rng.randint(0, 99)}.{rng.randint(0, 99)}", str(rng.randint(100, 9999))]
    )
    unit = rng.choice(
        "kg;km;cm;m;euros;dollars;pounds;%;minutes;hours;litres;miles;grams;degrees;square metres".split(";")
    )
    return f"{figure}%" if unit == "%" else f"{figure} {unit}"


def phrase(rng: Random) -> str:
    """Several words."""
    pools = (w.ADJECTIVES, w.NOUNS, w.COLOURS, w.ANIMALS, w.FOODS)
    words_ = [
        rng.choice(rng.choice(pools)) if rng.random() < 0.8 else invented(rng)
        for _ in range(rng.randint(2, 4))
    ]
    return " ".join(words_ if rng.random() < 0.6 else [part.capitalize() for part in words_])


def marked(rng: Random) -> str:
    """A word in quotes or in Markdown's marks."""
    inside = rng.choice([name, pet, word, phrase, accented, digits, place])(rng)
    around = rng.choice(["**", "**", "*", "_", "`", '"', '"', "'", "~", "#", "(", "[", "«", "“"])
    return around + inside + {"(": ")", "[": "]", "«": "»", "“": "”", "#": ""}.get(around, around)


def address(rng: Random) -> str:
    """An email address, a web page or a file."""
    a, b = invented(rng), rng.choice([invented(rng), rng.choice(w.NOUNS)])
    return rng.choice(
        [
            f"{a}@{b}.com",
            f"{a}.{b}@mail.org",
            f"www.{a}{b}.net",
            f"https://{a}.org/{b}",
            f"/home/{a}/{b}.txt",
            f"{a}_{b}.py",
        ]
    )


def pasted(rng: Random) -> str:
    """Two values of any sort side by side."""
    kinds = [name, script, numerals, accented, word, mixed, letters]
    return rng.choice([" ", " ", "-", " & ", "/", " and "]).join(rng.choice(kinds)(rng) for _ in range(2))


def smiling(rng: Random) -> str:
    """A name with an emoji."""
    pair = [rng.choice([name, word, pet])(rng), rng.choice(EMOJI)]
    return rng.choice([pair[1], " ".join(pair), "".join(pair), pair[1] * 2])


def wild(rng: Random) -> str:
    """Any sequence of bytes that may stand in the place of a value."""
    kinds = [
        script,
        script,
        script,
        accented,
        accented,
        mixed,
        numerals,
        numerals,
        amount,
        phrase,
        phrase,
        marked,
        marked,
        address,
        pasted,
        smiling,
        letters,
    ]
    return rng.choice(kinds)(rng)


def foods(rng: Random) -> str:
    """What is eaten: often a list."""
    many = rng.sample(w.FOODS, rng.choice([1, 1, 1, 2, 3, 4]))
    return " and ".join([", ".join(many[:-1]), many[-1]]) if len(many) > 1 else many[0]


TRAITS = (
    """
vegetarian;vegan;left-handed;right-handed;colour-blind;married;single;divorced;retired;pregnant
engaged;unemployed;deaf;Hungarian;Spanish;German;French;Italian;Dutch;Polish;Irish;Scottish;Swedish
Danish;Greek;Turkish;Japanese;Korean;Indian;Chinese;Brazilian;Mexican;Canadian;American;Australian
British;Welsh;Norwegian;Finnish;Czech;Portuguese;a vegetarian;a vegan;a twin;an only child
a night owl;an early riser;a beginner;a widow;a grandmother;a grandfather;diabetic
lactose intolerant;very tall;rather short;half Irish;half Greek;bilingual;self-employed;a parent
a mother of three;a father of two;shy
""".strip()
    .replace("\n", ";")
    .split(";")
)


def year(rng: Random) -> str:
    """The year of a birth."""
    return str(rng.randint(1925, 2018))


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
    "foods": foods,
    "year": year,
    "trait": chosen(TRAITS),
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
    "wild": wild,
    "amount": amount,
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
FIXED = {"year", "trait", "pair", "age", "when", "spot", "date", "clock", "number", "digits", "password"}


@dataclass
class Source:
    """Draws values of one side: trained on, or held out for evaluation.

    `near`: places that were told, of which the world may be asked too.
    """

    rng: Random
    held: bool = False
    near: tuple[str, ...] = ()

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
        if kind in FIXED and kind not in ("number", "digits", "password"):
            return value
        if self.rng.random() < WILD:
            return wild(self.rng)
        if kind in FIXED or self.rng.random() < 0.7:
            return value
        strange = self.rng.choice([invented(self.rng), word(self.rng), letters(self.rng)])
        return strange.capitalize() if value[:1].isupper() else strange

    def _fits(self, value: str) -> bool:
        """Numbers of one or two digits are on both sides: there are too few of them."""
        return re.fullmatch(r"\d{1,2}|(19|20)\d\d", value) is not None or held_out(value) == self.held
