"""`chatcli config …`: shows and changes the remembered settings; refuses to know how a file holds them.

It works where the file or the environment is wrong, so that they can be mended.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from chatcli.cli.options import (
    PREFIX,
    Configured,
    JsonOption,
    SessionsOption,
    config_file,
    from_environment,
    print_json,
)
from chatcli.errors import UsageError
from chatcli.settings import config_file as config
from chatcli.settings.config_file import FOLDERS, MODELS, SETTINGS, Remembered, Value
from chatcli.settings.values import POCKET
from chatcli.text import clean, clean_line, decodable


def complete_key(incomplete: str) -> list[str]:
    """Keys for the shell's completion."""
    return [key for key in SETTINGS if key.startswith(incomplete)]


@dataclass(frozen=True)
class Held:
    """A setting's value (None: nothing sets it) and where it is from: flag, env, file or default."""

    value: Value | None
    source: str


def command(
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="temp, model, models.ALIAS, …", autocompletion=complete_key),
    ] = None,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="What it shall be from now on.")
    ] = None,
    unset: Annotated[
        str | None,
        typer.Option("--unset", metavar="KEY", help="Forget this setting.", autocompletion=complete_key),
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Open the file in $EDITOR.")] = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the settings and where each comes from, or remember one: config KEY VALUE."""
    if (key is not None) + (unset is not None) + edit > 1:
        raise UsageError("Give one of KEY, --unset KEY and --edit.")
    path = config_file()
    if edit:
        edit_file(path)
    elif unset is not None:
        forget(path, unset, as_json)
    elif key is not None and value is not None:
        remember(path, config.key_of(key), value, as_json)
    elif key is not None:
        show_one(path, key, sessions, as_json)
    else:
        show_all(path, sessions, as_json)


def show_all(path: Path, sessions: Path | None, as_json: bool) -> None:
    """Every setting on a line. What is wrong is told on standard error."""
    said = config.read(path)
    environment, problems = whole_environment()
    problems += said.problems.values()
    settings = {key: held(key, Configured(environment, said), sessions) for key in SETTINGS}
    if as_json:
        told = {key: vars(one) for key, one in settings.items()}
        odd = {"problems": problems, "unknown": list(said.unknown)}
        print_json({"file": str(path), "settings": told, "models": said.models, **odd})
        return
    for key, one in settings.items():
        print(f"{key:<23} {one.source:<8} {shown(key, one.value)}")
    for alias, model in said.models.items():
        print(clean_line(f"{MODELS}.{alias} = {model}"))
    print(clean(f"\nThe file: {path}{'' if path.exists() else ' (not there yet)'}"))
    for problem in (*problems, *said.unknown.values()):
        print(clean(f"chatcli: {problem}"), file=sys.stderr)


def whole_environment() -> tuple[dict[str, Value], list[str]]:
    """What the environment sets, and what is wrong in it."""
    found: dict[str, Value] = {}
    problems = []
    for key in SETTINGS:
        try:
            if (value := from_environment(key)) is not None:
                found[key] = value
        except UsageError as error:
            problems.append(str(error))
    return found, problems


def held(key: str, configured: Configured, sessions: Path | None = None) -> Held:
    if key == "sessions" and sessions is not None:
        return Held(str(sessions.expanduser()), "flag")
    return Held(*configured.find(key))


def shown(key: str, value: Value | None) -> str:
    """A value on one line, as it would be given; what happens without one in brackets."""
    return f"({SETTINGS[key].unset})" if value is None else clean_line(word_of(value))


def word_of(value: Value | None) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_one(path: Path, given: str, sessions: Path | None, as_json: bool) -> None:
    """One value alone on standard output, for scripts. Raises `UsageError` where it is wrong."""
    said = config.read(path)
    if given == MODELS:
        show_aliases(said, as_json)
        return
    key = config.key_of(given)
    for problem in (said.problems.get(""), said.problems.get(key)):
        if problem is not None:
            raise UsageError(problem)
    if key in SETTINGS:
        environment = from_environment(key)
        one = held(key, Configured({} if environment is None else {key: environment}, said), sessions)
    else:
        one = Held(alias_in(said, key), "file")
    if as_json:
        print_json({"key": key, **vars(one)})
    else:
        print(clean(word_of(one.value)))


def alias_in(said: Remembered, key: str) -> str:
    alias = key.partition(".")[2]
    if alias not in said.models:
        raise UsageError(f"There is no alias '{alias}': chatcli config {key} MODEL makes it.")
    return said.models[alias]


def show_aliases(said: Remembered, as_json: bool) -> None:
    if as_json:
        print_json(said.models)
    for alias, model in said.models.items() if not as_json else ():
        print(clean_line(f"{alias} = {model}"))


def remember(path: Path, key: str, word: str, as_json: bool) -> None:
    """Put a checked value into the file."""
    value = config.from_word(key, lasting(path, key, decodable(word)), key)
    config.change(path, key, value)
    if as_json:
        print_json({"key": key, "value": value, "source": "file"})
        return
    print(clean(f"{key} is {clean_line(word_of(value))} in {path}."))
    name = PREFIX + key.upper()
    if os.environ.get(name) and key in SETTINGS:
        print(f"chatcli: {name} is set and wins over the file.", file=sys.stderr)


def lasting(path: Path, key: str, word: str) -> str:
    """A folder's whole path, as the file is read from anywhere; other words stay."""
    folder = Path(word).expanduser()
    if key in FOLDERS:
        return str(folder.absolute()) if word.strip() else word
    if key in SETTINGS and key not in ("model", "draft_model"):
        return word
    is_name = word == POCKET or ("/" not in word and word in config.read(path).models)
    return word if is_name or not word.strip() or not folder.is_dir() else str(folder.absolute())


def forget(path: Path, given: str, as_json: bool) -> None:
    """Take a setting out of the file, also one that is unknown or wrong."""
    as_it_is = given.partition(".")[0] == MODELS or given in config.read(path).unknown
    key = given if as_it_is else config.key_of(given)
    was_there = config.change(path, key, None)
    if as_json:
        print_json({"key": key, "unset": was_there})
    else:
        print(clean(f"{key} is {'no longer' if was_there else 'not'} set in {path}."))


def edit_file(path: Path) -> None:
    """Let the person's editor change the file, and say what is wrong with it then."""
    from chatcli.tui.composer.editor import edited

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("To edit the settings, set EDITOR first, as in: export EDITOR=nano")
    text = config.text_to_edit(path)
    changed = edited(text, editor)
    if changed != text.removesuffix("\n"):
        config.write(path, f"{changed}\n")
    said = config.read(path)
    for problem in said.problems.values():
        raise UsageError(problem)
    for warning in said.unknown.values():
        print(clean(f"chatcli: {warning}"), file=sys.stderr)
