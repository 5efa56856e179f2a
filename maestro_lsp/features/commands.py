"""The commands of ``workspace/executeCommand``: take params, call one verb of the engine, convert.

Names, params and results are in ``protocol.COMMANDS``; each function here is the ``handler`` of one row. A
command only commits what was said; what takes time happens in the engine process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from engine import (
    BadArgument,
    Brief,
    Client,
    JobDetail,
    ModelSettings,
    Reverted,
    StartOrder,
    WorkerSettings,
    export_to_file,
    piece_mermaid,
    piece_svg,
    to_wire,
)
from maestro_lsp import __version__
from maestro_lsp import protocol as p
from maestro_lsp import shapes as s
from maestro_lsp.convert import path_of, piece_info, read_params, uri_of
from maestro_lsp.display import public_url, told, told_event
from maestro_lsp.documents import Place, disk_text, text_between
from maestro_lsp.exporting import export_parts
from maestro_lsp.session import Session

SANDBOX_LEVEL = "C"
"""Of ``policy.yaml``: there is no sandbox yet."""


async def dispatch(session: Session, command: str, arguments: list[object]) -> object:
    """Run one command of `p.COMMANDS`; plain JSON. Raises ``EngineError``."""
    row = p.COMMANDS[command]
    params = read_params(row.params, arguments)
    return to_wire(await HANDLERS[row.handler](session, params))


async def start(session: Session, params: p.StartParams) -> s.Started:
    """Submit a task."""
    client = await session.client()
    order = StartOrder(
        instruction=params.instruction,
        piece=params.piece,
        mode=params.mode,
        model=params.model,
        files=tuple(_file(uri, f"files[{index}]") for index, uri in enumerate(params.files)),
        selection=None if params.selection is None else await _selected(session, params.selection),
        parent=params.parent,
    )
    if params.workspace is not None:
        _require_ours(params.workspace, client.workspace)
    task_id, job_id = await client.start(order)
    session.bridge.started(job_id)
    session.host.wake()
    return s.Started(task_id=task_id, job_id=job_id)


def _file(uri: str, path: str) -> Path:
    found = path_of(uri)
    if found is None:
        raise BadArgument("lsp.params.not_a_file_uri", data={"path": path, "expected": "file URI"}, path=path)
    return found


def _require_ours(uri: str, workspace: Path) -> None:
    wanted = _file(uri, "workspace")
    if os.path.realpath(wanted) != os.path.realpath(workspace):
        data = {"path": "workspace", "expected": workspace.as_uri()}
        raise BadArgument("lsp.other_workspace", data=data, workspace=str(workspace))


async def _selected(session: Session, selection: p.Selection) -> tuple[str, str]:
    """The name and text of a selection: of the open buffer, else of the file."""
    text, path = session.documents.text(selection.uri), path_of(selection.uri)
    if text is None and path is not None:
        text = await asyncio.to_thread(disk_text, path)
    if text is None:
        data = {"path": "selection.uri", "expected": "an open document or a text file"}
        raise BadArgument("lsp.params.not_open", data=data, path="selection.uri")
    start, end = selection.range.start, selection.range.end
    name = (
        selection.uri.rpartition("/")[2]
        if path is None
        else _relative(path, (await session.client()).workspace)
    )
    part = text_between(
        text, Place(start.line, start.character), Place(end.line, end.character), session.documents.encoding
    )
    return f"{name}:{start.line + 1}-{end.line + 1}", part


def _relative(path: Path, workspace: Path) -> str:
    real = Path(os.path.realpath(path))
    return str(real.relative_to(workspace)) if real.is_relative_to(workspace) else str(path)


async def list_jobs(session: Session, params: p.ListParams) -> s.Jobs:
    """Summaries, newest first."""
    client = await session.client()
    return s.Jobs(jobs=await client.list_jobs(params.status, params.limit))


async def show(session: Session, params: p.JobParams) -> JobDetail:
    """Everything about a job but its events."""
    job = await (await session.client()).show(params.job_id)
    requests = [told(request, session.say) for request in job.requests]
    return msgspec.structs.replace(job, requests=requests)


async def events(session: Session, params: p.EventsParams) -> dict[str, object]:
    """The stored events after a number; as they are stored, so that additions come through."""
    found = await (await session.client()).events(params.job_id, params.after)
    shown = [told_event(event, session.say) for event in found]
    return {"events": shown, "last": found[-1]["seq"] if found else params.after}


async def watch(session: Session, params: p.WatchParams) -> s.Done:
    """Whether ``maestro/event`` of a job comes to this client."""
    await (await session.client()).summary(params.job_id)
    session.bridge.watches.set(params.job_id, params.on)
    return s.Done()


async def comment(session: Session, params: p.CommentParams) -> s.Commented:
    """Comment on a task; on one at rest that is a follow-up."""
    client = await session.client()
    job_id = await client.comment(params.task_id, params.text, params.piece)
    if job_id is not None:
        session.bridge.started(job_id)
    else:
        for job in await client.list_jobs(["queued", "running", "waiting_human", "waiting_subtasks"]):
            if job.task_id == params.task_id:
                session.bridge.watches.touched(job.job_id)
    session.host.wake()
    return s.Commented(job_id=job_id)


async def answer(session: Session, params: p.AnswerParams) -> s.Done:
    """Answer a question."""
    client = await session.client()
    await client.answer(params.job_id, params.text, params.request_id)
    session.acted(params.job_id)
    return s.Done()


async def brief(session: Session, params: p.BriefParams) -> Brief:
    """The Mission Brief, set if given."""
    fields = {} if params.brief is None else _given(params.brief)
    return await (await session.client()).brief(params.task_id, fields or None)


def _given(fields: p.BriefFields) -> dict[str, str]:
    return {name: value for name, value in msgspec.structs.asdict(fields).items() if value is not None}


async def decide(session: Session, params: p.DecideParams) -> s.Settled:
    """Settle a request."""
    client = await session.client()
    job_id = (await client.request(params.request_id)).job_id
    await client.decide(
        params.request_id, params.decision, scope=params.scope, network=params.network, note=params.note
    )
    session.acted(job_id)
    return s.Settled(settled=True)


async def cancel(session: Session, params: p.JobParams) -> s.Done:
    """Cancel a job."""
    await cancel_job(session, params.job_id)
    return s.Done()


async def cancel_job(session: Session, job_id: str) -> None:
    """Cancel a job; an engine of ours that runs it hears of it at once.

    Raises ``NotFound``, ``IllegalMove``.
    """
    client = await session.client()
    if not await client.cancel(job_id):
        session.host.cancel(job_id)


async def retry(session: Session, params: p.JobParams) -> s.NewJobId:
    """A new job from one that did not succeed."""
    job_id = await (await session.client()).retry(params.job_id)
    session.bridge.started(job_id)
    session.host.wake()
    return s.NewJobId(job_id=job_id)


async def changes(session: Session, params: p.ChangesParams) -> s.Changes:
    """The files a job changed, before and now."""
    found = await (await session.client()).changes(params.job_id)
    wanted = None if params.files is None else set(params.files)
    return s.Changes(files=[file for file in found if wanted is None or file.path in wanted])


async def revert(session: Session, params: p.ChangesParams) -> Reverted:
    """Put back what a job changed and nobody touched since; documents with unsaved changes stay."""
    unsaved = [Path(path) for path in await session.documents.dirty()]
    done = await (await session.client()).revert(params.job_id, params.files, unsaved)
    kept = [msgspec.structs.replace(one, text=session.say(f"revert.kept.{one.reason}")) for one in done.kept]
    return Reverted(reverted=done.reverted, kept=kept)


async def export(session: Session, params: p.ExportParams) -> s.Exported:
    """A job with its task as a document in the task's ``output`` folder."""
    client = await session.client()
    task_id = (await client.summary(params.job_id)).task_id
    parts = export_parts(client, params.job_id, params.format, session.say)
    path = await export_to_file(client, task_id, f"{params.job_id}.{params.format}", parts)
    return s.Exported(uri=uri_of(path))


