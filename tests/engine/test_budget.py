"""A budget that is reached parks the job before its next model call; "go on" gives it as much again
(engine.md §7).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import messages
from engine.core.budget import Budget, Price, Reached, Spent, amount, reached
from engine.core.errors import AlreadySettled, IllegalMove
from engine.core.jobs import Owner
from engine.core.records import Lease
from engine.core.views import JobDetail
from engine.llm.scripted import ScriptReply, ServerOptions, call
from engine.store.store import Store
from tests.engine.families import PIECES, done, spawn, task_of
from tests.engine.rig import Rig, rig


def reads(count: int) -> Any:
    """A script that reads ``count`` files, one after the other, and ends."""

    def script(request: Any) -> ScriptReply:
        if request.turn < count:
            return call("Read", file_path=f"{request.turn}.txt")
        return done(f"{count} read")

    return script


async def until_parked(it: Rig, job: str, calls: int) -> JobDetail:
    detail = await it.until(job, lambda d: d.status == "waiting_human" and d.usage.calls == calls)
    assert (detail.wait_reason, len(detail.open_requests)) == ("budget", 1)
    return detail


async def go_on(it: Rig, detail: JobDetail, decision: str = "allow") -> str:
    [request] = detail.open_requests
    await it.client.decide(request, decision)
    return request


async def test_a_budget_of_calls_parks_before_the_next_one_and_each_go_on_gives_as_many_again(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, reads(4), budget=Budget(calls=2)) as it:
        job = await it.start()
        detail = await until_parked(it, job, 2)
        assert len(it.server.requests) == 2
        assert detail.resume_movement == detail.movement
        await go_on(it, detail)
        await go_on(it, await until_parked(it, job, 4))
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert (end.result, end.usage.calls) == ("4 read", 5)
        bodies = it.bodies()
        for before, after in pairwise(bodies):
            assert after["messages"][: len(before["messages"])] == before["messages"], "it is append-only"
        assert len(end.movements) == 1
        decided = [e for e in await it.client.events(job) if e["kind"] == "decision"]
        assert len(decided) == 2


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_the_card_says_what_was_reached_and_what_was_used(tmp_path: Path, language: str) -> None:
    async with rig(tmp_path, reads(2), budget=Budget(calls=1)) as it:
        job = await it.start()
        request = await it.open_request(job)
        say = messages(language)
        title = say(request.title_key or "", **request.title_values)
        assert request.title_values == {"used": "1", "limit": "1"}
        assert "1" in title and title.endswith(("?", "？"))
        used = say(request.why_key or "", **request.why_values)
        tokens = (await it.client.show(job)).usage
        assert f"{tokens.prompt_tokens + tokens.completion_tokens:,}" in used


async def test_no_ends_the_job_and_a_second_answer_is_told_who_was_first(tmp_path: Path) -> None:
    async with rig(tmp_path, reads(2), budget=Budget(calls=1)) as it:
        job = await it.start()
        request = await go_on(it, await until_parked(it, job, 1), "deny")
        assert (await it.client.show(job)).status == "cancelled"
        with pytest.raises(AlreadySettled) as caught:
            await it.client.decide(request, "allow")
        assert caught.value.data["decision"] == "deny"
        assert len(it.server.requests) == 1


async def test_after_a_cancel_the_card_is_void(tmp_path: Path) -> None:
    async with rig(tmp_path, reads(2), budget=Budget(calls=1)) as it:
        job = await it.start()
        [request] = (await until_parked(it, job, 1)).open_requests
        await it.client.cancel(job)
        with pytest.raises((AlreadySettled, IllegalMove)):
            await it.client.decide(request, "allow")
        assert (await it.client.show(job)).status == "cancelled"


async def test_what_was_used_survives_a_restart_while_parked_and_while_running(tmp_path: Path) -> None:
    async with rig(tmp_path, reads(4), budget=Budget(calls=3), mode="ask") as it:

        def script(request: Any) -> ScriptReply:
            if request.turn == 1:
                return call("Write", file_path="a.txt", content="x")
            return call("Read", file_path=f"{request.turn}.txt") if request.turn < 5 else done()

        it.server.script = type("Scripted", (), {"reply": staticmethod(script)})()
        job = await it.start()
        approval = await it.open_request(job)
        assert approval.reason == "approval"
        await it.stop()
        await it.client.decide(approval.request_id, "allow")
        await it.engine()
        detail = await until_parked(it, job, 3)
        await it.stop()
        await it.engine()
        await go_on(it, detail)
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert end.usage.calls == 6


async def test_tokens_count_prompt_and_completion_and_an_estimate_where_none_is_reported(
    tmp_path: Path,
) -> None:
    for usage in ("told", "none"):
        folder = tmp_path / usage
        folder.mkdir()
        options = ServerOptions(usage=usage)
        async with rig(folder, reads(3), budget=Budget(tokens=10), server=options) as it:
            job = await it.start()
            await it.open_request(job)
            spent = (await it.client.db(it.client.store.job, job)).counters.spent
            assert spent.calls == 1 and spent.tokens > 1_000
            assert len(it.server.requests) == 1


async def test_cost_is_counted_by_the_price_of_the_model(tmp_path: Path) -> None:
    price = Price(input=1_000_000, cached=0, output=0)
    async with rig(tmp_path, reads(3), llm={"price": price}, budget=Budget(cost=1)) as it:
        job = await it.start()
        request = await it.open_request(job)
        usage = (await it.client.show(job)).usage
        assert request.title_values["used"] == str(usage.prompt_tokens - usage.cached_tokens)
        assert request.title_key == "request.budget_cost" and "cost" in request.why_values


async def test_children_count_on_their_own_and_a_follow_up_begins_anew(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return reads(1)(request)
        if request.contains("## Results of subtasks"):
            return done("gathered")
        return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("one", "two")

    async with rig(tmp_path, script, pieces=PIECES, budget=Budget(calls=3)) as it:
        job = await it.start("lead", piece="parent")
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert len(it.server.requests) == 7, "three of the parent, two of each child"
        follow_up = await it.client.comment(end.task_id, "again", piece="child")
        assert follow_up is not None
        await it.until(follow_up, lambda d: d.status == "succeeded")


async def test_minutes_are_those_that_workers_were_busy(tmp_path: Path) -> None:
    async with rig(tmp_path, reads(0), start_engine=False) as it:
        store: Store = it.client.store
        job = await it.start()
        owner, now = Owner("w", 1, "s", "b"), round(it.client.now())
        for began, ended in ((now - 200.0, now - 140.0), (now - 100.0, now - 70.0)):
            claimed = await it.client.db(store.claim, owner, began, 30.0)
            assert claimed is not None
            lease = Lease(claimed.job_id, claimed.task_id, claimed.fence, claimed.run)
            await it.client.db(store.requeue, lease, ended)
        assert await it.client.db(store.worked_s, job, 2) == 60.0
        assert await it.client.db(store.worked_s, job, 3) == 90.0
        it.config = replace(it.config, budget=Budget(minutes=1.5))
        await it.engine()
        request = await it.open_request(job)
        assert request.title_key == "request.budget_minutes"
        assert request.title_values == {"used": "1.5", "limit": "1.5"}
        assert it.server.requests == []
        await it.client.decide(request.request_id, "allow")
        await it.until(job, lambda d: d.status == "succeeded")


@pytest.mark.parametrize(
    ("budget", "spent", "since", "found"),
    [
        (Budget(), Spent(10**9, 10**9, 1e9, 1e9), Spent(), None),
        (Budget(tokens=100), Spent(tokens=99), Spent(), None),
        (Budget(tokens=100), Spent(tokens=100), Spent(), Reached("tokens", 100, 100)),
        (Budget(tokens=100), Spent(tokens=220), Spent(tokens=130), None),
        (Budget(tokens=100), Spent(tokens=230), Spent(tokens=130), Reached("tokens", 100, 100)),
        (Budget(calls=2, cost=5.0), Spent(calls=1, cost=6.5), Spent(), Reached("cost", 6.5, 5.0)),
        (Budget(minutes=2.0), Spent(minutes=2.5), Spent(minutes=1.0), None),
    ],
)
def test_an_allowance_counts_from_where_it_began(
    budget: Budget, spent: Spent, since: Spent, found: Reached | None
) -> None:
    assert reached(budget, spent, since) == found


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (Price(input=2.0, cached=0.5, output=10.0), 2.0 * 0.6 + 0.5 * 0.4 + 10.0 * 0.1),
        (Price(input=2.0, output=10.0), 2.0 * 1.0 + 10.0 * 0.1),
    ],
)
def test_cached_tokens_have_their_own_price_or_that_of_the_others(price: Price, cost: float) -> None:
    assert price.of(1_000_000, 400_000, 100_000) == pytest.approx(cost)
    assert Spent().with_call(1_000_000, 400_000, 100_000, price).cost == pytest.approx(cost)


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        ("tokens", 1_234_567, "1,234,567"),
        ("calls", 3, "3"),
        ("minutes", 2.04, "2.0"),
        ("cost", 0.0214, "0.0214"),
        ("cost", 5.0, "5"),
        ("cost", 0.0, "0"),
    ],
)
def test_amounts_are_told_as_people_read_them(what: str, value: float, text: str) -> None:
    assert amount(what, value) == text
