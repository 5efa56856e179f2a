"""Files opened component by component below their root without following links, and written whole or not at
all.

A folder that is replaced by a link after its path was resolved is an error here, never another file. Each
component is opened by its parent's descriptor with ``O_NOFOLLOW``, and no path that comes here holds ``..``:
what Linux does in one call (``openat2`` with ``RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS``), on every system.

A hard link cannot be told from the file itself. Reading goes by the name (worktrees and package stores link
a lot); a write puts a new file in the place of this one name, so what other names show stays as it is.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.workspace.paths import Place, Refused

_BELOW = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_LOOK = _BELOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)
_CHUNK = 1 << 20
# Two jobs of this process must not both find the old file and then both replace it.
_SWAP = threading.Lock()
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextlib.contextmanager
def folder_of(place: Place, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder that holds ``place``, reached from its root without following a link.

    Raises ``Refused`` where a component is a link or no folder, ``FileNotFoundError`` where one is missing
    and ``create`` is not set.
    """
    here = os.open(place.root, _FOLDER)
    try:
        for part in place.parts[:-1]:
            above, here = here, _below(here, part, place, create=create)
            os.close(above)
        yield here
    finally:
        os.close(here)


def _below(here: int, part: str, place: Place, *, create: bool) -> int:
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=here)
    try:
        return os.open(part, _FOLDER | _BELOW, dir_fd=here)
    except OSError as fault:
        if fault.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Refused(f"`{place.asked}`: `{part}` on the way is not a folder.") from None
        raise


