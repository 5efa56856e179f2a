"""`maestro-lsp run`: one task to its end in this terminal, with the engine in this very process.

The store decides what is shown: the job is followed there, so it makes no difference if an engine of another
process takes it up, or if an editor answers what is asked here.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from engine import (
    ENDED,
    AlreadySettled,
    BadArgument,
    Client,
    IllegalMove,
    JobDetail,
    JobStatus,
    Request,
    StartOrder,
    check_settings,
    explain,
    refuse_workspace,
    state_dir,
)
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.asking import Answer, ask, command_to_settle, show_request
from maestro_lsp.cli.errors import CANCELLED, EXIT_OF_STATUS, FAILED, INTERRUPTED, told
from maestro_lsp.cli.find import configure, folder, opened
from maestro_lsp.cli.keyboard import Keyboard
from maestro_lsp.cli.run_view import Event, JsonView, TextView, View
from maestro_lsp.cli.terminal import Terminal, clean
from maestro_lsp.cli.work import hosted

MODE_CHOICES = ("plan", "ask", "edits", "all")


def _add(parser: Parser) -> None:
    parser.workspace()
    parser.option("--piece", metavar="NAME|FILE", default=None, help="piece")
    parser.option("--endpoint", metavar="URL", default=None, help="endpoint")
    parser.option("--model", default=None, help="model")
    parser.option("--mode", choices=MODE_CHOICES, default=None, help="mode")
    parser.option("--trust", action="store_true", help="trust")
    parser.json()
    parser.option("instruction", help="instruction")


def _run(args: Namespace, terminal: Terminal) -> int:
    if not args.json:
        return asyncio.run(_session(args, terminal))
    try:
        return asyncio.run(_session(args, terminal))
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        terminal.json({"kind": "end", "status": None, "exit": INTERRUPTED, "result": None})
        raise
    except Exception as error:
        _end_of_mistake(error, terminal)
        raise


def _end_of_mistake(error: Exception, terminal: Terminal) -> None:
    sentence, status = told(error, terminal.language)
    terminal.json({"kind": "end", "status": None, "exit": status, "result": None, "error": sentence})


def _mistaken(error: BadArgument, arguments: list[str], terminal: Terminal) -> None:
    """The last line of ``--json`` also where the other arguments are wrong."""
    if "--json" in arguments:
        _end_of_mistake(error, terminal)


async def _session(args: Namespace, terminal: Terminal) -> int:
    workspace = folder(args.workspace)
    refuse_workspace(workspace, state_dir())
    overrides = {"llm.endpoint": args.endpoint, "llm.model": args.model, "mode": args.mode}
    overrides["trusted"] = True if args.trust else None
    async with opened(workspace) as client:
        terminal.warn(await configure(client, overrides))
        client.check_configured()
        for worker in client.config.model_workers:
            check_settings(worker.llm)
        run = Run(client, terminal, JsonView(terminal) if args.json else TextView(terminal))
        named = args.model if client.config.workers else None
        return await run.start(_instruction(args.instruction), args.piece, named)


def _instruction(given: str) -> str:
    """The instruction; ``-`` is what comes on stdin."""
    return sys.stdin.read() if given == "-" else given


@dataclass(slots=True)
class Run:
    """One task from its start to the end of the command."""

    client: Client
    terminal: Terminal
    view: View
    job_id: str = ""
    status: str = JobStatus.QUEUED
    news: asyncio.Event = field(default_factory=asyncio.Event)
    settled: set[str] = field(default_factory=set)
    cancelling: bool = False
    leaving: bool = False

    async def start(self, instruction: str, piece: str | None, model: str | None = None) -> int:
        """Submit the task, work on it, follow it. The exit status."""
        since = await self.client.db(self.client.store.last_event_id)
        task_id, self.job_id = await self.client.start(StartOrder(instruction, piece=piece, model=model))
        if isinstance(self.view, TextView):
            await self._say_what_starts(task_id, piece, model)
        restore = self._catch_signals()
        try:
            async with hosted(self.client, self._live, self.job_id) as service:
                following = asyncio.create_task(self.client.follow(self._events, after=since))
                try:
                    await self._watch(following, service)
                finally:
                    following.cancel()
                    with suppress(asyncio.CancelledError):
                        await following
        finally:
            restore()
        return await self._end()

    async def _say_what_starts(self, task_id: str, piece: str | None, model: str | None) -> None:
        config = self.client.config
        summary = await self.client.summary(self.job_id)
        if piece is None and not config.piece:
            self.terminal.say("cli.run.no_piece")
        values = {"job": self.job_id, "piece": summary.piece or "–", "mode": config.mode}
        llm = self.client.worker_for(model).llm
        values |= {"model": clean(llm.model) or "–", "endpoint": clean(llm.endpoint)}
        self.terminal.line(self.terminal.styled(self.terminal.text("cli.run.head", **values), "dim"))
        if not await self.client.trusted():
            self.terminal.say("cli.run.untrusted")

    # -- what happens

    async def _events(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            if event["kind"] == "decision":
                self.settled.add(event["requestId"])
            if event["jobId"] == self.job_id:
                self._own(event)
        self.news.set()

    def _own(self, event: Event) -> None:
        self.view.event(event)
        if event["kind"] == "status":
            self.status = event["to"]

    def _live(self, job_id: str, kind: str, body: dict[str, Any]) -> None:
        if job_id == self.job_id:
            self.view.live(job_id, kind, body)

    # -- until it rests

    async def _watch(self, *background: asyncio.Task[None]) -> None:
        """Return when the job has ended, is parked with nobody to ask, or the person leaves.

        Raises what ended the engine or the following of its events.
        """
        watching = asyncio.create_task(self._until_rest(Keyboard()))
        try:
            await asyncio.wait({watching, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in (watching, *background):
                if task.done():
                    task.result()
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _until_rest(self, keyboard: Keyboard) -> None:
        while self.status not in ENDED and not self.leaving:
            self.news.clear()
            request = await self._open_request()
            if request is None:
                await self.news.wait()
            elif not self._can_ask():
                return
            else:
                await self._ask(request, keyboard)

    def _can_ask(self) -> bool:
        return self.terminal.interactive and isinstance(self.view, TextView)

    async def _open_request(self) -> Request | None:
        """What is asked now, of the job or of a child, if the job waits for it."""
        if self.status not in (JobStatus.WAITING_HUMAN, JobStatus.WAITING_SUBTASKS):
            return None
        for request_id in (await self.client.summary(self.job_id)).open_requests:
            if request_id not in self.settled:
                request = await self.client.request(request_id)
                if request.settled is None:
                    return request
        return None

    async def _ask(self, request: Request, keyboard: Keyboard) -> None:
        """Ask at the prompt, until the person answers or somebody else did."""
        keyboard.forget()
        asking = asyncio.create_task(ask(request, self.terminal, self.client.workspace, keyboard.line))
        elsewhere = asyncio.create_task(self._settled_elsewhere(request.request_id))
        await asyncio.wait({asking, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
        for task in (asking, elsewhere):
            task.cancel()
        if not asking.done() or asking.cancelled():
            self.terminal.line()
            return
        reply = asking.result()
        if reply is None:
            self.terminal.line()
            self.leaving = True
            return
        try:
            if isinstance(reply, Answer):
                await self.client.answer(request.job_id, reply.text, request.request_id)
            else:
                await self.client.decide(
                    request.request_id, reply.decision, scope=reply.scope, note=reply.note
                )
            self.settled.add(request.request_id)
        except (AlreadySettled, IllegalMove) as late:
            self.settled.add(request.request_id)
            self.terminal.line(explain(late, self.terminal.language))

    async def _settled_elsewhere(self, request_id: str) -> None:
        while request_id not in self.settled and self.status not in ENDED and not self.leaving:
            self.news.clear()
            await self.news.wait()

    # -- the person leaves

    def _catch_signals(self) -> Callable[[], None]:
        """Ctrl-C cancels the job, a second one leaves; a signal to end leaves at once."""
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        def ended() -> None:
            self.leaving = True
            self.news.set()

        def interrupted() -> None:
            if self.cancelling:
                ended()
            else:
                self.cancelling = True
                tasks.add(asyncio.create_task(self._cancel()))

        before = {}
        for name, act in (("SIGINT", interrupted), ("SIGTERM", ended), ("SIGHUP", ended)):
            if (number := getattr(signal, name, None)) is not None:
                before[number] = signal.signal(number, lambda *_, act=act: loop.call_soon_threadsafe(act))

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        return restore

    async def _cancel(self) -> None:
        if isinstance(self.view, TextView):
            self.view.end_line()
            self.terminal.say("cli.run.cancelling")
        with suppress(IllegalMove):
            await self.client.cancel(self.job_id)

    # -- the end

    async def _end(self) -> int:
        detail = await self.client.show(self.job_id)
        status = self.status if self.status in ENDED else detail.status
        left = status not in ENDED and status not in (JobStatus.WAITING_HUMAN, JobStatus.WAITING_SUBTASKS)
        code = (CANCELLED if self.cancelling else FAILED) if left else EXIT_OF_STATUS[status]
        if isinstance(self.view, JsonView):
            self.terminal.json(self._last_line(detail, status, code))
        else:
            await self._last_words(detail, status, left)
        if code == FAILED and not left:
            self.terminal.mistake(self._failure(detail))
        return code

    def _last_line(self, detail: JobDetail, status: str, code: int) -> dict[str, Any]:
        end: dict[str, Any] = {"kind": "end", "status": status, "exit": code, "result": detail.result}
        end |= {"jobId": detail.job_id, "taskId": detail.task_id, "piece": detail.piece}
        if detail.reason:
            end["reason"] = detail.reason
        if detail.open_requests:
            end["openRequests"] = detail.open_requests
        return end

    async def _last_words(self, detail: JobDetail, status: str, left: bool) -> None:
        terminal = self.terminal
        if isinstance(self.view, TextView):
            self.view.end_line()
        if left:
            key = "cli.run.left_cancelling" if self.cancelling else "cli.run.left"
            terminal.say(key, job=detail.job_id)
        elif status in ENDED:
            await self._result(detail)
        else:
            self._how_to_answer(detail, [r for r in detail.requests if r.settled is None])

    async def _result(self, detail: JobDetail) -> None:
        terminal = self.terminal
        terminal.line()
        if detail.result and detail.status not in ("failed",):
            terminal.line(clean(detail.result))
        changed = await self.client.changes(self.job_id)
        for file in changed:
            terminal.line(terminal.styled(f"  {file.status[0].upper()} {clean(file.path)}", "dim"))
        usage = detail.usage
        values = {"calls": usage.calls, "prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
        key = "cli.usage" if usage.reused_pct is None else "cli.usage_cached"
        status = terminal.text(f"cli.status.{detail.status}")
        status += f" ({terminal.text('cli.run.forced')})" if detail.forced else ""
        terminal.line(
            terminal.styled(f"{status} · {terminal.text(key, pct=usage.reused_pct, **values)}", "dim")
        )

    def _how_to_answer(self, detail: JobDetail, requests: list[Request]) -> None:
        terminal = self.terminal
        for request in requests:
            if not self._can_ask():
                show_request(request, terminal, self.client.workspace)
            terminal.say("cli.run.answer_with", command=command_to_settle(request, terminal))
        terminal.say("cli.run.then_work", folder=shlex.quote(str(self.client.workspace)))

    def _failure(self, detail: JobDetail) -> str:
        """Why a job did not succeed, as one sentence."""
        if detail.reason in ("provider_error", "context_exhausted") and detail.result:
            return detail.result
        reason = detail.reason or ""
        try:
            return self.terminal.text(f"reason.{reason}")
        except KeyError:
            return detail.result or self.terminal.text("reason.internal_error")


VERBS = {"run": Verb(_run, _add, _mistaken)}
