"""Questions about chatcli itself. Every name in an answer is checked against the program by a test."""

# Frames are one line each.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from chatcli.settings.values import EXAMPLE_MODEL
from training.pocket import words as w
from training.pocket.frames import Frames, fill, one, typed
from training.pocket.program import known
from training.pocket.turns import Turn
from training.pocket.values import Source, invented

TO = Frames(
    """
how do I [do]?;how can I [do]?;how to [do](|?);is there a (way|command|key|button|trick) to [do]?;can I [do]?
is it possible to [do]?;what do I (type|press|run|enter|have to type) to [do]?
(what|which) is the (command|key|option|shortcut) to [do]?;(what|which) command lets me [do]?
(I want|I need|I would like|I'd like) to [do](.|. How?|, how?|);(tell|show|teach) me how to [do](|.)
(please |)explain how to [do](|.);(help me|please help me) [do](|.);how would I [do]?;how does one [do]?
what('s| is) the (best |easiest |)way to [do]?;[do](|?);how do you [do](| here)?;do you know how to [do]?
(I don't know|I forgot|I have no idea) how to [do](|.);how (could|should) I [do]?;am I able to [do]?
(can|could) you (tell|show) me how to [do]?;what (must|should) I do to [do]?;what if I want to [do]?
(in|with) chatcli, how do I [do]?;how do I [do] (in|with) chatcli?;does chatcli let me [do]?
(what|which) (key|command|option) do I (need|use) to [do]?;how do I [do] in (here|this chat)?
where (do|can) I [do]?;I am trying to [do](|.);let me [do](|.)
""",
    shared=True,
)
ABOUT = Frames(
    """
what is [np]?;what's [np]?;what does [np] mean?;(please |)explain [np](|.);(tell me|say something) about [np](|.)
how does [np] work?;[np](|?);(I don't understand|I do not get) [np](|.);what do you know about [np]?
describe [np](|.);(can|could) you explain [np]?;what is meant by [np]?;what (is|does) [np](| do) (exactly|for)?
what is [np] (for|good for|about)?;why is there [np]?;(can|could) you tell me (about|what is) [np]?
what do you mean by [np]?;help me understand [np](|.);define [np](|.);what should I know about [np]?
(in chatcli|here), what is [np]?;what is [np] (in chatcli|here)?;give me (a short|an) explanation of [np]
""",
    shared=True,
)


@dataclass(frozen=True)
class Topic:
    """A question about chatcli and its answer. `do` follows "how do I", `what` follows "explain"."""

    subject: str
    answer: str
    do: Frames | None
    what: Frames | None
    asks: Frames | None
    weight: float


def topic(
    subject: str, answer: str, *, do: str = "", what: str = "", asks: str = "", weight: float = 1
) -> Topic:
    """A topic whose frames are parted by semicolons or line ends."""
    return Topic(
        subject,
        answer,
        Frames(do) if do else None,
        Frames(what) if what else None,
        Frames(asks) if asks else None,
        weight,
    )


CHAT = "(conversation|chat|session|talk|discussion|conversation|chat|session|convo|thread|dialogue)"
CHATS = "(conversations|chats|sessions|talks|conversations|chats|sessions|convos|threads|dialogues)"

