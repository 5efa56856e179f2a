"""What a front or the command line needs of the engine: submit, answer, decide, list, show, follow. A
committed row is the acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.attachments import attach
from engine.catalog import language_of_text
from engine.clock import SystemClock
from engine.config import MODES, EngineConfig, WorkerSettings
from engine.core.errors import BadArgument, IllegalMove
from engine.core.jobs import ENDED, PARKED, JobStatus
from engine.core.model_choice import Wish, candidates, unknown_model
from engine.core.piece import piece_to_json
from engine.core.records import NewJob
from engine.core.secrets import redact
from engine.core.toolnames import BUILTIN_NAMES
from engine.core.views import Brief, FileChanged, JobDetail, JobSummary, Request, Reverted, RuleView
from engine.endpoint import parse_endpoint
from engine.ids import new_id
from engine.loader import (
    LoadedPiece,
    PieceDirs,
    PieceEntry,
    default_dirs,
    list_pieces,
    load_piece,
)
from engine.paths import CONTENTS, make_task_dir, store_path
from engine.store.store import Store, StoreThread

POLL_S = 0.2
TITLE_LIMIT = 80
MOST_TOLD = 200
"""How many paths an event names."""


@dataclass(frozen=True, slots=True)
class StartOrder:
    """What ``maestro.task.start`` takes. ``files`` are absolute paths; ``selection`` is a text with a name
    for it.
    """

    instruction: str
    piece: str | None = None
    mode: str | None = None
    model: str | None = None
    files: tuple[Path, ...] = ()
    selection: tuple[str, str] | None = None
    parent: str | None = None


class Client:
    """The engine as seen from outside it. ``by`` names this client in decisions. Open before use, close
    after.
    """

    def __init__(
        self, workspace: Path, config: EngineConfig, *, by: str = "cli", store_file: Path | None = None
    ) -> None:
        self.workspace = workspace
        self.config = config
        self.by = by
        self.store_file = store_file or store_path(workspace)
        self.db = StoreThread()
        self._clock = SystemClock()
        self._store: Store | None = None
        self._poke = asyncio.Event()

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise RuntimeError("the client is not open")
        return self._store

    async def open(self) -> None:
        """Open the store. Raises ``StoreFault``."""
        self._store = await self.db(Store.open, self.store_file)
        if await self.db(self.store.meta, "workspace") is None:
            await self.db(self.store.set_meta, "workspace", str(self.workspace))

    async def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            await self.db(self._store.close)
            self._store = None
        self.db.close()

    def now(self) -> float:
        """POSIX seconds."""
        return self._clock.now()

    async def start(self, order: StartOrder) -> tuple[str, str]:
        """Submit a task; (task id, job id), committed. Nothing runs yet. Where neither the order nor the
        configuration names a piece, one is chosen when the job is claimed (``engine.md`` section 2).

        Raises ``BadArgument``, ``NotConfigured``, ``NotFound`` / ``FaultyPiece`` / ``NotTrusted`` for the
        piece.
        """
        if not order.instruction.strip():
            raise BadArgument("start.empty", data={"path": "instruction", "expected": "a non-empty string"})
        instruction = self._said(order.instruction)
        mode = order.mode or self.config.mode
        if mode not in MODES:
            raise BadArgument("mode.unknown", mode=mode, data={"path": "mode", "expected": " | ".join(MODES)})
        self.check_configured()
        named = order.piece or self.config.piece
        loaded = await self.load_piece(named) if named else None
        model = order.model or (loaded.piece.model if loaded else None)
        self.worker_for(model)
        task_id = new_id("t")
        await asyncio.to_thread(make_task_dir, self.workspace, task_id)
        files = await asyncio.to_thread(
            attach, self.workspace, task_id, instruction, order.files, order.selection
        )
        language = self.config.language if self.config.language != "auto" else language_of_text(instruction)
        new = NewJob(
            job_id=new_id("j"),
            instruction=instruction,
            title=title_of(instruction),
            language=language,
            mode=mode,
            piece_name=loaded.piece.name if loaded else None,
            piece=piece_to_json(loaded.piece) if loaded else b"",
            piece_hash=loaded.hash if loaded else "",
            movement=loaded.piece.initial_movement if loaded else None,
            new_task_id=task_id,
            model=model,
            files=tuple(files),
            parent_id=order.parent,
        )
        ids = await self.db(self.store.submit, new, self.now())
        self.poke()
        return ids

    def check_configured(self) -> None:
        """Raise ``NotConfigured`` if no model server is named, or one by a URL that cannot be used: one
        sentence that says how to mend it.
        """
        if not self.config.model_workers:
            raise unknown_model((), Wish())
        for worker in self.config.model_workers:
            parse_endpoint(worker.llm.endpoint)

    def worker_for(self, model: str | None) -> WorkerSettings:
        """The worker that a job gets first which names this model, or none. Raises ``NotConfigured`` with the
        known names if no worker offers it.
        """
        config, wish = self.config, Wish(model)
        if not (fitting := candidates(config.cards, wish, listed=bool(config.workers))):
            raise unknown_model(config.cards, wish)
        return next(worker for worker in config.model_workers if worker.id == fitting[0].id)

    async def comment(self, task_id: str, text: str, piece: str | None = None) -> str | None:
        """Comment on a task. A job parked with a question takes it as the answer; a task at rest gets a
        follow-up job, whose id is returned.
        """
        if not text.strip():
            raise BadArgument("comment.empty", data={"path": "text", "expected": "a non-empty string"})
        text = self._said(text)
        taken = await self.db(self.store.comment, task_id, text, self.by, self.now(), new_id("c"))
        self.poke()
        return None if taken else await self._follow_up(task_id, text, piece)

    async def _follow_up(self, task_id: str, text: str, piece: str | None) -> str:
        self.check_configured()
        jobs = await self.db(self.store.statuses_of_task, task_id)
        last = await self.db(self.store.job, jobs[-1][0])
        loaded = await self.load_piece(piece) if piece else None
        self.worker_for(last.model)
        new = NewJob(
            job_id=new_id("j"),
            instruction=text,
            title=last.title,
            language=last.language,
            mode=last.mode,
            piece_name=loaded.piece.name if loaded else last.piece_name,
            piece=piece_to_json(loaded.piece) if loaded else last.piece,
            piece_hash=loaded.hash if loaded else last.piece_hash,
            movement=loaded.piece.initial_movement if loaded else None,
            task_id=task_id,
            model=last.model,
        )
        _, job_id = await self.db(self.store.submit, new, self.now(), new_id("c"))
        self.poke()
        return job_id

    def _said(self, text: str) -> str:
        """What a person wrote, as it is stored: secrets masked, for the model would not see them anyway."""
        return redact(text, self.config.secrets)

    async def answer(self, job_id: str, text: str, request_id: str | None = None) -> None:
        """Answer a question. Raises ``NotFound``, ``AlreadySettled``, ``IllegalMove``, ``BadArgument``."""
        said = self._said(text)
        await self.db(self.store.answer, job_id, request_id, said, self.by, self.now(), new_id("c"))
        self.poke()

    async def decide(
        self, request_id: str, decision: str, *, scope: str = "once", network: bool = False, note: str = ""
    ) -> None:
        """Settle a request with allow or deny. Raises ``NotFound``, ``AlreadySettled``, ``BadArgument``."""
        if decision not in ("allow", "deny"):
            raise BadArgument(
                "decide.unknown", decision=decision, data={"path": "decision", "expected": "allow | deny"}
            )
        if scope not in ("once", "task", "always"):
            raise BadArgument(
                "decide.scope", scope=scope, data={"path": "scope", "expected": "once | task | always"}
            )
        await self.db(
            self.store.decide,
            request_id,
            decision,
            self.by,
            self.now(),
            scope=scope,
            network=network,
            note=self._said(note),
            rule_id=new_id("u"),
        )
        self.poke()

    async def resolve_screen(self, key: str) -> list[str]:
        """Settle all captcha requests of a screen; the jobs that go on."""
        resumed = await self.db(self.store.resume_captcha_jobs, key, self.by, self.now())
        self.poke()
        return resumed

    async def cancel(self, job_id: str) -> bool:
        """Cancel a job. True if it is cancelled already, False if its engine is about to. Raises
        ``NotFound``, ``IllegalMove``.
        """
        done = await self.db(self.store.cancel, job_id, self.by, self.now())
        self.poke()
        return done

    async def retry(self, job_id: str) -> str:
        """A new job from one that failed, was aborted or cancelled; its id. Raises ``NotFound``,
        ``IllegalMove``.
        """
        self.check_configured()
        new = await self.db(self.store.retry, job_id, new_id("j"), self.now())
        self.poke()
        return new

    async def brief(self, task_id: str, fields: dict[str, str] | None = None) -> Brief:
        """The Mission Brief of a task, changed first if fields are given."""
        if not fields:
            return await self.db(self.store.brief, task_id)
        said = {name: self._said(text) for name, text in fields.items()}
        return await self.db(self.store.set_brief, task_id, said)

    async def set_mode(self, mode: str, job_id: str | None = None) -> None:
        """The mode of new jobs of this client, or of one job from its next call on. Raises ``BadArgument``,
        ``NotFound``, ``IllegalMove``.
        """
        if mode not in MODES:
            raise BadArgument("mode.unknown", mode=mode, data={"path": "mode", "expected": " | ".join(MODES)})
        if job_id is None:
            self.config = replace(self.config, mode=mode)
            return
        status = (await self.summary(job_id)).status
        if JobStatus(status) in ENDED:
            raise IllegalMove("job.ended", id=job_id, status=status, data={"status": status})
        await self.db(self.store.set_mode, job_id, mode)

    async def summary(self, job_id: str) -> JobSummary:
        """A job's summary. Raises ``NotFound``."""
        return await self.db(self.store.summary, job_id)

    async def list_jobs(self, statuses: Sequence[str] | None = None, limit: int = 200) -> list[JobSummary]:
        """Summaries, newest first. Raises ``BadArgument`` for an unknown status."""
        for status in statuses or ():
            if status not in list(JobStatus):
                raise BadArgument(
                    "status.unknown",
                    status=status,
                    data={"path": "status", "expected": " | ".join(JobStatus)},
                )
        return await self.db(self.store.list_jobs, statuses, limit)

    async def show(self, job_id: str) -> JobDetail:
        """Everything about a job but its events. Raises ``NotFound``."""
        return await self.db(self.store.detail, job_id)

    async def events(self, job_id: str, after: int = 0) -> list[dict[str, Any]]:
        """A job's stored events. Raises ``NotFound``."""
        return await self.db(self.store.job_events, job_id, after)

    async def request(self, request_id: str) -> Request:
        """A request. Raises ``NotFound``."""
        return await self.db(self.store.request, request_id)

    async def open_requests(self) -> list[Request]:
        """All open requests, oldest first."""
        return await self.db(self.store.open_requests)

    async def rules(self) -> list[RuleView]:
        """Stored approval rules."""
        return await self.db(self.store.rules)

    async def remove_rule(self, rule_id: str) -> None:
        """Forget a rule. Raises ``NotFound``."""
        await self.db(self.store.remove_rule, rule_id)

    async def counts(self) -> dict[str, int]:
        """Jobs per status."""
        return await self.db(self.store.counts)

    async def changes(self, job_id: str) -> list[FileChanged]:
        """The files a job changed (its subtasks' are their own), before and now. Raises ``NotFound``."""
        await self.summary(job_id)
        snapshots = await self.db(self.store.snapshots, job_id)
        from engine.changes import changes_of

        return await asyncio.to_thread(changes_of, self.workspace, snapshots, self._contents_file)

    async def revert(
        self, job_id: str, files: Sequence[str] | None = None, unsaved: Sequence[Path] = ()
    ) -> Reverted:
        """Put back what a job at rest changed and nobody touched since, or only ``files`` (paths in the
        workspace, also of folders); the rest is reported. ``unsaved`` are documents that the person is at
        work on, which stay. Raises ``NotFound``, ``IllegalMove``.
        """
        status = (await self.summary(job_id)).status
        if JobStatus(status) not in ENDED | PARKED:
            raise IllegalMove("revert.running", id=job_id, status=status, data={"status": status})
        snapshots = await self.db(self.store.snapshots, job_id)
        from engine.revert import revert

        done = await asyncio.to_thread(
            revert, self.workspace, job_id, snapshots, self._contents_file, unsaved, files
        )
        if done.reverted:
            paths = [path.rstrip("/") for path in done.reverted]
            told = {"files": done.reverted[:MOST_TOLD], "count": len(paths), "kept": len(done.kept)}
            await self.db(self.store.mark_reverted, job_id, paths, self.now(), told)
            self.poke()
        return done

    @property
    def _contents_file(self) -> Path:
        return self.store_file.parent / CONTENTS

    async def trusted(self) -> bool:
        """Whether the workspace is trusted: as this session was told, else as stored."""
        if self.config.trusted is not None:
            return self.config.trusted
        return await self.db(self.store.meta, "trusted") == "1"

    async def set_trust(self, trusted: bool) -> None:
        """Store whether this workspace (by its real path) is trusted."""
        await self.db(self.store.set_meta, "trusted", "1" if trusted else "0")
        self.config = replace(self.config, trusted=trusted)

    async def piece_dirs(self) -> PieceDirs:
        """Where pieces are looked up for this workspace."""
        trusted = await self.trusted()
        return default_dirs(self.workspace, trusted, expanded(self.config.pieces_dirs))

    async def pieces(self) -> list[PieceEntry]:
        """All pieces with their source and problems."""
        return await asyncio.to_thread(list_pieces, await self.piece_dirs(), BUILTIN_NAMES)

    async def load_piece(self, name_or_file: str) -> LoadedPiece:
        """A piece by name or file."""
        return await asyncio.to_thread(load_piece, name_or_file, await self.piece_dirs(), BUILTIN_NAMES)

    def poke(self) -> None:
        """Look for new events now instead of at the next poll."""
        self._poke.set()

    async def mark(self) -> int:
        """The present, for a later `follow` from here on."""
        return await self.db(self.store.last_event_id)

    async def follow(
        self, on_events: Callable[[list[dict[str, Any]]], Awaitable[None]], *, after: int | None = None
    ) -> None:
        """Hand every new stored event on, of all jobs, in commit order, until cancelled. ``after`` is a mark,
        None the present one.
        """
        last = await self.mark() if after is None else after
        version = -1
        while True:
            self._poke.clear()
            rows = await self.db(self.store.events_after, last)
            if rows:
                last = rows[-1][0]
                await on_events([event for _, event in rows])
                continue
            version = await self._news(version)

    async def _news(self, version: int) -> int:
        """Wait until something was poked or another connection committed; the data version seen."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._poke.wait()
                return version
            current = await self.db(self.store.data_version)
            if current != version:
                return current


def expanded(folders: Sequence[str]) -> list[Path]:
    """Configured folders as paths, with ``~`` as the person's home."""
    found = []
    for folder in folders:
        with suppress(RuntimeError):  # there is no such person
            found.append(Path(folder).expanduser())
    return found


def title_of(instruction: str) -> str:
    """A task's title: the first line of its instruction, cut."""
    from engine.core.truncate import cut

    first = next((line.strip() for line in instruction.splitlines() if line.strip()), "")
    return cut(first, TITLE_LIMIT)
