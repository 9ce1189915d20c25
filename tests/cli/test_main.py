"""The command line as scripts use it: `ask`, `chat`, `branch`, `show`, caching, dates, help."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chatcli.__main__ import main as chatcli_main
from chatcli.store.segments import catalog
from chatcli.text import percent
from tests import ROOT
from tests.support.program import ASK_FIELDS, Program, folder_contents, segment_files
from tests.support.rendered import generation_prompt, rendered_message, token_count, tokenizer_of
from tests.support.terminal import Terminal
from tests.support.tiny import OPEN_THINK, write_model

MESSAGES = [
    "My dog is called Biscuit and I live in Lisbon.",
    "What is my dog's name?",
    "And where do I live? Answer briefly.",
    "Remember what you were told: 12, 34 and 56.",
    "The quick brown fox jumps over the lazy dog.",
]
SYSTEM = "You are a helpful assistant. Answer briefly and remember what you were told. " * 4


def rendered(turns: list[dict[str, Any]], messages: list[str]) -> str:
    """Past turns as the tiny models' templates render them."""
    pairs = zip(messages, turns, strict=True)
    return "".join(
        rendered_message("user", message) + rendered_message("assistant", turn["text"])
        for message, turn in pairs
    )


def segment_bytes(sessions: Path) -> int:
    return sum(path.stat().st_size for path in segment_files(sessions))


@dataclass
class ThreeRuns:
    """One conversation three times: a process per turn, one process, and one process without cache."""

    program: Program
    apart: list[dict[str, Any]]
    grown: list[int]
    together: list[dict[str, Any]]
    cold: list[dict[str, Any]]
    cold_sessions: Path


def run_three_ways(program: Program) -> ThreeRuns:
    apart, grown = [], []
    for message in MESSAGES:
        before = segment_bytes(program.sessions)
        apart.append(program.ask(message, "-S", "talk", "-n", "24"))
        grown.append(segment_bytes(program.sessions) - before)
    open_folder, cold_folder = program.home / "open", program.home / "cold"
    together = program.chat(MESSAGES, "-S", "talk", "-n", "24", "--sessions", open_folder)
    cold = program.chat(MESSAGES, "-S", "talk", "-n", "24", "--no-cache", "--sessions", cold_folder)
    return ThreeRuns(program, apart, grown, together, cold, cold_folder)


# tests/turn/test_turn.py has the other families, in one process.
@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3_5"])
def test_a_process_per_turn_answers_as_one_process_and_as_one_without_cache(
    models: Path, tmp_path: Path, family: str
) -> None:
    runs = run_three_ways(Program(tmp_path, models / family))
    assert len(MESSAGES) == len(runs.apart) == len(runs.together) == len(runs.cold)
    assert runs.apart[-1]["prompt_tokens"] > 3 * 32  # well past the sliding windows
    for apart, together, cold in zip(runs.apart, runs.together, runs.cold, strict=True):
        assert together["tokens"] == apart["tokens"]
        assert together["logprobs"] == apart["logprobs"]
        assert cold["tokens"] == apart["tokens"]
        assert cold["prompt_tokens"] == apart["prompt_tokens"]
        assert (0, 0) == (cold["reused_tokens"], cold["checkpoint_bytes"])
    assert {"talk.jsonl"} == folder_contents(runs.cold_sessions).keys()
    check_that_only_the_new_message_is_prefilled(runs)
    check_that_every_field_is_true(runs)


def check_that_only_the_new_message_is_prefilled(runs: ThreeRuns) -> None:
    model = runs.program.model
    assert 0 == runs.apart[0]["reused_tokens"]
    for number in range(1, len(MESSAGES)):
        turn = runs.apart[number]
        history = rendered(runs.apart[:number], MESSAGES[:number])
        new = token_count(rendered_message("user", MESSAGES[number]) + generation_prompt(model), model)
        assert turn["reused_tokens"] >= token_count(history, model)
        assert turn["prefilled_tokens"] <= new
        assert turn["miss_reason"] is None


