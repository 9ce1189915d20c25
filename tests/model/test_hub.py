"""Models from the hub: brought here with progress, cut off and gone on with, refused in one sentence."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mlx_lm.utils
import pytest

from chatcli.events import Download
from chatcli.model.hub import FILE_PATTERNS
from tests import ROOT
from tests.support.hub_server import COMMIT, Hub, serving, sha256
from tests.support.program import Program
from tests.support.tiny import write_model
from tests.support.waiting import wait_until

NAME = "org/model"
SIZE = 4 << 20
PATIENCE = 20.0
# Finds a model as `-m` does, and prints what it is told and what comes of it.
FIND = """
import sys
from chatcli.model import hub
from chatcli.errors import ChatcliError
def told(download):
    print(download.done, download.total, download.files, download.rate, flush=True)
try:
    print("folder", hub.find(sys.argv[1], told))
except ChatcliError as error:
    sys.exit(str(error))
"""
STOPPED = """
import sys, time
from chatcli.model import hub
def told(download):
    if download.done > 2 << 20:
        raise KeyboardInterrupt
try:
    hub.find(sys.argv[1], told)
except KeyboardInterrupt:
    print("stopped", flush=True)
    time.sleep(30)
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """What looks like a model of two weight files; only its bytes matter."""
    folder = tmp_path / "repo"
    folder.mkdir()
    source = random.Random(5)
    index = {}
    for number in (1, 2):
        file = f"model-0000{number}-of-00002.safetensors"
        (folder / file).write_bytes(source.randbytes(SIZE))
        index[f"weight{number}"] = file
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text('{"not": "small"}')
    (folder / "picture.png").write_bytes(bytes(1000))
    return folder


@pytest.fixture
def hub(repo: Path) -> Iterator[Hub]:
    with serving(repos={NAME: repo}) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def start(hub: Hub, home: Path, name: str = NAME, code: str = FIND, **more: str) -> subprocess.Popen[str]:
    path = {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=hub.environment(home, **path, **more),
        cwd=home,
    )


def find(hub: Hub, home: Path, name: str = NAME, **more: str) -> tuple[list[str], str]:
    """What was told of finding a model, and the error."""
    out, err = start(hub, home, name, **more).communicate(timeout=PATIENCE)
    return out.splitlines(), err.strip()


def parts(home: Path) -> dict[str, int]:
    """The files that are not whole yet, and their bytes."""
    return {path.name: path.stat().st_size for path in home.glob("hf/hub/*/blobs/*.incomplete")}


# A download


def test_a_download_brings_what_mlx_lm_reads_and_the_next_time_asks_nobody(
    hub: Hub, home: Path, repo: Path
) -> None:
    out, err = find(hub, home)
    folder = Path(out[-1].removeprefix("folder "))
    assert "" == err and COMMIT == folder.name
    wanted = {path.name: path.read_bytes() for path in repo.iterdir() if path.suffix != ".png"}
    assert wanted == {path.name: path.read_bytes() for path in folder.iterdir()}
    asked = len(hub.requests)
    assert ([f"folder {folder}"], "") == find(hub, home)
    assert ([f"folder {folder}"], "") == find(hub, home, HF_HUB_OFFLINE="1")
    assert asked == len(hub.requests)


