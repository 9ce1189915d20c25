"""The slash commands. Each takes the chat and its argument and returns a result."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from chatcli import files
from chatcli.chat_format.arguments import LEVELS
from chatcli.commands import mentions
from chatcli.commands.registry import GROUPS, WrongArgument, all_commands, command, find
from chatcli.commands.results import (
    ClipboardText,
    CommandHelp,
    Context,
    EditableMessage,
    HeadMoved,
    Help,
    KeyHelp,
    Listing,
    Opened,
    PanelMode,
    PlainText,
    Quit,
    Result,
    Search,
    Stats,
    Stream,
    Tree,
)
from chatcli.conversation import images
from chatcli.conversation.code_blocks import last_code_block
from chatcli.conversation.tree import date_in_words
from chatcli.errors import UsageError
from chatcli.exchange import export as exporting
from chatcli.exchange import importing
from chatcli.model import available, hub, vision
from chatcli.session import compaction
from chatcli.session.live_chat import LiveChat
from chatcli.session.open_session import NO_CONVERSATION
from chatcli.settings.declaration import Switch
from chatcli.settings.values import (
    BY_MODEL,
    DEFAULT_VALUES,
    IN_SHELL,
    NO_MODEL,
    PANELS,
    POCKET,
    Sampling,
    aliased,
)
from chatcli.store.sessions import search as searching
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.search import Hit, SearchResult
from chatcli.text import shorten

# Sessions and matches that a list shows.
MAX_LISTED = 50
# One digit chooses a reply.
MAX_ALTERNATIVES = 9
OFF = "off"
SWITCHES = {"on": True, "off": False}
# Messages that are commands, as in other tools. A space before one sends it.
WORDS = {"exit": "/quit", "quit": "/quit", "help": "/help", "?": "/help", "/": "/help"}
SHELL_COMMAND = re.compile(r"![\w./~-]")


def _session_names(chat: LiveChat) -> list[str]:
    return chat.session.folder.names()


@command(
    "help",
    "[COMMAND|keys]",
    "more with /help COMMAND",
    group="This program",
    example="/help branch",
    aliases=("h", "?"),
    read_only=True,
    complete=lambda _: ["keys", *sorted(known.name for known in all_commands())],
)
def help_(chat: LiveChat, argument: str) -> Result:
    """List the commands. /help COMMAND explains one, /help keys lists the keys."""
    if argument == "keys":
        return KeyHelp()
    if argument:
        known = find(argument.removeprefix("/").lower())
        return CommandHelp(known.usage, known.details, known.aliases, known.example)
    commands = sorted(all_commands(), key=lambda known: known.name)
    return Help(
        [
            (group, [(f"/{known.name}", known.help) for known in commands if known.group == group])
            for group in GROUPS
        ]
    )


@command(
    "resume",
    "[NAME]",
    "continue a saved session",
    group="Sessions",
    example="/resume trip-to-lisbon",
    aliases=("list", "sessions"),
    complete=_session_names,
)
def resume(chat: LiveChat, argument: str) -> Result:
    """Continue a saved session. Without a name, choose from a list."""
    if not argument:
        folder = chat.session.folder
        more = folder.count() - MAX_LISTED
        return Listing(folder.summaries(MAX_LISTED), more, folder.command("list --all"))
    name = chat.session.folder.resolve(argument)
    if name == chat.session.name:
        return PlainText(f"'{name}' is already open.")
    gone = _gone(chat)
    notes = chat.resume(name)
    return Opened(name, chat.session.conversation, [*gone, *notes])


def _gone(chat: LiveChat) -> list[str]:
    """A notice for leaving the open session: a private one is lost."""
    log = chat.session.log
    return ["The private conversation is gone."] if log.is_private and log.has_begun else []


@command(
    "branch",
    "[TURN] [NAME]",
    "copy to a new session",
    group="Conversation",
    example="/branch 3 another-way",
    aliases=("fork",),
)
def branch(chat: LiveChat, argument: str) -> Result:
    """Continue in a new session that begins with this conversation, or with its turns up to TURN.

    This session does not change.
    """
    words = argument.split()
    at = _turn_number(words.pop(0)) if words and words[0].isdecimal() else None
    source = chat.session.title
    notes = chat.session.branch(at, " ".join(words) or None)
    said = f"This is a new session. '{source}' is unchanged: /resume opens it."
    return Opened(chat.session.title, chat.session.conversation, notes, said)


def _turn_number(word: str) -> int | None:
    """A turn's number, None if none was given. Raises `WrongArgument`."""
    if not word:
        return None
    if word.isdecimal():
        with contextlib.suppress(ValueError):  # too many digits
            return int(word)
    raise WrongArgument


