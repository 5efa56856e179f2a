"""What RequestTool granted a job, as a run of it begins: the tools it may use, and the array that offers
them.
"""

from __future__ import annotations

import json
from dataclasses import replace

from engine.core.grants import Grants
from engine.core.jobs import Job
from engine.core.piece import Piece
from engine.core.prefix import first_difference
from engine.core.records import Event, Lease
from engine.core.tooling import ToolSpec, tools_bytes
from engine.kit import Kit


async def granted_tools_of(
    kit: Kit, job: Job, lease: Lease, piece: Piece
) -> tuple[Job, tuple[ToolSpec, ...], Grants]:
    """The job, its tools and its grants. A granted tool that the stored array lacks is added to it once,
    where the prompt is rebuilt anyway, and the break of the cache is announced; a restored conversation keeps
    its array, and so goes without (``engine.md`` sections 3 and 6).
    """
    grants = await kit.db(kit.store.grants, job.job_id, job.task_id)
    granted = grants.anywhere()
    tools = kit.toolset(piece, granted)
    if not granted or not job.tools:
        return job, tools, grants
    own = {spec.name for spec in kit.toolset(piece, frozenset())} | _names(job.tools)
    added = [spec.name for spec in tools if spec.name not in own]
    if not added:
        return job, tools, grants
    if job.restores:
        return job, tuple(spec for spec in tools if spec.name not in added), grants
    array = tools_bytes(tools)
    body = {
        "firstDifference": first_difference(job.tools, array),
        "announced": True,
        "reason": "tool_request",
        "tools": added,
    }
    await kit.db(kit.store.set_tools, lease, array, [Event("cache_break", body)], kit.clock.now())
    return replace(job, tools=array), tools, grants


def _names(array: bytes) -> set[str]:
    return {entry["function"]["name"] for entry in json.loads(array)}
