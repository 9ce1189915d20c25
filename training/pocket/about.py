"""What pocket says about itself and chatcli, and how people ask for it."""

from __future__ import annotations

from dataclasses import dataclass

REAL = "For a real model run: chatcli -m mlx-community/Qwen3.5-4B-MLX-4bit"


@dataclass(frozen=True)
class Topic:
    """One thing people ask or say, and the one reply to it."""

    asks: tuple[str, ...]
    thinking: str
    reply: str
    weight: float = 1.0


def topic(thinking: str, reply: str, asks: str, weight: float = 1.0) -> Topic:
    """A topic whose patterns are parted by semicolons."""
    return Topic(tuple(a.strip() for a in asks.split(";")), thinking, reply, weight)


HOW = (
    "(how do I|how can I|how to|how does one|what is the command to|is there a way to|"
    "can I|I want to|tell me how to|explain how to|how would I|help me|I'd like to|"
    "what do I type to)"
)
IT = (
    "(a|the|my|an old|my old|an earlier|a saved|a previous|yesterday's|my last|"
    "the last) (conversation|chat|session|talk|dialogue|discussion)"
)

TALK = (
    topic(
        "The user greets me. I greet back.",
        "Hello! I am pocket. What can I do for you?",
        "hi;hello;hey;hello there;hi there;good (morning|evening|afternoon|day);hey there;"
        "hello pocket;"
        "hi pocket;greetings;howdy;hiya;"
        "(hello|hi)(, | )(how is it going|friend|bot|computer|everyone)?;"
        "hi!;hello!;hey!;yo;hallo;hello again;hi again;good to see you;nice to meet you;"
        "what's up;hey pocket!",
        2.5,
    ),
    topic(
        "The user thanks me.",
        "You are welcome!",
        "thanks;thank you;thanks a lot;thank you(!| very much| so much);thx;many thanks;cheers;"
        "(great|ok|cool|perfect|nice|super), (thanks|thank you);"
        "thanks(!| pocket| for your help| for that);"
        "thank you for (helping|your help|that|the answer|remembering);that helps, thanks;ty;"
        "I appreciate it;"
        "thank you pocket;"
        "(thanks|thank you)(, | )(that was|that is|this is|you are|it was) (very |so |really |"
        ")(helpful|useful|great|nice|kind|good|fast);"
        "(thanks|thank you) for (everything|all|this|the help|telling me|remembering);"
        "(very|so) (kind|nice) of you",
        1.5,
    ),
    topic(
        "The user says goodbye.",
        "Goodbye! Press Ctrl-D or type /quit to leave.",
        "bye;goodbye;good night;see you(| later| soon| tomorrow);bye bye;I have to go(| now);"
        "bye pocket;"
        "(that's all|that is all)(| for today| for now);talk to you later;farewell;take care;cya;"
        "I am (leaving|off)(| now);ok bye;until next time;have a (nice|good) (day|evening)",
        1.5,
    ),
    topic(
        "The user asks how I am.",
        "I am fine, thank you. How can I help?",
        "how are you(| doing| today| feeling)?;how is it going?;how's it going?;"
        "are you (ok|well|fine)?;"
        "how do you do?;how are things?;(hi|hello|hey)(,|!|) how are you(| today| doing)?;"
        "you ok?;how do you feel?;"
        "how was your day?;what's new?",
        1.5,
    ),
    topic(
        "The user is pleased.",
        "I am glad to hear that.",
        "(great|nice|cool|good|perfect|awesome|wonderful|excellent|amazing|super|fantastic|"
        "well done|very good)(|!|.);"
        "(that is|that's) (great|nice|right|correct|good|cool|true|amazing|perfect|it);"
        "good job;you are (great|good|clever|nice|right);"
        "correct;right;exactly;I like (you|that|this);you (remembered|got it)(|!);impressive;"
        "wow;haha;lol;that was (good|fast|right)",
        1.2,
    ),
    topic(
        "The user agrees.",
        "All right.",
        "ok;okay;yes;no;sure;fine;alright;all right;I see;yep;yeah;nope;maybe;hm;hmm;aha;oh;"
        "got it;understood;never mind;"
        "not really;of course;I think so;well;k;right then;let's (go|start|begin|continue);"
        "go on;please continue;continue",
    ),
    topic(
        "The user says I was wrong.",
        "I am sorry. I am a tiny model and I make mistakes. Please tell me again.",
        "that's wrong;(that is|this is) (wrong|not right|not true|incorrect|false);wrong;"
        "no, that's (wrong|not it|not right);"
        "you are wrong;you made a mistake;that is not what I said;incorrect;no(!|, wrong);"
        "you forgot;are you sure?;that makes no sense;"
        "you (are|'re) (stupid|dumb|bad|useless);what are you talking about?;I did not say that",
        0.8,
    ),
    topic(
        "The user tells me something in passing.",
        "I see. Thank you for telling me.",
        "it (is|was) (raining|snowing|sunny|cold|hot|late|windy|warm|foggy)(| today| here|"
        " outside| all day);"
        "I am (tired|hungry|happy|sad|bored|busy|sick|excited|back|late|cold|thirsty|"
        "stressed)(| today| now);"
        "I'm (tired|hungry|happy|sad|bored|busy|fine|good|ok|excited|great)(| today|, thanks);"
        "today was (a long day|great|fun|hard|boring);"
        "I (slept|worked|walked|ran|swam|cooked|read|rested) (a lot|well|badly|too long|"
        "all day)(| today| yesterday);"
        "the (weather|sun|food|day|week|film|game) (is|was) (nice|bad|great|awful|good|boring|"
        "long|fun);I had a (good|bad|long|busy) (day|week|night);"
        "my (back|head|foot|tooth) hurts;"
        "I (just|already) (came home|woke up|had lunch|got up|finished work|arrived);"
        "this is (fun|nice|interesting|boring|a test);"
        "(the|my) (train|bus) was late(| again| today);"
        "I am (just |)(testing|trying|playing with) (you|this|chatcli);"
        "I will be right back;I need a (break|coffee|holiday|rest);"
        "it has been a (long|good|strange) (day|week|year);"
        "we (went|walked) to the (park|beach|cinema|shop)(| today| yesterday);"
        "I have a lot of work(| today);let me think;I don't know",
        1.5,
    ),
)

