"""Checks packages by their metadata, and MLX in a child process, so that a crash becomes a finding."""

from __future__ import annotations

import json
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from chatcli import __version__
from chatcli.command_line import pip
from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.errors import ChatcliError
from chatcli.text import file_size, shorten

# MLX's builds, and the extra of mlx that installs each on Linux.
BACKENDS = {
    "mlx-cpu": "cpu",
    "mlx-cuda-12": "cuda12",
    "mlx-cuda-13": "cuda13",
    "mlx-cuda": "cuda",
    "mlx-metal": "",
}
LIBRARIES = ("mlx-lm", "transformers", "safetensors", "prompt-toolkit", "rich")
# The first import after an installation reads hundreds of megabytes and may compile kernels.
TIMEOUT_SECONDS = 120.0
MAX_REASON_CHARACTERS = 300
# The child imports from where this process does, not from the current folder. A crash leaves no core file.
PREAMBLE = """\
import sys
sys.path[:] = sys.argv[1:]
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
# mlx-lm changes the limit of open files, and its import fails if that does.
resource.setrlimit = lambda *_: None
"""
SIDE = 512
PROBE = f"""
import json
import mlx.core as mx
ones = mx.ones(({SIDE}, {SIDE}))
right = (ones @ ones)[0, 0].item() == {SIDE}
try:
    info = dict(mx.device_info())
except (AttributeError, RuntimeError):
    info = {{}}
print(json.dumps({{"device": str(mx.default_device()), "right": right, "info": info}}))
"""


class ChildFailed(ChatcliError):
    """A child process failed; the text says how."""


def run_python(code: str, seconds: float) -> str:
    """Run `code` in a new Python and return the last line it prints. Raises `ChildFailed`."""
    command = [sys.executable, "-c", PREAMBLE + code, *sys.path]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"no answer within {seconds:.0f} s") from None
    printed, errors = (
        [line for line in text.decode(errors="replace").splitlines() if line.strip()]
        for text in (done.stdout, done.stderr)
    )
    if done.returncode < 0:
        raise ChildFailed(f"crashed ({signal.Signals(-done.returncode).name})")
    if done.returncode:
        reason = errors[-1] if errors else f"ended with exit code {done.returncode}"
        raise ChildFailed(shorten(reason, MAX_REASON_CHARACTERS))
    if not printed:
        raise ChildFailed("ended without an answer")
    return printed[-1]


def version(package: str) -> str | None:
    """The installed version of a package; None if it is not installed or its metadata is broken."""
    try:
        return metadata.version(package) or None
    except (metadata.PackageNotFoundError, KeyError):
        return None


def versions() -> Iterator[Finding]:
    """The versions of Python, chatcli and the libraries."""
    value = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield ok("Python", value, executable=sys.executable)
    yield ok("chatcli", __version__)
    found = {name: version(name) for name in LIBRARIES}
    value = ", ".join(f"{name} {number or '(missing)'}" for name, number in found.items())
    if missing := [name for name, number in found.items() if number is None]:
        todo = f"To install what is missing: {pip('install')} {' '.join(missing)}"
        yield problem("libraries", value, todo, versions=found)
    else:
        yield ok("libraries", value, versions=found)


def mlx() -> Iterator[Finding]:
    """MLX's packages, which must match, and whether MLX computes."""
    number = version("mlx")
    builds = {name: build for name in BACKENDS if (build := version(name)) is not None}
    extra = next((BACKENDS[name] for name in builds if BACKENDS[name]), "cpu")
    package = f"'mlx[{extra}]'" if platform.system() == "Linux" else "mlx"
    if len(builds) > 1:
        todo = (
            "They put the same library in the same place, so remove all and install one: "
            f"{pip('uninstall')} {' '.join(builds)}, then {pip('install')} "
            "'mlx[cpu]' (or 'mlx[cuda13]', 'mlx[cuda12]' for an NVIDIA GPU)."
        )
    elif number is None or (not builds and platform.system() == "Linux"):
        install = f"{pip('install')} {package}"
        todo = f"To install it ('mlx[cuda13]' or 'mlx[cuda12]' on an NVIDIA GPU): {install}"
    elif any(build != number for build in builds.values()):
        todo = f"Both must have the same version: {pip('install -U')} {package}"
    else:
        todo = ""
    names = " and ".join(f"{name} {build}" for name, build in builds.items())
    value = f"{number or 'not installed'}{f' with {names}' if builds else ''}"
    yield Finding("mlx", "problem" if todo else "ok", value, todo, {"version": number, "backends": builds})
    try:
        probed: dict[str, Any] = json.loads(run_python(PROBE, TIMEOUT_SECONDS))
    except ChildFailed as error:
        todo = f"Install it again: {pip(f'install --force-reinstall {package}')}"
        yield problem("device", f"MLX does not work: {error}", todo)
        return
    # The device, its memory, and how much of it MLX should use, if it says so.
    info = probed["info"]
    total = info.get("memory_size") or info.get("total_memory")
    limit = info.get("max_recommended_working_set_size")
    parts = [" ".join(filter(None, (probed["device"], info.get("device_name"))))]
    parts += [file_size(total)] if total else []
    parts += [f"of which MLX should take at most {file_size(limit)}"] if limit else []
    if "cpu" in probed["device"] and platform.system() == "Linux" and shutil.which("nvidia-smi"):
        todo = (
            "There seems to be an NVIDIA GPU. To use it, remove mlx-cpu and install MLX for it "
            f"('mlx[cuda12]' for an older driver): {pip('install')} 'mlx[cuda13]'"
        )
        yield advice("device", ", ".join(parts), todo, **probed)
    else:
        yield ok("device", ", ".join(parts), **probed)
    if not probed["right"]:
        todo = f"Install MLX again: {pip(f'install -U {package}')}"
        yield problem("matmul", f"a product of {SIDE} x {SIDE} is wrong", todo)


def mlx_lm() -> Iterator[Finding]:
    """Whether mlx-lm can be imported, which takes some seconds."""
    try:
        yield ok("mlx-lm", run_python("import mlx_lm; print(mlx_lm.__version__)", TIMEOUT_SECONDS))
    except ChildFailed as error:
        todo = f"Install it again: {pip('install --force-reinstall mlx-lm')}"
        yield problem("mlx-lm", f"cannot be imported: {error}", todo)


def chat_template(folder: Path) -> Iterator[Finding]:
    """What is adapted for a model's chat template. Raises `ChildFailed`."""
    program = f"""
import json, pathlib
from mlx_lm.tokenizer_utils import load
from chatcli.chat_format.template import adaptations
print(json.dumps(adaptations(load(pathlib.Path({str(folder)!r})))))"""
    adapted = json.loads(run_python(program, TIMEOUT_SECONDS))
    yield ok("chat template", "; ".join(adapted) or "shows every part in the usual form", adapted=adapted)
