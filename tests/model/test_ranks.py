"""Several real processes that share a model: the same replies, and segments of each rank's shard."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Never

import pytest

from chatcli.errors import MemoryFull, ModelBroken
from chatcli.kv.memory_limit import Growth, MemoryLimit, TightestLimit, Window
from chatcli.model.ranks import EXPLANATION_SECONDS, Place, Ranks
from tests.support.families import at_night
from tests.support.harness import MESSAGES, SYSTEM, Harness
from tests.support.launch import PIPES, LaunchedRanks, free_ports, read_output, wait_for_all
from tests.support.program import DEADLINE, entries, segment_files
from tests.support.shell import PANEL, check_terminal_restored, ready
from tests.support.terminal import CTRL_D, ENTER, ESCAPE, Terminal, pasted
from tests.support.tiny import write_model
from tests.support.waiting import wait_until

TOKENS = 12
LINES = [" ".join(message.split()) for message in MESSAGES[:4]]
# Bias against the tokens that end a reply or begin its thinking.
ENDLESS = ("--logit-bias", "2:-100,3:-100", "--temp", "0", "--no-think")
GREEDY = ("--temp", "0", "-n", TOKENS, "-S", "talk", "-s", SYSTEM)


@pytest.fixture
def launched(models: Path, tmp_path: Path) -> LaunchedRanks:
    return LaunchedRanks(tmp_path, models / "qwen3")


def single_process(model: Path, folder: Path) -> list[Any]:
    """The JSON records of the conversation in one process."""
    with Harness(model, folder / "alone", tokens=TOKENS) as harness:
        chat = harness.chat("talk")
        return [harness.say(chat, line).as_json() for line in LINES]


def assert_same_reply(left: dict[str, Any], right: dict[str, Any], *, reused: bool = True) -> None:
    """Assert that two records have the same reply and, if `reused`, the same reuse."""
    keys = ["text", "thinking", "tokens", "finish_reason", "prompt_tokens"]
    # Not what was settled: ranks run the whole reply again, one process only what history spells otherwise.
    keys += ["reused_tokens", "prefilled_tokens"] if reused else []
    assert {key: left[key] for key in keys} == {key: right[key] for key in keys}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "args"),
    [("qwen3", ()), at_night("qwen3_5", ()), at_night("qwen3_5", ("--pipeline",))],
)
def test_two_ranks_reply_as_one_process_and_each_saves_its_shard(
    family: str, args: tuple[str, ...], models: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    # Enough layers that each rank of a pipeline has both kinds.
    write_model(model, family, num_hidden_layers=4)
    write_weight_index(model)
    expected = single_process(model, tmp_path)
    pair = LaunchedRanks(tmp_path, model, *args)
    # A recurrent state is on disk when its rows are.
    options = (*GREEDY, "--recompute-seconds", "0")
    chat = pair.start("chat", "--json", *options, stdin=subprocess.PIPE)
    before = [say(chat[0], LINES[0])]
    wait_until(lambda: all(pair.segment_names()) and len({*map(frozenset, pair.segment_names())}) == 1)
    assert 2 == len({path.name for rank in pair.ranks for path in rank.sessions.glob("kv/*")})
    kept = shutil.copytree(pair.ranks[1].sessions, tmp_path / "kept")
    before.append(say(chat[0], LINES[1]))
    assert [0, 0] == [result.code for result in wait_for_all(chat, "")]
    # Rank 1 has lost its last segments: only segments that both have are reused.
    shutil.rmtree(pair.ranks[1].sessions)
    shutil.copytree(kept, pair.ranks[1].sessions)
    after = pair.chat(LINES[2:], *options)
    for reply, single in zip([*before, *after], expected, strict=True):
        assert_same_reply(reply, single, reused=reply is not after[0])
    assert 0 < after[0]["reused_tokens"] < expected[2]["reused_tokens"]
    assert "evicted" in after[0]["miss_reason"]
    assert [] == [*pair.ranks[1].sessions.glob("*.jsonl")]


def say(process: subprocess.Popen[bytes], line: str) -> Any:
    """The record that a `chat --json` prints for a line."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def write_weight_index(model: Path) -> None:
    """Write the index of weights that mlx-lm needs for a pipeline."""
    header = (model / "model.safetensors").read_bytes()
    size = int.from_bytes(header[:8], "little")
    names = [name for name in json.loads(header[8 : 8 + size]) if name != "__metadata__"]
    index = {"weight_map": dict.fromkeys(names, "model.safetensors")}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.slow
