"""The slash commands' handlers: they return results, they never print."""

from __future__ import annotations

import contextlib
import datetime
import re
from dataclasses import replace
from typing import Any

from chatcli import files
from chatcli.chat_format.arguments import LEVELS
from chatcli.commands.registry import command, explained
from chatcli.commands.results import Help, Listing, Opened, PanelMode, Quit, Result, Said, Stats, Tree
from chatcli.conversation.tree import spoken
from chatcli.errors import UsageError
from chatcli.exchange import export as exchange
from chatcli.model import hub
from chatcli.session.live_chat import LiveChat
from chatcli.settings.values import NO_MODEL, PANELS, POCKET, SETTINGS, aliased
from chatcli.store.sessions import search as searching
from chatcli.store.sessions.images import Gallery
from chatcli.text import shorten

LISTED = 50
SWITCHES = {"on": True, "off": False}
# What `/set` changes, by key.
SAMPLING = {key: setting for key, setting in SETTINGS.items() if setting.in_shell}


def _session_names(chat: LiveChat) -> list[str]:
    return chat.session.folder.names()


@command("help", "", "show the commands and keys", aliases=("h", "?"))
def help_(chat: LiveChat, argument: str) -> Result:
    return Help(explained())


@command("resume", "[NAME]", "go on with a saved session", complete=_session_names)
def resume(chat: LiveChat, argument: str) -> Result:
    if not argument:
        return Listing(chat.session.folder.summaries(LISTED), chat.session.folder.count() - LISTED)
    name = chat.session.folder.resolve(argument)
    if name == chat.session.name:
        return Said(f"'{name}' is open already.")
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
    at = turn_number(words.pop(0)) if words and words[0].isdecimal() else None
    notes = chat.session.branch(at, " ".join(words) or None)
    return Opened(str(chat.session.name), chat.session.conversation, notes)


def turn_number(word: str) -> int:
    """A turn's number. Raises `UsageError`."""
    if word.isdecimal():
        with contextlib.suppress(ValueError):  # too many digits
            return int(word)
    raise UsageError(f"'{word}' is not a turn number.")


@command("search", "WORDS", "find messages in every session; /branch and /resume take you there")
def search(chat: LiveChat, argument: str) -> Result:
    if not (words := searching.split(argument)):
        raise UsageError("Say what to look for: /search WORDS (quoted words are found as one).")
    return searching.newest(searching.find(chat.session.folder.folder, words), words, LISTED)


@command(
    "export",
    "[md | html | json] FILE",
    "write this conversation to a file (its suffix says how, if nothing else does)",
    complete=lambda _: [f"{form} " for form in exchange.FORMATS],
)
def export(chat: LiveChat, argument: str) -> Result:
    form, _, name = argument.partition(" ")
    if form not in exchange.FORMATS:
        name = argument
    if not name.strip():
        raise UsageError("Say where to: /export talk.md (or .html, or .json).")
    path = files.from_home(name.strip())
    form = form if form in exchange.FORMATS else exchange.format_of(path.suffix)
    bytes_of = Gallery(chat.session.folder.folder).data
    text = exchange.text_of(form, str(chat.session.name), chat.session.conversation, bytes_of=bytes_of)
    exchange.write(path, text)
    return Said(f"Written to {path}.")


@command("import", "FILE", "open an export, or a list of messages with roles (JSON), as a session")
def import_(chat: LiveChat, argument: str) -> Result:
    if not argument:
        raise UsageError("Say from where: /import talk.json.")
    path = files.from_home(argument)
    with files.explained(f"read {path}"):
        data = path.read_bytes()
    imported = exchange.save(chat.session.folder, exchange.read(data))
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
    return Said("\n".join(("A new conversation begins with your next message.", *notes)))


