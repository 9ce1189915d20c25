"""Questions about the world and requests that pocket cannot meet: one honest sentence that names the thing."""

# Frames are one line each.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.pocket import words as w
from training.pocket.advert import ending
from training.pocket.frames import Frames, one, typed
from training.pocket.grammar import yours
from training.pocket.phrases import fill
from training.pocket.smalltalk import Exchange, exchange
from training.pocket.turns import Turn
from training.pocket.values import Source, invented, place, thing, title

THEMES = (
    "love;the sea;autumn;spring;dragons;lost robots;space;the moon;time travel;friendship;rain;coffee;the future;war;peace;winter;"
    "wizards;mathematics;climate change;democracy;quantum physics;gravity;black holes;photosynthesis;evolution;relativity;the big bang;"
    "machine learning;neural networks;inflation;the stock market;blockchain;vaccines;DNA;volcanoes;earthquakes;the Roman Empire;"
    "the French Revolution;dinosaurs;electricity;magnets;the internet;rainbows;entropy;recursion;the immune system;philosophy;"
    "the solar system;string theory;transformers;attention;life;history;politics;football;chess;cooking;yoga;astronomy;biology;"
    "chemistry;economics;religion;art;poetry;opera;jazz;solar power;electric cars;the ocean;deserts;bees;whales;wolves;money;taxes;"
    "marriage;sleep;dreams;memory;language;grammar;writing;the weather;clouds;stars;comets;robots;artificial intelligence;privacy;"
    "encryption;computers;keyboards;operating systems;Linux;databases;compilers;programming;design;architecture;bridges;castles;"
    "pirates;knights;trains;planes;bicycles;health;vitamins;sugar;salt;bread;cheese;wine;tea;gardens;roses;trees;forests;rivers"
).split(";")
COUNTRIES = [
    *"France Germany Italy Spain Japan Brazil Canada Australia India China Egypt Peru Norway Kenya Mexico Turkey Poland Russia Greece "
    "Sweden Chile Cuba Nepal Iceland Portugal Ireland Austria Mongolia Bolivia England Switzerland Argentina Finland Denmark Hungary".split(),
    "the USA",
    "the UK",
    "Europe",
    "New Zealand",
    "South Africa",
    "the Netherlands",
]
OF = (
    "capital;population;currency;flag;language;president;king;anthem;size;area;history;highest mountain;longest river;biggest city;"
    "prime minister;climate;food;economy;government;religion;tallest building;oldest city;leader;queen;national animal;founder"
).split(";")
WORKS = "hamlet;faust;don quixote;the telephone;penicillin;the light bulb;the mona lisa;the radio;the internet;python;the pyramids;the eiffel tower;the wheel;dynamite;google;apple;the bible;the steam engine;linux;television;the car;paper".split(
    ";"
)
MADE = "wrote invented discovered painted built composed directed founded designed sang created".split()
PEOPLE = "Einstein;Napoleon;Mozart;Columbus;Shakespeare;Cleopatra;Newton;Darwin;Picasso;Gandhi;Curie;Turing;Beethoven;Caesar;Goethe;Plato;Lincoln;Galileo;Tolstoy;Kafka".split(
    ";"
)
PIECES = "story;essay;haiku;limerick;novel;letter;article;speech;tale;text;report;blog post;poem;song;email;cover letter;summary;review;tweet;headline;slogan;description;play;book;diary entry;love letter;resume;toast".split(
    ";"
)
CODES = "Python Rust JavaScript Java C C++ Go Haskell SQL Bash HTML CSS Swift Ruby TypeScript Kotlin Perl PHP Lua Fortran".split()
TASKS = "sorts a list;reverses a string;adds two numbers;prints hello world;finds primes;reads a file;opens a website;counts words;computes fibonacci numbers;parses JSON;scrapes a page;plays chess;draws a circle;checks a palindrome;sends an email;merges two lists;downloads a file;renames files".split(
    ";"
)
PLACES_IN_TIME = ";today;tomorrow;this week;tonight;next week;now;right now;this weekend;on Monday;on Sunday;in the morning".split(
    ";"
)
VERBS_DO = (
    "bake a cake;cook pasta;make bread;fix a bike;build a house;repair a chair;clean a sink;grow tomatoes;draw a cat;make soup;boil an egg;"
    "lose weight;become rich;learn the piano;fall asleep;get fit;make money;find a job;stop smoking;be happy;learn faster;invest money;"
    "meet people;tie a tie;change a tyre;plant a tree;paint a wall;iron a shirt;write a book;start a company;train a dog;play chess;"
    "play the guitar;speak in public;remember names;learn a language;sleep better;save water;read faster;fly a kite;catch a fish;"
    "remove a stain;open a jar;make friends;quit my job;buy a house;sell a car;run a marathon;do a handstand;swim;dance;sing;juggle"
).split(";")
ACTIONS = (
    "play music;play a song;book a flight;book a hotel;order a pizza;call a taxi;send an email;set an alarm;set a timer;open a website;"
    "search the web;check the news;browse the internet;turn on the light;turn off the radio;make a phone call;buy tickets;reserve a table;"
    "plan a trip;plan a party;draw a picture;draw a cat;make an image;paint a house;show a photo;play a video;generate a logo;make a chart;"
    "run a program;run code;install an app;delete a file;create a folder;print a page;restart the computer;take a screenshot;read a website;"
    "open a door;make coffee;cook dinner;clean the house;walk the dog;feed the cat;do the laundry;wash the car;write an email;post a tweet;"
    "check the calendar;add an event;translate a text;summarize a text;summarize an article;proofread a letter;correct a text;fix code;"
    "review code;debug a program;solve an equation;do homework;write an essay;prepare an exam;read a book;watch a film;make a list;"
    "make a table;make a plan;look something up;find a restaurant;find a recipe;recommend a film;recommend a book;compare prices;pay a bill"
).split(";")
WHEN_DONE = "tomorrow;on Friday;on Monday morning;for two;for four people;at eight;tonight;for Saturday night;next week;by noon;at 6:30;under 200 euros;with a view;for three nights;this afternoon;in the kitchen;from the shop;as soon as possible".split(
    ";"
)
ROLES = "a pirate;a doctor;Shakespeare;a teacher;an expert;a child;Yoda;a lawyer;a cat;a robot;a poet;a king;a detective;my boss;a chef;a therapist;a wizard;an alien;a coach;a linux terminal;a comedian;a philosopher;a judge".split(
    ";"
)
GOODS = "book;film;movie;restaurant;song;game;hotel;playlist;recipe;gift;dish;wine;series;podcast;museum;city;laptop;phone;name;hobby;present;cocktail;walk;beach;dessert;sport;plant".split(
    ";"
)
LISTED = "animals;planets;countries;books;prime numbers;ideas;rivers;cities;movies;synonyms;presidents;elements;fruits;mountains;composers;painters;languages;colours of the rainbow;bands;inventions;philosophers;birds;trees;islands;oceans;continents".split(
    ";"
)
WHENS = "the war;world war two;the wall;Rome;the Titanic;the internet;the moon landing;the plague;the revolution;the ice age;the olympics;the first film;the renaissance;the gold rush;the iron age;the world cup".split(
    ";"
)
ENDS = "end;begin;happen;start;fall;take place;stop;come;burn;sink".split(";")
SUBJECT = "the sky blue;the sea salty;grass green;the sun hot;the moon round;the night dark;the earth round;snow white;blood red;ice cold;sugar sweet;the ocean deep;fire hot;glass clear;gold expensive;water wet".split(
    ";"
)
CREATURES = "birds;cats;people;leaves;dogs;bees;stars;whales;babies;owls;flowers;trees;clouds;bats;cows;fish;frogs;bears".split(
    ";"
)
DOINGS = "sing;dream;purr;shine;fall;bark;sleep;exist;fly;burn;die;cry;grow;swim;dance;hide;migrate;laugh;smell;glow".split(
    ";"
)
MEASURES = "far;long;tall;old;big;deep;heavy;hot;high;fast;cold;wide;expensive;bright;large;rare".split(";")
MEASURED = "the moon;the sun;the earth;Mount Everest;the Nile;the Eiffel Tower;the universe;a whale;Jupiter;the ocean;light;an elephant;a blue whale;the Amazon;Mars;an atom;a cheetah;a year on Mars;the Great Wall;gold".split(
    ";"
)
HOW_MANY = "people;planets;countries;stars;bones;legs;states;days;languages;continents;islands;inhabitants;oceans;species;moons;cities;keys;teeth;insects;lakes;museums;atoms".split(
    ";"
)
WHERE_IN = "in the world;in the solar system;in a year;in the sea;in a human;in space;on earth;in a forest;on a piano;in a galaxy".split(
    ";"
)
WORDS = "bonjour;danke;hola;ciao;amore;sayonara;carpe diem;merci;bitte;ubiquitous;serendipity;ephemeral;stoic;zeitgeist;laissez-faire;modulo;per se;ad hoc;gestalt;karma;saudade;hygge".split(
    ";"
)
TO_SAY = "hello;good morning;I love you;thank you;cat;water;good night;how are you;goodbye;please;one beer;yes;the bill;happy birthday;where is the station;my name is Anna;sorry;friend".split(
    ";"
)


