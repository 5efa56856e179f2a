"""A commit of some files: what would be in it, why there can be none, and making it.

Only the named files are committed, as they are on disk now; what the person has staged besides stays staged.
Nothing is amended, pushed, signed or edited, and no hook runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.diffs import Changed
from engine.core.secrets import path_class
from engine.core.tooling import PathClass
from engine.workspace.facts import git_branch
from engine.workspace.git import Repository
from engine.workspace.git_changes import NO_SURPRISES, base_of, changed_files
from engine.workspace.now import now_at
from engine.workspace.paths import Refused, is_inside

MOST_FILES = 1_000
_COMMIT_S = 30.0
_COUNTED = 8 << 20
_UNMERGED = {"DD", "AU", "UD", "UA", "DU", "AA", "UU"}
_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or `git am`",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a commit: A, M, D or T, and its lines added and removed (None: not text)."""

    letter: str
    path: str
    added: int | None = None
    removed: int | None = None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that could be made. ``left_out`` are changed files that no tool commits; ``digest`` is of what
    the commit would hold and stand on.
    """

    repository: Repository
    branch: str | None
    entries: tuple[Entry, ...]
    left_out: tuple[str, ...]
    digest: str


async def plan_commit(repository: Repository, paths: Sequence[str]) -> Commit:
    """What a commit of the changed files below ``paths`` (all, if none are given) would hold. Raises
    ``Refused`` where there can be none.
    """
    await _require_ready(repository)
    found = await changed_files(repository, paths, every=True)
    if found is None:
        raise Refused("git could not list the changes. `git status` with Bash says why.")
    if unmerged := [one.path for one in found if one.letters in _UNMERGED]:
        raise Refused(f"`{unmerged[0]}` has conflicts. Resolve them first; nothing was committed.")
    kept = [one for one in found if _may_be_committed(one.path)]
    left_out = tuple(one.path for one in found if one not in kept and _kind(one.path) is not PathClass.TASK)
    if not kept:
        raise Refused(_nothing(paths, left_out))
    if len(kept) > MOST_FILES:
        raise Refused(
            f"{len(kept)} files have changed, more than {MOST_FILES}. Name those to commit in `paths`."
        )
    await _require_unfiltered(repository, kept)
    entries = await _entries(repository, kept)
    head = await repository.git("rev-parse", "--verify", "--quiet", "HEAD")
    digest = await asyncio.to_thread(_digest, repository.root, head.out, entries)
    return Commit(repository, await asyncio.to_thread(git_branch, repository.root), entries, left_out, digest)


async def make_commit(commit: Commit, message: str) -> str:
    """Commit what was planned; the new commit's short id. Raises ``Refused`` with what git complained of."""
    git = commit.repository.git
    new = [entry.path for entry in commit.entries if entry.new]
    from_stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
    if new:
        added = await git("add", *from_stdin, stdin=_joined(new), seconds=_COMMIT_S)
        if not added.ok:
            raise Refused(f"Nothing was committed. git says: {added.err or 'no reason'}")
    done = await git(
        "commit",
        "--only",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "--no-status",
        "--cleanup=whitespace",
        f"--message={message}",
        *from_stdin,
        stdin=_joined([entry.path for entry in commit.entries]),
        seconds=_COMMIT_S,
    )
    if not done.ok:
        staged = " The new files are staged now." if new else ""
        raise Refused(f"Nothing was committed.{staged} git says: {done.err or 'nothing differs'}")
    told = await git("rev-parse", "--short", "HEAD")
    return told.out.decode("ascii", "replace").strip()


