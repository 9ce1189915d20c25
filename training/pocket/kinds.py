"""Kinds of facts about things, and how each is told, asked for and answered.

Slots: [x] the thing as the user names it, [n] the same without "my", [y] as the assistant names
it, [is] is or are, [v] the value. A question's topic is read "The user asks for TOPIC".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of fact: patterns for the user's side, fixed sentences for the assistant's."""

    things: str
    values: str
    tell: tuple[str, ...]
    ask: tuple[str, ...]
    says: str
    topic: str
    missing: str = ""
    weight: float = 1.0
    who: bool = False

    @property
    def lack(self) -> str:
        """What has not been told, in "You have not told me …"."""
        return self.missing or self.topic


TELL_IS = (
    "[x] [is] [v]",
    "[x] [is] [v]",
    "[x] [is] [v]",
    "[v] [is] [x]",
    "[x]: [v]",
    "[x] = [v]",
)
ASK_IS = (
    "(what is|what's|what [is]) [x](| again| please)?",
    "what [is] [x]?",
    "what [is] [x]?",
    "(do|can) you (remember|recall|tell me|still know) what [x] [is]?",
    "do you (remember|recall|know|still know|still have) [x]?",
    "(tell|remind) me what [x] [is](| please).",
    "(please |)(tell me|give me|repeat|remind me of|say) [x](| again).",
    "(can|could) you (tell me|give me|remind me of|repeat) [x](| please)?",
    "what (did I say|did I tell you) [x] (was|is)?",
    "what (was|were) [x](| again)?",
    "(and |so |ok, |)what about [x]?",
    "[x]?",
    "I forgot [x](.|. What is it?|, what was it?|, can you tell me?)",
    "[n](| please)?",
    "(and|what about|how about|so) (the|my) [n]?",
    "(which|what) [n] did I (tell you|mention|say)?",
    "(what is|what's) the [n]?",
    "(I would like to|I need to|I want to|let me) know [x](| please).",
    "any idea what [x] [is]?",
    "(which|what) [n] (is it|was it|is mine|did I have)?",
    "what (sort|kind|type|make) of [n] (do I have|is it|have I got)?",
    "(do|can) you (still |)(remember|recall|know) (the|my) [n]?",
    "I (can't|cannot) remember [x]. (Can you help?|What was it?|Do you know it?)",
)
TELL_NAME = (
    "[x] is (called|named) [v]",
    "[x] is (called|named) [v]",
    "[x]'s name is [v]",
    "[x]'s name is [v]",
    "(the|) name of [x] is [v]",
    "I have a [n] (called|named) [v]",
    "I have a [n] (called|named) [v]",
    "I have a [n](, |. (His|Her|Its) name is | and (he|she|it) is called |; (he|she) is )[v]",
    "I've got a [n] (called|named|, his name is|, her name is|whose name is|with the name) [v]",
    "[v] is [x](|'s name)",
    "[x] is [v]",
    "[x], [v], is (very funny|so sweet|quite old|here with me|sleeping|really nice|visiting today)",
    "[x] [v] is (very funny|so sweet|quite old|here with me|asleep|really nice|coming over)",
    "we call [x] [v]",
    "(everyone calls|I call|we named|I named) [x] [v]",
    "there is [x], (his|her|its) name is [v]",
    "(I live|I am here|I spent the day|I went out|I am at home) with [x] [v]",
    "I (love|like|miss|called|met|saw|visited) [x] [v](| yesterday| today| a lot)",
    "[v], [x], (is here|is asleep|called me|visited me|is great)",
    "[v] is (what we call|the name we gave) [x]",
    "[x] (has|got) the name [v]",
    "I have a [n](, |; |. )(he's|she's|it's|he is|she is) (called|named) [v]",
)
TELL_PET = (
    "we (have|got|own|adopted) a [n](,| called| named|. Its name is|; we call it) [v]",
    "I (got|own|adopted|bought) a [n] (named|called|, it is called|and named it|and called it) [v]",
    "I (just |recently |)(got|bought|adopted) a (new |little |)[n] (named|called|and called it) [v]",
    "[x] answers to [v]",
    "[v] is (the name of|what I call) [x]",
    "I (feed|walk|love) [x] [v] (every day|every morning|a lot)",
    "(at home|here) I have a [n], [v]",
    "(we|I) (got|bought|adopted|found) a [n] (last week|yesterday|recently|last year|"
    "today) and (named|called) (him|her|it) [v]",
    "(we|I) (got|bought|adopted) a [n] and (named|called) (him|her|it) [v]",
    "(we|I) named (the|our|my) (new |)[n] [v]",
)
ASK_NAME = (
    "what is [x]'s name?",
    "what's [x]'s name(| again)?",
    "what is [x] (called|named)?",
    "what's [x] called?",
    "what is the name of [x]?",
    "do you (remember|know|recall) ([x]'s name|the name of [x]|what [x] is called|who [x] is)?",
    "(please |)(tell|remind) me ([x]'s name|what [x] is called|the name of [x]|of [x]'s name).",
    "(can|could) you (tell|remind) me ([x]'s name|what [x] is called|who [x] is)?",
    "who is [x]?",
    "who's [x](| again)?",
    "what did I (say [x]'s name was|call [x]|say [x] was called|name [x])?",
    "what name (does [x] have|did I give [x])?",
    "which name does [x] have?",
    "what was [x]('s name| called|'s name again)?",
    "(and |)[x]'s name?",
    "(the |)name of [x]?",
    "how is [x] called?",
    "(and|what about|how about) (the|my) [n]?",
    "(the |my |)[n]('s name|)(| please)?",
    "name of (the|my) [n](|, please| please)?",
    "(what is|what's) (the|my) [n] (called|named)?",
    "what did (we|I) (name|call) (the|my) [n]?",
    "how did (I|we) (name|call) (the|my) [n]?",
    "what do (you think|I call) [x](| is called)?",
    "by (what|which) name do I call [x]?",
    "(what|which) name has [x]?",
    "any idea what [x] is called?",
    "I want to know [x]'s name",
    "[x] is (called|named)(?| what?)",
    "I forgot [x]'s name(.|. What is it?|, what was it?|, can you help?)",
)

