"""A job keeps its slot of a llama-server: which one it gets, and which servers are told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.messages import encode_message
from engine.llm.openai import OpenAIModel
from engine.llm.request import request_body
from engine.llm.scripted import ScriptedServer, ScriptReply, ServerOptions, call
from engine.llm.slot_book import SlotBook
from engine.llm.worker_config import ModelWorker
from engine.ports import ModelRequest
from tests.engine.rig import rig

ONE = """
name: one
description: one
max_movements: 1
initial_movement: work
movements:
  - {name: work, edit: false, persona: You work., instruction: Work., allowed_tools: [], rules: []}
"""
ASKED = ModelRequest([encode_message("user", "x")], b"[]", holder="j-1", first_of_run=True)


def test_a_job_keeps_its_slot_while_it_works_and_finds_it_again_after_a_rest() -> None:
    book = SlotBook()
    assert [book.take("a", 2), book.take("b", 2), book.take("a", 2), book.take("b", 2)] == [0, 1, 0, 1]
    book.rest("a")
    assert book.take("a", 2) == 0


def test_a_job_at_work_is_never_evicted_and_a_resting_one_gives_way() -> None:
    book = SlotBook()
    assert (book.take("a", 2), book.take("b", 2)) == (0, 1)
    assert book.take("c", 2) is None, "more jobs than slots: the server may choose"
    book.rest("b")
    assert book.take("c", 2) == 1
    assert book.take("b", 2) is None
    book.rest("a")
    assert book.take("b", 2) == 0, "the slot it had is taken: it gets another"


def test_of_free_slots_the_one_that_waited_longest_is_given() -> None:
    book = SlotBook()
    for name in ("a", "b", "c"):
        book.take(name, 3)
        book.rest(name)
    assert (book.take("b", 3), book.take("new", 3)) == (1, 0)


def test_engines_on_one_server_begin_with_different_slots() -> None:
    assert [SlotBook(first).take("a", 4) for first in (0, 1, 6, 4_000_003)] == [0, 1, 2, 3]


def test_a_server_that_came_back_with_fewer_slots_is_not_asked_for_one_that_is_gone() -> None:
    book = SlotBook(first=3)
    assert book.take("a", 4) == 3
    assert book.take("a", 2) in (0, 1)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=40), st.integers(2, 4))
def test_two_jobs_at_work_never_share_a_slot(steps: list[tuple[str, bool]], total: int) -> None:
    book, working = SlotBook(), dict[str, int]()
    for name, works in steps:
        if not works:
            book.rest(name)
            working.pop(name, None)
            continue
        slot = book.take(name, total)
        assert working.get(name, slot) == slot, "kept"
        if slot is None:
            assert len(working) == total
            continue
        assert 0 <= slot < total
        working[name] = slot
        assert len(set(working.values())) == len(working)


@pytest.mark.parametrize(("slots", "told"), [(1, False), (2, True)])
async def test_only_a_llama_server_with_several_slots_is_told(slots: int, told: bool) -> None:
    options = ServerOptions(slots=slots)
    async with ScriptedServer([ScriptReply(text="ok")], options=options) as server:
        model = OpenAIModel(ModelWorker(id="w", endpoint=server.base_url, model="scripted"))
        await model.reply(ASKED, lambda delta: None)
        await model.aclose()
        assert ("id_slot" in json.loads(server.requests[0])) is told


def test_the_slot_stands_behind_the_messages_and_gives_way_to_what_the_person_configured() -> None:
    worker = ModelWorker(id="w", endpoint="http://127.0.0.1:1/v1", model="m")
    body = request_body(worker, ASKED, slot=1)
    assert json.loads(body)["id_slot"] == 1
    assert body.index(b'"id_slot"') > body.index(b'"messages"')
    own = replace(worker, extra_body={"id_slot": 7})
    assert json.loads(request_body(own, ASKED, slot=1))["id_slot"] == 7
    assert "id_slot" not in json.loads(request_body(worker, ASKED, {"id_slot"}, slot=1))


async def test_two_jobs_on_two_slots_do_not_evict_each_other(tmp_path: Path) -> None:
    steps = [call("MissionUpdate", open=f"step {number}") for number in range(4)]
    script = [*steps, call("complete", status="success", result="ok")]
    async with rig(tmp_path, script, pieces={"one": ONE}, server=ServerOptions(slots=2, delay=0.01)) as it:
        jobs = [await it.start(f"Task {name}", piece="one") for name in ("red", "blue")]
        for job in jobs:
            assert (await it.until_rest(job)).status == "succeeded"
        used = []
        for job in jobs:
            calls = [event for event in await it.client.events(job) if event["kind"] == "usage"]
            for before, after in pairwise(calls):
                assert after["cachedTokens"] >= before["promptTokens"] - 1
            used.append(len(calls))
        assert used == [5, 5]
        assert {body["id_slot"] for body in it.bodies()} == {0, 1}