def check_that_every_field_is_true(runs: ThreeRuns) -> None:
    model = runs.program.model
    reply_start = generation_prompt(model)
    for number, turn in enumerate(runs.apart, start=1):
        assert turn.keys() >= ASK_FIELDS
        assert ("talk", number) == (turn["session"], turn["turn"])
        prompt = rendered(runs.apart[: number - 1], MESSAGES[: number - 1])
        prompt += rendered_message("user", MESSAGES[number - 1]) + reply_start
        assert token_count(prompt, model) == turn["prompt_tokens"]
        assert turn["prompt_tokens"] == turn["reused_tokens"] + turn["prefilled_tokens"]
        assert turn["hit_ratio"] == turn["reused_tokens"] / turn["prompt_tokens"]
        assert len(turn["tokens"]) == len(turn["logprobs"])
        assert all(logprob <= 0 for logprob in turn["logprobs"])
        assert turn["finish_reason"] == ("length" if len(turn["tokens"]) == 24 else "stop")
        # Joining small files saves some of their headers.
        saved = turn["checkpoint_bytes"] - runs.grown[number - 1]
        assert 0 <= saved < 20_000 and 0 < runs.grown[number - 1]
        assert turn["time_to_first_token"] >= turn["prefill_seconds"] > 0
        assert turn["restore_seconds"] > 0
        assert turn["generation_tps"] > 0
    # Settling prefilled from the turn's stable prefix, which ends within the generation prompt, to the
    # tokens that the next turn reuses.
    for turn, following in pairwise(runs.apart):
        beyond = following["reused_tokens"] - turn["prompt_tokens"]
        assert beyond < turn["settled_tokens"] <= beyond + token_count(reply_start, model)


def test_brief_json_has_no_number_for_each_token(chatcli: Program) -> None:
    brief = chatcli.run("ask", "Hello", "-n", "3", "-m", chatcli.model, "--json-brief").json()
    whole = chatcli.ask("Hello", "-n", "3")
    assert {"tokens", "logprobs"} == whole.keys() - brief.keys() and brief["generated_tokens"] == 3


@pytest.mark.slow
def test_generated_tokens_decode_to_the_thinking_and_the_text(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, models / "speaker")
    for seed in range(1, 5):
        turn = program.ask("Hello", "-S", f"s{seed}", "-n", "12", "--temp", "1", "--seed", seed)
        decoded = tokenizer_of(program.model).decode(turn["tokens"])
        thought, closed, reply = decoded.partition("</think>")
        # A mark that closes thinking a second time is text.
        reply = reply.removesuffix("<|im_end|>")
        assert (thought.strip("\n"), reply.strip("\n")) == (turn["thinking"], turn["text"])
        if closed and thought and reply:
            break
    else:
        pytest.fail("no seed gave both thinking and a reply")
    plain = program.run("ask", "Hello", "-n", "12", "--temp", "1", "--seed", seed)
    # Unprintable characters are shown as signs, so only the printable ones are compared.
    assert printable_ascii(turn["text"]) == printable_ascii(plain.text)
    assert printable_ascii(turn["thinking"]) == printable_ascii(plain.errors)


def printable_ascii(text: str) -> str:
    return "".join(char for char in text if char.isascii() and char.isprintable())


@pytest.mark.slow
def test_no_cache_neither_reads_nor_writes(chatcli: Program) -> None:
    chatcli.ask("Hello there", "-S", "talk", "-n", "4")
    old_times = {path: path.stat().st_mtime_ns for path in segment_files(chatcli.sessions)}
    assert old_times
    turn = chatcli.ask("Again", "-S", "talk", "-n", "4", "--no-cache")
    assert (2, 0, 0) == (turn["turn"], turn["reused_tokens"], turn["checkpoint_bytes"])
    new_times = {path: path.stat().st_mtime_ns for path in segment_files(chatcli.sessions)}
    assert old_times == new_times


@pytest.mark.slow
def test_two_sessions_share_a_long_system_prompt(chatcli: Program) -> None:
    first = chatcli.ask("Hello", "-S", "first", "-s", SYSTEM, "-n", "4")
    second = chatcli.ask("Good morning", "-S", "second", "-s", SYSTEM, "-n", "4")
    assert 0 == first["reused_tokens"]
    assert second["reused_tokens"] >= token_count(rendered_message("system", SYSTEM), chatcli.model)
    assert second["prefilled_tokens"] < 40


@pytest.fixture(scope="module")
def long_talk(models: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, list[Any]]:
    """Ten turns with messages of equal length."""
    program = Program(tmp_path_factory.mktemp("long"), models / "qwen3_5")
    lines = [f"Remember the number {number}." for number in range(10)]
    turns = program.chat(lines, "-S", "long", "--no-think", "-n", "16")
    return program, turns