TOPICS = (
    # Sessions.
    topic(
        "resuming a session",
        "Run chatcli resume NAME, or type /resume in a chat. Without a name you choose from a list.",
        do=f"""
(resume|reopen|restore|load|open) (a|an|the|my|an old|a saved|a previous|an earlier|my last|yesterday's) {CHAT}
(continue|go on with|carry on with|pick up) (a|the|my|an old|a saved|a previous|an earlier|my last) {CHAT}
(get|go|come) back to (a|the|my|an old|a saved|an earlier|a closed) {CHAT}
(continue|carry on|go on|pick up) where I (left off|stopped)(| yesterday| last time| last week)
(find|get back|bring back|see) (my|the|an) (old|earlier|previous|last|closed) {CHAT}(| again)
return to what we (talked about|discussed) (yesterday|last week|before);resume;switch to another {CHAT}
change (to another|the) {CHAT};open another {CHAT}(| here)
""",
        what="""
resume;resuming;(the resume command|chatcli resume|/resume);resuming a (session|conversation|chat)
""",
        asks=f"""
where (is|are) my (old|last|previous|earlier) {CHAT}?;can we continue (this|our) {CHAT} (later|tomorrow|another time)?
I closed (chatcli|the terminal|the window), how do I (go on|continue|get back)?
what happens (if|when) I (close|quit|leave) (chatcli|the terminal) and come back?
can I (come back|continue|go on) (later|tomorrow|next week|another day)?;how does resume work?;(my|our) {CHAT} (is|was) (gone|lost|not here|missing);where did (my|our) {CHAT} go?;I want (my|the) {CHAT} (from|of) (yesterday|last week|this morning)(| back);I lost (my|our) {CHAT};I (quit|left|closed it) by (accident|mistake)(|, what now?)
""",
        weight=3,
    ),
    topic(
        "resuming the session [s]",
        "Run chatcli resume [s], or type /resume [s] in a chat.",
        do=f"""
(resume|continue|reopen|open|load|restore) (the |my |)(session|chat|conversation) (named |called |)[s]
(go back to|get back to|go on with|return to|switch to) (the |my |)(session|chat|conversation) (named |called |)[s]
(resume|continue|reopen) [s];pick up the {CHAT} [s] again;(open|load) my {CHAT} [s] again
""",
    ),
    topic(
        "continuing the most recent session",
        "Start chatcli -c to continue the most recent session.",
        do=f"""
(continue|resume|open|reopen) (the|my) (most recent|last|latest|newest) {CHAT}(| directly| at once| quickly)
go (straight|right) back to the (last|most recent) {CHAT};start with (the|my) last {CHAT}
(skip the list and |)open the {CHAT} I had last
""",
        asks="what (does|is) (chatcli -c|the option -c|-c|--continue)(| do| for| mean)?;the option -c?;-c",
    ),
    topic(
        "listing sessions",
        "chatcli list shows the saved sessions, last used first; in a chat, /resume lets you choose one.",
        do=f"""
(list|see|show|view|display) (all |)(my |the |)(saved |old |past |previous |){CHATS}
(get|have|see) (a list|an overview) of (my|the|all) (saved |old |){CHATS};find out which {CHATS} (I have|exist)
(browse|look through|look at) my (old |saved |){CHATS}
""",
        asks=f"""
(which|what) {CHATS} (do I have|are saved|are there|exist)?;how many (saved |){CHATS} (do I have|are there)?
(list|show)(| me) (my|all|the|all my) {CHATS};where (are|can I see|do I find) (my|all|the) (old |saved |){CHATS}?
what does (chatcli list|the list command) do?;do I have (any |)(other|old|saved) {CHATS}?
(what|which) {CHATS} did (I|we) have(| before)?
""",
        weight=1.5,
    ),
    topic(
        "searching sessions",
        "Type /search WORDS, or run chatcli search WORDS: it finds the messages of all sessions with these words.",
        do=f"""
search (my|all|all my|old|the) ({CHATS}|messages|history);search(| for words| for something| for text)
find (a|an old|an earlier|some) (message|word|phrase|reply|text|sentence)(| in my {CHATS})
(look for|find) something (I said|we said|you said|I wrote)(| before| last week| long ago)
find (the {CHAT} where I talked about something|a word again);look something up in (old|my) {CHATS}
""",
        what="searching;(the search command|/search|chatcli search);the search",
        asks=f"""
can (you|chatcli) search (my |old |)({CHATS}|messages)?;how does (the |)search work?
where did (I|we) (talk|write|speak) about (that|this|something)?;is there a search(| function)?;I (can't|cannot) find (a|an old|my) {CHAT};(in which|in what) {CHAT} did (I|we) (talk|speak) about (that|this|something)?;I forgot where (I|we) (wrote|said) (it|that|something)
""",
        weight=1.5,
    ),
    topic(
        "searching for words",
        'Type /search [q], or run chatcli search "[q]".',
        do=f"""
(search for|find|look for) (the words |the phrase |the word |)"[q]"(| in all {CHATS}| in my {CHATS})
(search for|find) (messages|the message|{CHATS}|the {CHAT}) (with|about|that contain|containing) "[q]"
search (all|my) {CHATS} for "[q]";look up where I wrote "[q]"
""",
    ),
    topic(
        "renaming a session",
        "Type /rename NAME, or run chatcli rename NAME NEW.",
        do=f"""
rename (a|the|this|my|our) {CHAT};(change|set|edit) the (name|title) of (a|the|this|my|our) {CHAT}
(give|assign) (a|the|this|our) {CHAT} (a|another|a new|a better) (name|title);call this {CHAT} something else
(name|title) (this|the|a|our) {CHAT};retitle (this|a) {CHAT}
""",
        asks=f"can (a|the|this) {CHAT} (have|get) (a|another|a new) name?;how is (a|this) {CHAT} named?;rename",
    ),
    topic(
        "renaming this session to [s]",
        "Type /rename [s].",
        do=f"""
rename (this|the|our|my) {CHAT} to [s];(change|set) the (name|title) of (this|our|the) {CHAT} to [s]
(call|name) (this|our|the) {CHAT} [s];give (this|the) {CHAT} the name [s]
""",
    ),
    topic(
        "naming a session at the start",
        "Start chatcli -S NAME: it continues the session of that name, or begins it.",
        do=f"""
(name|title) a new {CHAT};(begin|start|open) a (new |){CHAT} (with|under) a name(| of my own)
(choose|set|give) the name of a new {CHAT}(| at the start)
""",
        what="(-S|--session|the option -S);(the session option|the option --session)",
    ),
    topic(
        "deleting a session",
        "Run chatcli delete NAME: it deletes the session and the checkpoints that only it uses.",
        do=f"""
(delete|remove|erase|trash|destroy) (a|the|this|my|an old|some|all|old) ({CHAT}|{CHATS})
get rid of (a|this|an old|old|my) ({CHAT}|{CHATS});(wipe|clean up) my (old |)({CHATS}|history)
make (chatcli|you) forget (this|a|our) {CHAT};throw away (a|this|an old) {CHAT}
""",
        asks=f"delete (this|my|the) {CHAT};can {CHATS} be deleted?;how are {CHATS} deleted?;what does chatcli delete do?",
        weight=1.3,
    ),
    topic(
        "deleting the session [s]",
        "Run chatcli delete [s].",
        do=f"""
(delete|remove|erase) (the |my |)(session|chat|conversation) (named |called |)[s]
get rid of (the |my |)(session|chat|conversation) [s];(delete|throw away) [s](|, that old {CHAT})
""",
    ),
    topic(
        "exporting a conversation",
        "Type /export talk.md, or run chatcli export NAME -o talk.md. It writes Markdown, HTML or JSON.",
        do=f"""
export (a|the|this|my|our) {CHAT}(| to a file| as html| as markdown| as json| as text)
(save|write|store|print) (a|the|this|my|our) {CHAT} (to|as|in|into) (a file|a text file|markdown|html|json|my disk)
(download|share|publish|send someone) (a|the|this|my|our) {CHAT};get a (copy|file|transcript) of (this|the|our) {CHAT}
turn (this|our|a) {CHAT} into (a document|a web page|markdown|html|json)
(convert|dump) (this|the|my) {CHAT} (to|as) (markdown|html|json|text)
""",
        what="(exporting|/export|chatcli export|the export command);the export;exporting a (chat|session)",
        asks=f"(which|what) (formats|file formats) (can I export|are there|do you support)?;can {CHATS} be exported?;export this",
        weight=1.5,
    ),
    topic(
        "exporting to [f]",
        "Type /export [f].",
        do=f"""
(export|save|write) (this|the|our|my) {CHAT} (to|as|into) [f];(export|save|write) (everything|this|it) (to|as) [f]
make a file [f] (of|from|with) (this|our) {CHAT};get (this|our) {CHAT} as [f]
""",
    ),
    topic(
        "importing a conversation",
        "Type /import FILE, or run chatcli import FILE. It takes a JSON export, or a list of messages with roles.",
        do=f"""
import (a|an|my|an exported|an old) ({CHAT}|file|export);(load|read|open) an (exported|external) ({CHAT}|file)
bring in (a|my) {CHAT} from (another program|a file|chatgpt|elsewhere|another computer)
(load|read) (a json file|messages|a list of messages|a chat) (from a file|into chatcli)
(move|transfer) (my|a) {CHAT} from another (program|computer|machine)
""",
        what="importing;(the import command|/import|chatcli import)",
    ),
    topic(
        "importing [f]",
        "Type /import [f], or run chatcli import [f].",
        do=f"""
import [f];(load|read|bring in) the (exported |)({CHAT}|file) [f](| into chatcli);open the export [f]
import the {CHAT} (from|in) [f]
""",
    ),
    topic(
        "starting a new conversation",
        "Type /new to start a new conversation. This one is saved: /resume opens it again.",
        do=f"""
(start|begin|open|make|create) (a new|another|a fresh|a clean|an empty) {CHAT};start (over|again|afresh|from scratch|anew)
(clear|reset|empty) (the|this|our) ({CHAT}|screen|context|history);(make|have) you forget (everything|all)(| here)
talk about something (else|new) with a clean start;begin (anew|again|from zero)
""",
        asks=f"new {CHAT};(reset|clear|restart);what does (/new|/clear|the new command) do?;forget everything(| I said)",
        weight=1.5,
    ),
    topic(
        "leaving",
        "Press Ctrl-D or type /quit. Everything is saved.",
        do="""
(quit|exit|leave|close|end|get out of|shut down|terminate) (chatcli|the chat|this|the program|here|this chat|the app)
(quit|exit|leave|log out|get out|stop chatting);end (the|this|our) (conversation|chat|session);stop the program
go back to (my|the) (shell|terminal|command line|prompt)
""",
        asks="""
(quit|exit|:q|:wq|logout|q);what does (/quit|/exit|ctrl-d) do?;(what|which) key (quits|exits|closes|leaves)(| chatcli)?
let me out(|!);how do I get out(| of here)?;close (the program|chatcli|yourself);is everything saved when I (quit|leave)?
will I lose (something|anything|this|my chat) (if|when) I (quit|leave|close the terminal)?;I want out
""",
        weight=2,
    ),
    topic(
        "whether conversations are saved",
        "Every message is saved at once; chatcli list shows your sessions.",
        asks=f"""
(is|are) (this|my|our|the) ({CHAT}|{CHATS}|messages) (saved|stored|kept|recorded)(| automatically| somewhere)?
do I (have|need) to save(| this| anything| the chat| my work)?;does chatcli save (this|my {CHATS}|anything|everything|it)?
(save|store) (this|the|our|my) {CHAT};is there an auto(-| |)save?;do you (save|keep|store|log) (this|what I (say|write))?
what (happens|is lost) (if|when) (the power fails|my computer crashes|chatcli crashes|it crashes)?
(how do I|how can I|must I) save (this|my work|the {CHAT})?;when (is|are) (it|this|messages) saved?
""",
        weight=1.5,
    ),
    topic(
        "where sessions are saved",
        "Each session is a file NAME.jsonl; chatcli config sessions prints the folder, and --sessions DIR chooses another.",
        asks=f"""
where (is|are) (this|my|the|our|all) ({CHAT}|{CHATS}|messages|data|files) (saved|stored|kept|put|located|written)?
(where|in which folder|in which file|in what place|in which directory) (does|do) (chatcli|you) (save|store|keep|put) (my |the |)({CHATS}|messages|things|data|files|it|this)?
(what|which) (folder|directory|file) (holds|has|contains) my ({CHATS}|messages|data)?
where on (my|the) (disk|computer|machine) (is|are) (this|my {CHATS}|it|everything)?
how are {CHATS} (saved|stored|kept)(| on disk)?;where do my {CHATS} (go|live|end up)?
(where is|what is|show me) the (sessions |session |)(folder|directory)?;what (file|format) is a {CHAT} (saved|stored) (in|as)?
""",
        do="""
(change|choose|set|move) (the |my |)(sessions |session |)(folder|directory)(| where chats are saved)
(keep|save|store) (my |)(sessions|chats|conversations) (in another folder|somewhere else|elsewhere)
find the (files|folder) of my (chats|sessions)
""",
        weight=2,
    ),
    # The tree.
    topic(
        "branching",
        "Type /branch: a new session begins with this conversation, and this one stays as it is. /branch 3 begins it after turn 3.",
        do=f"""
(branch|fork|split|clone|duplicate|copy) (a|the|this|my|our) {CHAT}(| from here| here)
(make|create|start|open) a (branch|fork|new branch|copy)(| of this {CHAT}| from here| here)
try (something|another idea) (else|different) without losing this;branch off(| here);go two ways from here
have two versions of (this|the) {CHAT}
""",
        what="(a branch|branches|branching|the branch|forks);(a fork|forking);(/branch|/fork|the branch command|chatcli branch)",
        asks=f"branch;how do branches work?;can a {CHAT} have (branches|versions)?",
        weight=2.5,
    ),
    topic(
        "branching at turn [n]",
        "Type /branch [n], or run chatcli branch NAME --at [n].",
        do=f"""
(branch|fork|split) (this|the|our|my) {CHAT} (at|from|after) turn [n];(branch|fork|branch off) (at|from|after) turn [n]
(make|start|create) a (new |)(branch|fork|session) (at|from|after) turn [n]
continue from turn [n] in a new {CHAT}
""",
    ),
    topic(
        "going back to an earlier turn",
        "Type /rewind TURN, such as /rewind 3. What came later stays in /tree.",
        do="""
(go|jump|return|get|move) back to (an earlier|a previous|an old|the first|a certain|some) (turn|message|point|question|place)
(rewind|rewind the conversation|roll back|turn back|go back)(| in time| a few turns| some turns| to the beginning)
(go|step) back (two|three|a few|several|some|five) (turns|messages|steps)
start again from an earlier (turn|point|message);(restore|return to) an earlier (point|state)
""",
        what="rewinding;(/rewind|the rewind command);rewind",
        asks="can (I|we) go back(| in time| in the conversation)?;rewind;go back;how (do|can) I (rewind|go back)?",
        weight=2.5,
    ),
    topic(
        "going back to turn [n]",
        "Type /rewind [n]. What came later stays in /tree.",
        do="""
(go|jump|return|get) back to (turn|message|question) [n];rewind to (turn |)[n];(roll back|go back) to turn [n]
continue (after|from) turn [n];(go to|jump to) turn [n](| again)
""",
        asks="go back to turn [n];(please |)(rewind|return) to turn [n];back to turn [n];(show|open) turn [n] again",
    ),
    topic(
        "taking back the last turn",
        "Type /undo to take back the last turn. It stays in /tree.",
        do="""
undo(| it| this| that| something| the last turn| my last message);(take|get) back (the|my) last (turn|message|question)
(remove|delete|cancel|drop) (the|my) last (turn|message|question|exchange)
(go|step) back (one|a) (turn|message|step);unsend (a|my|the last) message;reverse the last step
""",
        what="undo;(/undo|the undo command);undoing",
        asks="undo;can I (undo|unsend)(| that| this| a message)?;is there an undo?;I did not mean to send (that|this);I (pressed enter|sent it|sent that) (too early|too soon|by accident|by mistake);(oops|sorry|no), wrong message(|, take it back)",
        weight=1.5,
    ),
    topic(
        "redoing what was undone",
        "Open /tree and choose the message: nothing that you undo is lost.",
        do="""
redo(| it| this| that| what I undid);undo (the|an) undo;(get|bring) back what I (undid|took back|rewound|deleted)
(return|go back) to the (other|old|newer) (branch|path|version);(switch|change) (branches|between branches|paths|to another branch)
""",
        asks="where (is|are) the (old|other|lost) (path|branch|reply|version|replies)?;is anything lost (by|with|after) (undo|/undo|rewind)?;can I redo(| something)?",
    ),
    topic(
        "editing a message",
        "Type /edit to change your last message and send it again; /edit 2 changes that of turn 2.",
        do="""
(edit|change|correct|fix|rewrite|rephrase|alter|modify) (a|my|my last|an earlier|a sent|the last|an old|my previous) (message|question|prompt|turn)
(edit|change) what I (said|wrote|sent|asked)(| before);(fix|correct) a (typo|mistake) in my (last |)(message|question)
ask (the last|my last|an earlier) question (differently|again in other words)
""",
        what="editing;(/edit|the edit command)",
        asks="edit;can I (edit|change) (messages|what I wrote|a message)?;I made a (typo|mistake) in my message;I misspelled something in my message",
        weight=2,
    ),
    topic(
        "editing turn [n]",
        "Type /edit [n]. The old message stays in /tree.",
        do="""
(edit|change|correct|rewrite) (the |my |)(message|question|prompt) (of|in|at) turn [n];(edit|change|rewrite) turn [n]
(edit|change) what I (said|wrote|asked) in turn [n];fix (turn|message) [n]
""",
    ),
    topic(
        "getting another reply",
        "Type /regenerate for another reply, or /regenerate 4 for four at once. The old one stays in /tree.",
        do="""
(regenerate|redo|repeat|retry|rerun) (a|the|your|this|the last) (reply|answer|response)
(get|have|see|try|ask for) (another|a different|a new|a better|a second|one more) (reply|answer|response|version)
(make|let) (you|it) (answer|try|reply) again;(get|see) (several|four|some|more) (replies|answers)(| at once)
regenerate;retry;reroll(| the answer)
""",
        what="(regenerate|regenerating);(/regenerate|/retry|the regenerate command);the retry command",
        asks="(try again|another one|another answer|give me another answer);I (don't like|do not like) (this|the|your) (answer|reply);can you (try|answer) (it |)again?;(one more time|once more);that (answer|reply) was (not good|bad|no good|too short|too long), (another|give me another|try another)(| please);(I want|let me have|show me) (another|a different|a better) (answer|reply)",
        weight=2,
    ),
    topic(
        "choosing one of several replies",
        "Type /choose 2, or just the number, to continue with that reply.",
        do="""
(choose|pick|select|take|use) (one of|between|among) (the|several|four|your) (replies|answers|versions)
(choose|pick|select|take|keep) (a|the second|another|the third|the best) (reply|answer|version)
(continue|go on) with (one of the replies|another reply|the second reply|the other answer)
""",
        what="choosing;(/choose|the choose command)",
    ),
    topic(
        "finishing a reply that was cut",
        "Type /continue: it continues a reply that was stopped or cut short.",
        do="""
(continue|finish|complete|resume|extend) (a|the|your|this) (reply|answer|response|sentence)(| that was cut| that was stopped)
(make|let|have) you (finish|go on|continue|complete your sentence);get the rest of (the|your) (reply|answer)
(go on with|carry on with) a (stopped|cut|broken) (reply|answer)
""",
        what="/continue;(the continue command|/continue)",
        asks="(the|your) (reply|answer) (was|is|got) (cut|cut off|cut short|incomplete|not finished);you (did not|didn't) finish(| your sentence);go on with your (answer|sentence);why did (you|the reply) stop(| in the middle)?",
    ),
    topic(
        "stopping a reply",
        "Press Esc. What came of the reply is kept, and /continue finishes it.",
        do="""
(stop|interrupt|cancel|abort|break off|halt|end) (a|the|your|this) (reply|answer|response|generation|output)
(stop|interrupt|silence) you(| talking| writing| while you write);(make|get) you (to stop|stop|be quiet|shut up)
(cut|stop) (it|you) (short|in the middle|half way);stop (generating|the generation)
""",
        asks="(what|which) key (stops|interrupts|cancels|ends) (a|the|your) (reply|answer|response)?;can I (stop|interrupt) you?;(the|your|this) (reply|answer) is too long;(it|the reply|the model) (keeps writing|won't stop|never ends|goes on and on|does not stop);what does (esc|escape|the escape key) do?;how do I make it stop?",
        weight=1.5,
    ),
    topic(
        "copying a reply",
        "Type /copy for the last reply, or /copy code for the last code block.",
        do="""
copy (a|the|your|the last|this) (reply|answer|response|text|code)(| to the clipboard)
(put|get|bring) (a|the|your|this) (reply|answer|code) (on|to|in|into) (the|my) clipboard
copy (code|a code block|the code|what you wrote);paste your answer (elsewhere|into another program)
""",
        what="(/copy|the copy command);copying",
    ),
    topic(
        "the tree",
        "Type /tree, or press Esc twice: it shows the conversation with all its branches, and you continue from any message.",
        do=f"""
(see|show|view|list|display|open) (the|a|my|all) (tree|branches|conversation tree|versions|paths)
(see|get|have) (the structure|an overview|a map) of (this|the|our|my) {CHAT};(see|find) (old|other) (branches|replies|versions)
navigate (the|this|a) {CHAT};look at all (branches|paths)
""",
        what="(the tree|a tree|the conversation tree|trees);(/tree|the tree command|chatcli tree);the tree view",
        asks="tree;(which|what|how many) branches (are there|do I have|exist)?;show me (the|my) (tree|branches);where are (my|the) branches?;(show|open) the tree",
        weight=2,
    ),
    topic(
        "bookmarks",
        "Type /label TEXT to bookmark this place in the tree; /label without a text removes the bookmark.",
        do=f"""
(bookmark|mark|label|tag|flag) (a|this|the|my) (place|message|point|turn|spot)
(set|add|make|put|leave) a (bookmark|label|mark|tag)(| here);remember this (place|point) in the {CHAT}
(remove|delete) a (bookmark|label)
""",
        what="(a label|labels|a bookmark|bookmarks);(/label|the label command);labelling",
    ),
    # Numbers.
    topic(
        "the panel",
        "The panel after each reply shows how much of the prompt was reused, typed ahead or new. /panel line makes it shorter, /panel off hides it.",
        what="""
(the|this|that) (panel|box|bar|frame)(| after a reply| below a reply| after each turn| under your answer)
(the|these|those) (numbers|figures|colours|percentages|bars) (after|below|under) (a|each|your|every) (reply|turn|answer)
the (hit |reuse |numbers |)panel;(the panel command|/panel);the (line|box) with the (numbers|percentages|tokens)
""",
        asks="""
what (is|does) (the|that|this) (bar|line|number|panel|box) (after|below|under) (each|every|the|your) (turn|reply|answer|message)(| mean| show)?
how do I read the (panel|numbers|bar);what do (the|these|all these) (numbers|colours|bars|figures|percentages) mean?
what (is|does) the (panel|box|bar) (show|tell me|say)(| me)?
""",
        weight=2,
    ),
    topic(
        "hiding the panel",
        "Type /panel off to hide it, /panel line for one line, /panel full for all. chatcli config panel off keeps that.",
        do="""
(hide|turn off|switch off|remove|disable|get rid of|shorten|shrink) (the|this|that) (panel|numbers|bar|box|statistics)
(change|set|make) the panel (smaller|shorter|off|to one line);(see|show) (fewer|less|no|more) numbers
(show|turn on|bring back|get back) the panel(| again)
""",
        asks="the panel (annoys me|is too big|bothers me|is gone|is in the way);can the panel be (hidden|smaller|turned off)?;I (don't|do not) (need|want) (the|these) (numbers|panel)",
    ),
    topic(
        "the hit ratio",
        "The hit ratio is the share of the prompt's tokens that came from a checkpoint, so that they were not computed again.",
        what="(the|a) (hit ratio|hit rate|cache hit ratio|ratio|hit percentage);(a|the|cache) hit;hit ratio;(the|that) percentage(| in the panel)",
        asks="why is the hit ratio (so |)(low|high|zero|100|small)?;what is a good hit ratio?;what does hit ratio (94|90|0|100|80|50)( %|%|) mean?;what does 99 % mean?",
        weight=2,
    ),
    topic(
        "reused tokens",
        "Reused tokens came from a checkpoint, in memory or on disk: nothing was computed for them.",
        what="reused;(reused tokens|the reused part|reuse|reused in the panel);the (dark|filled|full) part of the bar",
        asks="why does it say reused?;how many tokens were reused?;what (was|is|gets) reused?;where do reused tokens come from?",
    ),
    topic(
        "tokens typed ahead",
        "Typeahead: chatcli runs your message through the model while you type it, so that the reply begins sooner. --no-typeahead turns it off.",
        what="typed ahead;(typeahead|the typeahead|typing ahead);(tokens typed ahead|prefill while typing)",
        do="(turn off|disable|switch off|stop) (the |)typeahead;(stop|keep) you (reading|from reading) while I type;use chatcli without typeahead",
        asks="do you (read|see) what I type before I send it?;why does it say typed ahead?;why is it busy while I type?;what does (--no-typeahead|--typeahead) do?",
    ),
    topic(
        "new tokens and prefill",
        "Prefill is running the prompt through the model before a reply; new tokens are those that were prefilled while you waited.",
        what="(prefill|prefilling|prefilled|prefilled tokens);(new|new tokens|the new part) in the panel;the prefill;a prefill",
        asks="why does it say (new|prefilled)?;what (is|gets|was) prefilled?;what are new tokens?;how long does (the |)prefill take?",
    ),
    topic(
        "settling",
        "After a reply chatcli settles: it runs the reply as history will show it, without the thinking, so that the next turn starts at once.",
        what="(settle|settled|settling|settled tokens);(run ahead|tokens run ahead);preparing the next turn;next turn ready",
        asks="why is (it|chatcli|my computer) busy after (a|the) reply?;what (happens|does chatcli do) after (a|the) reply?;why does it say (settled|run ahead|preparing the next turn)?;what does next turn ready mean?",
    ),
    topic(
        "statistics",
        "Type /stats: it shows each turn's hit ratio, tokens and times.",
        do="""
(see|show|get|view|find) (the |)(statistics|stats|numbers|times|speed)(| of all turns| of this chat| for every turn)
(see|know|find out) how (fast|quick|slow) (you are|it was|a reply was);(compare|see) the turns
""",
        what="(/stats|the stats command);the statistics",
        asks="(stats|statistics);how (fast|quick) (are you|was that|is this)?;how many tokens (a|per) second?;what (is|was) (the|your) speed?",
    ),
    topic(
        "the context",
        "Type /context: it shows what takes the tokens of this conversation, and how many are left.",
        do="""
(see|show|find out|know|check) (how many tokens are left|where the tokens are|how full the context is|how long this can get)
(see|count) the tokens(| of this chat| that are left);(see|check) the context
""",
        what="(the context|the context window|/context|the context command);the context length;context",
        asks="how (long|big|large) (can|may|is) (a chat|a conversation|the context|this)(| get| be)?;how many tokens (are left|do I have|fit|can I use|are there)?;is the context full?;how much (can|do) you (remember|hold|read)(| at once)?",
    ),
    topic(
        "compacting",
        "Type /compact: a new session begins with a summary and the last turns, and /undo goes back.",
        do=f"""
(compact|shorten|compress|shrink|condense) (a|the|this|our|my) ({CHAT}|context|history)
(make|get|free) (room|space|more room)(| for more| in the context);(summarize|summarise) (this|the|our|a long) {CHAT} to make room
(go on|continue) when the context is full
""",
        what="(compacting|compaction|/compact|the compact command);compact",
        asks="the (context|conversation) is (full|too long)(|, what now?);what (do I do|happens) when the context is full?;what if (this|the chat) gets too long?",
    ),
    # Thinking.
    topic(
        "turning thinking off or on",
        "Type /think off or /think on; on the command line it is --no-think or --think.",
        do="""
(turn|switch) (off|on) (the |your |)thinking;(disable|enable|stop|prevent|skip|start) (the |your |)thinking
(make|have|let) you (answer|reply) (without thinking|directly|at once|faster);turn (the |your |)thinking (off|on)
(keep|stop) you (from thinking|thinking)
""",
        what="(--no-think|--think|/think);(the think command|the thinking switch)",
        asks="don't think(| so much| so long);think less;(can|may) (the |your |)thinking be (turned|switched) (off|on)?;(stop thinking|no thinking)(| please);why do you think so long?",
        weight=2,
    ),
    topic(
        "seeing the thinking",
        "Press Ctrl-T: it shows the thinking of the reply that comes, or the whole conversation to read in.",
        do="""
(see|show|read|view|look at|unfold|open) (the|your|all the) (thinking|thoughts|reasoning)
(see|know|read) what you (think|thought|are thinking);expand the (thinking|grey line)
""",
        asks="(show me|what are|where are|where is) your (thoughts|thinking|reasoning)(|?);what did you (just |)think?;what are you thinking(| about)?;where can I read (your|the) thinking?;what does ctrl-t do?;show (the|your) thinking",
        weight=1.5,
    ),
    topic(
        "thinking",
        "I think in a few words before I answer. Ctrl-T shows it, and /think off turns it off.",
        what="(the |your |)thinking;(the |your |)(thoughts|reasoning)(| before a reply);a thinking model;thinking models",
        asks="why do you think(| first| before you answer| at all)?;(can|do) you think?;do you really think?;what (is|does) the grey (text|line)(| mean)?;how do you think?",
        weight=1.5,
    ),
    topic(
        "how much a model thinks",
        "Type /think low, /think medium or /think high, if the model's template has an effort; --think-budget TOKENS ends the thinking after so many tokens.",
        do="""
(set|change|choose|control|limit) (how (much|long) (you|a model|the model) (think|thinks)|the thinking effort|the effort)
(make|let|have) (you|a model|the model) think (more|less|longer|shorter|harder);limit the (thinking|reasoning)(| time| tokens)
""",
        what="(--think-budget|the think budget|a thinking budget|think_budget);(the|thinking) effort",
    ),
    # Models.
    topic(
        "using another model",
        f"Start chatcli -m with a folder or a hub name, for example chatcli -m {EXAMPLE_MODEL}. In a chat, type /model NAME.",
        do="""
(use|load|run|try|choose|pick|select|get|install|add) (a|another|a different|a bigger|a better|a larger|a real|a new|my own|a local|a smarter|a stronger) (model|llm|one|language model)
(switch|change|upgrade|move) (to|over to) (a|another|a different|a bigger|a better|a real|a smarter) (model|llm|one)
(change|switch|swap|replace|select) (the |)(model|models|llm);(talk|chat) (to|with) (a|another|a bigger|a real|a smarter) model
(use|run|load|try) (Qwen|Llama|Gemma|Mistral|GLM|DeepSeek|gpt-oss|Kimi|Phi|Nemotron)(| here| with chatcli)
(replace|stop using) (you|pocket)(| with a real model)
""",
        what="(/model|-m|the model command|the option -m|the model option)",
        asks="""
is there a (better|bigger|smarter|real|larger) (model|one)?;where do I get a (better|bigger|real|smarter) model?
(can|does) (chatcli|it|this) (run|use|support|work with) (Qwen|Llama|Gemma|Mistral|GLM|DeepSeek|gpt-oss|other models|big models|my own model)?
I want a (better|bigger|smarter|real|stronger) model;you are too (small|stupid|weak|dumb), (is there|give me) another model(|?)
what model (should|can|could) I use(| instead)?;model;(give me|I need) a real model
""",
        weight=3,
    ),
    topic(
        "using the model [m]",
        "Start chatcli -m [m], or type /model [m] in a chat.",
        do="(use|load|run|try|start|open) (the model |)[m](| with chatcli| here);(switch|change) to (the model |)[m];(chat|talk) with [m];have [m] answer",
        asks="(can|does) (chatcli|it) (run|load|use) [m]?;load [m];I want [m];(please |)(switch to|use) [m]",
    ),
    topic(
        "which models there are",
        "chatcli models lists the models on this machine. Any that mlx-lm loads and that has a chat template will do.",
        do="(list|see|show|find|view) (the|all|my|all the|available|installed) models;find out which models (I have|are here|can run);get a list of models",
        asks="""
(which|what) models (can I use|work|are there|are supported|does chatcli support|do you support|are installed|do I have|run here|are available)?
what models (exist|do you know|can you run)?;(list|show)(| me) (the|all|my) models;does every model work?
""",
        weight=1.5,
    ),
    topic(
        "the model that is used now",
        "Type /model: it shows which model this is.",
        do="(see|find out|check|know) (which|what) model (is running|this is|I use|is loaded|I am using|is used);(check|see) the (current |)model",
        asks="(which|what) model is (loaded|running|in use|used|active)(| now)?;(which|what) model (am I|are we) using(| now)?;is (this|it) still pocket?",
    ),
    topic(
        "the default model",
        f"Run chatcli config model NAME, for example chatcli config model {EXAMPLE_MODEL}; then it is used without -m.",
        do="""
(set|change|choose|make) (the|a|another|my) default model;(always|permanently) use (another|a different|the same|a bigger) model
(use|have) a model (by default|from now on|every time)(| without -m);(remember|keep|store) (the|my) model
start with another model (every time|by default)
""",
        what="the default model;default models",
    ),
    topic(
        "a short name for a model",
        f"Run chatcli config models.fast {EXAMPLE_MODEL}; then chatcli -m fast will do.",
        do="(give|set|make|define|add) (a|some) (model|models) (a short name|an alias|a nickname|another name);(make|create|define|add) an alias(| for a model);shorten (the|a) (name of a model|model name)",
        what="(an alias|aliases|model aliases);a short name for a model",
    ),
    topic(
        "downloading a model",
        f"Start chatcli -m with a name on the hub, such as {EXAMPLE_MODEL}: it is downloaded, and goes on from there if you stop it.",
        do="(download|fetch|install|pull|get) (a|the|new|another|some) (model|models|weights)(| from the hub| from hugging face);get a model (from|off) (hugging face|the hub|the internet)",
        asks="(where|how) (are|do) models (downloaded|come from)?;where do (the |)models come from?;do I have to download (anything|something|a model)?;does chatcli download (models|anything)?",
    ),
    topic(
        "draft models",
        "A draft model is a small one that proposes a reply's tokens, which makes replies faster where it is often right: /draft-model NAME.",
        do="(use|set|choose|add|load) a draft model;(turn on|enable|use) speculative decoding;speed up (replies|a big model) with a small model",
        what="(a draft model|draft models|/draft-model|--draft-model);(speculative decoding|speculation)",
    ),
    topic(
        "the temperature",
        "Type /set temp 0.7, or start with --temp 0.7; 0 takes the likeliest token.",
        do="(set|change|raise|lower|adjust|choose) (the |)(temperature|temp);(make|have) (you|the model|replies) (more|less) (creative|random|predictable);(get|have) (random|varied|less random) replies",
        what="(the |)temperature;(temp|--temp|the temp setting)",
        weight=1.5,
    ),
    topic(
        "setting the temperature to [x]",
        "Type /set temp [x], or start chatcli with --temp [x].",
        do="(set|change|raise|lower) (the |)(temperature|temp) to [x];(use|have|try) a temperature of [x];(sample|answer) (at|with) temperature [x]",
        asks="(set |)temperature [x];temp (=|to) [x];set temp to [x]",
    ),
    topic(
        "the seed",
        "Type /set seed 7, or start with --seed 7: the same seed gives the same reply.",
        do="(set|fix|choose|change) (the|a) (random |)seed;(get|have) the same reply (every time|again|twice);make (replies|answers|it) (reproducible|repeatable|deterministic)",
        what="(the|a) (sampling |)seed;(--seed|the seed setting)",
    ),
    topic(
        "the length of replies",
        "Type /set max_tokens 200, or start with -n 200; thinking counts too.",
        do="(limit|set|change|restrict) the (length|size) of (a reply|replies|your answers|answers);(make|keep|get) (replies|answers|your answers) (shorter|short|longer)(| always);limit (the tokens|how much you write)",
        what="(max_tokens|--max-tokens|the most tokens in a reply);the reply limit",
    ),
    topic(
        "settings of sampling",
        "/set shows how tokens are chosen, and /set KEY VALUE changes it: temp, top_p, top_k, min_p, seed, max_tokens and more.",
        do="(change|set|see|adjust|tune) (the |)sampling(| settings| parameters);(change|see|set) how tokens are (chosen|picked|sampled);(change|set) (parameters|generation settings|the parameters)",
        what="(/set|the set command);(sampling|sampling settings|the sampler)",
    ),
    topic(
        "the system prompt",
        "Type /system TEXT to set it, /system to see it, /system off to remove it; on the command line it is -s TEXT.",
        do="(set|change|see|show|remove|give you|write|add|delete) (a|the|another) system (prompt|message);(tell you|set|define) (how to behave|a role|your role|your personality)(| for the whole chat);give you (instructions|rules) for the whole (chat|conversation|session)",
        what="(a|the) system (prompt|message);(/system|the system command)",
        weight=1.5,
    ),
    topic(
        "the date",
        "Type /date today to tell the model today's date: a session keeps the date of its first turn.",
        do="(change|set|update|tell you) (the|today's) date(| that the model is told| of this session);give the model (the|another) date",
        what="(/date|the date command);the date of a session",
    ),
    # Writing messages.
    topic(
        "attaching a file",
        "Write @ before its name in your message, such as @notes.txt; Tab completes the name.",
        do="(attach|add|include|send|upload|insert|give you|show you|share) (a|the|my|some) (file|text file|document|files|notes)(| to a message| with a message);(make|have|let) you read a (file|document);put a file into (a|my|the) message",
        what="(an attachment|attachments|attaching files);the @ sign",
        asks="can (you|chatcli) (read|open|take|see) (files|a file|my files|documents|a document|a pdf|text files)?;how do I (upload|attach)(| something)?;what does @ do(| in a message)?",
        weight=2,
    ),
    topic(
        "attaching [f]",
        "Write @[f] in your message.",
        do="(attach|add|include|send|upload|show you) (the file |)[f](| to a message);(make|have|let) you read [f];put [f] into (a|my) message",
        asks="(can|could) you (read|open|look at) [f]?;(read|open|summarize|look at) [f];what is in [f]?;(show|print) (the file |)[f]",
    ),
    topic(
        "attaching an image",
        "Type /image cat.png, or write @cat.png in your message. The model must be one that sees images; I do not.",
        do="(attach|add|send|upload|show you|give you|include) (an image|a picture|a photo|a screenshot|images|pictures|my photo);(use|work with) (images|pictures|photos);let you look at a (picture|photo)",
        what="(/image|the image command|--image);images",
        asks="(can|do) you (see|look at|read|understand|describe) (images|pictures|photos|a picture|this image|my photo|screenshots)?;does chatcli (support|take|do) (images|pictures|photos)?",
        weight=1.5,
    ),
    topic(
        "a new line in a message",
        'Press Alt-Enter or Ctrl-J; lines between """ are one message, too.',
        do="(write|type|make|insert|add|start|get) (a|another) (new line|line break|second line|newline)(| in a message);(write|type|send) (several|many|more than one|two) lines(| in one message);(write|send) a (long|multi-line|multiline) (message|text);break (a|the) line without sending",
        asks="enter sends my message, but I want a new line;(what|which) key (makes|is for|gives) a new line?;how does a newline work?;shift-enter does not work",
    ),
    topic(
        "pasting",
        "A long paste folds into one chip: Ctrl-O opens it and folds it again, one backspace removes it.",
        do="(paste|insert) (a long text|a lot of text|something long|text|code)(| here);(open|see|unfold|edit|remove) (a|the|what I) (pasted text|paste|pasted)",
        what="(a|the|my) (folded |)paste;(the chip|pasting|a chip)",
    ),
    topic(
        "writing in an editor",
        "Press Ctrl-G: it opens your message in your editor.",
        do="(write|edit|type) (a|my|the) (message|prompt) in (an|my|another|an external) editor;(open|use) (my|an|an external) editor(| for a message);use (vim|vi|nano|emacs|my editor)(| to write| for messages)",
        asks="can I use (vim|emacs|nano|my own editor|my editor)?;what does ctrl-g do?;is there an editor?",
    ),
    topic(
        "earlier messages in the input box",
        "Press Up for what you wrote before, or Ctrl-R to search it.",
        do="(get|bring) back (a|my last|the last|an earlier) (message|line|input)(| I typed| in the box);(see|find|reuse|recall|repeat) what I (typed|wrote) before;(use|search) (the |my )(input |typing |)history",
        what="(the input history|ctrl-r|the history);input history",
    ),
    topic(
        "clearing the input history",
        "Run chatcli history clear: it forgets everything that was typed, and the conversations stay.",
        do="(clear|delete|erase|forget|remove) (the |my )(input |typing |typed |)history(| of the input box);make chatcli forget what I typed",
        what="(chatcli history|chatcli history clear);the history command",
    ),
    topic(
        "completion",
        "Press Tab to complete commands and file names; chatcli --install-completion teaches your shell the rest.",
        do="(complete|auto-complete|autocomplete) (a command|commands|file names|names|words);(use|get|have|install|turn on) (tab |shell |auto |)completion",
        what="(completion|tab completion|autocomplete|--install-completion);the tab key",
    ),
    topic(
        "plain output",
        "Start chatcli --plain: it goes line by line, without colours or drawing.",
        do="(use|have|get|run) chatcli without (colours|colors|drawing|markdown|formatting);(turn off|disable|remove) (the |)(colours|colors|markdown|formatting);(get|have|see) plain (text|output);use (a screen reader|a dumb terminal|a simple terminal)",
        what="(--plain|plain mode|the plain mode);the option --plain",
    ),
    # Scripts and programs.
    topic(
        "asking from a script",
        'Run chatcli ask "your question": it prints one reply. What comes from a pipe is appended.',
        do="(use|call|run) (chatcli|you|this) (in|from) (a script|scripts|a shell script|bash|a pipe|the shell|cron);(ask|send) (one|a single) (question|prompt)(| without a chat| without the chat);(pipe|send) (a file|text|something|output) (to|into) chatcli;automate (this|chatcli)",
        what="(chatcli ask|the ask command);asking from a script",
        asks="can I (script|automate) (this|chatcli)?;does chatcli work (in|with) (pipes|a pipe|scripts)?;is there a batch mode?",
    ),
    topic(
        "JSON output",
        "Add --json: chatcli ask --json prints one object with every number.",
        do="(get|have|print|see) (json|the reply as json|json output|machine-readable output);parse (the|your) (output|reply) (in|with|from) a program",
        what="(--json|the json output|json output);the option --json",
    ),
    topic(
        "using chatcli from Python",
        'In Python: from chatcli import Chat, then Chat("notes").send("Hello").text().',
        do="(use|call|import) chatcli (in|from) (python|a python program|my program);(write|make) a (python |)program (with|that uses) chatcli;talk to you from python",
        asks="is there a (python |)(api|library|module)?;does chatcli have (an api|a python api|a library)?;(python api|api);can python (use|call) chatcli?",
    ),
    topic(
        "the server",
        "Run chatcli serve: programs then talk to the model as to OpenAI's or Anthropic's API, at 127.0.0.1 port 8080.",
        do="(serve|offer|expose) (a|the|this) model(| to (programs|other programs|an agent|agents));(use|connect|run) (an agent|other programs|another program|a client|claude code|an openai client) (with|to|on) (chatcli|this|a local model);(start|run|open|use) (a|the) (server|http server|local server|api)",
        what="(chatcli serve|the server|the serve command);(the openai api|the http api|serving)",
        asks="(is there|does chatcli have) (a server|an http api|an openai api|a rest api|a web server)?;(which|what) port (does|is) the server (use|on)?;can other programs use (this|you|the model)?;serve",
        weight=1.5,
    ),
    topic(
        "the server's port and key",
        "Run chatcli serve --port 9000 --host 0.0.0.0 --api-key KEY; a host other than this machine's own needs a key.",
        do="(change|set|choose) the (port|host|address|api key|key) of (the|a) server;(reach|use|open) the server from another (computer|machine);(protect|secure) the server(| with a key)",
        what="(--port|--host|--api-key);the api key of the server",
    ),
    # Settings, cache, machine.
    topic(
        "settings",
        "chatcli config shows every setting, and chatcli config KEY VALUE changes one, such as chatcli config temp 0.7.",
        do="(change|see|show|set|edit|find|list|view) (the|a|my|all) (settings|setting|configuration|config|preferences|options|defaults);configure (chatcli|this|it);(remember|keep|store) a setting",
        what="(chatcli config|the configuration|the settings|the config command);settings",
        asks="where are the (settings|preferences|options)?;(settings|config|preferences);(which|what) settings (are there|exist|can I change)?;can I (customize|configure|personalize) (chatcli|this|it)?",
        weight=1.5,
    ),
    topic(
        "the config file",
        "It is config.toml in your configuration folder; chatcli config --edit opens it.",
        do="(open|edit|find|change|see) the (settings|config|configuration) file;edit (the config|config.toml|my settings) (by hand|in an editor)",
        asks="where is the (settings|config|configuration) file?;(what|which) file (has|holds) the settings?;what is config.toml?;where does chatcli (keep|save|store) (its|the|my) settings?",
    ),
    topic(
        "forgetting a setting",
        "Run chatcli config --unset KEY, for example chatcli config --unset temp.",
        do="(unset|reset|forget|remove|delete) (a|the|my) (setting|settings)(| again);(go back|return) to the default (of a setting|setting|settings);restore (a default|the defaults)",
        what="(--unset|the option --unset);unsetting",
    ),
    topic(
        "what a checkpoint is",
        "A checkpoint is the model's state after a part of the conversation, kept on disk. chatcli restores it instead of computing the same tokens again.",
        what="(a|the|context) checkpoint;(checkpoints|the checkpoints|context checkpoints);(the cache|the kv cache|a kv cache|caching|the prompt cache);(a|the) saved state",
        asks="(what|which) (is|are) (cached|kept in the cache|saved as checkpoints)?;how do (checkpoints|the checkpoints|caches) work?;why (are there|do you make|does chatcli make|do I need) checkpoints?;checkpoint;what is in the cache?",
        weight=2.5,
    ),
    topic(
        "why it is fast",
        "chatcli keeps checkpoints, so it never computes the same tokens twice: not on the next turn, not after quitting, not on a branch.",
        asks="""
why (are you|is chatcli|is it|is this|was that) (so |)(fast|quick);what makes (chatcli|you|it|this) (so |)(fast|quick|special|different)?
how (can|does) (chatcli|it|this) (start|answer|resume|reply) so (fast|quickly|soon)?;why do you answer so (fast|quickly|soon)?
how does chatcli (save time|avoid computing twice|reuse tokens|save work)?;why is (resuming|branching|going back) (so |)(fast|quick)?
why (should I|would I|do people) use chatcli?;what is (special|new|good|better) about chatcli?
what (is|are) the (advantage|advantages|benefit|point|idea) of chatcli?
""",
        weight=2,
    ),
    topic(
        "where checkpoints are",
        "They are in the folder kv in the sessions folder. chatcli cache stats shows what they take; deleting them costs time, never words.",
        asks="where (is|are) (the|my) (checkpoints|cache|cache files|kv cache)(| saved| stored| kept)?;where does chatcli (keep|save|store|put) (its|the) (checkpoints|cache)?;(which|what) folder (has|holds) the (cache|checkpoints)?;can I delete the (cache|checkpoints|kv folder)?;is it safe to delete the (cache|checkpoints)?",
        weight=1.5,
    ),
    topic(
        "the size of the cache",
        "chatcli cache stats shows what the checkpoints take on disk.",
        do="(see|find out|check|know|show) (how (big|large) the cache is|the size of the cache|what the cache takes|how much (disk|space) (the cache|checkpoints) (takes|take))",
        what="(chatcli cache stats|the cache stats);chatcli cache",
        asks="how (big|large|much) (is|are|takes) the (cache|checkpoints)?;how much (disk|disk space|space|room) (do|does) (you|chatcli|the checkpoints|the cache|it) (use|take|need)?;is my disk (full|getting full)?;(chatcli|it|the cache) takes (too much|a lot of|so much) (disk|space|room)",
    ),
    topic(
        "clearing the cache",
        "Run chatcli cache clear. No conversation is lost; chatcli cache gc removes only what no session needs.",
        do="(clear|empty|delete|clean|remove|wipe|purge|flush) (the |)(cache|checkpoints|kv cache|all checkpoints);(free|get|save) (disk space|space|room)(| on my disk);clean up(| the cache| the disk)",
        what="(chatcli cache clear|chatcli cache gc);(garbage collection|the cache gc)",
        weight=1.5,
    ),
    topic(
        "checking for damage",
        "Run chatcli cache verify: it reads every checkpoint and transcript, and names whatever is damaged.",
        do="(check|verify|test) (the|my) (cache|checkpoints|sessions|files)(| for damage| for errors);find (damage|damaged files|broken files|errors on disk)",
        what="(chatcli cache verify|the verify command);verifying",
    ),
    topic(
        "the cache limit",
        "By default checkpoints take at most 20 GiB or a tenth of the free disk, whichever is less; --cache-limit 5GB changes that.",
        do="(limit|set|change|restrict|raise) (the |)(cache|cache size|size of the cache|cache limit|space for checkpoints);(keep|make) the cache (small|smaller)",
        what="(the cache limit|--cache-limit|the limit of the cache);cache_limit",
        asks="(how|what) (big|large|much) (can|may) (the cache|checkpoints) (get|become|take)?;what happens when the (cache|disk) is full?;is there a limit (to|for|on) the (cache|checkpoints)?",
        weight=1.5,
    ),
    topic(
        "running without checkpoints",
        "Start with --no-cache: then no checkpoint is read or written.",
        do="(run|use|start|chat) (chatcli |)without (the cache|checkpoints|a cache|caching);(turn off|disable|switch off) (the cache|checkpoints|caching);(keep|write) nothing on disk but the text",
        what="(--no-cache|the option --no-cache);--cache",
    ),
    topic(
        "the memory limit",
        "Start with --memory-limit 12GB: a prompt that needs more is refused, and nothing is lost.",
        do="(limit|set|restrict|reduce) (the |)(memory|ram)(| use| that is used| usage);(keep|stop) chatcli from (using|taking) (too much|all my|so much) (memory|ram);use less (memory|ram)",
        what="(--memory-limit|the memory limit);memory_limit",
    ),
    topic(
        "checking this machine",
        "Run chatcli doctor: it checks this machine, MLX, the disk, the terminal and your sessions, and says what to do.",
        do="(check|test|diagnose) (chatcli|my machine|my computer|the installation|my setup);(find|fix|solve) (a problem|problems|what is wrong|an error)(| with chatcli);(see|find out) (what|whether something) is wrong",
        what="(chatcli doctor|the doctor|the doctor command);doctor",
        asks="(something|chatcli|it) (is|seems) (wrong|broken|odd|strange|not working);(chatcli|it) (does not|doesn't) work(| properly| right);(what|why) is (wrong|something broken)?;I (have|get|see) (an error|a problem|errors)(| with chatcli)",
        weight=1.3,
    ),
    topic(
        "measuring speed",
        "Run chatcli bench turns: it measures speed and reuse on this machine, next to other programs.",
        do="(measure|test|benchmark|compare) (the speed|speed|chatcli|performance|how fast it is|my machine)(| of my machine);(run|start|do) (a|the) (benchmark|benchmarks|speed test)",
        what="(chatcli bench|the bench command|the benchmark);benchmarks",
    ),
    topic(
        "the version",
        "Run chatcli --version.",
        do="(see|find out|check|get|show|know) (the|which|what) version(| of chatcli| I have| this is)",
        asks="(which|what) version (of chatcli |)(is this|do I have|am I using|are you|is installed)?;(version|version number);how (new|old) is (this|my) (version|chatcli)?;what version?",
    ),
    topic(
        "help",
        "Type / or /help to see all commands, /help COMMAND to read about one, /help keys for the keys.",
        do="(get|see|find|read) (help|the help|the manual|all commands|the commands|more help|the documentation);(learn|see|list) (the|all|all the) (commands|slash commands|options);(use|learn|work with|get started with) (chatcli|this|this program)",
        what="(/help|the help command|slash commands|commands);(the commands|the slash commands)",
        asks="""
(help|help!|help please);(what|which) (commands|slash commands|options) (are there|do you have|exist|does chatcli have|can I use)?
(list|show|show me|give me) (all |)(the |)(commands|options|slash commands);where is the (manual|help|documentation|guide)?
what can I (type|do|enter)(| here| in chatcli)?;is there (a |)(help|manual|help page|tutorial)?;how do I (begin|start|use this|use chatcli|use you)?
I am (new|lost|confused)(| here|, help me);what (now|next|should I do now)?;what do I do (here|now|next)?
""",
        weight=3,
    ),
    topic(
        "the keys",
        "Type /help keys. Enter sends, Alt-Enter makes a new line, Esc stops a reply, Ctrl-T shows the thinking, Ctrl-D leaves.",
        do="(see|learn|list|show|find) (the|all|all the) (keys|shortcuts|key bindings|keyboard shortcuts|hotkeys)",
        what="(the|all the) (keys|shortcuts|key bindings|keyboard shortcuts|hotkeys);(/help keys|keyboard shortcuts)",
        asks="(what|which) (keys|shortcuts|key bindings|hotkeys) (are there|can I use|do you have|exist|work)?;(keys|shortcuts|hotkeys|keyboard);are there (any |)(shortcuts|keys|hotkeys)?",
        weight=1.5,
    ),
    topic(
        "what chatcli is",
        "chatcli is a chat program for the terminal that runs models on your own computer. It keeps checkpoints, so it never computes the same tokens twice.",
        what="chatcli;(this program|this tool|this app|this software|this thing);(the chatcli program|chatcli itself)",
        asks="""
what (program|tool|app|software) is this?;what (does|can) (chatcli|this program|this tool|this app) do?
(what is|what's) (this|all this|going on here)?;what can I do (with|in) (chatcli|this program|this)?;chatcli?
""",
        weight=2.5,
    ),
    topic(
        "chatcli in detail",
        "chatcli runs chat models on your own machine and saves every message as it comes. Its checkpoints on disk let "
        "any conversation go on at once, and /branch, /rewind, /edit and /regenerate lose nothing: /tree keeps every path. "
        "/help lists the commands.",
        what="(chatcli|this program|this tool) (in detail|in depth|fully|thoroughly|at length);chatcli in (more |full |)detail;all of chatcli;everything about chatcli",
        asks="""
(explain|describe) (chatcli|this program|how chatcli works) (in detail|in depth|to me in detail|fully|step by step|thoroughly)(| please)
(tell me|I want to know) (everything|more|all|a lot) about (chatcli|this program|this tool);how does (chatcli|this program|this tool|this) work (in detail|exactly|inside)?
give me (an introduction|a tour|an overview|a tutorial|the details)(| of chatcli| to chatcli);introduce (chatcli|me to chatcli)
what (can|does) chatcli (all |)(offer|do for me|have)(| in detail)?;tell me more about chatcli;more (details|detail) about chatcli
what are the (features|main features|functions|possibilities)(| of chatcli)?
""",
        weight=2.5,
    ),
    topic(
        "privacy",
        "Everything stays on this machine: the model runs here, sessions are files that only you can read, and nothing is sent anywhere.",
        asks="""
(is|does) (chatcli|this program|my data|this|it|this chat) (private|send data|sent anywhere|safe|secure|spy on me|confidential)(|?)
are my (chats|messages|conversations|secrets|data) (private|safe|secure|sent anywhere|uploaded)?;who (can|will) (read|see) (this|my messages|what I write|my chats)?
do you (send|share|upload|sell) (my |)(data|messages|anything|chats)(| anywhere| to anyone)?
(is|are) (this|my messages|our chat) (sent|uploaded) (to the internet|to a server|to the cloud)?;does (someone|anyone|somebody) (read|watch|see) this?
""",
        weight=1.5,
    ),
    topic(
        "working offline",
        "I run on this machine and need no network; only downloading another model does.",
        asks="(does|will|can) (chatcli|this|it) (run|work) (offline|without internet|without a network|on a plane|locally)?;do (I|you) need (the |)(internet|network|wifi|a connection)?;are you (online|offline|local|in the cloud|connected to the internet)?;do you run (locally|here|on my computer|on this machine|in the cloud)?;where do you run?",
    ),
    topic(
        "the price",
        "Nothing: chatcli and I are free, and we run on your own machine.",
        asks="(what|how much) (does|do) (chatcli|this|you|it) cost?;(is|are) (chatcli|this|you|it) (free|expensive|paid)?;do I have to pay(| for this| for you)?;is there a (subscription|fee|price|limit of messages)?;what is the price(| of chatcli)?",
    ),
    topic(
        "several machines",
        "One model can run on several machines under mlx.launch; --pipeline gives each of them whole layers.",
        do="(use|run) (several|two|many|more) (machines|computers|gpus)(| for one model);(run|split|share) a (big |)model (on|over|across) (several|two|many) (machines|computers)",
        what="(--pipeline|the pipeline option);distributed models",
    ),
    topic(
        "code that comes with a model",
        "It runs only if you let it: chatcli asks once for each model, or --trust-remote-code lets it run this time.",
        do="(allow|trust|run) (remote code|the code of a model|code from a model|model code)",
        what="(--trust-remote-code|remote code|trust remote code);code that comes with a model",
        asks="is (remote|model) code safe?;why does chatcli ask (about code|whether I trust a model)?;can a model run code(| on my machine)?",
    ),
    topic(
        "slowness",
        "A large model takes its time; /stats shows where the time goes, and a smaller model is faster.",
        do="(speed up|accelerate) (chatcli|the model|the replies|it);(make|get) (chatcli|the model|it|replies) faster;(get|have) faster (replies|answers)",
        asks="why is (it|chatcli|the model|this|everything) (so |)slow?;(it|chatcli|the model|this) is (so |very |too |)slow;(it|the reply|the model) takes (too long|so long|forever|ages);what takes (so long|the time)?",
    ),
    topic(
        "reading what was said before",
        "Press Ctrl-T: it opens the whole conversation to read in, and Esc closes it.",
        do=f"(scroll|scroll up|scroll back|go up)(| in this {CHAT}| to the top);(read|see|show) (the whole|all of this|the entire|the earlier|older) ({CHAT}|messages)(| again);(look|go) at (old|earlier) messages(| of this {CHAT})",
        asks=f"where (is|are) the (beginning|earlier messages|old messages|start)(| of this {CHAT})?;can I (scroll|read everything again|see older messages)?;how does scrolling work?",
    ),
    topic(
        "drawing the screen again",
        "Press Ctrl-L: it draws the screen again.",
        do="(redraw|refresh|repaint|repair|clean|fix) the (screen|display|terminal|window);(get rid of|remove) (garbage|strange letters|rubbish) on the screen",
        asks="the (screen|display|terminal) (is|looks) (garbled|broken|wrong|messy|odd|strange);my (screen|terminal) is a mess;there is garbage on (the|my) screen",
        weight=0.7,
    ),
    topic(
        "installing chatcli",
        "In a clone of the repository, run pip install '.[cpu]'; on a Mac, pip install . will do.",
        do="(install|set up|get|download) chatcli(| on another machine| on linux| on my mac| on my computer);(put|have) chatcli on (another|my other) (computer|machine)",
        what="(installing|installation|the installation)(| of chatcli);the setup of chatcli",
        asks="how is chatcli installed?;where (do|can) I (get|find|download) chatcli?;how did I install (this|chatcli)?",
    ),
    topic(
        "where chatcli runs",
        "chatcli runs on macOS and Linux: on a Mac with the GPU, on Linux with the CPU or an NVIDIA GPU.",
        asks="(does|will|can) (chatcli|this|it) (run|work) on (windows|linux|a mac|macos|my phone|a server|a raspberry pi|ubuntu|an old computer)?;(which|what) (systems|platforms|machines|computers|operating systems) (does chatcli run on|are supported|does it support)?;(does|can) (chatcli|it|this) use (the|my) (gpu|graphics card|nvidia card)?;do I need a (gpu|graphics card|mac)?;(is|are) (windows|linux|gpus) supported?",
    ),
    topic(
        "MLX",
        "MLX is a framework that runs models on Apple silicon, CPUs and NVIDIA GPUs; chatcli runs models with it.",
        what="(MLX|mlx-lm);(the MLX framework|MLX in chatcli)",
        asks="(does|why does) chatcli use MLX?;(which|what) (framework|library|engine) (runs|does chatcli use for) (the |)models?;what runs the models?",
        weight=0.7,
    ),
    topic(
        "two chats at once",
        "Two chats may be open at once; of one session only one writes, and the other may branch.",
        asks=f"can I (open|have|run|use) (two|several|more|many) ({CHATS}|windows|chatclis) (at once|at the same time|in parallel|together)?;(does|will) (a second|another) (window|terminal|chatcli) (work|disturb)?;can (two|several) (people|programs|windows) use the same {CHAT}?;what if I open (a|the same) {CHAT} twice?",
        weight=0.7,
    ),
    topic(
        "the licence",
        "chatcli is open source, under the MIT licence.",
        what="the (licence|license)(| of chatcli);(licensing|the MIT licence)",
        asks="is (chatcli|this|it) open(-| )source?;(which|what) (licence|license) (does (chatcli|it) have|is it under)?;(may|can) I (copy|change|sell|share|modify) chatcli?;where is the (source|source code)?",
        weight=0.7,
    ),
    topic(
        "voice",
        "No, chatcli takes text, and images for models that see.",
        asks="can (I|you|chatcli) (talk|speak|listen|hear)(| to you| with my voice| aloud)?;does chatcli (have|support|do) (voice|speech|audio|sound|a microphone|video|voice input)?;can (I|you) (use|play|read) (my voice|audio|sound|a microphone|music files|videos|aloud)?;(voice|speech) (input|mode)(|?)",
        weight=0.7,
    ),
    topic(
        "tools and agents",
        "A tool that a model calls is shown and not run; an agent can use the model through chatcli serve.",
        what="(tools|tool calls|function calling|tool use)(| in chatcli);(agents|an agent)",
        asks="(can|do|does) (you|chatcli|a model here) (use|call|run|have) (tools|functions|plugins|mcp)?;does chatcli (have|support) (plugins|tools|agents|function calling|mcp)?;can (a model|the model) run (commands|programs|shell commands)(| on my machine)?",
        weight=0.7,
    ),
    topic(
        "sessions",
        "A session is one saved conversation with all its branches: a file that is only ever appended to.",
        what="(a|the) session;(sessions|a saved session);(session files|a session file)",
        asks="what do you mean by session?;is a session (a file|a chat|a conversation)?;what is in a session?",
    ),
    topic(
        "turns",
        "A turn is one message of yours and its reply. Turns are numbered from 1.",
        what="(a|the) turn;(turns|turn numbers);(a|the) turn number",
        asks="what do you mean by turn?;how are turns numbered?;what is turn (1|2|3|one|two)?",
    ),
    topic(
        "tokens",
        "A token is a piece of a word; models read and write tokens, and chatcli counts them.",
        what="(a|the) token;(tokens|the tokens);(a|one) token(| in chatcli)",
        asks="what are tokens?;how (long|big) is a token?;is a token a word?;how many (letters|words) (has|is) a token?",
    ),
)


