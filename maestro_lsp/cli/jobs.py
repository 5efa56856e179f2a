"""`jobs` and `show`: what the store holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from engine import (
    Brief,
    ChildView,
    JobDetail,
    JobSummary,
    MovementView,
    Request,
    StoreFault,
    UsageView,
    all_stores,
    short_id,
    to_wire,
    workspace_of,
)
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.asking import command_to_settle, show_action, title_of, why_of
from maestro_lsp.cli.find import folder, has_store, holding, opened
from maestro_lsp.cli.terminal import Terminal, clean
from maestro_lsp.display import told

_AGES = ((86400, "days"), (3600, "hours"), (60, "minutes"))


def _add_jobs(parser: Parser) -> None:
    parser.workspace()
    parser.option("--all", action="store_true", help="all")
    parser.json()


def _jobs(args: Namespace, terminal: Terminal) -> int:
    found = asyncio.run(_everywhere() if args.all else _here(folder(args.workspace)))
    if args.json:
        rows = [to_wire(job) | ({"workspace": str(where)} if args.all else {}) for where, job in found]
        terminal.json({"jobs": rows})
    elif not found:
        terminal.say("cli.jobs.none_at_all" if args.all else "cli.jobs.none")
    else:
        _table(terminal, found, args.all)
    return 0


async def _here(workspace: Path) -> list[tuple[Path, JobSummary]]:
    if not has_store(workspace):
        return []
    async with opened(workspace) as client:
        return [(workspace, job) for job in await client.list_jobs()]


async def _everywhere() -> list[tuple[Path, JobSummary]]:
    found: list[tuple[Path, JobSummary]] = []
    for file in all_stores():
        with suppress(StoreFault):
            workspace = await workspace_of(file)
            async with opened(workspace, store_file=file) as client:
                found += [(workspace, job) for job in await client.list_jobs()]
    return sorted(found, key=lambda entry: entry[1].created_at, reverse=True)


def _table(terminal: Terminal, found: Iterable[tuple[Path, JobSummary]], everywhere: bool) -> None:
    names = ["id", "status", "piece", "age", *(["workspace"] if everywhere else []), "title"]
    rows = [
        [
            short_id(job.job_id),
            status_of(job, terminal),
            f"{job.piece or '–'}/{job.movement}" if job.movement else job.piece or "–",
            age(job.created_at, terminal),
            *([where.name] if everywhere else []),
            job.title,
        ]
        for where, job in found
    ]
    terminal.table([terminal.text(f"cli.head.{name}") for name in names], rows)


def status_of(job: JobSummary, terminal: Terminal) -> str:
    """A job's status in words, with what it waits for."""
    text = terminal.text(f"cli.status.{job.status}")
    if job.forced:
        return f"{text} ({terminal.text('cli.run.forced')})"
    return f"{text} ({terminal.text(f'cli.wait.{job.wait_reason}')})" if job.wait_reason else text


