"""Dialogues written by hand with slots in them, for the breadth of language that no grammar here makes.

The files in `written` are read line by line: `---` begins a dialogue, `@a/b = x/y | z/w` declares slots
that are drawn together, `>` lines are wordings of one message, `=` is the thinking and `<` the reply.
`(a|b)` in a wording is a choice, `[name]` a slot: a declared one or a kind of value, with a digit behind
it for another of the kind. A message whose thinking begins with "Asked: " changes nothing and may be left
out, moved among its like, or asked again, unless `=~` binds it to the one before.

    python -m training.pocket.written FILE...     says what is malformed, and shows a few as they come out
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from random import Random
from zlib import crc32

from training.pocket import words as w
from training.pocket.advert import says_advert
from training.pocket.passages import content
from training.pocket.phrases import ALTERNATIVES, capital, expand, fill, words_in, yours
from training.pocket.reworded import GENERAL, STRICT, reworded
from training.pocket.said_back import THINKING, acknowledged, turned
from training.pocket.slips import careless, slipped, words_of
from training.pocket.turns import Turn
from training.pocket.values import SOURCES, Source

FOLDER = Path(__file__).parent / "written"
SLOT = re.compile(r"\[([^\[\]]*)\]")
# Questions about the conversation itself: such a dialogue stands alone, for their answers tell all of it.
ALONE = re.compile(
    r"(first|last|previous|latest) (message|thing|words|question)|"
    r"\ball (that )?(I|i|was|you|they|facts|of it)\b|\beverything\b|so far|\bsummar|"
    r"what (I|you) (was|were|have been) told|what is known|"
    r"what I (know|said|just said)|my (last|previous|first) (answer|reply)|"
    r"how many (questions|messages|things did)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Exchange:
    """One message in several wordings, with its thinking and its reply; `bound` to the exchange before it."""

    wordings: tuple[str, ...]
    thinking: str
    reply: str
    bound: bool = False
    line: int = 0

    @property
    def asks(self) -> bool:
        """Whether it only asks, so that nothing that follows depends on it."""
        return self.thinking.startswith("Asked: ")

    @property
    def tells(self) -> bool:
        """Whether it tells something that must be kept."""
        return self.thinking.startswith(("New", "Changed", "Taken back"))


@dataclass(frozen=True)
class Written:
    """A dialogue, and the slots that it declares: their names, and the values that they are drawn from."""

    declared: tuple[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], ...]
    exchanges: tuple[Exchange, ...]
    line: int

    @cached_property
    def alone(self) -> bool:
        """Whether it asks for all that was said, or for its place, so that nothing may stand before it."""
        return any(ALONE.search(each.thinking) for each in self.exchanges)

    @cached_property
    def tells(self) -> bool:
        """Whether anything is told in it that must be kept."""
        return any(each.tells for each in self.exchanges)

    @cached_property
    def lacks(self) -> bool:
        """Whether something is asked for that was never told."""
        return any(each.thinking.endswith("Not told.") for each in self.exchanges)

    @cached_property
    def texts(self) -> list[str]:
        """All that is said or thought in it, before slots are filled."""
        return [text for each in self.exchanges for text in (*each.wordings, each.thinking, each.reply)]

    @cached_property
    def slots(self) -> list[str]:
        """The slots that it names, declared or not, and those in declared values."""
        return slots_of(
            [*self.texts, *(text for _, values in self.declared for each in values for text in each)]
        )

    @cached_property
    def theirs(self) -> list[str]:
        """Declared slots whose "my" is "your" when it is said back: those that no other reply repeats."""
        others = slots_of(
            [
                text
                for each in self.exchanges
                if each.thinking[:3] != "New"
                for text in (each.thinking, each.reply)
            ]
        )
        return [name for names, _ in self.declared for name in names if name not in others]

    @cached_property
    def concludes(self) -> bool:
        """Whether an answer follows from what its words mean."""
        return any(re.search(r"\. So (?!yes\.|no\.)", each.thinking) for each in self.exchanges)

    @cached_property
    def paraphrases(self) -> bool:
        """Whether most questions share no word with what is told: only the words' meanings join them."""
        shares = self.shared(frozenset())
        return sum(share == 0 for share in shares) > len(shares) / 2

    @cached_property
    def varies(self) -> bool:
        """Whether most questions share a word with fewer than half of the wordings of any one telling."""
        shares = self.shared(KEPT)
        return sum(share < 0.5 for share in shares) > len(shares) / 2

    def shared(self, small: frozenset[str]) -> list[float]:
        """For each question, in how much of a telling's wordings a word of it stands, but for small ones."""

        def parts(one: Exchange) -> list[set[str]]:
            return [set(plain_words(each)) - small for each in one.wordings]

        tellings = [parts(one) for one in self.exchanges if one.tells]
        return [
            max((1 - sum(map(asked.isdisjoint, told)) / len(told) for told in tellings), default=0)
            for one in self.exchanges
            if one.asks
            for asked in parts(one)
        ]

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The words that it always has; no name in it should be one of them."""
        return frozenset(words_in(" ".join(self.texts)))


class MalformedError(ValueError):
    """A written file cannot be read; the message says where and why."""


def parsed(text: str) -> list[Written]:
    """The dialogues of a file."""
    found: list[Written] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line == "---":
            found.append(Written((), (), number))
            wordings: list[str] = []
            thinking, bound = "", False
        elif not line or line.startswith("# "):
            continue
        elif not found:
            raise MalformedError(f"line {number}: before the first dialogue: {line}")
        elif line[0] == "@":
            names, _, values = line[1:].partition("=")
            keys = tuple(name.strip() for name in names.split("/"))
            drawn = tuple(
                tuple(part.strip() for part in value.split("/")) if len(keys) > 1 else (value.strip(),)
                for value in values.split("|")
            )
            if any(len(value) != len(keys) or not all(value) for value in drawn):
                raise MalformedError(f"line {number}: names and values differ in number: {line}")
            found[-1] = Written((*found[-1].declared, (keys, drawn)), found[-1].exchanges, found[-1].line)
        elif line[0] == ">":
            if thinking:
                raise MalformedError(f"line {number}: no reply before this")
            wordings.append(line[1:].strip().replace("\\n", "\n"))
        elif line[0] == "=":
            if thinking or not wordings:
                raise MalformedError(f"line {number}: a thinking without a message")
            bound = line.startswith("=~")
            thinking = line.removeprefix("=~" if bound else "=").strip()
        elif line[0] == "<":
            if not thinking:
                raise MalformedError(f"line {number}: a reply without thinking")
            exchange = Exchange(
                tuple(wordings), thinking, line[1:].strip().replace("\\n", "\n"), bound, number
            )
            found[-1] = Written(found[-1].declared, (*found[-1].exchanges, exchange), found[-1].line)
            wordings, thinking, bound = [], "", False
        else:
            raise MalformedError(f"line {number}: neither of @ > = <: {line}")
    return found


# The share of questions for what was not told that are left out: authors ask more of them than people do.
UNASKED = 0.5
# How much more often dialogues are drawn in which nothing is told.
UNTOLD = 2.2
# The share of dialogues in which any word may be mistyped.
CARELESS = 0.08
WORD = re.compile(r"\[[^\[\]]*\]|[A-Za-z][A-Za-z'’-]*")
# Words whose place in a sentence no other word can take.
KEPT = frozenset(
    """
    yes not got now told asked called named have has had does did will would can could must should was
    were been being are they them their your you with from into than that this there where when what
    which who whose why how much many more most less least every each both none nobody nothing only
    again also after before never always often ever still just very quite rather really maybe well
    please need needs want wants like likes know knows think thinks says said tell tells give gives gave
    gets goes went make makes made take takes took come comes came keep keeps kept brings brought find
    found lost left sold bought went told moved live lives lived work works worked died born plays play
    owns eats drinks loves hates hate love note keep mind because until since while about over under
    between behind beside without year years old days weeks month months hours minutes times once twice
    first second third changed taken back asked noise parents folks gran granny nan kids siblings boss wife
    sorry actually correction scratch wait meant wrong hello thanks thank welcome guess listen okay
    last next left right one two three four five six seven eight nine ten eleven twelve
    """.split()
) | {word.lower() for word in (*w.DAYS, *w.MONTHS, *" ".join(w.PEOPLE).split())}
ENDINGS = ("ings", "ing", "ed", "ly", "ers", "er", "es", "s", "")


def plain_words(text: str) -> list[str]:
    """The words of a text in small letters, without its slots and short ones."""
    return [word.lower() for word in WORD.findall(text) if word[0] != "[" and len(word) > 3]


def ending(word: str) -> str:
    """How a word ends: what replaces it ends alike, so that most sentences stay English."""
    return next(each for each in ENDINGS if word.endswith(each))


@lru_cache(1)
def vocabulary() -> dict[str, list[str]]:
    """What dialogues tell, word by word, by the words' endings."""
    found: dict[str, list[str]] = {each: [] for each in ENDINGS}
    told = {
        word
        for one in library()[0]
        for each in one.exchanges
        if each.thinking.startswith("New")
        for word in plain_words(each.reply)
    }
    for word in sorted(told - KEPT):
        found[ending(word)].append(word)
    return found


