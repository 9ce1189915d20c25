"""Numbers: sums and differences in columns, story sums, products, counting, comparing, doubling.

Whole numbers up to 9999 are worked out; what is beyond that is said to be.
"""

# Frames are one line each.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import crc32

from training.pocket import words as w
from training.pocket.advert import ending
from training.pocket.arithmetic import (
    MOST,
    TABLES,
    TENS_ONLY,
    TooHardError,
    adding,
    dividing,
    multiplying,
    taking,
    worked,
)
from training.pocket.frames import Frames, capital, fill, one, typed
from training.pocket.turns import Turn
from training.pocket.values import Source

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def spelled(number: int) -> str:
    """A number up to 199 in words."""
    if number >= 100:
        rest = f" and {spelled(number - 100)}" if number > 100 else ""
        return f"one hundred{rest}"
    if number < 20:
        return ONES[number]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")


def is_held_out(*numbers: int | str) -> bool:
    """Whether a problem is kept for evaluation: one in twenty."""
    return crc32(" ".join(map(str, numbers)).encode()) % 20 == 0


def chained(first: int, steps: list[tuple[str, int]]) -> tuple[str, int]:
    """The working of first, then each (sign, number) in order; and the result."""
    working, total = [], first
    for sign, number in steps:
        working.append(adding(total, number) if sign == "+" else taking(total, number))
        total = total + number if sign == "+" else total - number
    return " ".join(working), total


def shown(first: int, steps: list[tuple[str, int]]) -> str:
    """Such as 5 - 2 + 4."""
    return " ".join([str(first), *(f"{sign} {number}" for sign, number in steps)])


def reckoned(text: str, first: int, steps: list[tuple[str, int]]) -> Turn:
    """A sum as it was typed, worked out."""
    working, total = chained(first, steps)
    return Turn(text, working, f"{shown(first, steps)} = {total}.", "sum")


def number(rng: Random) -> int:
    """Up to MOST, mostly of one digit or two."""
    top = one(rng, (10, 13, 21, 51, 100, 100, 100, 100, 200, 1000, 1000, 2100, MOST + 1))
    found = int(rng.random() * top)
    return found - found % 10 if top > 200 and rng.random() < 0.3 else found


def problem(source: Source, count: int) -> tuple[int, list[tuple[str, int]]]:
    """Numbers and signs of the source's side. Nothing before the last step is below zero."""
    rng = source.rng
    while True:
        first = number(rng)
        steps, total = [], first
        for _ in range(count - 1):
            step = number(rng)
            sign = "+" if rng.random() < 0.55 else "-"
            if sign == "-" and step > total and (count > 2 or rng.random() < 0.6):
                if total and rng.random() < 0.7:
                    step = int(rng.random() * (total + 1))
                else:
                    sign = "+"
            total = total + step if sign == "+" else total - step
            steps.append((sign, step))
        small = first < 10 and all(step < 10 for _, step in steps) and count == 2
        held = is_held_out(first, *(f"{sign}{step}" for sign, step in steps))
        if total <= MOST and (held == source.held or (small and not source.held)):
            return first, steps


WANT = Frames(
    """
what is [e]?;what's [e]?;how much is [e]?;[e];[e];[e]?;[e] =;[e]=;[e] = ?;[e] is?;(calculate|compute|solve|work out|evaluate) [e](|.)
(can|could) you (calculate|compute|work out|solve|tell me|do) [e]?;(tell me|give me|I need|find) [e](|.);what does [e] (make|give|equal)?
what do you get (for|from|with) [e]?;(do you know|tell me) (what|how much) [e] is(|?);what is the result of [e]?;(result|answer) of [e](|?)
[e] (makes|gives|equals|is) (what|how much)?;how much (does|do) [e] (make|give)?;what (would|will) [e] be?;(try|do) [e];(so|and|then|now) [e]?
""",
    shared=True,
)
PLUS = (" + ", " + ", "+", "+", " plus ", " plus ", " and ", " added to ")
MINUS = (
    " - ",
    " - ",
    "-",
    "-",
    " minus ",
    " minus ",
    " less ",
    " take away ",
    " \N{MINUS SIGN} ",
    " \N{EN DASH} ",
)
SUM_ONLY = Frames(
    """
add [a] and [b](|.);(please |can you |could you )add [a] (and|to) [b](|?);add [b] to [a];what is the sum of [a] and [b]?;(the |)sum of [a] and [b]
[a] and [b] together(|?);what do [a] and [b] (make|add up to)(| together)?;what do you get (if|when) you add [a] and [b]?
put [a] and [b] together;how much are [a] and [b](| together)?;[a] increased by [b];what is [b] more than [a]?;the total of [a] and [b]?
""",
)
TAKE_ONLY = Frames(
    """
(take|subtract|deduct) [b] from [a](|.);take [b] away from [a](|.);(please |can you |could you )(subtract|take) [b] from [a](|?)
what is the difference (of|between) [a] and [b]?;what (is|'s) left (if|when) (I|you|we) take [b] (from|away from) [a]?;what is [b] less than [a]?
[a] (decreased|reduced) by [b];how much is left of [a] (after|without) [b]?;what do you get (if|when) you (take|subtract) [b] from [a]?;[a] without [b]?
""",
)
SUM_THREE = Frames(
    """
add [a], [b] and [c](|.);the sum of [a], [b] and [c](|?);what (is|do) [a], [b] and [c] (together|make|add up to)?;[a], [b] and [c] together
(please |can you )add up [a], [b] and [c];what is the total of [a], [b] and [c]?;[a] and [b] and [c]?;how much are [a], [b] and [c](| together)?
""",
)


