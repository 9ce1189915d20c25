"""The slash commands, in the order of /help. Each takes the chat and its argument and returns a result."""

from __future__ import annotations

import contextlib
import datetime
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from chatcli import files
from chatcli.chat_format.arguments import LEVELS
from chatcli.commands import mentions
from chatcli.commands.registry import all_commands, command
from chatcli.commands.results import (
    ClipboardText,
    Context,
    EditableMessage,
    Help,
    Listing,
    Opened,
    PanelMode,
    PlainText,
    Quit,
    Result,
    Stats,
    Stream,
    Tree,
)
from chatcli.conversation import images
from chatcli.conversation.tree import date_in_words
from chatcli.errors import UsageError
from chatcli.exchange import export as exporting
from chatcli.exchange import importing
from chatcli.model import hub, vision
from chatcli.session import compaction
from chatcli.session.live_chat import LiveChat
from chatcli.settings.values import NO_MODEL, PANELS, POCKET, SETTINGS, aliased
from chatcli.store.sessions import search as searching
from chatcli.store.sessions.images import Gallery
from chatcli.text import shorten

# Sessions and matches that a list shows.
MAX_LISTED = 50
# One digit chooses a reply.
MAX_ALTERNATIVES = 9
SWITCHES = {"on": True, "off": False}
# What `/set` changes, by key.
SAMPLING = {key: setting for key, setting in SETTINGS.items() if setting.in_shell}


def _session_names(chat: LiveChat) -> list[str]:
    return chat.session.folder.names()


@command("help", "", "show the commands and keys", aliases=("h", "?"))
def help_(chat: LiveChat, argument: str) -> Result:
    rows = []
    for known in all_commands():
        aliases = ", ".join(f"/{alias}" for alias in known.aliases)
        usage = f"/{known.name} {known.argument}".strip()
        rows.append((usage, f"{known.help} · also {aliases}" if aliases else known.help))
    return Help(rows)


@command("resume", "[NAME]", "go on with a saved session", complete=_session_names)
def resume(chat: LiveChat, argument: str) -> Result:
    if not argument:
        return Listing(chat.session.folder.summaries(MAX_LISTED), chat.session.folder.count() - MAX_LISTED)
    name = chat.session.folder.resolve(argument)
    if name == chat.session.name:
        return PlainText(f"'{name}' is open already.")
    notes = chat.resume(name)
    return Opened(name, chat.session.conversation, notes)


@command(
    "branch",
    "[TURN] [NAME]",
    "go on from a turn in a new session; this one stays as it is",
    aliases=("fork",),
)
def branch(chat: LiveChat, argument: str) -> Result:
    words = argument.split()
    at = _turn_number(words.pop(0)) if words and words[0].isdecimal() else None
    notes = chat.session.branch(at, " ".join(words) or None)
    return Opened(str(chat.session.name), chat.session.conversation, notes)


def _turn_number(word: str) -> int | None:
    """A turn's number, None if none was given. Raises `UsageError`."""
    if not word:
        return None
    if word.isdecimal():
        with contextlib.suppress(ValueError):  # too many digits
            return int(word)
    raise UsageError(f"'{word}' is not a turn number.")


@command("search", "WORDS", "find messages in every session; /branch and /resume take you there")
def search(chat: LiveChat, argument: str) -> Result:
    if not (words := searching.split(argument)):
        raise UsageError("Say what to look for: /search WORDS (quoted words are found as one).")
    return searching.newest(searching.find(chat.session.folder.folder, words), words, MAX_LISTED)


@command(
    "export",
    "[md | html | json] FILE",
    "write this conversation to a file (its suffix says how, if nothing else does)",
    complete=lambda _: [f"{form} " for form in exporting.FORMATS],
)
def export(chat: LiveChat, argument: str) -> Result:
    first, _, rest = argument.partition(" ")
    form, name = (first, rest.strip()) if first in exporting.FORMATS else (None, argument)
    if not name:
        raise UsageError("Say where to: /export talk.md (or .html, or .json).")
    path = files.from_home(name)
    form = form or exporting.format_of(path.suffix)
    bytes_of = Gallery(chat.session.folder.folder).data
    text = exporting.text_of(form, str(chat.session.name), chat.session.conversation, bytes_of=bytes_of)
    exporting.write(path, text)
    return PlainText(f"Written to {path}.")