@pytest.mark.slow
def test_bytes_written_per_turn_are_those_of_the_new_tokens(
    long_talk: tuple[Program, list[Any]],
) -> None:
    program, turns = long_talk
    states = [path.stat().st_size for path in program.sessions.glob("kv/*/??/*.state.safetensors")]
    assert max(states) - min(states) < 64  # a state has the same size at any depth
    row = 2 * 2 * 16 * 4 + 4  # keys and values, 2 heads of 16 float32, and the token's id
    for turn, following in pairwise(turns):
        new = following["reused_tokens"] - turn["reused_tokens"]
        assert turn["settled_tokens"] > 16 / 2
        assert turn["checkpoint_bytes"] <= 2 * max(states) + new * row + 2 * 1024
    assert turns[-1]["checkpoint_bytes"] < 1.3 * turns[1]["checkpoint_bytes"]


@pytest.mark.slow
def test_a_branch_at_any_turn_reuses_everything_before_it(
    long_talk: tuple[Program, list[Any]],
) -> None:
    program, turns = long_talk
    original = (program.sessions / "long.jsonl").read_bytes()
    turn_numbers = (1, 2, 5, 9)
    for number in turn_numbers:
        branched = program.run("branch", "long", "--at", number, "--as", f"b{number}", "--json").json()
        assert (f"b{number}", number) == (branched["session"], branched["turns"])
    script = [line for number in turn_numbers for line in (f"/resume b{number}", "Remember the number x.")]
    branched = program.chat(script, "--no-think", "-n", "16")
    reused = [(turn["session"], turn["turn"], turn["reused_tokens"]) for turn in branched]
    assert [(f"b{n}", n + 1, turns[n]["reused_tokens"]) for n in turn_numbers] == reused
    for turn in branched:
        assert turn["prefilled_tokens"] < 40
        assert turn["miss_reason"] is None
    assert original == (program.sessions / "long.jsonl").read_bytes()
    output = program.run("branch", "long").text
    assert "turn 10" in output


def test_ask_at_a_turn_makes_a_sibling_and_keeps_the_old_path(chatcli: Program) -> None:
    lines = ["one apple", "two pears", "three plums"]
    turns = chatcli.chat(lines, "-S", "fruit", "-n", "4", "--no-think")
    turn = chatcli.ask("two figs", "-S", "fruit", "--at", "1", "-n", "4", "--no-think")
    assert 2 == turn["turn"]
    assert turns[1]["reused_tokens"] == turn["reused_tokens"]
    session = chatcli.run("show", "fruit", "--json").json()
    assert ["one apple", "two figs"] == [turn["user"] for turn in session["turns"]]
    tree = chatcli.run("tree", "fruit", "--json").json()["entries"]
    users = {entry["content"]: entry for entry in tree if entry["role"] == "user"}
    assert {"one apple", "two pears", "three plums", "two figs"} == users.keys()
    assert users["two pears"]["parent"] == users["two figs"]["parent"]
    tree_text = chatcli.run("tree", "fruit").text
    assert all(message in tree_text for message in users)
    plain = chatcli.run("show", "fruit").text
    assert "two figs" in plain and "two pears" not in plain
    changed = chatcli.ask("four", "-S", "fruit", "-n", "4", "--no-think", "-s", "Be kind.")
    assert 0 == changed["reused_tokens"]
    assert "system prompt" in changed["miss_reason"]


