"""Slips of typing: common words misspelled or shortened, stops left out. Values stay as they were meant.

What is misspelled as nobody foresees is repeated as it was typed.
"""

from __future__ import annotations

import re
from random import Random

# Only these words are ever changed, so that a name or a code never is.
SHORT = """
what wat waht wht;what's wats whats;where were wher whre;when wen whne;who woh;which wich whch;how hwo
is iz si;are r ar;you u yuo;your ur yuor;my ym mi;the teh th da;have hav ahve hve;has hsa;had hda
name nam naem nmae;called caled calld;live liv lvie;remember remeber rember remmember;number nr numbr nubmer
because cuz bc becuase cos;and adn nd an;tell tel tlel;please plz pls plese;with wiht w;does dose dos deos
do od;don't dont;doesn't doesnt;I'm im;it's its;that taht tht;this thsi tis;favourite fav favrite favorit
favorite fav favrite;birthday bday brithday;work wrok wrk;know kno knw;people ppl;about abt abuot;before b4
like liek lik;from frm form;there ther;really realy rly;moved mooved;again agian agen;much mutch;many meny
should shoud;would woud;colour colr coulour;color colr;old odl;forget forgt;forgot frogot;said sayd siad
think thnk;want wnat;need ned;also alos;only olny;never nevr;always allways;today tday tody
tomorrow tmrw tomorow;yesterday yesturday;now nwo;just jsut;still stil;list lsit;things thigns;first frist
say sya;can cna;could coud;going goin;they thye tehy;their thier;he hee;she hse;not nto;but btu
for fro;of fo;in ni
""".strip().replace("\n", ";")
# What would say something else.
MISLEADING = {"were", "form", "no", "an", "its", "si", "dose", "w", "hee", "da"}
FORMS = {
    entry.split(" ")[0].lower(): [form for form in entry.split(" ")[1:] if form not in MISLEADING]
    for entry in SHORT.split(";")
}
WORD = re.compile(r"(?<![\w'@./-])[A-Za-z']+(?![\w'@/-])")
STOP = re.compile(r"(?<=\w)[.,;] (?=(?:i|my|it|he|she|the|we|and|but|his|her) )")


def words_of(text: str) -> set[str]:
    """The words of a text in small letters."""
    return set(re.findall(r"[a-z']+", text.lower()))


def slipped(rng: Random, text: str, rate: float, values: set[str]) -> str:
    """The text with a share of its common words slipped, but for those that are part of a value."""

    def change(match: re.Match[str]) -> str:
        word = match[0]
        forms = FORMS.get(word.lower())
        if not forms or word.lower() in values or rng.random() >= rate:
            return word
        form = rng.choice(forms)
        return form.capitalize() if word[0].isupper() and word != "I'm" else form

    text = WORD.sub(change, text)
    return STOP.sub(" ", text) if text.islower() and rng.random() < rate else text


# The key beside.
NEIGHBOURS = {
    "a": "s",
    "e": "r",
    "i": "o",
    "o": "p",
    "u": "y",
    "t": "r",
    "n": "m",
    "s": "d",
    "r": "t",
    "h": "j",
    "l": "k",
}


def mistyped(rng: Random, word: str) -> str:
    """A word of three letters or more with one of them left out, swapped, doubled or missed."""
    at = rng.randrange(1, len(word) - 1)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    slips = (after, after[0] + letter + after[1:], letter * 2 + after, NEIGHBOURS.get(letter, "e") + after)
    return before + rng.choice(slips)


def careless(rng: Random, text: str, kept: set[str], share: float = 0.12) -> str:
    """The text with a share of its longer words mistyped by a letter, but for slots and what is `kept`."""

    def change(match: re.Match[str]) -> str:
        word = match[0]
        if word[0] == "[" or word.lower() in kept or rng.random() >= share:
            return word
        return mistyped(rng, word)

    return re.sub(r"\[[^\[\]]*\]|(?<![\w'])[A-Za-z]{4,}(?![\w'])", change, text)
