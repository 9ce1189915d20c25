"""The config file: precedence, comments that are kept, and errors."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from chatcli.cli.main import app
from chatcli.errors import UsageError
from chatcli.settings import config_file
from chatcli.settings.values import IN_SHELL, PANELS, SETTINGS, aliased
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import Program

WRITTEN = """\
# mine
temp = 0.5  # warm
future = "kept"

[models]  # names
fast = "org/fast"

[newer]
deep = [1, 2]
"""


def environment(program: Program, **variables: str) -> dict[str, str]:
    return program.environment(XDG_CONFIG_HOME=str(program.home / "config"), **variables)


def file_of(program: Program) -> Path:
    """The config file's path, as `chatcli config` reports it."""
    return Path(program.run("config", "--json", env=environment(program)).json()["file"])


def write_config(program: Program, text: str) -> Path:
    path = file_of(program)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def run(program: Program, *args: object, expect: int = 0, model: bool = True, **env: str) -> Any:
    return program.run(*args, expect=expect, model=model, env=environment(program, **env))


def values_and_sources(program: Program, **env: str) -> dict[str, tuple[Any, str]]:
    """The value of each setting and its source."""
    settings = run(program, "config", "--json", **env).json()["settings"]
    return {key: (setting["value"], setting["source"]) for key, setting in settings.items()}


def tokens(program: Program, *args: object, **env: str) -> int:
    return len(run(program, "ask", "Hello", "--json", *args, **env).json()["tokens"])


@pytest.mark.slow
def test_a_flag_wins_over_the_environment_over_the_file(chatcli: Program) -> None:
    assert (None, "default") == values_and_sources(chatcli)["max_tokens"]
    run(chatcli, "config", "max_tokens", 3)
    assert (3, "file") == values_and_sources(chatcli)["max_tokens"]
    assert (2, "env") == values_and_sources(chatcli, CHATCLI_MAX_TOKENS="2")["max_tokens"]
    assert 2 == tokens(chatcli, CHATCLI_MAX_TOKENS="2")
    assert 1 == tokens(chatcli, "-n", 1, CHATCLI_MAX_TOKENS="2")


@pytest.mark.slow
def test_without_a_file_the_defaults_stand_and_nothing_is_written(chatcli: Program) -> None:
    settings = values_and_sources(chatcli)
    assert set(SETTINGS) == set(settings)
    assert ("pocket", "default") == settings["model"]
    assert (str(chatcli.sessions), "env") == settings["sessions"]
    assert {"default"} == {source for key, (_, source) in settings.items() if key != "sessions"}
    assert not file_of(chatcli).exists()
    text = run(chatcli, "config").text
    assert str(file_of(chatcli)) in text and "(not there yet)" in text
    assert "pocket\n" == run(chatcli, "config", "model").text
    temp = run(chatcli, "config", "temp")
    assert ("", "chatcli: temp is not set: the model's own.\n") == (temp.text, temp.errors)


@pytest.mark.slow
def test_a_switch_in_the_file_applies_and_a_flag_overrides_it(chatcli: Program) -> None:
    write_config(chatcli, "cache = false\nmax_tokens = 2\nthink = false\n")
    cold = run(chatcli, "ask", "one", "-S", "off", "--json").json()
    assert (0, 2, "") == (cold["checkpoint_bytes"], len(cold["tokens"]), cold["thinking"])
    warm = run(chatcli, "ask", "one", "-S", "on", "--json", "--cache").json()
    assert 0 < warm["checkpoint_bytes"]


@pytest.mark.slow
def test_the_model_and_the_system_prompt_apply_to_new_sessions_only(chatcli: Program, models: Path) -> None:
    """An existing session keeps its own; a flag wins, and so does an empty system prompt."""
    write_config(chatcli, f'model = "mine"\nsystem = "Be brief."\n[models]\nmine = "{chatcli.model}"\n')
    few = ("-n", "2", "--no-think", "--json")
    run(chatcli, "ask", "a", "-S", "new", *few, model=False)
    new = run(chatcli, "show", "new", "--json").json()
    assert (str(chatcli.model), "Be brief.") == (new["model"], new["system"])
    other_model = models / "qwen3"
    run(chatcli, "ask", "a", "-S", "own", "-m", other_model, "-s", "Mine.", *few)
    second_turn = run(chatcli, "ask", "b", "-S", "own", *few, model=False).json()
    own = run(chatcli, "show", "own", "--json").json()
    assert (str(other_model), "Mine.") == (own["model"], own["system"])
    assert second_turn["reused_tokens"] > 0
    run(chatcli, "ask", "c", "-S", "bare", "-m", "mine", "-s", "", *few, CHATCLI_MODEL=str(other_model))
    bare = run(chatcli, "show", "bare", "--json").json()
    assert (str(chatcli.model), None) == (bare["model"], bare["system"])