def session_name(rng: Random) -> str:
    """Such as trip-to-lisbon."""
    parts = [
        one(rng, w.NOUNS) if rng.random() < 0.7 else invented(rng) for _ in range(1 + int(rng.random() * 3))
    ]
    return "-".join(parts) + (f"-{int(rng.random() * 30)}" if rng.random() < 0.2 else "")


def file_name(rng: Random) -> str:
    """Such as notes.txt."""
    ending = one(rng, ("md", "txt", "json", "html", "md", "txt", "py", "csv", "pdf", "log"))
    return f"{one(rng, ('', '', '', 'my-', 'old_', '~/', 'docs/'))}{session_name(rng)}.{ending}"


def export_name(rng: Random) -> str:
    """A file that a conversation is exported to."""
    return f"{session_name(rng)}.{one(rng, ('md', 'html', 'json'))}"


def model_name(rng: Random) -> str:
    """A hub name or a folder."""
    family = one(rng, ("Qwen3", "Qwen3.5", "Llama-3.2", "gemma-3", "Mistral", "GLM-4.7", "Phi-4", "LFM2", ""))
    family = family or invented(rng).capitalize() + f"-{1 + int(rng.random() * 9)}"
    name = f"{family}-{one(rng, '1234789')}{one(rng, ('B', 'b', 'B-it', 'B-Instruct'))}"
    name += one(rng, ("", "-4bit", "-8bit", "-MLX-4bit", "-bf16"))
    return one(rng, ("mlx-community/", "mlx-community/", "./", "~/models/", f"{invented(rng)}/")) + name


