"""Checks that MLX computes, in a child process, where a crash is a finding."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator
from typing import Any

from chatcli.command_line import pip
from chatcli.doctor import child
from chatcli.doctor.child import ChildFailed
from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.doctor.versions import mlx_package
from chatcli.text import file_size

# The first import after an installation reads hundreds of megabytes, and may compile kernels.
TIMEOUT_SECONDS = 120.0
SIDE = 512
PROBE = f"""
import json, time
began = time.perf_counter()
import mlx.core as mx
imported = time.perf_counter()
ones = mx.ones(({SIDE}, {SIDE}))
first = (ones @ ones)[0, 0].item()
warm = time.perf_counter()
mx.eval(ones @ ones)
done = time.perf_counter()
ask = getattr(mx, "device_info", None) or getattr(getattr(mx, "metal", None), "device_info", dict)
try:
    info = dict(ask())
except RuntimeError:
    info = {{}}
memory = {{name: getattr(mx, f"get_{{name}}_memory", int)() for name in ("active", "cache", "peak")}}
print(json.dumps({{
    "device": str(mx.default_device()), "right": first == {SIDE}, "info": info,
    "memory_bytes": memory, "import_seconds": imported - began, "first_seconds": warm - imported,
    "matmul_seconds": done - warm}}))
"""
PROBE_LM = """
import time
import resource
began = time.perf_counter()
resource.setrlimit = lambda *_: None
import mlx_lm
print(time.perf_counter() - began)
"""


def works() -> Iterator[Finding]:
    """The device, what it computes and its memory."""
    try:
        measured: dict[str, Any] = json.loads(child.python(PROBE, TIMEOUT_SECONDS))
    except ChildFailed as error:
        todo = f"Install it again: {pip(f'install --force-reinstall {mlx_package()}')}"
        yield problem("device", f"MLX does not work: {error}", todo)
        return
    yield _device(measured)
    yield _result(measured)
    yield from _memory(measured["info"])


def _device(measured: dict[str, Any]) -> Finding:
    value = " ".join(filter(None, (measured["device"], measured["info"].get("device_name"))))
    if "cpu" not in measured["device"]:
        return ok("device", value, **measured)
    if platform.system() == "Linux" and shutil.which("nvidia-smi"):
        todo = (
            "There seems to be an NVIDIA GPU. To use it, remove mlx-cpu and install MLX for it "
            f"('mlx[cuda12]' for an older driver): {pip('install')} 'mlx[cuda13]'"
        )
        return advice("device", value, todo, **measured)
    return ok("device", value, **measured)


def _result(measured: dict[str, Any]) -> Finding:
    value = (
        f"{SIDE} x {SIDE} in {1000 * measured['matmul_seconds']:.1f} ms "
        f"(the first {1000 * measured['first_seconds']:.0f} ms), "
        f"import {1000 * measured['import_seconds']:.0f} ms"
    )
    if measured["right"]:
        return ok("matmul", value)
    todo = f"The result is wrong; install MLX again: {pip(f'install -U {mlx_package()}')}"
    return problem("matmul", value, todo)


def _memory(info: dict[str, Any]) -> Iterator[Finding]:
    """The device's memory, and how much of it MLX is advised to use, where it says so."""
    total = info.get("memory_size") or info.get("total_memory")
    limit = info.get("max_recommended_working_set_size")
    if total:
        advised = f", of which MLX should take at most {file_size(limit)}" if limit else ""
        yield ok("device memory", f"{file_size(total)}{advised}")


def mlx_lm() -> Iterator[Finding]:
    """Whether mlx-lm can be imported, which takes some seconds."""
    try:
        seconds = float(child.python(PROBE_LM, TIMEOUT_SECONDS))
    except ChildFailed as error:
        todo = f"Install it again: {pip('install --force-reinstall mlx-lm')}"
        yield problem("mlx-lm", f"cannot be imported: {error}", todo)
    else:
        yield ok("mlx-lm", f"import {seconds:.1f} s", import_seconds=seconds)
