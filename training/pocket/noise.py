"""Messages that are no sentences: emoji, keyboard mash, foreign scripts, code, data, logs, links and long texts."""

# Frames are one line each.
# ruff: noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from random import Random
from string import ascii_letters
from typing import Any

from training.pocket import lexicon
from training.pocket import words as w
from training.pocket.advert import ending
from training.pocket.frames import Frames, one
from training.pocket.turns import Turn
from training.pocket.values import Source, invented, thing

AGAIN = "I did not understand that. Can you say it in other words?"
UNREAD = "I cannot read that. I speak only English well."

HAPPY = "😀 😃 😄 😁 😆 😂 🤣 😊 🙂 😉 😎 🥳 😺 🤗 😋 😜 🤩 ☺️ 😇 🎉 🎊 👍 👏 🙌 💪 👌 ✌️ ✨ :) :-) :D :-D ;) ;-) xD XD :p :P c:".split()
LOVE = "❤️ 🧡 💛 💚 💙 💜 🖤 💕 💖 💗 💘 💝 😍 🥰 😘 😻 💋 🌹 💞 💓 ♥️ 🤍 🫶 <3 <3 :* :-*".split()
SAD = "😢 😭 😞 😔 😟 🙁 ☹️ 😩 😫 🥺 😿 💔 😣 😖 😥 😰 😓 🤒 🤕 😷 🤧 :( :-( :'( ;( :/ T_T ;_;".split()
ANGRY = "😠 😡 🤬 👎 😤 🖕 👿 💢 😾 🙄 😒".split()
HELLO = "👋 🤝 👋🏻 👋🏽 👋🏿 🙋 🙋‍♂️ 🙋‍♀️".split()
OTHER = (
    "🐶 🐱 🐭 🐰 🦊 🐻 🐼 🐨 🦁 🐮 🐷 🐸 🐵 🐔 🐧 🐦 🦆 🦉 🐴 🦄 🐝 🐛 🦋 🐌 🐞 🐢 🐍 🐙 🐬 🐳 🍏 🍎 🍐 🍊 🍋 🍌 🍉 🍇 🍓 🍒 🍑 🍍 🥑 🍅 🥕 🌽 "
    "🍞 🧀 🍔 🍟 🍕 🌮 🍣 🍦 🍩 🍪 🎂 🍫 ☕ 🍵 🍺 🍷 ⚽ 🏀 🎾 🎮 🎲 🎸 🎹 🎨 🚗 🚕 🚌 🚲 ✈️ 🚀 🚢 🏠 🏰 ⛺ 🌍 🌙 ⭐ ☀️ ⛅ 🌧️ ⛄ 🔥 💧 🌈 🌊 🌲 🌵 🌻 🍀 "
    "📱 💻 ⌨️ 📷 📚 ✏️ 📎 🔑 🔨 ⏰ 💡 💰 🎁 🧩 ❓ ❗ ✅ ❌ 🔴 🟢 🔵 ➡️ ⬆️ 🇫🇷 🇩🇪 🇯🇵 🇧🇷 🇭🇺 🏳️‍🌈 👨‍👩‍👧 👩‍💻 🧑‍🚀 🧙 🤖 👻 👽 💀 🎃 🤷 🤔 😐 😶 🤨 😴 🥱 👀 🧠 👑 🎓"
).split()
MOODS: tuple[tuple[list[str], str, str], ...] = (
    (HAPPY, "Happy emoji.", "I am glad that you are happy."),
    (LOVE, "Loving emoji.", "That is kind of you."),
    (SAD, "Sad emoji.", "I hope that you feel better soon."),
    (ANGRY, "Angry emoji.", "I am sorry that you are angry. What can I do better?"),
    (HELLO, "A wave.", "Hello! I am pocket. What can I do for you?"),
    (OTHER, "Emoji.", "How nice! Tell me more in words."),
)


def emoji(source: Source, advert: bool) -> Turn:
    """Emoji alone."""
    rng = source.rng
    pool, thinking, reply = one(rng, MOODS if rng.random() < 0.7 else MOODS[-1:])
    count = one(rng, (1, 1, 1, 2, 3, 3, 4, 6, 10, 30))
    if rng.random() < 0.3:
        text = one(rng, pool) * count
    else:
        text = one(rng, ("", "", " ")).join(one(rng, pool) for _ in range(count))
    return Turn(text, f"{thinking} A kind word.", reply, "emoji")