def movable(typed: list[tuple[Exchange, str]]) -> list[str]:
    """Words that any other word may replace: wherever a reply has one, it repeats what was typed."""
    told: set[str] = set()
    guessed: set[str] = set()
    forms: dict[str, set[str]] = {}
    for exchange, wording in typed:
        for word in plain_words(f"{wording} {exchange.thinking} {exchange.reply}"):
            forms.setdefault(word[:4], set()).add(word)
        said = set(plain_words(wording))
        if not exchange.asks and not exchange.tells:
            # Help and small talk are the same whatever was told.
            guessed |= said | set(plain_words(exchange.reply))
            continue
        answer = set(plain_words(exchange.reply)) | set(
            plain_words(exchange.thinking.partition(" Told: ")[2])
        )
        told |= said if not exchange.asks else set()
        guessed |= answer - told
    # "Nun" stays where a nunnery does.
    related = {word for words_ in forms.values() if len(words_) > 1 for word in words_}
    return sorted(told - guessed - related - KEPT)


def moved(rng: Random, dialogue: Written, typed: list[tuple[Exchange, str]]) -> dict[str, str]:
    """Other words for some of the movable ones, so that what is said is repeated and not guessed."""
    # What is composed has no line, and words enough.
    if not dialogue.line or not dialogue.tells or dialogue.concludes or dialogue.paraphrases:
        return {}
    # Where questions use other words than the telling, a word replaced is a link that is cut.
    if rng.random() > (0.12 if dialogue.varies else 0.35):
        return {}
    share = rng.choice([0.15, 0.3, 0.6])
    return {word: rng.choice(vocabulary()[ending(word)]) for word in movable(typed) if rng.random() < share}