@pytest.mark.slow
def test_listing_showing_renaming_and_deleting(chatcli: Program) -> None:
    assert [] == chatcli.run("list", "--json").json()
    assert "No saved sessions" in chatcli.run("list").text
    turns = chatcli.chat(["Hello there", "How are you?"], "-s", "Be kind.", "-n", "6")
    name = turns[0]["session"]
    assert "hello-there" == name
    listed = chatcli.run("list", "--json").json()
    assert [(name, 2, "Hello there")] == [
        (session["name"], session["turns"], session["first_words"]) for session in listed
    ]
    plain_list = chatcli.run("list").text
    assert name in plain_list and all(line == line.rstrip() for line in plain_list.splitlines())
    saved = chatcli.run("show", name, "--json").json()
    assert (name, "Be kind.") == (saved["session"], saved["system"])
    for message, turn, saved_turn in zip(["Hello there", "How are you?"], turns, saved["turns"], strict=True):
        assert message == saved_turn["user"]
        for key in (
            "turn",
            "text",
            "thinking",
            "prompt_tokens",
            "reused_tokens",
            "hit_ratio",
            "prefilled_tokens",
            "settled_tokens",
            "checkpoint_bytes",
        ):
            assert turn[key] == saved_turn[key], key
    plain = chatcli.run("show", name).text
    assert "Hello there" in plain and "How are you?" in plain
    chatcli.run("rename", name, "greeting")
    assert ["greeting"] == [session["name"] for session in chatcli.run("list", "--json").json()]
    assert saved["turns"] == chatcli.run("show", "greeting", "--json").json()["turns"]
    used = segment_bytes(chatcli.sessions)
    stats = chatcli.run("cache", "stats", "--json").json()
    assert (used, 1) == (stats["bytes"], len(stats["models"]))
    rows = [path for path in segment_files(chatcli.sessions) if ".rows." in path.name]
    assert len(rows) == stats["segments"]
    assert stats["models"][0]["fingerprint"][:8] in chatcli.run("cache", "stats").text
    chatcli.run("delete", "greeting", "--yes")
    assert [] == chatcli.run("list", "--json").json()
    assert [] == segment_files(chatcli.sessions)


@pytest.mark.slow
def test_clearing_the_cache_does_not_change_replies(chatcli: Program) -> None:
    turns = chatcli.chat(["Hello there", "How are you?"], "-S", "kept", "-n", "8")
    twin = chatcli.home / "twin"
    shutil.copytree(chatcli.sessions, twin)
    used = segment_bytes(chatcli.sessions)
    assert used == chatcli.run("cache", "clear", "-y", "--json").json()["freed_bytes"]
    assert [] == segment_files(chatcli.sessions)
    assert "0" in chatcli.run("cache", "clear", "-y").text
    assert "No checkpoints" in chatcli.run("cache", "stats").text
    cold = chatcli.ask("And now?", "-S", "kept", "-n", "8")
    warm = chatcli.ask("And now?", "-S", "kept", "-n", "8", "--sessions", twin)
    assert 0 == cold["reused_tokens"] < turns[-1]["prompt_tokens"] <= warm["reused_tokens"] + 12
    assert (warm["tokens"], warm["logprobs"]) == (cold["tokens"], cold["logprobs"])
    assert cold["miss_reason"]
    assert warm["miss_reason"] is None


@pytest.mark.slow
def test_continue_takes_the_most_recent_session_of_the_right_folder(chatcli: Program) -> None:
    script = ["/new older", "first of the older", "/new newer", "first of the newer"]
    script += ["/resume older", "second of the older"]
    turns = chatcli.chat(script, "-n", "2")
    assert [("older", 1), ("newer", 1), ("older", 2)] == [(t["session"], t["turn"]) for t in turns]
    turn = chatcli.ask("more", "-c", "-n", "2")
    assert ("older", 3) == (turn["session"], turn["turn"])
    # --sessions beats CHATCLI_SESSIONS, which beats ./sessions, which beats the data folder.
    elsewhere, local = chatcli.home / "elsewhere", chatcli.home / "sessions"
    for folder, name in ((elsewhere, "given"), (local, "local")):
        shutil.copytree(chatcli.sessions, folder)
        (folder / "older.jsonl").rename(folder / f"{name}.jsonl")
    unset = chatcli.environment(CHATCLI_SESSIONS=None)

    def names(*args: object, **options: Any) -> set[str]:
        return {session["name"] for session in chatcli.run("list", "--json", *args, **options).json()}

    assert {"given", "newer"} == names("--sessions", elsewhere)
    assert {"older", "newer"} == names()
    assert {"local", "newer"} == names(env=unset)
    local.rename(chatcli.home / "gone")
    assert set() == names(env=unset)


