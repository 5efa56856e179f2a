"""What a workspace looks like at a moment, entry by entry, and how two such moments differ.

A *fingerprint* says what is at a path: None for nothing, ``dir``, ``link:<target>``, ``other`` (a pipe, a
device), the sha256 of a file's bytes, or ``stat:<size>:<mtime>:<inode>`` of a file whose bytes are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

DIR = "dir"
OTHER = "other"
_LINK = "link:"
_STAT = "stat:"
_NO_BYTES = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

TOO_LARGE = "too_large"
NO_ROOM = "no_room"
SECRET = "secret"
UNREADABLE = "unreadable"
NAME = "name"
UNSURE = "unsure"


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What is at one path. ``stamp`` is what changes with the content (size, times in ns, inode): the same
    stamp means the same bytes, if it is ``settled`` (older than the moment it was read). ``why`` says why the
    bytes are not kept, empty where they are.
    """

    print: str
    mode: int
    size: int = 0
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)
    settled: bool = True
    why: str = ""

    @property
    def touched(self) -> float:
        """When anything of the entry last changed, in POSIX seconds."""
        return self.stamp[2] / 1e9


class Manifest(msgspec.Struct, frozen=True):
    """A workspace at a moment: its entries by relative path, and the topmost paths that were not looked into
    (what git ignores, folders that cannot be opened). Not ``complete``: there were too many.
    """

    entries: dict[str, Entry]
    skipped: frozenset[str]
    complete: bool = True


class Difference(msgspec.Struct, frozen=True):
    """A path that is not what it was; None stands for nothing there."""

    path: str
    before: Entry | None
    after: Entry | None


_GENERATED = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))


def is_generated(path: str) -> bool:
    """Whether a path is of a cache that running or checking code leaves, also where git does not ignore it:
    put back like the rest, and not worth a word.
    """
    return not _GENERATED.isdisjoint(path.split("/"))


def link_print(target: str) -> str:
    """The fingerprint of a symbolic link."""
    return _LINK + target


def stat_print(size: int, mtime_ns: int, inode: int) -> str:
    """The fingerprint of a file whose bytes are not read."""
    return f"{_STAT}{size}:{mtime_ns}:{inode}"


def link_target(found: str | None) -> str | None:
    """The target if the fingerprint is a link's."""
    return found[len(_LINK) :] if found is not None and found.startswith(_LINK) else None


def is_stat(found: str | None) -> bool:
    """Whether the bytes behind a fingerprint are not kept."""
    return found is not None and found.startswith(_STAT)


def stat_size(found: str | None) -> int | None:
    """The size in bytes that a ``stat:`` fingerprint tells."""
    return int(found.split(":")[1]) if found is not None and is_stat(found) else None


def is_bytes(found: str | None) -> bool:
    """Whether the fingerprint is the hash of a file's bytes."""
    return (
        found is not None and found not in (DIR, OTHER) and link_target(found) is None and not is_stat(found)
    )


def is_file(found: str | None) -> bool:
    """Whether a file with something in it is there: equal fingerprints then mean the same file."""
    return is_stat(found) or (is_bytes(found) and found != _NO_BYTES)


def has_mode(found: str | None) -> bool:
    """Whether permission bits mean something there: of files and folders, not of links."""
    return found == DIR or is_bytes(found) or is_stat(found)


def same(before: Entry | None, after: Entry | None) -> bool:
    """Whether two entries show the same content, kind and mode."""
    if before is after:
        return True
    if before is None or after is None or before.print != after.print:
        return False
    return before.mode == after.mode or not has_mode(before.print)


def differences(before: Manifest, after: Manifest) -> Iterator[Difference]:
    """What differs between two moments, by path. Nothing where one of them is not complete."""
    if not (before.complete and after.complete):
        return
    known = before.entries
    found = [path for path, new in after.entries.items() if not same(known.get(path), new)]
    gone = [path for path in known if path not in after.entries]
    for path in sorted((*found, *gone)):
        yield Difference(path, known.get(path), after.entries.get(path))