@pytest.mark.slow
def test_what_is_told_grows_to_the_whole_with_a_rate(hub: Hub, home: Path, repo: Path) -> None:
    hub.delay = 0.03
    out, _ = find(hub, home)
    told = [line.split() for line in out[:-1]]
    done = [int(line[0]) for line in told]
    whole = sum(path.stat().st_size for path in repo.iterdir() if path.suffix != ".png")
    assert sorted(done) == done and len(set(done)) > 4 and done[-1] > 2 * SIZE - 1
    assert {(str(whole), "3")} == {(line[1], line[2]) for line in told if line[1] != "0"}
    rates = [float(line[3]) for line in told if line[3] != "None"]
    assert rates and all(1e6 < rate < 8e6 for rate in rates[2:])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (Download(1_200_000_000, 4_300_000_000, 2, 12e6), "1.2 GB of 4.3 GB, 12 MB/s, 4 min left"),
        (Download(10, 1_000_000, 1, 50_000.0), "10 B of 1.0 MB, 50 kB/s, 20 s left"),
        (Download(0, 80_000_000_000, 1, 3e6), "0 B of 80 GB, 3.0 MB/s, 7 h left"),
        (Download(5, 10, 1, 0.0), "5 B of 10 B, 0 B/s"),
        (Download(5, 10), "5 B of 10 B"),
        (Download(0, 0), "asking the hub"),
        (Download(10, 10, 1, 5.0), "10 B of 10 B"),
    ],
)
def test_a_download_reads_well(told: Download, expected: str) -> None:
    assert expected == str(told)


def test_the_files_that_are_fetched_are_mlx_lms_own() -> None:
    assert mlx_lm.utils.DEFAULT_ALLOW_PATTERNS == FILE_PATTERNS


# Cut off, and gone on with


def test_a_killed_download_goes_on_from_the_byte_where_it_was(hub: Hub, home: Path, repo: Path) -> None:
    hub.delay = 0.02
    process = start(hub, home)
    wait_until(lambda: sum(parts(home).values()) > SIZE)
    process.kill()
    process.communicate()
    # Nobody goes on downloading.
    wait_until(lambda: not downloading(home))
    kept = parts(home)
    assert 2 == len(kept) and all(0 < size < SIZE for size in kept.values())
    _, offline = find(hub, home, HF_HUB_OFFLINE="1")
    assert f"'{NAME}' is not whole on this machine and HF_HUB_OFFLINE is set" in offline
    assert kept == parts(home)
    hub.requests.clear()
    hub.delay = 0.0
    out, err = find(hub, home)
    first = next(line.split() for line in out if line.split()[1] != "0")
    assert "" == err and sum(kept.values()) + len('{"not": "small"}') == int(first[0])
    again = hub.sent(".safetensors")
    assert sorted(kept.values()) == sorted(one.start for one in again)
    assert 2 * SIZE - sum(kept.values()) == sum(one.sent for one in again)
    folder = Path(out[-1].removeprefix("folder "))
    for path in repo.glob("*.safetensors"):
        assert path.read_bytes() == (folder / path.name).read_bytes()
    assert {} == parts(home)


