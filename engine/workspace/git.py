"""The engine's own git, which runs nothing that a repository brings.

The configuration of a repository that somebody else made can name programs: ``git status`` runs a file
monitor, hooks and filters, ``git diff`` those and external diffs. Each is switched off by name here, for git
has no option to leave the repository's own configuration unread; filters by the names that it defines. The
person's own configuration holds as always. Nothing is fetched, nobody is asked, no other repository is
looked at (embedded ones, submodules, those above the workspace).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.workspace.facts import find_program
from engine.workspace.paths import is_inside

DEADLINE_S = 5.0
_MOST = 1 << 20
_END_S = 0.5
_OWN_SCOPES = ("local", "worktree")

_KEPT = (
    "HOME",
    "XDG_CONFIG_HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
)
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
}
_OFF = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "core.alternateRefsCommand=",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "color.ui=false",
    "core.quotePath=false",
    "i18n.commitEncoding=utf-8",
    "user.useConfigOnly=true",
)


@dataclass(frozen=True, slots=True)
class Ran:
    """A git command that was run: its exit status, its output (``cut``: only the first of it) and what it
    complained of.
    """

    status: int
    out: bytes
    err: str
    cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked to."""
        return self.status == 0

    def fields(self) -> list[str]:
        """The output of a command that was run with ``-z``."""
        return [os.fsdecode(one) for one in self.out.split(b"\0") if one]


@dataclass(frozen=True, slots=True)
class Repository:
    """The git repository whose top the workspace is. ``filters`` are those that its own configuration
    defines: they are not run.
    """

    root: Path
    folder: Path
    program: str
    filters: frozenset[str] = frozenset()

    async def git(
        self,
        *words: str,
        stdin: bytes | None = None,
        literal: bool = True,
        seconds: float = DEADLINE_S,
        most: int = _MOST,
    ) -> Ran:
        """Run ``git <words>`` at the root. ``literal``: paths among the words are no patterns. Status -1: it
        took longer than ``seconds``, or could not be started.
        """
        off = [*_OFF, *(f"filter.{name}.{key}" for name in sorted(self.filters) for key in _FILTER_OFF)]
        settings = [word for setting in off for word in ("-c", setting)]
        env = git_env(self.root, os.environ) | ({"GIT_LITERAL_PATHSPECS": "1"} if literal else {})
        return await _run(
            [self.program, "--no-pager", *settings, *words], self.root, env, stdin, seconds, most
        )


_FILTER_OFF = ("clean=", "smudge=", "process=", "required=false")


async def open_repository(workspace: Path) -> Repository | None:
    """The repository whose top ``workspace`` is; None without one, without git, and where its configuration
    cannot be read or made harmless.
    """
    bare = await asyncio.to_thread(_found, workspace)
    if bare is None:
        return None
    told = await bare.git("rev-parse", "--show-toplevel", "--absolute-git-dir")
    places = await asyncio.to_thread(_real, os.fsdecode(told.out).splitlines())
    if not told.ok or len(places) != 2 or places[0] != bare.root:
        return None
    config = await bare.git("config", "--list", "-z", "--show-scope", "--includes")
    filters = _own_filters(config.fields()) if config.ok and not config.cut else None
    if filters is None:
        return None
    return replace(bare, folder=places[1], filters=filters)


def _found(workspace: Path) -> Repository | None:
    root = Path(os.path.realpath(workspace))
    program = find_program("git", root) if os.path.lexists(root / ".git") else None
    return None if program is None else Repository(root, root / ".git", program)


def _real(paths: Sequence[str]) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]


def _own_filters(fields: Sequence[str]) -> frozenset[str] | None:
    """The filters that a repository's own configuration defines; None if one has a name that cannot be
    switched off on a command line.
    """
    names: set[str] = set()
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        key = entry.split("\n", 1)[0]
        if scope in _OWN_SCOPES and key.startswith("filter."):
            names.add(key.removeprefix("filter.").rpartition(".")[0])
    return None if any("=" in name or not name.isprintable() for name in names) else frozenset(names)


def git_env(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a git command: where the person's configuration is, and programs that are not the
    workspace's own.
    """
    path = [
        folder
        for folder in environ.get("PATH", os.defpath).split(os.pathsep)
        if Path(folder).is_absolute() and not is_inside(root, Path(os.path.realpath(folder)))
    ]
    kept = {name: environ[name] for name in _KEPT if name in environ}
    return {
        **kept,
        **_FIXED,
        "PATH": os.pathsep.join(path),
        "GIT_CEILING_DIRECTORIES": str(root.parent),
    }


async def _run(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes | None,
    seconds: float,
    most: int,
) -> Ran:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except OSError as fault:
        return Ran(-1, b"", str(fault))
    assert process.stdout is not None and process.stderr is not None
    complaint = asyncio.create_task(_first(process.stderr, 1 << 16))
    feeding = asyncio.create_task(_feed(process.stdin, stdin or b""))
    try:
        async with asyncio.timeout(seconds):
            out = await _first(process.stdout, most + 1)
            if len(out) > most:
                return Ran(0, out[:most], "", cut=True)
            err = await complaint
            status = await process.wait()
    except TimeoutError:
        return Ran(-1, b"", f"git took longer than {seconds:g} seconds")
    finally:
        for task in (feeding, complaint):
            task.cancel()
        await asyncio.gather(feeding, complaint, return_exceptions=True)
        await _end(process)
    return Ran(status, out, err.decode("utf-8", "replace").strip())


async def _feed(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.write(data)
            await stream.drain()
        stream.close()


async def _first(stream: asyncio.StreamReader, most: int) -> bytes:
    parts, size = [], 0
    while size < most and (data := await stream.read(1 << 16)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing running (told first, so that git removes its locks), and nothing unread that would keep
    the pipes.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                for stream in (process.stdout, process.stderr):
                    while stream is not None and await stream.read(1 << 16):
                        pass
                await process.wait()
                return