def replaced(text: str, other: dict[str, str]) -> str:
    """The text with words replaced, slots as they are."""
    if not other:
        return text

    def change(match: re.Match[str]) -> str:
        word = other.get(match[0].lower())
        if word is None:
            return match[0]
        return word.capitalize() if match[0][0].isupper() else word

    return WORD.sub(change, text)


def files() -> dict[str, list[Written]]:
    """The dialogues of each file, by its name."""
    return {
        path.stem: [each for each in parsed(path.read_text(encoding="utf-8")) if each.exchanges]
        for path in sorted(FOLDER.glob("*.txt"))
    }


def kept_aside(dialogue: Written) -> bool:
    """Whether a dialogue is never trained on, so that it can be asked in an evaluation: one in thirty."""
    return crc32(dialogue.exchanges[0].wordings[0].encode()) % 30 == 7


@lru_cache(1)
def library() -> tuple[tuple[Written, ...], tuple[float, ...]]:
    """All dialogues to learn from, with cumulative weights: those with more wordings are drawn more often.

    So are those in which nothing is told, of which there are fewer than people begin with.
    """
    found = [each for file in files().values() for each in file if not kept_aside(each)]
    return tuple(found), tuple(
        accumulate(
            sum(len(each.wordings) for each in one.exchanges) ** 0.5 * (1 if one.tells else UNTOLD)
            for one in found
        )
    )