def quoted_words(rng: Random) -> str:
    """What somebody looks for."""
    return " ".join(
        one(rng, one(rng, (w.NOUNS, w.ADJECTIVES, w.NAMES, w.PLACES)))
        for _ in range(1 + int(rng.random() * 3))
    ).lower()


SLOTS: dict[str, Callable[[Random], str]] = {
    "n": lambda rng: str(1 + int(rng.random() * one(rng, (6, 12, 40, 120)))),
    "s": session_name,
    "f": file_name,
    "m": model_name,
    "q": quoted_words,
    "x": lambda rng: one(
        rng, ("0", "1", "0.5", "0.7", f"0.{1 + int(rng.random() * 9)}", f"1.{int(rng.random() * 9)}")
    ),
}
# Each as often as its weight says.
ORDER = [each for each in TOPICS for _ in range(int(each.weight * 4))]


def how_to(source: Source, advert: bool) -> Turn:
    """A question about chatcli."""
    rng = source.rng
    found = one(rng, ORDER)
    ways = [
        frames for frames in (found.do, found.do, found.what, found.asks, found.asks) if frames is not None
    ]
    frames = one(rng, ways)
    text = frames.draw(source)
    if (name := named(text)) is not None:
        if frames is found.what:
            text = ABOUT.draw(source).replace("[np]", text)
        return _turn(rng, text, name.subject, name.answer, "help")
    if frames is found.do:
        text = TO.draw(source).replace("[do]", text)
    elif frames is found.what:
        text = ABOUT.draw(source).replace("[np]", text)
    return _turn(rng, text, found.subject, found.answer, "help")


