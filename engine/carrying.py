"""What one movement leaves to the next: lessons, and after a verify-type one its feedback and the changes in
the workspace (``engine.md`` section 3).
"""

from __future__ import annotations

from dataclasses import replace

from engine.core.lessons import carry, lesson_of
from engine.core.outcome import MovementResult
from engine.core.piece import Movement, is_verify
from engine.core.prompting import Carried
from engine.kit import JobRun


async def lessons(run: JobRun) -> list[tuple[str, str]]:
    """The newest lessons of the task that fit together."""
    kept = await run.kit.db(run.kit.store.lessons, run.job.task_id)
    return carry([(lesson.movement, lesson.text) for lesson in kept])


async def keep_lessons(run: JobRun) -> None:
    """Copy what is new of the task's lessons to its folder, once it is committed."""
    kept = await run.kit.db(run.kit.store.lessons, run.job.task_id)
    await run.kit.around.keep_lessons(run.job.task_id, kept)


async def with_verdict(run: JobRun, carried: Carried, left: Movement, outcome: MovementResult) -> Carried:
    """What is carried from ``left``, with its feedback and the changes if it is a verify-type movement."""
    if not is_verify(left):
        return carried
    said = lesson_of(outcome)
    feedback = (left.name, said) if said else None
    return replace(carried, feedback=feedback, changes=await run.kit.around.differences())


async def with_last_verdict(run: JobRun, carried: Carried) -> Carried:
    """The same for a movement that is entered again after a park: its prompt is rebuilt, and what it was sent
    back for must stand in it again.
    """
    came = await run.kit.db(run.kit.store.came_from, run.job.job_id, run.movement)
    if came is None:
        return carried
    name, summary, said = came
    outcome = MovementResult(next=run.movement, summary=summary, lessons=said)
    return await with_verdict(run, carried, run.piece.movement(name), outcome)