def slots_of(texts: list[str]) -> list[str]:
    """The slots that texts name, in order, each once."""
    return list(dict.fromkeys(name for text in texts for name in SLOT.findall(text)))


def kind_of(slot: str) -> str:
    """The kind of value of a slot that is not declared."""
    return slot.rstrip("0123456789")


def value(source: Source, kind: str) -> str:
    """A value of a kind."""
    if kind == "count":
        return str(source.rng.randint(2, 12))
    if kind == "day":
        return source.rng.choice(w.DAYS)
    if kind == "month":
        return source.rng.choice(w.MONTHS)
    return source.draw(kind)


KINDS = {*SOURCES, "count", "day", "month"}


def drawn(source: Source, dialogue: Written) -> dict[str, str]:
    """Values for all slots of a dialogue, no two of which share a word."""
    slots: dict[str, str] = {}
    for keys, values in dialogue.declared:
        slots |= dict(zip(keys, source.rng.choice(values), strict=True))
    seen: set[str] = set()
    for name in dialogue.slots:
        if name in slots:
            continue
        for attempt in range(50):
            text = value(source, kind_of(name))
            words = {word for word in words_in(text) if len(word) > 2 or word.isdigit()}
            clash = words & seen or (
                attempt < 20 and kind_of(name) in ("name", "pet", "place") and words & dialogue.fixed
            )
            if text and not clash and not re.search(r"[\[\]\n]", text):
                break
        slots[name] = text
        seen |= words
    # Declared values may hold slots.
    return {name: fill(text, **slots) if "[" in text else text for name, text in slots.items()}


