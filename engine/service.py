"""The composition root of the engine: builds the adapters and runs the worker, in a process of its own or
inside a command.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engine.catalog import explain, messages, prompts
from engine.checkpoint import WorkspaceCheckpoints
from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.core.errors import EngineError, StoreLocked
from engine.core.jobs import Job, Owner
from engine.core.manifest import DIR
from engine.core.outcome import Settlement, SettlementTable
from engine.core.piece import Piece, collect_piece_transition_targets
from engine.core.policy import permitted
from engine.core.prompting import WorkspaceFacts
from engine.core.secrets import mask, redact
from engine.core.tooling import FileChange, ToolSpec
from engine.core.toolnames import BUILTIN_NAMES
from engine.ids import new_id
from engine.kit import Kit, log
from engine.link import FrontDocuments, LineChannel, NoDocuments, private_stdio
from engine.llm.tokens import TokenCounter
from engine.paths import task_dir
from engine.ports import Documents, Live
from engine.processes import keep_private, known_dead, this_process
from engine.sandbox.none import NoSandbox
from engine.shelf import shelf_of
from engine.store.store import Store, StoreThread
from engine.surroundings import WorkspaceSurroundings
from engine.tasks import TaskMaker
from engine.toolbox import permissions_of
from engine.tools import ShellRegistry, builtin_tools
from engine.worker import Worker
from engine.workspace import (
    Refused,
    file_hash,
    git_branch,
    list_task_files,
    read_content,
    remove_temporaries,
    resolve,
)

if TYPE_CHECKING:
    from engine.llm.pool import ModelPool

IDLE_EXIT_S = 300.0
"""An engine process with nothing queued or running ends after this long; the front starts the next one.
Parked jobs need none.
"""


_LARGEST_BEFORE = 64 << 20
_LOCK_TRIES = 6
"""How often a store call waits for a lock (ten seconds each) before the engine gives up."""


@dataclass(frozen=True, slots=True)
class Extras:
    """Additions to the engine: tools after the built-in ones, and rows of the settlement table."""

    tools: tuple[ToolSpec, ...] = ()
    settlements: tuple[Settlement, ...] = ()


NO_EXTRAS = Extras()


class Service:
    """One engine on one store. ``on_stored`` is called (often) after anything was committed; ``live`` gets
    what streams.
    """

    def __init__(
        self,
        workspace: Path,
        store_file: Path,
        config: EngineConfig,
        *,
        documents: Documents | None = None,
        live: Live = lambda job_id, kind, body: None,
        on_stored: Callable[[], None] = lambda: None,
        extras: Extras = NO_EXTRAS,
        only: str | None = None,
    ) -> None:
        self.workspace = workspace
        self.config = config
        self._db = StoreThread()
        self._store_file = store_file
        self._documents = documents or NoDocuments()
        self._live = live
        self._on_stored = on_stored
        self._extras = extras
        self._only = only
        self._registry = ShellRegistry(store_file.parent / "commands")
        self.worker: Worker | None = None
        self._checkpoints: WorkspaceCheckpoints | None = None
        self._stopped = False
        self._pool: ModelPool | None = None

    async def run(self, *, until_idle: bool = False, idle_s: float | None = None) -> None:
        """Open the store and work. Raises ``StoreFault`` if it cannot be used."""
        keep_private()  # before any command runs below this process
        store = await self._db(Store.open, self._store_file)
        try:
            trusted = self.config.trusted
            if trusted is None:
                trusted = await self._db(store.meta, "trusted") == "1"
            owner = this_process(new_id("w"))
            await asyncio.to_thread(self._registry.end_left)
            self._checkpoints = checkpoints = self._checkpoints_of(store, owner)
            await checkpoints.wake()
            self.worker = Worker(self._kit(store, trusted, checkpoints), owner, self._is_gone, self._only)
            if self._stopped:
                self.worker.stop()
            await self.worker.run(until_idle=until_idle, idle_s=idle_s)
        finally:
            await self._registry.end_everything()
            if self._checkpoints is not None:
                await self._checkpoints.close()
            await self._db(store.close)
            self._db.close()
            if self._pool is not None:
                await self._pool.aclose()

    def _is_gone(self, pid: int, start: str, boot: str) -> bool:
        """Whether an owner of jobs certainly no longer lives; then what its commands left does not either,
        before its jobs go on. Called in a thread.
        """
        if not known_dead(pid, start, boot):
            return False
        self._registry.end_left()
        return True

    def wake(self) -> None:
        """Look at the queue now."""
        if self.worker is not None:
            self.worker.wake()

    def stop(self) -> None:
        """End in order."""
        self._stopped = True
        if self.worker is not None:
            self.worker.stop()

    async def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A store call; one that found the store locked is made again for a while (it did nothing), because
        a job must not lose its way to somebody's backup.
        """
        try:
            for _ in range(_LOCK_TRIES - 1):
                with suppress(StoreLocked):
                    return await self._db(call, *args, **kwargs)
            return await self._db(call, *args, **kwargs)
        finally:
            self._on_stored()

    def _kit(self, store: Store, trusted: bool, checkpoints: WorkspaceCheckpoints) -> Kit:
        pool = self._pool = _pool(self.config)
        return Kit(
            config=self.config,
            workspace=self.workspace,
            trusted=trusted,
            table=SettlementTable().with_rows(*self._extras.settlements),
            store=store,
            db=self._call,
            model=pool.model,
            seat=pool.seat,
            classifier=pool.classifier,
            workers=pool,
            toolset=self.toolset,
            tool_names=self._tool_names,
            tasks=self._task_maker(store, trusted),
            end_processes=self._end_processes,
            documents=self._documents,
            commands=NoSandbox.for_machine(),
            clock=SystemClock(),
            live=self._live,
            prompts=prompts,
            messages=messages,
            facts=self._facts,
            task_dir=partial(task_dir, self.workspace),
            local_time=lambda at: datetime.fromtimestamp(at).astimezone(),
            new_id=new_id,
            redact=self._redact,
            mask=lambda text: mask(text, self.config.secrets),
            explain=explain,
            settle_file=partial(_settle_file, self.workspace),
            file_before=partial(_file_before, self.workspace),
            checkpoints=checkpoints,
            pieces=shelf_of(self.workspace, trusted, self.config.pieces_dirs),
            around=self._around(trusted),
            running_commands=self._registry.jobs,
            count_tokens=TokenCounter(),
        )

    def _around(self, trusted: bool) -> WorkspaceSurroundings:
        return WorkspaceSurroundings(self.workspace, trusted, self._documents, self._redact)

    def _redact(self, text: str) -> str:
        """A text without secrets."""
        return redact(text, self.config.secrets)

    def _checkpoints_of(self, store: Store, owner: Owner) -> WorkspaceCheckpoints:
        return WorkspaceCheckpoints(
            self.workspace,
            self._store_file.parent,
            self.config.snapshots,
            db=self._call,
            store=store,
            documents=self._documents,
            clock=SystemClock(),
            owner=owner,
            running=self._registry.jobs,
            is_dead=self._is_gone,
        )

    async def _end_processes(self, job_id: str) -> None:
        """End the commands of a job, and note what they changed last."""
        await self._registry.end_all(job_id)
        if self._checkpoints is not None:
            await self._checkpoints.after(job_id)

    def _task_maker(self, store: Store, trusted: bool) -> TaskMaker:
        return TaskMaker(self.workspace, trusted, self.config, store, self._call, SystemClock(), self._redact)

    def _tool_names(self) -> tuple[str, ...]:
        """The names of all tools that RequestTool may be asked for."""
        return (*BUILTIN_NAMES, *(spec.name for spec in self._extras.tools))

    def toolset(self, piece: Piece, granted: frozenset[str] = frozenset()) -> tuple[ToolSpec, ...]:
        """The tools of a piece: the union of what its movements permit and of what was granted, in the order
        of the built-in list (the cache law).
        """
        every = (*builtin_tools(collect_piece_transition_targets(piece), self._registry), *self._extras.tools)
        permissions = [permissions_of(movement, granted) for movement in piece.movements]
        return tuple(
            spec for spec in every if spec.always or any(permitted(spec.name, p) for p in permissions)
        )

    def _facts(self, job: Job) -> WorkspaceFacts:
        folder = task_dir(self.workspace, job.task_id)
        files = list_task_files(folder)
        relative = folder.relative_to(self.workspace)
        return WorkspaceFacts(
            root=str(self.workspace),
            branch=git_branch(self.workspace),
            input_dir=f"{relative}/input",
            output_dir=f"{relative}/output",
            files=tuple(f"{relative}/{name}" for name in files.names),
            more_files=files.more,
            attached=job.files,
        )


