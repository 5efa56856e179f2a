"""The same search by ``rg``, where the machine has it. What it reports is held against our own rules, line
by line.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Iterator

from engine.core.secrets import is_secret_path
from engine.tools.finding import LARGEST, LONGEST_LINE, Query, Report, Stop, excerpt
from engine.tools.processes import unbroken
from engine.tools.textio import detect, shown

_CHUNK = 1 << 16
_OPTIONS = [
    "--no-config",
    "--no-messages",
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--null",
    "--hidden",
    "--crlf",
    "--sort=path",
    "--no-ignore-dot",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-ignore-parent",
    "--no-require-git",
]
_LINE = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_BINARY = re.compile(rb"binary file matches \(found")


async def ripgrep(program: str, query: Query, report: Report, stop: Stop) -> bool:
    """Search into ``report``; False if ``rg`` does not take the pattern. The process never outlives the call.

    Raises ``OSError`` if it cannot be started.
    """
    process = await unbroken(
        asyncio.create_subprocess_exec(
            program,
            *_arguments(query),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=query.root,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
    )
    try:
        async with asyncio.timeout(stop.seconds):
            await _read(process, query, report)
            return report.full() or await _took_pattern(process)
    except TimeoutError:
        stop.late = True
        return True
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await unbroken(process.wait())


def _arguments(query: Query) -> list[str]:
    mode = {"files_with_matches": ["--files-with-matches"], "count": ["--count"]}
    lines = [
        "--line-number",
        f"--context={query.context}",
        f"--max-columns={LONGEST_LINE}",
        "--max-columns-preview",
    ]
    rules = [] if query.ignores is not None else ["--no-ignore"]
    names = [f"--glob={query.names}"] if query.names else []
    tasks = [] if query.start.startswith(".maestro/tasks") else ["--glob=!/.maestro/tasks"]
    return [
        *_OPTIONS,
        *mode.get(query.mode, lines),
        *rules,
        *names,
        "--glob=!.git",
        *tasks,
        f"--max-filesize={LARGEST}",
        "--",
        query.pattern,
        query.start or ".",
    ]


async def _took_pattern(process: asyncio.subprocess.Process) -> bool:
    assert process.stderr is not None
    said = await process.stderr.read(_CHUNK)
    return not (await process.wait() == 2 and b"regex" in said)


async def _read(process: asyncio.subprocess.Process, query: Query, report: Report) -> None:
    assert process.stdout is not None
    names_only = query.mode == "files_with_matches"
    rest = b""
    wanted: dict[bytes, str | None] = {}
    while not report.full() and (data := await process.stdout.read(_CHUNK)):
        *records, rest = (rest + data).split(b"\0" if names_only else b"\n")
        for name, found in ((record, b"") for record in records) if names_only else _named(records):
            if report.full():
                break
            if name not in wanted:
                wanted[name] = _wanted(query, report, name)
            if (relative := wanted[name]) is not None:
                _take(query, report, relative, found)


def _named(lines: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Each line as the name of its file and what follows; a name may hold line feeds itself."""
    begun: list[bytes] = []
    for line in lines:
        name, null, found = line.partition(b"\0")
        if null:
            yield b"\n".join([*begun, name]), found
            begun = []
        elif (line.rstrip(b"\r") != b"--" or begun) and not _BINARY.search(line):
            begun.append(line)


def _wanted(query: Query, report: Report, name: bytes) -> str | None:
    """The path of a file as we say it, or None if by our rules it is not searched."""
    relative = os.fsdecode(name).removeprefix("./")
    if query.single:
        return relative
    if not query.wants(relative) or (query.ignores is not None and query.ignores.ignored(relative)):
        return None
    if is_secret_path(relative.split("/")):
        report.secrets += 1
        return None
    return relative


def _take(query: Query, report: Report, relative: str, found: bytes) -> None:
    if query.mode == "files_with_matches":
        report.file(relative)
    elif query.mode == "count":
        report.file(relative, int(found))
    elif match := _LINE.fullmatch(found.removesuffix(b"\r")):
        report.line(relative, int(match[1]), excerpt(_text(match[3]), 0), hit=match[2] == b":")


def _text(data: bytes) -> str:
    """One line of a file whose encoding nobody told us."""
    charset = detect(data)
    return (
        data.decode("utf-8", "replace")
        if charset is None
        else shown(charset.decode(data[len(charset.bom) :]))
    )