def _turn(
    rng: Random, text: str, subject: str, answer: str, sort: str, slots: dict[str, str] | None = None
) -> Turn:
    slots = slots if slots is not None else {}
    for slot, make in SLOTS.items():
        if f"[{slot}]" in text and slot not in slots:
            slots[slot] = export_name(rng) if slot == "f" and answer.startswith("Type /export") else make(rng)
    thinking = f"About chatcli: {subject}."
    return Turn(fill(typed(rng, text), slots), fill(thinking, slots), fill(answer, slots), sort)


# Every command, option, setting and key, in the program's own words.
ONE_COMMAND = Frames(
    """
what does [c] do?;what is [c](| for| good for)?;explain [c](|.);(tell me about|describe) [c](|.);how do I use [c]?
how does [c] work?;[c](|?);(what|which) (arguments|words) does [c] take?;help with [c];help [c];(usage of|when do I use) [c]?
(can|could) you explain [c]?;what happens (if|when) I (type|use|run|enter) [c]?;I don't understand [c];what can I do with [c]?
why would I use [c]?;(what about|is there) [c]?;show me how [c] works;give me an example of [c]
(explain|what is) the command [c](|?);how do I write [c]?;what's [c]?;more about [c]
""",
    shared=True,
)
ONE_KEY = Frames(
    """
what does [c] do?;what is [c] for?;(what|which) key is [c]?;what happens (if|when) I press [c]?;explain [c];[c]?
why would I press [c]?;what is the key [c]?;(the key|pressing) [c]?;tell me about [c];what's [c]?;when do I press [c]?
""",
    shared=True,
)


