"""However much a command writes, and whatever it is: little memory, a readable result, the whole on disk."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.core.truncate import estimate_tokens
from engine.tools.processes import OutputLog
from tests.tools.shells import ROOT, Shell, until
from tests.tools.world import World

NAMED = re.compile(r"\[… ([\d,]+) bytes left out\. (.+?) in (\S+?)(?: \((.+)\))?: look into it")


def log_of(shell: Shell, text: str) -> Path:
    """The file that a result names."""
    found = NAMED.search(text)
    assert found, text[-600:]
    return shell.world.root / found[3]


MEASURED = """
import asyncio, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.tools.shells import shell_in
from tests.tools.world import World

class Nothing(list):
    def append(self, item): pass

async def main():
    world = World(Path(sys.argv[2]), timeout_s=50, emitted=Nothing())
    shell = shell_in(world)
    await shell("echo warm; seq 1 100000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for command in sys.argv[3:]:
        result = await shell(command)
        assert result.truncated, result.text[-500:]
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.fault("D: megabytes of output")
def test_no_kind_of_output_takes_memory(world: World) -> None:
    """Lines, one line without end, noise, progress, colours, old Japanese, and a sequence that never ends."""
    commands = [
        "yes | head -c 40M",
        "head -c 40M /dev/zero | tr '\\0' x",
        "head -c 10M /dev/urandom",
        "yes $'\\e[31mred\\e[0m' | head -c 10M >&2",
        "yes $'\\x93\\xfa\\x96\\x7b\\x8c\\xea\\x82\\xcc' | head -c 1M",
        "seq 1 60000; printf '\\e]0;'; head -c 10M /dev/zero | tr '\\0' x",
        "seq 1 60000; yes '日本語' | tr '\\n' '\\r' | head -c 5M; seq 1 60000",
    ]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(ROOT), str(world.root), *commands],
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8 << 10, "KiB more than for a short output"


@pytest.mark.fault("D: megabytes of output")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"for i in $(seq 100); do printf '\r\033[K%3d%%' $i; done; echo; echo done", "100%\ndone\n"),
        (r"for i in $(seq 100); do printf '%3d%%\r' $i; done; echo; echo done", "100%\ndone\n"),
        (r"printf 'a\0b \377\376 \033[1mbold\033[0m\n'", "a\ufffdb \ufffd\ufffd bold\n"),
        (r"printf '\343\201\202\343\201\n'", "あ\ufffd\n"),
        (r"printf 'cut \343\201'", "cut \ufffd\n"),
        ("echo 日本語のテスト | iconv -t SHIFT_JIS", "日本語のテスト\n"),
        ("echo 日本語のテスト | iconv -t EUC-JP", "日本語のテスト\n"),
        ("echo 日本語のテスト | iconv -t UTF-16; echo plain", "日本語のテスト\nplain\n"),
    ],
)
async def test_what_is_shown_can_be_read(shell: Shell, command: str, shown: str) -> None:
    result = await shell(command)
    assert result.text == f"{shown}[exit status 0]"
    result.text.encode()


@pytest.mark.fault("D: megabytes of output")
async def test_binary_data_is_named_and_hardly_shown(shell: Shell) -> None:
    result = await shell("head -c 300000 /dev/urandom; echo; echo the end")
    assert "This is no text" in result.text and "the end\n" in result.text
    assert estimate_tokens(result.text) < 500
    assert log_of(shell, result.text).exists()


