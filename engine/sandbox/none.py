"""Level C: no sandbox. A command runs as the person, with a scrubbed environment, under a process that ends
its children.

What this level cannot hold back, and only a sandbox does: a command may read and write what the person may;
signal any process of the person, the engine included (its jobs are taken up again); use all memory,
processes and disk there are (when memory runs out the kernel takes the command first); and live on if it
leaves its session, removes the mark from its environment and then kills its reaper. Of the engine's own
memory and descriptors it sees nothing on Linux (``engine.processes.keep_private``), unless it runs as root.
"""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from engine.core.errors import NotConfigured
from engine.workspace import find_program

_REAPER = Path(__file__).with_name("reaper.py")

# Where programs and their data are, and how text is written: nothing that can hold a key.
_KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "NVM_DIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
)

# Nothing may wait for a person at a terminal that is not there.
_FIXED = {
    "TERM": "dumb",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_TERMINAL_PROMPT": "0",
    # Git shows names as they are; "\350\262\267" is one that no tool finds again.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.quotePath",
    "GIT_CONFIG_VALUE_0": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}


@cache
def _serves(name: str) -> bool:
    """Whether a locale writes UTF-8 and the machine has it; bash warns in every output about one it has
    not.
    """
    if "utf8" not in name.lower().replace("-", ""):
        return False
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, name)
    except locale.Error:
        return False
    locale.setlocale(locale.LC_CTYPE, before)
    return True


class NoSandbox:
    """``Commands`` without a sandbox; ``environ`` is what the scrubbed environment is taken from."""

    level = "C"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    @classmethod
    def for_machine(cls) -> NoSandbox:
        """With the environment of this process."""
        return cls(os.environ)

    def argv(self, command: str, *, cwd: Path, workspace: Path, writable: bool, network: bool) -> list[str]:
        """Bash with ``command``, under the reaper. ``writable`` and ``network`` cannot be held to here:
        policy asks instead.

        Raises ``NotConfigured`` where there is no bash outside the workspace.
        """
        bash = find_program("bash", workspace, self._environ.get("PATH"))
        if bash is None:
            raise NotConfigured("sandbox.no_bash", data={"setting": "PATH"})
        # -I and -S: nothing of the workspace or of an environment is imported, and the start takes 10 ms.
        return [
            sys.executable,
            "-I",
            "-S",
            str(_REAPER),
            str(os.getpid()),
            bash,
            "--noprofile",
            "--norc",
            "-c",
            command,
        ]

    def env(self, extra: dict[str, str]) -> dict[str, str]:
        """The environment of a command: where things are, and settings that keep programs from asking; no
        keys.
        """
        kept = {name: self._environ[name] for name in _KEPT if name in self._environ}
        for name in ("LANG", "LC_ALL", "LC_CTYPE"):
            if not _serves(kept.get(name, "")):
                kept.pop(name, None)
        lang = "C.UTF-8" if _serves("C.UTF-8") else "en_US.UTF-8"
        return {"LANG": lang, **kept, **_FIXED, **extra}
