"""The SQLite file under the store: opening it safely, migrating it, transactions, and statements by name.

One connection belongs to one thread (``StoreThread``). Every write runs in a short ``BEGIN IMMEDIATE``;
nothing waits for a model or a tool
inside one. WAL, so that readers never wait. ``synchronous`` is FULL where a person was told "done" or an
effect follows, NORMAL elsewhere
(which survives kill -9, not a power cut).
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from engine.core.errors import StoreFault, StoreLocked
from engine.core.messages import heal

APPLICATION_ID = 0x6D616573
"""``maes``: tells our databases from others."""

_BUSY_MS = 10_000
T = TypeVar("T")


@cache
def queries() -> Mapping[str, str]:
    """The statements of ``queries.sql`` by name."""
    text = files("engine.store").joinpath("queries.sql").read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (body.strip().rstrip(";") for body in parts[1::2]), strict=True))


@cache
def migrations() -> tuple[str, ...]:
    """The migration scripts in order; the n-th brings ``user_version`` from n-1 to n."""
    found = sorted(
        (
            entry
            for entry in files("engine.store").joinpath("migrations").iterdir()
            if entry.name.endswith(".sql")
        ),
        key=lambda entry: entry.name,
    )
    return tuple(entry.read_text("utf-8") for entry in found)


class Database:
    """One open connection. Not thread-safe: give it a thread of its own.

    Raises ``StoreFault`` when the file is a link, foreign, newer than this program, corrupt or not writable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._full = True
        self._open()

    def _open(self) -> None:
        if self.path.is_symlink():
            raise StoreFault("store.link", path=str(self.path))
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
            )
            self._db.row_factory = sqlite3.Row
            self._configure()
            self._migrate()
        except (sqlite3.Error, OSError) as error:
            raise self._fault(error) from error

    def _configure(self) -> None:
        for pragma in (
            f"busy_timeout = {_BUSY_MS}",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "mmap_size = 0",
            "foreign_keys = ON",
            "journal_mode = WAL",
            "synchronous = FULL",
        ):
            self._db.execute(f"PRAGMA {pragma}")

    def _migrate(self) -> None:
        known = migrations()
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == len(known):
            self._check_identity()
            return
        if version > len(known):
            raise StoreFault("store.newer", path=str(self.path))
        self._db.execute("BEGIN EXCLUSIVE")
        try:
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                raise StoreFault("store.foreign", path=str(self.path))
            for number, script in enumerate(known[version:], start=version + 1):
                for statement in _statements(script):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {number}")
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _check_identity(self) -> None:
        """A database with our version number but foreign contents (a trigger could grant an approval) is
        refused.
        """
        identity = self._db.execute("PRAGMA application_id").fetchone()[0]
        foreign = self._db.execute(
            "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')"
        ).fetchone()[0]
        if identity != APPLICATION_ID or foreign:
            raise StoreFault("store.foreign", path=str(self.path))

    def _fault(self, error: Exception) -> StoreFault:
        text = str(error).lower()
        if "locked" in text:
            return StoreLocked("store.locked", path=str(self.path))
        for word, key in (
            ("full", "store.full"),
            ("readonly", "store.readonly"),
            ("permission", "store.readonly"),
            ("malformed", "store.corrupt"),
            ("not a database", "store.corrupt"),
        ):
            if word in text:
                return StoreFault(key, path=str(self.path))
        return StoreFault("store.unusable", path=str(self.path), detail=type(error).__name__)

    @contextmanager
    def tx(self, *, durable: bool = False) -> Iterator[None]:
        """A write transaction; rolled back on any exception. ``durable`` survives a power cut once it
        returns.
        """
        try:
            if durable != self._full:
                self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._full = durable
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise self._fault(error) from error

    def run(self, name: str, /, **values: Any) -> int:
        """Execute a named statement; the number of rows it changed. Half characters in texts, which no UTF-8
        file can hold, are healed: they come from models, editors and command lines, and must not end a job.
        """
        healed = {key: heal(value) if isinstance(value, str) else value for key, value in values.items()}
        return self._db.execute(queries()[name], healed).rowcount

    def one(self, name: str, /, **values: Any) -> sqlite3.Row | None:
        """The first row of a named statement, or None."""
        row: sqlite3.Row | None = self._guard(lambda: self._db.execute(queries()[name], values).fetchone())
        return row

    def all(self, name: str, /, **values: Any) -> list[sqlite3.Row]:
        """All rows of a named statement."""
        return self._guard(lambda: self._db.execute(queries()[name], values).fetchall())

    def data_version(self) -> int:
        """A number that changes whenever another connection committed: the cheap question "is there
        news?".
        """
        return self._guard(lambda: int(self._db.execute("PRAGMA data_version").fetchone()[0]))

    def integrity(self) -> str:
        """``ok``, or what ``PRAGMA integrity_check`` found first."""
        return self._guard(lambda: str(self._db.execute("PRAGMA integrity_check").fetchone()[0]))

    def shrink(self) -> None:
        """Give unused pages back to the disk. Raises ``StoreLocked`` if somebody else is at work."""

        def give_back() -> None:
            if self._db.execute("PRAGMA freelist_count").fetchone()[0]:
                self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._guard(give_back)

    def explain(self, name: str, /, **values: Any) -> str:
        """The query plan of a named statement, for tests that guard it."""
        rows = self._db.execute("EXPLAIN QUERY PLAN " + queries()[name], values).fetchall()
        return "\n".join(str(row["detail"]) for row in rows)

    def _guard(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def _statements(script: str) -> Iterator[str]:
    """The statements of a migration one by one (``executescript`` would commit in between)."""
    buffer = ""
    for line in script.splitlines(keepends=True):
        buffer += line
        if sqlite3.complete_statement(buffer):
            yield buffer
            buffer = ""
