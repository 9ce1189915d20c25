"""`chatcli cache …` and `--cache-limit` on the command line."""

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
DAY_SECONDS = 24 * 3600.0


def write_conversation(chatcli: Program, name: str = "talk", *options: object) -> None:
    chatcli.chat(LINES, "-S", name, "-n", 6, *options)


def make_old(chatcli: Program) -> None:
    for path in segment_files(chatcli.sessions):
        os.utime(path, (time.time() - DAY_SECONDS, time.time() - DAY_SECONDS))


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.slow
def test_stats_shows_the_usage_the_limit_and_the_states(chatcli: Program) -> None:
    # On a slow machine a state may be written, and go when a later one is near.
    write_conversation(chatcli, "talk", "--recompute-seconds", 0)
    report = chatcli.run("cache", "stats", "--json", "--cache-limit", "5GB").json()
    (model,) = report["models"]
    sizes = [path.stat().st_size for path in segment_files(chatcli.sessions)]
    states = [path for path in segment_files(chatcli.sessions) if ".state." in path.name]
    assert (sum(sizes), 5_000_000_000) == (report["bytes"], report["limit_bytes"])
    assert (len(states), report["segments"]) == (model["states"], model["segments"])
    output = chatcli.run("cache", "stats").text
    headings, row, _, written = output.splitlines()
    names = re.split("  +", headings.strip())
    assert ["model", "fingerprint", "segments", "rows", "states"] == names
    assert re.search(rf"  \d+ files?, \S+ k?B  +{len(states)} files?, \S+ k?B\s*$", row)
    assert " of at most " in output
    # All that was written is there, the state at the end too.
    by_session, by_day = report["written"]["sessions"], report["written"]["days"]
    assert {"talk": sum(sizes)} == by_session
    assert [sum(sizes)] == list(by_day.values())
    assert "most by 'talk'" in written


