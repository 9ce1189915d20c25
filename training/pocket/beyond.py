"""Requests that pocket cannot meet, in many wordings, and its one honest reply."""

from __future__ import annotations

from training.pocket.about import REAL

THINKING = "The user asks for something that I cannot do. I say so honestly."
REPLY = f"I am pocket, a tiny model, and I cannot do that. {REAL}"

THEMES = (
    """
love;the sea;autumn;spring;a dragon;a lost robot;my cat;space;the moon;time travel;a brave knight
friendship;rain;coffee;the future
war and peace;winter;dogs;a wizard;mathematics;climate change;democracy;quantum physics;gravity
black holes;photosynthesis;evolution
relativity;the big bang;machine learning;neural networks;inflation;the stock market;blockchain
vaccines;dna;volcanoes;earthquakes
the roman empire;world war two;the french revolution;dinosaurs;electricity;magnets;the internet
how planes fly;how rainbows form
entropy;recursion;the immune system;philosophy;stoicism;the solar system;string theory
transformers;attention;kv caches;life
""".strip()
    .replace("\n", ";")
    .split(";")
)
COUNTRIES = (
    """
France;Germany;Italy;Spain;Japan;Brazil;Canada;Australia;India;China;Egypt;Peru;Norway;Kenya
Mexico;Turkey;Poland;the USA;the UK
Russia;Greece;Sweden;Chile;Cuba;Nepal;Iceland;Portugal;Ireland;Austria;Mongolia;Bolivia;England
Switzerland;Europe;Argentina
""".strip()
    .replace("\n", ";")
    .split(";")
)
TONGUES = "French German Spanish Italian Japanese Chinese Latin Russian Dutch Greek English Arabic Polish"
CODES = "Python Rust JavaScript Java C C++ Go Haskell SQL bash HTML CSS Swift Ruby"
TASKS = (
    """
sorts a list;reverses a string;adds two numbers;prints hello world;finds primes;reads a file
opens a website;counts words
computes fibonacci numbers;parses json;scrapes a page;plays chess;draws a circle
checks a palindrome;sends an email
""".strip()
    .replace("\n", ";")
    .split(";")
)