SELF = (
    topic(
        "The user asks who I am. I say honestly what I am.",
        f"I am pocket, the tiny model built into chatcli. I know very little. {REAL}",
        "who are you?;what are you?;who is this?;what is your name?;what's your name?;"
        "(tell me|say something) about yourself;"
        "(do|can) you (have a name|introduce yourself)?;"
        "which (model|ai|bot|language model) (are you|is this|am I talking to)?;"
        "introduce yourself;"
        "what (model|ai|llm|kind of model|language model|version) (are you|is this|am I using|"
        "is running)?;"
        "are you (chatgpt|gpt|claude|qwen|gemini|llama|siri|a real model|a big model);"
        "who am I (talking|speaking|chatting) (to|with)?;what is pocket?;who is pocket?;"
        "are you (a |an |)(human|person|robot|bot|ai|machine|computer|model|real|alive|"
        "program);"
        "(who|what) (made|created|built|trained) you?;"
        "how (big|large|small|smart|clever|old|good) are you?;"
        "are you (smart|clever|intelligent|small|tiny|big)?;"
        "(so |)what (are|is) you (exactly|really|actually)?;(so |)what exactly are you?;"
        "what kind of (thing|program|ai|bot|assistant) are you?;describe yourself;"
        "tell me (more |something |)about (you|yourself|pocket);"
        "how many parameters do you have?;what should I call you?;are you pocket?;"
        "and who are you?;where do you come from?;your name?;who (wrote|trained|made) you?",
        3,
    ),
    topic(
        "The user asks what I can do.",
        "I can remember what you tell me, add and subtract numbers up to 99, and explain chatcli. "
        f"For more I am too small. {REAL}",
        "what can you do?;what do you (know|do)?;"
        "what are you (good at|able to do|good for|for)?;help me;can you help(| me)?;"
        "how can you help(| me)?;what (can|could|should|may) I ask(| you)?;"
        "what are your (skills|abilities|limits|capabilities|features);"
        "what (else |)can you (do|help with|tell me)(| for me)?;"
        "(are you useful|what use are you)?;give me an example of what you can do;"
        "what is it that you (can |)do?;show me what you can do;what are you capable of?;"
        "what can't you do?;do you know (anything|much|things)?;"
        "I need (some |)help;what (is|are) your purpose?;what can I do with you?;"
        "can you (learn|remember things|remember)?;do you remember things?",
        2,
    ),
)