def sentence(text: str, most: int = 150) -> str:
    """The first sentences of a help text, up to a length."""
    parts = text.replace("`", "").split(". ")
    kept = parts[0]
    for part in parts[1:]:
        if len(kept) + len(part) + 2 > most:
            break
        kept += f". {part}"
    return kept.rstrip(".") + "."


@dataclass(frozen=True)
class Name:
    """Something that chatcli is told by name, and what is said about it."""

    written: str
    answer: str
    subject: str


def commands() -> list[Name]:
    """The slash commands, by their names and aliases."""
    found = []
    for name, each in known()["commands"].items():
        answer = f"{each['usage']}: {sentence(each['details'])}"
        found += [
            Name(f"/{written}", answer, f"the command /{written}")
            for written in (name, name, *each["aliases"])
            if written != "?"
        ]
    return found


def programs() -> list[Name]:
    """What may follow `chatcli` on the command line."""
    found = []
    for name, each in known()["programs"].items():
        if name and not name.startswith("bench "):
            usage = " ".join([f"chatcli {name}", *each["arguments"]])
            found.append(
                Name(f"chatcli {name}", f"{usage}: {sentence(each['help'])}", f"the command chatcli {name}")
            )
    return found


def options() -> list[Name]:
    """The settings as options of the command line, and as names for /set."""
    found = []
    for name, each in known()["settings"].items():
        option = f"--{name.replace('_', '-')}"
        answer = sentence(each["help"], 120)
        if name not in ("think", "cache", "typeahead", "pipeline", "panel"):
            found.append(Name(option, f"{option}: {answer}", f"the option {option}"))
        if each["in_shell"]:
            found.append(Name(f"/set {name}", f"/set {name} VALUE: {answer}", f"the option /set {name}"))
        if each["in_shell"] and "_" in name:
            found.append(Name(name, f"/set {name} VALUE: {answer}", f"the option {name}"))
        elif "_" in name:
            found.append(Name(name, f"{option}: {answer}", f"the option {name}"))
    return found