def theme(rng: Random) -> str:
    """What one may talk about: a known theme, any thing, or a word that nobody knows."""
    chance = rng.random()
    if chance < 0.6:
        return one(rng, THEMES)
    if chance < 0.85:
        return f"{one(rng, w.ADJECTIVES)} {one(rng, w.NOUNS)}s"
    return one(rng, (invented(rng), f"{invented(rng)} {one(rng, w.NOUNS)}s"))


def pick(pool: list[str]) -> Callable[[Random], str]:
    """A source that takes from a list."""
    return lambda rng: one(rng, pool)


def action(rng: Random) -> str:
    """Something to be done, from a list or put together, where or when now and then."""
    deed = plain_action(rng)
    while rng.random() < 0.25:
        deed += f" {one(rng, (*WHEN_DONE, f'to {one(rng, w.PLACES)}', f'in {one(rng, w.PLACES)}'))}"
    return deed


FOODS = "milk;bread;eggs;cat food;coffee;bananas;batteries;flowers;rice;stamps".split(";")
LATE = "late;on my way;at home;ill today;at the door;not coming;in a meeting;stuck in traffic".split(";")


def plain_action(rng: Random) -> str:
    """Something to be done."""
    if rng.random() < 0.2:
        whom = one(rng, (one(rng, w.NAMES), f"my {one(rng, w.PEOPLE)}"))
        reach = one(
            rng, ("email", "text", "call", "phone", "message", "write to", "ring", "remind", "tell", "invite")
        )
        what = one(
            rng,
            ("", "", f"about the {thing(rng)}", f"to buy {one(rng, FOODS)}", f"that I am {one(rng, LATE)}"),
        )
        return f"{reach} {whom} {what}".rstrip()
    if rng.random() < 0.6:
        return one(rng, ACTIONS)
    verb = one(
        rng,
        (
            "open",
            "find",
            "move",
            "clean",
            "sell",
            "bring",
            "paint",
            "fix",
            "buy",
            "send",
            "call",
            "book",
            "check",
            "wash",
            "print",
            "draw",
            "design",
            "order",
            "hide",
            "count",
        ),
    )
    return f"{verb} {one(rng, ('the', 'a', 'every', 'that'))} {thing(rng)}"


