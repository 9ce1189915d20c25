"""Downloads from the hub: progress, resuming after an interruption, and refusals in one sentence."""

from __future__ import annotations

import json
import os
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
TIMEOUT_SECONDS = 20.0
# Finds a model as `-m` does, and prints the progress and the folder or the error.
FIND = """
import sys
from chatcli.model import locate
from chatcli.errors import ChatcliError
def progress(download):
    print(download.done, download.total, download.files, download.rate, flush=True)
try:
    print("folder", locate.resolve(sys.argv[1], progress))
except ChatcliError as error:
    sys.exit(str(error))
"""
STOPPED = """
import sys, time
from chatcli.model import locate
def progress(download):
    if download.done > 2 << 20:
        raise KeyboardInterrupt
try:
    locate.resolve(sys.argv[1], progress)
except KeyboardInterrupt:
    print("stopped", flush=True)
    time.sleep(30)
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A fake model repository with two weight files."""
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
    with serving(repos={NAME: repo}) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def start(hub: Hub, home: Path, name: str = NAME, code: str = FIND, **changes: str) -> subprocess.Popen[str]:
    path = {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=hub.environment(home, **path, **changes),
        cwd=home,
    )


def find(hub: Hub, home: Path, name: str = NAME, **changes: str) -> tuple[list[str], str]:
    """The printed lines of finding a model, and the error."""
    out, err = start(hub, home, name, **changes).communicate(timeout=TIMEOUT_SECONDS)
    return out.splitlines(), err.strip()


def incomplete_files(home: Path) -> dict[str, int]:
    """The files that are not complete yet, and their sizes."""
    return {path.name: path.stat().st_size for path in home.glob("hf/hub/*/blobs/*.incomplete")}


# A download


def test_a_download_has_the_files_of_mlx_lm_and_is_not_repeated(hub: Hub, home: Path, repo: Path) -> None:
    out, err = find(hub, home)
    folder = Path(out[-1].removeprefix("folder "))
    assert "" == err and COMMIT == folder.name
    expected = {path.name: path.read_bytes() for path in repo.iterdir() if path.suffix != ".png"}
    assert expected == {path.name: path.read_bytes() for path in folder.iterdir()}
    request_count = len(hub.requests)
    assert ([f"folder {folder}"], "") == find(hub, home)
    assert ([f"folder {folder}"], "") == find(hub, home, HF_HUB_OFFLINE="1")
    assert request_count == len(hub.requests)


@pytest.mark.slow
def test_progress_grows_to_the_total_with_a_rate(hub: Hub, home: Path, repo: Path) -> None:
    hub.delay = 0.03
    out, _ = find(hub, home)
    lines = [line.split() for line in out[:-1]]
    done = [int(line[0]) for line in lines]
    total = sum(path.stat().st_size for path in repo.iterdir() if path.suffix != ".png")
    assert sorted(done) == done and len(set(done)) > 4 and done[-1] > 2 * SIZE - 1
    assert {(str(total), "3")} == {(line[1], line[2]) for line in lines if line[1] != "0"}
    rates = [float(line[3]) for line in lines if line[3] != "None"]
    assert rates and all(1e6 < rate < 8e6 for rate in rates[2:])


@pytest.mark.parametrize(
    ("download", "expected"),
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
def test_a_download_is_printed_with_sizes_rate_and_time_left(download: Download, expected: str) -> None:
    assert expected == str(download)


def test_the_files_that_are_fetched_are_mlx_lms_own() -> None:
    assert mlx_lm.utils.DEFAULT_ALLOW_PATTERNS == FILE_PATTERNS


# Interrupted and resumed


def test_a_killed_download_resumes_at_the_byte_where_it_was(hub: Hub, home: Path, repo: Path) -> None:
    hub.delay = 0.05
    process = start(hub, home)
    wait_until(lambda: [size > 0 for size in incomplete_files(home).values()] == [True, True])
    process.kill()
    process.communicate()
    # Wait until the download processes have ended.
    wait_until(lambda: not downloading(home))
    sizes_before = incomplete_files(home)
    assert 2 == len(sizes_before) and all(0 < size < SIZE for size in sizes_before.values())
    _, offline = find(hub, home, HF_HUB_OFFLINE="1")
    assert f"'{NAME}' is incomplete on this machine and HF_HUB_OFFLINE is set" in offline
    assert sizes_before == incomplete_files(home)
    hub.requests.clear()
    hub.delay = 0.0
    out, err = find(hub, home)
    first = next(line.split() for line in out if line.split()[1] != "0")
    assert "" == err and sum(sizes_before.values()) + len('{"not": "small"}') == int(first[0])
    requests = hub.sent(".safetensors")
    assert sorted(sizes_before.values()) == sorted(request.start for request in requests)
    assert 2 * SIZE - sum(sizes_before.values()) == sum(request.sent for request in requests)
    folder = Path(out[-1].removeprefix("folder "))
    for path in repo.glob("*.safetensors"):
        assert path.read_bytes() == (folder / path.name).read_bytes()
    assert {} == incomplete_files(home)


def downloading(home: Path) -> list[str]:
    """The ids of the processes whose HOME is `home`."""
    process_ids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HOME={home}\0".encode() in path.read_bytes():
                process_ids.append(path.parent.name)
        except OSError:
            pass
    return process_ids


@pytest.mark.slow
def test_an_exception_of_the_progress_callback_ends_the_download(hub: Hub, home: Path) -> None:
    hub.delay = 0.02
    process = start(hub, home, code=STOPPED)
    assert process.stdout is not None
    assert "stopped\n" == process.stdout.readline()
    time.sleep(0.2)
    sent = [request.sent for request in hub.requests]
    time.sleep(0.3)
    assert sent == [request.sent for request in hub.requests]
    assert all(size < SIZE for size in incomplete_files(home).values())
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_an_incomplete_file_that_is_too_long_begins_again(hub: Hub, home: Path, repo: Path) -> None:
    blobs = home / "hf" / "hub" / f"models--{NAME.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True)
    whole = repo / "model-00001-of-00002.safetensors"
    (blobs / f"{sha256(whole)}.incomplete").write_bytes(bytes(SIZE + 1))
    out, _ = find(hub, home)
    folder = Path(out[-1].removeprefix("folder "))
    assert whole.read_bytes() == (folder / whole.name).read_bytes()


@pytest.mark.slow
def test_damaged_downloads_are_detected_and_deleted(hub: Hub, home: Path) -> None:
    hub.damaged = "1-of-00002.safetensors"
    _, err = find(hub, home)
    assert "arrived damaged: try again." in err
    hub.damaged = "nothing"
    out, err = find(hub, home)
    assert "" == err and out[-1].startswith("folder ")


@pytest.mark.slow
def test_two_processes_download_each_file_once(hub: Hub, home: Path) -> None:
    hub.delay = 0.01
    processes = [start(hub, home) for _ in range(2)]
    folders = [process.communicate(timeout=TIMEOUT_SECONDS)[0].splitlines()[-1] for process in processes]
    assert folders[0] == folders[1]
    assert 2 * SIZE == sum(request.sent for request in hub.sent(".safetensors"))


# Refusals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (
            (401, "RepoNotFound"),
            "The hub has no model 'org/model' that you may see: check the name;",
        ),
        ((403, ""), "The hub denies access to 'org/model' (403): log in with: hf auth login"),
        ((503, ""), "The hub answered 503 when asked for 'org/model': try again later."),
    ],
)
def test_a_refusal_is_one_sentence(hub: Hub, home: Path, refusal: tuple[int, str], expected: str) -> None:
    hub.refusals[NAME] = refusal
    _, err = find(hub, home)
    assert err.startswith(expected) and "\n" not in err