def rendered(
    source: Source, dialogue: Written, slips: float, reword: bool = False
) -> list[tuple[Exchange, Turn]]:
    """The dialogue as one user types it: a choice of its questions, in an order that its state allows.

    With `reword` some of what is asked is put in words that its author did not write.
    """
    rng = source.rng
    slots = drawn(source, dialogue)
    lower = rng.random() < 0.3
    if lower:
        slots = {name: text.lower() for name, text in slots.items()}
    bare, plain = rng.random() < 0.25, rng.random() < (0.5 if lower else 0.1)
    loud = not lower and rng.random() < 0.02
    if loud:
        own = {name for names, _ in dialogue.declared for name in names}
        slots = {name: text if name in own else text.upper() for name, text in slots.items()}
    typed = [
        (each, expand_lines(rng, rng.choice(each.wordings))) for each in ordered(rng, dialogue.exchanges)
    ]
    other = moved(rng, dialogue, typed)
    known = words_of(" ".join([*slots.values(), *other.values()]))
    hasty = rng.random() < CARELESS
    answers = (
        words_in(" ".join(f"{each.thinking} {each.reply}" for each, _ in typed if each.asks))
        if hasty
        else set()
    )
    told = content(" ".join(SLOT.sub("", text) for each, text in typed if each.tells))
    turns = []
    for exchange, text in typed:
        # Where words are moved, a synonym could be one of those that moved.
        if reword and not other and not exchange.tells:
            # A question must not get a word that something else was told in.
            text = reworded(rng, text, set(), STRICT if exchange.asks else GENERAL, told)
        wording = replaced(text, other)
        wording = careless(rng, wording, answers) if hasty else wording
        thinking, reply = replaced(exchange.thinking, other), replaced(exchange.reply, other)
        if thinking.startswith("New"):
            thinking, reply = acknowledged(wording, thinking, reply, names=False)
        if lower:
            wording = re.sub(
                r"\[[^\[\]]*\]|[^\[]+", lambda m: m[0] if m[0][0] == "[" else m[0].lower(), wording
            )
        if plain:
            wording = wording.replace("'", "")
        user = fill(wording, **slots)
        if bare and user[-1:] in ".?!" and user[-2:-1].isalnum():
            user = user[:-1]
        meant = user
        user = slipped(rng, user, slips, known) if slips else user
        user = user.upper() if loud or (exchange.asks and rng.random() < 0.01) else user
        # "Under my chair" is theirs when it is said back.
        said = {name: yours(text) if kind_of(name) == "spot" else text for name, text in slots.items()}
        if thinking == THINKING:
            said |= {name: turned(slots[name]) for name in dialogue.theirs}
        reply, thinking = fill(reply, **said), fill(thinking, **said)
        # A command, an address or a code keeps its first letter.
        first = reply.split(" ", 1)[0].rstrip(".,:;")
        reply = capital(reply) if first.replace("'", "").isalpha() and first != "chatcli" else reply
        turns.append(
            (exchange, Turn(user, thinking, reply, sort_of(exchange), meant=meant, bound=exchange.bound))
        )
    return turns


def expand_lines(rng: Random, pattern: str) -> str:
    """A reading of a pattern of several lines."""
    # A choice may hold a line break, so breaks are hidden from what tidies spaces.
    return re.sub(r" *\x00 *", "\n", expand(rng, pattern.replace("\n", "\x00"))).strip()


def ordered(rng: Random, exchanges: tuple[Exchange, ...]) -> list[Exchange]:
    """The exchanges, each run of questions as a choice of them in any order; bound ones stay with theirs."""
    groups: list[list[Exchange]] = []
    for each in exchanges:
        if each.bound and groups:
            groups[-1].append(each)
        else:
            groups.append([each])
    found: list[Exchange] = []
    run: list[list[Exchange]] = []

    def ask() -> None:
        some = rng.sample(run, rng.randint(1, len(run))) if run else []
        # A second time now and then.
        some += [rng.choice(some)] if some and rng.random() < 0.1 else []
        found.extend(each for group in some for each in group)
        run.clear()

    for group in groups:
        if all(each.asks for each in group):
            if not group[0].thinking.endswith("Not told.") or rng.random() > UNASKED:
                run.append(group)
        else:
            ask()
            found.extend(group)
    ask()
    # All that it asks may have been left out.
    return found or list(exchanges)


def sort_of(exchange: Exchange) -> str:
    """Under what training counts it."""
    if exchange.asks:
        return "written unknown" if exchange.thinking.endswith("Not told.") else "written ask"
    start = exchange.thinking.split(":")[0]
    return f"written {start.lower()}" if start in ("New", "Changed", "Taken back") else "written talk"


# Words that point to the turn before: a question with one of them is not for later.
NEAR = re.compile(
    r"\b(he|she|it|its|it's|his|her|hers|him|they|them|their|theirs|that|this|those|these|there|one|ones|again|"
    r"other|others|else|both|total|altogether|all|so|then|first|last|next|second|third|and|also|latter|former)\b",
    re.IGNORECASE,
)


def stands_alone(exchange: Exchange, turn: Turn, told: frozenset[str]) -> bool:
    """Whether a question can be asked much later: it names something of what was told."""
    return (
        exchange.asks
        and not exchange.bound
        and not NEAR.search(turn.user)
        and bool(content(turn.user) & told)
    )