def keys() -> list[Name]:
    """The keys of the input box."""
    found = []
    for names, help_ in known()["keys"].items():
        for name in names.split(", "):
            if name[0].isalpha():
                written = name if "-" in name or "Esc" in name else f"the {name} key"
                found.append(Name(written, f"{name}: {help_}.", f"the key {name}"))
    return found


NAMES: dict[str, list[Name]] = {
    "command": commands(),
    "program": programs(),
    "option": options(),
    "key": keys(),
}


BY_NAME = {each.written.lower(): each for names in NAMES.values() for each in names}
BY_NAME |= {f"the {each.written[1:]} command": each for each in NAMES["command"]}


def named(text: str) -> Name | None:
    """What a question is about that consists of a name, or of "what does … do?"."""
    text = text.lower().rstrip("?.!")
    return BY_NAME.get(text) or BY_NAME.get(text.removeprefix("what does ").removesuffix(" do"))


def by_name(source: Source, advert: bool) -> Turn:
    """A question about one command, option, setting or key, which may not exist."""
    rng = source.rng
    sort = one(rng, ("command", "command", "command", "program", "option", "key"))
    found = one(rng, NAMES[sort])
    written = found.written
    if rng.random() < 0.12:
        return _unknown_name(source, sort)
    if sort == "key" and rng.random() < 0.4:
        written = one(rng, (written.lower(), written.replace("-", "+"), written.replace("Ctrl-", "^")))
    frames = ONE_KEY if sort == "key" else ONE_COMMAND
    if sort == "command" and rng.random() < 0.2:
        written = f"the {written[1:]} command"
    text = typed(rng, frames.draw(source)).replace("[c]", written).replace("[C]", written)
    return Turn(text, f"About chatcli: {found.subject}.", found.answer, f"help {sort}")


