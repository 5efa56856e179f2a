"""Runs the calls of one reply: in order, each answered exactly once, effects journalled before they happen.

A batch may be entered again: after an approval, or after a crash. Calls that already have their result are
left alone; a call whose intent is journalled without a result is settled by the file's hash where that can
tell, else reported to the model as unknown, and run again only if it merely reads. The call that ends the
movement keeps its place open: it is evaluated again if the process dies before the end is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.consent import Consent, consent_to, digest_of, masked, open_approval, rule_shown, titled
from engine.core.errors import EngineError, LeaseLost, StoreFault
from engine.core.hops import worked
from engine.core.messages import encode_tool_result
from engine.core.records import Event, Intent, Message, NewRequest, Step, StepResult, canonical
from engine.core.reply import ToolCall
from engine.core.tooling import LASTING, Effect, FileChange, Outcome, Prepared, Signal, ToolResult
from engine.core.truncate import first_characters
from engine.core.turn import heard
from engine.kit import JobRun, log, traced
from engine.ports import ToolContext
from engine.tool_context import tool_context
from engine.toolbox import Ready, Refused, check_call, control_only, within

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """The movement folds: the signal of the call that ended it, what the person is asked, and the messages
    that answer this batch.

    ``tail`` belongs to the conversation only if it goes on (it does not after a restart).
    """

    signal: Signal
    request: NewRequest | None
    tail: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's result with the events that tell it."""

    result: StepResult
    events: tuple[Event, ...]
    closes: bool = False
    heard: bool = False


