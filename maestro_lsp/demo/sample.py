"""The sample project of the demo: a shop whose prices come out as fractions of a yen."""

from __future__ import annotations

import asyncio
import re
import sys
from importlib.resources import files
from pathlib import Path

_TEST_S = 60.0
_SUMMARY = re.compile(r"^Ran \d+ tests? in .*$", re.MULTILINE)


def make_sample(folder: Path) -> list[str]:
    """Write the sample into a new folder; the names of its files."""
    folder.mkdir(parents=True)
    names = []
    for entry in sorted(files("maestro_lsp.demo").joinpath("sample").iterdir(), key=lambda entry: entry.name):
        # Not *.py in our own tree: no linter, type checker or test runner shall take them for ours.
        name = entry.name.removesuffix(".txt")
        (folder / name).write_bytes(entry.read_bytes())
        names.append(name)
    return names


async def run_tests(folder: Path) -> tuple[bool, str]:
    """Run the sample's tests; whether they pass, and what they say in one line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "unittest",
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, told = await asyncio.wait_for(process.communicate(), _TEST_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = told.decode(errors="replace")
    ran = _SUMMARY.search(text)
    last = (text.strip().splitlines() or [""])[-1]
    return process.returncode == 0 and ran is not None, f"{ran[0]}, {last}" if ran else last
