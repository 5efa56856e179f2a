"""A command of a job under a real server: it cannot touch the protocol, and nothing of it lives longer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.lsp.driver import WITHIN, Editor, Place, alive, editor
from tests.lsp.pieces import put_pieces
from tests.lsp.tiny import until
from tests.tools.shells import HEARTBEAT, MARK
from tests.tools.shells import alive as bearing

pytestmark = pytest.mark.slow

STUBBORN = f"(setsid bash -c \"trap '' TERM HUP; {HEARTBEAT}\" &) ; bash -c '{HEARTBEAT}'"


@contextmanager
def running(place: Place, command: str) -> Iterator[None]:
    """A model that has this command run, and ends the job with its result."""

    def script(request: ScriptRequest) -> ScriptReply:
        if not request.results("Bash"):
            return call("Bash", command=command, description="work long")
        return call("complete", status="success", result=request.last_result("Bash"))

    put_pieces(place)
    with serve_in_thread(script) as model:
        place.endpoint = model.base_url
        yield


async def beating(it: Editor) -> int:
    """The job whose command runs; the engine process."""
    await it.start(piece="one")
    it.choose(await it.question(), "Allow once")
    await until((it.place.workspace / "beat").exists, within=WITHIN)
    return await it.engine_pid()


@pytest.mark.fault("D: cancel leaves children")
@pytest.mark.parametrize(
    "way", ["cancel", "shutdown", "eof", "kill -9 of the server", "kill -9 of the engine"]
)
async def test_no_process_outlives_the_job_or_the_server(place: Place, way: str) -> None:
    with running(place, STUBBORN):
        async with editor(place) as it:
            engine = await beating(it)
            match way:
                case "cancel":
                    job = (await it.command("task.list"))["jobs"][0]["jobId"]
                    await it.command("task.cancel", jobId=job)
                case "shutdown":
                    assert await it.client.shut_down(within=5.0) == 0
                case "eof":
                    it.client.close_stdin()
                case "kill -9 of the server":
                    it.client.kill()
                case _:
                    os.kill(engine, signal.SIGKILL)
            await until(lambda: bearing(MARK) == [], within=5.0)


async def test_of_an_engine_that_was_killed_with_its_reaper_the_next_one_ends_the_commands(
    place: Place,
) -> None:
    with running(place, f"(setsid bash -c \"trap '' TERM HUP; {HEARTBEAT}\" &) ; sleep 60"):
        async with editor(place) as it:
            engine = await beating(it)
            os.kill(engine, signal.SIGSTOP)
            reapers = bearing(f"reaper.py {engine} ")
            assert reapers
            for reaper in reapers:
                os.kill(reaper, signal.SIGKILL)
            assert bearing(MARK) != []
            os.kill(engine, signal.SIGKILL)
            await it.changed((await it.command("task.list"))["jobs"][0]["jobId"], "succeeded")
            assert bearing(MARK) == [], "ended before the job goes on"
            assert not alive(engine)


SCRIBBLE = """
for pid in self $PPID; do
    for fd in $(seq 0 255); do
        { printf 'Content-Length: 2\\r\\n\\r\\n{}' >/proc/$pid/fd/$fd; } 2>/dev/null
    done
done
cat
touch beat
"""


@pytest.mark.fault("D: child waits for stdin", neighbour=True)
async def test_a_command_that_writes_to_every_descriptor_does_not_get_into_the_protocol(
    place: Place,
) -> None:
    with running(place, SCRIBBLE):
        async with editor(place) as it:
            await beating(it)
            job = (await it.command("task.list"))["jobs"][0]["jobId"]
            await it.until(job, "succeeded")
            assert all("method" in message or "id" in message for message in it.client.messages)
