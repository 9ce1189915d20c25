"""Random messages of every kind, and what tells that a reply goes round in circles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from string import ascii_letters, digits, punctuation

# A piece of at least three words, or of twelve characters, three times in a row or more.
LOOP = re.compile(r"((?:\S+\s+){3,}?|.{12,}?)\1{2,}", re.DOTALL)

SCRIPTS = {
    "Greek": (0x3B1, 0x3C9),
    "Cyrillic": (0x430, 0x44F),
    "Hebrew": (0x5D0, 0x5EA),
    "Arabic": (0x627, 0x64A),
    "Devanagari": (0x905, 0x939),
    "Thai": (0xE01, 0xE2E),
    "Kana": (0x3041, 0x3096),
    "Han": (0x4E00, 0x9FA5),
    "Hangul": (0xAC00, 0xD7A3),
    "Latin with marks": (0xC0, 0x17F),
}
EMOJI = (
    "😀 😂 🥲 😍 🤔 😴 🙃 👍 👎 👋🏽 🙏 💪🏿 ❤️ 🔥 🎉 🐙 🦔 🐝 🌧️ 🍕 🍜 ☕ 🚲 ✈️ ⚽ 🎻 🏳️‍🌈 👨‍👩‍👧 🇯🇵 🇧🇷 ✅ ❓"
).split()
SMALL = [
    *[
        "?",
        "!",
        ".",
        "...",
        "-",
        "a",
        "I",
        "0",
        "ok",
        "hm",
        "??",
        "'",
        '"',
        "no",
        "yes",
        "why",
        "\\",
        "/",
        "#",
        "*",
    ],
    *[
        "_",
        "~",
        "`",
        "```",
        "<",
        ">",
        "<br>",
        "&nbsp;",
        "%",
        "{}",
        "[]",
        "()",
        "null",
        "NaN",
        "\u200b",
        "\ufeff",
    ],
    *[
        "\u0301",
        "\U0001f3fd",
        "\ufffd",
        "\u202e",
        "\x07",
        "\t",
        ".\n.",
        "-\n\n\n-",
        "<|im_end|>",
        "<think>",
        "</think>",
    ],
]
WORDS = (
    "river lamp seven quickly under because blue never carry window again salt Tuesday machine "
    "sorry your happy the of and not what who my is are me you told name lives called from with "
    "where favourite plus minus equals branch resume panel cache token sleep paper garden loud "
    "tiny mountain whisper forty old sing broke yellow"
).split()
NAMES = [
    "x",
    "total",
    "items",
    "user_id",
    "parse",
    "data",
    "i",
    "node",
    "config",
    "fetchAll",
    "MAX_SIZE",
    "tmp",
]


def repeated(text: str, heard: str = "") -> str | None:
    """The stretch of `text` that repeats itself, if there is one that does not stand in `heard` as well."""
    heard = heard.casefold()
    stretches = (match[0].strip() for match in LOOP.finditer(f"{text} "))
    return next((stretch for stretch in stretches if stretch.casefold() not in heard), None)


def code(rng: Random) -> str:
    """A few lines that look like a program, or like what one prints."""
    a, b, c = rng.sample(NAMES, 3)
    n, m = rng.randrange(1000), rng.randrange(100)
    lines = [
        f"def {a}({b}, {c}={n}):",
        f"    return {b}[{m}] + {c} * {n}",
        f"for (let {a} = 0; {a} < {n}; {a}++) {{ {b}.push({c}); }}",
        f"SELECT {a}, {b} FROM {c} WHERE {a} = '{n}' LIMIT {m};",
        f'{{"{a}": {n}, "{b}": [{m}, null, true], "{c}": {{"{b}": "{a}"}}}}',
        f"Traceback (most recent call last):\n  File \"{a}.py\", line {m}, in {b}\nKeyError: '{c}'",
        f"$ {a} --{b} {n} | grep -v {c} > /dev/null 2>&1",
        f"<div class='{a}'><p id={b}>{c}</p></div>",
        f"#include <{a}.h>\nint {b}(void) {{ return {c} << {m}; }}",
        f"| {a} | {b} |\n|---|---|\n| {n} | {m} |",
        f"https://{a}.example/{b}?{c}={n}&{a}={m}#{b}",
    ]
    return "\n".join(rng.choices(lines, k=rng.randint(1, 5)))


def repetition(rng: Random) -> str:
    """Words, or letters, again and again."""
    piece = " ".join(rng.choices(WORDS, k=rng.randint(1, 4)))
    if rng.random() < 0.3:
        syllable: str = rng.choice([*ascii_letters, "ha", "la", "lol", "no", "?!", "😂", "12", "哈"])
        return syllable * rng.randint(3, 80)
    return rng.choice([" ", ", ", "\n", "! "]).join([piece] * rng.randint(2, 25))


def words(rng: Random) -> str:
    """Words in no order, as a sentence."""
    text = " ".join(rng.choices(WORDS, k=rng.randint(1, 25)))
    return rng.choice(
        [text, text.capitalize() + ".", text + "?", text.upper(), "my " + text, "what is " + text + "?"]
    )


def keys(rng: Random) -> str:
    """Keys hit at random."""
    board = rng.choice(
        ["asdfghjkl", "qwertyuiop", "jkl;uiop", ascii_letters, digits, ascii_letters + digits + punctuation]
    )
    return "".join(rng.choices(board + " " * rng.randint(0, 3), k=rng.randint(2, 60))).strip() or "f"


def other_script(rng: Random) -> str:
    """Letters of another script, as words."""
    first, last = rng.choice(list(SCRIPTS.values()))
    letters = [chr(rng.randint(first, last)) for _ in range(rng.randint(1, 50))]
    return "".join(letter + " " * (rng.random() < 0.2) for letter in letters).strip()


def emoji(rng: Random) -> str:
    """Emoji, with a word at times."""
    return "".join(rng.choices([*EMOJI, " ", rng.choice(WORDS)], k=rng.randint(1, 12))).strip() or EMOJI[0]


def any_characters(rng: Random) -> str:
    """Characters from all of Unicode, surrogates left out."""
    points = [
        rng.choice([rng.randrange(0x20, 0xD800), rng.randrange(0xE000, 0x20000)])
        for _ in range(rng.randint(1, 40))
    ]
    return "".join(map(chr, points))


def numbers(rng: Random) -> str:
    """Numbers and signs that are no sum."""
    return (
        "".join(
            rng.choices(
                [*digits, "+", "-", "*", "/", "=", "(", ")", ".", ",", " ", ":", "%"], k=rng.randint(1, 40)
            )
        ).strip()
        or "7"
    )


def two_thousand_letters(rng: Random) -> str:
    """A message of about 2,000 letters, of any kind."""
    kind = rng.choice([words, keys, repetition, other_script, code])
    text = ""
    while len(text) < 2000:
        text += kind(rng) + " "
    return text[: 2000 if text.isascii() else 700].strip()


# How many of a hundred messages are of each kind.
SHARES = {
    words: 24,
    keys: 13,
    repetition: 13,
    other_script: 11,
    emoji: 9,
    any_characters: 8,
    code: 8,
    numbers: 6,
    two_thousand_letters: 1,
}


def messages(seed: int, count: int) -> Iterator[str]:
    """`count` random messages; what is left of the shares are the smallest there are."""
    for number in range(count):
        rng = Random(f"loops {seed} {number}")
        kind = rng.choices([*SHARES, None], weights=[*SHARES.values(), 100 - sum(SHARES.values())])[0]
        yield kind(rng) if kind else rng.choice(SMALL)