def age(at: str, terminal: Terminal) -> str:
    """How long ago an ISO time was."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    for unit, name in _AGES:
        if seconds >= unit:
            return terminal.text(f"cli.age.{name}", n=int(seconds // unit))
    return terminal.text("cli.age.seconds", n=max(0, int(seconds)))


def _add_show(parser: Parser) -> None:
    parser.option("id", metavar="ID", help="job_id")
    parser.json()


def _show(args: Namespace, terminal: Terminal) -> int:
    detail, workspace = asyncio.run(_detail(args.id))
    if args.json:
        requests = [told(request, terminal.text) for request in detail.requests]
        terminal.json(to_wire(msgspec.structs.replace(detail, requests=requests)))
    else:
        Page(terminal).show(detail, workspace)
    return 0


async def _detail(wanted: str) -> tuple[JobDetail, Path]:
    async with holding("job", wanted) as (client, job_id):
        return await client.show(job_id), client.workspace


class Page:
    """A job for reading."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def show(self, job: JobDetail, workspace: Path) -> None:
        """Print the page."""
        terminal = self._terminal
        terminal.line(terminal.styled(clean(job.title), "bold"))
        self._field("job", job.job_id)
        self._field("task", job.task_id)
        self._field("workspace", str(workspace))
        self._field("status", status_of(job, terminal))
        if job.status == "queued" and job.reason == "rate_limited":
            self._field("reason", self._terminal.text("cli.run.rate_limited"))
        if job.reason and job.status in ("failed", "aborted"):
            self._field("reason", reason_of(job.reason, terminal))
        self._field("piece", f"{job.piece or '–'} · {terminal.text('cli.head.mode')} {job.mode}")
        self._field("age", f"{age(job.created_at, terminal)} · {job.created_at}")
        self._field("usage", usage_of(job.usage, terminal))
        for name, value in (("parent", job.parent_id), ("retry_of", job.retry_of)):
            if value:
                self._field(name, value)
        if job.instruction.strip() != job.title:
            self._block("instruction", job.instruction)
        self._brief(job.brief)
        self._open(job, workspace)
        self._movements(job.movements)
        self._children(job.children)
        self._requests([request for request in job.requests if request.settled])
        if job.result:
            self._block("result", job.result)

    def _field(self, name: str, value: str) -> None:
        head = self._terminal.text(f"cli.head.{name}")
        self._terminal.line(f"{self._terminal.styled(head, 'dim')}  {' '.join(clean(value).split())}")

    def _heading(self, name: str) -> None:
        self._terminal.line()
        self._terminal.line(self._terminal.styled(self._terminal.text(f"cli.head.{name}"), "bold"))

    def _block(self, name: str, text: str) -> None:
        self._heading(name)
        self._terminal.line("\n".join(f"  {line}" for line in clean(text.strip()).split("\n")))

    def _open(self, job: JobDetail, workspace: Path) -> None:
        """What the job waits for, whole, with the exact command that settles it."""
        terminal = self._terminal
        waiting = [request for request in job.requests if request.settled is None]
        if not waiting:
            return
        self._heading("waiting")
        for request in waiting:
            title = title_of(request, terminal)
            terminal.line(
                f"  {terminal.styled('?', 'yellow')} {' '.join(title.split())}  ({why_of(request, terminal)})"
            )
            for number, option in enumerate(request.options or (), 1):
                terminal.line(f"      {number}  {' '.join(clean(option).split())}")
            show_action(request, terminal, workspace)
            terminal.line(f"    {terminal.styled(command_to_settle(request, terminal), 'cyan')}")

    def _brief(self, brief: Brief) -> None:
        fields = [(name, getattr(brief, name)) for name in Brief.__struct_fields__]
        if any(text for _, text in fields):
            self._heading("brief")
        for name, text in fields:
            if text:
                head = self._terminal.text(f"export.{name}")
                self._terminal.line(
                    f"  {self._terminal.styled(head, 'dim')}  {' '.join(clean(text).split())}"
                )

    def _children(self, children: list[ChildView]) -> None:
        if children:
            self._heading("children")
        for child in children:
            status = self._terminal.text(f"cli.status.{child.status}")
            title = " ".join(clean(child.title).split())
            self._terminal.line(f"  {short_id(child.job_id)}  {title} — {status}")

    def _movements(self, movements: list[MovementView]) -> None:
        if not movements:
            return
        terminal = self._terminal
        self._heading("movements")
        for move in movements:
            words = [terminal.text("cli.show.iterations", n=move.iterations)]
            if move.reused_pct is not None:
                words.append(terminal.text("cli.show.reused", pct=move.reused_pct))
            if move.forced:
                words.append(terminal.text("cli.run.forced"))
            visit = f" #{move.visit}" if move.visit > 1 else ""
            after = f" → {move.next}" if move.next else ""
            line = f"  {move.name}{visit}{after}"
            terminal.line(f"{clean(line)}  {terminal.styled(' · '.join(words), 'dim')}")
            if move.summary:
                terminal.line(f"    {' '.join(clean(move.summary).split())}")

    def _requests(self, requests: list[Request]) -> None:
        if not requests:
            return
        terminal = self._terminal
        self._heading("decided")
        for request in requests:
            settled = request.settled
            assert settled is not None
            decided = terminal.text(f"cli.decision.{settled.decision}", by=settled.by or "–")
            words = settled.text or settled.note
            said = f": {words}" if words else ""
            line = f"  {' '.join(title_of(request, terminal).split())} — {decided}{said}"
            when = terminal.styled(settled.at, "dim")
            terminal.line(f"{' '.join(clean(line).split(' '))}  {when}")


def reason_of(reason: str, terminal: Terminal) -> str:
    """A machine word for how a job ended, in words; a word of its own if the catalogue has none."""
    try:
        return terminal.text(f"reason.{reason}")
    except KeyError:
        return reason


def usage_of(usage: UsageView, terminal: Terminal) -> str:
    """What a job cost: calls, tokens, cached share."""
    values = {"calls": usage.calls, "prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
    if usage.reused_pct is None:
        return terminal.text("cli.usage", **values)
    return terminal.text("cli.usage_cached", pct=usage.reused_pct, **values)


VERBS = {"jobs": Verb(_jobs, _add_jobs), "show": Verb(_show, _add_show)}
