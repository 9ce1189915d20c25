"""Says what a user tells back to them: word by word, but for "I", "my" and the like.

A tiny model can copy, it cannot sum up: in its own words a sentence unlike those that it learnt becomes
nonsense, which it believes from then on.
"""

from __future__ import annotations

import re

from training.pocket import words as w
from training.pocket.phrases import capital

GREETINGS = "hi|hiya|hey|hello|yo|howdy|moin|servus|greetings|good (?:morning|evening|afternoon|day)"
FILLERS = "ok|okay|so(?! far)|well|oh|um|btw|by the way|fyi|also|anyway|listen|news|haha|lol|ugh|and|but"
# Words that are an opening only where a mark follows: "no milk" is none.
MARKED = (
    "yes|yeah|yep|no|nope|cool|nice|great|thanks|thank you|thx|perfect|hm+|right|alright|wow|sure|fine|good"
)
REQUESTS = (
    "guess what|one more thing|just so you know|please|remember|keep in mind|note|note down|write down|"
    "for the record|believe me|trust me|mind you|let me (?:add|say|tell you)|you (?:see|know),"
)
OPENING = re.compile(
    rf"\A(?:\b(?:(?:{GREETINGS})(?: there)?|{FILLERS}|(?:{REQUESTS})(?: that)?)(?:\s*[,!.:;–—-]+\s*|\s+)|"
    rf"\b(?:{MARKED})\s*[,!.:;…–—]+\s*)+",
    re.IGNORECASE,
)
CLOSING = re.compile(
    r"(?:\s*(?::\(|:\)|:D|:P|;\)|\blo+l|\b(?:h[aei]|j[ae]){2,}h?|\blmao|\bxd|<3|"
    r"(?:please )?remember (?:that|this|it)|"
    r"(?:please )?(?:do not|don'?t) forget(?: it| that| this)?|keep (?:that|this|it) in mind)|[\s.!,;…])+$",
    re.IGNORECASE,
)
# Said in passing, to nobody.
PASSING = re.compile(
    r"(?:,? ?\b(?:as )?(?:you|u|ya) (?:know|see)\b(?! (?:me|my|us|our|him|her)\b),?|\blet me tell you:?)",
    re.IGNORECASE,
)
SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
ADDRESSED = re.compile(r"\b(?:you|your|yours|yourself|u|ur|you're|youre)\b|\?", re.IGNORECASE)
MINE = {
    "i": "you",
    "me": "you",
    "we": "you",
    "us": "you",
    "my": "your",
    "our": "your",
    "mine": "yours",
    "ours": "yours",
    "myself": "yourself",
    "ourselves": "yourselves",
    "i'm": "you are",
    "im": "you are",
    "we're": "you are",
    "i've": "you have",
    "ive": "you have",
    "we've": "you have",
    "i'll": "you will",
    "we'll": "you will",
    "i'd": "you would",
    "we'd": "you would",
}
BARE = "dont doesnt didnt cant couldnt wont wouldnt isnt arent werent wasnt hasnt havent hadnt".split()
CONTRACTED = {"thats": "that's", "whats": "what's"} | {word: f"{word[:-1]}'t" for word in BARE}
AFTER_YOU = {"am": "are", "was": "were", "wasn't": "weren't", "wasnt": "weren't"}
SENTENCE = re.compile(r"[.!] $")
TOKEN = re.compile(r"\[[^\[\]]*\]|[^\W\d_]+(?:['’][^\W\d_]+)?|[\W\d_]")
# Words that have a capital only where a sentence begins.
COMMON = frozenset(
    """
    i we my our the a an this these that those there it its it's he she they his her their in on at for from
    since until after before when while because if with without of to by as not no never only just still every
    each both all some any most many two three four five six seven eight nine ten last next today tonight
    tomorrow yesterday now once got moved i'm i've i'll i'd we're we've im about mum dad
    """.split()
)
PROPER = frozenset(word.lower() for word in (*w.DAYS, *w.MONTHS)) | {"mr", "mrs", "ms", "dr", "aunt", "uncle"}
MOST = 60
THINKING = "They tell me something: I say it back."


def acknowledged(text: str, thinking: str, reply: str, names: bool = True) -> tuple[str, str]:
    """The thinking and the reply to a message that tells: it is said back, or else only kept."""
    if "Got it: " not in reply:
        return thinking, reply
    before = reply.partition("Got it: ")[0]
    if too_long(text):
        return THINKING, f"{before}Got it, I keep all of that in mind."
    said = said_back(text, names)
    return THINKING, f"{before}Got it: {said}." if said else f"{before}Got it, I keep that in mind."


def said_back(text: str, names: bool = True) -> str | None:
    """The message as it is said to who typed it, without its opening and its end.

    None where it asks or addresses, or is longer than MOST words. It may begin with one of the `names`
    that keep their capital.
    """
    text = bare(text.strip())
    if addresses(text):
        text = bare(unaddressed(text))
    if not text or addresses(text) or too_long(text):
        return None
    first = TOKEN.match(text)
    word = first[0] if first else ""
    sentence = (word[1:].islower() or len(word) == 1) and word.lower().split("'")[0] not in PROPER
    if sentence and (word.lower() in COMMON or not names):
        text = word.lower() + text[len(word) :]
    return turned(text.replace("\n", "; "))


def bare(text: str) -> str:
    """The text without its opening and its end."""
    return CLOSING.sub("", OPENING.sub("", text, count=1))


def addresses(text: str) -> bool:
    """Whether a text asks or says "you"; a slot's name is no word of it."""
    return bool(ADDRESSED.search(re.sub(r"\[[^\[\]]*\]", "", text)))


def unaddressed(text: str) -> str:
    """The text without what is said in passing, and without short sentences that only address or ask."""
    sentences = SENTENCES.split(PASSING.sub("", text).lstrip(" ,:;"))
    return " ".join(each for each in sentences if not (addresses(each) and tells_nothing(each)))


def tells_nothing(sentence: str) -> bool:
    """Whether a sentence is short, and neither of what is the user's nor with a slot."""
    return len(sentence.split()) < 7 and not re.search(r"\[|\b(?:my|our)\b", sentence, re.IGNORECASE)


def turned(text: str) -> str:
    """A text of "I" and "my" as one of "you" and "your"."""
    parts = TOKEN.findall(text)
    out: list[str] = []
    subject = ""
    for place, part in enumerate(parts):
        word = part.lower().replace("’", "'")
        before = parts[place - 1][-1] if place else " "
        after = parts[place + 1][0] if place + 1 < len(parts) else " "
        following = parts[place + 2].lower() if place + 2 < len(parts) else ""
        # "me" in an address or a code is no pronoun, "12 am" no verb and "US" no pronoun.
        whole = before in " (\"'" and after in " ,.;:!)\"'" and part != "US"
        if whole and word in MINE:
            subject = MINE[word] if word in ("i", "we") else ""
            out.append(capital(MINE[word]) if SENTENCE.search("".join(out[-2:])) else MINE[word])
        elif whole and word in AFTER_YOU and (subject == "you" or following in ("i", "we")):
            out.append(AFTER_YOU[word])
        elif whole and word in CONTRACTED:
            out.append(CONTRACTED[word])
        else:
            out.append(part)
        if not part.isspace() and word not in MINE:
            subject = ""
    return "".join(out)


def too_long(text: str) -> bool:
    """Whether a message is only kept, not repeated."""
    return len(text.split()) > MOST