BLOCKS: tuple[tuple[int, int], ...] = (
    (0x0E01, 0x0E2E),  # Thai
    (0x10D0, 0x10F0),  # Georgian
    (0x0561, 0x0587),  # Armenian
    (0x0B95, 0x0BB9),  # Tamil
    (0x1200, 0x1248),  # Ethiopic
    (0x1780, 0x17B3),  # Khmer
    (0x0985, 0x09B9),  # Bengali
    (0x0C05, 0x0C39),  # Telugu
    (0x1000, 0x102A),  # Burmese
    (0x13A0, 0x13F4),  # Cherokee
    (0x2800, 0x28FF),  # Braille
    (0x16A0, 0x16EA),  # Runic
    (0x0D85, 0x0DC6),  # Sinhala
    (0x0F40, 0x0F6C),  # Tibetan
    (0xA000, 0xA48C),  # Yi
    (0x12000, 0x12399),  # Cuneiform
    (0x13000, 0x1342E),  # Hieroglyphs
)
SYMBOLS: tuple[tuple[int, int], ...] = (
    (0x2190, 0x21FF),
    (0x2200, 0x22FF),
    (0x2300, 0x23FF),
    (0x2500, 0x257F),
    (0x2580, 0x25FF),
    (0x2600, 0x26FF),
    (0x2700, 0x27BF),
    (0x1D400, 0x1D7FF),
    (0x2070, 0x209C),
    (0x20A0, 0x20C0),
    (0x2460, 0x24FF),
    (0x00A1, 0x00BF),
    (0x0300, 0x036F),
    (0xE000, 0xE100),
    (0x1F000, 0x1F0F5),
    (0xFF01, 0xFF60),
)


def length(rng: Random) -> int:
    """Mostly short, seldom two thousand letters."""
    return 1 + int(
        rng.random()
        * one(rng, (6, 12, 12, 30, 30, 30, 60, 60, 150, 300) if rng.random() < 0.985 else (1000, 2000))
    )