def plain_sum(source: Source, advert: bool) -> Turn:
    """Two or three numbers, sometimes four."""
    rng = source.rng
    first, steps = problem(source, one(rng, (2, 2, 2, 2, 2, 2, 3, 3, 3, 4)))
    spoken = rng.random() < 0.12 and max(first, *(step for _, step in steps)) <= TENS_ONLY
    write: Callable[[int], str] = spelled if spoken else str
    numbers = [write(first), *(write(step) for _, step in steps)]
    signs = "".join(sign for sign, _ in steps)
    own = {"+": SUM_ONLY, "-": TAKE_ONLY, "++": SUM_THREE}.get(signs)
    if own is TAKE_ONLY and steps[0][1] > first:
        own = None
    if own is not None and rng.random() < 0.3:
        text = fill(typed(rng, own.draw(source)), dict(zip("abc", numbers, strict=False)))
    else:
        plus, minus = one(rng, PLUS), one(rng, MINUS)
        if write is spelled:
            plus, minus = (
                one(rng, (" plus ", " plus ", " and ", " + ")),
                one(rng, (" minus ", " minus ", " take away ", " less ")),
            )
        if len(plus) < 4 or len(minus) < 4:
            plus, minus = one(
                rng, ((" + ", " - "), (" + ", " - "), ("+", "-"), ("+", "-"), (" + ", " \N{EN DASH} "))
            )
            plus, minus = (" plus ", " minus ") if write is spelled else (plus, minus)
        written = numbers[0] + "".join(
            (plus if sign == "+" else minus) + text
            for (sign, _), text in zip(steps, numbers[1:], strict=True)
        )
        text = fill(typed(rng, WANT.draw(source)), {"e": written})
    return reckoned(text, first, steps)


def with_number(source: Source, known: int) -> Turn:
    """A sum typed with signs, one of whose numbers was told before."""
    rng = source.rng
    while True:
        sign, numbers = one(rng, ("+", "-", "-")), [known, number(rng)]
        first, second = sorted(numbers, reverse=True) if sign == "-" else rng.sample(numbers, 2)
        if (sign == "-" or first + second <= MOST) and is_held_out(first, f"{sign}{second}") == source.held:
            break
    start = one(rng, ("", "", "", "so ", "and ", "ok ", "what is ", "how much is ", "quick: "))
    space, end = one(rng, ("", " ")), one(rng, ("", "", "?", "?", " =", " = ?"))
    return reckoned(f"{start}{first}{space}{sign}{space}{second}{end}", first, [(sign, second)])


# Stories. [a], [b], [c] are numbers, [t] what is counted, [n] and [o] people.
GAIN = "bought [b] more|got [b] more|found [b] more|was given [b] more|picked [b] more|received [b]|bought [b]|found [b]|got [b] from [o]"
LOSE = "ate [b]|lost [b]|gave away [b]|sold [b]|broke [b]|gave [b] to [o]|threw away [b]|used [b]|dropped [b]|gave [o] [b]"
STORIES = {
    "+": Frames(
        f"""
I (had|have|own) [a] [t](| and| and then|, then I| and I|. I|. Then I) ({GAIN})(.|.|,) [how]
I (bought|found|picked|got) [a] [t] (today|in the morning|yesterday|on Monday) and [b] (in the evening|today|later|the next day|on Tuesday). [how]
if I have [a] [t] and (get|buy|find|receive) [b] more, [how];there (are|were) [a] [t] (in|on) (a|the) (box|bag|table|bowl|room) and I (put|add) [b] more (in|there). [total]
[o] (gives|gave) me [a] [t] and [n] (gives|gave) me [b](| more). [how];I have [a] (red|big|old) [t] and [b] (blue|small|new) (ones|[t]). [how]
"""
    ),
    "-": Frames(
        f"""
I (had|have|own) [a] [t](| and| and then|, then I| and I|. I|. Then I|, but I) ({LOSE})(.|.|,) [left]
if I have [a] [t] and (lose|eat|sell|give away|break) [b](| of them), [left];there (are|were) [a] [t] (in|on) (a|the) (box|bag|table|bowl) and I (take|took) [b](| away| out). [gone]
I (bought|picked|found|got) [a] [t] (today|yesterday|and then). I ({LOSE}). [left];I have [a] [t] and [n] (takes|steals|takes away|eats) [b](| of them). [left]
of my [a] [t], [b] (are|were) (broken|gone|lost|rotten), [left]
"""
    ),
    "++": Frames(
        f"""
I (had|have) [a] [t], ({GAIN}) and (found|got|bought) [c](| more| in the end). [how];I (have|had) [a] [t](. I|, then I) ({GAIN}), (then|and then) (bought|got|found) [c] more. [how]
I (have|bought) [a] (red|big) [t], [b] (blue|small) ones and [c] (green|old) ones. [how];[o] has [a] [t], [n] has [b] and I have [c]. [total]
"""
    ),
    "-+": Frames(
        f"""
I (had|have) [a] [t], ({LOSE}) and (then |)(bought|got|found) [c](| more| again). [how];I (had|have) [a] [t](. I|, then I) ({LOSE})(, then|. Then I| and then) (bought|found|got) [c](| more). [how]
if I have [a] [t], (eat|lose|sell) [b] and (buy|find|get) [c](| more), [how];there were [a] [t] (in|on) (the|a) (bag|box|table). I took [b] (out|away) and put [c] (back|in). [total]
"""
    ),
    "+-": Frames(
        f"""
I (had|have) [a] [t], ({GAIN}) and (then |)(ate|lost|sold|gave away) [c]. [how];I (had|have) [a] [t](. I|, then I) ({GAIN})(, then|. Then I| and then) (ate|lost|sold|gave away) [c]. [left]
if I have [a] [t], (buy|find|get) [b] (more |)and (eat|lose|sell) [c], [left];I (bought|picked) [a] [t] and [b] more, but [n] ate [c](| of them). [left]
"""
    ),
    "--": Frames(
        f"""
I (had|have) [a] [t], ({LOSE}) and (then |)(ate|lost|sold|gave away) [c](| more). [left];I (had|have) [a] [t](. I|, then I) ({LOSE})(, then|. Then I| and then) (ate|lost|sold|gave away) [c]. [left]
if I have [a] [t], (eat|lose) [b] and (sell|give away) [c], [left];there were [a] [t] (in|on) (the|a) (bag|table). I took [b] and [n] took [c]. [gone]
"""
    ),
}
OTHERS = {
    "+": Frames(
        """
[n] has [a] [t] and (gets|buys|finds|receives) [b] more. [how];[n] (had|has) [a] [t]. (Then |)[o] (gives|gave) [n] [b](| more). [how];[n] has [a] [t], and [o] (brings|sends|adds) [b]. [how]
"""
    ),
    "-": Frames(
        """
[n] has [a] [t] and (eats|loses|sells|gives away) [b]. [left];[n] (had|has) [a] [t]. [n] (gives|gave) [b] to [o]. [left];[n] has [a] [t] and (breaks|uses|throws away) [b](| of them). [left]
"""
    ),
    "-+": Frames(
        """
[n] has [a] [t], (eats|loses|sells) [b] and (buys|gets|finds) [c](| more). [how];[n] had [a] [t], gave [b] to [o] and (bought|found) [c]. [how];[n] has [a] [t]. [o] takes [b] and brings [c]. [how]
"""
    ),
    "++": Frames(
        """
[n] has [a] [t], (buys|gets) [b](| more) and finds [c](| more). [how];[n] has [a] [t]. [o] gives [n] [b], and later [c]. [how];[n] (bought|picked) [a] [t], then [b], then [c]. [how]
"""
    ),
}
COUNTED = (
    "apples bananas pears oranges plums eggs cookies sweets marbles coins books pens pencils cards stamps balls cups cakes cherries "
    "nuts dumplings slices pancakes balloons candles flowers roses tickets stones shells shirts hats keys plates toys dollars euros fish cats dogs chickens sheep cows "
    "tomatoes potatoes carrots lemons peaches grapes buttons stickers photos letters bottles boxes chairs tables lamps"
).split()
HOW = (
    "how many [t] [do] [who] have(| now| in all| altogether| in total)?",
    "how many [do] [who] have(| now| in all)?",
    "how many [t] is that?",
    "how many are that?",
    "how many now?",
    "how many?",
)
LEFT = (
    "how many [t] [do] [who] have left?",
    "how many are left?",
    "how many [t] are left?",
    "how many [do] [who] have(| now| left)?",
    "what is left?",
    "how many remain?",
    "how many left?",
)
TOTAL = (
    "how many [t] are there(| now| in all| altogether)?",
    "how many are there(| now)?",
    "how many is that?",
    "how many in all?",
)
GONE = (
    "how many are left?",
    "how many [t] are left(| there)?",
    "how many [t] are there(| now)?",
    "how many remain?",
)
ASKED = {
    name: [Frames(text, shared=True) for text in pool]
    for name, pool in (("how", HOW), ("left", LEFT), ("total", TOTAL), ("gone", GONE))
}


