"""Is a model server there, and does it know us and our model? For `doctor` and for lists of models."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from engine.config import ModelSettings
from engine.core.errors import ModelFault
from engine.llm.faults import HttpError, http_fault, shown_endpoint
from engine.llm.network import network_fault, tls_context
from engine.llm.openai import OpenAIModel
from engine.llm.probe import model_ids
from engine.llm.worker_config import ModelWorker

_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What a model server says of itself: the ids of its models, and its limits where it tells them."""

    endpoint: str
    models: tuple[str, ...]
    context_tokens: int | None
    slots: int | None


async def check_model(settings: ModelSettings, *, timeout_s: float = 5.0) -> ModelReport:
    """Ask a server for its models, without using one.

    Raises ``NotConfigured`` for settings that cannot be used and ``ModelFault`` for a server that is not
    reached, refuses the key, is no model server, or lists models without the configured one.
    """
    worker = _worker(settings, timeout_s)
    model = OpenAIModel(worker)
    try:
        found = await _models(worker, model, timeout_s)
        if (
            settings.model
            and found
            and settings.model not in found
            and f"{settings.model}:latest" not in found
        ):
            values: dict[str, Any] = {
                "endpoint": shown_endpoint(worker),
                "model": settings.model,
                "known": ", ".join(found[:20]),
            }
            raise ModelFault("model.unknown_model", data={"known": list(found[:100])}, **values)
        return ModelReport(model.endpoint.base, found, await model.context_limit(), await model.slots())
    finally:
        await model.aclose()


def check_settings(settings: ModelSettings) -> None:
    """Raise ``NotConfigured`` if endpoint, key, headers or extra body cannot be used; nothing is asked."""
    _worker(settings, 1.0)


def _worker(settings: ModelSettings, timeout_s: float) -> ModelWorker:
    return ModelWorker(
        id="check",
        endpoint=settings.endpoint,
        model=settings.model,
        api_key=settings.api_key,
        timeout_s=timeout_s,
        headers=settings.headers,
        extra_body=settings.extra_body,
    )


async def _models(worker: ModelWorker, model: OpenAIModel, timeout_s: float) -> tuple[str, ...]:
    """The ids in ``/models``; a server without that list (404, 405, 501) lists none."""
    import httpx

    key = {"authorization": f"Bearer {worker.api_key}"} if worker.api_key else {}
    endpoint = model.endpoint
    try:
        async with (
            asyncio.timeout(timeout_s),
            httpx.AsyncClient(
                headers={"user-agent": "maestro-lsp", **key, **worker.headers},
                timeout=timeout_s,
                verify=tls_context() if endpoint.tls else False,
                trust_env=False,
                follow_redirects=False,
            ) as client,
            client.stream("GET", endpoint.base + "/models") as response,
        ):
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _BYTES:
                    raise ModelFault(
                        "model.too_large", endpoint=shown_endpoint(worker), limit=_BYTES // 1024 // 1024
                    )
    except httpx.HTTPError as error:
        raise network_fault(worker, endpoint, error) from None
    except TimeoutError:
        values: dict[str, Any] = {"endpoint": shown_endpoint(worker), "seconds": round(timeout_s)}
        raise ModelFault("model.timeout", retryable=True, **values) from None
    if response.status_code in (404, 405, 501):
        return ()
    if response.status_code != 200:
        raise http_fault(worker, HttpError(response.status_code, bytes(body)))
    try:
        return model_ids(json.loads(body))
    except (ValueError, RecursionError):
        raise ModelFault("model.garbage", endpoint=shown_endpoint(worker)) from None
