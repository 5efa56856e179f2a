"""Nothing a command started outlives it, its job or the engine: not by any trick that programs know."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.processes import MARK as MARK_NAME
from engine.processes import CommandMarks
from tests.tools.shells import ENGINE, HEARTBEAT, MARK, ROOT, Shell, alive, nap, notes, unnumbered, until
from tests.tools.world import World

DAEMON = f"""
import os, signal, subprocess, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.closerange(0, 3)
os.execvp("bash", ["bash", "-c", {HEARTBEAT!r}])
"""
WAYS = [
    HEARTBEAT,
    f"exec bash -c '{HEARTBEAT}'",
    f"nohup bash -c '{HEARTBEAT}' >/dev/null 2>&1 & disown; wait; sleep 60",
    f"trap '' TERM INT HUP; {HEARTBEAT}",
    f"python3 daemon.py; echo up > told; {nap(70)}",
    f"coproc bash -c '{HEARTBEAT}'; {nap(70)}",
    f"bash -c '{HEARTBEAT}' & {nap(70)} & {nap(70)} & wait",
    f"set -m; bash -c '{HEARTBEAT}' & {nap(70)}",
    f"env -i /bin/bash -c '{HEARTBEAT}' & {nap(70)}",
    f"kill -STOP $PPID; {HEARTBEAT}",
    f"(exec >&- 2>&-; {HEARTBEAT}) & {nap(70)}",
    "hop() { date >> beat; ( hop & ); }; " + f": {MARK}; hop; {nap(70)}",
]


def gone() -> bool:
    return alive(MARK) == [] and alive(nap(70)) == []


async def beating(world: World) -> None:
    await until((world.root / "beat").exists, 15.0)


@pytest.mark.fault("D: cancel leaves children")
@pytest.mark.fault("I7")
@pytest.mark.parametrize("command", WAYS, ids=unnumbered)
async def test_after_a_cancel_nothing_is_left(shell: Shell, command: str) -> None:
    shell.world.write("daemon.py", DAEMON)
    task = asyncio.create_task(shell(command))
    await beating(shell.world)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone()
    assert list(notes(shell.world).iterdir()) == []


@pytest.mark.fault("D: cancel leaves children", neighbour=True)
@pytest.mark.parametrize(
    ("command", "end"),
    [
        (WAYS[4], "the deadline"),
        (WAYS[2], "the job's end"),
        (WAYS[4], "the engine's end"),
        (WAYS[2], "BashStop"),
    ],
    ids=unnumbered,
)
async def test_nothing_is_left_however_it_ends(shell: Shell, command: str, end: str) -> None:
    shell.world.write("daemon.py", DAEMON)
    match end:
        case "the deadline":
            await shell(f"{{ {command}\n}}", timeout=1500)
            assert (shell.world.root / "beat").exists()
        case _:
            await shell(command, background=True)
            await beating(shell.world)
            if end == "BashStop":
                await shell.world.call(shell.stop, id="bash-1")
            else:
                await (
                    shell.registry.end_all(shell.world.job)
                    if end == "the job's end"
                    else shell.registry.end_everything()
                )
    assert gone()


async def test_a_command_may_end_its_own_group(shell: Shell) -> None:
    result = await shell("trap 'exit 7' TERM; sleep 60 & kill 0; wait")
    assert "[exit status 7]" in result.text


async def test_setsid_stays_in_the_foreground(shell: Shell) -> None:
    assert (await shell("setsid echo here")).text.startswith("here\n")


@pytest.mark.parametrize(
    "trick",
    ["kill -9 $PPID", "kill -9 $PPID; setsid", f"(setsid {nap(71)} &); kill -9 $PPID;"],
    ids=unnumbered,
)
async def test_a_command_that_kills_its_reaper_leaves_nothing_all_the_same(shell: Shell, trick: str) -> None:
    result = await shell(f"(setsid {nap(71)} &); {nap(71)} & {trick} {nap(71)}")
    assert "SIGKILL" in result.text
    assert alive(nap(71)) == []


def engine_with(world: World, command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", ENGINE, str(ROOT), str(world.root), command])


def reapers_of(engine: int) -> list[int]:
    return alive(f"reaper.py {engine} ")


@pytest.mark.fault("D: cancel leaves children")
async def test_of_an_engine_killed_together_with_its_reapers_the_next_one_ends_what_is_left(
    world: World,
) -> None:
    command = f"(setsid bash -c \"trap '' TERM; {HEARTBEAT}\" &) ; {nap(70)}"
    engine = engine_with(world, command)
    try:
        await beating(world)
        os.kill(engine.pid, signal.SIGSTOP)
        for reaper in reapers_of(engine.pid):
            os.kill(reaper, signal.SIGKILL)
    finally:
        engine.kill()
        engine.wait()
    assert not gone(), "else there is nothing to show"
    marks = CommandMarks(notes(world))
    assert len(list(notes(world).iterdir())) == 1
    await asyncio.to_thread(marks.end_left)
    assert gone()
    assert list(notes(world).iterdir()) == []


async def test_the_commands_of_a_living_engine_are_left_alone(world: World, shell: Shell) -> None:
    await shell(nap(72), background=True)
    await until(lambda: alive(nap(72)) != [])
    await asyncio.to_thread(CommandMarks(notes(world)).end_left)
    assert alive(nap(72)) != [] and len(list(notes(world).iterdir())) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"pid": "x"}', b'{"pid": 1, "start": "", "boot": "another"}', b"\xff" * 100],
)
def test_a_note_that_is_none_or_of_another_boot_ends_nobody(tmp_path: Path, content: bytes) -> None:
    mark = "0" * 32
    (tmp_path / mark).write_bytes(content)
    bearer = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK_NAME: mark})
    try:
        CommandMarks(tmp_path).end_left()
        assert bearer.poll() is None
    finally:
        bearer.kill()
        bearer.wait()


def test_only_who_bears_the_very_mark_is_ended(tmp_path: Path) -> None:
    marks = CommandMarks(tmp_path)
    mark = marks.new()
    bearers = [
        subprocess.Popen(["sleep", "60"], env={**os.environ, MARK_NAME: value})
        for value in (mark, mark + "0", mark[:-1], "")
    ]
    try:
        marks.ended(mark, look=True)
        assert bearers[0].wait(10) == -signal.SIGKILL
        assert [bearer.poll() for bearer in bearers[1:]] == [None] * 3
        assert list(tmp_path.iterdir()) == []
    finally:
        for bearer in bearers:
            bearer.kill()
            bearer.wait()


async def test_where_no_note_can_be_kept_commands_run_all_the_same(world: World, shell: Shell) -> None:
    notes(world).write_text("a file where the folder should be")
    assert (await shell("echo fine")).text.startswith("fine\n")
    await asyncio.to_thread(CommandMarks(notes(world)).end_left)


async def test_twenty_commands_start_while_the_event_loop_goes_on(shell: Shell) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticker = asyncio.create_task(tick())
    results = await asyncio.gather(*(shell(f"echo {number}; sleep 0.2") for number in range(20)))
    ticker.cancel()
    assert [result.text.split("\n")[0] for result in results] == [str(number) for number in range(20)]
    assert ticks > 100, "it was blocked most of the time"


async def test_a_command_leaves_no_core_dump_and_goes_before_the_engine_if_memory_runs_out(
    shell: Shell,
) -> None:
    text = (await shell("ulimit -c; cat /proc/self/oom_score_adj; ulimit -Hc")).text
    assert text.split("\n")[:2] == ["0", "500"]