def story(source: Source, advert: bool) -> Turn:
    """A sum told as a story."""
    rng = source.rng
    third = rng.random() < 0.3
    signs = one(rng, ("+", "-", "-", "+", "-+", "-+", "+-", "++", "--"))
    pool = OTHERS if third and signs in OTHERS else STORIES
    third = pool is OTHERS
    while True:
        top = one(rng, (12, 12, 30, 100, 100))
        first, steps = 2 + int(rng.random() * top), [(sign, 1 + int(rng.random() * top)) for sign in signs]
        left = [first]
        for sign, step in steps:
            left.append(left[-1] + (step if sign == "+" else -step))
        if min(left) >= 0 and is_held_out(first, *(f"{sign}{step}" for sign, step in steps)) == source.held:
            break
    name, other, things = one(rng, w.NAMES), one(rng, w.NAMES), one(rng, COUNTED)
    if rng.random() < 0.05:
        other = one(rng, ("my friend", "my sister", "my mum", "a friend"))
    text = pool[signs].draw(source)
    asked = next((key for key in ASKED if f"[{key}]" in text), "how")
    question = one(rng, ASKED[asked]).draw(source)
    if not text.endswith(f", [{asked}]") and ", [" not in text:
        question = capital(question)
    text = text.replace(f"[{asked}]", question)
    text = text.replace("[do]", "does" if third else "do").replace("[who]", "[n]" if third else "I")
    write: Callable[[int], str] = spelled if rng.random() < 0.12 else str
    numbers = dict(zip("abc", [write(first), *(write(step) for _, step in steps)], strict=False))
    text = fill(typed(rng, text, dressed=rng.random() < 0.4), {**numbers, "t": things, "n": name, "o": other})
    working, total = chained(first, steps)
    who = f"{name} has" if third else "you have"
    if asked in ("total", "gone"):
        end = f"there {'is' if total == 1 else 'are'} {total}{' left' if asked == 'gone' else ''}"
    else:
        end = f"{who} {total}{' left' if asked == 'left' else ''}"
    return Turn(
        text,
        f"A story: {shown(first, steps)}. {working}",
        f"{shown(first, steps)} = {total}, so {end}.",
        "story sum",
    )


# Problems in words that end in a number and no more.
WORDED = {
    "+": Frames(
        """
I have [a] [t] and [b] [u](, |. )how many (things|pieces|items) (do I have|is that|are that)(| together| in all)?;a [i] costs [a] (euros|dollars|pounds) and a [j] (costs |)[b], (how much is that|what do I pay|how much are both)(| together)?;I (am|was) [a] (years old|), how old (will I be|am I) in [b] years?
[n] is [a] (years old |)and [o] is [b] years older, how old is [o]?;there are [a] (boys|girls|men|cars) and [b] (girls|women|bikes|children) (here|in the class|in the room), how many (are there|is that) (together|in all)?;I (walked|ran|drove) [a] km (today|yesterday|in the morning) and [b] (km |)(more|in the evening), how far (is that|did I go)?
a book has [a] pages and another [b], how many pages (is that|together)?;[n] (scored|got|made) [a] points and [o] [b], how many (points |)together?;it takes [a] minutes to cook and [b] (minutes |)to eat, how long (in all|is that)?;I (paid|spent) [a] (euros|dollars) (yesterday|for food) and [b] (today|for a [i]), how much (in all|is that)?
(the bus|a train) has [a] (passengers|people) and [b] (more |)get on, how many (are on it|now)?;I saved [a] (euros|dollars) and got [b] (more|from [n]), how much (money |)do I have?
"""
    ),
    "-": Frames(
        """
I (have|had) [a] (euros|dollars|pounds) and (spend|spent|pay|paid) [b](| for a [i]| on food), how (much|many) (is left|do I have left|do I have|remains)?;I am [a] (years old|), how old was I [b] years ago?;there are [a] (students|children|people), [b] (of them |)are girls, how many (are boys|boys are there)?
a [i] costs [b] (euros|dollars) and I (pay|give) [a], (how much|what) do I get back?;[n] is [a] (years old |)and [o] is [b] years younger, how old is [o]?;a book has [a] pages and I (read|have read) [b], how many (are left|do I still have to read)?
(the bus|a train) has [a] (passengers|people) and [b] (get off|leave), how many (stay|are left|remain)?;the (trip|film|way) (takes|is) [a] (minutes|km), [b] (are over|are done|have passed), how (many|much) (is left|are left|remain)?;how many years (are there |)from [b] to [a]?
I need [a] (points|euros|pieces) and have [b], how many (more do I need|are missing|do I still need)?;[n] has [a] [t] and [o] has [b], how many more (does [n] have|has [n])?
"""
    ),
}

