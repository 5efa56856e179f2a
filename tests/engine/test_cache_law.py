"""The cache law: what is sent is append-only within a movement, the tools array and the prefix are
byte-stable over a run; a break of it is noticed and told. Also over random pieces.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import piece_runner
from engine.agent_loop import MovementEnd, run_movement
from engine.core.prefix import Sent, broken_at
from engine.kit import JobRun
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call
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
    assert names[:6] == ["Read", "Write", "Edit", "transition", "complete", "MissionUpdate"]


# --- any piece --------------------------------------------------------------------------------------

TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")
NAMES = ("plan", "do-it", "verify", "review", "last")


@st.composite
def pieces(draw: st.DrawFn) -> dict[str, Any]:
    """A piece of two to five movements with any rules, tools and kinds of conversation between them."""
    names = NAMES[: draw(st.integers(2, len(NAMES)))]
    kinds = st.sampled_from(["restart", "continue"])
    movements = []
    for name in names:
        others = [other for other in names if other != name]
        targets = draw(st.lists(st.sampled_from(others), unique=True, max_size=3))
        movement = {
            "name": name,
            "edit": draw(st.booleans()),
            "persona": draw(st.sampled_from(["You plan.", 'You are 慎重 and "quoted".', "You check."])),
            "instruction": f"Work on {name}.",
            "allowed_tools": draw(st.lists(st.sampled_from(TOOLS), unique=True)),
            "rules": [{"condition": f"go to {target}", "next": target} for target in targets],
            "default_next": "ABORT",
            "max_consecutive_revisits": 50,
        }
        if draw(st.booleans()):
            movement["conversation"] = draw(kinds)
        movements.append(movement)
    return {
        "name": "any",
        "description": "any piece",
        "max_movements": 12,
        "initial_movement": names[0],
        "conversation": draw(kinds),
        "movements": movements,
    }


STEPS = st.lists(st.integers(0, 7), min_size=4, max_size=14)


def step(kind: int, number: int, request: ScriptRequest, targets: dict[str, list[str]]) -> ScriptReply:
    """A reply of each sort: calls allowed or not, hops valid or not, talk, several calls at once."""
    valid = targets[request.movement or ""]
    hop = {"next_step": valid[number % len(valid)] if valid else "nowhere", "summary": f"S{number} まとめ"}
    match kind:
        case 0 | 1 | 2 if valid:
            return ScriptReply(calls=(("transition", hop),))
        case 3:
            return call("Write", file_path=f"{number}.txt", content="x\n")
        case 4:
            return ScriptReply(text=f"I think {number}.")
        case 5:
            return ScriptReply(calls=(("Read", {"file_path": "a.txt"}), ("transition", hop), ("Glob", {})))
        case 6:
            return call("transition", next_step="nowhere", summary="?")
        case _:
            return ScriptReply(calls=(("Read", {"file_path": f"{number}"}), ("NoSuchTool", {"n": number})))


def messages_of(raw: bytes) -> bytes:
    """The bytes of a request's messages, without the bracket that ends them."""
    return raw[raw.index(b'"messages":[') : raw.rindex(b"]")]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(piece=pieces(), steps=STEPS)
async def test_any_piece_keeps_the_law(piece: dict[str, Any], steps: list[int]) -> None:
    targets = {m["name"]: [rule["next"] for rule in m["rules"]] for m in piece["movements"]}

    def script(request: ScriptRequest) -> ScriptReply:
        number = request.number - 1
        if number >= len(steps):
            return call("complete", status="success", result="enough")
        return step(steps[number], number, request, targets)

    with tempfile.TemporaryDirectory() as folder:
        async with rig(Path(folder), script, pieces={"any": yaml.safe_dump(piece)}) as it:
            job = await it.start("Do it", piece="any")
            end = await it.until_rest(job)
            assert end.status != "failed", end.result
            raw, bodies = [bytes(body) for body in it.server.requests], it.bodies()
            kinds = await it.kinds(job)
    assert "cache_break" not in kinds
    assert len({body[: body.index(b'"messages":')] for body in raw}) == 1
    for (before, old), (after, new) in pairwise(zip(raw, bodies, strict=True)):
        went_on = messages_of(after).startswith(messages_of(before))
        entered = entered_by(old, new)
        if entered is None or continues(piece, entered):
            assert went_on, "append-only within a conversation"
        else:
            assert [m["role"] for m in new["messages"]] == ["system", "user"]
            heading = b"## Movement: "
            assert after[: after.index(heading)] == before[: before.index(heading)]
    for body in bodies:
        assert_answered(body["messages"])


