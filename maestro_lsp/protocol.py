"""Every name of the wire that is ours, and what a client may send (``interface.md``).

The JSON Schemas that other people's clients are checked against are generated from here, so a name that is
not here does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from engine import Brief, Export, JobDetail, JobSummary, Request, Reverted
from maestro_lsp.shapes import (
    AnyEvent,
    ApproveAnswer,
    Changes,
    Commented,
    Done,
    Events,
    Exported,
    Graph,
    InputAnswer,
    InputParams,
    Jobs,
    Models,
    NewJobId,
    Pieces,
    Resumed,
    Rules,
    Settled,
    Started,
    Status,
)

PROTOCOL_VERSION = 1
SECTION = "maestro"
"""The section of the editor's settings."""

JOB_CHANGED = "maestro/jobChanged"
EVENT = "maestro/event"
APPROVE = "maestro/approve"
INPUT = "maestro/input"

MOST = (1 << 31) - 1
"""The greatest ``uinteger`` of LSP."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Mode = Literal["plan", "ask", "edits", "all"]


class Params(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of what a client sends: read as sent, nothing coerced, unknown keys named."""


# -- params of commands


class Nothing(Params, frozen=True):
    """No params."""


class Position(Params, frozen=True):
    """A place in a document, both from 0; ``character`` in the units of the client's position encoding."""

    line: Natural
    character: Natural


class Range(Params, frozen=True):
    """From ``start`` up to, not including, ``end``."""

    start: Position
    end: Position


class Selection(Params, frozen=True):
    """A part of a document."""

    uri: str
    range: Range


class StartParams(Params, frozen=True):
    """``maestro.task.start``."""

    instruction: str
    piece: str | None = None
    mode: Mode | None = None
    model: str | None = None
    files: list[str] = []
    selection: Selection | None = None
    workspace: str | None = None
    parent: str | None = None


class ListParams(Params, frozen=True):
    """``maestro.task.list``."""

    status: list[str] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 200


class JobParams(Params, frozen=True):
    """Commands that take a job and nothing else."""

    job_id: str


class EventsParams(Params, frozen=True):
    """``maestro.task.events``: those with a ``seq`` above ``after``."""

    job_id: str
    after: Natural = 0


class WatchParams(Params, frozen=True):
    """``maestro.task.watch``."""

    job_id: str
    on: bool


class CommentParams(Params, frozen=True):
    """``maestro.task.comment``."""

    task_id: str
    text: str
    piece: str | None = None


class AnswerParams(Params, frozen=True):
    """``maestro.task.answer``."""

    job_id: str
    text: str
    request_id: str | None = None


class BriefFields(Params, frozen=True):
    """The fields of a Mission Brief to replace; the others stay."""

    goal: str | None = None
    done: str | None = None
    open: str | None = None
    clarifications: str | None = None


class BriefParams(Params, frozen=True):
    """``maestro.task.brief``."""

    task_id: str
    brief: BriefFields | None = None


class DecideParams(Params, frozen=True):
    """``maestro.request.decide``."""

    request_id: str
    decision: Literal["allow", "deny"]
    scope: Literal["once", "task", "always"] = "once"
    network: bool = False
    note: str = ""


class ChangesParams(Params, frozen=True):
    """``maestro.task.changes`` and ``maestro.task.revert``; ``files`` are workspace-relative paths, none
    means all.
    """

    job_id: str
    files: list[str] | None = None


class ExportParams(Params, frozen=True):
    """``maestro.task.export``."""

    job_id: str
    format: Literal["md", "json"] = "md"


class GraphParams(Params, frozen=True):
    """``maestro.piece.graph``: a piece by its name, or by the path of its file."""

    piece: str


class KeyParams(Params, frozen=True):
    """``maestro.captcha.resolve``."""

    key: str


class RuleParams(Params, frozen=True):
    """``maestro.rules.remove``."""

    id: str


class ModeParams(Params, frozen=True):
    """``maestro.mode.set``."""

    mode: Mode
    job_id: str | None = None


class TrustParams(Params, frozen=True):
    """``maestro.workspace.trust``."""

    trusted: bool


# -- the tables


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it takes, what it returns, and the function of ``features.commands`` that does it."""

    params: type[Params]
    result: type[msgspec.Struct]
    handler: str


COMMANDS: dict[str, Command] = {
    "maestro.task.start": Command(StartParams, Started, "start"),
    "maestro.task.list": Command(ListParams, Jobs, "list_jobs"),
    "maestro.task.show": Command(JobParams, JobDetail, "show"),
    "maestro.task.events": Command(EventsParams, Events, "events"),
    "maestro.task.watch": Command(WatchParams, Done, "watch"),
    "maestro.task.comment": Command(CommentParams, Commented, "comment"),
    "maestro.task.answer": Command(AnswerParams, Done, "answer"),
    "maestro.task.brief": Command(BriefParams, Brief, "brief"),
    "maestro.request.decide": Command(DecideParams, Settled, "decide"),
    "maestro.task.cancel": Command(JobParams, Done, "cancel"),
    "maestro.task.retry": Command(JobParams, NewJobId, "retry"),
    "maestro.task.changes": Command(ChangesParams, Changes, "changes"),
    "maestro.task.revert": Command(ChangesParams, Reverted, "revert"),
    "maestro.task.export": Command(ExportParams, Exported, "export"),
    "maestro.piece.list": Command(Nothing, Pieces, "list_pieces"),
    "maestro.piece.graph": Command(GraphParams, Graph, "piece_graph"),
    "maestro.captcha.resolve": Command(KeyParams, Resumed, "resolve_captcha"),
    "maestro.rules.list": Command(Nothing, Rules, "list_rules"),
    "maestro.rules.remove": Command(RuleParams, Done, "remove_rule"),
    "maestro.mode.set": Command(ModeParams, Done, "set_mode"),
    "maestro.model.list": Command(Nothing, Models, "list_models"),
    "maestro.workspace.trust": Command(TrustParams, Done, "trust"),
    "maestro.status": Command(Nothing, Status, "status"),
}

DOCUMENTS: dict[str, Any] = {"maestro.export": Export}
"""What a JSON export holds; ``events`` are as in ``maestro/event``."""

NOTIFICATIONS: dict[str, Any] = {JOB_CHANGED: JobSummary, EVENT: AnyEvent}

REQUESTS: dict[str, tuple[Any, Any]] = {
    APPROVE: (Request, ApproveAnswer | None),
    INPUT: (InputParams, InputAnswer | None),
}
"""Requests of ours to a client that announced it knows them: params, answer."""


def protocol_schemas() -> dict[str, Any]:
    """JSON Schemas of all of it: ``commands``, ``notifications``, ``requests``, ``documents``, and their
    ``$defs``.
    """
    shapes: list[Any] = [shape for command in COMMANDS.values() for shape in (command.params, command.result)]
    shapes += NOTIFICATIONS.values()
    shapes += [shape for pair in REQUESTS.values() for shape in pair]
    shapes += DOCUMENTS.values()
    found, defs = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    schemas = iter(found)

    def pairs(names: Any, first: str, second: str) -> dict[str, Any]:
        return {name: {first: next(schemas), second: next(schemas)} for name in names}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "protocol": PROTOCOL_VERSION,
        "commands": pairs(COMMANDS, "params", "result"),
        "notifications": {name: next(schemas) for name in NOTIFICATIONS},
        "requests": pairs(REQUESTS, "params", "result"),
        "documents": {name: next(schemas) for name in DOCUMENTS},
        "$defs": defs,
    }