@command("import", "FILE", "open an export, or a list of messages with roles (JSON), as a session")
def import_(chat: LiveChat, argument: str) -> Result:
    if not argument:
        raise UsageError("Say from where: /import talk.json.")
    path = files.from_home(argument)
    with files.explained(f"read {path}"):
        data = path.read_bytes()
    imported = importing.save(chat.session.folder, importing.read(data))
    return Opened(imported.name, imported.conversation, chat.session.switch(imported))


@command("tree", "", "draw the conversation with its branches")
def tree(chat: LiveChat, argument: str) -> Result:
    return Tree(str(chat.session.name), chat.session.conversation)


@command("new", "[NAME]", "begin a new conversation")
def new(chat: LiveChat, argument: str) -> Result:
    name = files.check_name(argument) if argument else None
    if name is not None and chat.session.folder.exists(name):
        raise UsageError(f"There is a session '{name}' already: /resume {name} goes on with it.")
    notes = chat.session.new(name)
    return PlainText("\n".join(("A new conversation begins with your next message.", *notes)))


@command("rename", "NAME", "give this session another name")
def rename(chat: LiveChat, argument: str) -> Result:
    return PlainText(f"This session is called '{chat.session.rename(argument)}' now.")


def _model_names(chat: LiveChat) -> list[str]:
    return [POCKET, *chat.model.settings.models, *hub.names()]


@command(
    "model",
    "[NAME]",
    "show the model, or go on with another: a folder, a hub name or an alias",
    complete=_model_names,
)
def model(chat: LiveChat, argument: str) -> Result:
    if not argument:
        asked = chat.model.settings.model_options.asked()
        options = ", ".join(f"{key} {value}" for key, value in asked.items())
        suffix = f" It is run with {options}." if options else ""
        return PlainText(f"The model is {chat.model.name}.{suffix}")
    chat.model.change(argument)
    return PlainText(f"The model is {chat.model.name} now. It has checkpoints of its own.")


@command(
    "draft-model",
    f"[NAME | {NO_MODEL}]",
    "show or change the small model that proposes a reply's tokens (speculative decoding)",
    complete=lambda chat: [NO_MODEL, *_model_names(chat)],
)
def draft_model(chat: LiveChat, argument: str) -> Result:
    if argument:
        full_name = aliased(argument, chat.model.settings.models)
        chat.model.change_draft_model(None if argument == NO_MODEL else full_name)
    name = chat.model.settings.draft_model
    return PlainText(f"The draft model is {name}." if name else "There is no draft model.")


@command("system", "[TEXT | off]", "show or set the system prompt")
def system(chat: LiveChat, argument: str) -> Result:
    if not argument:
        current = chat.session.system
        return PlainText(f"System prompt: {shorten(current, 400)}" if current else "No system prompt.")
    before, text = chat.session.system or None, None if argument == "off" else argument
    if text == before:
        return PlainText("That is the system prompt already." if text else "There is no system prompt.")
    chat.session.set_system(text)
    state = "changed" if text else "gone"
    return PlainText(f"The system prompt is {state}: the next turn starts from the beginning.")


@command(
    "date",
    "[today | DATE]",
    "show or set the date that the model is told",
    complete=lambda _: ["today"],
)
def date(chat: LiveChat, argument: str) -> Result:
    if not argument:
        verb = "is" if chat.session.file else "will be"
        return PlainText(
            f"The session's date {verb} {date_in_words(chat.session.date)}. It is what the model is told if "
            "its template prints the date; /date today or /date YYYY-MM-DD changes it."
        )
    if (day := _day(argument)) == chat.session.date:
        return PlainText(f"The session's date is {date_in_words(day)} already.")
    chat.session.set_date(day)
    sentence = f"The model is told {date_in_words(day)} from the next message on"
    if chat.session.file is None:
        return PlainText(f"{sentence}.")
    return PlainText(f"{sentence}; the next turn starts from the beginning if its template prints the date.")


