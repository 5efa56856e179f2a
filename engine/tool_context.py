"""What a tool is given: a narrow view of the running job."""

from __future__ import annotations

from engine.core.hops import AskVerdict, ask_policy, process_transition_calls
from engine.core.records import canonical
from engine.core.tooling import Decision
from engine.kit import JobRun
from engine.ports import ToolContext


def tool_context(run: JobRun, call_id: str) -> ToolContext:
    """The context of one call. ``ask`` counts: it is called by the tool that asks the person."""
    kit = run.kit

    async def decided(key: str) -> Decision | None:
        row = await kit.db(kit.store.decided, run.job.job_id, key)
        if row is None or row.decision is None:
            return None
        return Decision(key, row.decision, row.scope or "once", row.text, row.note)

    async def update_brief(fields: dict[str, str]) -> str:
        clean = {name: kit.redact(text) for name, text in fields.items()}
        return canonical(await kit.db(kit.store.set_brief_fields, run.lease, run.now(), clean))

    async def open_children() -> int:
        return await kit.db(kit.store.count_open_children, run.job.job_id)

    async def unheard() -> bool:
        return bool(await kit.db(kit.store.undelivered, run.job.task_id))

    def ask() -> AskVerdict:
        verdict, run.counters = ask_policy(run.counters, kit.config.safety)
        return verdict

    return ToolContext(
        job_id=run.job.job_id,
        task_id=run.job.task_id,
        call_id=call_id,
        workspace=kit.workspace,
        task_dir=kit.task_dir(run.job.task_id),
        language=run.texts.language,
        movement=run.movement,
        edit=run.here.edit,
        targets=tuple(rule.next for rule in run.here.rules),
        budget=run.context.tool_result_budget(kit.config.context),
        timeout_s=kit.config.safety.bash_timeout_s,
        documents=kit.documents,
        commands=kit.commands,
        read_marks=run.read_marks,
        network=False,
        emit=lambda delta: run.live("tool_output", callId=call_id, delta=kit.redact(delta)),
        decided=decided,
        update_brief=update_brief,
        texts=run.texts,
        hop=lambda step, summary, lessons: process_transition_calls(
            run.here, step, summary, lessons, kit.table, run.texts
        ),
        ask=ask,
        open_children=open_children,
        unheard=unheard,
    )
