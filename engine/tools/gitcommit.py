"""``GitCommit``: a commit that the person has seen and allowed (``engine.md`` section 6)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Annotated

import msgspec

from engine.core.tooling import Effect, Outcome, PathClass, Prepared, ToolResult
from engine.core.truncate import first_characters
from engine.ports import ToolContext
from engine.tools.spec import error, make
from engine.tools.textio import one_line
from engine.workspace import Refused, open_repository, resolve
from engine.workspace.git_commit import Commit, Entry, make_commit, plan_commit

_LONGEST_MESSAGE = 10_000
_LISTED = 50
_HOW = "No hook runs, and the commit is not signed."


class GitCommitArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``GitCommit``."""

    message: str
    paths: Annotated[list[str], msgspec.Meta(max_length=500)] | None = None


async def _prepare(ctx: ToolContext, args: GitCommitArgs) -> Prepared | Outcome:
    assert ctx.mode is not None
    message = args.message.strip()
    if not message or "\0" in message or len(message) > _LONGEST_MESSAGE:
        return error(f"`message` must be a text of 1 to {_LONGEST_MESSAGE:,} characters without NUL.")
    if not ctx.edit:
        return error(
            "This movement changes nothing (edit: false), so nothing is committed in it. Move on to a"
            " movement that edits, or say in the result what would be needed."
        )
    if await ctx.mode() == "plan":
        return error("The person's mode is plan: nothing is committed. Say in the result what is to be done.")
    repository = await open_repository(ctx.workspace)
    if repository is None:
        return error(
            "There can be no commit: the workspace is not the top of a git repository, git is not installed,"
            " or git does not trust the folder. `git status` with Bash says more."
        )
    paths = await asyncio.to_thread(_named, ctx, args.paths or ())
    commit = await plan_commit(repository, paths)
    unsaved = await _unsaved(ctx, commit)
    return Prepared(
        title=_title(commit, message),
        paths=tuple((entry.path, PathClass.WORKSPACE) for entry in commit.entries[:_LISTED]),
        pre_hash=commit.digest,
        detail="\n".join([message, "", *_told(commit), *unsaved, _HOW]),
        state=commit,
    )


def _named(ctx: ToolContext, asked: Sequence[str]) -> list[str]:
    """The paths that were asked for, relative to the root. Raises ``Refused`` for what no tool commits."""
    named = []
    for path in asked:
        place = resolve(ctx.workspace, ctx.task_dir, path)
        if place.kind is PathClass.PROTECTED:
            raise Refused(f"`{path}` holds settings that run things; no tool commits it. The person can.")
        if place.kind is not PathClass.WORKSPACE:
            raise Refused(f"`{path}` belongs to the task's folder, which git ignores.")
        root = os.path.realpath(ctx.workspace)
        own = os.path.relpath(os.path.normpath(os.path.join(root, path)), root)  # noqa: PTH118
        named.append(own if place.link else "/".join(place.parts) or ".")
    return [] if "." in named else named


async def _unsaved(ctx: ToolContext, commit: Commit) -> list[str]:
    """A note of what is committed as it is on disk though the editor shows more."""
    dirty = {str(path) for path in await ctx.documents.dirty()}
    names = [entry.path for entry in commit.entries if str(ctx.workspace / entry.path) in dirty]
    return [f"Not saved in the editor, so committed as on disk: {_some(names)}"] if names else []


async def _run(ctx: ToolContext, args: GitCommitArgs, prepared: Prepared) -> Outcome:
    commit = prepared.state
    assert isinstance(commit, Commit)
    made = await make_commit(commit, args.message.strip())
    where = f" on branch {commit.branch}" if commit.branch else ""
    text = [f"Committed {made}{where}: {_size(commit)}.", *_told(commit)[1:], _HOW]
    return ToolResult("\n".join(text), brief=f"{made}: {_size(commit)}")


def _title(commit: Commit, message: str) -> str:
    where = f" on {one_line(commit.branch, 40)}" if commit.branch else ""
    return f"GitCommit{where} ({_size(commit)}): {one_line(message.split(chr(10), 1)[0], 100)}"


def _size(commit: Commit) -> str:
    added = sum(entry.added or 0 for entry in commit.entries)
    removed = sum(entry.removed or 0 for entry in commit.entries)
    files = len(commit.entries)
    return f"{files} file{'' if files == 1 else 's'}, +{added} −{removed}"


def _told(commit: Commit) -> list[str]:
    """The files with their lines, and what is left out."""
    lines = [f"{_size(commit)}:", *(_line(entry) for entry in commit.entries[:_LISTED])]
    if (more := len(commit.entries) - _LISTED) > 0:
        lines.append(f"… and {more} more files")
    if commit.left_out:
        lines.append(f"Left out (settings, secrets, other repositories): {_some(commit.left_out)}")
    return lines


def _line(entry: Entry) -> str:
    counts = "binary" if entry.added is None else f"+{entry.added} −{entry.removed or 0}"
    return f"{entry.letter} {one_line(entry.path, 300)} {counts}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, 100) for name in names[:10])
    return first_characters(shown, 600)[0] + (f" and {len(names) - 10} more" if len(names) > 10 else "")


GIT_COMMIT = make("GitCommit", GitCommitArgs, Effect.EXECUTE, _prepare, _run)
