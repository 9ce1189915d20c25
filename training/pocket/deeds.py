"""Kinds of facts about what the user and other people are and do; kinds.py has those about things."""

from __future__ import annotations

from training.pocket.kinds import Kind


def deed(
    values: str, tell: str, ask: str, says: str, topic: str, things: str = "", weight: float = 0.4
) -> Kind:
    """A kind from patterns that are parted by semicolons."""
    parts = tuple(p.strip() for p in tell.split(";")), tuple(p.strip() for p in ask.split(";"))
    return Kind(things, values, *parts, says, topic, weight=weight)


RECALL = "(do you (know|remember|recall)|can you tell me|(tell|remind) me)"

NAME = deed(
    "name",
    "my name is [v];my name's [v];my name is [v];I am [v];I'm [v];call me [v];"
    "(you can|please|just|everyone can) call me [v];this is [v];[v] is my name;people call me [v];"
    "my (friends|parents) call me [v];I go by [v];the name is [v];I am called [v];[v] here;"
    "(hi|hello|hey)(,|!) (I'm|I am|my name is|this is|it's) [v];my first name is [v];"
    "I introduce myself: [v]",
    "what is my name?;what's my name?;what is my name?;who am I?;what am I called?;"
    f"{RECALL} (my name|who I am|what my name is|what I am called)?;what was my name(| again)?;"
    "what name did I (tell|give) you?;how am I called?;what do people call me?;my name?;"
    "say my name.;what did I say my name was?;which name do I have?;"
    "what should you call me?;I forgot my name. What is it?",
    "your name is [v]",
    "their name",
    weight=4,
)
HOME = deed(
    "place",
    "I live in [v];I live in [v];I'm living in [v];I (just |recently |)moved from [u] to [v];"
    "I used to live in [u](, but | but |, )now I live in [v];I left [u] and (now live in|moved to) [v];"
    "I no longer live in [u], I live in [v];I live in [v] (now|these days|since last year);"
    "my (home|house|flat|apartment) is in [v];home is [v];I (just |recently |)moved to [v];"
    "I am based in [v];I live (near|close to) [v];I have lived in [v] for (years|a while|ages);"
    "I live in the (city|town|village) of [v];my (city|town|home town) is [v];"
    "[v] is where I live;I stay in [v];the city I live in is [v];I reside in [v]",
    "where do I live?;where do I live?;where do I live(| again|, please)?;"
    "(which|what) (city|town|place|country) do I live in?;in (which|what) (city|town) do I live?;"
    f"where is my (home|house|flat)?;where am I (living|based)?;{RECALL} where I live?;"
    f"{RECALL} (which|what) (city|town) I live in?;where did I say I live(|d)?;"
    "what (city|town) am I (living|based) in?;what is my (city|town|home town)?;where's my home?;"
    "do you know my (city|town|home town)?",
    "you live in [v]",
    "where they live",
    weight=3,
)
SELF: tuple[Kind, ...] = (
    NAME,
    HOME,
    deed(
        "place",
        "I'm from [v];I am from [v];I come from [v];I am originally from [v];I hail from [v]",
        f"where am I from?;where do I come from?;{RECALL} where I (am|come) from?;"
        "(what|which) (city|country|place|town) am I from?;where am I from originally?",
        "you are from [v]",
        "where they are from",
        weight=1.2,
    ),
    deed(
        "place",
        "I was born in [v];my birthplace is [v];my place of birth is [v];I was born and raised in [v]",
        f"where was I born?;{RECALL} where I was born?;what is my (birthplace|place of birth)?;"
        "(in which|in what) (city|place|town) was I born?;which (city|town) was I born in?",
        "you were born in [v]",
        "where they were born",
        weight=0.8,
    ),
    deed(
        "place",
        "I grew up in [v];I spent my childhood in [v]",
        f"where did I grow up?;{RECALL} where I grew up?;which city did I grow up in?",
        "you grew up in [v]",
        "where they grew up",
    ),
    deed(
        "company",
        "I work (at|for) [v];I work (at|for) [v];my employer is [v];I am employed (at|by) [v];"
        "I (just |)started (working |)(at|for) [v];my company is [v];the company I work for is [v]",
        f"where do I work?;who do I work for?;{RECALL} (where|who) I work(| for)?;"
        "which (company|place) do I work (for|at)?;what is my (company|employer)?;"
        "what company do I work for?;who is my employer?",
        "you work at [v]",
        "where they work",
        weight=1.6,
    ),
    deed(
        "job",
        "I work as a [v];I'm a [v];I am a [v];my job is [v];my profession is [v];"
        "I am a [v] by profession;I earn my living as a [v];by trade I am a [v]",
        "what is my (job|profession|occupation|work)?;what do I do (for a living|for work)?;"
        f"what do I work as?;what's my job?;{RECALL} (my job|what I do|what my job is)?;"
        "which job do I have?;what do I do?;what am I by profession?",
        "your job is [v]",
        "their job",
        weight=2.2,
    ),
    deed(
        "age",
        "I am [v] years old;I'm [v] years old;I am [v];my age is [v];I (just |)turned [v];I'm [v]",
        f"how old am I?;what is my age?;what's my age?;{RECALL} (my age|how old I am)?;"
        "how many years old am I?;how old did I say I (am|was)?",
        "you are [v] years old",
        "how old they are",
        weight=2.2,
    ),
    deed(
        "foods",
        "I am allergic to [v];I'm allergic to [v];I have a [v] allergy;I have an allergy to [v];"
        "[v] (make|makes) me ill;I can't eat [v], I am allergic;my allergy is [v]",
        f"what am I allergic to?;{RECALL} (what I am allergic to|my allergy|what my allergy is)?;"
        "what is my allergy?;(do|did) I (have|mention) (any|an) allerg(y|ies)?;"
        "which allergy do I have?;what must I not eat?;"
        "(is there|do you know) (something|anything|a food) I (can't|cannot|should not|"
        "shouldn't) eat?;what (can't|shouldn't) I eat?;what's my allergy?;"
        "am I allergic to (something|anything)?",
        "you are allergic to [v]",
        "what they are allergic to",
        weight=1.2,
    ),
    deed(
        "place",
        "I am going to [v] (on holiday|on vacation|for my holiday|next week|next month|"
        "this summer);"
        "I'm (flying|travelling|traveling|going) to [v] (soon|on holiday|this summer|next month|);"
        "my (holiday|vacation|next trip) (is|will be) in [v];I (booked|planned) a trip to [v];"
        "we are going on (holiday|vacation) to [v];I will (visit|travel to|fly to) [v]",
        "where am I (going|travelling|flying)(| to| on holiday| on vacation| next)?;"
        f"where (will I go|am I going|do I go) on (holiday|vacation)?;{RECALL} where I am going?;"
        "where is my (holiday|vacation|trip)?;which (city|country|place) am I (visiting|going to)?;"
        "what is my (holiday|travel|vacation) destination?;where am I off to?",
        "you are going to [v]",
        "where they are going",
        weight=1.2,
    ),
    deed(
        "car",
        "I drive a [v];my car is a [v];I have a [v] as a car;my car is a [v];I own a [v];I bought a [v] car",
        "what (car|) do I drive?;which car do I (drive|have|own)?;"
        f"{RECALL} (what|which) car I (drive|have)?;"
        "what (kind|sort|type|make) of car do I (have|drive)?;what is my car?;what's my car?;"
        "what do I drive?",
        "you drive a [v]",
        "what they drive",
        weight=0.8,
    ),
    deed(
        "instrument",
        "I play [v];I can play [v];my instrument is [v];I have played [v] (for years|since school)",
        "what (instrument |sport |)do I play?;which (instrument|sport) do I play?;"
        f"{RECALL} what I play?;"
        "what can I play?",
        "you play [v]",
        "what they play",
        weight=0.8,
    ),
    deed(
        "activity",
        "my hobby is [v];I do [v] in my free time;I enjoy [v] in my (free|spare) time;"
        "in my free time I (do|like) [v];my main hobby is [v]",
        "what is my hobby?;what do I do in my (free|spare) time?;what's my hobby?;"
        f"{RECALL} my hobby?;which hobby do I have?;do I have a hobby?",
        "your hobby is [v]",
        "their hobby",
        weight=0.8,
    ),
    deed(
        "language",
        "I speak [v];I can speak [v];my mother tongue is [v];my native language is [v]",
        f"what language do I speak?;which language do I speak?;{RECALL} which language I speak?;"
        "what is my (mother tongue|native language)?;what do I speak?",
        "you speak [v]",
        "which language they speak",
    ),
    deed(
        "subject",
        "I study [v];I am studying [v];I'm a student of [v];my subject is [v];I am majoring in [v]",
        f"what do I study?;what am I studying?;which subject do I study?;{RECALL} what I study?;"
        "what is my (subject|major)?",
        "you study [v]",
        "what they study",
    ),
    deed(
        "language",
        "I am learning [v];I'm learning [v];I am trying to learn [v];I take lessons in [v]",
        f"what am I learning?;which language am I learning?;{RECALL} what I am learning?",
        "you are learning [v]",
        "what they are learning",
    ),
    deed(
        "title",
        "I am reading [v];I'm reading [v];the book I am reading is [v];right now I am reading [v]",
        f"what am I reading?;(which|what) book am I reading?;{RECALL} what I am reading?",
        "you are reading [v]",
        "what they are reading",
    ),
    deed(
        "title",
        "I am watching [v];I'm watching [v];I watched [v] (yesterday|last night)",
        "what am I watching?;(which|what) (film|show|movie) (am|was) I watching?;"
        f"{RECALL} what I am watching?",
        "you are watching [v]",
        "what they are watching",
    ),
    deed(
        "foods",
        "I like [v];I really like [v];I love [v];I am fond of [v];I'm a big fan of [v]",
        "what do I (like|love)?;(what|which) (food|dish|thing) do I (like|love)?;"
        f"{RECALL} what I (like|love)?;what did I say I (like|love)(|d)?;"
        "what am I (fond|a fan) of?",
        "you like [v]",
        "what they like",
        weight=1,
    ),
    deed(
        "foods",
        "I hate [v];I don't like [v];I dislike [v];I can't stand [v];I do not like [v]",
        "what do I (hate|dislike)?;"
        "(what|which) (food|dish|thing) do I (hate|dislike|not like)?;"
        f"{RECALL} what I (hate|dislike|don't like)?;"
        "what (do|did) I (say I |)(not like|hate)?;what don't I like?;what can't I stand?",
        "you do not like [v]",
        "what they do not like",
        weight=1,
    ),
    deed(
        "drink",
        "I (always |usually |)drink [v] (in the morning|for breakfast|every day|);I take [v]",
        "what do I (usually |always |)drink?;what do I drink (in the morning|every day)?;"
        f"{RECALL} what I drink?",
        "you drink [v]",
        "what they drink",
    ),
    deed(
        "food",
        "I (had|ate|have) [v] for (breakfast|lunch|dinner|supper);I ate [v];today I ate [v]",
        "what did I (eat|have)(| today| for breakfast| for lunch| for dinner)?;"
        f"{RECALL} what I ate?;what have I eaten?",
        "you ate [v]",
        "what they ate",
    ),
    deed(
        "foods",
        "I need to buy [v];I have to buy [v];I must buy [v];I want to buy [v];I should get [v]",
        "what do I (need|have|want) to buy?;what should I buy?;"
        f"{RECALL} what I (need|have|want) to buy?;"
        "what must I buy?",
        "you need to buy [v]",
        "what they need to buy",
        weight=0.7,
    ),
    deed(
        "thing",
        "I collect [v]s;I have a collection of [v]s;I am collecting [v]s",
        f"what do I collect?;what is in my collection?;{RECALL} what I collect?",
        "you collect [v]s",
        "what they collect",
    ),
    deed(
        "title",
        "I support [v];my team is [v];I am a fan of the team [v]",
        f"(which|what) team do I support?;who do I support?;what is my team?;{RECALL} my team?",
        "you support [v]",
        "which team they support",
    ),
    deed(
        "name",
        "I am married to [v];I'm married to [v];I married [v] (last year|years ago|)",
        f"who am I married to?;who did I marry?;{RECALL} who I am married to?",
        "you are married to [v]",
        "who they are married to",
    ),
    deed(
        "clock",
        "I (get|wake) up at [v];I (always|usually) (get|wake) up at [v]",
        "when do I (get|wake) up?;(at what|what) time do I (get|wake) up?",
        "you get up at [v]",
        "when they get up",
    ),
    deed(
        "digits",
        "I have [v] (children|kids);there are [v] (children|kids) in my family",
        "how many (children|kids) do I have?;do you know how many (children|kids) I have?",
        "you have [v] children",
        "how many children they have",
        weight=0.5,
    ),
    deed(
        "digits",
        "I have [v] (brothers|siblings|sisters)",
        "how many (brothers|siblings|sisters) do I have?",
        "you have [v] siblings",
        "how many siblings they have",
        weight=0.3,
    ),
)

