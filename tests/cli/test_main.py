"""The command line as scripts use it: real processes, real files, tiny real models."""

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
from tests import ROOT
from tests.support.program import ASK_FIELDS, Program, folder_contents, segment_files
from tests.support.rendered import generation_prompt, rendered_message, token_count, tokenizer_of
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
    """A history as the tiny templates show it."""
    pairs = zip(messages, turns, strict=True)
    return "".join(
        rendered_message("user", message) + rendered_message("assistant", turn["text"])
        for message, turn in pairs
    )


def on_disk(sessions: Path) -> int:
    return sum(path.stat().st_size for path in segment_files(sessions))


@dataclass
class Runs:
    """One conversation three times: a process a turn, one open process, one without a cache."""

    program: Program
    apart: list[dict[str, Any]]
    grown: list[int]
    together: list[dict[str, Any]]
    cold: list[dict[str, Any]]
    cold_sessions: Path


def three_ways(program: Program) -> Runs:
    apart, grown = [], []
    for message in MESSAGES:
        before = on_disk(program.sessions)
        apart.append(program.ask(message, "-S", "talk", "-n", "24"))
        grown.append(on_disk(program.sessions) - before)
    open_folder, cold_folder = program.home / "open", program.home / "cold"
    together = program.chat(MESSAGES, "-S", "talk", "-n", "24", "--sessions", open_folder)
    cold = program.chat(MESSAGES, "-S", "talk", "-n", "24", "--no-cache", "--sessions", cold_folder)
    return Runs(program, apart, grown, together, cold, cold_folder)


# The others go through the same in one process, in test_turn.py.
@pytest.mark.parametrize("family", ["qwen3_5"])
def test_separate_processes_answer_exactly_as_one_that_stays_open_and_as_one_without_cache(
    models: Path, tmp_path: Path, family: str
) -> None:
    runs = three_ways(Program(tmp_path, models / family))
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


def check_that_only_the_new_message_is_prefilled(runs: Runs) -> None:
    model = runs.program.model
    assert 0 == runs.apart[0]["reused_tokens"]
    for number in range(1, len(MESSAGES)):
        turn = runs.apart[number]
        history = rendered(runs.apart[:number], MESSAGES[:number])
        new = token_count(rendered_message("user", MESSAGES[number]) + generation_prompt(model), model)
        assert turn["reused_tokens"] >= token_count(history, model)
        assert turn["prefilled_tokens"] <= new
        assert turn["miss_reason"] is None


def check_that_every_field_is_true(runs: Runs) -> None:
    model = runs.program.model
    opening = generation_prompt(model)
    for number, turn in enumerate(runs.apart, start=1):
        assert turn.keys() >= ASK_FIELDS
        assert ("talk", number) == (turn["session"], turn["turn"])
        prompt = rendered(runs.apart[: number - 1], MESSAGES[: number - 1])
        prompt += rendered_message("user", MESSAGES[number - 1]) + opening
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
    # Settling went on from the turn's stable prefix, which ends somewhere in the generation
    # prompt (where thinking and plain replies part), to what the next turn reuses.
    for turn, following in pairwise(runs.apart):
        beyond = following["reused_tokens"] - turn["prompt_tokens"]
        assert beyond < turn["settled_tokens"] <= beyond + token_count(opening, model)


@pytest.mark.slow
def test_generated_tokens_decode_to_the_thinking_and_the_text(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, models / "speaker")
    for seed in range(1, 5):
        turn = program.ask("Hello", "-S", f"s{seed}", "-n", "12", "--temp", "1", "--seed", seed)
        decoded = tokenizer_of(program.model).decode(turn["tokens"])
        thought, closed, reply = decoded.partition("</think>")
        reply = reply.replace("</think>", "").removesuffix("<|im_end|>")
        assert (thought.strip("\n"), reply.strip("\n")) == (turn["thinking"], turn["text"])
        if closed and thought and reply:
            break
    else:
        pytest.fail("no seed gave both thinking and a reply")
    plain = program.run("ask", "Hello", "-n", "12", "--temp", "1", "--seed", seed)
    # Unprintable characters are shown as signs, so only the printable ones are compared.
    assert visible(turn["text"]) == visible(plain.text)
    assert visible(turn["thinking"]) == visible(plain.errors)


def visible(text: str) -> str:
    return "".join(char for char in text if char.isascii() and char.isprintable())


def test_no_cache_neither_reads_nor_writes(chatcli: Program) -> None:
    chatcli.ask("Hello there", "-S", "talk", "-n", "4")
    before = {path: path.stat().st_mtime_ns for path in segment_files(chatcli.sessions)}
    assert before
    turn = chatcli.ask("Again", "-S", "talk", "-n", "4", "--no-cache")
    assert (2, 0, 0) == (turn["turn"], turn["reused_tokens"], turn["checkpoint_bytes"])
    after = {path: path.stat().st_mtime_ns for path in segment_files(chatcli.sessions)}
    assert before == after