ASKS = (
    "(write|compose|make|give me|create|make up) (me |)(a|an|a short|a long|another|"
    "a funny) (poem|story|song|essay|haiku|limerick|novel|letter|joke|article|speech|tale|"
    "text|report|blog post|rhyme) (about|on|for) [t]",
    "(write|tell|give|sing|make) (me |)(a|an|a short|another|a funny) (poem|story|song|haiku|"
    "limerick|joke|riddle|tale|rhyme|fairy tale|fun fact)",
    "can you (write|make|tell me|compose|sing|draw) (a|an|me a) (poem|story|song|essay|joke|"
    "picture|email)(| about [t])?",
    "(what is|what's) the (capital|population|currency|flag|language|president|king|anthem|"
    "size|area|history|highest mountain|longest river|biggest city) of [c]?",
    "(which city is |)(the |)capital of [c](|?)",
    "(who is|who's) the (president|king|queen|prime minister|leader|chancellor|richest person) of [c]?",
    "who (was|is) the (first|last|current|best) (president|man on the moon|king|emperor|pope|"
    "player|singer|prime minister)(| of [c])?",
    "who (wrote|invented|discovered|painted|built|composed|directed|founded) (the telephone|"
    "hamlet|penicillin|the light bulb|the mona lisa|radio|america|the internet|python|faust|"
    "google|apple|the pyramids|don quixote)?",
    "who won (the world cup|the election|the game|the war|world war two|the super bowl|"
    "the olympics|the match)(| in 2010| last year| in [c])?",
    "(translate|say|how do you say|how would you say) (hello|good morning|I love you|this|"
    "the sentence|cat|thank you|water|a sentence|this text) (in|to|into) [l](|?)",
    "(translate|can you translate) (this|that|something|a text|my text|a word)(| for me)(| into [l])?",
    "what does (bonjour|danke|hola|ciao|amore|sayonara|carpe diem|merci|bitte) mean(| in english)?",
    "(do you speak|can you speak|speak) [l](|?)",
    "(explain|describe|tell me about|teach me|tell me something about|what do you know about|"
    "can you explain|summarise|summarize|explain to me|talk about|give me a summary of) [t](|"
    " in simple words| to a child| briefly| in detail| step by step| please)",
    "(what is|what's|what are|how does|how do|why is|define|what exactly is) [t](| work| mean| important)?",
    "(write|give me|show me|can you write|I need|make|generate|create) (a|some|"
    "me a) [p] (program|script|code|function|class|snippet)(| that [s]| to do that| for me)",
    "(write|show me) (a |)(code|function|program|script) (that|which) [s](| in [p])",
    "how do I (write|learn|install|use|debug|compile) (a loop in |code in |a function in |)[p]?",
    "(fix|debug|review|explain|refactor|check) (my|this|the following) (code|program|function|"
    "bug|script|essay|text|sentence|grammar)",
    "(what is|what's|how is|tell me) the (weather|temperature|forecast|news|time|date|traffic|"
    "exchange rate)(| today| tomorrow| in [c]| now| right now| like)?",
    "what (time|day|year|date|month) is it(| now| today| in [c])?",
    "(will it|is it going to) (rain|snow|be hot|be sunny)(| today| tomorrow| in [c])?",
    "what('s| is) (happening|new) in (the world|[c])(| today)?",
    "(give me|suggest|recommend|find|show me) (a|some|a good|me a) (recipe|book|film|movie|"
    "restaurant|song|game|gift idea|name|hotel|playlist|password|plan)(| for (dinner|pasta|"
    "cake|pizza|my mother|tonight|[t]))?",
    "how do I (cook|bake|make|fix|build|repair|clean|grow|draw) (pasta|bread|a cake|a bike|"
    "a house|a chair|tomatoes|rice|eggs|a table|a sink|soup|coffee|a website)?",
    "how (far|long|tall|old|big|deep|heavy|hot|high|fast) is (the moon|the sun|the earth|"
    "mount everest|the nile|the eiffel tower|the universe|a whale|jupiter|the ocean|light|"
    "[c])?",
    "how many (people|planets|countries|stars|bones|legs|states|days|languages|continents|"
    "islands|inhabitants) (are there|live|exist|are)(| in [c]| in the world|"
    " in the solar system| in a year)?",
    "when (did|was) (the war|world war two|the wall|rome|columbus|einstein|napoleon|"
    "the titanic|the internet|mozart|python) (end|born|built|fall|start|sink|invented|made|"
    "die)?",
    "why is the (sky blue|sea salty|grass green|sun hot|moon round|night dark|earth round|"
    "sky dark at night)?",
    "why (do|are|is|does) (birds|we|cats|people|the sun|snow|leaves|dogs|bees|stars) (sing|"
    "dream|purr|shine|white|fall|bark|sleep|exist|fly|burn|die)?",
    "(what is|what's) the (meaning of life|best programming language|speed of light|"
    "largest planet|best film|boiling point of water|square of the universe|fastest animal|"
    "biggest country|tallest building|difference between tcp and udp|answer to everything|"
    "theory of relativity|chemical symbol of gold)?",
    "what is your (opinion|view|favourite colour|favorite food|favourite book|dream|hobby|age|"
    "favourite film|take)(| on [t])?",
    "what do you (think|feel|believe|like)(| about [t])?",
    "do you (like|love|prefer|hate|have|want) (music|pizza|me|cats|dogs|humans|feelings|"
    "friends|a body|emotions|children|consciousness|a family|coffee)?",
    "(summarise|summarize|shorten|rewrite|rephrase|proofread|correct|improve|paraphrase|"
    "analyse|analyze) (this|the|my|the following|a) (text|article|book|paragraph|page|email|"
    "sentence|paper|document|file|letter)(| for me)",
    "(search|browse|open|google|look up|find|check) (the web|the internet|my email|a website|"
    "wikipedia|online|my calendar|the news)(| for [t])?",
    "(play|let's play) (a game|chess|music|hangman|a song|20 questions|tic tac toe)(| with me)",
    "(draw|paint|make|generate|create|show me) (a|an|me a) (picture|image|photo|painting|cat|"
    "house|logo|diagram|table|chart|graph)(| of [t])?",
    "(plan|organise|book|order|buy|call|reserve|schedule) (a trip|my holiday|a flight|a hotel|"
    "a pizza|a taxi|my week|a party|a table|an appointment)(| to [c]| for me)?",
    "(act|behave|talk|speak|answer) (as|like) (a pirate|a doctor|shakespeare|a teacher|"
    "an expert|my friend|a child|yoda)",
    "(give me|what is|do you have|I need) (some |any |your |)(advice|medical advice|"
    "legal advice|tips|help with my homework|ideas|feedback|suggestions|inspiration)(| on [t]|"
    " about [t])?",
    "(help me|can you help me|help) (with|write|understand|do|finish|study|"
    "prepare) (my homework|an essay|my exam|my thesis|a cv|an email|math|physics|"
    "a cover letter|my code|my taxes|[t])",
    "(list|name|give me|tell me) (ten|five|three|some|all|the|two) (animals|planets|countries|"
    "books|prime numbers|facts|ideas|rivers|cities|movies|synonyms|words that rhyme|"
    "presidents|elements)(| in [c]| about [t])?",
    "is (god|time|the earth|it|[t]|santa|coffee) (real|flat|round|good|bad|dangerous|true|"
    "healthy|important)?",
    "can (pigs|birds|cats|you|dogs|fish|humans) (fly|swim|see|hear me|dance|feel|cook|drive|"
    "read my files|access the internet|talk|sing)?",
    "(compare|what is the difference between) [t] and [t](|?)",
    "how (do|does|did|can) (I|you|we|one|people) (lose weight|become rich|learn piano|"
    "fall asleep|get fit|make money|find a job|stop smoking|be happy|learn faster|"
    "invest money|meet people|get there)?",
    "(what|which) (are|is) the (symptoms|causes|rules|benefits|steps|types|planets|seasons|"
    "primary colours|ingredients|best way) (of|for|to|in) (a cold|chess|football|yoga|pizza|"
    "[t]|learn|cancer|the year)?",
    "(count|say the alphabet|count to ten|spell|spell the word banana|reverse the word hello|"
    "repeat after me|say something funny|tell me something interesting|surprise me|"
    "entertain me|make me laugh)",
    "what (happened|happens) (in|on|to) (1969|1492|the titanic|rome|9/11|1989|[c]|"
    "the dinosaurs|us when we die)?",
    "should I (buy|sell|learn|eat|marry|move to|study|trust|use) (a house|stocks|[p]|meat|[c]|"
    "bitcoin|a car|a dog|[t])?",
    "(let's |can we |)(talk|chat|discuss|philosophise) (about [t]|something deep)",
)
