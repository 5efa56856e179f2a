"""Looks at a whole workspace: what is where, and the bytes of what changed since the last look.

It sees what a search sees, and folders and links too. Left out are git's own folders, the folders of tasks
and what git ignores (dependencies, build output): that is not restorable. Of files with secret-looking names,
too large ones and those beyond the room there is only size and times are known, never a copy.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.limits import Snapshots
from engine.core.manifest import (
    DIR,
    NAME,
    NO_ROOM,
    OTHER,
    SECRET,
    TOO_LARGE,
    UNREADABLE,
    Entry,
    Manifest,
    is_bytes,
    link_print,
    stat_print,
)
from engine.tools.walk import Chain, Ignores, found_place, is_ignored, is_secret
from engine.workspace import Contents, Refused, folder_of, is_temporary

_TASKS = ".maestro/tasks"
_DEEPEST = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
_SETTLED_NS = 50_000_000
"""A file that changed less than this before it was read may change again without its times showing it."""


class Stopped(Exception):
    """Whoever asked for a look does not wait for it any more."""


@dataclass(slots=True)
class Scan:
    """One look. ``last`` is an earlier one, whose bytes need not be read again. With ``before`` this is the
    look after a command: what was left out then is left out now, and what was seen then is seen now, whatever
    the command did to the rules of git.
    """

    root: Path
    contents: Contents
    limits: Snapshots
    last: Manifest | None = None
    before: Manifest | None = None
    stopped: Callable[[], bool] = lambda: False
    _entries: dict[str, Entry] = field(default_factory=dict)
    _skipped: set[str] = field(default_factory=set)
    _closed: set[str] = field(default_factory=set)
    _kept: int = 0
    _complete: bool = True
    _put: bool = False
    _secrets: set[tuple[int, int, int]] = field(default_factory=set)

    def look(self) -> Manifest:
        """The workspace now. Raises ``OSError`` if it cannot be opened or the bytes not be kept, and
        ``Stopped``.
        """
        ignores = Ignores(self.root)
        known = self.last.entries.values() if self.last is not None else ()
        self._secrets = {_identity(entry.stamp) for entry in known if entry.why == SECRET}
        top = os.open(self.root, _FOLDER)
        try:
            self._folder(top, "", ignores, 0)
            if self.before is not None:
                self._seen_before(self.before)
            if self._put:
                self.contents.commit()
        except BaseException:
            self.contents.close()  # what was not committed is forgotten, and the file is not held
            raise
        finally:
            os.close(top)
        return Manifest(self._entries, frozenset(self._skipped), self._complete)

    def _folder(self, here: int, prefix: str, ignores: Ignores, depth: int) -> None:
        chain = ignores.chain(prefix.rstrip("/"))
        with os.scandir(here) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        for entry in entries:
            if not self._complete:
                return
            if self.stopped():
                raise Stopped
            relative = prefix + entry.name
            if entry.name == ".git" or is_temporary(entry.name) or relative == _TASKS:
                continue
            with contextlib.suppress(FileNotFoundError):  # it went while we looked
                status = entry.stat(follow_symlinks=False)
                if self._left_out(chain, relative, folder=stat.S_ISDIR(status.st_mode)):
                    self._skipped.add(relative)
                    continue
                self._add(relative, self._entry(here, entry.name, relative, status))
                if stat.S_ISDIR(status.st_mode):
                    self._below(here, entry.name, relative, ignores, depth + 1)

    def _left_out(self, chain: Chain, relative: str, *, folder: bool) -> bool:
        if self.before is not None and relative in self.before.skipped:
            return True
        return bool(chain) and is_ignored(chain, relative, folder=folder)

    def _below(self, above: int, name: str, relative: str, ignores: Ignores, depth: int) -> None:
        try:
            here = os.open(name, _FOLDER, dir_fd=above) if depth <= _DEEPEST else -1
        except OSError:
            here = -1
        if here < 0:
            self._skipped.add(relative)
            self._closed.add(relative)
            return
        try:
            self._folder(here, f"{relative}/", ignores, depth)
        finally:
            os.close(here)

    def _add(self, relative: str, entry: Entry) -> None:
        if len(self._entries) >= self.limits.most_files:
            self._complete = False
            return
        if not relative.isascii() and any("\ud800" <= character <= "\udfff" for character in relative):
            relative = relative.encode("utf-8", "replace").decode()
            entry = Entry(entry.print, entry.mode, entry.size, entry.stamp, entry.settled, NAME)
        self._entries[relative] = entry

    def _entry(self, folder: int, name: str, relative: str, status: os.stat_result) -> Entry:
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            return Entry(DIR, mode)
        stamp = _stamp(status)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=folder)).decode("utf-8", "replace")
            return Entry(link_print(target), mode, 0, stamp)
        if not stat.S_ISREG(status.st_mode):
            return Entry(OTHER, mode, 0, stamp)
        known = self.last.entries.get(relative) if self.last is not None else None
        if known is None or known.stamp != stamp or known.mode != mode or not known.settled:
            known = self._read(folder, name, relative, status)
        self._kept += known.size if is_bytes(known.print) else 0
        return known

    def _read(self, folder: int, name: str, relative: str, status: os.stat_result) -> Entry:
        size, why = status.st_size, ""
        if is_secret(relative) or _identity(_stamp(status)) in self._secrets:  # also one that was renamed
            why = SECRET
        elif size > self.limits.largest_bytes:
            why = TOO_LARGE
        elif self._kept + size > self.limits.most_bytes:
            why = NO_ROOM
        if why:
            return _unread(status, why)
        try:
            descriptor = os.open(name, _FILE, dir_fd=folder)
        except OSError:
            return _unread(status, UNREADABLE)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > self.limits.largest_bytes:
                return _unread(status, TOO_LARGE)
            data = _all(file.read, self.limits.largest_bytes)
            if data is None:
                return _unread(status, TOO_LARGE)
            stamp = _stamp(status)
            later = os.fstat(descriptor)
        self._put = True
        settled = len(data) == status.st_size and later.st_ctime_ns == status.st_ctime_ns
        settled = settled and time.time_ns() - status.st_ctime_ns > _SETTLED_NS
        return Entry(self.contents.put(data), stat.S_IMODE(status.st_mode), len(data), stamp, settled)

    def _seen_before(self, before: Manifest) -> None:
        """What the rules hide now and did not hide then is still there."""
        for path, old in before.entries.items():
            if path in self._entries or not self._complete or old.why == NAME:
                continue
            hidden = _topmost(path, self._skipped)
            if hidden is None:
                continue
            if hidden in self._closed:
                self._entries[path] = old  # nobody can look into its folder now
                continue
            with contextlib.suppress(OSError, Refused), folder_of(found_place(self.root, path)) as folder:
                name = path.rpartition("/")[2]
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                self._entries[path] = self._entry(folder, name, path, status)


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _identity(stamp: tuple[int, int, int, int]) -> tuple[int, int, int]:
    """What a file keeps when it gets another name: size, time of its content, inode."""
    return stamp[0], stamp[1], stamp[3]


def _unread(status: os.stat_result, why: str) -> Entry:
    stamp = _stamp(status)
    found = stat_print(status.st_size, status.st_mtime_ns, status.st_ino)
    return Entry(found, stat.S_IMODE(status.st_mode), status.st_size, stamp, True, why)


def _all(read: Callable[[int], bytes | None], limit: int) -> bytes | None:
    """All bytes of a file, None if there are more than ``limit``."""
    pieces: list[bytes] = []
    size = 0
    while piece := read(1 << 20):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return None
    return b"".join(pieces)


def _topmost(path: str, skipped: set[str]) -> str | None:
    """The path itself or the folder on its way that was not looked into."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        if (above := "/".join(parts[:depth])) in skipped:
            return above
    return None