def _unknown_name(source: Source, sort: str) -> Turn:
    rng = source.rng
    word = invented(rng) if rng.random() < 0.5 else one(rng, w.NOUNS)
    taken = {*known()["commands"], *known()["programs"], *known()["settings"]}
    taken |= {alias for each in known()["commands"].values() for alias in each["aliases"]}
    while word in taken or len(word) < 2:
        word = invented(rng) + "ly"
    written = {"command": f"/{word}", "program": f"chatcli {word}", "option": f"--{word}", "key": f"/{word}"}[
        sort
    ]
    lists = {"option": "chatcli --help lists the options", "program": "chatcli --help lists the commands"}
    text = typed(rng, ONE_COMMAND.draw(source)).replace("[c]", written)
    kind = {"option": "option"}.get(sort, "command")
    return Turn(
        text,
        f"About chatcli: there is no {kind} {written}.",
        f"There is no {kind} {written}: {lists.get(sort, '/help lists the commands')}.",
        "help unknown",
    )


def answers() -> list[str]:
    """Every answer about chatcli, its slots filled with samples."""
    samples = {slot: make(Random(1)) for slot, make in SLOTS.items()} | {
        "s": "biscuit",
        "f": "talk.md",
        "q": "lisbon",
    }
    given = [fill(each.answer, samples) for each in TOPICS]
    return given + [each.answer for names in NAMES.values() for each in names]


MAKERS: dict[str, tuple[float, Callable[[Source, bool], Turn]]] = {
    "help": (24, how_to),
    "help name": (9, by_name),
}
