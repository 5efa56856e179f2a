"""The cache law: what is sent is append-only within a movement, the tools array and the prefix are
byte-stable over a run.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from engine.llm.scripted import ByMovement, call
from tests.engine.rig import rig
from tests.engine.test_main_job import THREE

SCRIPT = {
    "plan": [
        call("Read", file_path="a.txt"),
        call("transition", next_step="implement", summary="S-PLAN", lessons="L-PLAN"),
    ],
    "implement": [
        call("Write", file_path="b.txt", content="x\n"),
        call("transition", next_step="verify", summary="S-IMPL"),
    ],
    "verify": [
        lambda request: (
            call("complete", status="success", result="ok")
            if request.contains("S-FIX")
            else call("transition", next_step="implement", summary="V-BAD", lessons="V-LESSON")
        ),
    ],
}


def fix(request):  # type: ignore[no-untyped-def]
    if request.contains("V-BAD"):
        return call("transition", next_step="verify", summary="S-FIX")
    steps = SCRIPT["implement"]
    return steps[min(request.turn, 1)]


async def test_a_three_movement_run_keeps_the_law(tmp_path: Path) -> None:
    script = ByMovement({**SCRIPT, "implement": fix})
    async with rig(tmp_path, script, pieces={"three": THREE}) as it:
        (it.workspace / "a.txt").write_text("one\n")
        job = await it.start("Change it", piece="three")
        end = await it.until_rest(job)
        assert end.status == "succeeded"
        raw = [bytes(body) for body in it.server.requests]
        bodies = it.bodies()

    heads = {body[: body.index(b'"messages":')] for body in raw}
    assert len(heads) == 1, (
        "everything before the messages, the tools array with it, is the same bytes in every request"
    )
    systems = {json.dumps(body["messages"][0]) for body in bodies}
    assert len(systems) == 1
    firsts = {body["messages"][1]["content"].split("## Movement: ")[0] for body in bodies}
    assert len(firsts) == 1, "the enriched instruction is fixed for the run"
    heading = b"## Movement: "
    assert len({body[: body.index(heading)] for body in raw}) == 1, "identical up to the guidance"

    for earlier, later in pairwise(bodies):
        if earlier["messages"][1] == later["messages"][1]:
            assert later["messages"][: len(earlier["messages"])] == earlier["messages"], (
                "append-only within a movement"
            )
    for body in bodies:
        asked = [
            c["id"] for m in body["messages"] if m["role"] == "assistant" for c in m.get("tool_calls", ())
        ]
        answered = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
        assert asked == answered, "each call is answered exactly once, in order"

    def guidance(index: int) -> str:
        return bodies[index]["messages"][1]["content"].split("## Movement: ")[1]

    movements = [
        body["messages"][1]["content"].rsplit("## Movement: ", 1)[1].split("\n")[0] for body in bodies
    ]
    implement = movements.index("implement")
    verify = movements.index("verify")
    again = verify + movements[verify:].index("implement")
    assert "S-PLAN" in guidance(implement) and "L-PLAN" in guidance(implement)
    assert "Lessons from earlier steps" in guidance(implement) and "Lessons" not in guidance(0)
    assert "S-IMPL" in guidance(verify) and "S-PLAN" in guidance(verify)
    assert "## Feedback from verify" in guidance(again) and "V-BAD" in guidance(again)
    assert len({body["messages"][1]["content"].count("## Task") for body in bodies}) == 1


async def test_the_transition_tool_is_one_for_the_whole_piece(tmp_path: Path) -> None:
    async with rig(tmp_path, ByMovement(SCRIPT), pieces={"three": THREE}) as it:
        (it.workspace / "a.txt").write_text("one\n")
        job = await it.start(piece="three")
        await it.until(job, lambda d: len(d.movements) >= 2)
        tools = it.bodies()[0]["tools"]
    transition = next(tool["function"] for tool in tools if tool["function"]["name"] == "transition")
    assert transition["parameters"]["properties"]["next_step"]["enum"] == ["implement", "verify"]
    names = [tool["function"]["name"] for tool in tools]
    assert names == ["Read", "Write", "Edit", "transition", "complete", "MissionUpdate"]