def _pool(config: EngineConfig) -> ModelPool:
    from engine.llm.pool import ModelPool

    return ModelPool(config)


def _settle_file(workspace: Path, task_id: str, path: str, call_id: str) -> str | None:
    """The hash of a file as it is now, once what a cut-off write of this call left beside it is removed.

    None if there is no such file, or nothing that a tool would have written.
    """
    try:
        place = resolve(workspace, task_dir(workspace, task_id), path)
        remove_temporaries(place, call_id)
        return file_hash(place)
    except (Refused, OSError):
        return None


def _file_before(workspace: Path, task_id: str, path: str) -> list[FileChange]:
    """A file as it is before a change of it, and the folders that would be made for it; nothing if it cannot
    be read, and then it will not be written.
    """
    try:
        place = resolve(workspace, task_dir(workspace, task_id), path)
    except (Refused, OSError):
        return []
    try:
        content = read_content(place, _LARGEST_BEFORE)
    except FileNotFoundError:
        parts = place.parts
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        missing = [folder for folder in above if not os.path.lexists(place.root / folder)]
        return [*(FileChange(folder, None, DIR) for folder in missing), FileChange(path, None, None)]
    except (Refused, OSError):
        return []
    return [FileChange(path, content.data, None, content.mode)]


class _Hello(msgspec.Struct):
    workspace: str
    store: str
    config: EngineConfig


