"""What a person may configure, as one typed value with its defaults. The numbers live in
``engine.core.limits``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.budget import Budget, Price
from engine.core.limits import Classifier, ContextLimits, Leases, Safety, Snapshots
from engine.core.model_choice import MAIN, Card

MODES = ("plan", "ask", "edits", "all")
LANGUAGES = ("auto", "ja", "en")
SANDBOX = ("require", "auto", "off")
DEFAULT_WORKER = "default"
"""The id of the worker that ``llm.endpoint`` makes."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model server is reached. ``api_key`` is never shown, logged or stored.

    Where the attempts of one request were all refused for too many requests, the job goes back to the queue:
    for what the server says, else ``requeue_s`` seconds, twice that the next time and so on, never more than
    ``requeue_cap_s``; after ``max_requeues`` times in a row it fails (engine.md §7) [ours: numbers].
    ``price`` is what a cost budget counts with.
    """

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
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    extra_body: dict[str, object] = field(default_factory=dict)
    requeue_s: float = 30.0
    requeue_cap_s: float = 3_600.0
    max_requeues: int = 10
    price: Price | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be seen nowhere: the key, and what headers hold (with and without a scheme)."""
        values = [form for value in self.headers.values() for form in (value, value.rpartition(" ")[2])]
        return tuple(value for value in (self.api_key, *values) if value)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """A named model worker: a model server with its roles (``main``, ``subtask``, ``classifier``; without one
    it serves only those who name it), the jobs it takes at a time (None: as many as its server has slots),
    and whether it sees images.
    """

    id: str
    llm: ModelSettings
    roles: tuple[str, ...] = ()
    max_concurrency: int | None = None
    vlm: bool = False
    enabled: bool = True

    @property
    def card(self) -> Card:
        """What is needed of it to choose."""
        return Card(self.id, self.llm.model, self.roles)


@dataclass(frozen=True, slots=True)
class ModelSeat:
    """The worker of a job, and the model to name in its requests (None: the worker's own)."""

    worker: str
    model: str | None
    llm: ModelSettings


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
    snapshots: Snapshots = field(default_factory=Snapshots)
    classifier: Classifier = field(default_factory=Classifier)
    workers: tuple[WorkerSettings, ...] = ()
    budget: Budget = field(default_factory=Budget)

    @property
    def model_workers(self) -> tuple[WorkerSettings, ...]:
        """The workers in use: the one of ``llm.endpoint`` (``default``, for all jobs that name no other) if
        it is set, then those that are listed and enabled. A listed ``default`` stands in its place.
        """
        listed = tuple(worker for worker in self.workers if worker.enabled)
        taken = any(worker.id == DEFAULT_WORKER for worker in self.workers)
        if taken or not self.llm.endpoint.strip():
            return listed
        return (WorkerSettings(DEFAULT_WORKER, self.llm, (MAIN,)), *listed)

    @property
    def cards(self) -> tuple[Card, ...]:
        """``model_workers`` as far as choosing needs them."""
        return tuple(worker.card for worker in self.model_workers)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be seen nowhere, of all workers, the disabled ones too."""
        every = (self.llm, *(worker.llm for worker in self.workers))
        return tuple(dict.fromkeys(secret for llm in every for secret in llm.secrets))
