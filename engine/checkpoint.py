"""What commands change in the workspace: looked at before and after each, to be listed and put back.

A *baseline* is the workspace as it was before a command, written down in the engine's own state before the
command starts: an engine that dies in between leaves it to the next one, which notes what became of it. While
background commands run, the baseline moves on from look to look until they have ended.

What else happens meanwhile cannot be told from the command's doing, with these exceptions: what another job
noted as its own or a revert put back is not noted; where another job was at work too, and in documents with
unsaved changes, in which a person is at work (with background commands, every open document), a change is
noted as ``unsure`` and never put back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.core.errors import StoreFault
from engine.core.jobs import Owner
from engine.core.limits import Snapshots
from engine.core.manifest import NAME, UNSURE, Difference, Manifest, differences, is_bytes
from engine.core.tooling import FileChange
from engine.kit import log
from engine.paths import CONTENTS
from engine.ports import Clock, Db, Documents
from engine.scan import Scan, Stopped
from engine.workspace import Contents, Refused, is_inside

if TYPE_CHECKING:
    from engine.store.store import Store

_ASKED_DOCUMENTS = 200
_SIGN_S = 10.0
"""A dead engine's commands end within this after its last sign; later changes are somebody else's."""


class Baseline(msgspec.Struct):
    """The workspace before a command of a job. ``unsaved`` are the documents in which a person was at work;
    ``lasting`` says that background commands ran on.
    """

    owner: tuple[int, str, str]
    started: float
    manifest: Manifest
    unsaved: set[str] = msgspec.field(default_factory=set)
    lasting: bool = False


class WorkspaceCheckpoints:
    """The ``Checkpoints`` of one engine. ``running()`` are the jobs whose commands run in this process;
    ``is_dead(pid, start, boot)`` tells whether another engine certainly no longer lives.

    Nothing of it raises for a disk that is full or a folder that cannot be read: the command matters more,
    and the log says what could not be noted.
    """

    def __init__(
        self,
        workspace: Path,
        state: Path,
        limits: Snapshots,
        *,
        db: Db,
        store: Store,
        documents: Documents,
        clock: Clock,
        owner: Owner,
        running: Callable[[], Collection[str]],
        is_dead: Callable[[int, str, str], bool],
    ) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._folder = state / "checkpoints"
        self._contents = Contents(state / CONTENTS)
        self._limits = limits
        self._db, self._store = db, store
        self._documents = documents
        self._clock = clock
        self._owner = (owner.pid, owner.start, owner.boot)
        self._running = running
        self._is_dead = is_dead
        self._baselines: dict[str, Baseline] = {}
        self._last: Manifest | None = None
        self._one_look = threading.Lock()

    async def before(self, job_id: str) -> None:
        """Write the workspace down before a command of the job starts."""
        unsaved = await self._unsaved()
        if (known := self._baselines.get(job_id)) is not None:
            known.unsaved |= unsaved
            return
        with self._tolerant(job_id):
            started = self._clock.now()
            base = Baseline(self._owner, started, await self._look(None), unsaved)
            await asyncio.to_thread(self._write, job_id, base)
            self._baselines[job_id] = base

    async def after(self, job_id: str) -> None:
        """Note what changed since the job's baseline; it moves on while background commands run."""
        base = self._baselines.get(job_id)
        if base is None:
            return
        lasting = job_id in self._running()
        unsaved = await self._unsaved()
        base.unsaved |= unsaved
        with self._tolerant(job_id):
            now = await self._look(base.manifest)
            await self._note(job_id, base, now, None)
            if lasting:
                base = Baseline(self._owner, self._clock.now(), now, unsaved, lasting=True)
                await asyncio.to_thread(self._write, job_id, base)
                self._baselines[job_id] = base
                return
        await self._drop(job_id)

    async def close(self) -> None:
        """Every command has ended, and the engine ends."""
        for job_id in list(self._baselines):
            with contextlib.suppress(StoreFault):
                await self.after(job_id)
        await asyncio.to_thread(self._contents.close)

    def alive(self, job_id: str) -> None:
        """A sign of life: what changes on disk up to now may be the commands' doing. Touches a file."""
        if job_id in self._baselines:
            with contextlib.suppress(OSError):
                os.utime(self._path(job_id))

    async def left(self, job_id: str) -> None:
        """Note what the commands of this job changed whose engine died; the job is this engine's now."""
        if job_id not in self._baselines:
            await self._recover(job_id, take=True)

    async def wake(self) -> None:
        """Note what commands of engines that died have changed, and forget bytes that nobody needs."""
        for path in await asyncio.to_thread(lambda: sorted(self._folder.glob("*.before"))):
            await self._recover(path.stem, take=False)
        wanted = await self._db(self._store.snapshot_prints)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._sweep, wanted)

    async def _recover(self, job_id: str, *, take: bool) -> None:
        with self._tolerant(job_id):
            found = await asyncio.to_thread(self._read, job_id)
            if found is None or not (take or await asyncio.to_thread(self._is_dead, *found[0].owner)):
                return
            base, sign = found
            now = await self._look(base.manifest)
            await self._note(job_id, base, now, sign + _SIGN_S)
            await self._drop(job_id)

    async def _drop(self, job_id: str) -> None:
        self._baselines.pop(job_id, None)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._path(job_id).unlink, True)

    # --- noting ---------------------------------------------------------------------------------------

    async def _note(self, job_id: str, base: Baseline, now: Manifest, until: float | None) -> None:
        """Keep what differs from the baseline as changes of the job; what changed after ``until`` is
        somebody else's.
        """
        if not (base.manifest.complete and now.complete):
            log.warning("job %s: the workspace has too many files to note what commands change", job_id)
            return
        found = list(differences(base.manifest, now))
        if not found:
            return
        others = await self._db(self._store.changed_by_others, job_id, base.started)
        back = await self._db(self._store.put_back_since, job_id, base.started)
        found = [
            one
            for one in found
            if _print_after(one) not in others.get(one.path, ())
            and not (one.path in back and _print_after(one) == back[one.path])
        ]
        unsure = base.unsaved | others.keys() | (await self._open_ones(found) if base.lasting else set())
        if until is not None:
            unsure |= {one.path for one in found if one.after is not None and one.after.touched > until}
        changes = [_change(one, unsure=one.path in unsure) for one in found]
        if changes:
            await self._db(self._store.note_changes, job_id, changes, self._clock.now(), base.started)

    async def _unsaved(self) -> set[str]:
        """The documents with unsaved changes, by their paths in the workspace."""
        try:
            dirty = await self._documents.dirty()
        except OSError:
            return set()
        real = await asyncio.to_thread(lambda: [Path(os.path.realpath(path)) for path in dirty])
        inside = [path for path in real if is_inside(self._workspace, path)]
        return {str(path.relative_to(self._workspace)) for path in inside}

    async def _open_ones(self, found: Sequence[Difference]) -> set[str]:
        """Which of these are open in the editor; beyond many all count as open."""
        opened = {one.path for one in found[_ASKED_DOCUMENTS:]}
        for one in found[:_ASKED_DOCUMENTS]:
            if await self._documents.read(self._workspace / one.path) is not None:
                opened.add(one.path)
        return opened

    # --- looking (in threads) -------------------------------------------------------------------------

    async def _look(self, before: Manifest | None) -> Manifest:
        """The workspace now. A look that nobody waits for any more ends soon. Raises ``OSError``."""
        stop = threading.Event()
        try:
            return await asyncio.to_thread(self._looked, before, stop)
        except BaseException:
            stop.set()
            raise

    def _looked(self, before: Manifest | None, stop: threading.Event) -> Manifest:
        with self._one_look:
            if self._last is None:
                self._last = self._latest()
            scan = Scan(self._workspace, self._contents, self._limits, self._last, before, stop.is_set)
            found = scan.look()
            if _news(self._last, found):
                self._put(self._folder / "latest", msgspec.msgpack.encode(found))
            self._last = found
            return found

    def _latest(self) -> Manifest | None:
        """The look of an earlier engine; it spares reading everything again."""
        try:
            return msgspec.msgpack.decode((self._folder / "latest").read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError):
            return None

    # --- files of the state ---------------------------------------------------------------------------

    def _path(self, job_id: str) -> Path:
        return self._folder / f"{job_id}.before"

    def _write(self, job_id: str, base: Baseline) -> None:
        self._put(self._path(job_id), msgspec.msgpack.encode(base))

    def _put(self, path: Path, data: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)

    def _read(self, job_id: str) -> tuple[Baseline, float] | None:
        """A baseline that some engine left, with the time of that engine's last sign."""
        path = self._path(job_id)
        try:
            base = msgspec.msgpack.decode(path.read_bytes(), type=Baseline)
            return base, path.stat().st_mtime
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            path.unlink(missing_ok=True)
            return None

    def _sweep(self, wanted: set[str]) -> None:
        with self._one_look:
            left = [
                found[0].manifest
                for path in self._folder.glob("*.before")
                if (found := self._read(path.stem))
            ]
            for manifest in (self._last or self._latest(), *left):
                if manifest is not None:
                    wanted |= {entry.print for entry in manifest.entries.values() if is_bytes(entry.print)}
            self._contents.sweep(wanted)

    @contextlib.contextmanager
    def _tolerant(self, job_id: str) -> Iterator[None]:
        try:
            yield
        except (OSError, Refused, Stopped, RecursionError) as error:
            log.warning("job %s: what its commands change could not be noted: %s", job_id, error)


def _print_after(one: Difference) -> str | None:
    return None if one.after is None else one.after.print


def _change(one: Difference, *, unsure: bool) -> FileChange:
    before, after = one.before, one.after
    return FileChange(
        path=one.path,
        before=None,
        after_hash=None if after is None else after.print,
        before_mode=None if before is None else before.mode,
        before_hash=None if before is None else before.print,
        after_mode=None if after is None else after.mode,
        why=UNSURE if unsure else before.why if before is not None else _only_name(one),
    )


def _only_name(one: Difference) -> str:
    """A new file is removed by its name alone; one whose name is no text cannot be."""
    return one.after.why if one.after is not None and one.after.why == NAME else ""


def _news(last: Manifest | None, found: Manifest) -> bool:
    if last is None or len(last.entries) != len(found.entries):
        return True
    known = last.entries
    return any(
        (old := known.get(path)) is not entry and old != entry for path, entry in found.entries.items()
    )