def entered_by(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The movement that was entered between two requests; None if they are of one stay."""
    places = [ScriptRequest(tuple(body["messages"])).find_movement() for body in (old, new)]
    same = places[0] == places[1] and len(new["messages"]) > len(old["messages"])
    assert places[1] is not None
    return None if same else places[1][1]


def continues(piece: dict[str, Any], name: str) -> bool:
    movement = next(m for m in piece["movements"] if m["name"] == name)
    return bool(movement.get("conversation", piece["conversation"]) == "continue")


def assert_answered(messages: Sequence[dict[str, Any]]) -> None:
    """I1: directly behind an assistant message one result for each call, in order."""
    wanted: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert wanted and message["tool_call_id"] == wanted.pop(0)
        else:
            assert not wanted
            wanted = [entry["id"] for entry in message.get("tool_calls") or ()]


# --- a break ----------------------------------------------------------------------------------------

SYSTEM, OPENING = b'{"role":"system","content":"S"}', b'{"role":"user","content":"now\\n\\nguidance"}'
FIRST = Sent(1, b"[tools]", [SYSTEM, OPENING], "now")


@pytest.mark.parametrize(
    ("now", "at"),
    [
        (Sent(1, b"[tools]", [SYSTEM, OPENING, b"more"], "now"), None),
        (Sent(1, b"[tools]", [SYSTEM, OPENING], "now"), None),
        (Sent(1, b"[toolz]", [SYSTEM, OPENING], "now"), 5),
        (Sent(1, b"[tools]", [SYSTEM, OPENING[:-4] + b'E"}', b"more"], "now"), 8 + 32 + 39),
        (Sent(1, b"[tools]", [SYSTEM], "now"), 8 + 32),
        (Sent(1, b"[tools]", [SYSTEM.replace(b"S", b"T"), OPENING], "now"), 8 + 28),
        (Sent(2, b"[tools]", [SYSTEM, OPENING.replace(b"guidance", b"another one")], "now"), None),
        (Sent(2, b"[tools]", [SYSTEM, OPENING.replace(b"now", b"later")], "later"), 8 + 32 + 26),
        (Sent(2, b"[tools, more]", [SYSTEM, OPENING], "now"), 6),
    ],
)
def test_the_first_byte_that_should_have_stayed_is_named(now: Sent, at: int | None) -> None:
    assert broken_at(FIRST, now) == at


def test_messages_that_are_equal_but_other_objects_are_no_break() -> None:
    copied = [bytes(bytearray(message)) for message in FIRST.messages]
    assert broken_at(FIRST, Sent(1, b"[tools]", [*copied, b"more"], "now")) is None


async def test_a_break_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One letter of one description changes between two movements: what nobody may do."""

    async def meddled(run: JobRun) -> MovementEnd:
        if run.movement == "implement" and b"Reed" not in run.job.tools:
            tools = run.job.tools.replace(b"Read", b"Reed", 1)
            run.job = dataclasses.replace(run.job, tools=tools)
        return await run_movement(run)

    monkeypatch.setattr(piece_runner, "run_movement", meddled)
    caplog.set_level(logging.INFO, "engine")
    async with rig(tmp_path, ByMovement({**SCRIPT, "implement": fix}), pieces={"three": THREE}) as it:
        (it.workspace / "a.txt").write_text("one\n")
        job = await it.start(piece="three")
        await it.until_rest(job)
        events = await it.client.events(job)
        tools = it.server.requests[0].partition(b'"tools":')[2]
    breaks = [event for event in events if event["kind"] == "cache_break"]
    place = tools.index(b"Read") + 2
    assert [event["firstDifference"] for event in breaks] == [place], "once, where it happened"
    told = [event for event in events if event["kind"] == "cache" and "firstDifference" in event]
    assert [event["firstDifference"] for event in told] == [place]
    assert f"cache_break first difference at {place}" in caplog.text


async def test_the_log_tells_the_cached_share_of_each_call_and_show_that_after_each_transition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine")
    script = ByMovement({**SCRIPT, "implement": fix})
    async with rig(tmp_path, script, pieces={"three": THREE}) as it:
        (it.workspace / "a.txt").write_text("one\n")
        end = await it.until_rest(await it.start(piece="three"))
        events = await it.client.events(end.job_id)
    lines = [record.getMessage() for record in caplog.records if "prompt_cache" in record.getMessage()]
    calls = [event for event in events if event["kind"] == "usage"]
    assert [line.split()[0] for line in lines] == ["[llm-stream]"] * len(calls)
    reused = [int(line.partition("reused=")[2].split()[0]) for line in lines]
    assert reused == [event["cachedTokens"] for event in calls]
    told = [event["pct"] for event in events if event["kind"] == "cache"]
    assert [move.reused_pct for move in end.movements] == [None, *told]
    assert all(pct > 60 for pct in told), told