@pytest.mark.slow
def test_stats_names_models_as_their_sessions_do_and_others_by_fingerprint(
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


def test_stats_of_a_missing_folder_is_empty(chatcli: Program) -> None:
    assert [] == chatcli.run("cache", "stats", "--json").json()["models"]


@pytest.mark.slow
def test_a_dry_run_lists_removals_and_changes_nothing(chatcli: Program) -> None:
    write_conversation(chatcli)
    old_contents = folder_contents(chatcli.sessions)
    report = chatcli.run("cache", "gc", "--dry-run", "--json", "--cache-limit", "1kB").json()
    assert report["dry_run"] and report["removed"]
    assert report["freed_bytes"] == sum(removal["bytes"] for removal in report["removed"])
    assert old_contents == folder_contents(chatcli.sessions)
    assert "would be freed" in chatcli.run("cache", "gc", "--dry-run", "--cache-limit", "1kB").text
    collected = chatcli.run("cache", "gc", "--json", "--cache-limit", "1kB").json()
    assert report["removed"] == collected["removed"]
    assert [] == [removal for removal in collected["removed"] if Path(removal["file"]).exists()]


@pytest.mark.slow
def test_gc_removes_only_what_no_session_names(chatcli: Program) -> None:
    write_conversation(chatcli)
    make_old(chatcli)
    assert [] == chatcli.run("cache", "gc", "--json").json()["removed"]
    (chatcli.sessions / "talk.jsonl").unlink()
    report = chatcli.run("cache", "gc", "--json").json()
    assert {"no session needs it"} == {removal["reason"] for removal in report["removed"]}
    assert [] == segment_files(chatcli.sessions)


@pytest.mark.slow
def test_gc_keeps_recent_files(chatcli: Program) -> None:
    write_conversation(chatcli)
    (chatcli.sessions / "talk.jsonl").unlink()
    assert [] == chatcli.run("cache", "gc", "--json").json()["removed"]


@pytest.mark.slow
def test_an_evicted_session_gives_the_same_reply_with_a_miss_reason(chatcli: Program) -> None:
    write_conversation(chatcli)
    chatcli.run("cache", "gc", "--cache-limit", "1kB")
    cold = chatcli.ask("And now?", "-S", "talk", "-n", 6, "--no-cache")
    chatcli.run("branch", "talk", "--at", 3, "--as", "again")
    warm = chatcli.ask("And now?", "-S", "again", "-n", 6)
    assert (cold["tokens"], cold["logprobs"]) == (warm["tokens"], warm["logprobs"])
    assert warm["prompt_tokens"] == warm["prefilled_tokens"] + warm["reused_tokens"]
    assert warm["reused_tokens"] < 40
    assert "evicted" in warm["miss_reason"]


@pytest.mark.slow
def test_a_chat_stays_below_its_limit_and_reports_once_when_full(chatcli: Program) -> None:
    result = chatcli.run(
        "chat", "-S", "talk", "-n", 6, "--cache-limit", "20kB", stdin="".join(f"{line}\n" for line in LINES)
    )
    assert 1 == result.errors.count("--cache-limit")
    assert inventory.total_bytes(chatcli.sessions) < 2 * 20_000


@pytest.mark.slow
def test_verify_finds_damage_and_repair_sets_it_aside(chatcli: Program) -> None:
    write_conversation(chatcli)
    path = segment_files(chatcli.sessions)[0]
    damage(path)
    report = chatcli.run("cache", "verify", "--json", expect=1).json()
    assert [str(path)] == [file["file"] for file in report["damaged"]]
    assert chatcli.run("cache", "verify", "--repair", "--json").json()["repaired"]
    assert not path.exists()
    assert [] == chatcli.run("cache", "verify", "--json").json()["damaged"]
    removed = chatcli.run("cache", "gc", "--json").json()["removed"]
    assert ["damaged, and set aside"] == [removal["reason"] for removal in removed]


@pytest.mark.slow
def test_what_chatcli_did_not_make_is_no_damage_and_stays(chatcli: Program) -> None:
    write_conversation(chatcli)
    kv = chatcli.sessions / "kv"
    foreign = [kv / "odd" / "x", segment_files(chatcli.sessions)[0].with_name("x.rows.safetensors")]
    foreign[0].parent.mkdir()
    for path in foreign:
        path.write_text("x")
    assert [] == chatcli.run("cache", "verify", "--repair", "--json").json()["damaged"]
    chatcli.run("cache", "gc")
    chatcli.run("cache", "clear", "-y")
    assert ["x", "x"] == [path.read_text() for path in foreign]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--repair",)])
def test_verify_reports_a_damaged_transcript_and_leaves_it(
    chatcli: Program, arguments: tuple[str, ...]
) -> None:
    write_conversation(chatcli)
    path = chatcli.sessions / "talk.jsonl"
    path.write_bytes(path.read_bytes() + b"damage\n")
    old_bytes = path.read_bytes()
    assert "talk" in chatcli.run("cache", "verify", *arguments, expect=1).text
    assert old_bytes == path.read_bytes()


@pytest.mark.slow
def test_clear_deletes_every_checkpoint_and_no_transcript(chatcli: Program) -> None:
    write_conversation(chatcli)
    total = inventory.total_bytes(chatcli.sessions)
    assert {"freed_bytes": total} == chatcli.run("cache", "clear", "-y", "--json").json()
    assert ["talk.jsonl"] == list(folder_contents(chatcli.sessions))


@pytest.mark.slow
def test_a_file_in_place_of_the_cache_folder_costs_only_the_cache(chatcli: Program) -> None:
    chatcli.sessions.mkdir(mode=0o700)
    (chatcli.sessions / "kv").write_text("in the way")
    assert 1 == chatcli.ask("Hello.", "-S", "talk", "-n", 4)["turn"]
    assert [] == chatcli.run("cache", "stats", "--json").json()["models"]


@pytest.mark.parametrize("size", ["much", "-1", "5 apples", ""])
def test_an_invalid_limit_is_refused(chatcli: Program, size: str) -> None:
    assert "--cache-limit" in chatcli.run("cache", "stats", f"--cache-limit={size}", expect=2).errors