def test_a_rank_killed_during_a_reply_ends_all_and_the_reply_is_saved(
    launched: LaunchedRanks,
) -> None:
    processes = launched.start("ask", "A long story.", "-S", "talk", *ENDLESS)
    output = read_output(processes[0], 100)
    processes[1].kill()
    first, _ = wait_for_all(processes)
    assert (1, RANK_GONE_MESSAGE) == (first.code, first.errors)
    lines = entries(launched.first.sessions / "talk.jsonl")
    user, reply = [line for line in lines if line["type"] in ("user", "assistant")]
    assert ("A long story.", "cancelled") == (user["content"], reply["finish_reason"])
    assert reply["content"].startswith(output.decode(errors="ignore")[:20])


RANK_GONE_MESSAGE = (
    "chatcli: Rank 1 is gone, and the model cannot run without it. "
    "The conversation is saved; start all ranks again to continue.\n"
)


@pytest.mark.parametrize(
    ("number", "code", "how"),
    [
        pytest.param(signal.SIGINT, 130, "cancelled", id="interrupted"),
        pytest.param(signal.SIGTERM, -signal.SIGTERM, None, id="terminated"),
    ],
)
@pytest.mark.slow
def test_a_signal_to_rank_0_stops_the_others_silently(
    number: int, code: int, how: str | None, launched: LaunchedRanks
) -> None:
    processes = launched.start("ask", LINES[1], "-S", "talk", *ENDLESS)
    read_output(processes[0], 100)
    processes[0].send_signal(number)
    first, second = wait_for_all(processes)
    assert (code, b"") == (first.code, first.err)
    assert (0, b"", b"") == (second.code, second.out, second.err)
    lines = entries(launched.first.sessions / "talk.jsonl")
    saved = [line for line in lines if line["type"] in ("user", "assistant")]
    assert [None, how][: len(saved)] == [entry.get("finish_reason") for entry in saved]
    if how is not None:
        (after,) = launched.chat(["And then?"], "-S", "talk", "-n", 5, "--no-think")
        assert 0 < after["reused_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3", "gpt_oss", "qwen3_5"])
def test_in_the_shell_replies_and_prefills_stop_and_typeahead_runs(
    family: str, models: Path, tmp_path: Path
) -> None:
    step = ("--prefill-step-size", 2)
    args = ["chat", "-m", models / family, "-S", "talk", *ENDLESS, *step]
    pair = LaunchedRanks(tmp_path, models / family)
    shell, follower = pair.environments()
    command = [sys.executable, "-m", "chatcli", *map(str, args)]
    with Terminal(command, shell, pair.first.home) as terminal:
        other = pair.ranks[1].start(*args, env=follower, **PIPES)
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(LINES[1])
        terminal.wait_for("tokens prepared")
        terminal.send(ENTER)
        terminal.wait_for(lambda: terminal.count(r"(?m)^  \S") > 4)
        terminal.send(ESCAPE)
        terminal.wait_for("(stopped: the text so far is kept")
        # A prefill of hundreds of chunks, which no machine ends before it is seen: those done are saved.
        terminal.wait_for(lambda: ready(terminal))
        long = " ".join(LINES[1:] * 20)
        terminal.send(pasted(long) + ENTER)
        terminal.wait_for("reading ")
        terminal.send(ESCAPE)
        terminal.wait_for(lambda: terminal.count("stopped") > 1)
        terminal.wait_for(lambda: ready(terminal))
        terminal.line("/branch other")
        terminal.wait_for(lambda: ready(terminal) and "other" in terminal.text())
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()
        assert (0, b"", b"") == ((done := wait_for_all([other])[0]).code, done.out, done.err)
    lines = entries(pair.first.sessions / "talk.jsonl")
    first = next(line for line in lines if line["type"] == "assistant")
    assert 0 < first["record"]["typeahead_tokens"]
    (after,) = pair.chat(["Go on."], "-S", "other", "-n", 4, "--no-think", *step)
    assert 0 < after["reused_tokens"]