@pytest.mark.slow
def test_a_seed_repeats_a_reply_and_settings_apply(chatcli: Program) -> None:
    sampled = ("--temp", "1.5", "-n", "24", "--think", "--seed")
    first = chatcli.ask("Hello", "-S", "a", *sampled, 5)
    repeated = chatcli.ask("Hello", "-S", "b", *sampled, 5)
    other_seed = chatcli.ask("Hello", "-S", "c", *sampled, 6)
    without_thinking = chatcli.ask("Hello", "-S", "d", "--no-think", "-n", "3")
    assert (first["tokens"], first["logprobs"]) == (repeated["tokens"], repeated["logprobs"])
    assert first["tokens"] != other_seed["tokens"]
    prompt = rendered_message("user", "Hello") + "<|im_start|>assistant\n<think>\n"
    assert token_count(prompt, chatcli.model) == first["prompt_tokens"]
    assert token_count(prompt + "\n</think>\n\n", chatcli.model) == without_thinking["prompt_tokens"]
    assert ("length", 3) == (without_thinking["finish_reason"], len(without_thinking["tokens"]))
    assert "" == without_thinking["thinking"] and "" != without_thinking["text"]
    assert "" != first["thinking"]


@pytest.mark.slow
def test_standard_input_is_appended_to_the_prompt(chatcli: Program) -> None:
    chatcli.ask("Read this:", "-S", "both", "-n", "2", stdin="a line\nanother ünï\n")
    chatcli.run("ask", "-S", "both", "-n", "2", stdin="only from the pipe\n")
    session = chatcli.run("show", "both", "--json").json()
    assert ["Read this:\n\na line\nanother ünï", "only from the pipe"] == [
        turn["user"] for turn in session["turns"]
    ]


@pytest.mark.slow
def test_chat_runs_a_script_from_a_pipe(chatcli: Program) -> None:
    script = "hello\n\n/rename piped\n/home/me is a path\n/tree\n/stats\n/quit\nnever sent\n"
    result = chatcli.run("chat", "-n", "6", "--no-think", stdin=script)
    session = chatcli.run("show", "piped", "--json").json()
    assert ["hello", "/home/me is a path"] == [turn["user"] for turn in session["turns"]]
    assert "never sent" not in result.text
    last = session["turns"][1]
    ratio = percent(last["reused_tokens"], last["prompt_tokens"])
    assert f" {ratio} {last['prompt_tokens']} " in " ".join(result.text.split())  # from /stats
    assert "/home/me is a path" in result.text  # from /tree
    assert "" == result.errors


def test_the_installed_command_runs_the_same_main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = EntryPoint("chatcli", project["scripts"]["chatcli"], "console_scripts")
    assert chatcli_main is entry.load()