@pytest.mark.slow
def test_every_command_uses_the_configured_sessions_folder(chatcli: Program) -> None:
    SessionFolder(chatcli.sessions).create("kept", model="pocket", system=None).close()
    write_config(chatcli, 'sessions = "../../saved"\ncache_limit = "5GB"\n')
    env = environment(chatcli)
    del env["CHATCLI_SESSIONS"]
    (session,) = chatcli.run("list", "--json", env=env).json()
    assert "kept" == session["name"]
    assert 5_000_000_000 == chatcli.run("cache", "stats", "--json", env=env).json()["limit_bytes"]
    flag = chatcli.run("config", "sessions", "--json", "--sessions", "there", env=env).json()
    assert {"key": "sessions", "value": "there", "source": "flag"} == flag
    chatcli.run("config", "sessions", "here", env=env)
    assert str(chatcli.home / "here") == chatcli.run("config", "sessions", env=env).text.strip()


def test_a_folder_with_a_slash_is_never_an_alias(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    names = {str(folder): "org/other", "models": "org/models", "org/name": "org/elsewhere"}
    assert str(folder) == aliased(str(folder), names)
    assert "org/models" == aliased("models", names)
    assert "org/elsewhere" == aliased("org/name", names)
    assert "pocket" == aliased("pocket", names)


@pytest.mark.slow
def test_setting_keeps_comments_and_unknown_keys(chatcli: Program) -> None:
    path = write_config(chatcli, WRITTEN)
    run(chatcli, "config", "temp", 0.75)
    run(chatcli, "config", "top-p", 0.5)
    run(chatcli, "config", "models.qwen3.5", "org/qwen")
    assert path.read_text("utf-8") == WRITTEN.replace("temp = 0.5 ", "temp = 0.75 ").replace(
        'future = "kept"\n', 'future = "kept"\ntop_p = 0.5\n'
    ).replace('"org/fast"\n', '"org/fast"\n"qwen3.5" = "org/qwen"\n')
    run(chatcli, "config", "--unset", "temp")
    run(chatcli, "config", "--unset", "models.fast")
    remaining = config_file.read(path)
    assert ({"top_p": 0.5}, {"qwen3.5": "org/qwen"}) == (remaining.values, remaining.models)
    assert {"future", "newer"} == set(remaining.unknown)
    assert path.read_text("utf-8").startswith("# mine\n")


def test_the_file_and_its_folder_are_private(chatcli: Program) -> None:
    path = file_of(chatcli)
    text = run(chatcli, "config", "system", "Be brief.").text
    assert f"system is Be brief. in {path}.\n" == text
    assert [0o600, 0o700] == [stat.S_IMODE(entry.stat().st_mode) for entry in (path, path.parent)]
    assert [path] == list(path.parent.iterdir())
    assert "Be brief.\n" == run(chatcli, "config", "system").text


def test_a_linked_file_is_changed_in_place(chatcli: Program) -> None:
    path = file_of(chatcli)
    path.parent.mkdir(parents=True)
    real = chatcli.home / "dotfiles.toml"
    real.write_text("seed = 1\n")
    path.symlink_to(real)
    run(chatcli, "config", "seed", 2)
    assert path.is_symlink() and "seed = 2\n" == real.read_text()


def test_another_file_can_be_named(chatcli: Program) -> None:
    other_file = chatcli.home / "deep" / "other.toml"
    run(chatcli, "config", "panel", "full", CHATCLI_CONFIG=str(other_file))
    assert ("full", "file") == values_and_sources(chatcli, CHATCLI_CONFIG=str(other_file))["panel"]
    assert ("full", "default") == values_and_sources(chatcli)["panel"]


@pytest.mark.slow
def test_an_invalid_file_is_one_sentence_and_can_be_repaired(chatcli: Program) -> None:
    path = write_config(chatcli, 'temp = "hot"\nseed = 3\n[models]\npocket = "x"\n')
    (sentence,) = run(chatcli, "list", expect=2).errors.splitlines()
    assert sentence.startswith("chatcli: ") and "temp must be" in sentence
    assert "" == run(chatcli, "ask", "--help").errors
    report = run(chatcli, "config", "--json").json()
    assert {"value": 3, "source": "file"} == report["settings"]["seed"]
    assert 2 == len(report["problems"])
    assert "temp must be" in run(chatcli, "config").errors
    assert "temp must be" in run(chatcli, "config", "temp", expect=2).errors
    assert "3\n" == run(chatcli, "config", "seed").text
    run(chatcli, "config", "temp", "0.25")
    run(chatcli, "config", "--unset", "models.pocket")
    assert "" == run(chatcli, "list").errors
    assert 0.25 == config_file.read(path).values["temp"]


@pytest.mark.slow
def test_a_file_that_is_not_toml_stays_as_it_is(chatcli: Program) -> None:
    path = write_config(chatcli, "temp = 1\nseed = = 2\n")
    for args in (["list"], ["config", "temp", "1"], ["config", "--unset", "temp"]):
        (sentence,) = run(chatcli, *args, expect=2).errors.splitlines()
        assert f"{path} is not TOML at line 2" in sentence
    assert "temp = 1\nseed = = 2\n" == path.read_text()
    assert "not TOML at line 2" in run(chatcli, "config").errors
    path.write_bytes(b"temp = 1\nsystem = '\xff'\n")
    assert "not UTF-8 text at line 2" in run(chatcli, "list", expect=2).errors


@pytest.mark.slow
def test_an_unknown_key_is_one_warning(chatcli: Program) -> None:
    path = write_config(chatcli, "tmp = 1\n")
    result = run(chatcli, "ask", "Hello", "-n", "2", "--json")
    (warning,) = result.errors.splitlines()
    assert f"{path} sets 'tmp', which this version does not know (did you mean 'temp'?)" in warning
    assert 2 == len(result.json()["tokens"])
    run(chatcli, "config", "--unset", "tmp")
    assert "" == run(chatcli, "list").errors


def test_a_refused_value_leaves_no_file(chatcli: Program) -> None:
    for args, clue in (
        (["tmp", "1"], "did you mean 'temp'?"),
        (["sessions", ""], "sessions must be text"),
        (["models.none"], "no alias 'none'"),
        (["temp", "--edit"], "Give one of"),
    ):
        (sentence,) = run(chatcli, "config", *args, expect=2).errors.splitlines()
        assert clue in sentence
    assert not (chatcli.home / "config").exists()


def test_an_invalid_variable_is_named(chatcli: Program) -> None:
    (sentence,) = run(chatcli, "list", expect=2, CHATCLI_TOP_P="2").errors.splitlines()
    assert "CHATCLI_TOP_P must be a number from 0 to 1, not '2'" in sentence
    result = run(chatcli, "config", CHATCLI_TOP_P="2")
    assert "CHATCLI_TOP_P" in result.errors and "top_p" in result.text
    assert (None, "default") == values_and_sources(chatcli, CHATCLI_TOP_P="")["top_p"]
    result = run(chatcli, "config", "top_p", "0.5", CHATCLI_TOP_P="0.9")
    assert "CHATCLI_TOP_P is set and wins" in result.errors


def parse(command: str, *args: str) -> dict[str, Any]:
    """A command's arguments as Typer parses them."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return dict(commands[command].make_context(command, list(args)).params)


@pytest.mark.parametrize("command", ["chat", "resume", "branch", "ask"])
def test_every_setting_is_an_option(command: str) -> None:
    parameters = {option.name: option for option in typer.main.get_command(app).commands[command].params}  # type: ignore[attr-defined]
    assert set(SETTINGS) <= set(parameters)
    for key in SETTINGS:
        assert f"--{key.replace('_', '-')}" in parameters[key].opts


def test_every_panel_is_an_option_and_no_other() -> None:
    for panel in PANELS:
        assert panel == parse("ask", "--panel", panel)["panel"]
    with pytest.raises(UsageError, match="--panel must be one of line, full, off"):
        parse("ask", "--panel", "huge")


@pytest.mark.parametrize(
    ("key", "minimum", "maximum"),
    [
        ("temp", "0", "1e9"),
        ("top_p", "0", "1"),
        ("top_k", "0", "2000"),
        ("repetition_penalty", "0.1", "1e9"),
        ("presence_penalty", "-1000000", "1000000"),
        ("seed", "0", str((1 << 63) - 1)),
        ("max_tokens", "1", str(1 << 40)),
        ("xtc_threshold", "0", "0.5"),
    ],
)
def test_the_file_the_flag_and_set_have_the_same_bounds(key: str, minimum: str, maximum: str) -> None:
    setting = SETTINGS[key]
    assert setting is IN_SHELL[key]
    option = f"--{key.replace('_', '-')}"
    for bound in (minimum, maximum):
        value = setting.check_word(bound, key)
        assert setting.holds(value) and value == parse("ask", option, bound)[key]
    below = str(type(value)(minimum) - 1)
    with pytest.raises(UsageError, match=f"{key} must be"):
        setting.check_word(below, key)
    with pytest.raises(UsageError, match=f"{option} must be"):
        parse("ask", option, below)


@pytest.mark.slow
def test_several_processes_lose_no_setting(chatcli: Program) -> None:
    changes = {"temp": "0.5", "seed": "1", "top_k": "2", "panel": "off"}
    quiet = {"stdout": subprocess.DEVNULL, "env": environment(chatcli)}
    at_once = [chatcli.start("config", key, value, **quiet) for key, value in changes.items()]
    assert {0} == {process.wait(60) for process in at_once}
    assert set(changes) == set(config_file.read(file_of(chatcli)).values)


def editor(program: Program, script: str) -> str:
    """An editor that runs this shell script on its file, $1."""
    path = program.home / "my editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return f"'{path}'"


@pytest.mark.slow
def test_the_editor_changes_the_file_and_errors_are_reported(chatcli: Program) -> None:
    path = file_of(chatcli)
    run(chatcli, "config", "--edit", EDITOR=editor(chatcli, 'grep -q temp "$1"'))
    assert not path.exists()
    run(chatcli, "config", "--edit", EDITOR="false", VISUAL=editor(chatcli, 'echo seed=5 >> "$1"'))
    assert {"seed": 5} == config_file.read(path).values
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    wrong = run(chatcli, "config", "--edit", EDITOR=editor(chatcli, 'echo "a b" > "$1"'), expect=2)
    assert "not TOML at line 1" in wrong.errors
    run(chatcli, "config", "--edit", EDITOR=editor(chatcli, 'echo temp=1 > "$1"'))
    assert "temp=1\n" == path.read_text()


def test_without_a_terminal_no_editor_is_guessed(chatcli: Program) -> None:
    env = {key: value for key, value in environment(chatcli).items() if key not in ("EDITOR", "VISUAL")}
    assert "no editor to start here" in chatcli.run("config", "--edit", env=env, expect=2).errors


def test_a_folder_that_cannot_be_written_is_one_sentence(chatcli: Program) -> None:
    file = chatcli.home / "taken"
    file.write_text("")
    result = run(chatcli, "config", "seed", "1", expect=1, CHATCLI_CONFIG=str(file / "c.toml"))
    (sentence,) = result.errors.splitlines()
    assert "Cannot write the settings" in sentence
    file.unlink()
    file.mkdir()
    assert "cannot be read" in run(chatcli, "list", expect=2, CHATCLI_CONFIG=str(file)).errors


@pytest.mark.slow
def test_no_control_character_of_the_file_reaches_the_terminal(chatcli: Program) -> None:
    write_config(chatcli, '"\\u001b[2J" = 1\nsystem = "\\u001b[31mred"\n[models]\n"\\u0007" = "\\u009b"\n')
    for args in (["config"], ["config", "system"], ["config", "models"], ["list"]):
        result = run(chatcli, *args)
        assert not {b"\x1b", b"\x07"} & {bytes([byte]) for byte in result.out + result.err}
        assert b"\xc2\x9b" not in result.out + result.err


@pytest.mark.slow
def test_completion_is_silent_about_an_invalid_file(chatcli: Program) -> None:
    SessionFolder(chatcli.sessions).create("kept", model="pocket", system=None).close()
    code = "import sys; sys.argv = ['chatcli']; from chatcli.__main__ import main; main()"
    variables = {
        "_CHATCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "chatcli show ",
        "COMP_CWORD": "2",
    }
    for text, completions in (("temp = 1\n", "kept"), ("tmp = 1\n", "kept"), ("temp = = 1\n", "")):
        write_config(chatcli, text)
        command, env = [sys.executable, "-c", code], environment(chatcli, **variables)
        process = subprocess.run(command, env=env, capture_output=True, text=True)
        assert (completions, "") == (process.stdout.strip(), process.stderr)


@pytest.mark.parametrize(("text", "expected"), [(None, False), ("seed = 1\n", True)])
def test_toml_is_imported_only_where_there_is_a_file(
    chatcli: Program, text: str | None, expected: bool
) -> None:
    if text is not None:
        write_config(chatcli, text)
    code = (
        "import sys, json; from chatcli.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(json.dumps(['tomlkit' in sys.modules, 'mlx' in sys.modules]))"
    )
    command = [sys.executable, "-c", code, "list"]
    process = subprocess.run(command, env=environment(chatcli), capture_output=True, text=True)
    assert [expected, False] == json.loads(process.stdout.splitlines()[-1])


def test_help_shows_the_defaults(chatcli: Program) -> None:
    env = environment(chatcli, COLUMNS="200")
    text = " ".join(chatcli.run("ask", "--help", env=env).text.split())
    for default in ("Top-p (1: off; default: the model's own)", "(default: cache)"):
        assert default in text