@command(
    "search",
    "[WORDS]",
    "find in all sessions",
    group="Sessions",
    example='/search "olive oil" lisbon',
    read_only=True,
)
def search(chat: LiveChat, argument: str) -> Result:
    """List the messages of all sessions that contain every word, to go to one. Quoted words are a phrase."""
    folder = chat.session.folder

    def find(query: str) -> SearchResult:
        words = searching.split(query)
        matches = searching.newest(searching.find(folder.folder, words), words, MAX_LISTED)
        return replace(matches, all_command=folder.command("search --all", *words))

    return Search(argument, find)


def go_to_hit(chat: LiveChat, hit: Hit) -> Result:
    """Continue after the turn of a search's hit, in its session.

    If the session is opened again before the next message, it is where it was.
    """
    notes = chat.resume(hit.session) if hit.session != chat.session.name else []
    conversation = chat.session.conversation
    end = hit.entry
    while replies := [each for each in conversation.children(end) if each.message.role != "user"]:
        end = replies[-1].id
    if end == conversation.head:
        return Opened(hit.session, conversation, notes)
    chat.session.move_head(end, saved=False)
    said = f"Now after turn {hit.turn}. What came later stays in /tree."
    return Opened(hit.session, conversation, notes, said)


@command("export", "[md|html|json] FILE", "write to a file", group="Sessions", example="/export talk.md")
def export(chat: LiveChat, argument: str) -> Result:
    """Write this conversation to a file, in the given format or that of its suffix, else Markdown.

    A .chatcli file also contains its checkpoints, so it continues without prefill where it is imported.
    """
    first, _, rest = argument.partition(" ")
    form, name = (first, rest.strip()) if first in exporting.FORMATS else (None, argument)
    if not name:
        raise WrongArgument
    path = files.from_home(name)
    if form is None and " " in name and not path.suffix:
        raise WrongArgument  # the first word was meant to be a format
    form = form or exporting.format_of(path.suffix)
    if not path.suffix:
        path = path.with_name(f"{path.name}.{form}")
    session, conversation = chat.session, chat.session.conversation
    if form == "chatcli":
        from chatcli.exchange import sealed

        chat.leave()
        sealed.write(path, session.folder, session.title, conversation)
    else:
        bytes_of = Gallery(session.folder.folder).data
        text = exporting.text_of(form, session.title, conversation, bytes_of=bytes_of)
        exporting.write(path, text.encode())
    return PlainText(f"Written to {files.with_tilde(path)}.")


@command("import", "FILE", "read from a file", group="Sessions", example="/import talk.json")
def import_(chat: LiveChat, argument: str) -> Result:
    """Open an exported or sealed conversation, or a JSON list of messages with roles, as a new session."""
    path = files.from_home(argument)
    if importing.is_sealed(path):
        return _import_sealed(chat, path)
    with files.explained(f"read {path}"):
        data = files.read_named(path, files.MAX_IMPORT_BYTES)
    imported = importing.save(chat.session.folder, importing.read(data))
    return Opened(imported.name, imported.conversation, [*_gone(chat), *chat.switch(imported)])


def _import_sealed(chat: LiveChat, path: Path) -> Result:
    from chatcli.exchange import sealed
    from chatcli.store.segments import budget

    folder = chat.session.folder
    limit = budget.limit_or_default(chat.model.settings.cache_limit, folder.folder)
    with files.explained(f"read {path}"), sealed.opened(path) as opened:
        session = sealed.unpack(folder, opened, limit=limit)
        note = opened.foreign_reason
    notes = [*_gone(chat), *chat.switch(session), *([note] if note else [])]
    return Opened(session.name, session.conversation, notes)


@command("tree", "", "show all branches", group="Conversation", read_only=True)
def tree(chat: LiveChat, argument: str) -> Result:
    """Show the conversation with all its branches, and continue from any message. Esc Esc does too."""
    return Tree(chat.session.title, chat.session.conversation)