@pytest.mark.slow
def test_ranks_reopened_for_every_message_reply_the_same_to_the_bit(models: Path, tmp_path: Path) -> None:
    options = ("--temp", "0.9", "--seed", 11, "-n", TOKENS, "-S", "talk")
    live = LaunchedRanks(tmp_path / "open", models / "qwen3_5").chat(LINES, *options)
    ranks = LaunchedRanks(tmp_path / "reopened", models / "qwen3_5")
    fresh = [ranks.chat([line], *options)[0] for line in LINES]
    keys = ("tokens", "logprobs", "reused_tokens", "prefilled_tokens")
    assert [[reply[key] for key in keys] for reply in live] == [
        [reply[key] for key in keys] for reply in fresh
    ]


@pytest.mark.slow
def test_ranks_sample_alike_without_a_seed_and_do_not_batch(
    launched: LaunchedRanks,
) -> None:
    script = "Hello\n/regenerate 2\n/regenerate\n/continue\n/branch\nBye\n"
    results = launched.run("chat", *("--temp", "1.0", "-n", 8, "-S", "talk"), stdin=script)
    assert "one by one" in results[0].errors + results[0].text
    lines = entries(launched.first.sessions / "talk.jsonl")[1:]
    replies = [entry for entry in lines if entry["type"] == "assistant"]
    assert 5 <= len(replies)
    assert 1 < len({reply["thinking"] + reply["content"] for reply in replies[:4]})


@pytest.mark.slow
def test_ranks_may_share_a_sessions_folder(
    launched: LaunchedRanks,
) -> None:
    folder = ("--sessions", launched.first.home / "both")
    first = launched.chat(LINES[:1], *GREEDY, *folder)
    again = launched.chat(LINES[1:2], *GREEDY, *folder)
    assert 0 < again[0]["reused_tokens"]
    marks = sorted(path.name for path in (launched.first.home / "both" / "kv").iterdir())
    assert 2 == len(marks)
    # A single process has another fingerprint: it reuses nothing of theirs, and replies the same.
    single = launched.first.chat(LINES[:1], *GREEDY[:-4], "-s", SYSTEM, "-S", "other", *folder)
    assert_same_reply(single[0], first[0])
    assert 3 == len([*(launched.first.home / "both" / "kv").iterdir()])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        pytest.param(("--pipeline",), "as a pipeline: leave out --pipeline", id="pipeline"),
        pytest.param(("--adapter-path", "."), "with an adapter: leave out", id="adapter"),
        pytest.param(("-m", "nowhere"), "There is no model folder 'nowhere'", id="nowhere"),
    ],
)
def test_a_model_that_cannot_be_shared_is_refused_in_one_sentence(
    args: tuple[str, ...], sentence: str, launched: LaunchedRanks
) -> None:
    processes = launched.start("ask", "Hello", *args)
    first, second = wait_for_all(processes)
    assert (1, b"") == (first.code, first.out)
    assert sentence in first.errors and 1 == first.errors.count("\n")
    assert (b"", b"") == (second.out, second.err)


