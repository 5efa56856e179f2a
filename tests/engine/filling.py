"""A piece whose context fills up as a script says, for the tests of context pressure (engine.md §5)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from engine.core.context import Action
from engine.core.views import JobDetail
from engine.llm.scripted import ByMovement, ScriptReply, ServerOptions, call
from engine.llm.scripted.slots import render_prompt, tokens_of
from tests.engine.rig import Rig

LIMIT = 20_000
WARN, PROMPT, FORCE, EXHAUSTED = (action.value for action in Action)


def piece(default_next: str | None = "after", rules: str = "[{condition: done, next: after}]") -> str:
    way_out = f"    default_next: {default_next}\n" if default_next else ""
    return f"""
name: full
description: a movement that fills its context
max_movements: 6
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Write]
    rules: {rules}
{way_out}  - name: after
    edit: false
    persona: You end it.
    instruction: End it.
    allowed_tools: [Read]
    rules: []
"""


def at(share: float, reply: ScriptReply) -> ScriptReply:
    """A reply whose prompt is reported as a share of the limit."""
    return replace(reply, prompt_tokens=round(share * LIMIT))


def read(name: str, text: str = "") -> ScriptReply:
    return replace(call("Read", file_path=name), text=text)


DONE = call("complete", status="success", result="done")
AFTER = [at(0.2, DONE)]


def full(work: list[Any], after: list[Any] | None = None) -> ByMovement:
    return ByMovement({"work": work, "after": AFTER if after is None else after})


async def run(it: Rig, **order: Any) -> tuple[JobDetail, list[tuple[str, float]]]:
    """The ended job, and its ``context`` events as (action, ratio)."""
    for name in "abcdef":
        (it.workspace / f"{name}.txt").write_text(f"{name}\n")
    job = await it.start(piece="full", **order)
    end = await it.until_rest(job)
    return end, await pressure(it, job)


async def configure(it: Rig, **llm: Any) -> None:
    """Another configuration of the model."""
    await it.stop()
    it.config = replace(it.config, llm=replace(it.config.llm, **llm))
    await it.engine()


async def pressure(it: Rig, job: str) -> list[tuple[str, float]]:
    events = await it.client.events(job)
    return [(event["action"], event["ratio"]) for event in events if event["kind"] == "context"]


def server(**options: Any) -> ServerOptions:
    return ServerOptions(**{"context": LIMIT, **options})


def users(body: dict[str, Any]) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "user"]


def nothing_twice(bodies: list[dict[str, Any]]) -> None:
    """Each request is one that the strictest server takes, and only appends to the one before."""
    for body in bodies:
        roles = [message["role"] for message in body["messages"]]
        assert ("user", "user") not in list(pairwise(roles))
    for earlier, later in pairwise(bodies):
        if earlier["messages"][1] == later["messages"][1]:
            assert later["messages"][: len(earlier["messages"])] == earlier["messages"]


def true_tokens(body: dict[str, Any], weight: float = 1.0) -> int:
    """What the model's own tokenizer makes of a request."""
    return round(weight * len(tokens_of(render_prompt(body["messages"], body["tools"]))))


ENGLISH = "The quick brown fox jumps over the lazy dog, and then it sleeps under a tree.\n"
JAPANESE = "素早い茶色の狐が怠け者の犬を飛び越え、それから木の下で眠る。\n"
LONG = "".join(f"line {number} of a long file\n" for number in range(9_000))


def files(it: Rig, text: str, count: int = 12) -> None:
    for number in range(count):
        (it.workspace / f"{number}.txt").write_text(f"{number}\n" + text, "utf-8")
