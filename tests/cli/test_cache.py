"""`chatcli cache …` and `--cache-limit`, as scripts see them."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from chatcli.store import maintenance
from chatcli.store.segments import inventory
from tests.support.program import Program, folder_contents, segment_files

LINES = ("My dog is called Biscuit.", "I live in Lisbon.", "What is my dog's name?")
DAY = 24 * 3600.0


def talk(chatcli: Program, name: str = "talk") -> None:
    chatcli.chat(LINES, "-S", name, "-n", 6)


def age(chatcli: Program) -> None:
    for path in segment_files(chatcli.sessions):
        os.utime(path, (time.time() - DAY, time.time() - DAY))


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_stats_shows_what_is_used_of_how_much_and_the_states(chatcli: Program) -> None:
    talk(chatcli)
    report = chatcli.run("cache", "stats", "--json", "--cache-limit", "5GB").json()
    (model,) = report["models"]
    sizes = [path.stat().st_size for path in segment_files(chatcli.sessions)]
    states = [path for path in segment_files(chatcli.sessions) if ".state." in path.name]
    assert (sum(sizes), 5_000_000_000) == (report["bytes"], report["limit_bytes"])
    assert (len(states), report["segments"]) == (model["states"], model["segments"])
    shown = chatcli.run("cache", "stats").text
    headings, row, _ = shown.splitlines()
    names = re.split("  +", headings.strip())
    assert ["model", "fingerprint", "segments", "rows", "states"] == names
    assert re.search(rf"  \d+ files?, \S+ k?B  +{len(states)} files?, \S+ k?B\s*$", row)
    assert " of at most " in shown


@pytest.mark.slow
def test_stats_names_a_model_as_its_sessions_do_and_one_of_no_session_by_its_fingerprint(
    chatcli: Program,
) -> None:
    spoof = '{"model": "liar", "fingerprint": "' + "0" * 32 + '"}'
    chatcli.ask(spoof, "-S", "talk", "-n", 2)
    (model,) = chatcli.run("cache", "stats", "--json").json()["models"]
    assert str(chatcli.model) == model["model"]
    assert {model["fingerprint"]: model["model"]} == maintenance.model_names(chatcli.sessions)
    row = chatcli.run("cache", "stats").text.splitlines()[1].split()
    assert [chatcli.model.name, model["fingerprint"][:8]] == row[:2]
    (chatcli.sessions / "talk.jsonl").unlink()
    assert None is chatcli.run("cache", "stats", "--json").json()["models"][0]["model"]
    assert "in no session" in chatcli.run("cache", "stats").text


def test_stats_of_no_folder_is_nothing(chatcli: Program) -> None:
    assert [] == chatcli.run("cache", "stats", "--json").json()["models"]


@pytest.mark.slow
def test_a_dry_run_says_what_would_go_and_touches_nothing(chatcli: Program) -> None:
    talk(chatcli)
    before = folder_contents(chatcli.sessions)
    report = chatcli.run("cache", "gc", "--dry-run", "--json", "--cache-limit", "1kB").json()
    assert report["dry_run"] and report["removed"]
    assert report["freed_bytes"] == sum(removal["bytes"] for removal in report["removed"])
    assert before == folder_contents(chatcli.sessions)
    assert "would go" in chatcli.run("cache", "gc", "--dry-run", "--cache-limit", "1kB").text
    done = chatcli.run("cache", "gc", "--json", "--cache-limit", "1kB").json()
    assert report["removed"] == done["removed"]
    assert [] == [removal for removal in done["removed"] if Path(removal["file"]).exists()]


@pytest.mark.slow
def test_gc_leaves_what_a_session_names_and_takes_what_none_does(chatcli: Program) -> None:
    talk(chatcli)
    age(chatcli)
    assert [] == chatcli.run("cache", "gc", "--json").json()["removed"]
    (chatcli.sessions / "talk.jsonl").unlink()
    report = chatcli.run("cache", "gc", "--json").json()
    assert {"no session needs it"} == {removal["reason"] for removal in report["removed"]}
    assert [] == segment_files(chatcli.sessions)


@pytest.mark.slow
def test_gc_leaves_what_a_running_turn_may_just_have_written(chatcli: Program) -> None:
    talk(chatcli)
    (chatcli.sessions / "talk.jsonl").unlink()
    assert [] == chatcli.run("cache", "gc", "--json").json()["removed"]


@pytest.mark.slow
def test_an_evicted_session_reopens_as_before_and_says_what_it_cost(chatcli: Program) -> None:
    talk(chatcli)
    chatcli.run("cache", "gc", "--cache-limit", "1kB")
    cold = chatcli.ask("And now?", "-S", "talk", "-n", 6, "--no-cache")
    chatcli.run("branch", "talk", "--at", 3, "--as", "again")
    warm = chatcli.ask("And now?", "-S", "again", "-n", 6)
    assert (cold["tokens"], cold["logprobs"]) == (warm["tokens"], warm["logprobs"])
    assert warm["prompt_tokens"] == warm["prefilled_tokens"] + warm["reused_tokens"]
    assert warm["reused_tokens"] < 40
    assert "evicted" in warm["miss_reason"]


def test_a_chat_keeps_its_limit_and_says_once_when_it_is_full(chatcli: Program) -> None:
    done = chatcli.run(
        "chat", "-S", "talk", "-n", 6, "--cache-limit", "20kB", stdin="".join(f"{line}\n" for line in LINES)
    )
    assert 1 == done.errors.count("--cache-limit")
    assert inventory.total_bytes(chatcli.sessions) < 2 * 20_000


def test_verify_finds_damage_and_repair_sets_it_aside(chatcli: Program) -> None:
    talk(chatcli)
    path = segment_files(chatcli.sessions)[0]
    damage(path)
    report = chatcli.run("cache", "verify", "--json", expect=1).json()
    assert [str(path)] == [file["file"] for file in report["damaged"]]
    assert chatcli.run("cache", "verify", "--repair", "--json").json()["repaired"]
    assert not path.exists()
    assert [] == chatcli.run("cache", "verify", "--json").json()["damaged"]
    left = chatcli.run("cache", "gc", "--json").json()["removed"]
    assert ["damaged, and set aside"] == [removal["reason"] for removal in left]


@pytest.mark.slow
def test_a_folder_that_is_no_models_is_set_aside_for_good(chatcli: Program) -> None:
    talk(chatcli)
    odd = chatcli.sessions / "kv" / "odd"
    odd.mkdir()
    (odd / "x").write_text("x")
    chatcli.run("cache", "verify", expect=1)
    chatcli.run("cache", "verify", "--repair")
    chatcli.run("cache", "verify")
    chatcli.run("cache", "gc")
    assert [] == list(chatcli.sessions.glob("kv/odd*"))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--repair",)])
def test_verify_names_a_damaged_transcript_and_leaves_it(
    chatcli: Program, arguments: tuple[str, ...]
) -> None:
    talk(chatcli)
    path = chatcli.sessions / "talk.jsonl"
    path.write_bytes(path.read_bytes() + b"damage\n")
    before = path.read_bytes()
    assert "talk" in chatcli.run("cache", "verify", *arguments, expect=1).text
    assert before == path.read_bytes()


def test_clear_deletes_every_checkpoint_and_no_word(chatcli: Program) -> None:
    talk(chatcli)
    total = inventory.total_bytes(chatcli.sessions)
    assert {"freed_bytes": total} == chatcli.run("cache", "clear", "--json").json()
    assert ["talk.jsonl"] == list(folder_contents(chatcli.sessions))


@pytest.mark.slow
def test_a_file_in_the_caches_place_costs_only_the_cache(chatcli: Program) -> None:
    chatcli.sessions.mkdir(mode=0o700)
    (chatcli.sessions / "kv").write_text("in the way")
    assert 1 == chatcli.ask("Hello.", "-S", "talk", "-n", 4)["turn"]
    assert [] == chatcli.run("cache", "stats", "--json").json()["models"]


@pytest.mark.parametrize("size", ["much", "-1", "5 apples", ""])
def test_a_limit_that_is_no_size_is_refused(chatcli: Program, size: str) -> None:
    assert "--cache-limit" in chatcli.run("cache", "stats", f"--cache-limit={size}", expect=2).errors