@pytest.mark.slow
def test_a_rank_with_another_model_is_refused(tmp_path: Path) -> None:
    pair = LaunchedRanks(tmp_path, Path("~/model"))
    for program, seed in zip(pair.ranks, (7, 8), strict=True):
        write_model(program.home / "model", "qwen3", seed=seed)
    results = wait_for_all(pair.start("ask", "Hello"))
    assert 1 == results[0].code
    assert "of rank 1 differs from rank 0's" in results[0].errors


def launch_command() -> list[object]:
    """The start of a command line: mlx.launch with two local processes that run chatcli."""
    launch = [Path(sys.executable).with_name("mlx.launch"), "-n", "2", "--backend", "ring"]
    port = free_ports(1)[0]
    return [*launch, "--starting-port", port, "--", sys.executable, "-m", "chatcli"]


@pytest.mark.slow
def test_under_mlx_launch_only_rank_0_prints(launched: LaunchedRanks) -> None:
    model = ["-m", launched.first.model]

    def run(*args: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*map(str, [*launch_command(), *args])],
            env=launched.first.environment(),
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE,
        )

    reply = json.loads(run("ask", "Hello", "--json", "-n", 4, "-S", "talk", *model).stdout)
    assert 4 == len(reply["tokens"])
    assert 1 == run("list").stdout.count(b"talk")
    assert 1 == run("--version").stdout.count(b"chatcli")


