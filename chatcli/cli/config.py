"""`chatcli config …`: shows the settings and where each comes from, and changes the config file.

It works where the file or the environment is wrong, so that they can be mended.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from chatcli.cli.options import (
    PREFIX,
    Configured,
    Effective,
    JsonOption,
    SessionsOption,
    config_path,
    from_environment,
)
from chatcli.cli.output import print_json, warn
from chatcli.command_line import command_line
from chatcli.errors import UsageError
from chatcli.settings import config_file
from chatcli.settings.config_file import MODELS
from chatcli.settings.declaration import Folder, Value
from chatcli.settings.values import SETTINGS, names_folder
from chatcli.text import clean, clean_line, decodable


def complete_key(incomplete: str) -> list[str]:
    """Keys for the shell's completion."""
    return [key for key in SETTINGS if key.startswith(incomplete)]


def command(
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="temp, model, models.ALIAS, …", autocompletion=complete_key),
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="Its new value.")] = None,
    unset: Annotated[
        str | None,
        typer.Option("--unset", metavar="KEY", help="Remove this setting.", autocompletion=complete_key),
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Open the file in $EDITOR.")] = False,
    sessions: SessionsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the settings, or change one: config KEY VALUE."""
    if (key is not None) + (unset is not None) + edit > 1:
        raise UsageError("Give one of KEY, --unset KEY and --edit.")
    path = config_path()
    if edit:
        edit_file(path)
    elif unset is not None:
        forget(path, unset, as_json)
    elif key is not None and value is not None:
        remember(path, config_file.key_of(key), value, as_json)
    elif key == MODELS:
        show_aliases(path, as_json)
    elif key is not None:
        show_value(path, config_file.key_of(key), sessions, as_json)
    else:
        show_all(path, sessions, as_json)


def show_all(path: Path, sessions: Path | None, as_json: bool) -> None:
    """Every setting on a line, and on standard error what is wrong."""
    remembered = config_file.read(path)
    environment, problems = read_environment()
    problems += remembered.problems.values()
    configured = Configured(environment, remembered)
    settings = {key: effective(key, configured, sessions) for key in SETTINGS}
    if as_json:
        print_json(
            {
                "file": str(path),
                "settings": {key: setting._asdict() for key, setting in settings.items()},
                "models": remembered.models,
                "problems": problems,
                "unknown": list(remembered.unknown),
            }
        )
        return
    for key, setting in settings.items():
        text = f"({SETTINGS[key].unset})" if setting.value is None else clean_line(text_of(setting.value))
        print(f"{key:<23} {setting.source:<8} {text}")
    for alias, model in remembered.models.items():
        print(clean_line(f"{MODELS}.{alias} = {model}"))
    print(clean(f"\nThe file: {path}{'' if path.exists() else ' (not there yet)'}"))
    for problem in (*problems, *remembered.unknown.values()):
        warn(problem)


def read_environment() -> tuple[dict[str, Value], list[str]]:
    """What the environment sets, and what is wrong with the rest of it."""
    values: dict[str, Value] = {}
    problems = []
    for key in SETTINGS:
        try:
            if (value := from_environment(key)) is not None:
                values[key] = value
        except UsageError as error:
            problems.append(str(error))
    return values, problems


def effective(key: str, configured: Configured, sessions: Path | None = None) -> Effective:
    if key == "sessions" and sessions is not None:
        return Effective(str(sessions.expanduser()), "flag")
    return configured.find(key)


def text_of(value: Value) -> str:
    """A value as a person would give it."""
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_value(path: Path, key: str, sessions: Path | None, as_json: bool) -> None:
    """One value alone on standard output, for scripts; on standard error what holds where none is set.

    Raises `UsageError` where it is wrong.
    """
    remembered = config_file.read(path)
    for problem in (remembered.problems.get(""), remembered.problems.get(key)):
        if problem is not None:
            raise UsageError(problem)
    if key in SETTINGS:
        value = from_environment(key)
        configured = Configured({} if value is None else {key: value}, remembered)
        setting = effective(key, configured, sessions)
    elif (alias := key.partition(".")[2]) in remembered.models:
        setting = Effective(remembered.models[alias], "file")
    else:
        raise UsageError(f"There is no alias '{alias}'. To make it: {command_line('config', key)} MODEL")
    if as_json:
        print_json({"key": key, **setting._asdict()})
    elif setting.value is None:
        warn(f"{key} is not set: {SETTINGS[key].unset}.")
    else:
        print(clean(text_of(setting.value)))


def show_aliases(path: Path, as_json: bool) -> None:
    models = config_file.read(path).models
    if as_json:
        print_json(models)
    for alias, model in models.items() if not as_json else ():
        print(clean_line(f"{alias} = {model}"))


def remember(path: Path, key: str, word: str, as_json: bool) -> None:
    """Put a checked value into the file."""
    value = config_file.setting_of(key).check_word(absolute(path, key, decodable(word)), key)
    config_file.change(path, key, value)
    if as_json:
        print_json({"key": key, "value": value, "source": "file"})
        return
    print(clean(f"{key} is {clean_line(text_of(value))} in {path}."))
    name = PREFIX + key.upper()
    if os.environ.get(name) and key in SETTINGS:
        warn(f"{name} is set and wins over the file.")


def absolute(path: Path, key: str, word: str) -> str:
    """The absolute path of a folder that `word` names, as the file is read from anywhere; else `word`."""
    folder = Path(word).expanduser()
    if isinstance(config_file.setting_of(key), Folder):
        return str(folder.absolute()) if word.strip() else word
    if key in SETTINGS and key not in ("model", "draft_model"):
        return word
    return str(folder.absolute()) if names_folder(word) and folder.is_dir() else word


def forget(path: Path, given: str, as_json: bool) -> None:
    """Take a setting out of the file, also one that is unknown or wrong."""
    verbatim = given.partition(".")[0] == MODELS or given in config_file.read(path).unknown
    key = given if verbatim else config_file.key_of(given)
    was_there = config_file.change(path, key, None)
    if as_json:
        print_json({"key": key, "unset": was_there})
    else:
        print(clean(f"{key} is {'no longer' if was_there else 'not'} set in {path}."))


def edit_file(path: Path) -> None:
    """Let the person's editor change the file, and say what is wrong with it then."""
    from chatcli.tui.composer.editor import edited, find_editor

    editor = find_editor(os.environ, installed=sys.stdin.isatty() and sys.stdout.isatty())
    if editor is None:
        raise UsageError(
            "There is no editor to start here: set EDITOR, as in export EDITOR=nano, "
            "or change one setting with chatcli config KEY VALUE."
        )
    text = config_file.text_to_edit(path)
    changed = edited(text, editor)
    if changed != text.removesuffix("\n"):
        config_file.write(path, f"{changed}\n")
    remembered = config_file.read(path)
    for problem in remembered.problems.values():
        raise UsageError(problem)
    for warning in remembered.unknown.values():
        warn(warning)
