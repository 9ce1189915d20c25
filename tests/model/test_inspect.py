"""What a model's files tell of it, and `chatcli models`, which never loads any."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chatcli.model import device, hub, inspect
from tests.support.program import Program
from tests.support.tiny import update_json

NAME = "org/tiny"


def cache(chatcli: Program) -> Path:
    return chatcli.home / "hf" / "hub"


def put(chatcli: Program, name: str, model: Path) -> Path:
    """A copy of a model where huggingface_hub keeps those that it downloaded."""
    repo = cache(chatcli) / f"models--{name.replace('/', '--')}"
    commit = "ab" * 20
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    (repo / "blobs").mkdir()
    folder = repo / "snapshots" / commit
    folder.mkdir(parents=True)
    for path in model.iterdir():
        shutil.copy(path, repo / "blobs" / path.name)
        (folder / path.name).symlink_to(repo / "blobs" / path.name)
    return folder


def run(chatcli: Program, *args: object, **more: Any) -> Any:
    changes = {"HF_HOME": str(chatcli.home / "hf"), "HF_HUB_CACHE": None, "COLUMNS": "100"}
    return chatcli.run(*args, env=chatcli.environment(**changes), **more)


def listed(chatcli: Program) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in run(chatcli, "models", "--json").json()["models"]}


@pytest.fixture
def copy(models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(models / "qwen3", tmp_path / "copy"))


def change(folder: Path, file: str = "config.json", **changes: Any) -> Path:
    update_json(folder / file, **changes)
    return folder


# One model


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5", "gpt_oss"])
def test_a_model_is_known_by_its_files(models: Path, family: str) -> None:
    from chatcli.model.inspect import about

    told = about(models / family)
    assert (family, True, True, "") == (told.architecture, told.supported, told.thinking, told.missing)
    assert (models / family / "model.safetensors").stat().st_size == told.size


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quantization": {"bits": 4, "group_size": 64}}, "4-bit"),
        ({"quantization": {"bits": 4, "group_size": 32, "mode": "mxfp4"}}, "mxfp4"),
        ({"quantization": {"bits": 8, "group_size": 64, "mode": "affine"}}, "8-bit"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq"),
        ({"text_config": {"quantization_config": {"quant_method": "fp8"}}}, "fp8"),
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float16", "quantization": None}, "fp16"),
        ({"text_config": {"dtype": "float32"}}, "fp32"),
        ({"text_config": None}, ""),
    ],
)
def test_quantization_reads_as_people_say_it(config: dict[str, Any], expected: str) -> None:
    assert expected == inspect.quantization(config)


def test_what_keeps_a_model_from_running_is_named(copy: Path) -> None:
    assert "mlx-lm has no bert" == inspect.about(change(copy, model_type="bert")).missing
    change(copy, model_type="qwen3")
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "1 of 2 weight files missing" == inspect.about(copy).missing
    (copy / "model.safetensors.index.json").unlink()
    template = (copy / "chat_template.jinja").read_text()
    (copy / "chat_template.jinja").unlink()
    assert ("no chat template", False) == (inspect.about(copy).missing, inspect.about(copy).thinking)
    change(copy, "tokenizer_config.json", chat_template=template)
    assert ("", True) == (inspect.about(copy).missing, inspect.about(copy).thinking)
    (copy / "model.safetensors").unlink()
    assert "no weights (model*.safetensors)" == inspect.about(copy).missing
    (copy / "config.json").write_text("not JSON")
    assert "no model_type" == inspect.about(copy).missing
    (copy / "config.json").unlink()
    assert "no config.json" == inspect.about(copy).missing


def test_architectures_are_mlx_lms_own_and_those_that_stand_for_others() -> None:
    from mlx_lm.utils import MODEL_REMAPPING

    known = inspect.architectures()
    assert {"qwen3_5", "gpt_oss", "llama"} <= known
    assert set(MODEL_REMAPPING) <= known and "no_such_model" not in known


def test_a_model_that_brings_its_own_code_says_so(copy: Path) -> None:
    assert not inspect.about(copy).own_code
    change(copy, "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]})
    assert inspect.about(copy).own_code


def test_the_room_for_a_model_is_a_part_of_the_memory() -> None:
    room = device.room()
    assert room is not None and 1 << 28 < room < 1 << 46


# The command


def test_without_a_model_of_the_hub_one_line_says_how_to_get_one(chatcli: Program) -> None:
    out = run(chatcli, "models").text
    assert "pocket" in out and "runs" in out
    assert "chatcli -m mlx-community/Qwen3.5-4B-MLX-4bit gets one." in " ".join(out.split())


@pytest.mark.slow
def test_models_lists_the_cache_and_the_aliases(chatcli: Program, models: Path) -> None:
    put(chatcli, NAME, models / "gpt_oss")
    (cache(chatcli) / "datasets--org--data" / "refs").mkdir(parents=True)
    half = put(chatcli, "org/half", models / "qwen3")
    (half / "model.safetensors").unlink()
    for alias, model in (
        ("mine", NAME),
        ("here", models / "evil"),
        ("later", "org/elsewhere"),
        ("other", NAME),
    ):
        run(chatcli, "config", f"models.{alias}", model)
    found = listed(chatcli)
    assert ["pocket", "org/half", NAME, str(models / "evil"), "org/elsewhere"] == list(found)
    tiny = found[NAME]
    assert ("hub", ["mine", "other"], "gpt_oss", True, True) == (
        tiny["source"],
        tiny["aliases"],
        tiny["architecture"],
        tiny["fits"],
        tiny["runs"],
    )
    assert (models / "gpt_oss" / "model.safetensors").stat().st_size == tiny["size"]
    assert (False, "no weights (model*.safetensors)") == (
        found["org/half"]["runs"],
        found["org/half"]["missing"],
    )
    assert "not on this machine" == found["org/elsewhere"]["missing"]
    text = run(chatcli, "models").text
    assert f"{NAME}, = mine, = other" in text and "gets one" not in text


def test_models_never_imports_what_loads_them_and_is_quick(chatcli: Program, models: Path) -> None:
    for number in range(20):
        put(chatcli, f"org/tiny{number}", models / "qwen3")
    code = (
        "import sys; sys.argv = ['chatcli', 'models']\n"
        "from chatcli.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('HEAVY', sorted({name for name in sys.modules} & {'mlx_lm', 'transformers', 'torch'}))"
    )
    script = chatcli.home / "script.py"
    script.write_text(code)
    import subprocess

    environment = chatcli.environment(HF_HOME=str(chatcli.home / "hf"))
    best = 60.0
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, env=environment, check=True
        )
        best = min(best, time.perf_counter() - began)
        assert "HEAVY []" in done.stdout and "org/tiny19" in done.stdout
    assert best < 2


def test_a_model_of_the_cache_is_used_offline_and_by_its_alias(chatcli: Program, models: Path) -> None:
    put(chatcli, NAME, models / "qwen3")
    run(chatcli, "config", "models.mine", NAME)
    env = chatcli.environment(HF_HOME=str(chatcli.home / "hf"), HF_HUB_OFFLINE="1")
    said = chatcli.run("ask", "Hello.", "-n", 2, "--json", "-m", "mine", "-S", "talk", env=env)
    assert 2 == len(said.json()["tokens"])
    assert NAME in (chatcli.sessions / "talk.jsonl").read_text()


def test_names_complete(chatcli: Program, models: Path) -> None:
    put(chatcli, NAME, models / "qwen3")
    run(chatcli, "config", "models.orchid", "some/thing")
    env = chatcli.environment(
        HF_HOME=str(chatcli.home / "hf"),
        _CHATCLI_COMPLETE="complete_bash",
        COMP_WORDS="chatcli ask -m or",
        COMP_CWORD="3",
    )
    import subprocess

    code = "import sys; sys.argv = ['chatcli']; from chatcli.cli.main import app; app(prog_name='chatcli')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert ["orchid", NAME] == done.stdout.split()


def test_the_names_of_the_cache_are_there_in_no_time() -> None:
    began = time.perf_counter()
    assert isinstance(hub.names(), list)
    assert time.perf_counter() - began < 0.5
