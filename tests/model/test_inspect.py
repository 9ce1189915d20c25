"""inspect reads a model's files, and `chatcli models` lists models without loading any."""

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


def put_in_cache(chatcli: Program, name: str, model: Path) -> Path:
    """Copy a model to where huggingface_hub keeps downloads."""
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


def run(chatcli: Program, *args: object, **options: Any) -> Any:
    changes = {"HF_HOME": str(chatcli.home / "hf"), "HF_HUB_CACHE": None, "COLUMNS": "100"}
    return chatcli.run(*args, env=chatcli.environment(**changes), **options)


def list_models(chatcli: Program) -> dict[str, dict[str, Any]]:
    return {model["name"]: model for model in run(chatcli, "models", "--json").json()["models"]}


@pytest.fixture
def copy(models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(models / "qwen3", tmp_path / "copy"))


def edit_json(folder: Path, file: str = "config.json", **changes: Any) -> Path:
    update_json(folder / file, **changes)
    return folder


# One model


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5", "gpt_oss"])
def test_a_models_files_give_its_properties(models: Path, family: str) -> None:
    from chatcli.model.inspect import about

    info = about(models / family)
    assert (family, True, True, "") == (info.architecture, info.supported, info.thinking, info.missing)
    assert (models / family / "model.safetensors").stat().st_size == info.size


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
def test_quantization_has_its_usual_name(config: dict[str, Any], expected: str) -> None:
    assert expected == inspect.quantization(config)


def test_what_keeps_a_model_from_running_is_named(copy: Path) -> None:
    assert "mlx-lm has no bert" == inspect.about(edit_json(copy, model_type="bert")).missing
    edit_json(copy, model_type="qwen3")
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "1 of 2 weight files missing" == inspect.about(copy).missing
    (copy / "model.safetensors.index.json").unlink()
    template = (copy / "chat_template.jinja").read_text()
    (copy / "chat_template.jinja").unlink()
    assert ("no chat template", False) == (inspect.about(copy).missing, inspect.about(copy).thinking)
    edit_json(copy, "tokenizer_config.json", chat_template=template)
    assert ("", True) == (inspect.about(copy).missing, inspect.about(copy).thinking)
    (copy / "model.safetensors").unlink()
    assert "no weights (model*.safetensors)" == inspect.about(copy).missing
    (copy / "config.json").write_text("not JSON")
    assert "no model_type" == inspect.about(copy).missing
    (copy / "config.json").unlink()
    assert "no config.json" == inspect.about(copy).missing


def test_architectures_are_those_of_mlx_lm_and_its_remappings() -> None:
    from mlx_lm.utils import MODEL_REMAPPING

    known = inspect.architectures()
    assert {"qwen3_5", "gpt_oss", "llama"} <= known
    assert set(MODEL_REMAPPING) <= known and "no_such_model" not in known


def test_a_model_that_brings_its_own_code_says_so(copy: Path) -> None:
    assert not inspect.about(copy).own_code
    edit_json(copy, "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]})
    assert inspect.about(copy).own_code


def test_the_memory_for_a_model_is_a_part_of_all_memory() -> None:
    room = device.room()
    assert room is not None and 1 << 28 < room < 1 << 46


# The command


def test_without_a_downloaded_model_one_line_says_how_to_get_one(chatcli: Program) -> None:
    out = run(chatcli, "models").text
    assert "pocket" in out and "runs" in out
    assert "To get one: chatcli -m mlx-community/Qwen3.5-4B-MLX-4bit" in " ".join(out.split())


@pytest.mark.slow
def test_models_lists_the_cache_and_the_aliases(chatcli: Program, models: Path) -> None:
    put_in_cache(chatcli, NAME, models / "gpt_oss")
    (cache(chatcli) / "datasets--org--data" / "refs").mkdir(parents=True)
    incomplete = put_in_cache(chatcli, "org/half", models / "qwen3")
    (incomplete / "model.safetensors").unlink()
    for alias, model in (
        ("mine", NAME),
        ("here", models / "evil"),
        ("later", "org/elsewhere"),
        ("other", NAME),
    ):
        run(chatcli, "config", f"models.{alias}", model)
    models_by_name = list_models(chatcli)
    assert ["pocket", "org/half", NAME, str(models / "evil"), "org/elsewhere"] == list(models_by_name)
    tiny = models_by_name[NAME]
    assert ("hub", ["mine", "other"], "gpt_oss", True, True) == (
        tiny["source"],
        tiny["aliases"],
        tiny["architecture"],
        tiny["fits"],
        tiny["runs"],
    )
    assert (models / "gpt_oss" / "model.safetensors").stat().st_size == tiny["size"]
    assert (False, "no weights (model*.safetensors)") == (
        models_by_name["org/half"]["runs"],
        models_by_name["org/half"]["missing"],
    )
    assert "not on this machine" == models_by_name["org/elsewhere"]["missing"]
    text = run(chatcli, "models").text
    assert f"{NAME}, = mine, = other" in text and "gets one" not in text


def test_models_imports_no_model_library_and_is_quick(chatcli: Program, models: Path) -> None:
    for number in range(20):
        put_in_cache(chatcli, f"org/tiny{number}", models / "qwen3")
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
    best_seconds = 60.0
    for _ in range(3):
        start_time = time.perf_counter()
        finished = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, env=environment, check=True
        )
        best_seconds = min(best_seconds, time.perf_counter() - start_time)
        assert "HEAVY []" in finished.stdout and "org/tiny19" in finished.stdout
    assert best_seconds < 2


def test_a_model_of_the_cache_is_used_offline_and_by_its_alias(chatcli: Program, models: Path) -> None:
    put_in_cache(chatcli, NAME, models / "qwen3")
    run(chatcli, "config", "models.mine", NAME)
    env = chatcli.environment(HF_HOME=str(chatcli.home / "hf"), HF_HUB_OFFLINE="1")
    finished = chatcli.run("ask", "Hello.", "-n", 2, "--json", "-m", "mine", "-S", "talk", env=env)
    assert 2 == len(finished.json()["tokens"])
    assert NAME in (chatcli.sessions / "talk.jsonl").read_text()


def test_model_names_are_completed(chatcli: Program, models: Path) -> None:
    put_in_cache(chatcli, NAME, models / "qwen3")
    run(chatcli, "config", "models.orchid", "some/thing")
    env = chatcli.environment(
        HF_HOME=str(chatcli.home / "hf"),
        _CHATCLI_COMPLETE="complete_bash",
        COMP_WORDS="chatcli ask -m or",
        COMP_CWORD="3",
    )
    import subprocess

    code = "import sys; sys.argv = ['chatcli']; from chatcli.cli.main import app; app(prog_name='chatcli')"
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    assert ["orchid", NAME] == finished.stdout.split()


def test_listing_cached_names_is_quick() -> None:
    start_time = time.perf_counter()
    assert isinstance(hub.names(), list)
    assert time.perf_counter() - start_time < 0.5