async def serve_link(extras: Extras = NO_EXTRAS) -> int:
    """The engine process: take orders from the front over stdio until it goes away. The exit status of the
    process.
    """
    channel = LineChannel(*private_stdio())
    stream = aiter(channel)
    try:
        hello = msgspec.convert(await anext(stream), _Hello, strict=False)
    except (StopAsyncIteration, msgspec.ValidationError):
        return 2
    documents = FrontDocuments(channel)
    poke = _Poke(channel)
    service = Service(
        Path(hello.workspace),
        Path(hello.store),
        hello.config,
        documents=documents,
        live=lambda job_id, kind, body: channel.send(
            {"kind": "live", "event": {"jobId": job_id, "kind": kind, **body}}
        ),
        on_stored=poke,
        extras=extras,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(number, service.stop)
    channel.send({"kind": "ready", "pid": os.getpid()})
    orders = asyncio.create_task(_obey(stream, service, documents))
    try:
        await service.run(idle_s=IDLE_EXIT_S)
    except EngineError as error:
        logging.getLogger("engine").error("%s", error)
        channel.send(
            {"kind": "failed", "key": error.key, "values": {k: str(v) for k, v in error.values.items()}}
        )
        return 1
    finally:
        orders.cancel()
        poke.last()
        channel.close()
    return 0


async def _obey(stream: Any, service: Service, documents: FrontDocuments) -> None:
    try:
        async for message in stream:
            match message.get("kind"):
                case "wake":
                    service.wake()
                case "cancel" if service.worker is not None:
                    service.worker.cancel(str(message.get("jobId")))
                case "answer":
                    documents.answered(message)
                case other:
                    log.debug("unknown order %r", other)
    finally:
        service.stop()  # whatever ended the reading: an engine that hears nobody must not live on


class _Poke:
    """Tells the front to look at the store, at most once per turn of the loop and a few hundred times a
    second.
    """

    def __init__(self, channel: LineChannel) -> None:
        self._channel = channel
        self._due = False

    def __call__(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(0.003, self.last)

    def last(self) -> None:
        self._due = False
        self._channel.send({"kind": "stored"})