async def piece_graph(session: Session, params: p.GraphParams) -> s.Graph:
    """A piece as a picture."""
    piece = (await (await session.client()).load_piece(params.piece)).piece
    return await asyncio.to_thread(lambda: s.Graph(mermaid=piece_mermaid(piece), svg=piece_svg(piece)))


async def list_pieces(session: Session, params: p.Nothing) -> s.Pieces:
    """All pieces with their source and problems."""
    entries = await (await session.client()).pieces()
    return s.Pieces(pieces=[piece_info(entry, session.language) for entry in entries])


async def resolve_captcha(session: Session, params: p.KeyParams) -> s.Resumed:
    """A captcha was solved: every job that waits for its screen goes on."""
    resumed = await (await session.client()).resolve_screen(params.key)
    for job_id in resumed:
        session.acted(job_id)
    return s.Resumed(resumed=resumed)


async def list_rules(session: Session, params: p.Nothing) -> s.Rules:
    """Stored approval rules."""
    return s.Rules(rules=await (await session.client()).rules())


async def remove_rule(session: Session, params: p.RuleParams) -> s.Done:
    """Forget a rule."""
    await (await session.client()).remove_rule(params.id)
    return s.Done()


async def set_mode(session: Session, params: p.ModeParams) -> s.Done:
    """The mode of new jobs, or of one job from its next call on."""
    await (await session.client()).set_mode(params.mode, params.job_id)
    if params.job_id is None:
        await session.reconfigure(mode=params.mode)
    return s.Done()