# What takes "a" and no "an".
BOUGHT = [each for each in w.NOUNS if each[0] not in "aeiouh"]


def worded(source: Source, advert: bool) -> Turn:
    """A problem in words about money, age, pages or people."""
    rng = source.rng
    while True:
        top = one(rng, (12, 30, 100, 100))
        first, second = 2 + int(rng.random() * top), 1 + int(rng.random() * top)
        sign = "+" if second > first or rng.random() < 0.5 else "-"
        if is_held_out(first, f"{sign}{second}") == source.held:
            break
    text = typed(rng, WORDED[sign].draw(source), dressed=rng.random() < 0.4)
    slots = {"a": str(first), "b": str(second), "n": one(rng, w.NAMES), "o": one(rng, w.NAMES)}
    slots |= {"t": one(rng, COUNTED), "u": one(rng, COUNTED), "i": one(rng, BOUGHT), "j": one(rng, BOUGHT)}
    working, total = chained(first, [(sign, second)])
    problem_ = shown(first, [(sign, second)])
    return Turn(fill(text, slots), f"A story: {problem_}. {working}", f"{problem_} = {total}.", "story sum")


TIMES = Frames(
    """
what is [a] times [b]?;[a] times [b](|?);[a] (*|x|\N{MULTIPLICATION SIGN}) [b](|?);[a](*|x|\N{MULTIPLICATION SIGN})[b](|=|?);multiply [a] (by|with|and) [b](|.);how much is [a] (times|*|x) [b]?
what is [a] (*|x|\N{MULTIPLICATION SIGN}) [b]?;(calculate|compute|work out) [a] (times|*|x) [b];the product of [a] and [b](|?);what is [a] multiplied by [b]?;[a] multiplied by [b]
(tell me|do you know) (what |)[a] times [b](| is)(|?);how many are [a] times [b]?;what's [a] (times|x|*) [b]?;(can|could) you multiply [a] (by|and) [b]?;[a] (boxes|bags) with [b] (apples|eggs|pens) each, how many?
""",
)
PER = Frames(
    """
what is [a] divided by [b]?;[a] divided by [b](|?);[a] / [b](|?);[a]/[b](|=|?);divide [a] by [b](|.);how much is [a] divided by [b]?;[a] : [b]
what is [a] / [b]?;[a] \N{DIVISION SIGN} [b](|?);(calculate|compute|work out) [a] (/|divided by) [b];how (often|many times) does [b] (go into|fit into|fit in) [a]?;what's [a] over [b]?
""",
)


SHARE = Frames(
    """
(we are|we're|there are) [b] (of us|people|friends|kids|at the table)(,| and| and we have| and I have| and there are) [a] [x](.|,) how many (does each|each|does everyone|per person|for each|[x] each)( get|)?;[a] [x] for [b] (people|of us|children|guests), how many each?
I have [a] [x] and [b] (kids|friends|guests|boxes)(. How|, how) many (each|does each get|per head|go into each)?;(share|split|divide) [a] [x] (among|between|by) [b] (people|kids|of us|plates)(.|, how many each?);[b] (kids|friends|people) share [a] [x](. How|, how) many does (each|each one|everyone) get?
how many [x] does each of [b] (people|children|guests) get if (there are|I have|we have) [a]?;we have [a] [x] and are [b](. How|, how) many (is that|are that|makes that|do we get) each?;(we're|we are) [b] people then, (and|so) I have [a] [x]. how many does each get?;each of us [b] gets how many of the [a] [x]?
[a] [x], [b] (plates|kids|people|bags), the same (number|amount) (on|for|in) each: how many?;if [b] of us share [a] [x], what does (each|everyone|one) get?;I (baked|bought|picked|found) [a] [x] for the [b] of us(. How|, how) many (each|apiece|a head)?
""",
    shared=True,
)


def times(source: Source, advert: bool) -> Turn:
    """Products and quotients: the tables up to twelve, and beyond them digit by digit."""
    rng = source.rng
    small = rng.random() < 0.5
    spoken = rng.random() < 0.12
    if rng.random() < 0.55:
        a, b = int(rng.random() * 13), int(rng.random() * 13)
        while not small:
            a, b = (
                2 + int(rng.random() * one(rng, (98, 98, 998))),
                2 + int(rng.random() * one(rng, (11, 11, 98))),
            )
            if rng.random() < 0.25:
                a -= a % 10
            if a > TABLES and a * b <= MOST and is_held_out(a, "*", b) == source.held:
                break
        a, b = (a, b) if rng.random() < 0.6 else (b, a)
        write: Callable[[int], str] = spelled if spoken and max(a, b) <= TENS_ONLY else str
        text = fill(typed(rng, TIMES.draw(source)), {"a": write(a), "b": write(b)})
        return Turn(text, multiplying(a, b), f"{a} times {b} is {a * b}.", "times")
    b, quotient = 1 + int(rng.random() * TABLES), int(rng.random() * 13)
    while not small:
        b, quotient = 2 + int(rng.random() * 11), 13 + int(rng.random() * one(rng, (40, 90, 400)))
        if is_held_out(b, "/", quotient) == source.held:
            break
    rest = int(rng.random() * b) if rng.random() < 0.35 else 0
    a = b * quotient + rest
    frames = SHARE if a >= b > 1 and rng.random() < 0.5 else PER
    write = spelled if spoken and a <= TENS_ONLY else str
    text = fill(typed(rng, frames.draw(source)), {"a": write(a), "b": write(b), "x": one(rng, COUNTED)})
    if rng.random() < 0.03:
        text = fill(typed(rng, PER.draw(source)), {"a": str(a), "b": "0"})
        return Turn(text, "Nothing can be divided by zero.", f"{a} cannot be divided by zero.", "times")
    answer = f"{a} divided by {b} is {quotient}" + (f", and {rest} is left." if rest else ".")
    kind = f"A story: {a} / {b}. " if frames is SHARE else ""
    return Turn(text, f"{kind}{dividing(a, b)}", answer, "times")


