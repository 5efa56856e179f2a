"""Which packages may be asked for, and the command that would install one into the project. Pure.

Only managers that install into the project are known: what a person allows here must not change the machine.
A name is a name: options, URLs, paths and anything a shell would read are refused before anybody is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

_PYTHON = (
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)"
    r"(?:\[[A-Za-z0-9._,-]{1,100}\])?(?:(?:[=~!<>]=|[<>])[A-Za-z0-9.*+!]{1,50})?"
)
_NAMES: Mapping[str, str] = {
    "pip": _PYTHON,
    "uv": _PYTHON,
    "npm": (
        r"((?:@[a-z0-9][a-z0-9._-]{0,99}/)?[a-z0-9][a-z0-9._-]{0,99})"
        r"(?:@[\^~]?[A-Za-z0-9][A-Za-z0-9.+-]{0,50})?"
    ),
    "cargo": r"([A-Za-z0-9][A-Za-z0-9_-]{0,99})(?:@[0-9][A-Za-z0-9.+-]{0,50})?",
    "go": (
        r"([a-z0-9][a-z0-9-]{0,62}(?:\.[a-z0-9-]{1,63}){1,5}"
        r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,99}){0,8})(?:@[A-Za-z0-9.+-]{1,60})?"
    ),
    "gem": r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})",
}
_VENV_PYTHONS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")

MANAGERS = tuple(_NAMES)
LOOKED_FOR = (*_VENV_PYTHONS, "pyproject.toml", "package.json", "Cargo.toml", "go.mod", "Gemfile")
"""Files of the workspace that decide where a package would go, relative."""

PROGRAMS: Mapping[str, str] = {"uv": "uv", "npm": "npm", "cargo": "cargo", "go": "go", "gem": "bundle"}
"""The program of a manager, looked for on the machine; ``pip`` belongs to the project's own environment."""


@dataclass(frozen=True, slots=True)
class Install:
    """An installation: the key it is decided under (no free text), and the arguments of its command."""

    key: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoInstall:
    """Why there is nothing to ask for: a key of the prompts, with its values."""

    key: str
    values: Mapping[str, str]


def plan_install(
    manager: str, package: str, present: Collection[str], program: str | None
) -> Install | NoInstall:
    """The command that installs ``package``, or why there is none. ``present`` are those of ``LOOKED_FOR``
    that the workspace has; ``program`` is the manager's program on this machine, None if it has none.
    """
    manager, package = manager.strip().lower(), package.strip()
    if manager not in _NAMES:
        return NoInstall("package.manager", {"manager": manager[:40], "managers": ", ".join(MANAGERS)})
    name = re.fullmatch(_NAMES[manager], package)
    if name is None or ".." in package:
        return NoInstall("package.name", {"package": package[:100], "manager": manager})
    python = next((path for path in _VENV_PYTHONS if path in present), None)
    command = _COMMANDS[manager](package, present, python)
    if command is None:
        return NoInstall(f"package.no_project_{manager}", {})
    if manager in PROGRAMS:
        if program is None:
            return NoInstall("package.no_program", {"program": PROGRAMS[manager]})
        command = (program, *command)
    return Install(f"package:{manager}:{_folded(manager, name[1])}", command)


def _folded(manager: str, name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower() if manager in ("pip", "uv") else name


_Command = Callable[[str, Collection[str], str | None], tuple[str, ...] | None]


def _pip(package: str, present: Collection[str], python: str | None) -> tuple[str, ...] | None:
    if python is None:
        return None
    return (python, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check", package)


def _uv(package: str, present: Collection[str], python: str | None) -> tuple[str, ...] | None:
    if "pyproject.toml" in present:
        return ("add", "--no-cache", package)
    return None if python is None else ("pip", "install", "--no-cache", "--python", python, package)


def _in_project(file: str, *words: str) -> _Command:
    return lambda package, present, python: (*words, package) if file in present else None


_COMMANDS: Mapping[str, _Command] = {
    "pip": _pip,
    "uv": _uv,
    "npm": _in_project("package.json", "install", "--no-audit", "--no-fund"),
    "cargo": _in_project("Cargo.toml", "add"),
    "go": _in_project("go.mod", "get"),
    "gem": _in_project("Gemfile", "add"),
}
