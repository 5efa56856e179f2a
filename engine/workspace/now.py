"""What is at a path right now, as a fingerprint of ``engine.core.manifest``, and putting something there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from engine.core.manifest import DIR, OTHER, is_stat, link_print, stat_print
from engine.core.tooling import PathClass
from engine.workspace.disk import folder_of, temporary_name
from engine.workspace.paths import Place, Refused

_FILE = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Now:
    """A path as it is: its fingerprint (None for nothing there) and permission bits."""

    print: str | None
    mode: int | None = None


def place_below(root: Path, path: str) -> Place:
    """The place of a path that a job's changes name, relative to the real folder ``root``.

    Raises ``Refused`` for one that could lead elsewhere.
    """
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Refused(f"`{path}` is no path in the workspace.")
    return Place(path, root / path, root, parts, path, PathClass.WORKSPACE)


def now_at(root: Path, path: str, like: str | None) -> Now:
    """What is at ``path``; of a file the hash of its bytes, or its size and times where ``like`` tells those.

    A folder on the way that is a link or no folder: then nothing is there. Raises ``OSError`` for what cannot
    be read.
    """
    try:
        with folder_of(place_below(root, path)) as above:
            name = path.rpartition("/")[2]
            status = os.stat(name, dir_fd=above, follow_symlinks=False)
            return Now(_print(name, status, above, like), stat.S_IMODE(status.st_mode))
    except (FileNotFoundError, Refused):
        return Now(None)


def _print(name: str, status: os.stat_result, above: int, like: str | None) -> str:
    if stat.S_ISDIR(status.st_mode):
        return DIR
    if stat.S_ISLNK(status.st_mode):
        return link_print(os.fsencode(os.readlink(name, dir_fd=above)).decode("utf-8", "replace"))
    if not stat.S_ISREG(status.st_mode):
        return OTHER
    if is_stat(like):
        return stat_print(status.st_size, status.st_mtime_ns, status.st_ino)
    with os.fdopen(os.open(name, _FILE, dir_fd=above), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put_file(name: str, data: bytes, mode: int | None, above: int, label: str) -> None:
    """A file with these bytes in one step, in the place of a file or link. Raises ``OSError``."""
    temporary = temporary_name(label)
    descriptor = os.open(temporary, _NEW, 0o600 if mode is not None else 0o666, dir_fd=above)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=above, dst_dir_fd=above)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=above)
        raise


def put_link(name: str, target: str, above: int, label: str) -> None:
    """A symbolic link in one step, in the place of a file or link. Raises ``OSError``."""
    temporary = temporary_name(label)
    os.symlink(target, temporary, dir_fd=above)
    try:
        os.rename(temporary, name, src_dir_fd=above, dst_dir_fd=above)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=above)
        raise