def open_regular(place: Place) -> int:
    """A descriptor for reading the regular file at ``place``.

    Raises ``FileNotFoundError``, or ``Refused`` for folders, links and special files, which are not even
    opened.
    """
    if not place.parts:
        raise Refused(f"`{place.asked}` is a folder, not a file. Glob lists what is in it.")
    with folder_of(place) as folder:
        _require_regular(place, os.stat(place.name, dir_fd=folder, follow_symlinks=False).st_mode)
        descriptor = os.open(place.name, os.O_RDONLY | _LOOK, dir_fd=folder)
    try:
        _require_regular(place, os.fstat(descriptor).st_mode)
    except Refused:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(place: Place, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise Refused(f"`{place.asked}` is a folder, not a file. Glob lists what is in it.")
    kind = next((name for test, name in _KINDS if test(mode)), "no regular file")
    raise Refused(f"`{place.asked}` is {kind}; only regular files can be read or written.")


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it was read: its bytes, permission bits, owner and group, extended attributes (access lists
    among them), and how many names it has.
    """

    data: bytes
    mode: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, bytes], ...] = ()
    names: int = 1


def read_content(place: Place, limit: int) -> Content:
    """The whole file. Raises as ``open_regular``, and ``Refused`` if it has more than ``limit`` bytes."""
    with os.fdopen(open_regular(place), "rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(limit + 1) if status.st_size <= limit else b""
        attributes = _attributes(file.fileno())
    if len(data) > limit or status.st_size > limit:
        raise Refused(f"`{place.asked}` has more than {limit >> 20} MiB. Use Bash for files of this size.")
    owner = (status.st_uid, status.st_gid)
    return Content(data, stat.S_IMODE(status.st_mode), owner, attributes, status.st_nlink)


def _attributes(descriptor: int) -> tuple[tuple[str, bytes], ...]:
    if sys.platform != "linux":
        return ()
    try:
        return tuple((name, os.getxattr(descriptor, name)) for name in os.listxattr(descriptor))
    except OSError:
        return ()


def require_replaceable(place: Place, before: Content | None) -> None:
    """Raises ``Refused`` for a file that its owner made read-only, or in a folder that takes no new files:
    said before anybody is asked about a write that cannot be done.
    """
    if before is not None and not before.mode & 0o222:
        raise Refused(
            f"`{place.asked}` is read-only (mode {before.mode:04o}). If it is to change, ask the person to"
            " make it writable."
        )
    try:
        with folder_of(place) as folder:
            open_folder = os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True)
            ours = before is None or os.access(place.name, os.W_OK, dir_fd=folder, effective_ids=True)
    except FileNotFoundError:
        return
    if not (open_folder and ours):
        which = f"`{place.asked}`" if open_folder else f"The folder of `{place.asked}`"
        raise Refused(f"{which} may not be written by this user. Ask the person, or use another file.")


def file_hash(place: Place) -> str | None:
    """The sha256 of the file's bytes in hexadecimal, or None if there is no such file. Raises as
    ``open_regular``.
    """
    try:
        with os.fdopen(open_regular(place), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def bytes_hash(data: bytes) -> str:
    """The sha256 of ``data`` in hexadecimal: what ``file_hash`` says of a file with these bytes."""
    return hashlib.sha256(data).hexdigest()


def atomic_write(
    place: Place, data: bytes, *, expected: str | None, like: Content | None, label: str
) -> None:
    """Put ``data`` at ``place`` in one step: readers see the old file or the new one, also after a crash.

    ``expected`` is the hash that the file must still have (None: there must be none). ``like`` gives mode,
    owner and attributes. ``label`` marks the temporary file beside it, so that ``remove_temporaries`` finds
    it after a crash. Missing folders are made. Raises ``Refused`` if the file is no longer what was expected.
    """
    try:
        _swap(place, data, expected, like, temporary_name(label))
    except OSError as fault:  # nobody knows the temporary file or a part of the way
        raise OSError(fault.errno, fault.strerror, place.relative) from fault


def _swap(place: Place, data: bytes, expected: str | None, like: Content | None, temporary: str) -> None:
    with folder_of(place, create=expected is None) as folder:
        try:
            _write_temporary(temporary, data, like, folder)
            with _SWAP:
                if file_hash(place) != expected:
                    raise Refused(changed(place, expected))
                _move(temporary, place, folder, new=expected is None)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
        os.fsync(folder)


def create_file(place: Place) -> int:
    """A descriptor for writing a new file at ``place``, with the folders on the way.

    Raises ``FileExistsError``, or ``Refused`` where a component is a link or no folder.
    """
    with folder_of(place, create=True) as folder:
        return os.open(place.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BELOW, 0o666, dir_fd=folder)


def changed(place: Place, expected: str | None) -> str:
    """The sentence for a file that is no longer what a prepared write was made for."""
    if expected is None:
        return f"`{place.relative}` exists by now: somebody else made it. Nothing was written; read it first."
    return (
        f"`{place.relative}` changed meanwhile, so nothing was written. Read it again and repeat the change."
    )


def _write_temporary(name: str, data: bytes, like: Content | None, folder: int) -> None:
    mode = 0o666 if like is None else 0o600
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BELOW, mode, dir_fd=folder)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view[:_CHUNK]) :]
        if like is not None:
            # Only root may give files away; for everybody else their own is the right owner.
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, *like.owner)
            os.fchmod(descriptor, like.mode)
            _set_attributes(descriptor, like.attributes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_attributes(descriptor: int, attributes: tuple[tuple[str, bytes], ...]) -> None:
    if sys.platform == "linux":
        for name, value in attributes:
            # Some belong to the system, and this file has its own of them.
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, name, value)


def _move(temporary: str, place: Place, folder: int, *, new: bool) -> None:
    if new:
        try:
            # A link, unlike a rename, fails if the name was taken in between.
            os.link(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return
        except FileExistsError:
            raise Refused(changed(place, None)) from None
        except (OSError, NotImplementedError):
            pass
    os.rename(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)


def temporary_name(label: str) -> str:
    """A new name for a file that exists for a moment; ``is_temporary`` knows it."""
    return f"{_prefix(label)}{secrets.token_hex(4)}.tmp"


def _prefix(label: str) -> str:
    return f".maestro-{re.sub(r'[^A-Za-z0-9_-]', '', label)[:64]}-"


def is_temporary(name: str) -> bool:
    """Whether a file name is one that ``atomic_write`` uses for a moment."""
    return name.startswith(".maestro-") and name.endswith(".tmp")


def remove_temporaries(place: Place, label: str) -> int:
    """Remove what a write of ``place`` with this ``label`` left beside it when it was killed; how many
    there were.
    """
    try:
        with folder_of(place) as folder:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.name.startswith(_prefix(label))]
            for name in filter(is_temporary, names):
                os.unlink(name, dir_fd=folder)
            return len(names)
    except FileNotFoundError:
        return 0