@command(
    "new", "[NAME]", "start a new conversation", group="Sessions", example="/new recipes", aliases=("clear",)
)
def new(chat: LiveChat, argument: str) -> Result:
    """Start a new conversation. This one is saved: /resume opens it again. In a private one it is private."""
    name = files.check_name(argument) if argument else None
    if name is not None and chat.session.folder.exists(name):
        raise UsageError(f"There is already a session '{name}': /resume {name} opens it.")
    notes = [*_gone(chat), *chat.session.new(name)]
    conversation = chat.session.log.conversation
    kept = {
        "the system prompt (/system off drops it)": conversation.system,
        "what /set chose (/set KEY off drops it)": conversation.settings.keys() - {"think"},
        "what /think chose (/think default drops it)": {"think"} & conversation.settings.keys()
        or conversation.effort,
    }
    notes += [f"It keeps {each}." for each, value in kept.items() if value]
    kind = "private conversation" if chat.session.log.is_private else "conversation"
    return PlainText("\n".join((f"A new {kind} begins with your next message.", *notes)))


@command("pin", f"[{OFF}]", "keep its checkpoints", group="Sessions", example="/pin off")
def pin(chat: LiveChat, argument: str) -> Result:
    """Never evict this session's checkpoints from disk; off allows it again."""
    from chatcli.store import maintenance
    from chatcli.store.segments import budget

    if argument not in ("", OFF):
        raise WrongArgument
    session = chat.session
    session.check_saved("/pin")
    if (name := session.name) is None:
        raise UsageError(NO_CONVERSATION)
    if argument == OFF:
        maintenance.unpin(session.folder, name)
        return PlainText("This session is not pinned.")
    limit = budget.limit_or_default(chat.model.settings.cache_limit, session.folder.folder)
    maintenance.pin(session.folder, name, limit)
    return PlainText("Pinned: the checkpoints of this session are never evicted. /pin off ends that.")


@command("private", f"[{OFF}]", "keep nothing until /save", group="Sessions", example="/private")
def private(chat: LiveChat, argument: str) -> Result:
    """Start a new conversation that is not written to disk: no words, no checkpoints, no history.

    It is gone once you leave it; /save keeps it. /private off starts one that is saved again.
    """
    if argument not in ("", OFF):
        raise WrongArgument
    notes = _gone(chat)
    if argument == OFF:
        if not chat.session.log.is_private:
            return PlainText("This conversation is not private.")
        notes += chat.session.new(None, private=False)
        return PlainText("\n".join((*notes, "What you say is saved again, in a new conversation.")))
    notes += chat.begin_private()
    return PlainText("\n".join((*notes, "A private conversation begins: nothing of it is written to disk.")))


@command("save", "[NAME]", "keep a private talk", group=None, example="/save trip to lisbon")
def save(chat: LiveChat, argument: str) -> Result:
    """Keep a private conversation after all, as a session like any other."""
    chat.save(files.check_name(argument) if argument else None)
    return PlainText(f"Saved as '{chat.session.title}'. What you say is saved from now on.")


@command("rename", "NAME", "rename this session", group="Sessions", example="/rename trip to lisbon")
def rename(chat: LiveChat, argument: str) -> Result:
    """Give this session another name."""
    return PlainText(f"Renamed to '{chat.session.rename(argument)}'.")


def _model_names(chat: LiveChat) -> list[str]:
    return [POCKET, *chat.model.settings.models, *hub.names()]


@command(
    "model",
    "[NAME]",
    "show or change the model",
    group="Model",
    example="/model mlx-community/Qwen3-4B-4bit",
    complete=_model_names,
)
def model(chat: LiveChat, argument: str) -> Result:
    """Show the models on this machine, or continue with one: a folder, a hub name or an alias."""
    if not argument:
        asked = chat.model.settings.model_options.asked()
        options = ", ".join(f"{key} {value}" for key, value in asked.items())
        suffix = f", with {options}" if options else ""
        models = available.find(chat.model.settings.models, chat.model.memory_room())
        here = list(map(available.row, models))
        width = max(len(name) for name, *_ in here)
        lines = [f"  {name:{width}}  {size:>8}  {remark}" for name, size, *_, remark in here]
        now = f"The model is {chat.model.name}{suffix}. /model NAME changes it. On this machine:"
        return PlainText("\n".join([now, *lines]))
    before = chat.model.name
    problems = chat.model.change(argument)
    if chat.model.name == before:
        return PlainText(f"Already using {before}.")
    now = f"The model is {chat.model.name} now. Its checkpoints are separate."
    return PlainText("\n".join([*problems, now]))


