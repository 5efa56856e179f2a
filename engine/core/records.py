"""Values that go into the store and come out of it, between the runners and the adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.core.tooling import FileChange


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to submit. ``task_id`` None makes a new task. ``piece`` is the resolved piece's canonical bytes,
    with its hash; without a name they are empty, and the first claim chooses one. ``spawned_by`` (a job or
    request id) and ``spawn_key`` together are unique: a job that was made by them already is the one that is
    meant.
    """

    job_id: str
    instruction: str
    title: str
    language: str
    mode: str
    piece_name: str | None
    piece: bytes
    piece_hash: str
    movement: str | None
    task_id: str | None = None
    new_task_id: str = ""
    model: str | None = None
    files: tuple[str, ...] = ()
    parent_id: str | None = None
    retry_of: str | None = None
    spawned_by: str | None = None
    spawn_key: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for a job: every write of a runner carries it and fails with ``LeaseLost`` when it
    is no longer held.
    """

    job_id: str
    task_id: str
    fence: int
    run: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, as the exact bytes sent. ``call_id`` is set on tool results.

    Beside the body of an assistant message: ``thought``, its reasoning as a JSON object, sent only to a
    server that wants it back; ``problems``, what was wrong with the arguments of a call, by its id.
    """

    role: str
    body: bytes
    call_id: str | None = None
    thought: bytes = b""
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a job: its kind and fields (camelCase, as on the wire)."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leaving:
    """The end of a stay in a movement: where it went, what it teaches (``lesson``), and the events that tell
    it.
    """

    movement_seq: int
    movement: str
    next_step: str
    summary: str = ""
    lessons: str = ""
    iterations: int = 0
    lesson: str = ""
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Intent:
    """What a call is about to do; committed before its effect."""

    call_id: str
    conversation: int
    movement_seq: int
    tool: str
    effect: str
    arguments: str
    digest: str
    request_id: str | None = None
    path: str | None = None
    pre_hash: str | None = None
    post_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A journalled call: ``done`` with its result, or an intent whose outcome is not known."""

    intent: Intent
    done: bool
    ok: bool
    brief: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """A call's result: the message for the model, and what it changed."""

    call_id: str
    ok: bool
    brief: str
    message: Message
    changes: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request to store. ``shown`` is what the person is shown (a ``Request`` without its ids), plus
    ``ruleDraft`` for "always".
    """

    request_id: str
    reason: str
    key: str
    shown: Mapping[str, Any]
    digest: str = ""
    call_id: str | None = None
    screen_key: str | None = None


@dataclass(frozen=True, slots=True)
class SettledRequest:
    """A request's row as the runner needs it; ``decision`` None while it is open."""

    request_id: str
    job_id: str
    reason: str
    key: str
    digest: str
    call_id: str | None
    decision: str | None
    scope: str | None
    network: bool
    text: str
    note: str
    used: bool
    title: str
    movement: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    made: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of the task's thread; ``at`` in POSIX seconds."""

    author: str
    text: str
    at: float
    comment_id: str = ""
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A running job's owner, as recovery judges it."""

    job_id: str
    owner: str
    pid: int
    start: str
    boot: str
    lease_until: float
    fence: int
    updated_at: float
    crashes: int


def canonical(value: object) -> str:
    """Canonical JSON text: sorted keys, no spaces, no escapes. The basis of every digest."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A path that a job changed: what it was before the job (fingerprint, mode, the bytes if they are kept
    here) and what the job left there. ``why`` says why it cannot be put back, empty if it can; ``reverted``
    that it was.
    """

    path: str
    before: bytes | None
    before_mode: int | None
    before_hash: str | None
    after_hash: str | None
    after_mode: int | None
    why: str = ""
    reverted: bool = False