OPEN = Kind(
    "noun",
    "any",
    TELL_IS,
    ASK_IS,
    "[y] [is] [v]",
    "[y]",
    weight=5,
)
NUMBER = Kind(
    "numbered",
    "number",
    (
        *TELL_IS,
        "the (number|code|digits) for [x] (is|are) [v]",
        "I (have|got|use|was given) [v] as [x]",
        "I (chose|picked|set|took) [v] (as|for) [x]",
        "[x] (would be|will be|has to be) [v]",
        "[x] [v]",
    ),
    (*ASK_IS, "which (number|code|one) is [x]?", "what number is [x]?"),
    "[y] [is] [v]",
    "[y]",
    weight=3,
)
PET = Kind(
    "pet",
    "pet",
    TELL_NAME + TELL_PET,
    ASK_NAME,
    "[y] is called [v]",
    "the name of [y]",
    "[y]'s name",
    weight=2.5,
    who=True,
)
PERSON = Kind(
    "person",
    "name",
    TELL_NAME,
    ASK_NAME,
    "[y] is called [v]",
    "the name of [y]",
    "[y]'s name",
    weight=2.5,
    who=True,
)
FAVOURITE = Kind(
    "category",
    "any",
    (
        "[x] is [v]",
        "[x] is [v]",
        "[v] is [x]",
        "I (like|love) [v] (most|best) (of all|as a [c])",
        "the [c] (I like best|I love most|I like most|I prefer) is [v]",
        "[v] is the [c] I like (best|most)",
        "(when it comes to|for) [c], I (prefer|like|choose|love) [v]",
        "as for [x], it (is|'s) [v]",
        "of all [c]s, I like [v] (best|most)",
        "if I have to choose a [c], I (take|choose|say) [v]",
        "the best [c] is [v]",
    ),
    (
        *ASK_IS,
        "(which|what) [c] do I (like best|like most|love|prefer|like the most|like)?",
        "(which|what) [c] is my favou(r|r)ite?",
        "what is (the|) [c] I like (best|most)?",
        "what's my fav [c]?",
        "what did I say my favourite [c] was?",
        "do you (know|remember) (which|what) [c] I (like best|like most|like|love|prefer)?",
    ),
    "[y] is [v]",
    "[y]",
    weight=3,
)
PLACED = Kind(
    "object",
    "spot",
    (
        "[x] [is] [v]",
        "I (put|left|hid|keep|placed|store|stored|parked|dropped) [x] [v]",
        "I (put|left|hid|keep|stored) [x] [v]",
        "you (can|will) find [x] [v]",
        "[x] can be found [v]",
        "there is [x] [v]",
        "(Tom|she|he|someone|my wife) put [x] [v]",
    ),
    (
        "where [is] [x](| now| again)?",
        "where [is] [x]?",
        "where did I (put|leave|hide|park|store|place) [x]?",
        "where do I keep [x]?",
        "do you (know|remember|recall) where [x] [is]?",
        "do you (know|remember) where I (put|left|hid) [x]?",
        "(tell|remind) me where [x] [is](| please).",
        "(can|could) you tell me where [x] [is]?",
        "where (was|were) [x](| again)?",
        "where can I find [x]?",
        "where did I say [x] (was|were|is)?",
        "I (can't find|lost|am looking for) [x]. Where [is] (it|[x])?",
        "in which place [is] [x]?",
    ),
    "[y] [is] [v]",
    "where [y] [is]",
    weight=2,
)
EVENT = Kind(
    "event",
    "when",
    (
        "[x] is [v]",
        "[x] is [v]",
        "[x] (starts|takes place|will be|is scheduled|was moved to be|begins|happens) [v]",
        "[x] (leaves|departs|arrives|ends|starts) [v]",
        "I have a [n] [v]",
        "I have a [n] [v]",
        "I've got a [n] [v]",
        "I have to (go to|be at) [x] [v]",
        "there is a [n] [v]",
        "we have a [n] [v]",
        "[v] I have a [n]",
        "[v] is [x]",
        "I am (going to|attending|having) a [n] [v]",
        "I (booked|scheduled|planned|got) a [n] [v]",
        "[x]: [v]",
        "[x] (got|has been|was) (moved|changed|rescheduled|pushed|shifted) to [v]",
        "I've (booked|planned) a [n] [v]",
    ),
    (
        "when is [x](| again)?",
        "when is (the|my) [n]?",
        "when (does|do) (the|my) [n] (start|begin|take place|leave|depart|end)?",
        "(what|which) (day|time) is (the|my) [n]?",
        "when do I have to be at (the|my) [n]?",
        "(when's|when is) that [n]?",
        "(the |my |)[n] is when?",
        "when do I need to (go|leave) (to|for) [x]?",
        "when is [x]?",
        "when's [x]?",
        "(what time|what day|which day) is [x]?",
        "(on which day|at what time|on what day) is [x]?",
        "when do I have (a [n]|[x])?",
        "when (does [x] start|will [x] be|did I say [x] was|do I need to be at [x]|was [x])?",
        "what (time|day) (does [x] start|did I say for [x])?",
        "do you (remember|know|recall) when [x] is?",
        "(tell|remind) me when [x] is(| please).",
        "(can|could) you (tell|remind) me when [x] is?",
        "when am I (having|going to) [x]?",
    ),
    "[y] is [v]",
    "when [y] is",
    weight=2,
)
DATE = Kind(
    "birthday",
    "date",
    ("[x] is (on |)[v]", "[x] is [v]", "[x]: [v]", "[v] is [x]", "[x] falls on [v]"),
    (
        "when is [x]?",
        "when is [x]?",
        "when's [x](| again)?",
        "on which day is [x]?",
        "do you (remember|know) when [x] is?",
        "(tell|remind) me when [x] is.",
        "what (date|day) is [x]?",
        "what is the date of [x]?",
    ),
    "[y] is on [v]",
    "when [y] is",
)
WORD = Kind(
    "token",
    "any",
    (
        "(remember|keep in mind|memorise|memorize|note|save|store) (the|this) [n](:|) [v]",
        "the [n] (is|to remember is|for today is) [v]",
        "[x] is [v]",
        "(here is|this is) (the|a) [n]: [v]",
        "I (want|need|would like) you to remember the [n] [v]",
        "(remember|memorise|keep) [v] as [x]",
    ),
    (
        *ASK_IS,
        "(which|what) [n] did I (ask you to remember|tell you|give you|want you to remember)?",
        "(which|what) [n] (should|did) you (remember|save|store|keep in mind)?",
        "what was [x] (I told you|I gave you|again|I asked you to remember)?",
        "what [n] was it?",
    ),
    "[y] is [v]",
    "[y]",
    weight=1.5,
)
COMPOUND = Kind(
    "compound",
    "number",
    (
        "the [h] (for|of|to) (my|the) [t] is [v]",
        "the [h] (for|of|to) (my|the) [t] is [v]",
        "[x] is [v]",
        "(my|the) [t]'s [h] is [v]",
        "(my|the) [t] has (the |)[h] [v]",
        "[v] is the [h] (for|of) (my|the) [t]",
        "(remember|save|note|keep) [v] as the [t] [h]",
        "for (my|the) [t] the [h] is [v]",
    ),
    (
        "(what is|what's) the [h] (for|of|to) (my|the) [t]?",
        "(what is|what's) (my|the) [t] [h](| again)?",
        "[t] [h](| please)?",
        "(which|what) [h] (does|has) (my|the) [t](| have)?",
        "(tell me|give me|remind me of|I need|I forgot) (the|my) [t] [h].",
        "do you (remember|know) the [h] (for|of) (my|the) [t]?",
        "what [h] do I need for (my|the) [t]?",
        "how do I open the [t]? I need the [h]",
    ),
    "[y] is [v]",
    "[y]",
    weight=2.5,
)
SHADE = Kind(
    "object",
    "colour",
    (
        "[x] [is] [v]",
        "[x] [is] [v]",
        "I (painted|dyed) [x] [v]",
        "the (colour|color) of [x] is [v]",
        "I (have|own|bought|got) a [v] [n]",
        "I have a [v] [n]",
        "I have a [v] [n]",
        "(we have|I've got) a [v] [n]",
    ),
    (
        "(what|which) (colour|color) [is] [x]?",
        "(what|which) (colour|color) (does [x] have|did I paint [x])?",
        "what is the (colour|color) of [x]?",
        "do you (know|remember) (what|which) (colour|color) [x] [is]?",
    ),
    "[y] [is] [v]",
    "the colour of [y]",
    weight=1.6,
)
MANY = Kind(
    "several",
    "pair",
    (
        "(I have|I've got) ([k]|[k]|some) [n](, |: |. They are called | called | named |"
        ". Their names are )[v]",
        "[x] are (called|named) [v]",
        "(the names of [x]|[x]'s names) are [v]",
        "[v] are (the names of |)[x]",
        "we (have|got|own) [k] [n](, |: |. They are called | called | named )[v]",
        "[x] are [v]",
        "my [k] [n] are (called |)[v]",
        "I have [k] [n], [v]",
        "I have [k] [n] (who are |)(called|named) [v]",
        "I'm (the mother|the father|a parent|the owner) of [k] [n], [v]",
    ),
    (
        "what are [x] called?",
        "what are the names of [x]?",
        "what are [x]'s names?",
        "who are [x]?",
        "how many [n] do I have?",
        "how many [n] (do I have|have I got|did I mention)(| again)?",
        "do I have (any |)[n]?",
        "(do you remember|tell me|do you know) (what [x] are called|the names of [x])?",
        "names of [x]?",
        "how are [x] called?",
        "what did I (call|name) [x]?",
    ),
    "your [k] [n] are called [v]",
    "the names of [y]",
    "the names of [y]",
    weight=1,
)
MEET = Kind(
    "someone",
    "when",
    (
        "I'm (meeting|seeing|visiting) [x] [v]",
        "I am (meeting|seeing|visiting) [x] (for (lunch|dinner|coffee|a drink)|) [v]",
        "I'm meeting [x] for (lunch|dinner|coffee|breakfast|a walk|drinks) [v]",
        "I (will see|see|meet|will meet|visit|am going to see) [x] [v]",
        "[x] (is coming|comes|will come|is visiting me|visits me|arrives) [v]",
    ),
    (
        "when (am I|are we) (meeting|seeing|visiting) [x](| again)?",
        "when (do|will|should|can) I (see|meet|visit) [x](| again)?",
        "(what day|what time|at what time|which day) (do|will) I (see|meet) [x]?",
        "when (does [x] come|is [x] coming|will [x] come|does [x] arrive)?",
        "(do you remember|tell me|remind me) when I (meet|see|am meeting) [x]?",
    ),
    "you meet [y] [v]",
    "when they meet [y]",
    weight=1.2,
)
DISH = Kind(
    "dish",
    "food",
    (
        "[x] is [v]",
        "I like [v] (most|best)",
        "I love to eat [v]",
        "I like to eat [v] (best|most)",
        "the (food|dish|meal) I (like|love) (most|best) is [v]",
        "I (really |)love eating [v]",
    ),
    (
        "what do I (like|love) to eat(| most| best| the most)?",
        "what is my favourite (food|dish|meal)?",
        "(which|what) (food|dish|meal) do I (like|love)(| most| best)?",
        "what do I like eating(| most| best)?",
        "what's my favou(r|)rite food?",
        "what should I eat? What do I like?",
    ),
    "[y] is [v]",
    "[y]",
    weight=0.8,
)
LIST = Kind(
    "list",
    "foods",
    (
        "[x]: [v]",
        "[x] is [v]",
        "(on|to) [x] (are|is|I put|I wrote|there is|goes) [v]",
        "(put|write|add|note) [v] (on|to) [x]",
        "[x] (has|contains|says|includes) [v]",
        "I (put|wrote|have|added) [v] (on|to) [x]",
        "[v] (are|is|go) on [x]",
    ),
    (
        "what is on [x]?",
        "what's on [x](| again)?",
        "(tell me|read|show me|repeat|give me) [x](| please).",
        "what (did I put|do I have|have I got) on [x]?",
        "what (does [x] say|is in [x]|was on [x])?",
        "(do you know|do you remember) what is on [x]?",
    ),
    "on [y] is [v]",
    "what is on [y]",
    weight=0.8,
)