@command(
    "draft-model",
    f"[NAME|{NO_MODEL}]",
    "speculative decoding",
    group="Model",
    example=f"/draft-model {NO_MODEL}",
    complete=lambda chat: [NO_MODEL, *_model_names(chat)],
)
def draft_model(chat: LiveChat, argument: str) -> Result:
    """Show or change the draft model: a small one with the same vocabulary that proposes a reply's tokens.

    It makes replies faster if it is often right, and changes no token.
    """
    if argument:
        full_name = aliased(argument, chat.model.settings.models)
        chat.model.change_draft_model(None if argument == NO_MODEL else full_name)
    name = chat.model.settings.draft_model
    return PlainText(f"The draft model is {name}." if name else "No draft model.")


@command(
    "system", "[TEXT|off]", "set the system prompt", group="Model", example="/system Answer in one sentence."
)
def system(chat: LiveChat, argument: str) -> Result:
    """Show, set or remove the system prompt. After a change the conversation is prefilled again."""
    if not argument:
        current = chat.session.system
        return PlainText(f"System prompt: {shorten(current, 400)}" if current else "No system prompt.")
    before, text = chat.session.system or None, None if argument == "off" else argument
    if text == before:
        return PlainText("That is already the system prompt." if text else "There is no system prompt.")
    chat.session.set_system(text)
    state = "changed" if text else "removed"
    return PlainText(f"System prompt {state}. The conversation is prefilled again.")


@command("date", "[today|YYYY-MM-DD]", "the date the model sees", group="Model", example="/date today")
def date(chat: LiveChat, argument: str) -> Result:
    """Show or set the date that the model is told, if its chat template prints one.

    A session keeps the date of its first turn, because after a change the conversation is prefilled again.
    """
    if not argument:
        verb = "is" if chat.session.log.has_begun else "will be"
        return PlainText(
            f"The session's date {verb} {date_in_words(chat.session.date)}. The model sees it if its chat "
            "template prints the date."
        )
    if (day := _day(argument)) == chat.session.date:
        return PlainText(f"The session's date is already {date_in_words(day)}.")
    chat.session.set_date(day)
    sentence = f"The date is {date_in_words(day)} from the next message on."
    if not chat.session.log.has_begun:
        return PlainText(sentence)
    return PlainText(f"{sentence} If the chat template prints it, the conversation is prefilled again.")


def _day(word: str) -> str:
    """A date as `YYYY-MM-DD`. Raises `WrongArgument`."""
    today = datetime.date.today().isoformat()
    with contextlib.suppress(ValueError):
        day = today if word == "today" else datetime.date.fromisoformat(word).isoformat()
        if word in ("today", day):
            return day
    raise WrongArgument


@command(
    "think",
    f"[{'|'.join((*SWITCHES, *LEVELS))}|default]",
    "turn thinking on or off",
    group="Model",
    example="/think off",
)
def think(chat: LiveChat, argument: str) -> Result:
    """Show whether the model thinks, turn it on or off, or set the effort. The session keeps it."""
    if argument in SWITCHES:
        chat.session.set_think(SWITCHES[argument])
    elif argument:
        effort = argument if argument in LEVELS else None
        chat.session.set_effort(effort, chat.model.template_variables())
        if effort is None:
            chat.session.set_think(None)
        elif chat.session.think is False:
            chat.session.set_think(True)
    enabled = chat.session.think
    mode = {True: "on", False: "off", None: "the model's default"}[enabled]
    level = chat.session.effort if enabled is not False else None
    suffix = f", with {level} effort" if level else ""
    return PlainText(f"Thinking: {mode}{suffix}.")


@command("stats", "", "the numbers of all turns", group="This program", read_only=True)
def stats(chat: LiveChat, argument: str) -> Result:
    """Show each turn's hit ratio, tokens and times."""
    return Stats.of(chat.session.title, chat.session.conversation)