def how(rng: Random) -> str:
    """Something one may want to learn to do."""
    if rng.random() < 0.7:
        return one(rng, VERBS_DO)
    return f"{one(rng, ('make', 'build', 'clean', 'repair', 'paint', 'grow', 'sell', 'choose', 'carry', 'open'))} a {thing(rng)}"


SLOTS: dict[str, Callable[[Random], str]] = {
    "t": theme,
    "c": lambda rng: one(rng, COUNTRIES) if rng.random() < 0.75 else place(rng),
    "city": place,
    "of": pick(OF),
    "work": lambda rng: one(rng, WORKS) if rng.random() < 0.7 else title(rng),
    "made": pick(MADE),
    "who": pick(PEOPLE),
    "piece": pick(PIECES),
    # Small talk has a story, a poem and a song of its own.
    "text": pick(
        [each for each in PIECES if each not in ("story", "poem", "song", "tale", "haiku", "limerick")]
    ),
    "code": pick(CODES),
    "task": pick(TASKS),
    "when": pick(PLACES_IN_TIME),
    "how": how,
    "do": action,
    "role": pick(ROLES),
    "good": pick(GOODS),
    "list": pick(LISTED),
    "event": pick(WHENS),
    "end": pick(ENDS),
    "why": pick(SUBJECT),
    "creature": pick(CREATURES),
    "doing": pick(DOINGS),
    "measure": pick(MEASURES),
    "measured": lambda rng: one(rng, MEASURED) if rng.random() < 0.7 else f"a {thing(rng)}",
    "many": pick(HOW_MANY),
    "in": pick(WHERE_IN),
    "word": lambda rng: one(rng, WORDS) if rng.random() < 0.6 else invented(rng),
    "say": pick(TO_SAY),
    "lang": lambda rng: one(rng, w.LANGUAGES),
    "count": pick("two three four five six seven ten some all twenty".split()),
}