def _day(word: str) -> str:
    """A date as `YYYY-MM-DD`. Raises `UsageError`."""
    today = datetime.date.today().isoformat()
    with contextlib.suppress(ValueError):
        day = today if word == "today" else datetime.date.fromisoformat(word).isoformat()
        if word in ("today", day):
            return day
    raise UsageError(f"'{word}' is not a date: say /date today, or a day such as /date {today}.")


@command(
    "think",
    "[on | off | low | medium | high | default]",
    "turn the model's thinking on or off, or set its effort",
    complete=lambda _: [*SWITCHES, *LEVELS, "default"],
)
def think(chat: LiveChat, argument: str) -> Result:
    if argument and argument not in (*SWITCHES, *LEVELS, "default"):
        raise UsageError(f"Say /think on, off, {', '.join(LEVELS)} or default.")
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
    mode = {True: "on", False: "off", None: "model default"}[enabled]
    level = chat.session.effort if enabled is not False else None
    suffix = f", with {level} effort" if level else ""
    return PlainText(f"Thinking: {mode}{suffix}.")


@command("stats", "", "the hit ratio and the times of each turn")
def stats(chat: LiveChat, argument: str) -> Result:
    turns = chat.session.conversation.turns()
    records = [(turn.number, turn.reply.record) for turn in turns if turn.reply]
    return Stats(str(chat.session.name), records)


@command(
    "set",
    "[KEY VALUE]",
    f"show or set how tokens are chosen (off: the model's own): {', '.join(SAMPLING)}",
    complete=lambda _: [f"{key} " for key in SAMPLING],
)
def set_(chat: LiveChat, argument: str) -> Result:
    if not argument:
        sampling = chat.model.sampling
        return PlainText("  ".join(f"{key} {_shown(getattr(sampling, key))}" for key in SAMPLING))
    key, _, word = re.sub("[ =]+", " ", argument, count=1).partition(" ")
    if key not in SAMPLING:
        raise UsageError(f"There is no setting '{key}': there are {', '.join(SAMPLING)}.")
    if word := word.strip():
        value = None if word == "off" else SAMPLING[key].load(SAMPLING[key].check_word(word, key))
        changed: dict[str, Any] = {key: value}
        chat.model.set_sampling(replace(chat.model.settings.sampling, **changed))
    return PlainText(f"{key} is {_shown(getattr(chat.model.sampling, key))}.")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(repr, value))
    return "off" if value is None else str(value)


@command(
    "panel",
    "line | full | off",
    "how much of each turn's numbers is shown",
    complete=lambda _: list(PANELS),
)
def panel(chat: LiveChat, argument: str) -> Result:
    if argument not in PANELS:
        raise UsageError("Say /panel line, /panel full or /panel off.")
    return PanelMode(argument)


@command("quit", "", "leave (Ctrl-D)", aliases=("exit", "q", "bye"))
def quit_(chat: LiveChat, argument: str) -> Result:
    return Quit()


def _images_and_folders(typed: str) -> list[str]:
    """Those that complete a path."""
    return [
        choice.text
        for choice in mentions.choices(typed, Path.cwd())
        if choice.size is None or images.is_image(files.from_home(choice.text.strip('"')))
    ]


@command(
    "image",
    "[PATH | off]",
    "show the model an image with the next message (also: @PATH in it)",
    complete_typed=_images_and_folders,
)
def image(chat: LiveChat, argument: str) -> Result:
    if argument == "off":
        chat.session.drop_images()
        return PlainText("No image goes with the next message.")
    if argument:
        added = images.read(argument.strip('"'))
        if not chat.model.loading:
            vision.check(chat.model.wait().loaded.vision, chat.model.name)
        chat.session.add_image(added)
    if not chat.session.images:
        return PlainText("No image waits: /image PATH puts one to the next message.")
    names = images.chips(chat.session.images)
    return PlainText(f"{names} with your next message; /image off takes it back.")


