"""May this call be made now? The piece was asked before (``toolbox``); here the person's policy, and the
person, are.

An approval is bound to the digest of exactly what was shown: tool, arguments, the file's bytes before, the
sandbox level. It is used by that
very call, at most once. Everything that is not an "allow" leaves the call undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from engine.core.outcome import WAITING_HUMAN_APPROVAL
from engine.core.policy import (
    Choice,
    Level,
    Mode,
    Question,
    Scope,
    Stance,
    StoredRule,
    Verdict,
    Why,
    decide,
    rule_from_json,
    rule_text,
    rule_to_json,
)
from engine.core.records import NewRequest, Step
from engine.core.tooling import Effect, Prepared
from engine.core.truncate import cut
from engine.core.turn import digest
from engine.kit import JobRun
from engine.toolbox import Ready, permissions_of


@dataclass(frozen=True, slots=True)
class Consent:
    """What became of a call: go on, do not, or ask. ``request_id`` is the approval it spends; ``text`` and
    ``brief`` (as key and values too) tell a denial.
    """

    verdict: Literal["allow", "deny", "ask"]
    text: str = ""
    brief: str = ""
    brief_key: str = ""
    brief_values: Mapping[str, str] = field(default_factory=dict)
    request_id: str | None = None
    network: bool = False
    policy: Verdict | None = None
    sentinel: str = WAITING_HUMAN_APPROVAL


async def consent_to(run: JobRun, item: Ready, prepared: Prepared, step: Step | None) -> Consent:
    """Ask the policy, then look for the person's decision on exactly this call.

    ``step`` is the call's own earlier intent, if it was interrupted before it did anything: then the approval
    it had spent still holds.
    """
    kit = run.kit
    if item.spec.effect is Effect.CONTROL and item.spec.always:
        return Consent("allow")
    mode, rules = await kit.db(kit.store.stance, run.job.job_id, run.job.task_id)
    verdict = decide(question_of(run, item, prepared), _stance(run, mode, rules))
    match verdict.decision:
        case Choice.ALLOW:
            return Consent("allow", policy=verdict)
        case Choice.DENY:
            return _denied(run, verdict.why)
        case Choice.ASK if prepared.granted is not None:
            return await _granted(run, prepared.granted, verdict, step)
        case Choice.ASK:
            return await _person(run, item, prepared, verdict, step)
    assert_never(verdict.decision)


def _denied(run: JobRun, why: Why) -> Consent:
    text = run.kit.messages(run.texts.language)(why.key, **why.values)
    told = run.texts("result.denied", why=text.rstrip(" .。"))
    return Consent("deny", told, f"denied: {text}", why.key, dict(why.values))


async def _granted(run: JobRun, request_id: str, verdict: Verdict, step: Step | None) -> Consent:
    """A call that the person allowed in a request of its own (``RequestPackage``): once, with network."""
    if run.kit.config.sandbox == "require" and run.kit.commands.level != Level.A:
        return _denied(run, Why("policy.sandbox_required"))
    row = await run.kit.db(run.kit.store.settled_request, request_id)
    spent_here = step is not None and step.intent.request_id == request_id
    if row is None or row.decision != "allow" or (row.used and not spent_here):
        return Consent("deny", run.texts("result.declined"), "not allowed, or used up", "brief.used_up")
    return Consent("allow", request_id=request_id, network=True, policy=verdict)


async def _person(
    run: JobRun, item: Ready, prepared: Prepared, verdict: Verdict, step: Step | None
) -> Consent:
    row = await run.kit.db(run.kit.store.approval_of_call, run.job.job_id, item.call.call_id)
    if row is None or row.decision is None or row.decision == "withdrawn":
        return Consent("ask", policy=verdict)
    if row.decision == "deny":
        text = run.texts("result.declined_note", note=row.note) if row.note else run.texts("result.declined")
        return Consent("deny", text, "declined by the person", "brief.declined")
    spent_here = step is not None and step.intent.request_id == row.request_id
    if row.digest != digest_of(run, item, prepared) or (row.used and not spent_here):
        return Consent("ask", policy=verdict)
    return Consent("allow", request_id=row.request_id, network=row.network, policy=verdict)


def question_of(run: JobRun, item: Ready, prepared: Prepared) -> Question:
    """A prepared call as policy sees it."""
    return Question(
        tool=item.spec.name,
        effect=item.spec.effect,
        paths=prepared.paths,
        command=prepared.command,
        network=prepared.network,
        origin=prepared.origin,
        task_id=run.job.task_id,
    )


def _stance(run: JobRun, mode: str, rules: list[tuple[str, str, str]]) -> Stance:
    kit = run.kit
    stored = [
        StoredRule(draft, Scope(scope), rule_id)
        for rule_id, scope, text in rules
        if (draft := rule_from_json(text)) is not None
    ]
    return Stance(
        permissions=permissions_of(run.here, run.granted),
        mode=Mode(mode),
        level=Level(kit.commands.level),
        trusted=kit.trusted,
        sandbox_off=kit.config.sandbox == "off",
        sandbox_required=kit.config.sandbox == "require",
        rules=tuple(stored),
        deny=kit.config.deny,
    )


def digest_of(run: JobRun, item: Ready, prepared: Prepared) -> str:
    """What an approval is bound to: a changed argument, file or sandbox level is another call."""
    return digest(
        [
            item.spec.name,
            dict(item.call.arguments or {}),
            prepared.pre_hash,
            prepared.post_hash,
            [path for path, _ in prepared.paths],
            run.kit.commands.level,
        ]
    )


def open_approval(run: JobRun, item: Ready, prepared: Prepared, consent: Consent) -> NewRequest:
    """The request that shows a person exactly what would happen and why it is asked."""
    verdict = consent.policy
    assert verdict is not None
    redact = run.kit.redact
    shown: dict[str, object] = {
        "title": redact(prepared.title),
        "detail": redact(prepared.detail),
        "tool": item.spec.name,
        "arguments": masked(dict(item.call.arguments or {}), redact),
        "movement": run.movement,
        "piece": run.piece.name,
        **titled(prepared, redact),
        **_told(run, verdict.why),
    }
    if prepared.diffs:
        shown["diff"] = [
            {
                "uri": (run.kit.workspace / diff.path).as_uri(),
                "before": None if diff.before is None else run.kit.mask(diff.before),
                "after": run.kit.mask(diff.after),
            }
            for diff in prepared.diffs
        ]
    if verdict.rule is not None:
        text = rule_text(verdict.rule)
        shown |= rule_shown(run, rule_to_json(verdict.rule), text.key, text.values)
    return NewRequest(
        request_id=run.kit.new_id("r"),
        reason="approval",
        key=f"approval:{item.call.call_id}:{run.kit.new_id('k')}",
        shown=shown,
        digest=digest_of(run, item, prepared),
        call_id=item.call.call_id,
    )


def rule_shown(
    run: JobRun, draft: Mapping[str, object], key: str, values: Mapping[str, str]
) -> dict[str, object]:
    """What "always" would store, as a request shows it: the draft, and its text in English and by key."""
    return {
        "ruleDraft": dict(draft),
        "rule": run.kit.messages("en")(key, **values),
        "ruleKey": key,
        "ruleValues": dict(values),
    }


def titled(prepared: Prepared, redact: Callable[[str], str]) -> dict[str, object]:
    """The title of a call as key and values, where it has them."""
    if not prepared.title_key:
        return {}
    values = {name: redact(value) for name, value in prepared.title_values.items()}
    return {"titleKey": prepared.title_key, "titleValues": values}


def masked(value: object, redact: Callable[[str], str], longest: int | None = None) -> object:
    """Arguments for display: secrets masked, texts cut after ``longest`` characters (the message holds the
    whole).
    """
    match value:
        case str():
            return redact(value) if longest is None else cut(redact(value), longest)
        case dict():
            return {key: masked(child, redact, longest) for key, child in value.items()}
        case list():
            return [masked(child, redact, longest) for child in value]
        case _:
            return value


def _told(run: JobRun, why: Why) -> dict[str, object]:
    """The policy's reason in English, and as key and values so that each client can be told in its
    language.
    """
    return {
        "why": run.kit.messages("en")(why.key, **why.values),
        "whyKey": why.key,
        "whyValues": dict(why.values),
    }