@pytest.mark.slow
def test_two_sessions_share_a_long_system_prompt(chatcli: Program) -> None:
    first = chatcli.ask("Hello", "-S", "first", "-s", SYSTEM, "-n", "4")
    second = chatcli.ask("Good morning", "-S", "second", "-s", SYSTEM, "-n", "4")
    assert 0 == first["reused_tokens"]
    assert second["reused_tokens"] >= token_count(rendered_message("system", SYSTEM), chatcli.model)
    assert second["prefilled_tokens"] < 40


@pytest.fixture(scope="module")
def long_talk(models: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, list[Any]]:
    """Ten turns of messages that are equally long, with replies."""
    program = Program(tmp_path_factory.mktemp("long"), models / "qwen3_5")
    lines = [f"Remember the number {number}." for number in range(10)]
    turns = program.chat(lines, "-S", "long", "--no-think", "-n", "16")
    return program, turns


def test_bytes_written_per_turn_follow_the_new_tokens(
    long_talk: tuple[Program, list[Any]],
) -> None:
    program, turns = long_talk
    states = [path.stat().st_size for path in program.sessions.glob("kv/*/??/*.state.safetensors")]
    assert max(states) - min(states) < 64  # one state is one state, however long the talk
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
    places = (1, 2, 5, 9)
    for place in places:
        branched = program.run("branch", "long", "--at", place, "--as", f"b{place}", "--json").json()
        assert (f"b{place}", place) == (branched["session"], branched["turns"])
    script = [line for place in places for line in (f"/resume b{place}", "Remember the number x.")]
    branched = program.chat(script, "--no-think", "-n", "16")
    got = [(turn["session"], turn["turn"], turn["reused_tokens"]) for turn in branched]
    assert [(f"b{n}", n + 1, turns[n]["reused_tokens"]) for n in places] == got
    for turn in branched:
        assert turn["prefilled_tokens"] < 40
        assert turn["miss_reason"] is None
    assert original == (program.sessions / "long.jsonl").read_bytes()
    whole = program.run("branch", "long").text
    assert "turn 10" in whole


def test_ask_at_a_turn_makes_a_sibling_and_keeps_the_old_path(chatcli: Program) -> None:
    lines = ["one apple", "two pears", "three plums"]
    turns = chatcli.chat(lines, "-S", "fruit", "-n", "4", "--no-think")
    turn = chatcli.ask("two figs", "-S", "fruit", "--at", "1", "-n", "4", "--no-think")
    assert 2 == turn["turn"]
    assert turns[1]["reused_tokens"] == turn["reused_tokens"]
    shown = chatcli.run("show", "fruit", "--json").json()
    assert ["one apple", "two figs"] == [turn["user"] for turn in shown["turns"]]
    tree = chatcli.run("tree", "fruit", "--json").json()["entries"]
    users = {entry["content"]: entry for entry in tree if entry["role"] == "user"}
    assert {"one apple", "two pears", "three plums", "two figs"} == users.keys()
    assert users["two pears"]["parent"] == users["two figs"]["parent"]
    drawn = chatcli.run("tree", "fruit").text
    assert all(message in drawn for message in users)
    plain = chatcli.run("show", "fruit").text
    assert "two figs" in plain and "two pears" not in plain
    changed = chatcli.ask("four", "-S", "fruit", "-n", "4", "--no-think", "-s", "Be kind.")
    assert 0 == changed["reused_tokens"]
    assert "system prompt" in changed["miss_reason"]


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
    assert name in chatcli.run("list").text
    shown = chatcli.run("show", name, "--json").json()
    assert (name, "Be kind.") == (shown["session"], shown["system"])
    for message, turn, kept in zip(["Hello there", "How are you?"], turns, shown["turns"], strict=True):
        assert message == kept["user"]
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
            assert turn[key] == kept[key], key
    plain = chatcli.run("show", name).text
    assert "Hello there" in plain and "How are you?" in plain
    chatcli.run("rename", name, "greeting")
    assert ["greeting"] == [session["name"] for session in chatcli.run("list", "--json").json()]
    assert shown["turns"] == chatcli.run("show", "greeting", "--json").json()["turns"]
    used = on_disk(chatcli.sessions)
    stats = chatcli.run("cache", "stats", "--json").json()
    assert (used, 1) == (stats["bytes"], len(stats["models"]))
    rows = [path for path in segment_files(chatcli.sessions) if ".rows." in path.name]
    assert len(rows) == stats["segments"]
    assert stats["models"][0]["fingerprint"][:8] in chatcli.run("cache", "stats").text
    chatcli.run("delete", "greeting", "--yes")
    assert [] == chatcli.run("list", "--json").json()
    assert [] == segment_files(chatcli.sessions)


