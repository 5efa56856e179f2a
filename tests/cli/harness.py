"""The real command in real processes: with pipes, and in a terminal of its own."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cli.warm import DEADLINE, Warm

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-I", "-m", "maestro_lsp")
_OURS = ("MAESTRO_", "LC_", "LANG", "XDG_", "NO_COLOR", "TERM")


class Cli:
    """`maestro-lsp` in a workspace, with a state folder and a home of its own."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self._warm = warm
        self.workspace = folder / "project"
        self.state = folder / "state"
        self.home = folder / "home"
        for made in (self.workspace, self.home):
            made.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        self.env = {
            **kept,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "MAESTRO_STATE_DIR": str(self.state),
            "MAESTRO_PIECE": "general",
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }
        self._started: list[subprocess.Popen[str] | Screen] = []

    @property
    def user_file(self) -> Path:
        """The user's configuration."""
        path = self.home / ".config" / "maestro-lsp" / "config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def __call__(
        self, *arguments: str | Path, text: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without a terminal."""
        return self._warm.run([*map(str, arguments)], self.workspace, {**self.env, **(env or {})}, text)

    def cold(
        self, *arguments: str | Path, text: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same as `python -I -m maestro_lsp`, from the very start of Python."""
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.workspace,
            env={**self.env, **(env or {})},
            input=text,
            capture_output=True,
            encoding="utf-8",
            timeout=DEADLINE,
        )

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start a command and leave it running, its input and output piped."""
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self._started.append(process)
        return process

    def terminal(self, *arguments: str | Path) -> Screen:
        """Start a command in a terminal of its own."""
        screen = Screen([*map(str, COMMAND), *map(str, arguments)], self.workspace, self.env)
        self._started.append(screen)
        return screen

    def close(self) -> None:
        """End what a failed test left running."""
        for started in self._started:
            started.kill()
            started.wait()
            if isinstance(started, subprocess.Popen):
                for stream in (started.stdin, started.stdout, started.stderr):
                    if stream is not None:
                        stream.close()

    def job(self) -> dict[str, Any]:
        """The newest job of the workspace."""
        return dict(json.loads(self("jobs", "--json").stdout)["jobs"][0])

    def show(self, job_id: str | None = None) -> dict[str, Any]:
        """All of a job (default: the newest)."""
        return dict(json.loads(self("show", job_id or self.job()["jobId"], "--json").stdout))

    def wait_for(self, status: str, wait_reason: str | None = None) -> dict[str, Any]:
        """The newest job, as soon as it has a status."""
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until:
            found = json.loads(self("jobs", "--json").stdout)["jobs"]
            if found and (found[0]["status"], found[0].get("waitReason")) == (status, wait_reason):
                return dict(found[0])
        raise AssertionError(f"no job became {status} ({wait_reason})")


class Screen:
    """A command that believes it talks to a person."""

    def __init__(self, argv: list[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], argv, dict(env))
        self.text = ""
        self._seen = 0
        self._status: int | None = None

    def until(self, wanted: str) -> str:
        """What was shown since the last call, up to and with ``wanted``."""
        until = time.monotonic() + DEADLINE
        while (at := self.text.find(wanted, self._seen)) < 0:
            if not self._read(until - time.monotonic()):
                raise AssertionError(f"{wanted!r} never came:\n{self.text[self._seen :]}")
        shown = self.text[self._seen : at + len(wanted)]
        self._seen = at + len(wanted)
        return shown

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        os.write(self._fd, line.encode() + b"\n")

    def press(self, key: bytes) -> None:
        """Press a key, such as Ctrl-C."""
        os.write(self._fd, key)

    def end(self) -> int:
        """The exit status, when the command has ended."""
        until = time.monotonic() + DEADLINE
        while self._read(until - time.monotonic()):
            pass
        while self._poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        if self._status is None:
            raise AssertionError(f"it did not end:\n{self.text}")
        return self._status

    def kill(self) -> None:
        """End it by force if it still runs."""
        if self._poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait for the end, and hang up."""
        while self._poll() is None:
            time.sleep(0.01)
        os.close(self._fd)

    def _poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, seconds))
        try:
            data = os.read(self._fd, 65536) if ready else b""
        except OSError:
            data = b""
        self.text += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


def one_sentence(stderr: str) -> str:
    """The mistake on stderr: exactly one line that names us, without a traceback."""
    assert stderr.startswith("maestro-lsp: "), stderr
    assert stderr.count("\n") == 1 and stderr.endswith("\n"), stderr
    assert "Traceback" not in stderr
    return stderr.removeprefix("maestro-lsp: ").removesuffix("\n")
