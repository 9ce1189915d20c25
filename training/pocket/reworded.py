"""Puts what is asked in other words: synonyms, small words left out, courtesies around it.

Every meaning has a few dozen wordings by hand. A model that sees each of them a thousand times learns them
by heart, and takes what nobody wrote for something else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from random import Random

from training.pocket.frames import OPENERS, TAILS, one
from training.pocket.passages import content
from training.pocket.slips import words_of

# Each of a line's phrases may stand for any other of it, whatever is around them.
GENERAL = """
how do i;how can i;how to;how would i;how does one;how could i;how am i supposed to;how should i;how might i
can i;could i;may i;am i able to;is it possible to;is there a way to;will i be able to
can you;could you;are you able to;will you;would you;can u;could u
i'd like to know;i want to know;i would like to know;let me know;i wonder
show me;let me see;display;let me look at;i want to see;bring up
where do i find;where can i find;where do i see;where would i find;where should i look for
what is;what's;whats
who is;who's;whos
i want to;i'd like to;i wish to;i need to;i would like to;i wanna;i'm trying to;i am trying to
i can't;i cannot;i am unable to;i cant
i don't know;i do not know;i have no idea;dunno;i've no idea
this chat;this conversation;this talk;this session;this discussion
our chat;our conversation;our talk;our discussion
my chats;my conversations;my talks;my sessions
old chats;old conversations;earlier talks;previous sessions;earlier chats;older conversations
messages;texts
your reply;your answer;your response;ur answer
replies;answers;responses
the program;the app;the application;the tool;the software;this program;this app;this tool
quit;exit;leave;close;get out of
delete;remove;erase;get rid of;throw away;wipe;trash
save;store;preserve
saved;stored;preserved;written down
find;look up;locate;look for;search for
begin;start
stop;halt;interrupt;break off
continue;go on;carry on;proceed;keep going
go back;return;get back;come back;jump back
earlier;previous;older;former
change;alter;modify;adjust
choose;pick;select
turn off;switch off;disable;deactivate
turn on;switch on;enable;activate
commands;instructions
buttons;shortcuts;keys
settings;options;preferences
files;documents
folder;directory
computer;machine;pc;laptop;device
bigger;larger;stronger
fast;quick;speedy
slow;sluggish
happens;occurs
allowed;permitted
the internet;the web;the net;the network;internet
private;confidential
clever;smart;intelligent;bright
stupid;dumb;silly;foolish;daft
great;wonderful;amazing;awesome;fantastic;brilliant;superb;excellent
nice;lovely;pleasant
funny;amusing;hilarious
terrible;awful;horrible;dreadful
boring;dull;tedious
exhausted;worn out;knackered;dead tired
a human;a human being;a real person;a person;somebody real
a robot;a bot;a machine;a computer;a computer program;an ai;a chatbot
are you;r u;are u
you are;you're;ur;youre;u are
i am;i'm;im
it is;it's;its
that is;that's;thats
do not;don't;dont
does not;doesn't;doesnt
cannot;can't;cant
who made;who created;who built;who developed;who invented;who programmed
your name;ur name
you remember;you recall;you still know
i think;i believe;i guess;i suppose;i reckon
a poem;some verses;a rhyme;a limerick
a story;a tale;a short story
an essay;an article;a report
explain;describe
recommend;suggest;advise
book a;reserve a;get me a
the weather;the forecast
the news;the headlines
a movie;a film;a flick
a song;a track;a tune
hello;hi;hey;hiya;hullo;hi there;hello there;hey there
goodbye;bye;bye bye;see you;so long;farewell;cya;ciao
thanks;thank you;thx;ty;cheers;many thanks;ta
sorry;apologies;my apologies;pardon
please;pls;plz;kindly
ok;okay;k;alright
really;truly;honestly
very;really;quite;extremely;terribly
a lot;very much;so much;heaps;loads
a bit;a little;slightly;somewhat;kind of
right now;now;at the moment;just now;currently;at present
always;all the time;every time;constantly
again;once more;another time;one more time
maybe;perhaps;possibly
huge;enormous;very big
everything;all of it;it all
someone;somebody;anyone;anybody
talking to;speaking to;chatting with;talking with;speaking with;writing to
talk to;speak to;chat with;talk with;speak with
mate;buddy;pal;dude
question;query
problem;trouble;issue
wrong;incorrect;mistaken
"""
# Nearly the same thing in every sentence: good for what is told and for questions about it, too.
STRICT = (Path(__file__).parent / "synonyms.txt").read_text(encoding="utf-8")
SUMS = """
plus;increased by;added to;together with
minus;take away;decreased by;reduced by;lowered by
times;multiplied by;multiplied with
divided by;split by;over
what is;what's;calculate;work out;compute;how much is;what do i get for;figure out;solve
"""
# Left out in haste, or by those whose English is not good.
SMALL = frozenset(
    """
    a an the please just really so do does is are to of for some any this that there well then now it am be
    """.split()
)
LOSS = 0.3


VOWELS = "aeiou"
WORD = re.compile(r"\[[^\[\]]*\]|[\w'’]+")
# A part of a path, an address, a number or a longer word is none.
BEFORE, AFTER = re.compile(r"[/@.\-]\Z"), re.compile(r"[/@\-]|\.\w")


@lru_cache
def thesaurus(text: str) -> tuple[dict[str, list[str]], int]:
    """What may stand for each phrase of a list, and the words of the longest one."""
    others: dict[str, list[str]] = {}
    for line in text.strip().splitlines():
        phrases = line.split(";")
        for phrase in phrases:
            others.setdefault(phrase, []).extend(each for each in phrases if each != phrase)
    return others, max(len(WORD.findall(phrase)) for phrase in others)


def synonymous(rng: Random, text: str, groups: str, kept: set[str], share: float) -> str:
    """The text with a share of its phrases replaced, the longest first, but for slots and `kept` words."""
    others, most = thesaurus(groups)
    words = list(WORD.finditer(text))
    said, done, place = [], 0, 0
    while place < len(words):
        start, count = words[place].start(), 1
        for count in range(min(most, len(words) - place), 0, -1):
            end = words[place + count - 1].end()
            if text[start:end].lower() in others:
                break
        phrase = text[start:end]
        found = phrase.lower() in others and not (BEFORE.search(text, 0, start) or AFTER.match(text, end))
        fit = others[phrase.lower()] if found else []
        if fit and place and words[place - 1][0].lower() in ("a", "an"):
            fit = [each for each in fit if (each[0] in VOWELS) == (phrase[0].lower() in VOWELS)]
        if fit and rng.random() < share and not kept & words_of(phrase):
            other = one(rng, fit)
            said += [text[done:start], other[:1].upper() + other[1:] if text[start].isupper() else other]
            done = end
        place += count if found else 1
    return "".join([*said, text[done:]])


def hasty(rng: Random, text: str, kept: set[str]) -> str:
    """The text without some of its small words; never without all of them."""
    said = text.split()
    left = [
        word
        for word in said
        if word.lower() not in SMALL or word.lower() in kept or "[" in word or rng.random() >= LOSS
    ]
    return " ".join(left) if len(left) > 1 and "\n" not in text else text


def reworded(rng: Random, text: str, kept: set[str], groups: str, taken: frozenset[str] = frozenset()) -> str:
    """A message as somebody else might put it, nearly half of the time; `kept` words stay as they are.

    As it is where a fresh word would be one of those `taken` by something else. Only with GENERAL are small
    words lost and courtesies put around it.
    """
    chance = rng.random()
    if chance < 0.55:
        return text
    other = synonymous(rng, text, groups, kept, one(rng, (0.3, 0.6, 1.0)))
    if (content(other) - content(text)) & taken:
        return text
    text = other
    if groups is not GENERAL:
        return text
    if chance > 0.85:
        text = hasty(rng, text, kept)
    if chance < 0.6:
        opener = one(rng, OPENERS)
        text = opener + (text if text[:1] == "I" or text[:2].isupper() else text[:1].lower() + text[1:])
    elif chance < 0.64 and text[-1:] in ".?!" and "[" not in text[-3:]:
        text = text.rstrip(".?!") + one(rng, TAILS)
    return text
