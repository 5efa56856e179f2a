"""The Markdown export of a job: everything about it and its task, for people, in their language.

What a model, a file or a person wrote stands in code blocks that it cannot end, or on one line with every
sign of Markdown escaped: nothing in it is a link, a picture or a heading.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

from engine import (
    Client,
    CommentView,
    ExportedChange,
    ExportHead,
    JobDetail,
    MovementView,
    Request,
    cut,
    export_events,
    export_head,
    export_json,
)
from maestro_lsp.display import Say, exact, fenced, told, told_event, worded

_SIGNS = re.compile(r"[`*_{}\[\]<>#|!~&$@]")
_LINE = 400
_ARGUMENT = 600
_TEXT = 4_000


async def export_parts(client: Client, job_id: str, form: str, say: Say) -> AsyncIterator[str]:
    """A job as ``md`` or ``json``, in parts. Raises ``NotFound`` before the first one."""
    if form == "json":
        async for part in export_json(client, job_id):
            yield part
        return
    head = await export_head(client, job_id)
    yield await asyncio.to_thread(lambda: "\n\n".join(_head(head, say)) + "\n")
    timeline = Timeline(say)
    async for page in export_events(client, job_id):
        yield await asyncio.to_thread(timeline.page, page)
    yield timeline.end()


def _head(head: ExportHead, say: Say) -> Iterator[str]:
    job = head.job
    yield f"# {line(job.title)}"
    yield "\n".join(f"- {name}: {value}" for name, value in _facts(job, say))
    yield from _block(say("export.instruction"), job.instruction)
    yield from _block(say("export.result"), job.result or "")
    yield from _brief(job, say)
    if job.comments:
        yield f"## {say('export.comments')}"
        for comment in job.comments:
            yield _comment(comment)
    if job.children:
        yield f"## {say('export.children')}"
        yield "\n".join(
            f"- `{child.job_id}` {line(child.title)}: {say(f'cli.status.{child.status}')}"
            for child in job.children
        )
    if job.movements:
        yield f"## {say('export.movements')}"
        for move in job.movements:
            yield from _movement(move, say)
    if job.requests:
        yield f"## {say('export.requests')}"
        for request in job.requests:
            yield from _request(told(request, say), say)
    yield f"## {say('export.changes')}"
    if not head.changes:
        yield say("export.no_changes")
    for change in head.changes:
        yield from _change(change, say)
    yield f"## {say('export.timeline')}"


def _facts(job: JobDetail, say: Say) -> Iterator[tuple[str, str]]:
    yield say("export.job"), f"`{job.job_id}`"
    yield say("export.task"), f"`{job.task_id}`"
    status = say(f"cli.status.{job.status}")
    if job.forced:
        status += f" ({say('cli.run.forced')})"
    elif job.wait_reason:
        status += f" ({worded(say, f'cli.wait.{job.wait_reason}', job.wait_reason, {})})"
    yield say("export.status"), status
    if job.reason:
        yield say("export.reason"), worded(say, f"reason.{job.reason}", line(job.reason), {})
    if job.piece:
        yield say("export.piece"), line(job.piece)
    yield say("export.mode"), job.mode
    yield say("export.created"), job.created_at
    yield say("export.updated"), job.updated_at
    usage = job.usage
    values = {"calls": usage.calls, "prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
    key = "cli.usage" if usage.reused_pct is None else "cli.usage_cached"
    yield say("export.usage"), say(key, pct=usage.reused_pct, **values)
    yield say("export.context"), f"{usage.context_ratio * 100:.0f} %"
    for name, value in (("parent", job.parent_id), ("retry_of", job.retry_of)):
        if value:
            yield say(f"export.{name}"), f"`{value}`"


def _block(title: str, text: str) -> Iterator[str]:
    if text.strip():
        yield f"## {title}"
        yield fenced(text.strip("\n"), "")


def _brief(job: JobDetail, say: Say) -> Iterator[str]:
    fields = {name: getattr(job.brief, name) for name in ("goal", "done", "open", "clarifications")}
    if any(fields.values()):
        yield f"## {say('export.brief')}"
    yield from _texts(say, **fields)


def _comment(comment: CommentView) -> str:
    return f"**{line(comment.author)}**, {comment.at}:\n\n{fenced(comment.text, '')}"


def _movement(move: MovementView, say: Say) -> Iterator[str]:
    words = [say("export.visit", n=move.visit), say("cli.show.iterations", n=move.iterations)]
    if move.reused_pct is not None:
        words.append(say("cli.show.reused", pct=move.reused_pct))
    if move.forced:
        words.append(say("cli.run.forced"))
    after = f" → {line(move.next)}" if move.next else ""
    yield f"### {line(move.name)}{after}\n\n{move.started_at} · {' · '.join(words)}"
    yield from _texts(say, summary=move.summary, lessons=move.lessons)


def _texts(say: Say, **texts: str | None) -> Iterator[str]:
    """Texts under their names, those that there are."""
    for name, text in texts.items():
        if text:
            yield f"{say(f'export.{name}')}:\n\n{fenced(text, '')}"


def _request(request: Request, say: Say) -> Iterator[str]:
    yield f"### {line(request.title)}\n\n`{request.request_id}` · {request.created_at} · {line(request.why)}"
    if request.detail:
        yield fenced(request.detail, "")
    settled = request.settled
    if settled is None:
        yield say("export.unsettled")
        return
    decision = say(f"cli.decision.{settled.decision}", by=line(settled.by or "–"))
    scope = f" · {say('export.scope', scope=settled.scope)}" if settled.scope else ""
    yield f"{decision} · {settled.at}{scope}"
    yield from _texts(say, answer=settled.text, note=settled.note)


def _change(change: ExportedChange, say: Say) -> Iterator[str]:
    notes = [say(f"cli.changes.{change.status}")]
    if change.renamed_from:
        notes.append(say("export.was", path=line(change.renamed_from)))
    if change.before_mode and change.after_mode:
        notes.append(f"{change.before_mode} → {change.after_mode}")
    if not change.current_matches:
        notes.append(say("export.changed_since"))
    yield f"### {line(change.path)}\n\n{' · '.join(notes)}"
    if change.binary:
        yield say("export.binary")
    if change.diff:
        yield fenced(change.diff, "diff")
    if change.cut:
        yield say("export.cut")


class Timeline:
    """The calls of a job with what came of them, and what else happened, one line for each."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._open: dict[str, dict[str, Any]] = {}

    def page(self, events: list[dict[str, Any]]) -> str:
        """The next events."""
        return "".join(f"\n{text}\n" for event in events for text in self._event(event))

    def end(self) -> str:
        """Calls that never had a result."""
        left = [
            f"\n- … {self._call(call)}: {self._say('export.no_result')}\n" for call in self._open.values()
        ]
        return "".join(left)

    def _event(self, event: dict[str, Any]) -> Iterator[str]:
        say, at = self._say, event["at"]
        event = told_event(event, say)
        match event["kind"]:
            case "tool_call":
                self._open[event["callId"]] = event
            case "tool_result":
                call = self._open.pop(event["callId"], None)
                sign = "✓" if event["ok"] else "✗"
                what = self._call(call) if call is not None else f"`{line(event['callId'])}`"
                yield f"- {at} {sign} {what}: {line(event['brief'])} ({event['seconds']} s)"
                if call is not None and call["arguments"]:
                    yield _indented(fenced(_arguments(call["arguments"], say), "json"))
            case "text" if event.get("full"):
                yield _indented(fenced(cut(event["full"], _TEXT), ""))
            case "status":
                status = say(f"cli.status.{event['to']}")
                yield f"- {at} {status}"
            case "movement":
                yield f"- {at} **{line(event['name'])}** ({say('export.visit', n=event['visit'])})"
            case "transition":
                yield f"- {at} {line(event['from'])} → {line(event['to'])}"
            case "context":
                full = say(f"lsp.context.{event['action']}", percent=round(event["ratio"] * 100))
                yield f"- {at} {full}"
            case "error":
                yield f"- {at} {line(event['message'])}"
            case _:
                pass

    def _call(self, call: dict[str, Any]) -> str:
        return f"{line(call['tool'])} · {line(call['title'])}"


def _arguments(arguments: dict[str, Any], say: Say) -> str:
    text = json.dumps(arguments, ensure_ascii=False, indent=2)
    return text if len(text) <= _ARGUMENT else f"{cut(text, _ARGUMENT)} {say('export.arguments_cut')}"


def _indented(block: str) -> str:
    return "\n".join(f"  {row}" for row in block.split("\n"))


def line(text: str) -> str:
    """Foreign text on one line of Markdown, as it is."""
    return _SIGNS.sub(lambda sign: f"\\{sign[0]}", cut(exact(" ".join(text.split())), _LINE))
