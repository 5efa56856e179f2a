"""``maestro-lsp demo --editor nvim``: the demo's task in a Neovim of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from engine import EngineError, NotConfigured, catalogue, explain
from maestro_lsp.demo.nvim import find_nvim, plugin_folder
from tests.editors.nvim.driver import Desk, nvim_or_skip, terminal

DEMO = """
import asyncio, json, os, sys
from pathlib import Path
from engine import catalogue
from maestro_lsp.demo.nvim import run_nvim
print("ended with", asyncio.run(run_nvim(Path(sys.argv[1]), os.environ, catalogue("ja"), "ja")), flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.needs("tmux")
def test_the_demo_opens_neovim_on_the_sample_and_leaves_no_server(desk: Desk) -> None:
    environment = {**desk.environment(), "NVIM": nvim_or_skip()}
    with terminal() as shown:
        command = [sys.executable, "-c", DEMO, str(desk.folder)]
        shown.start(command, desk.workspace, environment, (120, 36))
        shown.until("実行される内容", "python3 -m unittest -v", "1: 今回だけ許可")
        shown.press("Enter")
        shown.until("with_tax(price: int", "待機中 code · plan", "1 件があなたを待っています")
        log = desk.folder / "server.log"
        assert log.is_file()
        shown.type(":qa!", "Enter")
        shown.until("ended with 0")
        assert not _processes(str(log))


def test_the_plugin_is_found_beside_the_package() -> None:
    assert (plugin_folder() / "lsp" / "maestro.lua").is_file()


def _program(folder: Path, says: str) -> str:
    path = folder / "nvim"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("NVIM v0.10.4", "is Neovim 0.10, and the demo needs 0.11 or newer"),
        ("VIM - Vi IMproved 9.1", "is Neovim ?, and the demo needs 0.11 or newer"),
    ],
)
def test_a_neovim_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, sentence: str
) -> None:
    monkeypatch.setenv("NVIM", _program(tmp_path, says))
    assert sentence in _why_not()


@pytest.mark.parametrize("version", ["0.11.4", "0.12.0-dev-2", "1.0"])
def test_a_neovim_that_is_new_enough_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    program = _program(tmp_path, f"NVIM v{version}")
    monkeypatch.setenv("NVIM", program)
    assert asyncio.run(find_nvim()) == program


def test_the_socket_that_neovim_names_in_its_own_terminal_is_not_taken_for_a_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NVIM", str(tmp_path / "nvim.1234.0"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Neovim was not found; install Neovim 0.11 or newer" in _why_not()


def _why_not() -> str:
    with pytest.raises(NotConfigured) as caught:
        asyncio.run(find_nvim())
    error: EngineError = caught.value
    assert explain(error, "ja") != explain(error, "en") == catalogue("en")(error.key, **error.values)
    return explain(error, "en")


def _processes(argument: str) -> list[int]:
    """The processes that were started with an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argument.encode() in arguments:
                found.append(int(entry.name))
    return found
