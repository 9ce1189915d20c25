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
    "I introduce myself: [v];"
    "everyone knows me as [v];they christened me [v];I answer to [v];my parents named me [v];"
    "I sign as [v];(it's|it is) [v] (speaking|writing)(|.)",
    "what is my name?;what's my name?;what is my name?;who am I?;what am I called?;"
    f"{RECALL} (my name|who I am|what my name is|what I am called)?;what was my name(| again)?;"
    "what name did I (tell|give) you?;how am I called?;what do people call me?;my name?;"
    "say my name.;what did I say my name was?;which name do I have?;"
    "what should you call me?;I forgot my name. What is it?;"
    "(how|what) (do|did) I (call|introduce) myself?;by what name do (you|people) know me?;"
    "(did I|have I) (mention|mentioned|tell you|told you) my name?;"
    "who are you (talking|speaking|writing) to?;(say|type|spell) my name(| please).;what do I go by?;"
    "what do you call me?;which name did I (use|give|say)?;address me by my name(| please).",
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
    "[v] is where I live;I stay in [v];the city I live in is [v];I reside in [v];"
    "I settled (down |)in [v];I (rent|own) a (flat|house|place|room) in [v];my place is in [v];"
    "you (can |)find me in [v];I make my home in [v];I (write|greet you) from [v], where I live;"
    "I call [v] home;my address is in [v]",
    "where do I live?;where do I live?;where do I live(| again|, please)?;"
    "(which|what) (city|town|place|country) do I live in?;in (which|what) (city|town) do I live?;"
    f"where is my (home|house|flat)?;where am I (living|based)?;{RECALL} where I live?;"
    f"{RECALL} (which|what) (city|town) I live in?;where did I say I live(|d)?;"
    "what (city|town) am I (living|based) in?;what is my (city|town|home town)?;where's my home?;"
    "do you know my (city|town|home town)?;"
    "in which place did I settle?;where is my place?;what place do I call home?;"
    "where have I settled(| down)?;where do I (rent|own|have) (my|a) (flat|house|place)?;"
    "where did I (settle|move)(| to)?;where (do|can) you find me?;"
    "(what|which) (city|town|place) is my home?;where is home for me?",
    "you live in [v]",
    "where they live",
    weight=3,
)
SELF: tuple[Kind, ...] = (
    NAME,
    HOME,
    deed(
        "place",
        "I'm from [v];I am from [v];I come from [v];I am originally from [v];I hail from [v];"
        "my roots are in [v];I (arrived|came) here from [v];[v] is where I come from;I'm a native of [v];"
        "I (left|had to leave) [v] (as a child|years ago|to come here)",
        f"where am I from?;where do I come from?;{RECALL} where I (am|come) from?;"
        "(what|which) (city|country|place|town) am I from?;where am I from originally?;"
        "where are my roots?;(what|which) (place|city|town|country) do I come from?;"
        "what is my place of origin?;where did I (arrive|come) (here |)from?",
        "you are from [v]",
        "where they are from",
        weight=1.2,
    ),
    deed(
        "place",
        "I was born in [v];my birthplace is [v];my place of birth is [v];I was born and raised in [v];"
        "I came into the world in [v];my life began in [v];my mother had me in [v];"
        "(it says|there is) [v] as place of birth in my passport",
        f"where was I born?;{RECALL} where I was born?;what is my (birthplace|place of birth)?;"
        "(in which|in what) (city|place|town) was I born?;which (city|town) was I born in?;"
        "where did I come into the world?;(which|what) place of birth do I have?;where did my life begin?",
        "you were born in [v]",
        "where they were born",
        weight=0.8,
    ),
    deed(
        "place",
        "I grew up in [v];I spent my childhood in [v];"
        "I was raised in [v];my childhood was in [v];I went to school in [v]",
        f"where did I grow up?;{RECALL} where I grew up?;which city did I grow up in?;"
        "where was I raised?;where did I spend my childhood?;where was I as a child?",
        "you grew up in [v]",
        "where they grew up",
    ),
    deed(
        "company",
        "I work (at|for) [v];I work (at|for) [v];my employer is [v];I am employed (at|by) [v];"
        "I (just |)started (working |)(at|for) [v];my company is [v];the company I work for is [v];"
        "I have a (job|position|contract) (at|with) [v];I'm on the staff of [v];[v] (pays|employs) me;"
        "I (got hired|was hired) by [v];I earn my money at [v]",
        f"where do I work?;who do I work for?;{RECALL} (where|who) I work(| for)?;"
        "which (company|place) do I work (for|at)?;what is my (company|employer)?;"
        "what company do I work for?;who is my employer?;"
        "who (pays|employs|hired) me?;where do I (earn my money|have my job)?;"
        "at (which|what) (company|place) am I employed?;(which|what) company am I with?",
        "you work at [v]",
        "where they work",
        weight=1.6,
    ),
    deed(
        "job",
        "I work as a [v];I'm a [v];I am a [v];my job is [v];my profession is [v];"
        "I am a [v] by profession;I earn my living as a [v];by trade I am a [v];"
        "I (trained|qualified) as a [v];I make a living as a [v];"
        "I've been a [v] (for years|since I left school);I became a [v];I got a job as a [v];"
        "(for a living|for work) I am a [v];being a [v] is my job",
        "what is my (job|profession|occupation|work)?;what do I do (for a living|for work)?;"
        f"what do I work as?;what's my job?;{RECALL} (my job|what I do|what my job is)?;"
        "which job do I have?;what do I do?;what am I by profession?;"
        "what do I earn my (money|living) (as|with)?;how do I (make|earn) (a living|my living|my money)?;"
        "(what|which) (line of work|trade|profession) am I in?;what is my line of work?;"
        "what did I (train|qualify) as?;what kind of (work|job) do I do?",
        "your job is [v]",
        "their job",
        weight=2.2,
    ),
    deed(
        "age",
        "I am [v] years old;I'm [v] years old;I am [v];my age is [v];I (just |)turned [v];I'm [v];"
        "I am [v] years of age;I have reached the age of [v];"
        "I turned [v] (last week|this year|in spring);I've been on this earth for [v] years",
        f"how old am I?;what is my age?;what's my age?;{RECALL} (my age|how old I am)?;"
        "how many years old am I?;how old did I say I (am|was)?;"
        "what age (am I|have I reached)?;(which|what) birthday did I have last?;"
        "how many years have I (lived|been alive)?",
        "you are [v] years old",
        "how old they are",
        weight=2.2,
    ),
    deed(
        "foods",
        "I am allergic to [v];I'm allergic to [v];I have a [v] allergy;I have an allergy to [v];"
        "[v] (make|makes) me ill;I can't eat [v], I am allergic;my allergy is [v];"
        "I react to [v];I must not eat [v];I get a rash from [v];my body cannot take [v];"
        "[v] (is|are) poison for me",
        f"what am I allergic to?;{RECALL} (what I am allergic to|my allergy|what my allergy is)?;"
        "what is my allergy?;(do|did) I (have|mention) (any|an) allerg(y|ies)?;"
        "which allergy do I have?;what must I not eat?;"
        "(is there|do you know) (something|anything|a food) I (can't|cannot|should not|"
        "shouldn't) eat?;what (can't|shouldn't) I eat?;what's my allergy?;"
        "am I allergic to (something|anything)?;"
        "what do I react to?;what gives me a rash?;what must I (avoid|keep away from)?;"
        "what (food|thing) is bad for me?",
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
        "we are going on (holiday|vacation) to [v];I will (visit|travel to|fly to) [v];"
        "I (have|bought|got) (a ticket|tickets) to [v];my next (trip|journey) takes me to [v];"
        "I am off to [v] (soon|tomorrow|in summer);"
        "I (leave|set off|depart) for [v] (soon|next week|tomorrow);"
        "I'm spending my (holiday|vacation) in [v]",
        "where am I (going|travelling|flying)(| to| on holiday| on vacation| next)?;"
        f"where (will I go|am I going|do I go) on (holiday|vacation)?;{RECALL} where I am going?;"
        "where is my (holiday|vacation|trip)?;which (city|country|place) am I (visiting|going to)?;"
        "what is my (holiday|travel|vacation) destination?;where am I off to?;"
        "where does my (next |)(trip|journey) take me?;where do I have (a ticket|tickets) to?;"
        "where am I spending my (holiday|vacation)?;where do I (leave|set off|depart) for?",
        "you are going to [v]",
        "where they are going",
        weight=1.2,
    ),
    deed(
        "car",
        "I drive a [v];my car is a [v];I have a [v] as a car;my car is a [v];I own a [v];I bought a [v] car;"
        "I get around in a [v];there is a [v] in my garage;I travel to work in a [v];my vehicle is a [v]",
        "what (car|) do I drive?;which car do I (drive|have|own)?;"
        f"{RECALL} (what|which) car I (drive|have)?;"
        "what (kind|sort|type|make) of car do I (have|drive)?;what is my car?;what's my car?;"
        "what do I drive?;"
        "what is in my garage?;(what|which) vehicle do I (own|have|drive)?;"
        "(what|which) car do I get around in?",
        "you drive a [v]",
        "what they drive",
        weight=0.8,
    ),
    deed(
        "instrument",
        "I play [v];I can play [v];my instrument is [v];I have played [v] (for years|since school);"
        "I practise [v] (every day|every evening|a lot);I'm quite good at [v]",
        "what (instrument |sport |)do I play?;which (instrument|sport) do I play?;"
        f"{RECALL} what I play?;"
        "what can I play?;"
        "what do I practise?;what am I good at?",
        "you play [v]",
        "what they play",
        weight=0.8,
    ),
    deed(
        "activity",
        "my hobby is [v];I do [v] in my free time;I enjoy [v] in my (free|spare) time;"
        "in my free time I (do|like) [v];my main hobby is [v];"
        "I spend my (weekends|evenings|free time) on [v];I am into [v];"
        "[v] (is my passion|is what I do for fun);when I'm off work I do [v];I relax with [v]",
        "what is my hobby?;what do I do in my (free|spare) time?;what's my hobby?;"
        f"{RECALL} my hobby?;which hobby do I have?;do I have a hobby?;"
        "what do I do for fun?;how do I (relax|spend my free time|spend my weekends)?;"
        "what is my passion?;what am I into?",
        "your hobby is [v]",
        "their hobby",
        weight=0.8,
    ),
    deed(
        "language",
        "I speak [v];I can speak [v];my mother tongue is [v];my native language is [v];"
        "I grew up with [v];we talk [v] at home;I am fluent in [v]",
        f"what language do I speak?;which language do I speak?;{RECALL} which language I speak?;"
        "what is my (mother tongue|native language)?;what do I speak?;"
        "what am I fluent in?;what do we talk at home?;in (which|what) language am I at home?",
        "you speak [v]",
        "which language they speak",
    ),
    deed(
        "subject",
        "I study [v];I am studying [v];I'm a student of [v];my subject is [v];I am majoring in [v];"
        "I'm doing a degree in [v];I go to lectures in [v];at university I do [v]",
        f"what do I study?;what am I studying?;which subject do I study?;{RECALL} what I study?;"
        "what is my (subject|major)?;"
        "what am I doing a degree in?;what do I do at university?;what are my lectures in?",
        "you study [v]",
        "what they study",
    ),
    deed(
        "language",
        "I am learning [v];I'm learning [v];I am trying to learn [v];I take lessons in [v];"
        "I am taking up [v];I practise my [v] every day;I go to a [v] class",
        f"what am I learning?;which language am I learning?;{RECALL} what I am learning?",
        "you are learning [v]",
        "what they are learning",
    ),
    deed(
        "title",
        "I am reading [v];I'm reading [v];the book I am reading is [v];right now I am reading [v];"
        "I am halfway through [v];I (started|began) reading [v];on my bedside table lies [v];"
        "my current book is [v]",
        f"what am I reading?;(which|what) book am I reading?;{RECALL} what I am reading?",
        "you are reading [v]",
        "what they are reading",
    ),
    deed(
        "title",
        "I am watching [v];I'm watching [v];I watched [v] (yesterday|last night);"
        "I am hooked on [v];(at night|in the evening) I watch [v]",
        "what am I watching?;(which|what) (film|show|movie) (am|was) I watching?;"
        f"{RECALL} what I am watching?",
        "you are watching [v]",
        "what they are watching",
    ),
    deed(
        "foods",
        "I like [v];I really like [v];I love [v];I am fond of [v];I'm a big fan of [v];"
        "I'm crazy about [v];I can't get enough of [v];I have a weakness for [v];"
        "[v] (is|are) great, I could eat it every day;I'm keen on [v]",
        "what do I (like|love)?;(what|which) (food|dish|thing) do I (like|love)?;"
        f"{RECALL} what I (like|love)?;what did I say I (like|love)(|d)?;"
        "what am I (fond|a fan) of?;"
        "what (am I|was I) (crazy|mad) about?;what do I have a weakness for?;what can't I get enough of?;"
        "what am I keen on?",
        "you like [v]",
        "what they like",
        weight=1,
    ),
    deed(
        "foods",
        "I hate [v];I don't like [v];I dislike [v];I can't stand [v];I do not like [v];"
        "I can't bear [v];I am no fan of [v];I would never touch [v];[v] (is|are) disgusting to me;"
        "I avoid [v]",
        "what do I (hate|dislike)?;"
        "(what|which) (food|dish|thing) do I (hate|dislike|not like)?;"
        f"{RECALL} what I (hate|dislike|don't like)?;"
        "what (do|did) I (say I |)(not like|hate)?;what don't I like?;what can't I stand?;"
        "what can't I bear?;what would I never (touch|eat)?;what am I no fan of?;what do I avoid?;"
        "what disgusts me?",
        "you do not like [v]",
        "what they do not like",
        weight=1,
    ),
    deed(
        "drink",
        "I (always |usually |)drink [v] (in the morning|for breakfast|every day|);I take [v];"
        "my drink is [v];I start the day with [v];it's always [v] for me;I order [v] (every time|everywhere)",
        "what do I (usually |always |)drink?;what do I drink (in the morning|every day)?;"
        f"{RECALL} what I drink?",
        "you drink [v]",
        "what they drink",
    ),
    deed(
        "food",
        "I (had|ate|have) [v] for (breakfast|lunch|dinner|supper);I ate [v];today I ate [v];"
        "there was [v] (for lunch|for dinner|today);I (cooked|made) myself [v];I just finished [v]",
        f"what did I eat(| today)?;what food did I (eat|have)?;{RECALL} what I ate?;what have I eaten?",
        "you ate [v]",
        "what they ate",
    ),
    deed(
        "foods",
        "I need to buy [v];I have to buy [v];I must buy [v];I want to buy [v];I should get [v];"
        "I'm out of [v];I have to pick up [v];I still need [v];[v] (is|are) on my shopping list",
        "what do I (need|have|want) to buy?;what should I buy?;"
        f"{RECALL} what I (need|have|want) to buy?;"
        "what must I buy?",
        "you need to buy [v]",
        "what they need to buy",
        weight=0.7,
    ),
    deed(
        "thing",
        "I collect [v]s;I have a collection of [v]s;I am collecting [v]s;"
        "my shelves are full of [v]s;I hunt for [v]s at flea markets",
        f"what do I collect?;what is in my collection?;{RECALL} what I collect?",
        "you collect [v]s",
        "what they collect",
    ),
    deed(
        "title",
        "I support [v];my team is [v];I am a fan of the team [v];"
        "I cheer for [v];I root for [v];my club is [v];I have a season ticket for [v]",
        f"(which|what) team do I support?;who do I support?;what is my team?;{RECALL} my team?",
        "you support [v]",
        "which team they support",
    ),
    deed(
        "name",
        "I am married to [v];I'm married to [v];I married [v] (last year|years ago|);"
        "my (partner|spouse) is [v];I am with [v];I share my life with [v]",
        f"who am I married to?;who did I marry?;{RECALL} who I am married to?",
        "you are married to [v]",
        "who they are married to",
    ),
    deed(
        "clock",
        "I (get|wake) up at [v];I (always|usually) (get|wake) up at [v];"
        "my alarm (goes|rings) at [v];I (rise|am up|start my day) at [v];I set my alarm for [v]",
        "when do I (get|wake) up?;(at what|what) time do I (get|wake) up?;"
        "when does my alarm (go|ring)?;when do I (rise|start my day)?;(at what|what) time is my alarm?",
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
        "I have [v] (siblings|brothers and sisters);I'm one of many, I have [v] siblings;"
        "I grew up with [v] (siblings|brothers and sisters)",
        "how many (brothers and sisters|siblings) do I have?;how many (brothers and sisters|siblings) "
        "did I grow up with?;(how many|what number of) siblings have I got?",
        "you have [v] siblings",
        "how many siblings they have",
        weight=0.3,
    ),
)

SELF += (
    deed(
        "spot",
        "I parked [v];I parked (the car|my car|the van) [v];I left the car [v];"
        "my car is (standing |waiting |)[v];the car is [v]",
        "where did I park(| the car| my car)?;where did I leave (my|the) car?;"
        f"{RECALL} where I parked?;where is my car parked?;"
        "where is (my|the) car(| standing| waiting)?;where do I find (my|the) car?",
        "you parked [v]",
        "where they parked",
        weight=0.7,
    ),
    deed(
        "subject",
        "I teach [v];I teach [v] at a school;I give lessons in [v];I am a teacher of [v];"
        "my pupils learn [v] from me;my classes are in [v]",
        f"what do I teach?;(which|what) subject do I teach?;{RECALL} what I teach?;"
        "what do my pupils learn from me?;what are my classes in?",
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
        "I live with [v];I share a flat with [v];"
        "my (flatmate|roommate|housemate) is [v];I have a flat together with [v]",
        "who do I live with?;with whom do I live?;who lives with me?;"
        "who is my (flatmate|roommate|housemate)?;who do I share (a flat|a home) with?",
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