SELF += (
    deed(
        "spot",
        "I parked [v];I parked (the car|my car|the van) [v];I left the car [v]",
        "where did I park(| the car| my car)?;where did I leave (my|the) car?;"
        f"{RECALL} where I parked?;where is my car parked?",
        "you parked [v]",
        "where they parked",
        weight=0.7,
    ),
    deed(
        "subject",
        "I teach [v];I teach [v] at a school;I give lessons in [v];I am a teacher of [v]",
        f"what do I teach?;(which|what) subject do I teach?;{RECALL} what I teach?",
        "you teach [v]",
        "what they teach",
    ),
    deed(
        "spot",
        "I am sitting [v];I sit [v];I am [v];I'm [v] right now",
        f"where am I(| right now| now| sitting)?;{RECALL} where I am?",
        "you are [v]",
        "where they are",
    ),
    deed(
        "name",
        "I live with [v];I share a flat with [v]",
        "who do I live with?;with whom do I live?;who lives with me?",
        "you live with [v]",
        "who they live with",
    ),
    deed(
        "drink",
        "I drink [v];I like to drink [v];I love to drink [v]",
        "what do I (like|love) to drink?;what do I drink?;which drink do I like?",
        "you drink [v]",
        "what they drink",
    ),
)
SELF += (
    deed(
        "year",
        "I was born in [v];my (year of birth|birth year) is [v];I was born in the year [v];"
        "I came into the world in [v]",
        f"when was I born?;(what|which) year was I born(| in)?;{RECALL} when I was born?;"
        "what is my (year of birth|birth year)?;"
        "in (what|which) year was I born?",
        "you were born in [v]",
        "the year when they were born",
        weight=0.7,
    ),
    deed(
        "trait",
        "I am [v];I'm [v];I am [v];I'm [v];I happen to be [v];I have always been [v]",
        f"am I [v]?;am I [v]?;what am I?;{RECALL} (whether I am [v]|what I am)?;did I say that I am [v]?",
        "you are [v]",
        "whether they are [v]",
        weight=1.0,
    ),
)