@command(
    "set",
    "[KEY VALUE]",
    "set temp, top_p, seed, …",
    group="Model",
    details="Show or set sampling; off restores the model's own value. The session keeps it. "
    f"Keys: {', '.join(IN_SHELL)}.",
    example="/set temp 0.7",
    complete=lambda _: [f"{key} " for key in IN_SHELL],
)
def set_(chat: LiveChat, argument: str) -> Result:
    if not argument:
        sampling = chat.model.sampling
        width = max(map(len, IN_SHELL))
        return PlainText("\n".join(f"{key:{width}}  {_shown(key, sampling)}" for key in IN_SHELL))
    key, _, word = re.sub("[ =]+", " ", argument, count=1).partition(" ")
    if key not in IN_SHELL:
        close = difflib.get_close_matches(key, IN_SHELL, 1)
        hint = f"did you mean '{close[0]}'?" if close else "/set lists them all."
        raise UsageError(f"There is no setting '{shorten(key, 40)}': {hint}")
    if word := word.strip():
        setting = IN_SHELL[key]
        is_default = word == "default" or (word == "off" and not isinstance(setting, Switch))
        chat.set(key, DEFAULT_VALUES[key] if is_default else setting.check_word(word, key))
    return PlainText(f"{key} is {_shown(key, chat.model.sampling)}.")


def _shown(key: str, sampling: Sampling) -> str:
    """A setting's value; off if nothing sets it, not even the model's generation_config."""
    value = getattr(sampling, key)
    if isinstance(value, tuple):
        return ", ".join(map(repr, value))
    if value is None:
        return "off" if IN_SHELL[key].unset == BY_MODEL else IN_SHELL[key].unset
    return str(value)


@command("panel", "|".join(PANELS), "numbers after each turn", group="This program", example="/panel off")
def panel(chat: LiveChat, argument: str) -> Result:
    """How much of a turn's numbers is shown below its reply."""
    return PanelMode(argument)


@command("quit", "", "leave (also: exit)", group="This program", aliases=("exit", "q", "bye"))
def quit_(chat: LiveChat, argument: str) -> Result:
    """Leave. Everything is saved.

    A message of just exit or quit leaves too; to send the word itself, put a space before it.
    """
    return Quit()


def _images_and_folders(typed: str) -> list[str]:
    """Images and folders that complete a path."""
    return [
        choice.text
        for choice in mentions.choices(typed, Path.cwd())
        if choice.size is None or images.is_image(files.from_home(choice.text.strip('"')))
    ]


@command(
    "image",
    "[PATH|off]",
    "attach an image",
    group="Messages",
    example="/image cat.png",
    complete_typed=_images_and_folders,
)
def image(chat: LiveChat, argument: str) -> Result:
    """Attach an image to the next message; off removes it. @PATH in a message attaches one too."""
    if argument == "off":
        chat.session.drop_images()
        return PlainText("No image is attached now.")
    if argument:
        added = images.read(argument.strip('"'))
        if not chat.model.loading:
            vision.check(chat.model.wait().loaded.vision, chat.model.name)
        chat.session.add_image(added)
    if not chat.session.images:
        return PlainText("No image attached. /image PATH attaches one to the next message.")
    names = images.chips(chat.session.images)
    return PlainText(f"{names} attached to your next message. /image off removes it.")


@command(
    "regenerate",
    f"[1-{MAX_ALTERNATIVES}]",
    "get another reply",
    group="Messages",
    example="/regenerate 4",
    aliases=("retry",),
)
def regenerate(chat: LiveChat, argument: str) -> Result:
    """Get another reply to the last message, or several at once to choose from.

    The old one stays in /tree.
    """
    word = argument or "1"
    count = int(word) if word.isdecimal() and len(word) == 1 else 0
    if not count:
        raise WrongArgument
    if count == 1:
        return Stream(chat.regenerate)
    if not chat.model.loading and not chat.model.sampling.temp:
        raise UsageError("At temperature 0 every reply would be the same: /set temp 0.8 first.")
    return Stream(partial(chat.alternatives, count))


@command("choose", "NUMBER", "pick one of the replies", group="Messages", example="/choose 2")
def choose(chat: LiveChat, argument: str) -> Result:
    """Continue with one of the replies that /regenerate 4 has made. The number alone does it too."""
    choices = chat.session.alternatives
    if not choices:
        raise UsageError("There is nothing to choose from. /regenerate 4 gets four replies.")
    if not argument.isdecimal():
        raise WrongArgument
    if not 1 <= int(argument[:9]) <= len(choices):
        raise UsageError(f"There is no reply {shorten(argument, 12)}: choose from 1 to {len(choices)}.")
    chat.session.move_head(choices[int(argument) - 1])
    return PlainText(f"Reply {int(argument)} is chosen. The others stay in /tree.")


