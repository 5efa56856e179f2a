"""Which files hold a needle, asked of ``rg`` where the machine has it.

The files are named to it one by one, so no rule of its own counts, and it looks for bytes, so no dialect of
regular expressions and no encoding comes between: it only saves us from opening what cannot match.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from engine.tools.finding import Stop
from engine.tools.needle import Needle
from engine.tools.processes import unbroken

# What a command line may hold: 32 Ki characters on Windows, a quarter of a megabyte on every other system.
_ARGUMENTS = 24_000 if os.name == "nt" else 200_000
_FIRST = 200
_OPTIONS = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--files-with-matches",
    "--null",
    "--text",
    "--encoding=none",
    "--no-ignore",
    "--hidden",
)


def batches(names: Iterator[str]) -> Iterator[list[str]]:
    """The names in rows that fit a command line; the first is short, for many searches are full after it."""
    most = _FIRST
    row: list[str] = []
    size = 0
    for name in names:
        row.append(name)
        size += len(os.fsencode(name)) + 11
        if len(row) >= most or size > _ARGUMENTS:
            yield row
            row, size, most = [], 0, _ARGUMENTS
    if row:
        yield row


async def holding(program: str, root: Path, names: list[str], needle: Needle, stop: Stop) -> list[str]:
    """Those of the files (relative to ``root``) that may hold the needle, in their order.

    Where ``rg`` could not look at a file or will not start, that is all of them. The process never outlives
    the call.
    """
    try:
        process = await unbroken(
            asyncio.create_subprocess_exec(
                program,
                *_OPTIONS,
                f"--regexp={_expression(needle)}",
                "--",
                *(f"./{name}" for name in names),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=root,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
        )
    except OSError:
        return names
    try:
        async with asyncio.timeout(max(0.0, stop.left())):
            said, _ = await process.communicate()
    except TimeoutError:
        stop.late = True
        return []
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await unbroken(process.wait())
    if process.returncode not in (0, 1):
        return names
    held = {os.fsdecode(name).removeprefix("./") for name in said.split(b"\0")}
    return [name for name in names if name in held]


def _expression(needle: Needle) -> str:
    forms = "|".join("".join(_byte(byte) for byte in form) for form in needle.forms)
    return f"(?{'i' if needle.folded else ''}-u:{forms})"


def _byte(byte: int) -> str:
    return chr(byte) if byte < 0x80 and chr(byte).isalnum() else f"\\x{byte:02x}"
