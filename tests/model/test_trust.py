"""Nothing runs, downloads or shadows without permission: models' code, names from sessions, stray folders."""

from __future__ import annotations

import importlib.util
import json
import py_compile
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chatcli.errors import CodeNotTrusted, ModelBroken, ModelNotFound
from chatcli.model import own_code
from chatcli.model.load import load
from tests.support.program import Program
from tests.support.terminal import Terminal
from tests.support.tiny import update_json

CODE = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
ARCHITECTURE = CODE + "from mlx_lm.models.qwen3 import Model, ModelArgs\n"
ELSEWHERE = [
    {"model_file": "../arch.py"},
    {"model_file": "/tmp/arch.py"},
    {"auto_map": {"AutoConfig": "other/repo--config.Config"}},
    {"auto_map": {"AutoTokenizer": [None, "other/repo--tok.Tokenizer"]}},
]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def folder(models: Path, tmp_path: Path) -> Path:
    """A model with an architecture of its own."""
    copy = Path(shutil.copytree(models / "qwen3", tmp_path / "place" / "org" / "model"))
    update_json(copy / "config.json", model_file="arch.py")
    (copy / "arch.py").write_text(ARCHITECTURE)
    return copy


def refusal(name: str) -> CodeNotTrusted:
    with pytest.raises(CodeNotTrusted, match="use --trust-remote-code") as caught:
        load(name)
    return caught.value


# Code


def test_code_that_was_approved_runs_until_it_changes(folder: Path) -> None:
    error = refusal(str(folder))
    assert not (folder / "ran").exists()
    own_code.approve(error.model, error.digest)
    assert 0o600 == stat.S_IMODE(own_code.approvals_path().stat().st_mode)
    assert load(str(folder)).context
    (folder / "ran").unlink()
    (folder / "arch.py").write_text(ARCHITECTURE + "# changed\n")
    refusal(str(folder))
    (folder / "helper.py").write_text("")
    (folder / "arch.py").write_text(ARCHITECTURE)
    refusal(str(folder))
    assert not (folder / "ran").exists()


def test_an_approval_is_of_one_model(folder: Path) -> None:
    error = refusal(str(folder))
    own_code.approve(error.model, error.digest)
    refusal(str(shutil.copytree(folder, folder.with_name("copy"))))


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"x": 1}'])
def test_a_damaged_file_of_approvals_approves_nothing(text: str, folder: Path) -> None:
    own_code.approvals_path().parent.mkdir(parents=True)
    own_code.approvals_path().write_text(text)
    error = refusal(str(folder))
    own_code.approve(error.model, error.digest)
    assert load(str(folder)).context


@pytest.mark.parametrize("fields", ELSEWHERE, ids=str)
def test_code_that_lies_elsewhere_cannot_be_approved(fields: dict[str, object], folder: Path) -> None:
    update_json(folder / "config.json", **{"model_file": "arch.py", **fields})
    assert not own_code.is_all_here(folder)
    own_code.approve(str(folder), own_code.digest(folder))
    if "model_file" in fields:
        assert "" == refusal(str(folder)).digest


@pytest.mark.slow
def test_neither_a_variable_nor_the_settings_file_lets_code_run(folder: Path, chatcli: Program) -> None:
    ask = ("ask", "Hello", "-n", 2, "-m", folder)
    refused = chatcli.run(*ask, env=chatcli.environment(CHATCLI_TRUST_REMOTE_CODE="yes"), expect=1)
    assert "use --trust-remote-code" in refused.errors
    chatcli.run(*ask, "--trust-remote-code")
    chatcli.run(*ask, expect=1)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "runs"), [("y", True), ("n", False)])
def test_a_terminal_asks_once(key: str, runs: bool, folder: Path, chatcli: Program) -> None:
    arguments = ("ask", "Hello", "-n", 2, "-m", folder)
    command = [sys.executable, "-m", "chatcli", *map(str, arguments)]
    with Terminal(command, chatcli.environment(), chatcli.home) as terminal:
        terminal.wait_for("until it changes?")
        terminal.send(f"{key}\r")
        assert terminal.wait_for_exit() == (0 if runs else 1)
    assert runs == (folder / "ran").exists()
    (folder / "ran").unlink(missing_ok=True)
    chatcli.run(*arguments, expect=0 if runs else 1)


# Names


@pytest.mark.parametrize("name", ["model", "org/model"])
def test_a_folder_that_lies_about_is_no_model_without_its_dot(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder.parent if name == "model" else folder.parents[1]
    monkeypatch.chdir(place)
    with pytest.raises(ModelNotFound, match=rf"For the folder of that name: -m \./{name}\."):
        load(name)
    refusal(f"./{name}")


@pytest.mark.parametrize("name", ["org/model", "./org/model", "org", "~nobody/x", "x" * 5000, "a b;c", ""])
def test_a_session_s_model_that_is_not_here_is_said(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parents[1])
    with pytest.raises(ModelNotFound, match=r"is not on this machine: start with -m .* to download it"):
        load(name, from_session=True)


def test_a_session_s_own_folder_and_pocket_are_here(models: Path) -> None:
    assert load(str(models / "qwen3"), from_session=True).context
    assert load("pocket", from_session=True).context


@pytest.mark.slow
def test_a_session_names_no_folder_and_no_download(folder: Path, chatcli: Program) -> None:
    chatcli.ask("Hello", "-S", "talk", "-n", 2)
    transcript = chatcli.sessions / "talk.jsonl"
    lines = [json.loads(line) for line in transcript.read_text().splitlines()]
    lines.append({"type": "model", "model": "org/model"})
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("ask", "Hello", "-S", "talk", "--trust-remote-code")
    refused = chatcli.run(*arguments, model=False, cwd=folder.parents[1], expect=1)
    assert "The session's model 'org/model' is not on this machine" in refused.errors
    assert not (folder / "ran").exists()


# What runs is what was read


OTHER = "from mlx_lm.models.qwen3 import Model, ModelArgs\nimport pathlib\npathlib.Path({!r}).touch()\n"


def compiled(folder: Path, text: str, target: Path) -> None:
    """`text` as bytecode that Python does not compare with its source."""
    target.parent.mkdir(exist_ok=True)
    (source := folder / "source.txt").write_text(text)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), str(target), "arch.py", doraise=True, invalidation_mode=mode)
    source.unlink()


