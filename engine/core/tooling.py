"""Tools as values: what a tool declares, what it is given, and what it may return.

The loop that runs tools knows no names. A tool returns a ``ToolResult`` (text for the model) or a ``Signal``
(the movement folds: a hop,
an end or a park). Adding a tool is one function with its arguments and description; adding a park is one
function and at most one row of
the settlement table.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from engine.core.outcome import Via


class Effect(StrEnum):
    """What a call does to the world; decides policy, journalling and what a crash means for it."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    CONTROL = "control"


LASTING = (Effect.WRITE, Effect.EXECUTE, Effect.NETWORK)
"""The effects that last: journalled before they happen, and never repeated unasked."""


class PathClass(StrEnum):
    """Where a path lies, as policy sees it."""

    WORKSPACE = "workspace"
    PROTECTED = "protected"
    SECRET = "secret"
    OUTSIDE = "outside"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A text file before and after; ``before`` is None for a new file. ``path`` is relative to the
    workspace.
    """

    path: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class FileChange:
    """A path a call changed, with what is needed to undo it. None stands for "did not exist".

    ``before_hash`` and ``after_hash`` are fingerprints (``engine.core.manifest``): of a file, the hash of
    its bytes, which are ``before`` or kept by their hash. ``why`` says why it cannot be put back, empty if it
    can.
    """

    path: str
    before: bytes | None
    after_hash: str | None
    before_mode: int | None = None
    before_hash: str | None = None
    after_mode: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a call is about to do, worked out before anybody is asked and before anything is done.

    ``granted`` is the settled request in which the person allowed exactly this already. ``title`` is one line
    for people in English; with ``title_key`` and ``title_values`` each client is told it in its language.
    ``pre_hash`` and ``post_hash`` are the hashes of the one file a write
    touches, before and after, by which
    recovery decides whether an interrupted call happened. ``state`` is handed back to the tool.
    """

    title: str
    paths: tuple[tuple[str, PathClass], ...] = ()
    command: str | None = None
    network: bool = False
    origin: str | None = None
    diffs: tuple[FileDiff, ...] = ()
    pre_hash: str | None = None
    post_hash: str | None = None
    detail: str = ""
    granted: str | None = None
    state: object = None
    title_key: str = ""
    title_values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model reads (``text``) and what a person reads (``brief``, in English; ``brief_key`` with
    ``brief_values`` is the same for each client's language). Errors say what was wrong and what would be
    right. A result that ``closes`` its reply is news: the calls behind it were made without it, so
    they are not run. ``heard`` is news from the person.
    """

    text: str
    brief: str = ""
    is_error: bool = False
    truncated: bool = False
    changes: tuple[FileChange, ...] = ()
    closes: bool = False
    heard: bool = False
    brief_key: str = ""
    brief_values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleOffer:
    """What "for this task" and "always" would store: the rule's JSON, and its text as key and values."""

    draft: Mapping[str, object]
    key: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RequestDraft:
    """A request to the person that a park opens.

    ``key`` identifies what is decided without free text (so that the same request in other words finds the
    decision); ``screen_key`` is shared by jobs that wait for one screen. The title is the model's own words
    (``title``), or ours (``title_key`` with ``title_values``), which each client is told in its language.
    ``arguments`` are kept with the decision: what was shown is what is done.
    """

    key: str
    title: str = ""
    detail: str = ""
    options: tuple[str, ...] = ()
    screen_key: str | None = None
    title_key: str = ""
    title_values: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, object] = field(default_factory=dict)
    rule: RuleOffer | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A control tool's answer: the movement ends with ``next`` (a movement name or a sentinel).

    ``wait_reason`` must be one the sentinel's row admits; ``request`` is what the person is asked; ``text``
    is the tool result kept in the
    history.
    """

    next: str
    via: Via = Via.TOOL
    wait_reason: str | None = None
    request: RequestDraft | None = None
    summary: str = ""
    lessons: str = ""
    result: str = ""
    reason: str = ""
    text: str = "ok"


@dataclass(frozen=True, slots=True)
class Decision:
    """A settled request as a tool sees it: ``decision`` is allow, deny or answered.

    ``arguments`` are those of its draft; ``movement`` is the one that asked. ``used`` says that an approval
    was spent, ``outcome`` what the call that spent it came to (empty: not known), ``made`` what it made, an
    id.
    """

    key: str
    decision: str
    scope: str = "once"
    text: str = ""
    note: str = ""
    request_id: str = ""
    movement: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)
    used: bool = False
    succeeded: bool = False
    outcome: str = ""
    made: str = ""


Outcome = ToolResult | Signal
Prepare = Callable[[Any, Any], Awaitable["Prepared | Outcome"]]
Run = Callable[[Any, Any, "Prepared"], Awaitable["Outcome"]]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool: its name and arguments as the model sees them, its effect, and its two functions.

    ``prepare(ctx, args)`` looks and returns what the call would do, or ends the call at once with an error
    result; ``run(ctx, args, prepared)`` does it. ``always`` marks tools that every movement permits,
    ``folds`` those whose call is made though the context is full, for it may end the movement.
    ``schema`` is the JSON Schema of the arguments.
    """

    name: str
    description: str
    arguments: type[msgspec.Struct]
    effect: Effect
    run: Run
    prepare: Prepare
    always: bool = False
    folds: bool = False
    schema: Mapping[str, object] = field(default_factory=dict)


def argument_schema(arguments: type[msgspec.Struct]) -> dict[str, object]:
    """The JSON Schema of a tool's arguments, flat and without titles, as strict servers want it."""
    schema = msgspec.json.schema(arguments)
    name = str(schema["$ref"]).rsplit("/", 1)[-1]
    plain: dict[str, object] = _plain(schema["$defs"][name], schema["$defs"])
    return plain


def _plain(node: Any, defs: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, defs) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(defs[str(node["$ref"]).rsplit("/", 1)[-1]], defs)
    if "anyOf" in node:
        variants = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(variants) == 1:
            rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
            return _plain({**variants[0], **rest}, defs)
    return {
        key: {name: _plain(child, defs) for name, child in value.items()}
        if key == "properties"
        else _plain(value, defs)
        for key, value in node.items()
        if key != "title" and not (key == "default" and value is None)
    }


def tools_bytes(specs: Sequence[ToolSpec]) -> bytes:
    """The ``tools`` array of a job: computed once, stored, and sent as these very bytes (the cache law of
    ``engine.md``).
    """
    array = [
        {
            "type": "function",
            "function": {"name": s.name, "description": s.description, "parameters": s.schema},
        }
        for s in specs
    ]
    return json.dumps(array, ensure_ascii=False, separators=(",", ":")).encode()
