"""Every guard of a movement and of a job, through the whole engine: its reason, its ending, what is shown,
and that a retry is possible. What forgives each of them is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import messages
from engine.core.limits import Safety
from engine.llm.scripted import ScriptReply, call, say
from tests.engine.families import done
from tests.engine.rig import Rig, rig


def piece(movements: dict[str, str], **top: object) -> str:
    """A piece of movements, each with what follows its common part."""
    head = {
        "name": "guarded",
        "description": "x",
        "max_movements": 40,
        "initial_movement": next(iter(movements)),
        **top,
    }
    lines = [f"{key}: {value}" for key, value in head.items()] + ["movements:"]
    for name, rest in movements.items():
        lines += [
            f"  - name: {name}",
            "    edit: true",
            "    persona: x",
            "    instruction: x",
            "    allowed_tools: [Read, Write, WaitSubTask]",
            *(f"    {line}" for line in rest.strip().splitlines()),
        ]
    return "\n".join(lines) + "\n"


def rules(*targets: str) -> str:
    return "rules:\n" + "\n".join(f"  - condition: x\n    next: {target}" for target in targets)


ALONE = piece({"work": "rules: []"})
ROUND = piece({"a": rules("b"), "b": rules("c"), "c": rules("a", "d"), "d": "rules: []"})


def hop(next_step: str) -> ScriptReply:
    return call("transition", next_step=next_step, summary=f"to {next_step}")


def always(reply: ScriptReply) -> Callable[[Any], ScriptReply]:
    return lambda request: reply


def going_round(request: Any) -> ScriptReply:
    return hop({"a": "b", "b": "c", "c": "a"}[request.movement])


def reading_on(request: Any) -> ScriptReply:
    return call("Read", file_path=f"n{request.turn}.txt")


def cut_off(request: Any) -> ScriptReply:
    return replace(
        call("Write", file_path="a.txt", content=f"{request.turn}"), text="half a", finish="length"
    )


SAFETY = Safety()


@dataclass(frozen=True)
class Guard:
    """A guard, what trips it, and how the job then ends. ``calls`` is how often the model was asked."""

    reason: str
    script: Callable[[Any], ScriptReply]
    piece: str = ALONE
    status: str = "aborted"
    shown: str = ""
    calls: int | None = None
    safety: Safety = SAFETY


GUARDS = {
    "max_iterations": Guard("max_iterations", reading_on, calls=13, safety=Safety(max_iterations=12)),
    "text_only_limit": Guard("text_only_limit", always(say("It is 42.")), shown="It is 42.", calls=3),
    "max_movements": Guard(
        "max_movements", going_round, ROUND.replace("max_movements: 40", "max_movements: 4"), calls=4
    ),
    "revisit_limit": Guard("revisit_limit", going_round, ROUND, calls=8, safety=Safety(cycle_limit=9)),
    "repeated_calls": Guard("repeated_calls", always(call("Read", file_path="a.txt")), calls=4),
    "cycle": Guard("cycle", going_round, ROUND, calls=8, safety=Safety(revisit_limit=30)),
    "unknown_tool": Guard("unknown_tool", lambda request: call("Fly", to=request.turn), calls=3),
    "truncated_reply": Guard("truncated_reply", cut_off, calls=2, shown="half a"),
    "empty_response": Guard("empty_response", always(ScriptReply()), status="failed", calls=3),
    "provider_error": Guard("provider_error", always(ScriptReply(status=400)), status="failed", calls=1),
    "aborted_by_model": Guard(
        "aborted_by_model", always(call("complete", status="aborted", result="It cannot be done.")),
        shown="It cannot be done.", calls=1,
    ),
}  # fmt: skip


def guarded(tmp_path: Path, script: Any, text: str, safety: Safety = SAFETY, **more: Any):  # type: ignore[no-untyped-def]
    return rig(tmp_path, script, pieces={"guarded": text}, safety=safety, **more)


@pytest.mark.parametrize("guard", GUARDS.values(), ids=list(GUARDS))
async def test_a_guard_ends_the_job_with_its_reason_and_a_retry_is_possible(
    tmp_path: Path, guard: Guard
) -> None:
    async with guarded(tmp_path, guard.script, guard.piece, guard.safety) as it:
        job = await it.start(piece="guarded")
        end = await it.until_rest(job)
        assert (end.status, end.reason) == (guard.status, guard.reason)
        assert guard.shown in (end.result or "")
        if guard.calls is not None:
            assert len(it.server.requests) == guard.calls
        assert all(movement.ended_at is not None for movement in end.movements)
        assert not (it.workspace / "a.txt").exists()
        errors = [event for event in await it.client.events(job) if event["kind"] == "error"]
        assert [error["code"] for error in errors] == ([guard.reason] if guard.status == "failed" else [])
        for language in ("en", "ja"):
            assert messages(language)(f"reason.{guard.reason}")
        retry = await it.client.retry(job)
        assert (await it.until_rest(retry)).retry_of == job


async def test_text_alone_is_forgiven_by_a_call_and_reminded_of_complete(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return (
            call("Read", file_path=f"n{request.turn}") if request.turn % 3 == 2 else say(f"hm {request.turn}")
        )

    async with guarded(tmp_path, script, ALONE, Safety(max_iterations=8)) as it:
        end = await it.until_rest(await it.start(piece="guarded"))
        assert end.reason == "max_iterations"
        told = [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "user"][1:]
        assert "this very text" in told[0] and "Call a tool now" in told[1]


async def test_the_same_batch_is_forgiven_by_another_and_ids_do_not_count(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if request.turn == 7:
            return done()
        return call("Read", file_path="b.txt" if request.turn == 3 else "a.txt")

    async with guarded(tmp_path, script, ALONE) as it:
        assert (await it.until_rest(await it.start(piece="guarded"))).status == "succeeded"


async def test_work_between_the_rounds_is_no_cycle(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if request.movement == "c" and request.contains("round 5"):
            return hop("d")
        if request.movement == "d":
            return done()
        if request.movement == "a" and not request.results("Write"):
            rounds = request.messages[1]["content"].count("to a") + 1
            return call("Write", file_path=f"round {rounds}.txt", content=f"{rounds}")
        if request.movement == "a":
            rounds = request.messages[1]["content"].count("to a") + 1
            return call("transition", next_step="b", summary=f"round {rounds}")
        return hop({"b": "c", "c": "a"}[request.movement])

    async with guarded(tmp_path, script, ROUND, Safety(revisit_limit=30)) as it:
        end = await it.until_rest(await it.start(piece="guarded"))
        assert (end.status, end.reason) == ("succeeded", None)
        assert [m.name for m in end.movements] == ["a", "b", "c"] * 5 + ["d"]


async def test_a_cycle_is_seen_over_the_whole_history_also_across_a_question(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        asked = request.contains("The person answered")
        if (
            request.movement == "b"
            and request.contains("## Lessons")
            and not asked
            and request.contains("to a")
        ):
            return call("complete", status="needs_user_input", result="Go round again?")
        return going_round(request)

    async with guarded(tmp_path, script, ROUND, Safety(revisit_limit=30, ask_limit=9)) as it:
        job = await it.start(piece="guarded")
        end = await it.until_rest(job)
        while end.status == "waiting_human":
            await it.client.answer(job, "yes")
            await it.until(
                job, lambda d, end=end: len(d.requests) > len(end.requests) or d.status == "aborted"
            )
            end = await it.until_rest(job)
        assert (end.status, end.reason) == ("aborted", "cycle")
        assert len(end.requests) == 3
        assert (await it.kinds(job)).count("transition") == 8, (
            "the ninth movement would close the third round"
        )


async def test_a_movement_may_set_its_own_limit_of_revisits(tmp_path: Path) -> None:
    text = piece(
        {"a": f"max_consecutive_revisits: 1\n{rules('b')}", "b": f"max_consecutive_revisits: 9\n{rules('a')}"}
    )
    to = {"a": "b", "b": "a"}
    async with guarded(tmp_path, lambda r: hop(to[r.movement]), text, Safety(cycle_limit=9)) as it:
        end = await it.until_rest(await it.start(piece="guarded"))
        assert end.reason == "revisit_limit"
        assert [m.name for m in end.movements] == ["a", "b", "a", "b"]


async def test_going_round_by_way_of_a_wait_ends_too(tmp_path: Path) -> None:
    """WAIT_SUBTASKS with nothing to wait for is passed at once; it must not turn for ever."""
    text = piece(
        {"a": f"default_next: b\n{rules('WAIT_SUBTASKS')}", "b": f"default_next: a\n{rules('WAIT_SUBTASKS')}"}
    )
    async with guarded(tmp_path, always(hop("WAIT_SUBTASKS")), text, Safety(revisit_limit=30)) as it:
        end = await it.until(await it.start(piece="guarded"), lambda d: d.status == "aborted")
        assert end.reason == "cycle"
        assert [m.name for m in end.movements] == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize("ending", ["decides", "insists"])
async def test_the_ask_limit_deflects_in_the_same_movement_and_shows_the_question(
    tmp_path: Path, ending: str
) -> None:
    def script(request: Any) -> ScriptReply:
        if ending == "decides" and request.contains("Decide yourself"):
            return done("I assumed blue.")
        return call("complete", status="needs_user_input", result="Which colour?")

    async with guarded(tmp_path, script, ALONE) as it:
        job = await it.start(piece="guarded")
        for number in range(3):
            request = await it.open_request(job)
            await it.client.answer(job, f"answer {number}", request.request_id)
            await it.until(job, lambda d, r=request.request_id: r not in d.open_requests)
        end = await it.until(job, lambda d: d.status in ("succeeded", "aborted"))
        assert len(end.movements) == 4, "a deflection stays in its movement"
        if ending == "decides":
            assert (end.status, end.result) == ("succeeded", "I assumed blue.")
        else:
            assert (end.status, end.reason, end.result) == ("aborted", "ask_limit_reached", "Which colour?")
        deflected = [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]
        assert len(deflected) == 1 and "Decide yourself" in deflected[0]


async def test_resumes_count_for_no_guard(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if request.contains("The person answered: 9"):
            return done()
        if request.turn < 3:
            return call("Read", file_path=f"n{request.turn}")
        return call("complete", status="needs_user_input", result="Go on?")

    tight = ALONE.replace("max_movements: 40", "max_movements: 1")
    async with guarded(
        tmp_path, script, tight, Safety(max_iterations=4, ask_limit=20, revisit_limit=0)
    ) as it:
        job = await it.start(piece="guarded")
        for number in range(10):
            request = await it.open_request(job)
            await it.client.answer(job, str(number), request.request_id)
            await it.until(job, lambda d, r=request.request_id: r not in d.open_requests)
        assert (await it.until_rest(job)).status == "succeeded"


async def ended(it: Rig) -> Any:
    return await it.until_rest(await it.start(piece="guarded"))


async def test_a_full_context_without_a_way_on_aborts_with_no_default_next(tmp_path: Path) -> None:
    from engine.config import ModelSettings

    async with guarded(tmp_path, reading_on, ALONE, start_engine=False) as it:
        it.config = replace(it.config, llm=replace(it.config.llm, context_tokens=1_500))
        assert isinstance(it.config.llm, ModelSettings)
        await it.engine()
        end = await ended(it)
        assert (end.status, end.reason) == ("aborted", "no_default_next")
