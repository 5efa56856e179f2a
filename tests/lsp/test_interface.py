"""Every name of the public interface is there: it is a contract, so none may be forgotten or dropped."""

from __future__ import annotations

import pytest

from engine import JobDetail, JobSummary, Request, UsageView, catalogue
from maestro_lsp.cli.dispatch import MODULES, NOT_YET
from maestro_lsp.protocol import COMMANDS, NOTIFICATIONS, REQUESTS, protocol_schemas

VERBS = (
    "run jobs show answer decide resolve comment brief cancel retry changes revert export prune rules trust"
    " pieces worker lint schema doctor demo mcp acp"
)
TASK = "start list show events watch comment answer brief cancel retry changes revert export"
OTHERS = (
    "request.decide piece.list piece.graph captcha.resolve rules.list rules.remove mode.set model.list"
    " workspace.trust status"
)
SUMMARY = (
    "jobId taskId title piece movement status waitReason reason forced resumeMovement openRequests createdAt"
    " updatedAt usage parentId retryOf"
)
DETAIL = f"{SUMMARY} requests comments movements decisions brief result"
USAGE = "promptTokens completionTokens cachedTokens reusedPct contextRatio calls"
REQUEST = "requestId jobId taskId reason title detail tool arguments options diff rule why createdAt"
CHANGED = "path status before after binary currentMatches"
EVENTS = {
    "status": "from to waitReason reason",
    "movement": "name visit forced",
    "text": "delta full",
    "reasoning": "delta",
    "tool_call": "callId tool arguments title locations",
    "tool_output": "callId delta",
    "tool_result": "callId ok brief bytes truncated seconds",
    "transition": "from to summary lessons",
    "request": "request",
    "decision": "requestId decision scope by note",
    "context": "action ratio",
    "cache": "reused total pct firstDifference",
    "usage": "promptTokens completionTokens cachedTokens seconds",
    "comment": "author text",
    "error": "code message retryable",
}
PARAMS = {
    "task.start": "instruction piece mode model files selection workspace parent",
    "task.list": "status limit",
    "task.events": "jobId after",
    "task.watch": "jobId on",
    "task.comment": "taskId text piece",
    "task.answer": "jobId text requestId",
    "task.brief": "taskId brief",
    "request.decide": "requestId decision scope network note",
    "task.changes": "jobId files",
    "task.revert": "jobId files",
    "task.export": "jobId format",
    "piece.graph": "piece",
    "captcha.resolve": "key",
    "rules.remove": "id",
    "mode.set": "mode jobId",
    "workspace.trust": "trusted",
}


def fields(schema: str) -> set[str]:
    return set(protocol_schemas()["$defs"][schema]["properties"])


def test_every_verb_of_the_command_line_is_there_or_says_that_it_is_not_yet() -> None:
    assert set(VERBS.split()) == {*MODULES, *NOT_YET}
    for language in ("en", "ja"):
        for verb in MODULES:
            assert catalogue(language)(f"cli.verb.{verb}")


def test_every_command_is_there() -> None:
    wanted = {
        *(f"maestro.task.{name}" for name in TASK.split()),
        *(f"maestro.{name}" for name in OTHERS.split()),
    }
    assert wanted == set(COMMANDS)
    assert set(NOTIFICATIONS) == {"maestro/jobChanged", "maestro/event"}
    assert set(REQUESTS) >= {"maestro/approve", "maestro/input"}


@pytest.mark.parametrize("command", PARAMS)
def test_a_command_takes_what_it_says(command: str) -> None:
    assert fields(COMMANDS[f"maestro.{command}"].params.__name__) == set(PARAMS[command].split())


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (JobSummary, SUMMARY),
        (JobDetail, DETAIL),
        (UsageView, USAGE),
        (Request, REQUEST),
    ],
)
def test_a_shape_has_every_field(shape: type, wanted: str) -> None:
    assert set(wanted.split()) <= fields(shape.__name__)


def test_a_changed_file_and_an_export_have_every_field() -> None:
    assert set(CHANGED.split()) <= fields("FileChanged")
    assert {"format", "version", "job", "changes", "events"} == fields("Export")
    assert set(protocol_schemas()["documents"]) == {"maestro.export"}


def test_every_kind_of_event_has_every_field() -> None:
    shapes = {
        schema["properties"]["kind"]["enum"][0]: set(schema["properties"])
        for schema in protocol_schemas()["$defs"].values()
        if "kind" in schema.get("properties", {})
    }
    for kind, wanted in EVENTS.items():
        assert {"jobId", "seq", "at", "kind", "movement", *wanted.split()} <= shapes[kind], kind