def test_a_process_reads_its_place_from_the_launchers_environment(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.json"
    hosts.write_text('[["192.168.7.1:5000", "192.168.7.1:5001"], ["192.168.7.2:5000"]]')
    devices = tmp_path / "devices.json"
    devices.write_text('[[null, "rdma_en3"], ["rdma_en3", null]]')
    empty = tmp_path / "empty.json"
    empty.write_text("")
    ring = {"MLX_RANK": "1", "MLX_HOSTFILE": str(hosts)}
    assert Place(1, 2, "192.168.7.1") == Place.from_environment(ring)
    jaccl = {"MLX_RANK": "0", "MLX_IBV_DEVICES": str(devices)}
    jaccl["MLX_JACCL_COORDINATOR"] = "10.0.0.1:9000"
    assert Place(0, 2, "10.0.0.1") == Place.from_environment(jaccl)
    nccl = {"MLX_RANK": "3", "MLX_WORLD_SIZE": "4", "NCCL_HOST_IP": "10.0.0.2"}
    assert Place(3, 4, "10.0.0.2") == Place.from_environment(nccl)
    environments: list[dict[str, str]] = [
        {},
        {"MLX_RANK": "0", "MLX_HOSTFILE": str(empty)},
        {"MLX_RANK": "0"},
    ]
    assert [Place(0, 1, "")] * 3 == [Place.from_environment(environment) for environment in environments]


@pytest.mark.slow
def test_a_segment_damaged_at_one_rank_is_reused_by_none(launched: LaunchedRanks, models: Path) -> None:
    expected = single_process(models / "qwen3", launched.hosts.parent)
    launched.chat(LINES[:2], *GREEDY)
    for path in segment_files(launched.ranks[1].sessions):
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
    after = launched.chat(LINES[2:], *GREEDY)
    assert_same_reply(after[0], expected[2], reused=False)
    assert_same_reply(after[1], expected[3])
    assert "(rank 1)" in after[0]["miss_reason"]


@pytest.mark.slow
def test_a_stop_text_ends_a_reply_on_every_rank(launched: LaunchedRanks) -> None:
    whole = launched.chat(LINES[:2], *GREEDY)
    stop = whole[0]["text"][3:5]
    cut = launched.chat(LINES[:2], *GREEDY[:-4], "-S", "cut", "-s", SYSTEM, "--stop", stop)
    assert whole[0]["text"].partition(stop)[0] == cut[0]["text"]
    assert "stop" == cut[0]["finish_reason"]
    assert 0 < cut[1]["reused_tokens"]


@pytest.mark.slow
def test_a_rank_that_ends_between_turns_ends_the_shell(launched: LaunchedRanks) -> None:
    args = ["chat", "-m", launched.first.model, "-S", "talk", "-n", "4"]
    shell, follower = launched.environments()
    command = [sys.executable, "-m", "chatcli", *map(str, args)]
    with Terminal(command, shell, launched.first.home) as terminal:
        other = launched.ranks[1].start(*args, env=follower, **PIPES)
        terminal.wait_for(lambda: ready(terminal))
        terminal.line("Hello")
        terminal.wait_for(lambda: terminal.count(PANEL) > 0 and ready(terminal))
        other.kill()
        assert 1 == terminal.wait_for_exit()
        assert "Rank 1 is gone" in " ".join(terminal.all_text().split())
        check_terminal_restored(terminal)
    wait_for_all([other])


@pytest.mark.slow
def test_under_mlx_launch_a_terminal_chats_line_by_line(launched: LaunchedRanks) -> None:
    model = ["-m", launched.first.model, "-S", "talk", "-n", "4"]
    command = [*launch_command(), "chat", *model]
    with Terminal([*map(str, command)], launched.first.environment(), launched.first.home) as terminal:
        terminal.wait_for("type a message")
        for number, line in enumerate(["Hello", "And again?"], 1):
            terminal.line(line)
            terminal.wait_for(lambda number=number: terminal.count("prepared") == number)
        terminal.line("/quit")
        assert 0 == terminal.wait_for_exit()
    saved = entries(launched.first.sessions / "talk.jsonl")
    assert ["Hello", "And again?"] == [entry["content"] for entry in saved if entry["type"] == "user"]


def test_a_single_process_is_a_world_of_one_rank_that_opens_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> Never:
        raise AssertionError("a single process needs no socket and no broadcast")

    monkeypatch.setattr(socket, "socket", refuse)
    ranks = Ranks(Place.from_environment({}))
    began = time.perf_counter()
    ranks.meet(refuse)
    ranks.command("load", name="anything")
    ranks.send_stop(True)
    ranks.check_same("anything")
    assert ([7], 7) == (ranks.all_gather(7), ranks.all_min(7))
    with pytest.raises(ModelBroken, match="broken"), ranks.explained():
        raise ModelBroken("broken")
    ranks.close()
    assert time.perf_counter() - began < EXPLANATION_SECONDS
    assert (0, 1, True, None) == (ranks.rank, ranks.size, ranks.leads, ranks.lost)


def test_of_several_machines_the_smallest_memory_limit_decides() -> None:
    wide = MemoryLimit(1 << 30, 1000, Growth(0, 100, (Window(10, 32),), 8))
    narrow = MemoryLimit(9000, 1000, Growth(50, 100))
    sent = [MemoryLimit.from_dict(json.loads(json.dumps(asdict(limit)))) for limit in (wide, narrow)]
    assert [wide, narrow] == sent
    both = TightestLimit(tuple(sent))
    assert narrow.max_tokens(4096) == both.max_tokens(4096) < wide.max_tokens(4096)
    fitting = both.max_tokens(4096) - 1
    both.check(fitting)
    with pytest.raises(MemoryFull, match="9,000"):
        both.check(fitting + 1)


def test_a_stranger_who_connects_and_says_nothing_keeps_no_rank_waiting() -> None:
    addresses: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    leader, other = (Ranks(Place(rank, 2, "127.0.0.1")) for rank in range(2))

    def announce(data: bytes) -> bytes:
        addresses.put(data)
        return data

    leading = threading.Thread(target=leader.meet, args=(announce,), daemon=True)
    leading.start()
    address = addresses.get(timeout=DEADLINE)
    host, port, _ = json.loads(address)
    with socket.create_connection((host, port)):
        meeting = threading.Thread(target=other.meet, args=(lambda data: address,), daemon=True)
        meeting.start()
        for thread in (meeting, leading):
            thread.join(timeout=10)
            assert not thread.is_alive()
    other.leave()
    leader.leave()
