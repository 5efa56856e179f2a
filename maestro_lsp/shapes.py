"""What the server sends: results of commands, events, and its own requests (``interface.md``).

What a client sends, and the tables of names, are in ``maestro_lsp.protocol``.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engine import FileChanged, JobSummary, Request, RuleView


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what a command returns; an optional field that is not set is left out."""


# -- results of commands


class Done(Result, frozen=True):
    """``{}``."""


class Started(Result, frozen=True):
    """A committed job."""

    task_id: str
    job_id: str


class NewJobId(Result, frozen=True):
    """The job a retry made."""

    job_id: str


class Commented(Result, frozen=True):
    """``jobId`` is set if the comment started a follow-up job."""

    job_id: str | None = None


class Jobs(Result, frozen=True):
    """Newest first."""

    jobs: list[JobSummary]


class Settled(Result, frozen=True):
    """The decision is stored."""

    settled: Literal[True]


class Changes(Result, frozen=True):
    """The files a job changed."""

    files: list[FileChanged]


class Exported(Result, frozen=True):
    """Where the document is."""

    uri: str


class Graph(Result, frozen=True):
    """A piece as a picture, twice."""

    mermaid: str
    svg: str


class ProblemInfo(Result, frozen=True):
    """A fault of a piece file; ``range`` and ``severity`` as in LSP terms, ``code`` as lint prints it."""

    severity: str
    message: str
    range: dict[str, Any]
    code: str
    fix: str | None = None


class PieceInfo(Result, frozen=True):
    """A piece that can be named; ``shadows`` are the sources of pieces of the same name that it hides."""

    name: str
    source: str
    path: str
    description: str
    shadows: list[str]
    problems: list[ProblemInfo]


class Pieces(Result, frozen=True):
    """All pieces, by name."""

    pieces: list[PieceInfo]


class Resumed(Result, frozen=True):
    """The jobs that a solved captcha set going again."""

    resumed: list[str]


class Rules(Result, frozen=True):
    """Stored approval rules."""

    rules: list[RuleView]


class ModelInfo(Result, frozen=True):
    """A model worker; never its key. Without a role it serves those who name it."""

    id: str
    endpoint: str
    model: str
    has_key: bool
    roles: list[str] = []
    vision: bool = False
    max_concurrency: int | None = None
    context_tokens: int | None = None


class Models(Result, frozen=True):
    """The workers in use: ``model`` of a start takes the id or the model of one."""

    workers: list[ModelInfo]


class ServerInfo(Result, frozen=True):
    """This language server."""

    name: str
    version: str
    pid: int


class EngineInfo(Result, frozen=True):
    """The engine process; ``pid`` is null while none runs."""

    pid: int | None


class Status(Result, frozen=True):
    """``maestro.status``. ``queue`` counts jobs by status; ``sandbox`` is a level of ``policy.yaml``."""

    server: ServerInfo
    workspace: str
    model: ModelInfo
    queue: dict[str, int]
    store: str
    sandbox: str
    trusted: bool
    mode: str
    language: str
    engine: EngineInfo


# -- events


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind"):
    """Base of ``maestro/event``. Stored ones are numbered by ``seq`` without gaps; live ones carry the last
    stored one's.
    """

    job_id: str
    seq: int
    at: str
    movement: str | None = None


class RevertedEvent(Event, frozen=True, tag="reverted"):
    """What the job changed was put back: the first ``files`` of ``count``; ``kept`` were left as they are."""

    files: list[str]
    count: int
    kept: int


class StatusEvent(Event, frozen=True, tag="status"):
    """A move of the job; ``from`` is null for a new one."""

    from_: str | None = msgspec.field(name="from")
    to: str
    wait_reason: str | None = None
    reason: str | None = None


class MovementEvent(Event, frozen=True, tag="movement"):
    """A movement was entered, for the ``visit``-th time."""

    name: str
    visit: int
    forced: bool = False


class PieceEvent(Event, frozen=True, tag="piece"):
    """The piece of a job that named none: chosen ``by`` the ``classifier``, as the ``only`` one, or as the
    ``fallback``; then ``failure`` says why (``fault``, ``timeout``, ``empty``, ``unclear``, ``unusable``).
    """

    piece: str
    by: str
    failure: str | None = None