def as_command(chat: LiveChat, line: str, *, in_terminal: bool = False) -> str:
    """`line`, or the command that it stands for.

    /quit for exit or quit, /help for help, ? or /, if the line is nothing else, and /choose for a lone digit
    while there are replies to choose from. Raises `UsageError` for a shell command that is typed
    `in_terminal` as in Claude Code or aider: !ls.
    """
    if (known := WORDS.get(line.rstrip("\n"))) is not None:
        return known
    if SHELL_COMMAND.match(line) and in_terminal:
        raise UsageError(
            "There is no shell here: Ctrl-Z goes to yours, fg comes back. A space before ! sends it."
        )
    word = line.strip()
    chooses = len(word) == 1 and word.isdecimal() and 1 <= int(word) <= len(chat.session.alternatives)
    return f"/choose {word}" if chooses else line


@command("continue", "", "finish a reply cut short", group="Messages")
def go_on(chat: LiveChat, argument: str) -> Result:
    """Continue a reply that was stopped, or that reached its token limit."""
    return Stream(chat.continue_reply)


@command("edit", "[TURN]", "change a message", group="Messages", example="/edit 2")
def edit(chat: LiveChat, argument: str) -> Result:
    """Change your last message, or that of a turn, and send it again. The old one stays in /tree."""
    return EditableMessage(chat.session.go_to(chat.session.turn(_turn_number(argument)).user.id))


@command("undo", "", "take back the last turn", group="Conversation")
def undo(chat: LiveChat, argument: str) -> Result:
    """Go back to before the last turn. It stays in /tree. Right after /compact: go back to before it."""
    if (name := chat.undo_compaction()) is not None:
        sentence = f"The conversation continues in '{name}', as it was."
        return HeadMoved(sentence, name, chat.session.conversation)
    return _moved(chat, chat.session.rewind(None))


@command("rewind", "[TURN]", "go back to a turn", group="Conversation", example="/rewind 3")
def rewind(chat: LiveChat, argument: str) -> Result:
    """Continue after an earlier turn; 0 is the beginning. Without one, choose in /tree. Nothing is lost."""
    if not argument:
        return tree(chat, argument)
    return _moved(chat, chat.session.rewind(_turn_number(argument)))


def _moved(chat: LiveChat, turns: int) -> Result:
    where = f"after turn {turns}" if turns else "at the beginning"
    sentence = f"Now {where}. What came later stays in /tree."
    return HeadMoved(sentence, chat.session.title, chat.session.conversation)


@command("label", "[TEXT]", "bookmark this place", group="Conversation", example="/label before the detour")
def label(chat: LiveChat, argument: str) -> Result:
    """Bookmark this place in the tree. Without TEXT, remove the bookmark."""
    conversation = chat.session.conversation
    if conversation.head is None:
        raise UsageError("There is nothing to bookmark yet: say something first.")
    if not argument and conversation.head not in conversation.labels:
        raise UsageError("There is no bookmark here: /label TEXT sets one.")
    chat.session.log.set_label(conversation.head, argument)
    return PlainText(f"Bookmarked as '{argument}'." if argument else "Bookmark removed.")


@command("copy", "[TURN|code]", "copy the last reply", group="Messages", example="/copy code")
def copy(chat: LiveChat, argument: str) -> Result:
    """Copy the last reply to the clipboard, the reply of a turn, or the last code block."""
    if argument == "code":
        replies = [turn.reply.message.content for turn in chat.session.conversation.turns() if turn.reply]
        block = next(filter(None, map(last_code_block, reversed(replies))), None)
        if block is None:
            raise UsageError("No reply has a code block.")
        return ClipboardText(block, "the last code block")
    number = _turn_number(argument)
    reply = chat.session.turn(number).reply
    if reply is None:
        turns = len(chat.session.conversation.turns())
        hint = " /regenerate answers it." if number in (None, turns) else ""
        raise UsageError(f"Turn {number or turns} got no reply.{hint}")
    return ClipboardText(reply.message.content, f"the reply of turn {number}" if number else "the last reply")


@command("context", "", "what fills the context", group="This program", read_only=True)
def context(chat: LiveChat, argument: str) -> Result:
    """Show what takes the tokens of this conversation, and how many are left."""
    parts = chat.context_parts()
    return Context(parts, chat.model.wait().loaded.context)


@command("compact", "", "summarize to make room", group="Conversation")
def compact(chat: LiveChat, argument: str) -> Result:
    """Continue in a new session that begins with a summary, with the last turns word for word.

    This session does not change, and /undo returns to it.
    """
    if not chat.session.conversation.turns():
        raise UsageError("There is nothing to summarize yet: say something first.")
    return Stream(partial(compaction.compact, chat))
