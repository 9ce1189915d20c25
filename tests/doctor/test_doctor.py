"""`chatcli doctor` for people and scripts, on working and broken machines."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.support.program import Finished, Program, escapes_in, folder_contents
from tests.support.terminal import COLUMNS, Terminal

ROOT_USER = os.geteuid() == 0
ABORTS = "import os; os.abort()"
ABSENT = "raise ImportError('libmlx.so: cannot open shared object file')"
# Enough of MLX's arrays for two of them to be multiplied wrongly.
WRONG = """
class Ones:
    def __init__(self, shape): pass
    def __matmul__(self, other): return self
    def __getitem__(self, at): return self
    def item(self): return 511.0
ones, eval, default_device = Ones, print, lambda: "Device(gpu, 0)"
def device_info(): return {"device_name": "Imagined", "memory_size": 64 * 10**9,
                           "max_recommended_working_set_size": 48 * 10**9}
"""


class Doctor:
    """The program, and what it found of each name."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self.sessions = program.sessions
        self._folder = folder

    def run(self, *args: object, expect: int = 0, **env: str) -> Finished:
        environment = self.program.environment(**{"NO_COLOR": None, "HF_HOME": None, **env})
        return self.program.run("doctor", "--quick", *args, expect=expect, env=environment)

    def look(self, *args: object, expect: int = 0, **env: str) -> dict[str, dict[str, Any]]:
        report = self.run("--json", *args, expect=expect, **env).json()
        problems = [finding for finding in report["findings"] if finding["status"] == "problem"]
        assert report["problems"] == len(problems)
        return {finding["name"]: finding for finding in report["findings"]}

    def path_with(self, package: str, **modules: str) -> str:
        """A PYTHONPATH on which another package comes first."""
        place = self._folder / "fake" / package
        place.mkdir(parents=True)
        for name, code in modules.items():
            (place / f"{name}.py").write_text(code)
        return f"{place.parent}:{ROOT}"

    def path_with_record(self, name: str, version: str) -> str:
        """A PYTHONPATH on which a package seems to be installed."""
        place = self._folder / "record" / f"{name.replace('-', '_')}-{version}.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return f"{place.parent}:{ROOT}"


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(Program(tmp_path / "home", tmp_path), tmp_path)


@pytest.fixture
def saved(saved_conversation: Path, doctor: Doctor) -> Path:
    """A conversation and its checkpoints as the folder of sessions, to be damaged."""
    shutil.copytree(saved_conversation, doctor.sessions)
    return doctor.sessions


def statuses(findings: dict[str, dict[str, Any]], status: str) -> set[str]:
    return {name for name, finding in findings.items() if finding["status"] == status}


def test_a_whole_machine_has_no_problem_and_every_number_is_there(doctor: Doctor) -> None:
    findings = doctor.look()
    assert set() == statuses(findings, "problem")
    assert findings["Python"]["value"].startswith(sys.version.split()[0])
    assert findings["device"]["data"]["right"]
    assert findings["disk"]["data"]["free_bytes"] > 0
    assert "pocket" == findings["model"]["value"]
    assert "work" == findings["file locks"]["value"]


@pytest.mark.slow
def test_without_quick_mlx_lm_is_imported_too(doctor: Doctor) -> None:
    report = doctor.program.run("doctor", "--json").json()
    assert "mlx-lm" in [finding["name"] for finding in report["findings"]]
    path = doctor.path_with("mlx_lm", __init__="import no_such_module")
    done = doctor.program.run("doctor", "--json", expect=1, env=doctor.program.environment(PYTHONPATH=path))
    (finding,) = [finding for finding in done.json()["findings"] if finding["name"] == "mlx-lm"]
    assert "no_such_module" in finding["value"]


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_told_and_not_made(doctor: Doctor) -> None:
    assert "not there yet" in doctor.look()["folder"]["value"]
    assert not doctor.sessions.exists()
    assert {} == folder_contents(doctor.program.home)


def test_nothing_in_the_folder_changes(doctor: Doctor, saved: Path) -> None:
    (saved / f".{'0' * 32}.new").write_bytes(b"begun")
    before = folder_contents(saved)
    doctor.run()
    assert before == folder_contents(saved)


@pytest.mark.parametrize(("code", "reason"), [(ABORTS, "crashed (SIGABRT)"), (ABSENT, "libmlx.so")])
def test_mlx_that_cannot_be_imported_is_one_problem_and_the_rest_goes_on(
    doctor: Doctor, code: str, reason: str
) -> None:
    findings = doctor.look(expect=1, PYTHONPATH=doctor.path_with("mlx", __init__=code))
    assert {"device"} == statuses(findings, "problem")
    assert reason in findings["device"]["value"]
    assert "pip install" in findings["device"]["advice"]
    assert "settings" in findings


@pytest.mark.slow
def test_mlx_that_computes_wrongly_is_a_problem_and_its_memory_is_told(doctor: Doctor) -> None:
    path = doctor.path_with("mlx", __init__="", core=WRONG)
    findings = doctor.look(expect=1, PYTHONPATH=path)
    assert {"matmul"} == statuses(findings, "problem")
    expected = "Device(gpu, 0) Imagined, 64 GB, of which MLX should take at most 48 GB"
    assert expected == findings["device"]["value"]


def test_two_builds_of_mlx_at_once_are_a_problem(doctor: Doctor) -> None:
    path = doctor.path_with_record("mlx-cuda-12", "0.1")
    findings = doctor.look(expect=1, PYTHONPATH=path)
    assert {"mlx"} == statuses(findings, "problem")
    assert "mlx-cuda-12 0.1" in findings["mlx"]["value"]
    assert "uninstall" in findings["mlx"]["advice"]