class TextEvent(Event, frozen=True, tag="text"):
    """What the model says: a live ``delta``, or the stored ``full`` text."""

    delta: str | None = None
    full: str | None = None


class ReasoningEvent(Event, frozen=True, tag="reasoning"):
    """What the model thinks; live only."""

    delta: str


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A file a call concerns."""

    path: str
    line: int | None = None


class ToolCallEvent(Event, frozen=True, tag="tool_call"):
    """A call begins. ``title_key`` with ``title_values`` is the title as the catalogue has it."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    title: str
    locations: list[Location] = []
    title_key: str | None = None
    title_values: dict[str, str] = {}


class ToolOutputEvent(Event, frozen=True, tag="tool_output"):
    """Output of a running call; live only."""

    call_id: str
    delta: str


class ToolResultEvent(Event, frozen=True, tag="tool_result"):
    """A call ended; ``bytes`` is the size of what the model was told. ``brief_key`` with ``brief_values`` is
    the brief as the catalogue has it.
    """

    call_id: str
    ok: bool
    brief: str
    bytes: int
    seconds: float
    truncated: bool = False
    brief_key: str | None = None
    brief_values: dict[str, str] = {}


class TransitionEvent(Event, frozen=True, tag="transition"):
    """A hop to another movement."""

    from_: str = msgspec.field(name="from")
    to: str
    summary: str
    lessons: str | None = None


class RequestEvent(Event, frozen=True, tag="request"):
    """The job asks."""

    request: Request


class DecisionEvent(Event, frozen=True, tag="decision"):
    """A request was settled."""

    request_id: str
    decision: str
    scope: str
    by: str
    note: str | None = None


class ContextEvent(Event, frozen=True, tag="context"):
    """A threshold of the context limit was crossed."""

    action: str
    ratio: float


class CacheEvent(Event, frozen=True, tag="cache"):
    """Cached tokens of a movement's first call."""

    reused: int
    total: int
    pct: float
    first_difference: int | None = None


class CacheBreakEvent(Event, frozen=True, tag="cache_break"):
    """What the server could have reused changed: ``first_difference`` is the first byte that differs.
    ``announced`` says that it was meant, ``reason`` why: a granted tool (``tools``) joined the tools array.
    """

    first_difference: int
    announced: bool = False
    reason: str | None = None
    tools: list[str] = []


class UsageEvent(Event, frozen=True, tag="usage"):
    """Tokens of one model call."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    seconds: float


class CommentEvent(Event, frozen=True, tag="comment"):
    """An entry of the task's thread."""

    author: str
    text: str


class ErrorEvent(Event, frozen=True, tag="error"):
    """A fault of the model server or the engine."""

    code: str
    message: str
    retryable: bool


AnyEvent = (
    StatusEvent
    | RevertedEvent
    | MovementEvent
    | PieceEvent
    | TextEvent
    | ReasoningEvent
    | ToolCallEvent
    | ToolOutputEvent
    | ToolResultEvent
    | TransitionEvent
    | RequestEvent
    | DecisionEvent
    | ContextEvent
    | CacheEvent
    | CacheBreakEvent
    | UsageEvent
    | CommentEvent
    | ErrorEvent
)


class Events(Result, frozen=True):
    """Stored events in order; ``last`` is the ``seq`` to ask after next time."""

    events: list[AnyEvent]
    last: int


# -- requests to the client


class InputParams(Result, frozen=True):
    """``maestro/input``."""

    request_id: str
    job_id: str
    prompt: str
    options: list[str] | None = None
    multiline: bool | None = None


class InputAnswer(msgspec.Struct, frozen=True):
    """The client's answer to ``maestro/input``; null is none."""

    text: str


class ApproveAnswer(msgspec.Struct, frozen=True):
    """The client's answer to ``maestro/approve``; null is none."""

    decision: Literal["allow", "deny"]
    scope: Literal["once", "task", "always"] = "once"
    network: bool = False
    note: str | None = None
