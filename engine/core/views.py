"""What people and clients see of the store: the shapes of ``interface.md``, camelCase on the wire.

One set of shapes serves the LSP commands, ``--json`` of the command line and the JSON Schemas that the
extension is checked against.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all wire shapes."""


class UsageView(View, frozen=True, kw_only=True):
    """Tokens of a job; ``reused_pct`` is null until the server told."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reused_pct: float | None
    context_ratio: float = 0.0
    calls: int = 0


class JobSummary(View, frozen=True, kw_only=True):
    """A job in a list. Times are ISO 8601 UTC; ``piece`` is null until the classifier chose. ``not_before``
    is when a queued job that a busy model server put off goes on.
    """

    job_id: str
    task_id: str
    title: str
    piece: str | None
    movement: str | None
    status: str
    wait_reason: str | None = None
    reason: str | None = None
    forced: bool = False
    resume_movement: str | None = None
    open_requests: list[str] = []
    created_at: str
    updated_at: str
    usage: UsageView
    parent_id: str | None = None
    retry_of: str | None = None
    not_before: str | None = None


class Diff(View, frozen=True, kw_only=True):
    """A file before and after an edit that waits for approval; ``before`` is null for a new file."""

    uri: str
    before: str | None
    after: str


class Settled(View, frozen=True, kw_only=True):
    """How a request was settled, by whom and when."""

    decision: str
    scope: str | None = None
    text: str | None = None
    note: str | None = None
    by: str | None = None
    at: str


class Request(View, frozen=True, kw_only=True):
    """A request to the person: a question, an approval, or another wait. ``why`` is the policy's reason.

    The ``*_key`` and ``*_values`` fields say title, reason and rule as catalogue keys, so that each edge can
    tell its own reader.
    """

    request_id: str
    job_id: str
    task_id: str
    reason: str
    title: str
    detail: str = ""
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    options: list[str] | None = None
    diff: list[Diff] | None = None
    rule: str | None = None
    why: str = ""
    title_key: str | None = None
    title_values: dict[str, str] = {}
    why_key: str | None = None
    why_values: dict[str, str] = {}
    rule_key: str | None = None
    rule_values: dict[str, str] = {}
    movement: str | None = None
    piece: str | None = None
    created_at: str
    settled: Settled | None = None


class CommentView(View, frozen=True, kw_only=True):
    """One entry of the task's thread."""

    author: str
    at: str
    text: str
    job_id: str | None = None


class MovementView(View, frozen=True, kw_only=True):
    """One stay in a movement; ``next`` is null while it lasts. ``reused_pct`` is the cached share of its
    first model call.
    """

    name: str
    visit: int
    run: int
    started_at: str
    ended_at: str | None
    next: str | None
    summary: str | None
    lessons: str | None = None
    iterations: int = 0
    forced: bool = False
    reused_pct: float | None = None


class DecisionView(View, frozen=True, kw_only=True):
    """A settled decision of a job, by the key it was decided under."""

    key: str
    decision: str
    scope: str | None
    note: str | None = None


class Brief(View, frozen=True, kw_only=True):
    """The Mission Brief of a task."""

    goal: str = ""
    done: str = ""
    open: str = ""
    clarifications: str = ""


class ChildView(View, frozen=True, kw_only=True):
    """A subtask of a job."""

    job_id: str
    task_id: str
    title: str
    status: str
    reason: str | None = None


class JobDetail(JobSummary, frozen=True, kw_only=True):
    """Everything about a job but its events. Of a subtask that was tried again, ``children`` has the newest
    job.
    """

    instruction: str
    mode: str
    language: str
    result: str | None
    requests: list[Request]
    comments: list[CommentView]
    movements: list[MovementView]
    decisions: list[DecisionView]
    brief: Brief
    children: list[ChildView] = []


class RuleView(View, frozen=True, kw_only=True):
    """A stored approval rule; ``text`` is what the person was shown when it was stored."""

    id: str
    scope: str
    text: str
    task_id: str | None
    created_at: str
    by: str | None


class FileChanged(View, frozen=True, kw_only=True):
    """A file a job changed. ``current_matches`` is false where somebody changed it since.

    Of a renamed file ``path`` is the new name and ``renamed_from`` the old one. Modes are octal, and told
    only where they differ. Of a link (``link``) the texts are what it leads to.
    """

    path: str
    status: str
    before: str | None = None
    after: str | None = None
    binary: bool = False
    current_matches: bool = True
    renamed_from: str | None = None
    before_mode: str | None = None
    after_mode: str | None = None
    link: bool = False


class RevertKept(View, frozen=True, kw_only=True):
    """A path that a revert left as it is: ``reason`` is a word for programs, ``text`` says it to a person."""

    path: str
    reason: str
    text: str = ""


class Reverted(View, frozen=True, kw_only=True):
    """What a revert did: the paths that are as before the job, and those that were left as they are."""

    reverted: list[str]
    kept: list[RevertKept]


class Pruned(View, frozen=True, kw_only=True):
    """What a prune removed, or (``dry_run``) would remove; ``bytes`` are about what it took. ``left`` are
    folders that could not be removed; the next prune tries again.
    """

    tasks: int
    jobs: int
    bytes: int
    dry_run: bool = False
    left: list[str] = []


def iso(at: float) -> str:
    """POSIX seconds as ISO 8601 UTC with milliseconds, e.g. ``2026-12-01T09:00:00.000Z``."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_wire(value: Any) -> Any:
    """Plain JSON-ready data of a view, or of a shape or list that holds views.

    What ``interface.md`` marks with ``?`` (here: a field whose default is None) is left out where it is None.
    """
    if isinstance(value, msgspec.Struct):
        return {
            name: to_wire(field)
            for attribute, name, optional in _fields(type(value))
            if (field := getattr(value, attribute)) is not None or not optional
        }
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]
    return msgspec.to_builtins(value)


@cache
def _fields(view: type[msgspec.Struct]) -> tuple[tuple[str, str, bool], ...]:
    """(attribute, name on the wire, optional) of a shape's fields."""
    return tuple((f.name, f.encode_name, f.default is None) for f in msgspec.structs.fields(view))
