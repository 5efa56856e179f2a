"""What a person may configure, as one typed value with its defaults. The numbers live in
``engine.core.limits``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.limits import ContextLimits, Leases, Safety

MODES = ("plan", "ask", "edits", "all")
LANGUAGES = ("auto", "ja", "en")
SANDBOX = ("require", "auto", "off")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model server is reached. ``api_key`` is never shown, logged or stored."""

    endpoint: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    api_key_env: str = ""
    context_tokens: int | None = None
    timeout_minutes: float = 10.0
    max_attempts: int = 3
    backoff_ms: tuple[int, ...] = (2_000, 5_000, 15_000)
    retryable_status: tuple[int, ...] = (429, 500, 502, 503, 504)
    temperature: float | None = None
    max_tokens: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    extra_body: dict[str, object] = field(default_factory=dict)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be seen nowhere: the key, and what headers hold (with and without a scheme)."""
        values = [form for value in self.headers.values() for form in (value, value.rpartition(" ")[2])]
        return tuple(value for value in (self.api_key, *values) if value)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a person configured, merged. ``trusted`` None means: as stored for this workspace."""

    mode: str = "edits"
    language: str = "auto"
    piece: str | None = None
    pieces_dirs: tuple[str, ...] = ()
    max_concurrency: int | None = None
    sandbox: str = "auto"
    trusted: bool | None = None
    deny: tuple[str, ...] = ()
    llm: ModelSettings = field(default_factory=ModelSettings)
    safety: Safety = field(default_factory=Safety)
    context: ContextLimits = field(default_factory=ContextLimits)
    leases: Leases = field(default_factory=Leases)