@command("rename", "NAME", "give this session another name")
def rename(chat: LiveChat, argument: str) -> Result:
    return Said(f"This session is called '{chat.session.rename(argument)}' now.")


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
        run = ", ".join(f"{key} {value}" for key, value in chat.model.settings.model_options.asked().items())
        return Said(f"The model is {chat.model.name}." + (f" It is run with {run}." if run else ""))
    chat.model.change(argument)
    return Said(f"The model is {chat.model.name} now. It has checkpoints of its own.")


@command(
    "draft-model",
    f"[NAME | {NO_MODEL}]",
    "show or change the small model that proposes a reply's tokens (speculative decoding)",
    complete=lambda chat: [NO_MODEL, *_model_names(chat)],
)
def draft_model(chat: LiveChat, argument: str) -> Result:
    if argument:
        named = aliased(argument, chat.model.settings.models)
        chat.model.change_draft_model(None if argument == NO_MODEL else named)
    name = chat.model.settings.draft_model
    return Said(f"The draft model is {name}." if name else "There is no draft model.")


@command("system", "[TEXT | off]", "show or set the system prompt")
def system(chat: LiveChat, argument: str) -> Result:
    if not argument:
        current = chat.session.system
        return Said(f"System prompt: {shorten(current, 400)}" if current else "No system prompt.")
    before, text = chat.session.system or None, None if argument == "off" else argument
    if text == before:
        return Said("That is the system prompt already." if text else "There is no system prompt.")
    chat.session.set_system(text)
    done = "changed" if text else "gone"
    return Said(f"The system prompt is {done}: the next turn starts from the beginning.")


@command(
    "date",
    "[today | DATE]",
    "show or set the date that the model is told",
    complete=lambda _: ["today"],
)
def date(chat: LiveChat, argument: str) -> Result:
    if not argument:
        begun = "is" if chat.session.file else "will be"
        return Said(
            f"The session's date {begun} {spoken(chat.session.date)}. It is what the model is told if "
            "its template prints the date; /date today or /date YYYY-MM-DD changes it."
        )
    if (day := _day(argument)) == chat.session.date:
        return Said(f"The session's date is {spoken(day)} already.")
    chat.session.set_date(day)
    sentence = f"The model is told {spoken(day)} from the next message on"
    if chat.session.file is None:
        return Said(f"{sentence}.")
    return Said(f"{sentence}; the next turn starts from the beginning if its template prints the date.")


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
    "turn the model's thinking on or off, or say how much of it there is to be",
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
    thinks = chat.session.think
    mode = {True: "on", False: "off", None: "as the model's template has it"}[thinks]
    level = chat.session.effort if thinks is not False else None
    suffix = f", with {level} effort" if level else ""
    return Said(f"Thinking is {mode}{suffix}.")


@command("stats", "", "the hit ratio and the times of each turn")
def stats(chat: LiveChat, argument: str) -> Result:
    turns = [(t.number, t.reply.record) for t in chat.session.conversation.turns() if t.reply]
    return Stats(str(chat.session.name), turns)


@command(
    "set",
    "[KEY VALUE]",
    f"show or set how tokens are chosen (off: the model's own): {', '.join(SAMPLING)}",
    complete=lambda _: [f"{key} " for key in SAMPLING],
)
def set_(chat: LiveChat, argument: str) -> Result:
    if not argument:
        sampling = chat.model.sampling
        return Said("  ".join(f"{key} {_shown(getattr(sampling, key))}" for key in SAMPLING))
    key, _, word = re.sub("[ =]+", " ", argument, count=1).partition(" ")
    if key not in SAMPLING:
        raise UsageError(f"There is no setting '{key}': there are {', '.join(SAMPLING)}.")
    if word := word.strip():
        value = None if word == "off" else SAMPLING[key].load(SAMPLING[key].check_word(word, key))
        changed: dict[str, Any] = {key: value}
        chat.model.set_sampling(replace(chat.model.settings.sampling, **changed))
    return Said(f"{key} is {_shown(getattr(chat.model.sampling, key))}.")


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
