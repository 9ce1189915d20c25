"""Reads the dialogues written by hand, and says whether a reply is what one expects."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from training.pocket.loops import repeated

HELD_OUT: Path = Path(__file__).parent / "held_out.txt"
# Held out until their wrong replies were read. Generators may be tuned to them.
DEVELOPMENT: Path = Path(__file__).parent / "development.txt"

# What names in brackets stand for: any of these will do.
UNKNOWN = (
    "not told | haven't told | hasn't told | never told | didn't tell | did not tell | not said | "
    "haven't said | didn't say | did not say | never said | not mentioned | haven't mentioned | "
    "didn't mention | never mentioned | don't know | do not know | don't yet know | do not yet know | "
    "not know | no idea | not yet told | not sure | tell me"
)
HONEST = (
    "can't | cannot | can not | couldn't | could not | unable | not able | don't know | do not know | "
    "no idea | don't have | do not have | have no | haven't learn* | not learn* | never learn* | tiny "
    "| small* | only | not sure | beyond me | too big | too hard | too large | too much | limited | "
    "not something | not good at | bigger model | larger model | wish I | leave that | not for me"
)
FOREIGN = (
    "English* | language* | speak* | understand* | idioma* | español | inglés | inglês | français | "
    "anglais | Sprache* | Englisch | Deutsch | lingua* | italiano | inglese | 中文 | 英文 | 英语 | 英語* | "
    "영어* | Engels* | engelsk* | angiels* | anglič* | anglicky | angol* | englez* | engleski | "
    "ingiliz* | İngiliz* | Inggris | *английск* | *англійськ* | αγγλικ* | *الإنجليزية | אנגלית | "
    "अंग्रेज़ी | tiếng Anh | Kiingereza | Saesneg"
)
NAMED = {"[unknown]": UNKNOWN, "[honest]": HONEST, "[foreign]": FOREIGN}

# A reply that fits anything else: it says something, and takes the message neither for a question about a
# fact nor for a sum.
FITS = "[fits]"
MISTAKEN = re.compile(r"\b(not|n't|never) (yet )?(told|tell) me\b|= ?-?\d")


@dataclass(frozen=True)
class Turn:
    """What is typed. The reply must hold an alternative of each part of `wanted`, and nothing `absent`."""

    typed: str
    wanted: tuple[tuple[str, ...], ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def checked(self) -> bool:
        """Whether anything is expected of the reply."""
        return bool(self.wanted or self.absent)

    @property
    def expected(self) -> str:
        """The expectation as it is written."""
        return " & ".join([" | ".join(part) for part in self.wanted] + [f"!{text}" for text in self.absent])

    def right(self, reply: str) -> bool:
        """Whether `reply` is what one expects."""
        said = plain(reply)
        wanted = all(any(holds(said, text) for text in part) for part in self.wanted)
        return wanted and not any(holds(said, text) for text in self.absent)


@dataclass(frozen=True)
class Dialogue:
    """A conversation, and the heading that it stands under."""

    kind: str
    turns: tuple[Turn, ...]


def dialogues(text: str) -> list[Dialogue]:
    """The dialogues of a file: `## kind`, then dialogues of a turn a line with a blank line between them.

    What is before the first kind is for those who read the file.
    """
    read = []
    for section in text.split("\n## ")[1:]:
        kind, *blocks = section.split("\n\n")
        read += [
            Dialogue(kind, tuple(map(turn, block.strip().splitlines()))) for block in blocks if block.strip()
        ]
    return read


def turn(line: str) -> Turn:
    r"""`typed => a | b & !c`: a or b must be in the reply, c must not. `\n` is a line break.

    `*` stands for anything, and what neither begins nor ends with it is found as whole words only.
    `[unknown]`, `[honest]`, `[foreign]` and `[fits]` stand for all that is as good.
    """
    typed, arrow, expected = line.rpartition(" => ")
    if not arrow:
        typed, expected = line, ""
    parts = [part.strip() for part in expected.split(" & ") if part.strip()]
    wanted = [part.split(" | ") for part in parts if not part.startswith("!")]
    return Turn(
        typed.replace("\\n", "\n"),
        tuple(tuple(text.strip() for text in part) for part in wanted),
        tuple(part[1:] for part in parts if part.startswith("!")),
    )


def plain(text: str) -> str:
    """`text` without the differences that no reader minds: case, curly quotes, kinds of spaces, bold."""
    text = unicodedata.normalize("NFC", text).translate({0x2019: "'", 0x2018: "'", 0x201C: '"', 0x201D: '"'})
    return " ".join(text.replace("**", "").casefold().split())


def holds(said: str, wanted: str) -> bool:
    """Whether a plain reply holds one alternative."""
    if wanted == FITS:
        return any(map(str.isprintable, said)) and not MISTAKEN.search(said) and repeated(said) is None
    if wanted in NAMED:
        return any(holds(said, text.strip()) for text in NAMED[wanted].split(" | "))
    pattern = ".*".join(map(re.escape, plain(wanted).split("*")))
    before = "(?<![a-z0-9])" if wanted[0].isascii() and wanted[0].isalnum() else ""
    after = "(?![a-z0-9])" if wanted[-1].isascii() and wanted[-1].isalnum() else ""
    return re.search(before + pattern + after, said) is not None