@command(
    "regenerate",
    "[HOW MANY]",
    "another reply to the last message, or several at once to choose from; the old one stays",
    aliases=("retry",),
)
def regenerate(chat: LiveChat, argument: str) -> Result:
    word = argument or "1"
    count = int(word) if word.isdecimal() and len(word) == 1 else 0
    if not count:
        raise UsageError(
            f"'{argument}' is no number of replies: say /regenerate 4 (1 to {MAX_ALTERNATIVES})."
        )
    if count == 1:
        return Stream(chat.regenerate)
    if not chat.model.loading and not chat.model.sampling.temp:
        raise UsageError("At temperature 0 every reply would be the same: /set temp 0.8 first.")
    return Stream(partial(chat.alternatives, count))


@command("choose", "N", "go on with one of the replies that /regenerate N made")
def choose(chat: LiveChat, argument: str) -> Result:
    choices = chat.session.alternatives
    if not choices:
        raise UsageError("There is nothing to choose from: /regenerate 4 makes four replies.")
    if not (argument.isdecimal() and 1 <= int(argument[:9]) <= len(choices)):
        raise UsageError(f"Say which reply: /choose 2 (1 to {len(choices)}).")
    chat.session.move_head(choices[int(argument) - 1])
    return PlainText(f"Reply {int(argument)} goes on; the others stay in /tree.")


def as_command(chat: LiveChat, line: str) -> str:
    """`line`, or the /choose that a lone digit stands for while there are replies to choose from."""
    word = line.strip()
    chooses = len(word) == 1 and word.isdecimal() and 1 <= int(word) <= len(chat.session.alternatives)
    return f"/choose {word}" if chooses else line


@command("continue", "", "go on with a reply that was stopped or cut")
def go_on(chat: LiveChat, argument: str) -> Result:
    return Stream(chat.go_on)


@command("edit", "[TURN]", "change a message and send it again; the old path stays in /tree")
def edit(chat: LiveChat, argument: str) -> Result:
    return EditableMessage(chat.session.go_to(chat.session.turn(_turn_number(argument)).user.id))


@command("undo", "", "go back before the last turn; /tree still has it")
def undo(chat: LiveChat, argument: str) -> Result:
    return PlainText(_after(chat.session.rewind(None)))


@command("rewind", "TURN", "go on after an earlier turn; what followed stays in /tree")
def rewind(chat: LiveChat, argument: str) -> Result:
    if not argument:
        raise UsageError("Say after which turn: /rewind 3 (0 is the beginning), or pick it in /tree.")
    return PlainText(_after(chat.session.rewind(_turn_number(argument))))


def _after(turns: int) -> str:
    where = f"after turn {turns}" if turns else "at the beginning"
    return f"The conversation goes on {where}. What came later stays in /tree."


@command("label", "[TEXT]", "bookmark this place in the tree; without a text, take the bookmark away")
def label(chat: LiveChat, argument: str) -> Result:
    conversation = chat.session.conversation
    if chat.session.file is None or conversation.head is None:
        raise UsageError("There is no place to bookmark yet: say something first.")
    chat.session.file.set_label(conversation.head, argument)
    return PlainText(f"Bookmarked as '{argument}'." if argument else "The bookmark is gone.")


@command("copy", "[TURN]", "copy a reply to the clipboard (the last one)")
def copy(chat: LiveChat, argument: str) -> Result:
    number = _turn_number(argument)
    reply = chat.session.turn(number).reply
    if reply is None:
        raise UsageError("That turn has no reply yet.")
    return ClipboardText(reply.message.content, f"the reply of turn {number}" if number else "the last reply")


@command("context", "", "where the tokens of this conversation are, and how many are left")
def context(chat: LiveChat, argument: str) -> Result:
    parts = chat.context_parts()
    return Context(parts, chat.model.wait().loaded.context)


@command("compact", "", "go on in a new session from a summary; this one stays as it is")
def compact(chat: LiveChat, argument: str) -> Result:
    if not chat.session.conversation.turns():
        raise UsageError("There is nothing to summarize yet: say something first.")
    return Stream(partial(compaction.compact, chat))
