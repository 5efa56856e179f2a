"""The model workers of an engine: one connection each, made when it is first needed, and the jobs that are at
work on them (engine.md §7).

What a server turned out to want or refuse is learnt per connection, so each worker has quirks of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from engine.config import EngineConfig, ModelSeat, WorkerSettings
from engine.core.errors import EngineError
from engine.core.jobs import Job
from engine.core.model_choice import (
    CLASSIFIER,
    Wish,
    candidates,
    model_sent,
    seat_for,
    unknown_model,
    workers_of_role,
)
from engine.llm.openai import OpenAIModel
from engine.llm.worker_config import ModelWorker

DEFAULT_JOBS = 4
"""Jobs at a time on a server that does not say how many it works on at once [ours]."""


class ModelPool:
    """Implements ``engine.ports.Models``. Used within one event loop; close it with ``aclose``.

    ``config.max_concurrency`` caps all workers together, and is the number of a worker that is alone and has
    none of its own.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._workers = {worker.id: worker for worker in config.model_workers}
        self._cards = config.cards
        self._listed = bool(config.workers)
        self._most = config.max_concurrency
        self._models: dict[str, OpenAIModel] = {}
        self._jobs: dict[str, int] = {
            worker.id: number
            for worker in self._workers.values()
            if (number := worker.max_concurrency or (self._most if len(self._workers) == 1 else None))
        }

    def seat(self, job: Job) -> ModelSeat:
        """The worker of a job and the model to name there. Raises ``NotConfigured`` if there is none."""
        wish = job.wish
        card = next(iter(candidates(self._cards, wish, listed=self._listed)), None)
        if card is None:
            raise unknown_model(self._cards, wish)
        return ModelSeat(card.id, model_sent(card, wish), self._workers[card.id].llm)

    def model(self, job: Job) -> OpenAIModel:
        """The connection for a job. Raises ``NotConfigured``."""
        return self._model(self.seat(job).worker)

    def classifier(self, job: Job) -> tuple[OpenAIModel, str | None]:
        """The connection that chooses a piece for a job, and the model to name there (None: its own): the
        worker of the role ``classifier``, else the job's own. Raises ``NotConfigured``.
        """
        if any(CLASSIFIER in card.roles for card in self._cards):
            return self._model(workers_of_role(self._cards, CLASSIFIER)[0].id), None
        seat = self.seat(job)
        return self._model(seat.worker), seat.model

    def _model(self, worker_id: str) -> OpenAIModel:
        if worker_id not in self._models:
            self._models[worker_id] = OpenAIModel(connection(self._workers[worker_id]))
        return self._models[worker_id]

    def full(self, wishes: Iterable[Wish], at_work: Iterable[str]) -> list[Wish]:
        """The wishes that must wait, because every worker that fits is full. ``at_work`` names the worker of
        each job that runs.
        """
        room = self._room(at_work)
        return [wish for wish in wishes if seat_for(self._cards, wish, room, listed=self._listed)[1]]

    def any_full(self, at_work: Iterable[str]) -> bool:
        """Whether any worker takes no more jobs."""
        return any(left <= 0 for left in self._room(at_work).values())

    def all_full(self, at_work: Iterable[str]) -> bool:
        """Whether no worker takes another job, or the cap on all is reached."""
        working = list(at_work)
        if self._most is not None and len(working) >= self._most:
            return True
        room = self._room(working)
        return bool(room) and all(left <= 0 for left in room.values())

    def place(self, job: Job, at_work: Iterable[str]) -> str | None:
        """The worker for a job that was just claimed; None if nobody offers what it names."""
        card, _ = seat_for(self._cards, job.wish, self._room(at_work), listed=self._listed)
        fitting = candidates(self._cards, job.wish, listed=self._listed)
        return card.id if card is not None else fitting[0].id if fitting else None

    async def learn_jobs(self, worker_id: str) -> None:
        """Find out, once, how many jobs a worker takes at a time: as configured, else as many as the server
        has slots, else 4.
        """
        if worker_id in self._jobs:
            return
        try:
            self._jobs[worker_id] = await self._model(worker_id).slots() or DEFAULT_JOBS
        except EngineError:
            self._jobs[worker_id] = 1

    def _room(self, at_work: Iterable[str]) -> dict[str, int]:
        """How many more jobs each worker takes; one until it is known."""
        busy = Counter(at_work)
        return {name: self._jobs.get(name, 1) - busy[name] for name in self._workers}

    async def aclose(self) -> None:
        """Close all connections."""
        for model in self._models.values():
            await model.aclose()


def connection(worker: WorkerSettings) -> ModelWorker:
    """How a worker's server is reached. Raises ``NotConfigured`` for settings that cannot be used."""
    settings = worker.llm
    return ModelWorker(
        id=worker.id,
        endpoint=settings.endpoint,
        model=settings.model,
        api_key=settings.api_key,
        timeout_s=settings.timeout_minutes * 60,
        retries=settings.max_attempts,
        backoff_s=tuple(ms / 1000 for ms in settings.backoff_ms),
        retryable_status=settings.retryable_status,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        context_tokens=settings.context_tokens,
        headers=settings.headers,
        extra_body=settings.extra_body,
    )