def foreign(source: Source, advert: bool) -> Turn:
    """A script that pocket cannot read."""
    rng = source.rng
    low, high = one(rng, BLOCKS)
    letters = [chr(low + int(rng.random() * (high - low))) for _ in range(length(rng) // 2 + 2)]
    text = "".join(letter + (" " if rng.random() < 0.15 else "") for letter in letters).strip()
    return Turn(text + one(rng, ("", "", "?", "!", ".")), "A script that I cannot read.", UNREAD, "noise")


ROWS = (
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "qwertzuiop",
    "azertyuiop",
    "yxcvbnm",
    "öäüß",
    "poiuytrewq",
    "lkjhgfdsa",
)
CONSONANTS = "bcdfghjklmnpqrstvwxz"
MARKS = "!\"#$%&'()*+,-./:;<=>?@[]^_{|}~\\`"


def mash(rng: Random) -> str:
    """What a cat types."""
    way = rng.random()
    size = length(rng)
    if way < 0.25:
        row = one(rng, ROWS)
        start = int(rng.random() * 5)
        return (row[start : start + 3 + int(rng.random() * 7)] * (1 + size // 20))[: size + 3]
    if way < 0.5:
        return "".join(one(rng, CONSONANTS) for _ in range(size + 4))
    if way < 0.6:
        return "".join(
            one(rng, one(rng, ROWS[:3])) + (" " if rng.random() < 0.1 else "") for _ in range(size + 4)
        ).strip()
    if way < 0.7:
        return "".join(chr(33 + int(rng.random() * 94)) for _ in range(size + 5))
    if way < 0.8:
        return "".join(one(rng, MARKS) for _ in range(size + 1))
    if way < 0.9:
        low, high = one(rng, SYMBOLS)
        return "".join(chr(low + int(rng.random() * (high - low))) for _ in range(size))
    blocks = BLOCKS + SYMBOLS
    found = ""
    for _ in range(size // 2 + 2):
        low, high = one(rng, blocks)
        found += one(
            rng, (chr(low + int(rng.random() * (high - low))), one(rng, CONSONANTS), one(rng, MARKS))
        )
    return found


def again(rng: Random) -> str:
    """The same letter, mark or word over and over."""
    way = rng.random()
    size = length(rng) + 3
    if way < 0.25:
        return one(rng, ascii_letters) * size
    if way < 0.3:
        return (
            one(rng, ("ha", "la", "no", "lol", "12", "bla", "?!", "ab", "xo", "ding", "na", "哈", "😂"))
            * size
        )
    if way < 0.42:
        return (
            one(
                rng,
                (
                    ".",
                    "!",
                    "-",
                    "_",
                    "=",
                    "*",
                    "#",
                    "~",
                    "/",
                    "\\",
                    "|",
                    "^",
                    ",",
                    "…",
                    "\N{ZERO WIDTH SPACE}",
                    "0",
                    "█",
                ),
            )
            * size
        )
    pool = vocabulary() + SMALL_WORDS * 4
    if way < 0.68:
        word = (
            one(rng, one(rng, (w.NOUNS, pool, SMALL_WORDS, ASKED_WORDS)))
            if rng.random() < 0.8
            else invented(rng)
        )
        text = one(rng, (" ", " ", ", ", "! ", "\n", "")).join(
            [word] * (3 + int(rng.random() * one(rng, (3, 10, 30))))
        )
        return one(rng, BEGINNINGS) + text + one(rng, ("?", "", ".")) if rng.random() < 0.2 else text
    if way < 0.72:
        return " ".join(again(rng) for _ in range(2 + int(rng.random() * 3)))
    phrase = (
        nearly_said(rng)
        if rng.random() < 0.5
        else " ".join(one(rng, pool) for _ in range(2 + int(rng.random() * 3)))
    )
    phrase = one(rng, (phrase, phrase, phrase, phrase.capitalize(), phrase.upper()))
    return one(rng, ("\n", " ", ", ", "! ")).join([phrase] * (2 + int(rng.random() * one(rng, (4, 10, 25)))))


# "[n]" is a noun, "[q]" a quality, "[v]" a verb, "[k]" a number, a day or a name.
NEARLY_SAID = (
    "[n] is [q];the [n] is;the the [n] is;my [n] is;my [q] [n];my [n] [q] [n];[k] is [k] is;[k] is;is [k];I am [n];"
    "I [v] [n];I [v] the [n] and;you [v] me;[n] and [n];the [n] [v] my [n];[q] [k] [n];[n] [v];[v] [v] [n];name [n];"
    "my name;my name is [k];what is [n];who is [k];[k] lives in [n];called [k];[n] of [n];not [q];[n] my [q];"
    "your [n] [v] the;[k] [n] again;told [n] me;[k] plus [k];[q] and [q] and;where [n] is;[n] was [q] and [k]"
).split(";")
VERBS = tuple(text for entry in lexicon.ALONE for text in entry)
NUMBERS = "one two three four five six seven eight nine ten eleven twelve twenty forty hundred".split()


def nearly_said(rng: Random) -> str:
    """A few words that are nearly a statement."""
    pools = {
        "n": (w.NOUNS, vocabulary()),
        "q": (w.ADJECTIVES, lexicon.QUALITIES, w.COLOURS),
        "v": (VERBS,),
        "k": (NUMBERS, w.DAYS, w.NAMES),
    }
    return re.sub(r"\[(\w)\]", lambda slot: one(rng, one(rng, pools[slot[1]])), one(rng, NEARLY_SAID))


BEGINNINGS = ("what is ", "who ", "where is my ", "my ", "is the ", "why ", "when did ", "how many ", "i ")
# Words that mean something in a question, over and over or in no order.
ASKED_WORDS = """
favourite name called age birthday job street number colour hobby pet born live work like again remember forget told
know ask tell say said answer question first last plus minus times equals sum half double divided percent branch
resume rewind edit panel cache token prompt model session checkpoint tree thinking save quit help list search hello
thanks sorry bye yes no ok please good morning night pocket chatcli code password address mother brother friend
""".split()
# Small words, of which a message without sense is made as much as any.
SMALL_WORDS = """
a all and are as at because but by can do down for from has have how i if in is it just me my never no not of off
old on or our out over she so some than that the their then there these they this to under up very was we what
when where which who why will with without you your
""".split()


@lru_cache(1)
def vocabulary() -> list[str]:
    """Words of every kind."""
    pools = (lexicon.THINGS, lexicon.QUALITIES, lexicon.STUFF, lexicon.ROLES, lexicon.MANNERS)
    found = {word.lower() for pool in pools for text in pool for word in text.split()}
    verbs = (lexicon.TRANSITIVE_THING, lexicon.ALONE, lexicon.SAYING)
    found |= {word for pool in verbs for entry in pool for text in entry for word in text.split()}
    return sorted({*found, *NUMBERS, *map(str.lower, w.DAYS), *w.COLOURS})


def salad(rng: Random) -> str:
    """Words in no order, typed like a sentence."""
    words = [
        one(rng, one(rng, (SMALL_WORDS, ASKED_WORDS))) if rng.random() < 0.4 else one(rng, vocabulary())
        for _ in range(3 + int(rng.random() * one(rng, (5, 10, 25))))
    ]
    text = " ".join(words)
    start = one(rng, BEGINNINGS)
    way = rng.random()
    if way < 0.2:
        return f"{text.capitalize()}."
    if way < 0.45:
        return text.upper()
    if way < 0.72:
        return f"{start}{text}{one(rng, ('?', '?', '', '.'))}"
    return text + one(rng, ("", "", "?", "!"))


NEARLY_EMPTY = ". - _ … , ; : * / \\ | ' \" ` ~ ^ + = & % $ # @ ( ) [ ] { } < > . .. ... .... -- --- ; ,, :: x z j v b ' ` !! ! \N{ZERO WIDTH SPACE} \N{EM DASH} \N{BULLET}".split(
    " "
)


def nonsense(source: Source, advert: bool) -> Turn:
    """Noise, which pocket did not understand."""
    rng = source.rng
    way = rng.random()
    if way < 0.012:
        text = " ".join(one(rng, (again, salad, mash))(rng) for _ in range(5 + int(rng.random() * 50)))[:2200]
    elif way < 0.28:
        text = mash(rng)
    elif way < 0.6:
        text = again(rng)
    elif way < 0.65:
        text = one(rng, NEARLY_EMPTY)
    elif way < 0.92:
        text = salad(rng)
    else:
        count = 2 + int(rng.random() * one(rng, (3, 6, 12)))
        pool = (w.NOUNS, w.ADJECTIVES)
        text = " ".join(
            one(rng, one(rng, pool)) if rng.random() < 0.4 else invented(rng) for _ in range(count)
        )
    if text.strip("?") == "":
        return question_marks(source, advert)
    return Turn(text if text.strip() else ".", "Noise. I ask for other words.", AGAIN, "noise")


def question_marks(source: Source, advert: bool) -> Turn:
    """Question marks alone."""
    text = one(source.rng, ("?", "??", "???", "????", "?!", "!?", "? ?", "¿?", "?????????"))
    reply = "Do you have a question? Ask me anything about chatcli, or type /help."
    return Turn(text, "A question mark alone.", reply, "noise")


def bare_number(source: Source, advert: bool) -> Turn:
    """A number alone."""
    rng = source.rng
    text = str(int(rng.random() * one(rng, (10, 100, 1000, 10000, 10**6, 10**9))))
    written = text + one(rng, ("", "", "", ".", "?", "!"))
    return Turn(written, "A number alone.", f"What shall I do with {text}?", "noise")


def key(source: Source, advert: bool) -> Turn:
    """A hash, a key or base64."""
    rng = source.rng
    letters = one(
        rng,
        (
            "0123456789abcdef",
            "0123456789ABCDEF",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        ),
    )
    text = "".join(one(rng, letters) for _ in range(one(rng, (16, 32, 40, 64, 64, 128, 300))))
    if rng.random() < 0.2:
        text = "-".join(
            (text[:8], text[8:12], text[12:16], text[16:20] or "a7f0", text[20:32] or "0123456789ab")
        )
    text = (
        one(rng, ("", "", "", "sk-", "sha256:", "0x", "ssh-rsa ", "ghp_", "data:image/png;base64,"))
        + text
        + one(rng, ("", "", "="))
    )
    return Turn(
        text, "A key or encoded data.", "That looks like a key or encoded data. I cannot read it.", "data"
    )


# Code and data.
def name(rng: Random) -> str:
    """An identifier."""
    first, second = one(rng, w.NOUNS), one(rng, one(rng, (w.NOUNS, w.ADJECTIVES)))
    return one(
        rng,
        (
            first,
            first,
            f"{second}_{first}",
            second + first.capitalize(),
            invented(rng),
            one(rng, "abxyzijkn"),
        ),
    )


def number(rng: Random) -> str:
    return str(int(rng.random() * one(rng, (10, 100, 1000))))


LINES: dict[str, tuple[str, ...]] = {
    "python": (
        "def {a}({b}, {c}={n}):",
        "    return {b} + {n}",
        "import {a}",
        "from {a} import {b}",
        "for {b} in range({n}):",
        "    print({b})",
        "class {A}:",
        "    def __init__(self, {b}):",
        "        self.{b} = {b}",
        "if {a} == {n}:",
        "{a} = [{n}, {m}, {n}]",
        "{a} = {b}.{c}({n})",
        "with open('{a}.txt') as {b}:",
        "try:",
        "except {A}Error as e:",
        "print(f'{{{a}}} is {b}')",
        "{a} = {{'{b}': {n}}}",
        "    # {b} the {c}",
        "while {a} < {n}: {a} += 1",
        "assert {a}({n}) == {m}",
        "lambda {a}: {a} * {n}",
        "@{a}",
    ),
    "js": (
        "const {a} = {n};",
        "let {a} = ({b}) => {b} * {n};",
        "function {a}({b}, {c}) {{",
        "  return {b} + {c};",
        "}}",
        "console.log({a});",
        "{a}.forEach({b} => {c}({b}));",
        "if ({a} === {n}) {{ {b}(); }}",
        "document.getElementById('{a}').{b} = '{c}';",
        "export default {a};",
        "import {a} from './{b}.js';",
        "await fetch(`/api/{a}/${{{b}}}`);",
        "var {a} = new {A}({n});",
        "// {a} {b}",
    ),
    "c": (
        "#include <{a}.h>",
        "int main(void) {{",
        "  int {a} = {n};",
        '  printf("%d\\n", {a});',
        "  return 0;",
        "}}",
        "for (int {a} = 0; {a} < {n}; {a}++) {{",
        "struct {a} {{ int {b}; char *{c}; }};",
        "if ({a} != NULL) free({a});",
        "std::vector<int> {a}({n});",
        "public static void main(String[] args) {{",
        "System.out.println({a});",
        "private final int {a} = {n};",
        "#define {A} {n}",
        "template <typename T> T {a}(T {b});",
    ),
    "rust": (
        "fn {a}({b}: u32) -> u32 {{",
        "let mut {a} = {n};",
        'println!("{{}}", {a});',
        "match {a} {{ Some({b}) => {n}, None => {m} }}",
        "use std::{a}::{b};",
        "impl {A} for {B} {{",
        "func {a}({b} int) string {{",
        'fmt.Println("{a}", {b})',
        "{a} := make([]int, {n})",
        "if err != nil {{ return err }}",
        "pub struct {A} {{ {b}: Vec<{C}> }}",
    ),
    "sql": (
        "SELECT {a}, {b} FROM {c} WHERE {a} > {n};",
        "INSERT INTO {a} ({b}, {c}) VALUES ({n}, '{b}');",
        "UPDATE {a} SET {b} = {n} WHERE {c} = '{a}';",
        "DELETE FROM {a} WHERE {b} < {n};",
        "CREATE TABLE {a} ({b} INTEGER PRIMARY KEY, {c} TEXT);",
        "select count(*) from {a} join {b} on {a}.id = {b}.{a}_id group by {c};",
    ),
    "shell": (
        "$ ls -la {a}/",
        "sudo apt install {a}",
        "git commit -m '{a} {b}'",
        "cd {a} && make {b}",
        "#!/bin/bash",
        "for f in *.{a}; do echo $f; done",
        "pip install {a}=={n}.{m}",
        "docker run -p {n}:80 {a}",
        "grep -rn '{a}' {b}/",
        "export {A}={n}",
        "curl -X POST http://localhost:{n}/{a}",
        "chmod +x {a}.sh",
        "cat {a}.txt | sort | uniq -c",
        "npm run {a}",
        "rm -rf {a}/",
    ),
    "css": (
        ".{a} {{ color: #{n}{n}; }}",
        "#{a} > .{b} {{ margin: {n}px auto; }}",
        "@media (max-width: {n}px) {{ .{a} {{ display: none; }} }}",
        "body {{ font-size: {n}px; }}",
    ),
    "diff": (
        "--- a/{a}.py",
        "+++ b/{a}.py",
        "@@ -{n},{m} +{n},{m} @@",
        "-    {a} = {n}",
        "+    {a} = {m}",
        " {b}({c})",
    ),
}
INTRODUCTIONS = Frames(
    """
what does this do?;fix this:;explain this code;why does this not work?;can you run this?;here is my code:;what is wrong (here|with this)?;please review:;run this;is this correct?;I wrote this:;how do I (fix|run) this?
look at this:;this is my (code|program|script|function):;help me with this;what is the output of this?;refactor this please;I get an error here:;translate this to Go:;check this
""",
    shared=True,
)


def snippet(rng: Random, kind: str) -> str:
    """Some lines of code."""
    names = {key: name(rng) for key in "abc"}
    lines = []
    for _ in range(one(rng, (1, 1, 2, 3, 4, 6, 10, 18))):
        if rng.random() < 0.4:
            names[one(rng, "abc")] = name(rng)
        slots = {**names, **{key.upper(): value.title().replace("_", "") for key, value in names.items()}}
        lines.append(one(rng, LINES[kind]).format(n=number(rng), m=number(rng), **slots))
    return "\n".join(lines) if len(lines) > 1 or len(lines[0]) > 4 else snippet(rng, kind)


KINDS = list(LINES)


def code(source: Source, advert: bool) -> Turn:
    """A piece of code."""
    rng = source.rng
    text = snippet(rng, one(rng, KINDS))
    if rng.random() < 0.2:
        text = f"```{one(rng, ('', 'python', 'js', 'c', 'sh'))}\n{text}\n```"
    text = introduced(source, text)
    more, told = ending(advert)
    return Turn(
        text,
        f"Code. I cannot run it.{told}",
        f"That looks like code. I cannot run or explain it.{more}",
        "code",
    )


def introduced(source: Source, text: str) -> str:
    """What is pasted, now and then with a question before or after it."""
    rng = source.rng
    chance = rng.random()
    if chance > 0.4:
        return text
    words = INTRODUCTIONS.draw(source)
    words = words if rng.random() < 0.5 else words[:1].upper() + words[1:]
    joint = one(rng, ("\n", "\n", "\n\n", " "))
    return words + joint + text if chance < 0.28 else text + joint + words


def value(rng: Random, depth: int) -> Any:
    """A JSON value."""
    way = rng.random()
    if depth and way < 0.35:
        return {name(rng): value(rng, depth - 1) for _ in range(1 + int(rng.random() * 4))}
    if depth and way < 0.5:
        return [value(rng, depth - 1) for _ in range(int(rng.random() * 4))]
    return one(rng, (int(number(rng)), one(rng, w.NAMES), True, None, thing(rng), 0.5, one(rng, w.PLACES)))


def markup(rng: Random) -> str:
    """HTML or XML."""
    tags = (
        "div",
        "p",
        "span",
        "h1",
        "ul",
        "li",
        "table",
        "tr",
        "td",
        "a",
        "body",
        "html",
        "item",
        "note",
        name(rng),
    )
    found = one(rng, w.NOUNS)
    for _ in range(one(rng, (1, 2, 3, 5))):
        tag = one(rng, tags)
        attribute = one(
            rng,
            ("", "", f' class="{name(rng)}"', f' id="{name(rng)}"', f' href="https://{invented(rng)}.com"'),
        )
        found = f"<{tag}{attribute}>{one(rng, ('', one(rng, w.NOUNS)))}{found}</{tag}>"
        if rng.random() < 0.2:
            found += one(rng, ("<br>", "<br/>", "<hr>", f'<img src="{name(rng)}.png">'))
    return one(rng, ("", "", "<!DOCTYPE html>\n", '<?xml version="1.0"?>\n')) + found


def stamp(rng: Random) -> str:
    day = f"20{20 + int(rng.random() * 10)}-{1 + int(rng.random() * 12):02}-{1 + int(rng.random() * 28):02}"
    return f"{day}{one(rng, (' ', 'T'))}{int(rng.random() * 24):02}:{int(rng.random() * 60):02}:{int(rng.random() * 60):02}"


def log(rng: Random) -> str:
    """Lines of a log."""
    level = one(rng, ("INFO", "WARN", "ERROR", "DEBUG", "info", "error"))
    return "\n".join(
        f"{one(rng, ('', '['))}{stamp(rng)}{one(rng, ('', ']', 'Z', ',123'))} {level} {name(rng)}{one(rng, (':', ' -', f'[{number(rng)}]:'))} "
        f"{one(rng, w.ADJECTIVES)} {one(rng, w.NOUNS)} {one(rng, ('started', 'failed', 'closed', 'timed out', 'not found', 'ok', 'retry'))} {number(rng)}"
        for _ in range(one(rng, (1, 2, 3, 5, 9)))
    )


def trace(rng: Random) -> str:
    """An error message of a program."""
    kind = one(
        rng,
        (
            "ValueError",
            "TypeError",
            "KeyError",
            "IndexError",
            "RuntimeError",
            "FileNotFoundError",
            "NullPointerException",
            "ReferenceError",
        ),
    )
    message = f"{kind}: {one(rng, w.ADJECTIVES)} {one(rng, w.NOUNS)} {one(rng, ('is not defined', 'not found', 'out of range', 'is null', 'failed'))}"
    way = rng.random()
    if way < 0.5:
        frames = "".join(
            f'  File "{name(rng)}.py", line {number(rng)}, in {name(rng)}\n    {name(rng)}({number(rng)})\n'
            for _ in range(1 + int(rng.random() * 4))
        )
        return f"Traceback (most recent call last):\n{frames}{message}"
    if way < 0.7:
        return f"error[E0{number(rng)}]: {message}\n --> src/{name(rng)}.rs:{number(rng)}:{number(rng)}"
    if way < 0.85:
        return message + "".join(
            f"\n    at {name(rng)}.{name(rng)}({name(rng)}.js:{number(rng)})"
            for _ in range(1 + int(rng.random() * 4))
        )
    return f"{name(rng)}.c:{number(rng)}:{number(rng)}: error: '{name(rng)}' undeclared\nmake: *** [{name(rng)}] Error {1 + int(rng.random() * 3)}"


def table(rng: Random) -> str:
    """CSV or a Markdown table."""
    sign = one(rng, (",", ",", ";", "\t", " | "))
    columns = 2 + int(rng.random() * 4)
    rows = [sign.join(name(rng) for _ in range(columns))]
    for _ in range(one(rng, (1, 2, 4, 8))):
        rows.append(
            sign.join(
                one(rng, (number(rng), one(rng, w.NAMES), one(rng, w.PLACES), one(rng, w.COLOURS)))
                for _ in range(columns)
            )
        )
    return "\n".join(f"| {row} |" if sign == " | " else row for row in rows)


def formula(rng: Random) -> str:
    """Mathematics, as it is typed or in LaTeX."""
    x, y, n = one(rng, "xyztabn"), one(rng, "xyzabck"), number(rng)
    parts = (
        f"\\frac{{{x}}}{{{y}}}",
        f"\\int_0^{{{n}}} {x}^{one(rng, '234')} d{x}",
        f"{x}^2 + {y}^2 = {n}",
        f"\\sum_{{{x}=1}}^{{{n}}} {x}",
        f"f({x}) = {one(rng, '23456')}{x}^{one(rng, '23')} - {y}",
        f"\\sqrt{{{x} + {n}}}",
        f"{x} \\in \\mathbb{{R}}",
        f"∫ {x} d{x}",
        f"∂{x}/∂{y} = {n}",
        f"lim {x}→∞ 1/{x}",
        f"sin({x}) + cos({y}) = {n}",
        f"∀{x} ∃{y}: {x} < {y}",
        "E = mc^2",
    )
    found = one(rng, (" ", ", ", "\n")).join(one(rng, parts) for _ in range(one(rng, (1, 2, 3))))
    return f"${found}$" if rng.random() < 0.3 else found


def notes(rng: Random) -> str:
    """Markdown."""
    lines = [f"{'#' * (1 + int(rng.random() * 3))} {one(rng, w.ADJECTIVES).title()} {one(rng, w.NOUNS)}"]
    for _ in range(2 + int(rng.random() * 6)):
        start = one(rng, ("- ", "* ", "1. ", "- [ ] ", "- [x] ", "> ", "## ", "**"))
        text = f"{one(rng, w.ADJECTIVES)} {one(rng, w.NOUNS)}"
        lines.append(f"{start}{text}{'**' if start == '**' else ''}")
    return "\n".join(lines)


DATA: tuple[tuple[str, Callable[[Random], str]], ...] = (
    (
        "JSON",
        lambda rng: json.dumps(
            {name(rng): value(rng, 2) for _ in range(1 + int(rng.random() * 4))},
            indent=one(rng, (None, None, 2)),
        ),
    ),
    ("HTML or XML", markup),
    ("a log", log),
    ("an error message", trace),
    ("a table", table),
    ("a formula", formula),
    ("notes", notes),
    (
        "settings",
        lambda rng: "\n".join(
            f"{name(rng)}{one(rng, (': ', ' = ', '='))}{one(rng, (number(rng), name(rng), 'true', 'false'))}"
            for _ in range(3 + int(rng.random() * 6))
        ),
    ),
)


def data(source: Source, advert: bool) -> Turn:
    """Something pasted that is no code: JSON, HTML, a log, a table."""
    rng = source.rng
    label, make = one(rng, DATA)
    text = introduced(source, make(rng)) if rng.random() < 0.6 else make(rng)
    more, told = ending(advert)
    return Turn(
        text,
        f"Pasted: {label}. Too hard for me.{told}",
        f"That looks like {label}. I cannot work with it.{more}",
        "data",
    )


LINK_WORDS = Frames(
    """
[u];[u];[u];open [u];look at [u];what is (at|on) [u]?;can you (open|read|visit|see) [u]?;summarize [u];read this: [u];have you seen [u]?;go to [u];please (read|check|open) [u];what does [u] say?;is [u] safe?;here: [u];download [u]
""",
    shared=True,
)


def link(source: Source, advert: bool) -> Turn:
    """A link, which pocket cannot open."""
    rng = source.rng
    host = (
        one(rng, ("www.", "", "", "docs."))
        + one(rng, (invented(rng), one(rng, w.NOUNS)))
        + one(rng, (".com", ".org", ".net", ".de", ".io", ".hu", ".co.uk"))
    )
    path = "".join(f"/{name(rng)}" for _ in range(int(rng.random() * 4))) + one(
        rng, ("", "", "", f"?{name(rng)}={number(rng)}", ".html", "/", f"#{name(rng)}")
    )
    text = LINK_WORDS.draw(source)
    text = text if rng.random() < 0.5 else text[:1].upper() + text[1:]
    address = (
        one(rng, ("https://", "https://", "http://", "" if host.startswith("www") else "https://"))
        + host
        + path
    )
    return Turn(
        text.replace("[u]", address),
        "A link. I cannot open it.",
        "I cannot open links: I run alone on your machine.",
        "link",
    )


# Long texts.
SENTENCES = Frames(
    """
The [a] [n] (stood|lay|waited|slept|stopped|broke|turned) (near|behind|under|beside) the [m].;(Once|Later|Then|Suddenly|After a while), a [a] [n] (came|went|walked|fell) (into|out of|over) the [m].;Nobody (knew|saw|heard) (why|where|how) the [n] (was|went|had gone).
It (was|is) (well |)known that the [n] (of|from) the [m] (is|was) [a].;In (the old days|[y]|the beginning|winter|most towns), (every|each) [n] had (a|its own) [m].;The (report|book|study|author) (says|shows|claims) that [n]s and [m]s are (often|rarely|always) [a].
(However|Therefore|In addition|For example|On the other hand), the [n] (must|can|should|may) (follow|replace|support|contain) the [m].;There (are|were) (three|many|several|few) [n]s in the [a] [m].;We (found|measured|compared|counted) [k] [n]s and [k] [m]s.
"The [n] is [a]," (he|she) (said|replied|thought), "but the [m] is not."; People (say|believe|think) that a [n] (brings|needs|means) a [a] [m].;The [m] (opens|closes|begins|ends) (at nine|in spring|on Sundays|every year).;This (chapter|section|part|page) (describes|explains|covers) the [n] and its [m].
(He|She|They) (took|found|bought|lost) the [a] [n] and (left|sold|kept|hid) the [m].;Each [n] is (followed|made|seen|used) by the [m], which is [a].;(Without|With) a [n], the [m] (would|will) not (work|last|matter).;Section [k]: the [n] shall not (touch|enter|leave) the [m].
""",
)
ASKED = Frames(
    """
summarize this:;what is this about?;can you summarize (this|the text)?;translate this (text|into French):;please read this:;TL;what do you think of this?;shorten this (text|for me):;explain this text;what is the main point?;who wrote this?;make it shorter;give me the key points:;is this text good?;proofread this:;here is a text:;read this and tell me what it says:;what should I answer to this?
""",
    shared=True,
)


def sentences(source: Source, letters: int) -> str:
    """English sentences that mean little, up to a length."""
    rng = source.rng
    found: list[str] = []
    size = 0
    while size < letters:
        text = SENTENCES.draw(source)
        for slot, pool in (("a", w.ADJECTIVES), ("n", w.NOUNS), ("m", w.NOUNS)):
            if f"[{slot}]" in text:
                text = text.replace(f"[{slot}]", one(rng, pool))
        text = text.replace("[k]", number(rng)).replace("[y]", str(1200 + int(rng.random() * 820)))
        found.append(text)
        size += len(text) + 1
    text = " ".join(found)
    return text if rng.random() < 0.7 else text.replace(". ", ".\n\n", 1 + int(rng.random() * 8))


def long_text(source: Source, advert: bool) -> Turn:
    """A long text, with a question or none."""
    rng = source.rng
    letters = 450 + int(rng.random() * one(rng, (300, 400, 600, 1000, 2200)))
    way = rng.random()
    if way < 0.12:
        text = " ".join(invented(rng) + one(rng, ("", "", "", "", ",", ".")) for _ in range(letters // 7))
        return Turn(text, "Noise. I ask for other words.", AGAIN, "noise")
    if way < 0.2:
        text = " ".join(one(rng, w.NOUNS) for _ in range(letters // 6))
        return Turn(text, "Noise. I ask for other words.", AGAIN, "noise")
    text = sentences(source, letters)
    if way < 0.55:
        # As other turns answer lines that are not about the user.
        return Turn(text, "Read: nothing about you.", "Thank you for telling me. I have read it.", "long")
    words = ASKED.draw(source)
    words = words[:1].upper() + words[1:]
    before, joint = rng.random() < 0.7, one(rng, (" ", "\n", "\n\n"))
    more, told = ending(advert)
    return Turn(
        f"{words}{joint}{text}" if before else f"{text}{joint}{words}",
        f"A long text and a request. Too hard for me.{told}",
        f"That is a long text, too much for me. Tell me the main thing in one sentence.{more}",
        "long",
    )


MAKERS: dict[str, tuple[float, Callable[[Source, bool], Turn]]] = {
    "emoji": (2, emoji),
    "foreign script": (1, foreign),
    "noise": (14, nonsense),
    "question marks": (0.3, question_marks),
    "bare number": (0.5, bare_number),
    "key": (0.5, key),
    "code": (2, code),
    "data": (2, data),
    "link": (1, link),
    "long text": (0.8, long_text),
}
