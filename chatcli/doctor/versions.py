"""Checks what is installed, from the packages' own records, without importing them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from chatcli import __version__
from chatcli.command_line import pip
from chatcli.doctor.finding import Finding, ok, problem

# MLX's builds, and the extra of mlx that installs each on Linux.
BACKENDS = {
    "mlx-cpu": "cpu",
    "mlx-cuda-12": "cuda12",
    "mlx-cuda-13": "cuda13",
    "mlx-cuda": "cuda",
    "mlx-metal": "",
}
LIBRARIES = ("mlx-lm", "transformers", "safetensors", "prompt-toolkit", "rich")


def version(package: str) -> str | None:
    """The installed version of a package; None: it is not installed, or its record is broken."""
    try:
        return metadata.version(package) or None
    except (metadata.PackageNotFoundError, KeyError):
        return None


def backends() -> dict[str, str]:
    """MLX's builds that are installed, with their versions."""
    return {name: number for name in BACKENDS if (number := version(name)) is not None}


def mlx_package() -> str:
    """What pip installs MLX as on this machine: with the build that is installed, else for the CPU."""
    if platform.system() != "Linux":
        return "mlx"
    return f"'mlx[{next((BACKENDS[name] for name in backends() if BACKENDS[name]), 'cpu')}]'"


def python() -> Iterator[Finding]:
    system, machine = platform.system(), platform.machine()
    value = f"{platform.python_version()} on {system} {machine}"
    if system == "Darwin" and machine == "x86_64":
        todo = "MLX needs Apple silicon and a native Python: install Python for arm64."
        yield problem("Python", value, todo)
    else:
        yield ok("Python", value, executable=sys.executable)
    yield ok("chatcli", __version__)


def mlx() -> Iterator[Finding]:
    """MLX and its build: one of each, of the same version."""
    number, builds = version("mlx"), backends()
    names = " and ".join(f"{name} {build}" for name, build in builds.items())
    value = f"{number or 'not installed'}{f' with {names}' if builds else ''}"
    if todo := _todo(number, builds):
        yield problem("mlx", value, todo, version=number, backends=builds)
    else:
        yield ok("mlx", value, version=number, backends=builds)


def _todo(number: str | None, builds: dict[str, str]) -> str:
    """What to do about MLX's packages; empty if they fit."""
    if len(builds) > 1:
        return (
            "They put the same library in the same place, so remove all and install one: "
            f"{pip('uninstall')} {' '.join(builds)}, then {pip('install')} "
            "'mlx[cpu]' (or 'mlx[cuda13]', 'mlx[cuda12]' for an NVIDIA GPU)."
        )
    if number is None or (not builds and platform.system() == "Linux"):
        install = f"{pip('install')} {mlx_package()}"
        return f"To install it ('mlx[cuda13]' or 'mlx[cuda12]' on an NVIDIA GPU): {install}"
    if any(build != number for build in builds.values()):
        return f"Both must have the same version: {pip('install -U')} {mlx_package()}"
    return ""


def libraries() -> Iterator[Finding]:
    versions = {name: version(name) for name in LIBRARIES}
    value = ", ".join(f"{name} {number or '(missing)'}" for name, number in versions.items())
    missing = [name for name, number in versions.items() if number is None]
    if missing:
        todo = f"To install what is missing: {pip('install')} {' '.join(missing)}"
        yield problem("libraries", value, todo, versions=versions)
    else:
        yield ok("libraries", value, versions=versions)