@pytest.mark.slow
def test_a_build_of_another_version_than_mlx_is_a_problem(doctor: Doctor) -> None:
    findings = doctor.look(expect=1, PYTHONPATH=doctor.path_with_record("mlx", "0.1"))
    assert "must have the same version" in findings["mlx"]["advice"]


@pytest.mark.slow
def test_a_broken_library_is_a_problem_of_what_needs_it(doctor: Doctor) -> None:
    path = doctor.path_with("numpy", __init__="raise ImportError('wrong ELF class')")
    findings = doctor.run("--json", expect=1, PYTHONPATH=path).json()["findings"]
    reason = "could not be checked: wrong ELF class"
    assert {"sessions"} == {finding["area"] for finding in findings if finding["value"] == reason}


def test_doctor_never_imports_mlx_itself(doctor: Doctor) -> None:
    """Were it to, this process would end with MLX's abort."""
    path = doctor.path_with("mlx", __init__=ABORTS)
    assert "settings" in doctor.run(expect=1, PYTHONPATH=path).text


def test_a_file_in_the_place_of_the_folder_is_one_problem(doctor: Doctor) -> None:
    doctor.sessions.write_text("mine")
    findings = doctor.look(expect=1)
    assert {"folder"} == statuses(findings, "problem")
    assert "--sessions DIR" in findings["folder"]["advice"]
    assert "mine" == doctor.sessions.read_text()


@pytest.mark.skipif(ROOT_USER, reason="root may write anywhere")
@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_a_closed_folder_is_one_problem(doctor: Doctor, mode: int) -> None:
    doctor.sessions.mkdir()
    doctor.sessions.chmod(mode)
    findings = doctor.look("--sessions", doctor.sessions, expect=1)
    doctor.sessions.chmod(0o700)
    assert {"folder"} == statuses(findings, "problem")


def test_a_broken_file_and_environment_are_told_and_private_words_are_not(doctor: Doctor) -> None:
    path = doctor.program.home / "mine.toml"
    path.write_text('temp = "hot"\ntempe = 3\n')
    done = doctor.run(
        "--json",
        expect=1,
        CHATCLI_CONFIG=str(path),
        CHATCLI_TOP_P="9",
        CHATCLI_SYSTEM="between us",
        CHATCLI_TEMPERATURE="1",
        HF_TOKEN="hf_mine",
    )
    findings = [finding for finding in done.json()["findings"] if finding["area"] == "settings"]
    marks = [(finding["name"], finding["status"]) for finding in findings]
    assert marks == [
        ("config file", "problem"),
        ("config file", "advice"),
        ("environment", "problem"),
        ("environment", "advice"),
    ]
    assert "temp must be" in findings[0]["value"]
    assert "CHATCLI_TOP_P" in findings[2]["value"]
    assert "CHATCLI_TEMPERATURE not known" == findings[3]["value"]
    assert "between us" not in done.text
    assert "hf_mine" not in done.text


@pytest.mark.slow
def test_the_folder_and_the_limit_come_from_the_settings(doctor: Doctor, tmp_path: Path) -> None:
    path = doctor.program.home / "mine.toml"
    path.write_text('sessions = "here"\ncache_limit = "3GB"\n')
    findings = doctor.look(CHATCLI_CONFIG=str(path), CHATCLI_SESSIONS="")
    assert str(path.parent / "here") == findings["folder"]["data"]["path"]
    assert 3 * 10**9 == findings["checkpoints"]["data"]["limit_bytes"]


def test_damage_is_found_and_named(doctor: Doctor, saved: Path) -> None:
    (saved / "broken.jsonl").write_text("no header\n")
    findings = doctor.look(expect=1)
    assert {"sessions"} == statuses(findings, "problem")
    assert "'broken'" in findings["sessions"]["advice"]


def test_a_page_says_each_status_in_words_and_fits_the_terminal(doctor: Doctor) -> None:
    command = [sys.executable, "-m", "chatcli", "doctor", "--quick"]
    env = doctor.program.environment(CHATCLI_TOP_P="9", NO_COLOR=None, TMUX=None)
    with Terminal(command, env, doctor.program.home) as terminal:
        assert 1 == terminal.wait_for_exit()
        lines = terminal.all_text().splitlines()
    assert "  ok       size          80 columns, 24 lines" in lines
    assert "problem: environment" in lines
    # Every line was ended by us: none reaches the edge and goes on below it.
    assert all(len(line) < COLUMNS for line in lines)


def test_a_page_in_a_pipe_is_plain_and_what_is_strange_in_a_name_is_harmless(
    doctor: Doctor,
) -> None:
    name = str(doctor.program.home / "\udcff\x1b[31m")
    done = doctor.run(CHATCLI_SESSIONS=name)
    assert [] == escapes_in(done.out)
    assert done.text.endswith("Nothing is broken.\n")
    assert "" == done.errors
    assert json.loads(doctor.run("--json", CHATCLI_SESSIONS=name).out)


@pytest.mark.slow
def test_an_empty_environment_is_enough(doctor: Doctor) -> None:
    done = doctor.program.run(
        "doctor",
        "--quick",
        "--sessions",
        doctor.sessions,
        env={"PYTHONPATH": str(ROOT), "HF_HOME": str(doctor.program.home)},
    )
    assert "Nothing is broken." in done.text
