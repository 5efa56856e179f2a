"""``maestro-lsp demo --editor nvim``: the demo's task in a real Neovim, with the plugin of ``editors/nvim``.

Neovim runs on a configuration of its own (``--clean``) and keeps nothing: what the demo shows must not depend
on the person's plugins, nor leave anything among their files.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from engine import NotConfigured

OLDEST = (0, 11)
"""The first Neovim with ``vim.lsp.config``."""

_VERSION = re.compile(r"^NVIM v(\d+)\.(\d+)", re.MULTILINE)
_VERSION_S = 10.0
_END_S = 8.0
_OPENED = "price.py"
_HERE = Path(__file__).resolve().parent
_PLUGIN = (_HERE.parent / "nvim", _HERE.parent.parent / "editors" / "nvim")
"""Where the plugin lies: in an installed wheel, in a checkout."""


async def run_nvim(
    folder: Path, environment: Mapping[str, str], say: Callable[..., str], language: str
) -> int:
    """Open Neovim on ``folder/shop`` with ``environment`` (which names the model) and start the demo's task
    there; Neovim's exit status.

    Raises ``NotConfigured``: no Neovim, or one that is too old.
    """
    program = await find_nvim()
    told = {
        "cmd": [
            sys.executable,
            "-I",
            "-m",
            "maestro_lsp",
            "--stdio",
            "--log-file",
            str(folder / "server.log"),
        ],
        "instruction": say("demo.instruction"),
        "piece": "code",
        "language": language,
    }
    own = {f"XDG_{kind}_HOME": str(folder / "nvim" / kind.lower()) for kind in ("STATE", "DATA", "CACHE")}
    process = await asyncio.create_subprocess_exec(
        program,
        "--clean",
        "--cmd",
        "lua vim.opt.runtimepath:prepend(vim.env.MAESTRO_NVIM_PLUGIN)",
        "-c",
        "lua require('maestro.demo').run()",
        _OPENED,
        cwd=folder / "shop",
        env={
            **environment,
            **own,
            "MAESTRO_NVIM_PLUGIN": str(plugin_folder()),
            "MAESTRO_NVIM_DEMO": json.dumps(told, ensure_ascii=False),
        },
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            await _end(process)


def plugin_folder() -> Path:
    """The folder of the plugin. Raises ``NotConfigured`` for an installation that lacks it."""
    for folder in _PLUGIN:
        if (folder / "lsp" / "maestro.lua").is_file():
            return folder
    data = {"setting": "editors/nvim", "mend": "install maestro-lsp anew"}
    raise NotConfigured("nvim.no_plugin", data=data, path=str(_PLUGIN[0]))


async def find_nvim() -> str:
    """The Neovim to run: ``$NVIM`` if it is a program (inside Neovim it is a socket), else ``nvim`` on PATH.

    Raises ``NotConfigured``: none, or one that is too old.
    """
    named = os.environ.get("NVIM", "")
    program = shutil.which(named) if named else None
    program = program or shutil.which("nvim")
    data = {"setting": "NVIM", "mend": "Neovim 0.11 or newer"}
    if program is None:
        raise NotConfigured("nvim.missing", data=data)
    found = _VERSION.search(await _version(program))
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        version = f"{found[1]}.{found[2]}" if found else "?"
        raise NotConfigured("nvim.too_old", data=data, path=program, version=version)
    return program


async def _version(program: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        told, _ = await asyncio.wait_for(process.communicate(), _VERSION_S)
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return told.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """The demo itself was ended: Neovim first in order, then by force."""
    process.terminate()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_S)
        return
    process.kill()
    await process.wait()