def mixed(source: Source, advert: bool) -> Turn:
    """Products beside sums, and brackets."""
    rng = source.rng
    if rng.random() < 0.12:
        return broken(source)
    expression = one(rng, MIXED)
    while True:
        numbers = {
            letter: 1 + int(rng.random() * one(rng, (10, 12, 12, 30, 100)))
            for letter in "abcd"
            if letter in expression
        }
        if is_held_out(expression, *numbers.values()) != source.held:
            continue
        try:
            shown, working, result = worked(expression, numbers)
        except TooHardError:
            continue
        break
    written = shown
    if rng.random() < 0.35:
        written = written.replace(" ", "")
    written = written.replace("*", one(rng, ("*", "*", "x", "\N{MULTIPLICATION SIGN}"))).replace(
        "/", one(rng, "/:")
    )
    if "(" not in shown and rng.random() < 0.3:
        words = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
        written = " ".join(words.get(part, part) for part in shown.split())
    text = fill(typed(rng, WANT.draw(source)), {"e": written})
    return Turn(text, working, f"{shown} = {result}.", "mixed sum")


def broken(source: Source) -> Turn:
    """A sum with a division that leaves a rest: beyond it."""
    rng = source.rng
    while True:
        b, quotient, other = (low + int(rng.random() * most) for low, most in ((2, 11), (2, 90), (1, 60)))
        a = b * quotient + 1 + int(rng.random() * (b - 1))
        if is_held_out(a, "/", b, other) == source.held:
            break
    if rng.random() < 0.6:
        shown = f"{a} / {b} {one(rng, '+-*')} {other}"
    else:
        shown = f"{other} {one(rng, '+-')} {a} / {b}"
    written = shown.replace(" ", "") if rng.random() < 0.35 else shown
    text = fill(typed(rng, WANT.draw(source)), {"e": written})
    rest = f"{a} / {b} is {quotient} and {a % b} is left"
    return Turn(
        text,
        f"{dividing(a, b)} A rest. Beyond me.",
        f"{rest}: with a rest I cannot go on, sorry.",
        "mixed sum",
    )


MIXED = (
    *(
        "a * b - c",
        "a * b + c",
        "a * b - c",
        "a * b + c",
        "a + b * c",
        "a - b * c",
        "(a + b) * c",
        "a / b + c",
    ),
    *("(a - b) * c", "a * b * c", "a / b - c", "(a + b) / c", "a * b + c - d", "a * b + c * d", "a * b / c"),
)


TWICE = Frames(
    """
what is (twice|double|the double of) [a]?;(double|twice) [a](|?);double the number [a];what is [a] doubled?;(the |)double of [a](|?);two times [a]?;how much is (twice|double) [a]?
[a] doubled;(can you |please )double [a];what do I get if I double [a]?
"""
)
HALF = Frames(
    """
what is half of [a]?;half of [a](|?);(the |)half of [a];what is (a|the) half of [a]?;halve [a](|.);[a] halved;how much is half of [a]?;(split|divide|cut) [a] in (half|two|two halves)
what is half [a]?;(can you |please )halve [a];50 % of [a]?;half [a]
"""
)


