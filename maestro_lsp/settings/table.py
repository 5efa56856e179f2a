"""Every setting in one table: its name, its type, its variables, and whether a workspace may set it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from enum import StrEnum

from engine import LANGUAGES, MODES, SANDBOX, ContextLimits, Leases, Safety
from maestro_lsp.settings.kinds import (
    ANYTHING,
    COUNT,
    HEADERS,
    MAPPING,
    NUMBER,
    POSITIVE,
    PRICE,
    SHARE,
    TEXT,
    TEXTS,
    TRUTH,
    WHOLE,
    WHOLES,
    WORKERS,
    Kind,
    choice,
)


class InWorkspace(StrEnum):
    """What a workspace file may do with a key."""

    REFUSED = "refused"
    FREE = "free"
    TIGHTER = "tighter"


@dataclass(frozen=True, slots=True)
class Key:
    """A setting. ``field`` is its path in ``EngineConfig``; None: known by name, but without effect yet."""

    name: str
    kind: Kind
    field: str | None
    variables: tuple[str, ...] = ()
    workspace: InWorkspace = InWorkspace.REFUSED


def _key(name: str, kind: Kind, path: str | None = "", workspace: InWorkspace = InWorkspace.REFUSED) -> Key:
    whole = "MAESTRO_" + name.upper().replace(".", "_")
    leaf = "MAESTRO_" + name.rpartition(".")[2].upper()
    short = name.startswith(("llm.", "safety."))
    return Key(name, kind, name if path == "" else path, (leaf, whole) if short else (whole,), workspace)


def _numbers(section: str, default: object) -> Iterator[Key]:
    """One key for each number of a value of ``engine.core.limits``."""
    for entry in fields(default):  # type: ignore[arg-type]
        value = getattr(default, entry.name)
        share = section == "context" and isinstance(value, float)
        yield _key(f"{section}.{entry.name}", SHARE if share else COUNT if isinstance(value, int) else NUMBER)


_FREE, _TIGHTER = InWorkspace.FREE, InWorkspace.TIGHTER
_TABLE = (
    _key("mode", choice(*MODES), workspace=_TIGHTER),
    _key("language", choice(*LANGUAGES), workspace=_FREE),
    _key("piece", TEXT, workspace=_FREE),
    _key("pieces_dirs", TEXTS),
    _key("max_concurrency", COUNT),
    _key("sandbox", choice(*SANDBOX)),
    _key("deny", TEXTS, workspace=_TIGHTER),
    _key("llm.endpoint", TEXT),
    _key("llm.model", TEXT),
    _key("llm.api_key_env", TEXT),
    _key("llm.context_tokens", COUNT, workspace=_FREE),
    _key("llm.timeout_minutes", NUMBER),
    _key("llm.retry.max_attempts", WHOLE, "llm.max_attempts"),
    _key("llm.retry.backoff_ms", WHOLES, "llm.backoff_ms"),
    _key("llm.retry.retryable_status", WHOLES, "llm.retryable_status"),
    _key("llm.retry.requeue_s", POSITIVE, "llm.requeue_s"),
    _key("llm.retry.requeue_cap_s", POSITIVE, "llm.requeue_cap_s"),
    _key("llm.retry.max_requeues", WHOLE, "llm.max_requeues"),
    _key("llm.temperature", NUMBER),
    _key("llm.max_tokens", COUNT),
    _key("llm.headers", HEADERS),
    _key("llm.extra_body", MAPPING),
    _key("llm.price", PRICE),
    _key("llm.workers", WORKERS, "workers"),
    *_numbers("safety", Safety()),
    *_numbers("context", ContextLimits()),
    *_numbers("leases", Leases()),
    _key("budget.tokens", COUNT, workspace=_TIGHTER),
    _key("budget.calls", COUNT, workspace=_TIGHTER),
    _key("budget.minutes", POSITIVE, workspace=_TIGHTER),
    _key("budget.cost", POSITIVE, workspace=_TIGHTER),
    _key("mcp.servers", ANYTHING, None),
)
KEYS: Mapping[str, Key] = {key.name: key for key in _TABLE}
"""Every key of ``interface.md`` ("Configuration"), and the numbers of ``engine.core.limits``."""

WORKER_KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        *(
            Key(name, kind, name)
            for name, kind in (("id", TEXT), ("roles", TEXTS), ("max_concurrency", COUNT))
        ),
        *(Key(name, TRUTH, name) for name in ("vlm", "enabled")),
        *(
            replace(key, name=key.name.removeprefix("llm."), field=key.field.removeprefix("llm."))
            for key in _TABLE
            if key.field is not None and key.field.startswith("llm.")
        ),
    )
}
"""Every key of an entry of ``llm.workers``: what ``llm`` has, and a worker's own."""

SECTIONS = frozenset(
    name.rsplit(".", depth)[0] for name in KEYS for depth in (1, 2) if name.count(".") >= depth
)
"""The names that hold other keys: only these are opened when a tree is read."""


def nearest_key(name: str) -> str | None:
    """The key that ``name`` was probably meant to be: compared whole, then by its last part."""
    sections = [*KEYS, *SECTIONS]
    if near := get_close_matches(name, sections, n=1, cutoff=0.6):
        return near[0]
    leaves = {name.rpartition(".")[2]: name for name in reversed(list(KEYS))}
    found = get_close_matches(name.rpartition(".")[2], leaves, n=1, cutoff=0.75)
    return leaves[found[0]] if found else None