def downloading(home: Path) -> list[str]:
    """The processes that were given this home."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HOME={home}\0".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            pass
    return found


@pytest.mark.slow
def test_what_the_listener_raises_ends_the_download_at_once(hub: Hub, home: Path) -> None:
    hub.delay = 0.02
    process = start(hub, home, code=STOPPED)
    assert process.stdout is not None
    assert "stopped\n" == process.stdout.readline()
    time.sleep(0.2)
    sent = [one.sent for one in hub.requests]
    time.sleep(0.3)
    assert sent == [one.sent for one in hub.requests]
    assert all(size < SIZE for size in parts(home).values())
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_part_longer_than_its_file_begins_again(hub: Hub, home: Path, repo: Path) -> None:
    blobs = home / "hf" / "hub" / f"models--{NAME.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True)
    whole = repo / "model-00001-of-00002.safetensors"
    (blobs / f"{sha256(whole)}.incomplete").write_bytes(bytes(SIZE + 1))
    out, _ = find(hub, home)
    folder = Path(out[-1].removeprefix("folder "))
    assert whole.read_bytes() == (folder / whole.name).read_bytes()


@pytest.mark.slow
def test_damaged_bytes_are_found_and_thrown_away(hub: Hub, home: Path) -> None:
    hub.damaged = "1-of-00002.safetensors"
    _, err = find(hub, home)
    assert "came damaged: try again." in err
    hub.damaged = "nothing"
    out, err = find(hub, home)
    assert "" == err and out[-1].startswith("folder ")


@pytest.mark.slow
def test_two_at_once_download_each_file_once(hub: Hub, home: Path) -> None:
    hub.delay = 0.01
    both = [start(hub, home) for _ in range(2)]
    told = [process.communicate(timeout=PATIENCE)[0].splitlines()[-1] for process in both]
    assert told[0] == told[1]
    assert 2 * SIZE == sum(one.sent for one in hub.sent(".safetensors"))


# What is refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (
            (401, "RepoNotFound"),
            "The hub has no model 'org/model' that you may see: check the name;",
        ),
        ((403, ""), "The hub does not let you have 'org/model' (403): log in with: hf auth login"),
        ((503, ""), "The hub answered 503 when asked for 'org/model': try again later."),
    ],
)
def test_a_refusal_is_one_sentence(hub: Hub, home: Path, refusal: tuple[int, str], expected: str) -> None:
    hub.refusals[NAME] = refusal
    _, err = find(hub, home)
    assert err.startswith(expected) and "\n" not in err


def test_a_gated_model_says_where_its_terms_are(hub: Hub, home: Path) -> None:
    hub.gated.add(NAME)
    _, err = find(hub, home)
    assert err.startswith(f"'{NAME}' is gated: accept its terms at {hub.url}/{NAME}, then log in")


def test_a_repository_without_a_model_is_refused_before_anything_comes(
    hub: Hub, home: Path, repo: Path
) -> None:
    (repo / "config.json").unlink()
    _, err = find(hub, home)
    assert "holds no model that MLX can load" in err
    assert [] == hub.sent(".safetensors")


def test_offline_says_so_within_seconds(hub: Hub, home: Path) -> None:
    began = time.monotonic()
    _, err = find(hub, home, HF_HUB_OFFLINE="1")
    assert time.monotonic() - began < 5
    assert f"'{NAME}' is not on this machine and HF_HUB_OFFLINE is set: unset it" in err
    assert [] == hub.requests


def test_a_hub_that_is_not_there_is_told_within_seconds(hub: Hub, home: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        began = time.monotonic()
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        _, err = find(hub, home, HF_ENDPOINT=url)
    assert time.monotonic() - began < 5
    assert f"'{NAME}' is not on this machine, and the hub cannot be reached" in err
    assert "ask for the model again, which downloads it" in err and "chatcli models" in err


@pytest.mark.slow
def test_a_hub_that_never_answers_is_given_up(hub: Hub, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        _, err = find(hub, home, HF_ENDPOINT=url, HF_HUB_ETAG_TIMEOUT="1")
    assert time.monotonic() - began < 8
    assert "the hub cannot be reached" in err and "Timeout" in err


# The whole program


@pytest.fixture
def program(tmp_path: Path, hub: Hub) -> tuple[Program, dict[str, str]]:
    """The program with a real tiny model on the hub."""
    hub.repos[NAME] = write_model(tmp_path / "tiny", "qwen3", intermediate_size=4_000)
    made = Program(tmp_path / "user", Path(NAME))
    return made, made.environment(**hub.settings(made.home))


@pytest.mark.slow
def test_ctrl_c_ends_ask_while_its_model_comes(program: tuple[Program, dict[str, str]], hub: Hub) -> None:
    chatcli, environment = program
    hub.delay = 0.2
    process = chatcli.start("ask", "Hello.", "-n", 2, env=environment, stderr=subprocess.PIPE)
    wait_until(lambda: parts(chatcli.home) and sum(parts(chatcli.home).values()))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert 130 == process.returncode and b"Traceback" not in err
    wait_until(lambda: not downloading(chatcli.home))
    (kept,) = parts(chatcli.home).values()
    hub.requests.clear()
    hub.delay = 0.0
    assert 2 == len(chatcli.ask("Hello.", "-n", 2, env=environment)["tokens"])
    (again,) = hub.sent(".safetensors")
    assert kept == again.start > 0