@pytest.mark.slow
def test_clearing_the_cache_costs_time_and_no_answer(chatcli: Program) -> None:
    turns = chatcli.chat(["Hello there", "How are you?"], "-S", "kept", "-n", "8")
    twin = chatcli.home / "twin"
    shutil.copytree(chatcli.sessions, twin)
    used = on_disk(chatcli.sessions)
    assert used == chatcli.run("cache", "clear", "--json").json()["freed_bytes"]
    assert [] == segment_files(chatcli.sessions)
    assert "0" in chatcli.run("cache", "clear").text
    assert "No checkpoints" in chatcli.run("cache", "stats").text
    cold = chatcli.ask("And now?", "-S", "kept", "-n", "8")
    warm = chatcli.ask("And now?", "-S", "kept", "-n", "8", "--sessions", twin)
    assert 0 == cold["reused_tokens"] < turns[-1]["prompt_tokens"] <= warm["reused_tokens"] + 12
    assert (warm["tokens"], warm["logprobs"]) == (cold["tokens"], cold["logprobs"])
    assert cold["miss_reason"]
    assert warm["miss_reason"] is None


@pytest.mark.slow
def test_continue_takes_the_most_recent_and_folders_are_found_in_order(chatcli: Program) -> None:
    script = ["/new older", "first of the older", "/new newer", "first of the newer"]
    script += ["/resume older", "second of the older"]
    turns = chatcli.chat(script, "-n", "2")
    assert [("older", 1), ("newer", 1), ("older", 2)] == [(t["session"], t["turn"]) for t in turns]
    turn = chatcli.ask("more", "-c", "-n", "2")
    assert ("older", 3) == (turn["session"], turn["turn"])
    # --sessions beats CHATCLI_SESSIONS, which beats ./sessions, which beats the data folder.
    elsewhere, here = chatcli.home / "elsewhere", chatcli.home / "sessions"
    for folder, name in ((elsewhere, "given"), (here, "local")):
        shutil.copytree(chatcli.sessions, folder)
        (folder / "older.jsonl").rename(folder / f"{name}.jsonl")
    unset = chatcli.environment(CHATCLI_SESSIONS=None)

    def names(*args: object, **more: Any) -> set[str]:
        return {session["name"] for session in chatcli.run("list", "--json", *args, **more).json()}

    assert {"given", "newer"} == names("--sessions", elsewhere)
    assert {"older", "newer"} == names()
    assert {"local", "newer"} == names(env=unset)
    here.rename(chatcli.home / "gone")
    assert set() == names(env=unset)


@pytest.mark.slow
def test_a_seed_repeats_and_settings_are_heard(chatcli: Program) -> None:
    sampled = ("--temp", "1.5", "-n", "24", "--think", "--seed")
    first = chatcli.ask("Hello", "-S", "a", *sampled, 5)
    again = chatcli.ask("Hello", "-S", "b", *sampled, 5)
    other = chatcli.ask("Hello", "-S", "c", *sampled, 6)
    off = chatcli.ask("Hello", "-S", "d", "--no-think", "-n", "3")
    assert (first["tokens"], first["logprobs"]) == (again["tokens"], again["logprobs"])
    assert first["tokens"] != other["tokens"]
    prompt = rendered_message("user", "Hello") + "<|im_start|>assistant\n<think>\n"
    assert token_count(prompt, chatcli.model) == first["prompt_tokens"]
    assert token_count(prompt + "\n</think>\n\n", chatcli.model) == off["prompt_tokens"]
    assert ("length", 3) == (off["finish_reason"], len(off["tokens"]))
    assert "" == off["thinking"] and "" != off["text"]
    assert "" != first["thinking"]


def test_standard_input_is_appended_to_the_prompt(chatcli: Program) -> None:
    chatcli.ask("Read this:", "-S", "both", "-n", "2", stdin="a line\nanother ünï\n")
    chatcli.run("ask", "-S", "both", "-n", "2", stdin="only from the pipe\n")
    shown = chatcli.run("show", "both", "--json").json()
    assert ["Read this:\n\na line\nanother ünï", "only from the pipe"] == [
        turn["user"] for turn in shown["turns"]
    ]