async def list_models(session: Session, params: p.Nothing) -> s.Models:
    """The model workers."""
    config = (await session.client()).config
    return s.Models(workers=[_worker(worker) for worker in config.model_workers])


async def trust(session: Session, params: p.TrustParams) -> s.Done:
    """Whether the person trusts the workspace."""
    await (await session.client()).set_trust(params.trusted)
    await session.reconfigure(trusted=params.trusted)
    return s.Done()


async def status(session: Session, params: p.Nothing) -> s.Status:
    """How things stand."""
    client = await session.client()
    return s.Status(
        server=s.ServerInfo(name="maestro-lsp", version=__version__, pid=os.getpid()),
        workspace=str(client.workspace),
        model=_model(client),
        queue=await client.counts(),
        store=str(client.store_file),
        sandbox=SANDBOX_LEVEL,
        trusted=await client.trusted(),
        mode=client.config.mode,
        language=session.language,
        engine=s.EngineInfo(pid=session.host.pid),
    )


def _model(client: Client) -> s.ModelInfo:
    """The worker of jobs that name none; an empty one if no model server is set."""
    configured = bool(client.config.model_workers)
    return _worker(client.worker_for(None) if configured else WorkerSettings("default", ModelSettings()))


def _worker(worker: WorkerSettings) -> s.ModelInfo:
    llm = worker.llm
    return s.ModelInfo(
        id=worker.id,
        endpoint=public_url(llm.endpoint),
        model=llm.model,
        has_key=bool(llm.api_key),
        roles=list(worker.roles),
        vision=worker.vlm,
        max_concurrency=worker.max_concurrency,
        context_tokens=llm.context_tokens,
    )


Handler = Callable[[Session, Any], Awaitable[object]]

_FUNCTIONS = (
    *(start, list_jobs, show, events, watch, comment, answer, brief, decide, cancel, retry, changes),
    *(revert, export, piece_graph),
    *(list_pieces, resolve_captcha, list_rules, remove_rule, set_mode, list_models, trust, status),
)
HANDLERS: dict[str, Handler] = {function.__name__: cast(Handler, function) for function in _FUNCTIONS}