def test_bytecode_in_the_folder_does_not_run_in_place_of_what_was_approved(folder: Path) -> None:
    error = refusal(str(folder))
    own_code.approve(error.model, error.digest)
    evil = folder.parent / "evil"
    compiled(folder, OTHER.format(str(evil)), Path(importlib.util.cache_from_source(str(folder / "arch.py"))))
    assert load(str(folder)).context
    assert (folder / "ran").exists() and not evil.exists()
    assert sys.pycache_prefix is None


def test_code_is_loaded_from_the_bytes_that_were_read(folder: Path) -> None:
    evil = folder.parent / "evil"
    code = own_code.read(folder)
    (folder / "arch.py").write_text(OTHER.format(str(evil)))
    with own_code.loaded_from(folder, code):
        spec = importlib.util.spec_from_file_location("custom_model", folder / "arch.py")
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert (folder / "ran").exists() and not evil.exists()


@pytest.mark.parametrize("source", [b"def", b"\0", b"(" * 10_000])
def test_code_that_does_not_compile_is_never_read_again(source: bytes, folder: Path) -> None:
    evil = folder.parent / "evil"
    (folder / "arch.py").write_bytes(source)
    code = own_code.read(folder)
    (folder / "arch.py").write_text(OTHER.format(str(evil)))
    with own_code.loaded_from(folder, code), pytest.raises(SyntaxError):
        spec = importlib.util.spec_from_file_location("custom_model", folder / "arch.py")
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert not evil.exists()
    (folder / "arch.py").write_bytes(source)
    with pytest.raises(ModelBroken, match="cannot be loaded"):
        load(str(folder), trust_remote_code=True)


def put_link(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "arch.py").write_text(ARCHITECTURE)
    (folder / "sub").symlink_to(other)


def put_file_link(folder: Path) -> None:
    (folder.parent / "other.py").write_text(ARCHITECTURE)
    (folder / "arch.py").unlink()
    (folder / "arch.py").symlink_to(folder.parent / "other.py")


def put_bytecode(folder: Path) -> None:
    compiled(folder, ARCHITECTURE, folder / "arch.pyc")


# How the folder is changed, and what its configurations name then.
HIDDEN: list[tuple[Callable[[Path], object], dict[str, object], dict[str, object]]] = [
    (put_link, {"model_file": "sub/arch.py"}, {}),
    (put_link, {}, {}),
    (put_file_link, {}, {}),
    (put_bytecode, {"model_file": "arch.pyc"}, {}),
    (put_bytecode, {}, {}),
    (lambda folder: (folder / "arch.so").write_bytes(b""), {"model_file": "arch.so"}, {}),
    (lambda folder: (folder / "arch.txt").write_text(CODE), {"model_file": "arch.txt"}, {}),
    (lambda folder: None, {"model_file": "../model/arch.py"}, {}),
    (put_link, {}, {"auto_map": {"AutoTokenizer": ["sub/arch.Tokenizer", None]}}),
]


@pytest.mark.parametrize("change,config,tokenizer", HIDDEN)
def test_code_that_is_no_plain_file_of_the_folder_does_not_run(
    change: Callable[[Path], object],
    config: dict[str, object],
    tokenizer: dict[str, object],
    folder: Path,
) -> None:
    change(folder)
    update_json(folder / "config.json", **config)
    update_json(folder / "tokenizer_config.json", **tokenizer)
    assert not own_code.is_all_here(folder)
    own_code.approve(str(folder), own_code.digest(folder))
    assert "" == refusal(str(folder)).digest
    with pytest.raises(ModelBroken, match=r"The code of the model .* cannot be run: its"):
        load(str(folder), trust_remote_code=True)
    assert not list(folder.parent.rglob("ran"))


def test_code_in_the_hubs_cache_is_read_through_its_links(folder: Path) -> None:
    snapshot = folder.parent / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    blobs = Path(shutil.copytree(folder, folder.parent / "blobs"))
    for blob in blobs.iterdir():
        (snapshot / blob.name).symlink_to(f"../../blobs/{blob.name}")
    assert own_code.read(folder) == own_code.read(snapshot)
    assert load(str(snapshot), trust_remote_code=True).context


def test_a_configuration_may_name_code_that_was_left_out(models: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(models / "qwen3", tmp_path / "model"))
    update_json(copy / "config.json", auto_map={"AutoConfig": "configuration.Config"})
    plain = load(str(copy)).fingerprint
    assert load(str(copy), trust_remote_code=True).context
    # Code that is there counts where it may run.
    config = "from transformers import PretrainedConfig\nclass Config(PretrainedConfig):\n    pass\n"
    (copy / "configuration.py").write_text(config)
    assert plain == load(str(copy)).fingerprint != load(str(copy), trust_remote_code=True).fingerprint