CANNOT = (
    exchange(
        "the weather in a place",
        "I cannot see the weather in [city] from here.",
        "(what is|what's|how is|tell me) the (weather|temperature|forecast)(| like) in [city](| [when])?;(will|does|did) it (rain|snow|be hot|be sunny|freeze) in [city](| [when])?;weather in [city](|?);how (hot|cold|warm) is it in [city](| [when])?;is it (raining|sunny|cold|snowing|warm) in [city](| [when])?;do I need an umbrella in [city](| [when])?;the [city] weather(|?)",
        2,
        True,
    ),
    exchange(
        "the weather",
        "I cannot look outside, so I do not know the weather.",
        "(what is|what's|how is|tell me) the (weather|temperature|forecast)(| like)(| [when])?;(will|is) it (rain|going to rain|going to snow|be sunny|be hot)(| [when])?;is it (raining|sunny|cold|snowing|warm)(| outside| now| there)?;(do|will) I need (an umbrella|a coat|sunglasses)(| [when])?;weather(|?| report| forecast);how (hot|cold|warm) is it(| outside| today)?",
        1.5,
        True,
    ),
    exchange(
        "the time or the date",
        "I have no clock, so I cannot tell the time or the date.",
        "what (time|day|year|date|month) is it(| now| today| in [c]| there)?;(tell|give) me the (time|date)(| please);(what is|what's) (the time|today's date|the date|the day today|today)(| now| please)?;(which|what) (day|month|year) (is it|do we have|are we in)(| today)?;(is it|what) (late|early|monday|weekend|already evening|noon)(|?);do you (know|have) (the time|a clock|what time it is|what day it is)?;how late is it?;when is (easter|christmas|the next full moon)(| this year)?",
        1.5,
        True,
    ),
    exchange(
        "the news",
        "I hear no news here, because I know only this conversation.",
        "(what is|what's) (new|happening) in (the world|[c]|[city])(| today| now)?;(what is|what's|any) (the news|in the news|news)(| in (the world|[c]|[city]))(| today| now)?;(tell|give|show|read) me the (news|latest news|headlines)(| of today| from [c]| please);who won (the world cup|the election|the game|the match|the super bowl|the olympics)(| today| last year| in [c])?;(did|have) you (hear|heard|see|seen) (the news|about [c])(|?);(latest|today's) (news|headlines)(| from [c]| please);what (happened|is going on) in [c](| today| this week)?;(how is|what is) the (stock market|price of bitcoin|dollar|exchange rate)(| today| now)?",
        1.5,
        True,
    ),
    exchange(
        "a question about a country",
        "I do not know the world, so I cannot tell you the [of] of [c].",
        "(what is|what's|tell me|what was|who is|do you know) the [of] of [c](| please)?;(the |)[of] of [c](|?);(I want|I need|I'd like) to know the [of] of [c];(which|what) [of] (does|has) [c](| have)?;(can|could) you tell me the [of] of [c]?;what do you know about the [of] of [c]?;name the [of] of [c];and the [of] of [c]?;[c] [of](|?)",
        3,
        True,
    ),
    exchange(
        "who did a thing",
        "I do not know who [made] [work], sorry.",
        "who [made] [work]?;(can|could) you tell me who [made] [work]?;do you know who [made] [work]?;(tell|remind) me who [made] [work](| please);who was it that [made] [work]?;by any chance, who [made] [work]?;I wonder who [made] [work];and who [made] [work]?",
        2,
        True,
    ),
    exchange(
        "a person of the world",
        "I do not know anything about [who], sorry. You can tell me.",
        "(who is|who was|tell me about|what do you know about|do you know) (the famous |the great |)[who](|?);(when|where) was (the famous |the great )[who] born?;what did (the famous |the great )[who] (do|write|invent|say)?;(why is|how old is|is|was) (the famous |the great )[who] (famous|dead|real|alive)?;have you heard of [who]?;who (exactly |)(is|was) (this |that )[who]?",
        1.5,
        True,
    ),
    exchange(
        "an explanation",
        "I am too small to explain [t], sorry.",
        "(explain|describe|teach me|summarize|define|illustrate) [t](| to me| in simple words| to a child| briefly| in detail| step by step| please);(tell me|talk|say something) about [t](| please);(can|could) you (explain|describe|tell me about|teach me) [t](| please| to me)?;(how|why) (do|does) [t] (work|matter|exist)?;what do you know about [t]?;(I want|I'd like|I need) to (learn|know|understand) (more |)about [t];give me (a summary|an explanation|a lesson|an introduction|an overview) of [t];(do you know|have you heard) (anything |something |)(about|of) [t]?;(help me|I don't) understand [t];what (is|are) (the basics of|the idea of|the point of|so special about|the history of) [t]?;why (is|are) [t] important?;what (exactly |)(is|are) [t]?",
        4,
        True,
    ),
    exchange(
        "an opinion",
        "I have no opinion about [t], but I would like to hear yours.",
        "what (is|are) your (opinion|view|thoughts|take|position) (on|about) [t]?;what do you (think|believe|feel) about [t]?;(do you|are you) (agree with|for|against|believe in|support|worried about|interested in) [t]?;(how|what) do you feel about [t]?;is [t] (good|bad|dangerous|important|overrated|a problem|the future)?;(should|must) we (fear|stop|support|ban|allow|protect|trust) [t]?;(tell|give) me your (opinion|view|thoughts) (on|about|of) [t];[t]: good or bad?;(discuss|let's talk about|let us discuss|can we talk about) [t](|?)",
        2.5,
        True,
    ),
    exchange(
        "a request to write",
        "I am too small to write a [piece] about [t].",
        "(write|compose|make|give me|create|make up|draft|generate|prepare) (me |us |)a (short |long |nice |funny |good |)[piece] (about|on) [t](| please| for me);(can|could|will|would) you (write|make|compose|create|draft) (me |)a (short |funny |nice |)[piece] (about|on) [t](| for me| please)?;(I need|I want|I would like) a (short |funny |)[piece] (about|on) [t];a [piece] about [t](,|) please;(please |)(write|make) a [piece](. It should be|) about [t];help me (write|with) a [piece] (about|on) [t];how about a [piece] about [t]?",
        3,
        True,
    ),
    exchange(
        "a request to write",
        "I am too small to write a [text], sorry.",
        "(write|compose|create|draft|generate|prepare) (me |us |)a (short |long |nice |funny |good |formal |)[text](| please| for me| for my boss| for my friend);(can|could|will|would) you (write|compose|draft) (me |)a (short |funny |nice |)[text](| for me| please)?;(I need|I want) (you to write |)a (short |formal |)[text];help me (write|with) (a|my) [text];(finish|improve|rewrite|shorten|proofread|correct|edit) my [text](| please)",
        1.5,
        True,
    ),
    exchange(
        "a request for code",
        "I am too small to write [code].",
        "(write|give me|show me|I need|make|generate|create) (a|some|me a) [code] (program|script|code|function|class|snippet)(| that [task]| please| for me);(can|could) you (write|code|program|read|do|understand|explain) (in |)[code](| code)?;(write|show me) (a |)(code|function|program|script) (that|which) [task] in [code];how do I (write|learn|install|use|debug|compile|start with) (a loop in |code in |a function in |)[code]?;do you know [code]?;(fix|debug|review|explain|refactor|check) (my|this) [code] (code|program|function|script);(how|what) (is|does) (a loop|a class|a function|a list|a variable) (written |work |)in [code]?;[code] (code|program) (please|that [task]|for this);(teach|help) me (with |to write |)[code]",
        2.5,
        True,
    ),
    exchange(
        "a request for code",
        "I am too small to write code, sorry.",
        "can you (code|program|write code|write programs|write a program|debug|do programming)(| for me)?;(are you|do you) (good at|know about|a|like) (coding|programming|programmer|code)(|?);(write|give me|show me|make) (some |)(code|a program|a function|a script|an app|a website|a regex|an algorithm)(| that [task]| please| for me);(fix|debug|review|explain|refactor|check) (my|this|the following) (code|program|function|bug|script)(| please);(do you|can you) (know|use|understand) (programming languages|git|regex|algorithms|code)(|?);(can|could) you (build|make|develop) (an app|a website|a game|software)(| for me)?;(what|which) programming languages do you (know|speak)?;I need (a program|a script|help with my code|a programmer)",
        2,
        True,
    ),
    exchange(
        "a translation",
        "I speak only English well, so I cannot translate that into [lang].",
        '(translate|say|put) "[say]" (in|to|into) [lang](|?);how (do|would) (you|I|they) say "[say]" in [lang]?;what is "[say]" in [lang]?;(translate|can you translate) (this|that|something|a text|my text|a word|the sentence)(| for me) (into|to) [lang](|?);"[say]" in [lang](|?);(what is|what\'s) the [lang] (word|phrase|translation) for "[say]"?;how do you write "[say]" in [lang]?;(please |)give me the [lang] for "[say]"',
        2,
        True,
    ),
    exchange(
        "the meaning of a word",
        "I do not know what [word] means, sorry.",
        '(what does|what\'s the meaning of|what is the meaning of) ("|)[word]("|) (mean|stand for|)(| in english)?;define (the word |)[word];what does (the word |)[word] mean?;(meaning|definition) of [word](|?);what is a [word]?;(explain|do you know) the word [word](|?);how (is|do you) (spell|pronounce|spelled|pronounced) [word]?;what does [word] stand for?',
        1.5,
        True,
    ),
    exchange(
        "how to do a thing",
        "I do not know how to [how], sorry.",
        "how (do|can|could|should|would) (I|you|we|one|people) [how]?;(tell|teach|show) me how to [how](| please);how to [how](|?);(what is|what's) the (best|easiest|fastest) way to [how]?;(I want|I need|I'd like|I am trying) to [how];(give me|do you have) (tips|advice|instructions|ideas|a plan) to [how](|?);(can|could) you (teach|tell|help) me (how |)to [how]?;(explain|describe) how to [how];(is it|how) (hard|easy|difficult|possible) (is it |)to [how]?;what do I need to [how]?;should I [how]?;I don't know how to [how]",
        3,
        True,
    ),
    exchange(
        "an action",
        "I cannot [do]: I can only talk with you.",
        "(can|could|will|would) you (please |)[do](| for me| now| today| please)?;(please |)[do](| for me| now| today|!);(I want|I need|I would like) you to [do](| for me| now);(help me|could you help me) [do](|?);(go and|now|just) [do](|!);are you able to [do]?;do you know how to [do]?;is it possible that you [do]?;would you mind if I asked you to [do]?;why can't you [do]?",
        3.5,
        True,
    ),
    exchange(
        "a role to play",
        "I cannot play [role]: I am only pocket.",
        "(act|behave|talk|speak|answer|write|respond) (as|like) [role](| now| please| from now on| for a while);(pretend|imagine) (that |)you are [role](| now);(you are|be|play|become) [role](| now| from now on| for me);(I want you to|can you|could you) (be|play|act like|act as|pretend to be) [role](|?);from now on you are [role];let's pretend that you are [role];what would [role] (say|do)?",
        1.5,
        True,
    ),
    exchange(
        "a recommendation",
        "I do not know the world, so I cannot recommend a [good]. Do you know a good one?",
        "(recommend|suggest|find|name|tell me) (me |)a (good |nice |new |cheap |great |)[good](| to me| for me| please| for tonight| in [city]);(can|could) you (recommend|suggest|find) (me |)a (good |nice |new |)[good](| for me| in [city])?;(what is|what's) (a|the best) (good |nice |)[good](| in [city]| for beginners| to try)?;(which|what) [good] (should|shall|can|could) I (take|choose|try|buy|get|visit)(| next| today)?;I (need|want|am looking for) a (good |new |nice |)[good](| in [city]);(any|some) (ideas|suggestions|tips|recommendations) for a (good |)[good](|?);do you know a (good |nice |cheap |)[good](| in [city])?",
        2.5,
        True,
    ),
    exchange(
        "a list",
        "I do not know the world, so I cannot list [list], sorry.",
        "(list|name|give me|tell me|write down|show me) [count] [list](| in [c]| please| for me);(what are|which are|what) [count] [list](| of [c])?;(can|could) you (list|name|give me) [count] [list](| in [c])?;(I need|I want) (a list of |)[count] [list];[count] [list](,|) please;a list of [list](| in [c]| please);how many [list] (do you know|can you name)?",
        2,
        True,
    ),
    exchange(
        "a year or a date of history",
        "I do not know when that was: I know little about the world.",
        "when did [event] [end]?;(what|which) year did [event] [end]?;when was [event]?;(do you know|can you tell me|tell me) when [event] was(|?);(how long|why) did [event] (last|take|happen|end)?;(tell me about|what do you know about|what was) [event](|?);(what happened|what was) (in|after|before) (1969|1492|1789|1945|1989|2001|[event])(|?);(in which|what) year was [event]?;who won [event]?;(when|where) (is|was|did) [event] (take place|begin)?",
        1.5,
        True,
    ),
    exchange(
        "a why",
        "I would like to know that, too, but I am too small to explain it.",
        "why is [why]?;why (are|do) [creature] [doing]?;(how|why) (can|do|don't) [creature] [doing](| at night| in winter)?;(do you know|can you tell me|tell me|explain|I wonder) why [creature] [doing](|?);(can|do|will) [creature] [doing](| too)?;what makes [creature] [doing]?;(do you know|explain|can you explain) why [creature] (do not|don't|never|always) [doing](|?);how come [creature] [doing]?;what do [creature] (eat|do|like|think)(| at night)?;where do [creature] (live|sleep|go|come from)(| in winter)?",
        2,
        True,
    ),
    exchange(
        "a measure",
        "I do not know how [measure] that is, sorry.",
        "how [measure] is [measured]?;(do you know|can you tell me|tell me|I wonder) how [measure] [measured] is(|?);how [measure] (can|does|did|will) [measured] (get|become|grow)?;(is|what is) [measured] very [measure](|?);how [measure] (would|might) [measured] be?;and how [measure] is [measured]?",
        2,
        True,
    ),
    exchange(
        "a count of the world",
        "I do not know how many [many] there are, sorry.",
        "how many [many] (are there|exist|live|are)(| [in]| in [c])?;(do you know|can you tell me|tell me|I wonder) how many [many] there are(| [in]| in [c])(|?);(what is|what's) the number of [many](| [in]| in [c])?;(number|amount) of [many] (in [c]|[in])(|?);how many [many] (does|has) [c](| have)?;count (the|all) [many] [in]",
        1.5,
        True,
    ),
    exchange(
        "a comparison",
        "I am too small to compare [t] with [t2].",
        "(compare|contrast) [t] (and|with|to) [t2](| please);(what is|what's) the difference between [t] and [t2]?;(what|which) is (better|older|more important|harder|cheaper|more useful|nicer)(:|,) [t] or [t2]?;[t] or [t2](, what is better|)?;(how|in what way) (do|are) [t] and [t2] (differ|different|similar|related|alike)?;what do [t] and [t2] have in common?;(explain|describe) the (difference|connection|relation) between [t] and [t2]",
        1.5,
        True,
    ),
    exchange(
        "advice",
        "I am too small to give good advice. Please ask somebody who knows.",
        "(give|can you give|could you give) me (some |)(medical |legal |financial |good |)advice(|?);(what should|should) I (do|buy bitcoin|marry|move|study|quit|call a doctor|see a doctor|sell my car|sue them|take medicine|eat|wear)(| now| about it| today| with my life)?;(what|which) (medicine|pill|drug|doctor|treatment) (helps|should I take|is good)(| for [t]| against a cold)?;(what are|what is) (the symptoms|the causes|the cure) of (a cold|the flu|cancer|diabetes|covid)?;is it (safe|healthy|dangerous|legal|allowed|bad|good) to [how]?;how do I (know if|tell whether) (I am ill|she likes me|I am in love|it is serious)?;(I need|I want) (your |)(advice|counsel|guidance)(| on [t]);can I (take|mix|eat|drink) (aspirin|alcohol|this|mushrooms)(| with medicine| every day)?",
        1.3,
        True,
    ),
    exchange(
        "a task with a text",
        "I am too small to work with texts, sorry.",
        "(summarise|summarize|shorten|rewrite|rephrase|proofread|correct|improve|paraphrase|analyse|analyze|translate|read|check|explain) (this|the|my|the following|a|that) (text|article|book|paragraph|page|email|sentence|paper|document|letter|chapter|essay)(| for me| please|:);(can|could|will) you (summarise|summarize|shorten|rewrite|rephrase|proofread|correct|improve|translate) (this|the|my|a) (text|article|book|paragraph|page|email|sentence|paper|document|letter)(| for me| please)?;(what does|tell me what) (this|the) (text|article|letter|page) (say|says|mean|means)(|?);(check|correct|fix) my (grammar|spelling|english|writing)(| please);make (this|my text|it) (shorter|longer|better|more formal|nicer)(| please);give me a summary of (this|the) (text|article|book)",
        1.5,
        True,
    ),
    exchange(
        "the internet",
        "I cannot browse the internet: I run alone on your machine.",
        "(can|could|do|are) you (browse|search|use|access|read|surf|connected to|see|visit) (the |)(internet|web|websites|wikipedia|google|news sites)(|?);(search|google|look up|look for|find|browse) [t] (on the internet|online|on the web|on google|on wikipedia);(search|browse|look on|check) (the web|the internet|google|wikipedia)(| for [t]| please);(google|look up|bing) [t](| please| for me);(open|visit|go to|read) (google|wikipedia|youtube|my email|a website|the website)(| please);what does (wikipedia|google|the internet) say about [t]?;find (information|something|everything) (about|on) [t]",
        1.5,
        True,
    ),
    exchange(
        "a word game",
        "I read words in pieces, so I cannot do that with letters.",
        "(spell|reverse|scramble|rhyme|hyphenate) (the word |)[word](| backwards| for me| please);how many (letters|vowels|syllables|words|consonants) (are|has|does|are there) (in |)(the word |)[word](| have)?;(what|which) (words rhyme|rhymes) with [word]?;(write|say|spell) [word] (backwards|in capitals|in reverse|letter by letter);(what is|give me) (a synonym|an antonym|a rhyme|the plural|the opposite|an anagram) (of|for|to) [word](|?);(find|make) (a word|words) (that|which) (rhyme|rhymes) with [word];(what|which) letter does [word] (begin|start|end) with?;does [word] (rhyme|begin|start) with [t]?;(say|recite|write) the alphabet(| backwards| please)",
        1.2,
        True,
    ),
)
SLOTS["t2"] = theme
# What no larger model could tell either, so that the advert would not help.
NOT_BY_SIZE = (
    "the weather in a place",
    "the weather",
    "the time or the date",
    "the news",
    "an action",
    "the internet",
)
ORDER: list[Exchange] = [each for each in CANNOT for _ in range(int(each.weight * 4))]