def imported(importtime: str) -> list[str]:
    """The modules in the order in which their imports ended."""
    lines = importtime.splitlines()
    return [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")]


def test_help_and_list_import_no_mlx(chatcli: Program) -> None:
    for args in (["--help"], ["list"], ["ask", "--help"], ["tree", "none"]):
        command = [sys.executable, "-X", "importtime", "-m", "chatcli", *args]
        process = subprocess.run(command, env=chatcli.environment(), capture_output=True, text=True)
        packages = {module.split(".")[0] for module in imported(process.stderr)}
        assert "chatcli" in packages
        assert set() == packages & {"mlx", "mlx_lm", "numpy", "transformers", "torch", "pydantic"}


def test_the_prompt_waits_for_no_import_that_it_does_not_need(chatcli: Program) -> None:
    env = {**chatcli.environment(), "CHATCLI_MODEL": "pocket"}
    shell = ["bash", "-c", 'exec "$@" 2>imports', "bash", sys.executable, "-X", "importtime", "-m", "chatcli"]
    with Terminal(shell, env, chatcli.home) as terminal:
        terminal.send("early")
        terminal.wait_for("› early")
        modules = imported((chatcli.home / "imports").read_text())
    before = {module.split(".")[0] for module in modules[: modules.index("chatcli.tui.shell")]}
    assert {"chatcli", "prompt_toolkit", "rich"} <= before
    for_replies = {"mlx", "mlx_lm", "numpy", "transformers", "markdown_it", "pygments"}
    assert set() == before & (for_replies | {"pydantic", "tomlkit", "huggingface_hub"})


def test_help_names_every_command(chatcli: Program) -> None:
    text = chatcli.run("--help").text
    commands = ["chat", "resume", "branch", "ask", "list", "show", "tree", "rename", "delete"]
    for command in [*commands, "cache"]:
        assert f" {command} " in text


DATED = "{{- '<|im_start|>system\nToday is ' + strftime_now('%d %B %Y') + '<|im_end|>\n' }}"


@pytest.fixture
def dated(tmp_path: Path) -> Program:
    """The program with a model whose template prints the date."""
    model = write_model(tmp_path / "dated", "qwen3", template=DATED + OPEN_THINK)
    return Program(tmp_path / "home", model)


def prompts(program: Program, name: str) -> list[str]:
    """The decoded tokens of each turn's newest checkpoint."""
    texts = []
    for turn in program.run("show", name, "--json").json()["turns"]:
        folder = catalog.model_folder(program.sessions, turn["fingerprint"])
        texts.append(tokenizer_of(program.model).decode(catalog.tokens_of(folder, turn["segments"])))
    return texts


def first_line(text: str) -> str:
    return text.split("<|im_end|>")[0].removeprefix("<|im_start|>system\n")


@pytest.mark.slow
def test_a_date_that_is_set_is_rendered_and_saved(dated: Program) -> None:
    script = "one\n/date\n/date 2031-11-03\n/date 2031-11-03\ntwo\n/branch 2 aside\nthree\n"
    text = " ".join(dated.run("chat", "-S", "days", "-n", "4", stdin=script).text.split())
    today = datetime.date.today()
    assert f"The session's date is {today.day} {today:%B %Y}." in text
    changed = "The date is 3 November 2031 from the next message on. If the chat template prints it, the"
    assert f"{changed} conversation is prefilled again." in text
    assert "The session's date is already 3 November 2031." in text
    later = dated.ask("four", "-S", "days", "-n", "4")
    assert (None, True) == (later["miss_reason"], later["reused_tokens"] > 20)
    session = dated.run("show", "days", "--json").json()
    assert "2031-11-03" == session["date"]
    assert 0 == session["turns"][1]["reused_tokens"] and session["turns"][1]["miss_reason"]
    first_prompt, second_prompt, *_ = prompts(dated, "days")
    assert f"Today is {today:%d %B %Y}" == first_line(first_prompt)
    assert "Today is 03 November 2031" == first_line(second_prompt)
    aside = dated.run("show", "aside", "--json").json()
    assert ("2031-11-03", 3) == (aside["date"], len(aside["turns"]))
    assert aside["turns"][2]["reused_tokens"] > 20


@pytest.mark.slow
def test_a_date_set_before_the_first_message_is_the_sessions(dated: Program) -> None:
    script = "/date 2031-11-03\n/date\n/new days\none\n/new later\ntwo\n"
    result = dated.run("chat", "-n", "4", stdin=script)
    assert "The date is 3 November 2031 from the next message on.\n" in result.text
    assert "The session's date will be 3 November 2031." in result.text
    dates = [dated.run("show", name, "--json").json()["date"] for name in ("days", "later")]
    assert ["2031-11-03", datetime.date.today().isoformat()] == dates
    assert ["Today is 03 November 2031"] == [first_line(prompt) for prompt in prompts(dated, "days")]


@pytest.mark.slow
@pytest.mark.parametrize("date_text", ["yesterday", "2026-13-01", "20261121"])
def test_an_invalid_date_is_one_sentence(chatcli: Program, date_text: str) -> None:
    script = f"Hello\n/date {date_text}\n"
    result = chatcli.run("chat", "-S", "days", "-n", "2", "--no-think", stdin=script, expect=2)
    (sentence,) = result.errors.splitlines()
    assert sentence.startswith("chatcli: Usage: /date [today|YYYY-MM-DD]")
    session = chatcli.run("show", "days", "--json").json()
    assert datetime.date.today().isoformat() == session["date"]


@pytest.mark.slow
def test_the_date_can_be_set_back_to_today(dated: Program) -> None:
    dated.run("chat", "-S", "days", "-n", "4", stdin="/date 2031-11-03\none\n/date today\ntwo\n")
    today = datetime.date.today()
    assert today.isoformat() == dated.run("show", "days", "--json").json()["date"]
    assert ["Today is 03 November 2031", f"Today is {today:%d %B %Y}"] == [
        first_line(prompt) for prompt in prompts(dated, "days")
    ]


@pytest.mark.parametrize("command", [["--help"], ["list"], ["--version"]])
def test_light_commands_never_import_mlx(command: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; from chatcli.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {name.split('.')[0] for name in sys.modules} & {'mlx', 'mlx_lm', 'numpy', 'transformers'}\n"
        "print('HEAVY', sorted(heavy))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        env={"CHATCLI_SESSIONS": str(tmp_path), "PATH": "", "HOME": str(tmp_path)},
        check=False,
        cwd=ROOT,
    )
    assert "HEAVY []" == process.stdout.splitlines()[-1]