class Batch:
    """One reply's calls. ``answered`` are the ids that already have their result in the conversation. With
    ``context_full`` only control calls are made: one that ends the movement is better than a forced hop.
    """

    def __init__(
        self,
        run: JobRun,
        calls: Sequence[ToolCall],
        answered: frozenset[str],
        *,
        context_full: bool = False,
    ) -> None:
        self.run = run
        self._sharing = 1
        granted = run.granted
        self.checked = [check_call(call, run.tools, run.here, run.texts, granted) for call in calls]
        if context_full:
            self.checked = [control_only(item, run.texts) for item in self.checked]
        self.answered = answered

    @property
    def all_unknown(self) -> bool:
        """True if every call names a tool that does not exist."""
        return all(isinstance(item, Refused) and item.unknown for item in self.checked)

    async def execute(self) -> Ended | None:
        """Run what is not answered yet. None if the movement goes on."""
        at = 0
        while at < len(self.checked):
            group = self._group(at)
            results: list[Answered] = []
            for place, outcome in zip(group, await self._together(group), strict=True):
                if isinstance(outcome, Ended):
                    await self._commit(results)
                    return self._with_tail(outcome, place)
                if outcome is not None:
                    results.append(outcome)
            at += len(group)
            if any(result.closes for result in results):
                if any(result.heard for result in results):
                    self.run.turn = heard(self.run.turn)
                results += self._not_run(at)
                at = len(self.checked)
            await self._commit(results)
        return None

    def _not_run(self, at: int) -> list[Answered]:
        """Answers to the calls behind a result that closes the reply, stored together with it."""
        text = self.run.texts("result.not_run_unread", tool=self.checked[at - 1].call.name)
        behind = [item.call for item in self.checked[at:] if item.call.call_id not in self.answered]
        return [self._refuse(call, text, f"{call.name} not run") for call in behind]

    def _group(self, start: int) -> list[int]:
        """Read-only neighbours may run at once; anything else runs alone."""
        end = start
        while end < len(self.checked) and self._reads(end):
            end += 1
        return list(range(start, max(end, start + 1)))

    def _reads(self, at: int) -> bool:
        item = self.checked[at]
        return isinstance(item, Ready) and item.spec.effect is Effect.READ

    async def _together(self, group: Sequence[int]) -> list[Answered | Ended | None]:
        self._sharing = len(group)
        if len(group) == 1:
            return [await self._one(group[0])]
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self._one(at)) for at in group]
        except BaseExceptionGroup as failed:
            # What ends a run is told apart by its type: a lost lease, a store that fails.
            raise failed.exceptions[0] from None
        return [task.result() for task in running]

    async def _commit(self, results: Sequence[Answered]) -> None:
        if results:
            await self.run.finish([r.result for r in results], [event for r in results for event in r.events])

    def _with_tail(self, ended: Ended, at: int) -> Ended:
        """Answer the ending call and what comes after it, for a conversation that goes on. A park leaves its
        call open.
        """
        if self.run.kit.table.is_sentinel(ended.signal.next):
            return ended
        first = self.checked[at].call
        tail = [encode_tool_result(first.call_id, ended.signal.text)]
        not_run = self.run.texts("result.not_run", tool=first.name)
        tail += [encode_tool_result(item.call.call_id, not_run) for item in self.checked[at + 1 :]]
        ids = [item.call.call_id for item in self.checked[at:]]
        messages = tuple(Message("tool", body, call_id) for call_id, body in zip(ids, tail, strict=True))
        return Ended(ended.signal, ended.request, messages)

    async def _one(self, at: int) -> Answered | Ended | None:
        item = self.checked[at]
        if item.call.call_id in self.answered:
            return None
        if isinstance(item, Refused):
            return self._refuse(item.call, item.text, item.brief)
        if (first := self._duplicate_of(at)) is not None:
            return self._refuse(
                item.call,
                self.run.texts("result.duplicate", number=first),
                "repeated call, run once",
                told=("brief.duplicate", {}),
            )
        step = await self.run.kit.db(self.run.kit.store.step, self.run.job.job_id, item.call.call_id)
        if step is not None and (known := await self._recover(item, step)) is not None:
            return known
        return await self._perform(item, step)

    def _duplicate_of(self, at: int) -> int | None:
        """The number, from 1, of an earlier identical call with effects in this reply, if there is one."""
        item = self.checked[at]
        if not isinstance(item, Ready) or item.spec.effect not in LASTING:
            return None
        for number, earlier in enumerate(self.checked[:at], 1):
            if isinstance(earlier, Ready) and earlier.spec is item.spec and earlier.args == item.args:
                return number
        return None

    async def _recover(self, item: Ready, step: Step) -> Answered | None:
        """Settle a call that was under way when its engine died; None if it may simply run."""
        intent = step.intent
        if item.spec.effect not in LASTING:
            return None
        texts = self.run.texts
        if intent.path is not None and intent.post_hash is not None:
            current = await asyncio.to_thread(
                self.run.kit.settle_file, self.run.job.task_id, intent.path, intent.call_id
            )
            if current == intent.post_hash:
                return self._answer(item.call, ToolResult(texts("result.happened"), brief=intent.path))
            if current == intent.pre_hash:
                return None
        text = texts("result.unknown_outcome")
        result = ToolResult(text, "outcome unknown", is_error=True, brief_key="brief.unknown_outcome")
        return self._answer(item.call, result)

    async def _perform(self, item: Ready, step: Step | None) -> Answered | Ended:
        ctx = tool_context(self.run, item.call.call_id, self._sharing)
        prepared = await self._guarded(item, item.spec.prepare(ctx, item.args))
        if not isinstance(prepared, Prepared):
            title = prepared.brief if isinstance(prepared, ToolResult) and prepared.brief else item.spec.name
            return self._close(item, prepared, called=_called(item, Prepared(title), self.run.kit.redact))
        consent = await consent_to(self.run, item, prepared, step)
        match consent.verdict:
            case "deny":
                called = _called(item, prepared, self.run.kit.redact)
                told = (consent.brief_key, consent.brief_values)
                return self._refuse(item.call, consent.text, consent.brief, called, told)
            case "ask":
                request = open_approval(self.run, item, prepared, consent)
                return Ended(Signal(consent.sentinel, wait_reason="approval"), request)
            case "allow":
                return await self._carry_out(item, ctx, prepared, consent)

    async def _carry_out(
        self, item: Ready, ctx: ToolContext, prepared: Prepared, consent: Consent
    ) -> Answered | Ended:
        run = self.run
        called = _called(item, prepared, run.kit.redact)
        lasting = item.spec.effect in LASTING
        if lasting:
            intent = self._intent(item, prepared, consent)
            before = await self._before(intent)
            await run.kit.db(run.kit.store.begin_step, run.lease, intent, run.now(), [called], before)
        ctx.network = consent.network
        commands = item.spec.effect is Effect.EXECUTE
        if commands:
            await run.kit.checkpoints.before(run.job.job_id)
        started = run.now()
        outcome: Prepared | Outcome = await self._guarded(item, item.spec.run(ctx, item.args, prepared))
        seconds = run.now() - started
        if commands:
            await run.kit.checkpoints.after(run.job.job_id)
        if isinstance(outcome, Prepared):
            raise TypeError(f"{item.spec.name} returned a plan instead of a result")
        if isinstance(outcome, ToolResult):
            outcome = within(outcome, ctx.budget, run.texts)
        if lasting and isinstance(outcome, ToolResult) and not outcome.is_error:
            run.counters = worked(run.counters)
        return self._close(item, outcome, seconds=seconds, called=None if lasting else called)

    async def _before(self, intent: Intent) -> list[FileChange]:
        """The file a write is about to change, as it was prepared for, with the hash it will have; and the
        folders it will make.
        """
        if intent.path is None:
            return []
        kit = self.run.kit
        found = await asyncio.to_thread(kit.file_before, self.run.job.task_id, intent.path)
        return [
            one if one.path != intent.path else replace(one, after_hash=intent.post_hash) for one in found
        ]

    def _intent(self, item: Ready, prepared: Prepared, consent: Consent) -> Intent:
        path = prepared.paths[0][0] if item.spec.effect is Effect.WRITE and prepared.paths else None
        return Intent(
            call_id=item.call.call_id,
            conversation=self.run.conversation,
            movement_seq=self.run.movement_seq,
            tool=item.spec.name,
            effect=item.spec.effect.value,
            arguments=self.run.kit.redact(canonical(dict(item.call.arguments or {}))),
            digest=digest_of(self.run, item, prepared),
            request_id=consent.request_id,
            path=path,
            pre_hash=prepared.pre_hash,
            post_hash=prepared.post_hash,
        )

    async def _guarded(self, item: Ready, work: Awaitable[T]) -> T | ToolResult:
        """Await a tool; what it raises becomes an error result, except what must end the run."""
        try:
            return await work
        except (LeaseLost, StoreFault):
            raise
        except EngineError as error:
            problem = self.run.kit.explain(error, self.run.texts.language)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            problem = self._told(item, error)  # the tool's own: nobody cancels this run
        except Exception as error:
            problem = self._told(item, error)
        text = self.run.texts("result.failed", tool=item.spec.name, problem=problem.rstrip(" .。"))
        return ToolResult(text, brief=f"{item.spec.name} failed", is_error=True)

    def _told(self, item: Ready, error: BaseException) -> str:
        log.error("tool %s failed: %s", item.spec.name, self.run.kit.redact(traced(error)))
        return f"{type(error).__name__}: {error}"

    def _close(
        self, item: Ready, outcome: Outcome, *, seconds: float = 0.0, called: Event | None = None
    ) -> Answered | Ended:
        if isinstance(outcome, ToolResult):
            return self._answer(item.call, outcome, seconds=seconds, called=called)
        return Ended(outcome, self._request(item, outcome))

    def _request(self, item: Ready, signal: Signal) -> NewRequest | None:
        if signal.request is None or signal.wait_reason is None:
            return None
        draft, redact = signal.request, self.run.kit.redact
        shown: dict[str, object] = {
            "title": redact(draft.title),
            "detail": redact(draft.detail),
            "whyKey": f"why.{signal.wait_reason}",
            "movement": self.run.movement,
            "piece": self.run.piece.name,
            "tool": item.spec.name,
        }
        if draft.title_key:
            values = {name: redact(value) for name, value in draft.title_values.items()}
            title = self.run.kit.messages(self.run.texts.language)(draft.title_key, **values)
            shown |= {"title": title, "titleKey": draft.title_key, "titleValues": values}
        if draft.options:
            shown["options"] = [redact(option) for option in draft.options]
        if draft.arguments:
            shown["arguments"] = masked(dict(draft.arguments), redact)
        if draft.rule is not None:
            shown |= rule_shown(self.run, draft.rule.draft, draft.rule.key, draft.rule.values)
        return NewRequest(
            request_id=self.run.kit.new_id("r"),
            reason=signal.wait_reason,
            key=draft.key,
            shown=shown,
            call_id=item.call.call_id,
            screen_key=draft.screen_key,
        )

    def _answer(
        self, call: ToolCall, result: ToolResult, *, seconds: float = 0.0, called: Event | None = None
    ) -> Answered:
        """A call's result as it is journalled, told and sent."""
        text = self.run.kit.redact(result.text)
        brief = self.run.kit.redact(result.brief or call.name)
        message = Message("tool", encode_tool_result(call.call_id, text), call.call_id)
        told: dict[str, object] = {
            "callId": call.call_id,
            "ok": not result.is_error,
            "brief": brief,
            "bytes": len(text.encode("utf-8", "replace")),
            "seconds": round(seconds, 3),
        }
        if result.truncated:
            told["truncated"] = True
        if result.brief_key:
            values = {name: self.run.kit.redact(value) for name, value in result.brief_values.items()}
            told |= {"briefKey": result.brief_key, "briefValues": values}
        events = (*([called] if called else []), Event("tool_result", told))
        done = StepResult(call.call_id, not result.is_error, brief, message, result.changes)
        return Answered(done, events, result.closes, result.heard)

    def _refuse(
        self,
        call: ToolCall,
        text: str,
        brief: str,
        called: Event | None = None,
        told: tuple[str, Mapping[str, str]] = ("", {}),
    ) -> Answered:
        """An error result for a call that did not run; the call itself is told too, so that a timeline is
        complete. ``told`` is the brief as key and values.
        """
        if called is None:
            title = self.run.kit.redact(brief)
            body = {
                "callId": call.call_id,
                "tool": first_characters(call.name, 80)[0],
                "arguments": {},
                "title": title,
            }
            called = Event("tool_call", body)
        key, values = told
        result = ToolResult(text, brief=brief, is_error=True, brief_key=key, brief_values=values)
        return self._answer(call, result, called=called)


def _called(item: Ready, prepared: Prepared, redact: Callable[[str], str]) -> Event:
    body: dict[str, object] = {
        "callId": item.call.call_id,
        "tool": item.spec.name,
        "arguments": masked(dict(item.call.arguments or {}), redact, 2_000),
        "title": redact(prepared.title),
        **titled(prepared, redact),
    }
    if prepared.paths:
        body["locations"] = [{"path": path} for path, _ in prepared.paths]
    return Event("tool_call", body)