def words(turns: list[tuple[Exchange, Turn]]) -> frozenset[str]:
    """What dialogues of one conversation may not share, so that no question can mean both."""
    return frozenset().union(*(content(turn.user) | content(turn.reply) for _, turn in turns))


def faults(text: str) -> Iterator[str]:
    """What is wrong with a file's dialogues, as far as a program can say."""
    for dialogue in parsed(text):
        if not dialogue.exchanges:
            yield f"line {dialogue.line}: a dialogue without a turn"
        together = {key: set(keys) for keys, _ in dialogue.declared for key in keys}
        for name in dialogue.slots:
            if name not in together and kind_of(name) not in KINDS:
                yield f"line {dialogue.line}: [{name}] is neither declared nor a kind of value"
        held = slots_of([text for _, values in dialogue.declared for each in values for text in each])
        said: set[str] = set(held)
        for each in dialogue.exchanges:
            for fault in faults_of(each, said, together):
                yield f"line {each.line}: {fault}"
            said |= set(slots_of(list(each.wordings)))
            said |= {other for name in list(said) for other in together.get(name, ())}


def faults_of(exchange: Exchange, said: set[str], together: dict[str, set[str]]) -> Iterator[str]:
    """What is wrong with an exchange. `said` are the slots told before it, `together` those drawn as one."""
    thinking, reply = exchange.thinking, exchange.reply
    tells = thinking.startswith(("New", "Changed"))
    if "|" in reply + thinking:
        yield "a choice in the thinking or the reply"
    if not thinking.endswith("."):
        yield "the thinking has no full stop"
    if thinking.startswith("New") and "Got it: " not in reply:
        yield 'what is told is answered "Got it: …"'
    if thinking.startswith("Changed") and not reply.startswith("Got it, now"):
        yield 'a change is answered "Got it, now …"'
    for wording in exchange.wordings:
        certain = certain_of(wording)
        if "(" in certain or "|" in certain:
            yield f"choices do not close, or brackets are none: {wording}"
        missing = [name for name in slots_of([reply]) if name not in together and name not in said]
        for name in missing:
            if name not in slots_of([wording]):
                yield f"the reply says [{name}], this wording does not: {wording}"
            elif tells and name not in slots_of([certain]):
                yield f"[{name}] is in one choice of a wording only: {wording}"


def certain_of(wording: str) -> str:
    """What a wording says whichever choice is taken: of each choice, the slots that all of it holds."""

    def kept(match: re.Match[str]) -> str:
        parts = [set(SLOT.findall(part)) for part in match[1].split("|")]
        return " ".join(f"[{name}]" for name in set.intersection(*parts))

    before = ""
    while before != wording:
        before = wording
        wording = ALTERNATIVES.sub(kept, wording)
    return wording


def main() -> None:
    """Check files, and show some of each."""
    parser = argparse.ArgumentParser(description="Check dialogues written by hand, and show a few.")
    parser.add_argument("files", nargs="*", default=sorted(map(str, FOLDER.glob("*.txt"))))
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    source = Source(Random(options.seed))
    for file in options.files:
        text = Path(file).read_text(encoding="utf-8")
        try:
            found, wrong = parsed(text), list(faults(text))
        except MalformedError as error:
            print(f"{file}: {error}")
            continue
        for _ in range(options.show):
            for _, turn in rendered(source, source.rng.choice(found), 0.0):
                print(f"> {turn.user}\n= {turn.thinking}\n< {turn.reply}")
            print()
        print("\n".join(f"{file}: {each}" for each in wrong))
        exchanges = [each for one in found for each in one.exchanges]
        print(
            f"{file}: {len(found)} dialogues, {len(exchanges)} turns, "
            f"{sum(len(each.wordings) for each in exchanges)} wordings, {len(wrong)} faults"
        )
        if says_advert(text):
            print(f"{file}: names a larger model, which the adverts do")


if __name__ == "__main__":
    main()