@pytest.mark.fault("D: megabytes of output", neighbour=True)
async def test_progress_does_not_eat_the_room_of_what_matters(shell: Shell) -> None:
    shell.world.budget = 1000
    result = await shell(
        "echo begin; for i in $(seq 20000); do printf '\\rfetched %d of 20000' $i; done; echo; echo error: no"
    )
    assert result.text == "begin\nfetched 20000 of 20000\nerror: no\n[exit status 0]"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The disk is full for whoever writes more into one file."""
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.fault("D: megabytes of output", neighbour=True)
async def test_a_disk_that_fills_up_costs_the_rest_of_the_log_and_nothing_else(shell: Shell) -> None:
    with files_of_at_most(4 << 20):
        result = await shell("seq 1 1000000; echo the end; exit 3")
    assert "the end\n[exit status 3]" in result.text
    assert (
        "The first 4,194,304 bytes of the output are in" in result.text and "(File too large)" in result.text
    )
    log = log_of(shell, result.text)
    assert log.stat().st_size == 4 << 20 and log.read_text().startswith("1\n2\n")


async def test_a_log_that_is_capped_ends_between_two_characters(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = OutputLog(world.root, world.task, "call-1")
    await log.write("x" * ((64 << 20) - 4))
    await log.write("日本語")
    assert not log.complete and log.kept == (64 << 20) - 1
    log.close()
    assert log.path is not None
    with log.path.open("rb") as file:
        file.seek(-10, 2)
        assert file.read().decode().endswith("x日")


async def test_a_hint_leads_to_what_was_left_out(shell: Shell) -> None:
    """Followed to its end with the tools it names, it gives the whole."""
    shell.world.budget = 1000
    result = await shell("seq -f 'line %g of the output' 1 3000")
    name = log_of(shell, result.text).relative_to(shell.world.root)
    middle = await shell(f"sed -n '1500,1505p' {name}")
    assert middle.text.startswith("line 1500 of the output\n") and not middle.truncated
    assert "3000\n" in (await shell(f"wc -l < {name}")).text


@pytest.mark.fault("D: megabytes of output")
@pytest.mark.parametrize("budget", [1000, 60_000])
async def test_the_budget_holds_with_all_notes(shell: Shell, budget: int) -> None:
    shell.world.budget = budget
    for number in range(30):
        shell.world.open(f"とても長い名前の資料/{'保存していない' * 9}{number}.md", "x")
    result = await shell("yes 日本語の出力 | head -n 100000; exit 139")
    assert estimate_tokens(result.text) <= budget
    assert "Not saved in the editor" in result.text and "and 20 more" in result.text
    assert "SIGSEGV" in result.text


# --- background -------------------------------------------------------------------------------------


async def said(shell: Shell) -> str:
    return (await shell.world.call(shell.output, id="bash-1")).text


async def test_what_a_background_command_wrote_without_a_line_end_is_shown_once(shell: Shell) -> None:
    os.mkfifo(shell.world.root / "never")
    await shell("printf 'listening on 8080'; read x < never; printf ' no more'", background=True)
    assert await said(shell) == "listening on 8080\n[bash-1: still running]"
    await asyncio.to_thread((shell.world.root / "never").write_text, "\n")
    assert (await said(shell)).startswith(" no more\n[bash-1: ")


async def test_background_output_is_live_and_each_look_moves_forward(shell: Shell) -> None:
    shell.world.timeout_s = 0.05
    await shell("for i in $(seq 40); do echo tick $i; sleep 0.02; done", background=True)
    texts: list[str] = []
    while "exit status" not in "".join(texts[-1:]):
        texts.append(await said(shell))
    ticks = re.findall(r"tick (\d+)", "".join(texts))
    assert ticks == [str(number) for number in range(1, 41)]
    assert len(texts) > 2 and "tick 40\n" in "".join(shell.world.emitted)
    assert await said(shell) == "(nothing new)\n[bash-1: exit status 0]"


@pytest.mark.fault("D: megabytes of output", neighbour=True)
async def test_of_much_background_output_each_look_names_the_file_with_all_of_it(shell: Shell) -> None:
    shell.world.budget = 1000
    await shell("seq 1 50000; echo half; seq 50001 100000", background=True)
    await until(lambda: "100000" in "".join(shell.world.emitted[-3:]), 15.0)
    text = await said(shell)
    log = log_of(shell, text)
    lines = log.read_text().split("\n")
    assert lines[0] == "1" and lines[50_000] == "half" and lines[100_000] == "100000"


async def test_a_job_may_start_many_commands_one_after_the_other(shell: Shell) -> None:
    for number in range(1, 26):
        await shell("true", background=True)
        await shell.world.call(shell.stop, id=f"bash-{number}")
    unknown = await shell.world.call(shell.output, id="bash-99")
    assert unknown.is_error and "bash-25 (true)" in unknown.text and "bash-5 (true)" not in unknown.text


async def test_two_looks_at_once_lose_nothing_and_show_nothing_twice(shell: Shell) -> None:
    await shell("for i in $(seq 2000); do echo tick $i; done", background=True)
    texts: list[str] = []
    while "exit status" not in "".join(texts[-2:]):
        texts += await asyncio.gather(said(shell), said(shell))
    texts.append(await said(shell))
    ticks = sorted(int(number) for number in re.findall(r"tick (\d+)\n", "".join(texts)))
    assert ticks == list(range(1, 2001))
