"""After a death anywhere: nothing lost, nothing done twice unnoticed, nothing starts by itself the next
morning.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.limits import Leases
from engine.core.records import Running
from engine.llm.scripted import ScriptReply, call
from engine.processes import boot_id, known_dead, start_time, this_process
from engine.recovery import Fate, judge
from engine.store.sqlite import Database
from tests.engine.killed import run_and_kill
from tests.engine.rig import rig
from tests.engine.test_approvals import ONE

RUNNING = Running("j", "w", 1, "s", "b", lease_until=100.0, fence=1, updated_at=90.0, crashes=0)


@pytest.mark.parametrize(
    ("job", "owner_dead", "now", "fate"),
    [
        (RUNNING, False, 99.0, Fate.LEAVE),
        (RUNNING, True, 99.0, Fate.REQUEUE),
        (RUNNING, False, 101.0, Fate.REQUEUE),
        (RUNNING, True, 691.0, Fate.INTERRUPTED),
        (replace(RUNNING, crashes=2), True, 99.0, Fate.CRASHED),
        (replace(RUNNING, crashes=2), True, 9999.0, Fate.CRASHED),
    ],
)
def test_the_fate_of_a_running_job(job: Running, owner_dead: bool, now: float, fate: Fate) -> None:
    assert judge(job, owner_dead=owner_dead, now=now, leases=Leases()) is fate


def test_a_process_is_known_by_pid_start_and_boot_together() -> None:
    me = this_process("w-1")
    assert not known_dead(me.pid, me.start, me.boot)
    assert known_dead(me.pid, "another start", me.boot)
    assert not known_dead(me.pid, me.start, "another boot"), "another machine, perhaps: its lease decides"


async def test_a_killed_process_is_known_dead() -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    started = start_time(child.pid)
    assert not known_dead(child.pid, started, boot_id())
    child.send_signal(signal.SIGKILL)
    await child.wait()
    assert known_dead(child.pid, started, boot_id())


def orphan(store_file: Path, *, age_s: float = 0.0, crashes: int = 0) -> None:
    """Make the running job look as if its engine had been killed ``age_s`` seconds ago."""
    db = Database(store_file)
    with db.tx():
        db._db.execute(
            "UPDATE jobs SET owner = 'w-dead', owner_pid = 999999, owner_start = '1', owner_boot = ?, "
            "updated_at = ?, counters = json_set(counters, '$.crashes', ?) WHERE status = 'running'",
            (boot_id(), time.time() - age_s, crashes),
        )
    db.close()


async def test_a_job_of_a_dead_engine_goes_on_with_the_same_messages(tmp_path: Path) -> None:
    """The claim and the journal are written by one engine that is then killed for real, in a process of its
    own.
    """
    gate = tmp_path / "gate"

    def script(request):  # type: ignore[no-untyped-def]
        if request.results("Write"):
            if not gate.exists():
                return ScriptReply(text="slow", delay=30.0)
            return call("complete", status="success", result="done")
        return call("Write", file_path="b.txt", content="b\n")

    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False) as it:
        job = await it.start(piece="one")
        await run_and_kill(it, lambda: len(it.server.requests) >= 2)
        assert (await it.client.show(job)).status == "running"
        gate.touch()
        await it.engine()
        end = await it.until_rest(job)
        assert end.status == "succeeded"
        _, second, third = it.bodies()
        assert second["messages"] == third["messages"], (
            "the restored request is the interrupted one, message for message"
        )
        results = [event for event in await it.client.events(job) if event["kind"] == "tool_result"]
        assert len(results) == 1, "the finished call is not run twice"
        assert [m.name for m in end.movements] == ["work"]


@pytest.mark.parametrize(
    ("age_s", "crashes", "reason"),
    [(3600.0, 0, "interrupted"), (0.0, 2, "crashed")],
    ids=["an old one", "a poisoned one"],
)
async def test_some_jobs_ask_before_they_go_on(
    tmp_path: Path, age_s: float, crashes: int, reason: str
) -> None:
    gate = tmp_path / "gate"

    def script(request):  # type: ignore[no-untyped-def]
        return (
            call("complete", status="success", result="done")
            if gate.exists()
            else ScriptReply(text="slow", delay=30.0)
        )

    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False) as it:
        job = await it.start(piece="one")
        await run_and_kill(it, lambda: len(it.server.requests) >= 1)
        orphan(it.client.store_file, age_s=age_s, crashes=crashes)
        gate.touch()
        await it.engine()
        request = await it.open_request(job)
        assert request.reason == reason
        assert len(it.bodies()) == 1, "nothing was sent before the person agreed"
        await it.client.decide(request.request_id, "allow")
        assert (await it.until_rest(job)).status == "succeeded"


async def test_denying_to_go_on_cancels_the_job(tmp_path: Path) -> None:
    async with rig(
        tmp_path, [ScriptReply(text="slow", delay=30.0)], pieces={"one": ONE}, start_engine=False
    ) as it:
        job = await it.start(piece="one")
        await run_and_kill(it, lambda: len(it.server.requests) >= 1)
        orphan(it.client.store_file, age_s=3600.0)
        await it.engine()
        request = await it.open_request(job)
        await it.client.decide(request.request_id, "deny")
        assert (await it.client.show(job)).status == "cancelled"


async def test_a_write_that_was_cut_off_is_settled_by_its_hash(tmp_path: Path) -> None:
    """Intent committed, file written, result not: the file says that it happened, so it is not written
    again.
    """

    def script(request):  # type: ignore[no-untyped-def]
        if request.results("Write"):
            return call("complete", status="success", result=request.last_result("Write"))
        return call("Write", file_path="b.txt", content="b\n")

    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False) as it:
        job = await it.start(piece="one")
        await run_and_kill(it, None, crash_at="effect:Write")
        assert (it.workspace / "b.txt").read_text() == "b\n"
        await it.engine()
        end = await it.until_rest(job)
        assert end.status == "succeeded" and "carried out" in (end.result or "")


async def test_a_command_that_was_cut_off_is_reported_as_unknown_and_not_run_again(tmp_path: Path) -> None:
    def script(request):  # type: ignore[no-untyped-def]
        if request.results("Bash"):
            return call("complete", status="success", result=request.last_result("Bash"))
        return call("Bash", command="echo x >> effects.txt")

    piece = ONE.replace("[Read, Write, Edit]", "[Read, Bash]")
    async with rig(tmp_path, script, pieces={"one": piece}, start_engine=False, mode="ask") as it:
        job = await it.start(piece="one")
        await it.engine()
        request = await it.open_request(job)
        await it.stop()
        await it.client.decide(request.request_id, "allow")
        await run_and_kill(it, None, crash_at="effect:Bash")
        assert (it.workspace / "effects.txt").read_text() == "x\n"
        await it.engine()
        end = await it.until_rest(job)
        assert "not known" in (end.result or "")
        assert (it.workspace / "effects.txt").read_text() == "x\n"


async def test_what_a_cut_off_write_left_beside_its_file_is_removed(tmp_path: Path) -> None:
    def script(request):  # type: ignore[no-untyped-def]
        if request.results("Write"):
            return call("complete", status="success", result="done")
        return call("Write", file_path="b.txt", content="b\n")

    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False) as it:
        job = await it.start(piece="one")
        await run_and_kill(it, None, crash_at="effect:Write")
        (call_id,) = [e["callId"] for e in await it.client.events(job) if e["kind"] == "tool_call"]
        (it.workspace / f".maestro-{call_id}-0badf00d.tmp").write_text("half of b")
        await it.engine()
        await it.until_rest(job)
        assert [path.name for path in it.workspace.iterdir() if path.is_file()] == ["b.txt"]
        assert [change.path for change in await it.client.changes(job)] == ["b.txt"]