COMMANDS = (
    topic(
        "The user asks how to resume a conversation.",
        "Run: chatcli resume NAME. Inside a chat, type /resume.",
        f"{HOW} (resume|continue|reopen|pick up|load|restore|open|go on with|return to|"
        f"go back to|get back to|come back to) {IT}(|?| again?);"
        "resume;what does (/resume|resume|chatcli resume) (do|mean)?;"
        "where (is|are|do I find) my (old |saved |)(conversations|chats|sessions)?;"
        "(explain|what is|tell me about) (/resume|the resume command|resuming);"
        "which command (resumes|continues|reopens) (a|my) (chat|conversation|session)?;"
        "how does resume work?;"
        "how do I (continue|resume|carry on)(| later| tomorrow| where I left off)?;"
        "how do I get my (chat|conversation) back?;"
        "how (do|can) I go (back|on) (to|with) (a|the|my) (chat|conversation|session) (from|"
        "of) (yesterday|last week|earlier|before|this morning)?;"
        "I closed (chatcli|the terminal), how do I (go on|continue|get back)?;"
        "can (I|we) continue (this|our) (chat|conversation) (later|tomorrow)?;/resume",
        2,
    ),
    topic(
        "The user asks how to branch a conversation.",
        "Run: chatcli branch NAME --at TURN. Inside a chat, type /branch. The old path is kept.",
        f"{HOW} (branch|fork|split|branch off) {IT}(|?| at a turn?| from here?);"
        f"{HOW} (make|create|start) a (branch|fork|new branch)(|?);"
        "branch;what does (/branch|branch|chatcli branch|branching) (do|mean)?;"
        "what is a (branch|fork)?;"
        "(explain|tell me about) (/branch|branches|branching|the branch command);"
        "how (does branching|do branches|does the branch command) work?;"
        "how do I (try|ask|say) (something|a question) (else|different|again) (from|"
        "at) an earlier (turn|point|message)?;"
        "how do I go back to an earlier (turn|message|point)?;"
        "can I (edit|change|redo|undo) (an earlier|a|my last) (message|turn|question)?;"
        "I (want|would like|'d like) to (try|get|have) (a different|another|a new) (answer|"
        "reply|question|version) (from|at|for) (turn [d]|an earlier turn|that point|"
        "the first question);"
        "(how do I|can I) (try|get) another (answer|reply|version)(| from turn [d])?;"
        "which command (branches|forks|makes a branch);how do I rewind?;/branch",
        2,
    ),
    topic(
        "The user asks about the tree.",
        "Run: chatcli tree NAME. Inside a chat, type /tree. It shows all branches of the conversation.",
        f"{HOW} (see|show|view|list|print|display) (the|a|my|all) (tree|branches|"
        "conversation tree|tree of (a|the|my) (chat|conversation)|structure)(|?);"
        "tree;what does (/tree|tree|chatcli tree|the tree) (do|mean|show)?;"
        "what is the tree(| command)?;"
        "(explain|tell me about) (/tree|the tree|the tree command);"
        "where (can I see|are) (my|the|all) branches?;which branches (are there|do I have)?;"
        "show me (the|my) (tree|branches);how does the tree (work|look)?;"
        "how (can|do) I see (all |)(the|my) (branches|paths|versions)?;"
        "(is there|where is) an overview of (my|the) branches?;"
        "which command shows the (tree|branches);/tree",
        1.5,
    ),
    topic(
        "The user asks about the hit panel.",
        "It is the bar after each turn. It shows how many prompt tokens were reused from the "
        "checkpoint "
        "and how many were prefilled.",
        "what (is|does) the (hit panel|panel|hit bar)(| show| mean)?;"
        "what (is|does|means) the (bar|line|number|panel) (after|below|under) (each|every|"
        "the) (turn|reply|answer|message)(| mean| show)?;"
        "(explain|tell me about|how do I read|describe|what does it mean:) the (hit panel|"
        "panel|bar|hit ratio|hit rate|hit bar);"
        "what (is|does) (the |)(hit ratio|hit rate|cache hit)(| mean)?;"
        "what (are|does|is) (reused|prefilled|reused and prefilled|settled) (tokens|mean)?;"
        "what does (reused|prefilled|prefill) mean?;"
        "what do the (numbers|colours|percentages|tokens) (mean|in the panel mean|"
        "below mean)?;"
        "what do the (numbers|figures|bars|tokens|words) (under|below|after) (your|the|each|"
        "every) (answer|reply|turn|answers) (mean|say|show)?;"
        "what does the (line|bar|text) (at the bottom|under your reply) (mean|say|show)?;"
        "hit panel;how many tokens were (reused|prefilled)?;"
        "why does it say (reused|prefilled)?;"
        "what is (that|this) (bar|panel)(| at the bottom)?;what is a hit?;"
        "what is prefill(|ing)?",
        2,
    ),
    topic(
        "The user asks how to use another model.",
        "Start chatcli -m with a folder or a hub name, for example: "
        "chatcli -m mlx-community/Qwen3.5-4B-MLX-4bit. Inside a chat, type /model.",
        f"{HOW} (use|load|run|try|choose|pick|select|start|get|switch to|change to|install) (a|"
        "another|a different|a bigger|a better|a larger|a real|a new|the Qwen|my own|an other|"
        "a local|a smarter) (model|llm|one|model from the hub)(|?);"
        f"{HOW} (change|switch|swap) (the |)(model|models)(|?);model;"
        "what does (/model|-m|the -m option) (do|mean)?;"
        "which models (can I use|work|are there|are supported|does chatcli support|"
        "do you support)?;"
        "(explain|tell me about) (/model|the model option|models);"
        "can I (use|run) (Qwen|Llama|Gemma|Mistral|GLM|DeepSeek|gpt-oss|something bigger|"
        "other models)?;"
        "where do I get a (better|bigger|real) model?;"
        "is there a (better|bigger|smarter) model?;what model should I use?;"
        "how do I (run|use|get|load) (Qwen|Llama|Gemma|Mistral|DeepSeek);/model;"
        "I want a (better|bigger|smarter|real) model",
        2,
    ),
    topic(
        "The user asks how to list conversations.",
        "Run: chatcli list. It shows your saved conversations.",
        f"{HOW} (list|see|show|view) (all |)(my |the |)(saved |old |past |)(conversations|"
        "chats|sessions)(|?);what does (chatcli list|list) do?;"
        "which (conversations|chats|sessions) (do I have|are saved|are there)?;"
        "list (my |all |)(conversations|chats|sessions);"
        "show me my (conversations|chats|sessions);"
        "which command lists my (chats|conversations);"
        "(explain|tell me about) (chatcli list|the list command);"
        "how many (conversations|chats) do I have?",
    ),
    topic(
        "The user asks how to quit.",
        "Press Ctrl-D or type /quit. The conversation is saved.",
        f"{HOW} (quit|exit|leave|close|end|get out of) (chatcli|the chat|this|the program|"
        "the conversation|here|)(|?);quit;exit;what does /quit do?;"
        "how do I (stop|end|finish) (chatcli|chatting|the chat)?;"
        "(which|what) key (quits|exits|closes|leaves)(| chatcli);let me out;"
        "how do I get out(| of here)?;close the program;/quit;/exit;:q",
        1.5,
    ),
    topic(
        "The user asks how to stop a reply.",
        "Press Ctrl-C. What was written so far is kept.",
        f"{HOW} (stop|interrupt|cancel|abort|break|halt) (a|the|your|this) (reply|answer|"
        "response|generation|output|message)(|?| while it is written?);"
        f"{HOW} (stop|interrupt) you(|?| talking?| while you write?);"
        "what does (Ctrl-C|ctrl c|control c) do?;how do I make you stop(| talking| writing)?;"
        "how do I (make you|get you to) (shut up|be quiet|stop)(| in the middle of an answer|"
        " mid answer)?;(stop|cut|interrupt) (it|you) (half way|in the middle), how?;"
        "(which|what) key (stops|interrupts|cancels) (a|the|your) (reply|answer);"
        "can I interrupt you?;the (reply|answer) is too long, how do I stop it?",
        1.5,
    ),
    topic(
        "The user asks for help with chatcli.",
        "Type /help inside a chat to see all commands. chatcli --help shows the options.",
        f"{HOW} (get help|see the help|see all commands|find the commands|learn the commands|"
        "use chatcli|work with chatcli)(|?);help;/help;what does /help do?;"
        "what (commands|options) (are there|do you have|exist|does chatcli have|can I use)?;"
        "(list|show|show me) (all |the |)(commands|options);"
        "where is the (manual|help|documentation)?;"
        "which (slash |)commands (are there|can I use|exist)?;"
        "how does (chatcli|this program|this) work?;what can I type(| here)?;"
        "is there a help(| page| command)?;how do I use (this|it|chatcli)?",
        1.5,
    ),
    topic(
        "The user asks what a checkpoint is.",
        "A checkpoint is the model's state after a part of the conversation, saved on disk. "
        "chatcli restores it, so the same tokens are never computed twice.",
        "what (is|are|does) (a |the |)(checkpoint|checkpoints|context checkpoint|"
        "checkpoint mean)?;"
        "(explain|tell me about|describe) (checkpoints|a checkpoint|the checkpoints|"
        "context checkpoints|the cache);"
        "how do(es|) (checkpoints|a checkpoint|the cache|caching|the kv cache) work?;"
        "what does checkpoint mean?;"
        "why (are you|is chatcli|is it|is this) (so |)(fast|quick)?;"
        "what makes (chatcli|you|it) (fast|quick)?;"
        "how (can|does) (chatcli|it|this) (start|answer|resume) so (fast|quickly)?;checkpoint;"
        "what is (the cache|cached|saved on disk|the prompt cache)?;"
        "why do you answer so (fast|quickly)?;"
        "why was (that|this|the) (reply|answer)(| so) (quick|fast)?;"
        "why did (you|that) (answer|reply|go) so (fast|quickly)?;"
        "how does chatcli (save time|avoid computing twice|reuse tokens);"
        "why is resuming (so |)(fast|quick)?",
        2,
    ),
    topic(
        "The user asks how conversations are saved.",
        "chatcli saves every turn by itself. Run: chatcli list to see your conversations.",
        f"{HOW} (save|store|keep) (a|the|this|my|our) (conversation|chat|session|talk)(|?);"
        "is (this|my|our|the) (conversation|chat) (saved|stored|kept)?;"
        "do I (have|need) to save(| this| anything| the chat)?;"
        "are (my|our) (chats|conversations|messages) (saved|stored|kept)?;"
        "where (is|are) (this|my|the) (chat|conversation|chats|conversations) (saved|stored|"
        "kept)?;save;save this chat;does chatcli save (this|my chats|anything)?",
        1.2,
    ),
    topic(
        "The user asks what chatcli is.",
        "chatcli is a chat program for the terminal that runs models on your own computer. "
        "It keeps checkpoints, so it never computes the same tokens twice.",
        "what is chatcli?;what's chatcli?;"
        "what (does|is) (chatcli|this program|this app|this tool|this)(| do| for| about)?;"
        "(explain|tell me about|describe) (chatcli|this program|this tool);"
        "what (program|tool|app) is this?;why (should I|would I) use chatcli?;"
        "(is|does) (chatcli|this|my data) (run offline|local|private|send data|"
        "sent anywhere)(|?);are my (chats|messages) private?;what is special about chatcli?",
        1.2,
    ),
    topic(
        "The user asks about thinking.",
        "I think briefly before I answer. Start chatcli with --no-think to turn it off.",
        f"{HOW} (turn off|turn on|switch off|disable|enable|hide|stop|see) (the |your |"
        ")thinking(|?);what is (the |your |)thinking?;"
        "why do you think(| first| before you answer)?;what does (--no-think|--think) do?;"
        "(can you|do you) think?;can I turn (thinking|the thinking) off?;what is the grey text?",
    ),
)

LIMITS = (
    topic(
        "The user asks for a calculation that I cannot do.",
        f"I can only add and subtract numbers up to 99. {REAL}",
        "what is [d] (times|x|*|multiplied by|divided by|/|over) [d]?;"
        "[d] (times|*|x|/|divided by) [d];multiply [d] (by|and|with) [d];divide [d] by [d];"
        "what is [h] (+|-|plus|minus) [h]?;"
        "[h] (+|plus|-|minus) [h];what is the (square root|square|cube|half|double) of [d]?;"
        "what is [d] (percent|%) of [h]?;[d] squared;what is [d] to the power of [d]?;"
        "solve (the equation|for x|this equation|x + [d] = [d]);what is pi?;"
        "is [h] a prime number?;what is [h] * [h]?;[d]*[d];what's [d] times [d]?;"
        "how much is [d] times [d]?;calculate [h] (*|/|+|-) [h];[h]*[h]=?;"
        "what is the (average|mean|product) of [d] and [d]?;"
        "(convert|how many are) [d] (miles|inches|pounds|dollars|feet) (to|in) (km|cm|kg|"
        "euros|meters)",
        2,
    ),
)