def test_chat_runs_a_script_from_a_pipe(chatcli: Program) -> None:
    script = "hello\n\n/rename piped\n/home/me is a path\n/tree\n/stats\n/quit\nnever sent\n"
    done = chatcli.run("chat", "-n", "6", "--no-think", stdin=script)
    shown = chatcli.run("show", "piped", "--json").json()
    assert ["hello", "/home/me is a path"] == [turn["user"] for turn in shown["turns"]]
    assert "never sent" not in done.text
    assert f"{shown['turns'][1]['hit_ratio']:.1%}" in done.text  # from /stats
    assert "/home/me is a path" in done.text  # from /tree
    assert "" == done.errors


def test_the_installed_command_begins_where_python_m_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = EntryPoint("chatcli", project["scripts"]["chatcli"], "console_scripts")
    assert chatcli_main is entry.load()


def test_help_and_list_import_no_mlx(chatcli: Program) -> None:
    for args in (["--help"], ["list"], ["ask", "--help"], ["tree", "none"]):
        command = [sys.executable, "-X", "importtime", "-m", "chatcli", *args]
        done = subprocess.run(command, env=chatcli.environment(), capture_output=True, text=True)
        imported = {
            line.rpartition("|")[2].strip().split(".")[0]
            for line in done.stderr.splitlines()
            if line.startswith("import time:")
        }
        assert "chatcli" in imported
        assert set() == imported & {"mlx", "mlx_lm", "transformers", "torch"}


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
    """What each turn's newest checkpoint was made of, as text."""
    texts = []
    for turn in program.run("show", name, "--json").json()["turns"]:
        folder = catalog.model_folder(program.sessions, turn["fingerprint"])
        texts.append(tokenizer_of(program.model).decode(catalog.tokens_of(folder, turn["segments"])))
    return texts


def first_line(text: str) -> str:
    return text.split("<|im_end|>")[0].removeprefix("<|im_start|>system\n")


@pytest.mark.slow
def test_a_date_that_is_set_reaches_the_model_and_stays(dated: Program) -> None:
    script = "one\n/date\n/date 2031-11-03\n/date 2031-11-03\ntwo\n/branch 2 aside\nthree\n"
    text = " ".join(dated.run("chat", "-S", "days", "-n", "4", stdin=script).text.split())
    today = datetime.date.today()
    assert f"The session's date is {today.day} {today:%B %Y}." in text
    assert "told 3 November 2031 from the next message on; the next turn starts from" in text
    assert "The session's date is 3 November 2031 already." in text
    later = dated.ask("four", "-S", "days", "-n", "4")
    assert (None, True) == (later["miss_reason"], later["reused_tokens"] > 20)
    shown = dated.run("show", "days", "--json").json()
    assert "2031-11-03" == shown["date"]
    assert 0 == shown["turns"][1]["reused_tokens"] and shown["turns"][1]["miss_reason"]
    before, after, *_ = prompts(dated, "days")
    assert f"Today is {today:%d %B %Y}" == first_line(before)
    assert "Today is 03 November 2031" == first_line(after)
    assert "dated 3 November 2031" in dated.run("show", "days").text
    aside = dated.run("show", "aside", "--json").json()
    assert ("2031-11-03", 3) == (aside["date"], len(aside["turns"]))
    assert aside["turns"][2]["reused_tokens"] > 20


@pytest.mark.slow
def test_a_date_that_is_set_before_the_first_message_begins_the_session(dated: Program) -> None:
    script = "/date 2031-11-03\n/date\n/new days\none\n/new later\ntwo\n"
    done = dated.run("chat", "-n", "4", stdin=script)
    assert "told 3 November 2031 from the next message on." in done.text
    assert "The session's date will be 3 November 2031." in done.text
    dates = [dated.run("show", name, "--json").json()["date"] for name in ("days", "later")]
    assert ["2031-11-03", datetime.date.today().isoformat()] == dates
    assert ["Today is 03 November 2031"] == [first_line(prompt) for prompt in prompts(dated, "days")]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["yesterday", "2026-13-01", "20261121"])
def test_a_word_that_is_no_date_is_one_clear_sentence(chatcli: Program, word: str) -> None:
    script = f"Hello\n/date {word}\n"
    done = chatcli.run("chat", "-S", "days", "-n", "2", "--no-think", stdin=script, expect=2)
    (sentence,) = done.errors.splitlines()
    assert sentence.startswith(f"chatcli: '{word}' is not a date: say /date today")
    shown = chatcli.run("show", "days", "--json").json()
    assert datetime.date.today().isoformat() == shown["date"]


@pytest.mark.slow
def test_the_date_of_today_can_be_set_again(dated: Program) -> None:
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
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        env={"CHATCLI_SESSIONS": str(tmp_path), "PATH": "", "HOME": str(tmp_path)},
        check=False,
        cwd=ROOT,
    )
    assert "HEAVY []" == done.stdout.splitlines()[-1]