def test_a_gated_model_names_the_page_of_its_terms(hub: Hub, home: Path) -> None:
    hub.gated.add(NAME)
    _, err = find(hub, home)
    assert err.startswith(f"'{NAME}' is gated: accept its terms at {hub.url}/{NAME}, then log in")


def test_a_repository_without_a_model_is_refused_before_downloading(hub: Hub, home: Path, repo: Path) -> None:
    (repo / "config.json").unlink()
    _, err = find(hub, home)
    assert "holds no model that MLX can load" in err
    assert [] == hub.sent(".safetensors")


def test_offline_is_reported_within_seconds(hub: Hub, home: Path) -> None:
    start_time = time.monotonic()
    _, err = find(hub, home, HF_HUB_OFFLINE="1")
    assert time.monotonic() - start_time < 5
    assert f"'{NAME}' is not on this machine and HF_HUB_OFFLINE is set: unset it" in err
    assert [] == hub.requests


def test_an_unreachable_hub_is_reported_within_seconds(hub: Hub, home: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        start_time = time.monotonic()
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        _, err = find(hub, home, HF_ENDPOINT=url)
    assert time.monotonic() - start_time < 5
    assert f"'{NAME}' is not on this machine, and the hub cannot be reached" in err
    assert "ask for the model again, which downloads it" in err and "chatcli models" in err


@pytest.mark.slow
def test_a_silent_hub_times_out(hub: Hub, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start_time = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        _, err = find(hub, home, HF_ENDPOINT=url, HF_HUB_ETAG_TIMEOUT="1")
    assert time.monotonic() - start_time < 8
    assert "the hub cannot be reached" in err and "Timeout" in err


# The whole program


@pytest.fixture
def program(tmp_path: Path, hub: Hub) -> tuple[Program, dict[str, str]]:
    """The program with a real tiny model on the hub."""
    hub.repos[NAME] = write_model(tmp_path / "tiny", "qwen3", intermediate_size=4_000)
    chatcli = Program(tmp_path / "user", Path(NAME))
    return chatcli, chatcli.environment(**hub.settings(chatcli.home))


@pytest.mark.slow
def test_ctrl_c_ends_ask_during_a_download(program: tuple[Program, dict[str, str]], hub: Hub) -> None:
    chatcli, environment = program
    hub.delay = 0.2
    process = chatcli.start("ask", "Hello.", "-n", 2, env=environment, stderr=subprocess.PIPE)
    wait_until(lambda: incomplete_files(chatcli.home) and sum(incomplete_files(chatcli.home).values()))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert 130 == process.returncode and b"Traceback" not in err
    wait_until(lambda: not downloading(chatcli.home))
    (size_before,) = incomplete_files(chatcli.home).values()
    hub.requests.clear()
    hub.delay = 0.0
    assert 2 == len(chatcli.ask("Hello.", "-n", 2, env=environment)["tokens"])
    (request,) = hub.sent(".safetensors")
    assert size_before == request.start > 0


def test_a_model_of_which_something_is_here_is_not_asked_for_before_the_prompt(home: Path) -> None:
    (home / "hf" / "hub" / "models--org--here").mkdir(parents=True)
    code = (
        "import sys; from chatcli.model import locate; print(locate.download_size('org/here'),"
        " any('snapshot_download' in name for name in sys.modules))"
    )
    environment = {**os.environ, "HOME": str(home), "HF_HOME": str(home / "hf"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert b"None False\n" == done.stdout
