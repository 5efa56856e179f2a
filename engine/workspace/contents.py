"""The bytes of workspace files as they were, by their hash: in the engine's own state, not in the workspace.

One SQLite file beside the job store, private to the person, each content in it once and compressed. (A file
for each content takes ten times as long to make.) What nothing refers to is swept. A damaged file is begun
anew: it only holds what could be put back, and says so where it cannot.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from engine.workspace.disk import bytes_hash

_LEVEL = 1
_BUSY_S = 10.0
_YOUNG_S = 86_400.0
_TOUCHED_S = 3_600.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS contents (hash TEXT PRIMARY KEY, data BLOB NOT NULL, at REAL NOT NULL) STRICT"
)


class Contents:
    """Bytes by hash in ``file``. One thread at a time, and none with an event loop. All methods raise
    ``OSError`` where the file cannot be used.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._db: sqlite3.Connection | None = None

    def put(self, data: bytes) -> str:
        """Keep ``data``; its sha256 in hexadecimal. It lasts from ``commit`` on."""
        digest = bytes_hash(data)
        with self._faults() as db:
            if not db.in_transaction:
                db.execute("BEGIN IMMEDIATE")
            now = time.time()
            row = db.execute("SELECT at FROM contents WHERE hash = ?", (digest,)).fetchone()
            if row is None:
                db.execute(
                    "INSERT INTO contents VALUES (?, ?, ?)", (digest, zlib.compress(data, _LEVEL), now)
                )
            elif now - row[0] > _TOUCHED_S:  # it must not be swept while a new row is about to refer to it
                db.execute("UPDATE contents SET at = ? WHERE hash = ?", (now, digest))
        return digest

    def commit(self) -> None:
        """End the transaction that ``put`` began, if there is one."""
        with self._faults() as db:
            if db.in_transaction:
                db.execute("COMMIT")

    def get(self, digest: str) -> bytes | None:
        """The bytes with this hash; None if they are not kept or were damaged."""
        if not self._file.is_file():
            return None
        with self._faults() as db:
            row = db.execute("SELECT data FROM contents WHERE hash = ?", (digest,)).fetchone()
        try:
            data = zlib.decompress(row[0]) if row is not None else None
        except zlib.error:
            return None
        return data if data is not None and bytes_hash(data) == digest else None

    def sweep(self, wanted: Collection[str], now: float | None = None) -> int:
        """Remove what is not ``wanted`` and older than a day; how many went."""
        if not self._file.is_file():
            return 0
        before = (time.time() if now is None else now) - _YOUNG_S
        with self._faults() as db:
            old = [row[0] for row in db.execute("SELECT hash FROM contents WHERE at < ?", (before,))]
            gone = [(digest,) for digest in old if digest not in wanted]
            if gone:
                db.execute("BEGIN IMMEDIATE")
                db.executemany("DELETE FROM contents WHERE hash = ?", gone)
                db.execute("COMMIT")
        return len(gone)

    def close(self) -> None:
        """Close the file; it is opened again when it is used."""
        if self._db is not None:
            self._db.close()
            self._db = None

    @contextlib.contextmanager
    def _faults(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._db is None:
                self._db = self._opened()
            yield self._db
        except sqlite3.Error as fault:
            self.close()
            raise OSError(f"{self._file}: {fault}") from fault

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.OperationalError:
            raise  # locked, or no room: nothing is wrong with it
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
            return self._open()

    def _open(self) -> sqlite3.Connection:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._file, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
        db = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False, timeout=_BUSY_S)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute(_SCHEMA)
        except sqlite3.Error:
            db.close()
            raise
        return db