def doubling(source: Source, advert: bool) -> Turn:
    """Twice a number, and half of one."""
    rng = source.rng
    a = number(rng)
    while is_held_out("double", a) != source.held and a > 12:
        a = number(rng)
    if rng.random() < 0.5:
        text = fill(typed(rng, TWICE.draw(source)), {"a": str(a)})
        return Turn(text, adding(a, a), f"Twice {a} is {2 * a}.", "double")
    text = fill(typed(rng, HALF.draw(source)), {"a": str(a)})
    if a > TENS_ONLY:
        a -= a % 2
        return Turn(
            fill(typed(rng, HALF.draw(source)), {"a": str(a)}),
            dividing(a, 2),
            f"Half of {a} is {a // 2}.",
            "half",
        )
    tens, ones = divmod(a, 10)
    half_tens, rest = divmod(tens, 2)
    low = ones + 10 * rest
    half = f"{a // 2}.5" if a % 2 else str(a // 2)
    low_half = f"{low // 2}.5" if low % 2 else str(low // 2)
    thinking = f"Half of {a}: {tens}/2={half_tens} rest {rest}, {low}/2={low_half}, makes {half}."
    return Turn(text, thinking, f"Half of {a} is {half}.", "half")


NEXT = Frames(
    """
what (number |)comes (after|next after|right after) [a]?;what is the (next number|number) after [a]?;(which|what) number follows [a]?;what follows [a]?;the number after [a](|?)
the next number after [a];(tell me |)what is after [a]?;after [a] comes(|...)?;what is the successor of [a]?;[a], and then(|?);what number is next after [a]?
"""
)
BEFORE = Frames(
    """
what (number |)comes (before|right before|just before) [a]?;what is the number before [a]?;(which|what) number (precedes|is before) [a]?;the number before [a](|?)
what was before [a]?;what is the predecessor of [a]?;before [a] comes(|...)?;the previous number of [a]?
"""
)
ORDERED = {
    "day": w.DAYS,
    "month": w.MONTHS,
    "letter": [chr(code) for code in range(65, 91)],
}
NEXT_WORD = Frames(
    """
what (|[k] )comes (after|next after|right after) [v]?;(which|what) [k] (follows|is after|comes after) [v]?;what follows [v]?;the [k] after [v](|?);what is the next [k] after [v]?;what is after [v]?
after [v] comes(|...)?;[v], and then(|?);the next [k] after [v]
"""
)
BEFORE_WORD = Frames(
    """
what (|[k] )comes (before|right before|just before) [v]?;(which|what) [k] (precedes|is before|comes before) [v]?;the [k] before [v](|?);what was the [k] before [v]?;what is before [v]?
before [v] comes(|...)?;the previous [k] of [v]?
"""
)


def neighbour(source: Source, advert: bool) -> Turn:
    """What comes after 17, before 30, after Monday."""
    rng = source.rng
    after = rng.random() < 0.6
    if rng.random() < 0.4:
        kind = one(rng, ("day", "month", "letter"))
        order = ORDERED[kind]
        at = int(rng.random() * len(order))
        if kind == "letter" and at + (1 if after else -1) not in range(26):
            after = not after
        value, found = order[at], order[(at + (1 if after else -1)) % len(order)]
        word = "after" if after else "before"
        text = typed(rng, (NEXT_WORD if after else BEFORE_WORD).draw(source))
        written = value.lower() if rng.random() < 0.3 else value
        text = fill(
            text,
            {
                "v": f"the letter {written}"
                if kind == "letter" and "letter" not in text and "[k]" not in text
                else written,
                "k": kind,
            },
        )
        thinking = (
            f"The order of the {kind}s: {value}, {found}."
            if after
            else f"The order of the {kind}s: {found}, {value}."
        )
        return Turn(text, thinking, f"{found} comes {word} {value}.", "next")
    a = (
        int(rng.random() * one(rng, (20, 100, 100, 100, 1000)))
        if rng.random() < 0.75
        else 10 * int(rng.random() * 40) + 9 * after
    )
    a = max(a, 1)
    text = fill(
        typed(rng, (NEXT if after else BEFORE).draw(source)),
        {"a": spelled(a) if a <= TENS_ONLY and rng.random() < 0.1 else str(a)},
    )
    if after:
        return Turn(text, adding(a, 1), f"{a + 1} comes after {a}.", "next")
    return Turn(text, taking(a, 1), f"{a - 1} comes before {a}.", "next")


COUNT = Frames(
    """
count (from [a] |)to [b](|.);(can|could|will) you count (from [a] |)to [b]?;(please |)count up (from [a] |)to [b];(list|give me|say|write|tell me|name) (all |)the numbers from [a] to [b];numbers from [a] to [b](|?)
count (from [a] |)up to [b](| for me);(what are|which are) the numbers (from [a] to [b]|between [a] and [b])?;count for me from [a] to [b];start at [a] and count to [b];let us count (from [a] |)to [b];[a] to [b], please count
"""
)
COUNT_DOWN = Frames(
    """
count (down|backwards|back) from [a](| to [b]);count from [a] (down|back|backwards) to [b];(can|could) you count (down|backwards) from [a](| to [b])?;(do |give me |)a countdown from [a](| to [b]);countdown from [a]
count backwards from [a];count (down|backwards), starting (at|from) [a];the numbers from [a] down to [b];start at [a] and count down(| to [b]);count from [a] to [b] backwards
"""
)
COUNT_BY = Frames(
    """
count (from [a] |)to [b] (by|in|in steps of) [s](|s);count by [s](s|) (from [a] |)to [b];count in steps of [s] (from [a] |)to [b];(can you |please )count (from [a] |)to [b] in [s]s;give me the numbers from [a] to [b] in steps of [s]
"""
)
MOST_COUNTED = 30


def counting(source: Source, advert: bool) -> Turn:
    """Counting up, down and in steps."""
    rng = source.rng
    way = rng.random()
    step = one(rng, (2, 5, 10, 3, 2)) if way > 0.85 else 1
    frames = COUNT_BY if step > 1 else COUNT_DOWN if way > 0.6 else COUNT
    text = frames.draw(source)
    if frames is COUNT_DOWN:
        high = (
            2 + int(rng.random() * one(rng, (9, 12, 25)))
            if rng.random() < 0.75
            else 2 + int(rng.random() * 120)
        )
        low = (
            (1 if high < 26 else max(0, high - 20))
            if "[b]" not in text
            else max(0, high - 1 - int(rng.random() * 15))
        )
        if "[b]" not in text and high > MOST_COUNTED:
            high = MOST_COUNTED - int(rng.random() * 20)
            low = 1
        elif "[b]" not in text:
            low = 1
        numbers = list(range(high, low - 1, -1))
        slots = {"a": str(high), "b": str(low)}
        thinking = f"Count down from {high} to {low}."
    else:
        low = (
            (1 if step == 1 else step)
            if "[a]" not in text
            else int(rng.random() * one(rng, (2, 12, 30, 100)))
        )
        if rng.random() < 0.1 and step == 1:
            return _long_count(source, text, low)
        many = 2 + int(rng.random() * one(rng, (5, 10, 14, 20)))
        high = low + step * (many - 1)
        numbers = list(range(low, high + 1, step))
        slots = {"a": str(low), "b": str(high), "s": str(step)}
        thinking = f"Count from {low} to {high}" + (f" in steps of {step}." if step > 1 else ".")
    if rng.random() < 0.12 and numbers[0] <= TENS_ONLY and numbers[-1] <= TENS_ONLY:
        slots = {key: spelled(int(value)) for key, value in slots.items()}
    return Turn(fill(typed(rng, text), slots), thinking, ", ".join(map(str, numbers)) + ".", "count")


def _long_count(source: Source, text: str, low: int) -> Turn:
    rng = source.rng
    high = one(rng, (100, 1000, 500, 200, 10000, 1000000, 100 + int(rng.random() * 900)))
    text = fill(typed(rng, text), {"a": str(low), "b": str(high)})
    answer = f"That is a long way: {low}, {low + 1}, {low + 2}, and so on up to {high}."
    return Turn(text, f"From {low} to {high} is too long to count.", answer, "count")


LARGER = Frames(
    """
(which|what) is (larger|bigger|greater|more|higher), [a] or [b]?;(which|what) number is (larger|bigger|greater|higher), [a] or [b]?;is [a] (larger|bigger|greater|more|higher) than [b]?;[a] or [b], (which|what) is (larger|bigger|more)?
(which|what) is the (larger|bigger|greater) (one|number)(| of| out of|,) [a] (and|or) [b]?;is [a] > [b]?;[a] > [b]?;(compare|tell me which is larger:) [a] and [b];what is more, [a] or [b]?;the larger of [a] and [b](|?)
"""
)
SMALLER = Frames(
    """
(which|what) is (smaller|less|lower|littler), [a] or [b]?;(which|what) number is (smaller|lower|less), [a] or [b]?;is [a] (smaller|less|lower) than [b]?;[a] or [b], (which|what) is (smaller|less)?;is [a] < [b]?;[a] < [b]?
(which|what) is the smaller (one|number)(| of| out of|,) [a] (and|or) [b]?;the smaller of [a] and [b](|?);what is less, [a] or [b]?
"""
)


def comparing(source: Source, advert: bool) -> Turn:
    """Which of two numbers is larger or smaller."""
    rng = source.rng
    size = one(rng, (10, 100, 100, 100, 1000, 10000))
    a, b = int(rng.random() * size), int(rng.random() * one(rng, (size, size, size, 100)))
    if rng.random() < 0.25:
        b = max(0, a + one(rng, (-1, 1, 10, -10, 2, 0)))
    larger = rng.random() < 0.6
    text = (LARGER if larger else SMALLER).draw(source)
    polar = text.startswith(("is ", "[a] >", "[a] <"))
    text = fill(typed(rng, text), {"a": str(a), "b": str(b)})
    thinking = _compared(str(a), str(b))
    if a == b:
        return Turn(text, thinking, ("No, they" if polar else "They") + " are the same.", "compare")
    high, low = max(a, b), min(a, b)
    if polar:
        right = (a > b) == larger
        answer = f"{'Yes' if right else 'No'}, {a} is {'larger' if a > b else 'smaller'} than {b}."
    else:
        answer = f"{high} is larger than {low}." if larger else f"{low} is smaller than {high}."
    return Turn(text, thinking, answer, "compare")


def _compared(a: str, b: str) -> str:
    start = f"{a} has {len(a)} digit{'s' * (len(a) > 1)}, {b} has {len(b)}."
    if len(a) != len(b):
        return f"{start} So {a} {'>' if len(a) > len(b) else '<'} {b}."
    steps = []
    for first, second in zip(a, b, strict=True):
        steps.append(f"{first}{'=' if first == second else '>' if first > second else '<'}{second}")
        if first != second:
            break
    sign = "=" if a == b else ">" if int(a) > int(b) else "<"
    return f"{start} {', '.join(steps)}. So {a} {sign} {b}."


PARITY = Frames(
    """
is [a] (even|odd|an even number|an odd number)?;is [a] (even or odd|odd or even)?;is the number [a] (even|odd)?;[a]: (even or odd|odd or even)?;is [a] (divisible by two|an odd or an even number)?;(tell me |)(if|whether) [a] is (even|odd)
(even or odd|odd or even)(:|,) [a]?;what is [a], even or odd?;[a] is (even|odd)(, right|, isn't it|)?
"""
)


def parity(source: Source, advert: bool) -> Turn:
    """Whether a number is even or odd."""
    rng = source.rng
    a = str(int(rng.random() * one(rng, (10, 100, 100, 1000, 10000, 1000000))))
    text = PARITY.draw(source)
    kind = "odd" if int(a) % 2 else "even"
    asked = "even" if "even" in text or "divisible" in text else "odd"
    both = "even" in text and "odd" in text
    answer = f"{a} is {kind}." if both else f"{'Yes' if asked == kind else 'No'}, {a} is {kind}."
    return Turn(fill(typed(rng, text), {"a": a}), f"{a} ends in {a[-1]}, which is {kind}.", answer, "parity")


BEYOND: tuple[tuple[str, str, Frames], ...] = (
    (
        "[b] is over 9999",
        "I reckon with whole numbers up to 9999 only",
        Frames(
            """
what is [a] (+|-|plus|minus) [b]?;[a] (+|-|plus|minus) [b](|?);[b] (+|-|plus|minus) [a](|?);[a](+|-)[b](|=);what's [b] (+|-) [a]?;how much is [a] (plus|minus|+|-) [b]?;add [a] (and|to) [b];subtract [a] from [b]
(calculate|compute) [b] (+|-|plus|minus) [a];I have [b] (dollars|euros|coins) and (spend|get|lose) [a], how many (are left|do I have)?
"""
        ),
    ),
    (
        "that is over 9999",
        "I reckon with whole numbers up to 9999 only",
        Frames(
            """
what is [e] (times|*|x|multiplied by) [f]?;[e] (*|x|times) [f](|?);[e]*[f];[f]*[e](|=|?);multiply [e] (by|and) [f];how much is [e] (times|*|x) [f]?;what's [f] times [e]?;[f] (x|times) [b];(calculate|compute) [e] (*|times|x) [f]
"""
        ),
    ),
    (
        "[c] is over 12",
        "I divide by up to 12 only",
        Frames(
            """
what is [e] (divided by|/) [c]?;[e] / [c];divide [e] by [c];how much is [e] divided by [c]?;[e]/[c];how often does [c] (go into|fit in) [e]?;(share|split) [e] (among|between) [c] people
"""
        ),
    ),
    (
        "not a sum of whole numbers",
        "I only add, subtract, multiply and divide whole numbers",
        Frames(
            """
what is the (square root|cube root|root|logarithm|factorial|sine|cosine) of [a]?;(square root|root|sqrt|log|sin) of [a];sqrt [a];what is [a] (percent|%) of [b]?;[a]% of [b](|?);what is [a] (squared|cubed|to the power of 3|to the power of 2)?;[a]^2;[a]**2
solve (x + [a] = [b]|the equation|for x: 2x = [a]|this equation);is [b] a prime(| number)?;(what is|how much is|tell me) pi(|?);what is the (average|mean|median) of [a] and [b]?;(integrate|derive|differentiate) (x|sin x|this)
convert [a] (miles|inches|pounds|dollars|feet|degrees) (to|into) (km|cm|kg|euros|meters|celsius);how many (km|cm|kg|meters) are [a] (miles|inches|pounds|feet)?;[a].5 (+|-) [c].[d];what is [a].[c] (plus|minus|+|-) [d].2?;what is a (third|quarter|fifth|tenth) of [a]?
(write|give me|list) the (first|next) (ten|five|[c]) (primes|prime numbers|fibonacci numbers|squares);write [a] (in binary|in hex|as a roman numeral|in roman numerals)
(what is|what's|calculate|) [c] (**|^|to the power of) [d];(what's|what is|) [a] (mod|modulo|%) [c];(the |)remainder of [a] (divided by|over) [c];(what is|) 0x[c]f(| in decimal);(what's|what is|) [a] in (hex|octal|binary|roman numerals)
(what's|what is|calculate|) [c] (*|times|x) [o][d] (+|-) [a][p];[o][a] (+|-) [d][p] (*|/|x) [c];[a] (+|-) [o][d] (-|+) [c][p];I (had|got) [a] (euros|pounds|dollars|quid) and spent [c].50(, |. |)how much (is |)left;[c] (coffees|tickets|beers) at [d].20 each, how much
half of [a].5;[c].99 + [d].50;[d]:[c] minus [d] minutes;[a] km at [c] km/h, how long;[c]% (off|discount|tip) (on|of) [a];a (tip|discount) of [c] percent on [a]
(a|one) (kebab|coffee|ticket|beer|sandwich|magazine) (costs|is) [c].(50|20|90)(, | and )(i|we|they) (buy|take|order) (two|three|four|five)(, |. )(how much is that|what does that cost|what do i pay)(|?)
(a|one|each) (pizza|ticket|bottle|loaf) (costs|is) [c].(90|75|50)(, |. )(i|we) (buy|get) (two|three) and pay with a (ten|twenty|fifty)(, |. )(how much change|what do i get back|change)(|?)
i (paid|spent) [c].(45|85|15) (on|for) (lunch|petrol|bread|shampoo) and [d].(99|10|60) (on|for) (coffee|milk|the bus)(, | - |. )(how much is that|what's that) (together|in all)(|?)
(i (run|walk|drink|sleep)|the cat eats) [d].5 (km|litres|hours|cans) (a|each|every) day(, |. )how (many|much) is that in a (week|month)(|?)
(the bill|dinner|the taxi|rent) (was|is) [a].(30|80|50) and (we are|there are) (two|three|four|six)(| of us)(, | - |. )(what does each pay|how much each|each pays)(|?)
(split|share|divide) [a].(25|50|75) (between|among) (two|three|four) (people|friends|of us);i (had|got) [a].(40|70|50) and (gave|lent) my brother [c].50(, |. )(what's left|how much is left)(|?)
round [a].[d]7;what is [a]/[b] as a fraction?;what is -[a] (+|-|*) [c]?;what is the (area|volume) of a (circle|square|cube|ball)(| of size [a])?
"""
        ),
    ),
)


def beyond(source: Source, advert: bool) -> Turn:
    """What is too hard, said honestly."""
    rng = source.rng
    why, answer, frames = one(rng, BEYOND)
    text = frames.draw(source)
    big = one(
        rng,
        (
            10000 + int(rng.random() * 90000),
            10000 + int(rng.random() * 990000),
            10 ** int(4 + rng.random() * 6),
        ),
    )
    slots = {
        "o": "(",
        "p": ")",
        "a": str(1 + int(rng.random() * one(rng, (99, 199, 9999)))),
        "b": str(big),
        "c": str(13 + int(rng.random() * 87)),
        "d": str(2 + int(rng.random() * 98)),
        "e": str(120 + int(rng.random() * one(rng, (880, 9880)))),
        "f": str(100 + int(rng.random() * one(rng, (100, 900, 9900)))),
    }
    more, told = ending(advert)
    thinking = f"A calculation: {fill(why, slots)}. Beyond me.{told}"
    return Turn(
        fill(typed(rng, text), slots), thinking, f"{answer}, so that is beyond me.{more}", "beyond sums"
    )


ABILITY = Frames(
    """
can you (calculate|compute|do maths|do math|count|add|do sums|add numbers|multiply|do arithmetic|subtract)?;are you good (at|with) (maths|math|numbers|sums|arithmetic)?;do you know (math|maths|numbers|the times tables|arithmetic)?
how (well|far|high) can you (count|calculate|add)?;(which|what) (sums|numbers|calculations) can you do?;do you (like|love) (math|maths|numbers|sums)?;I need help with (math|maths|sums|a sum|numbers);(let's|let us) do (some |)(math|maths|sums);(math|maths|calculator)(|?)
"""
)


def ability(source: Source, advert: bool) -> Turn:
    """Whether pocket can calculate."""
    text = typed(source.rng, ABILITY.draw(source))
    answer = (
        "Yes, a little: I add, subtract, multiply and divide whole numbers up to 9999, and count. Try me!"
    )
    return Turn(text, "Asked whether I can calculate. I say what I can.", answer, "sums")


MAKERS: dict[str, tuple[float, Callable[[Source, bool], Turn]]] = {
    "sum": (13, plain_sum),
    "story sum": (5, story),
    "worded sum": (2.5, worded),
    "times": (3.5, times),
    "mixed sum": (2, mixed),
    "double": (1.5, doubling),
    "next": (2.5, neighbour),
    "count": (2.5, counting),
    "compare": (2, comparing),
    "parity": (1, parity),
    "beyond sums": (2.5, beyond),
    "sums": (0.7, ability),
}