async def _require_ready(repository: Repository) -> None:
    """Raises ``Refused`` where no commit may be made now, whatever is in it."""
    common = await repository.git("rev-parse", "--git-common-dir")
    shared = await asyncio.to_thread(os.path.realpath, repository.root / os.fsdecode(common.out.strip()))
    if not all(is_inside(repository.root, folder) for folder in (repository.folder, Path(shared))):
        raise Refused(
            "The repository's own folder lies outside the workspace (a linked worktree or a submodule), and"
            " nothing outside it is changed. Ask the person to commit."
        )
    under_way = await asyncio.to_thread(_under_way, repository.folder)
    if under_way is not None:
        raise Refused(
            f"A {under_way} is in progress in this repository. Ask the person to finish or abort it first;"
            " nothing was committed."
        )
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if not (await repository.git("var", who)).ok:
            raise Refused(
                "git does not know who commits. Ask the person to say it once: git config --global user.name"
                ' "Their Name" and git config --global user.email "them@example.org".'
            )


def _under_way(folder: Path) -> str | None:
    return next((what for name, what in _UNDER_WAY.items() if os.path.lexists(folder / name)), None)


def _kind(path: str) -> PathClass:
    return path_class(tuple(path.split("/")))


def _may_be_committed(path: str) -> bool:
    return not path.endswith("/") and _kind(path) is PathClass.WORKSPACE


def _nothing(paths: Sequence[str], left_out: Sequence[str]) -> str:
    if left_out:
        return (
            f"There is nothing to commit but what no tool commits ({', '.join(left_out[:5])}): files of"
            " settings or secrets, and other repositories. The person can commit them."
        )
    where = f" below {', '.join(paths)}" if paths else ""
    return (
        f"There is nothing to commit{where}: nothing differs from the last commit there, or git ignores it."
        " `git status` with Bash shows what has changed."
    )


async def _require_unfiltered(repository: Repository, changed: Sequence[Changed]) -> None:
    """Raises ``Refused`` for a file whose content goes through a program that the repository's own
    configuration names: it is not run, and without it the wrong bytes would be committed.
    """
    if not repository.filters:
        return
    names = _joined([one.path for one in changed])
    told = await repository.git("check-attr", "-z", "--stdin", "filter", stdin=names)
    fields = told.fields()
    for path, value in zip(fields[::3], fields[2::3], strict=False):
        if value in repository.filters:
            raise Refused(
                f"`{path}` goes through the filter `{value}`, which this repository's own configuration"
                " defines and which is not run for you. Ask the person to commit it, or leave it out of"
                " `paths`."
            )
    if not told.ok:
        raise Refused("git could not tell the attributes of the files. Ask the person to commit.")


async def _entries(repository: Repository, changed: Sequence[Changed]) -> tuple[Entry, ...]:
    base = await base_of(repository)
    told = await repository.git("diff", *base, *NO_SURPRISES, "--numstat", "-z")
    counts: dict[str, tuple[int | None, int | None]] = {}
    for line in told.fields():
        added, removed, path = line.split("\t", 2)
        counts[path] = (_number(added), _number(removed))
    entries = []
    for one in changed:
        new = one.letters == "??"
        if new or one.path not in counts:
            counts[one.path] = (await asyncio.to_thread(_lines, repository.root / one.path), 0)
        letter = "A" if new or "A" in one.letters else (one.letters.strip() or "M")[-1]
        entries.append(Entry(letter, one.path, *counts[one.path], new))
    return tuple(entries)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> int | None:
    """The lines of a new file as git counts them; None for a binary or very large one."""
    try:
        if path.is_symlink():
            return 1
        with path.open("rb") as file:
            data = file.read(_COUNTED + 1)
    except OSError:
        return None
    if len(data) > _COUNTED or b"\0" in data[:8000]:
        return None
    return data.count(b"\n") + (data[-1:] not in (b"", b"\n"))


def _digest(root: Path, head: bytes, entries: Sequence[Entry]) -> str:
    whole = hashlib.sha256(head)
    for entry in entries:
        whole.update(
            f"\0{entry.letter}{entry.path}\0{now_at(root, entry.path, None).print}".encode("utf-8", "replace")
        )
    return whole.hexdigest()


def _joined(paths: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