def open_question(source: Source, advert: bool) -> Turn:
    """A question or request that pocket answers honestly, once with the advert."""
    rng = source.rng
    found = one(rng, ORDER)
    text = found.frames.draw(source)
    slots = {
        slot: make(rng) for slot, make in SLOTS.items() if f"[{slot}]" in text or f"[{slot}]" in found.reply
    }
    if source.near and "city" in slots and rng.random() < 0.5:
        slots["city"] = one(rng, source.near)
    if "my" in slots.get("how", "") or "my" in slots.get("role", ""):
        slots = {key: value.replace("my ", "the ") for key, value in slots.items()}
    text = fill(typed(rng, text), **slots)
    # "I cannot write to your boss".
    reply = fill(found.reply, **slots | {"do": yours(slots.get("do", ""))})
    if found.thinking in NOT_BY_SIZE:
        return Turn(text, f"An open request: {found.thinking}. I cannot.", reply, "open")
    more, told = ending(advert)
    return Turn(text, f"An open request: {found.thinking}. Too hard for me.{told}", reply + more, "open")


VIEWS = Frames(
    """
(I think|I believe|in my opinion|some say|everybody says|it seems to me|my feeling is) (that |)[t] (will change the world|changed everything|can save us|went too far|deserve more attention|get too much attention)
[t] (changed|will change|ruined|run|saved|shaped) (the world|everything|our lives|my generation);(people|we|they|most of us) (talk too much about|never think about|should care about|need|forget|misunderstand) [t]
the world needs (more|less) (of |)[t];there is too (much|little) talk about [t](| these days);nobody (talks about|understands|cares about|needs) [t](| any more);(honestly|frankly|well), [t] (bore|fascinate|scare|surprise) me
I (read|heard|saw) (a lot|something|an article|a film) about [t](| today| yesterday);I (have been|was|am) thinking about [t](| a lot| lately);I am (interested in|worried about|tired of|curious about) [t]
[t] (make|makes) me (think|happy|nervous|sad);everything is about [t] (now|today|these days);I can't stop (thinking|reading|talking) about [t];what a topic: [t]
"""
)


def view(source: Source, advert: bool) -> Turn:
    """What somebody thinks about the world."""
    about = theme(source.rng)
    text = fill(typed(source.rng, VIEWS.draw(source), dressed=False), t=about)
    return Turn(
        text, "A view of theirs. I ask for more.", f"That is interesting. Tell me more about {about}.", "talk"
    )


MAKERS: dict[str, tuple[float, Callable[[Source, bool], Turn]]] = {
    "open": (22, open_question),
    "view": (2, view),
}
