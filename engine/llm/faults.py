"""What went wrong with a model server, as one clear ``ModelFault``. Pure: texts of errors come in masked and
trimmed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.errors import ContextOverflow, ModelFault
from engine.core.messages import heal
from engine.core.secrets import redact
from engine.core.truncate import cut
from engine.llm.overflow import overflow_in
from engine.llm.worker_config import ModelWorker

AT_ONCE = frozenset({"model.refused", "model.unknown_host"})
"""Faults that are not retried on the first request of a run: then the settings are wrong, not the moment."""
_LONGEST_DETAIL = 300
_OVERFLOW_STATUS = frozenset({400, 413, 422, 500})
_UNKNOWN_MODEL = re.compile(
    r"(?i)model_not_found|\bmodel\b[^.\n]{0,120}\b(?:not found|(?:does )?not exist|is not a valid|unknown)"
    r"|(?:not found|no such|unknown|invalid)[^.\n]{0,20}\bmodel\b|is not a valid model"
)
_URL_SECRETS = re.compile(r"(?<=//)[^/@]*@|[?#].*|[\x00-\x20]")
_NO_CREDIT = re.compile(
    r"(?i)insufficient_quota|insufficient (?:balance|credit)|exceeded your current quota|billing"
)
_LOADING = re.compile(r"(?i)loading model|model is loading|unavailable_error")


@dataclass(frozen=True, slots=True)
class HttpError:
    """An answer that is no success. ``body`` may be cut."""

    status: int
    body: bytes
    retry_after: float | None = None
    location: str = ""

    @property
    def texts(self) -> str:
        """What the server says about the error, without whatever it echoes of the request."""
        return "\n".join(error_texts(self.body))


def http_fault(worker: ModelWorker, error: HttpError, known_models: Sequence[str] = ()) -> ModelFault:
    """The fault of an HTTP error. ``known_models`` are the models that the server lists, for a 404."""
    status, texts = error.status, error.texts
    if status in _OVERFLOW_STATUS and (overflow := overflow_in(error.body, texts)) is not None:
        return ContextOverflow(limit=overflow.limit, detail=detail_of(worker, texts))
    detail = detail_of(worker, texts) or f"HTTP {status}"
    values: dict[str, Any] = {"endpoint": shown_endpoint(worker), "detail": detail, "status": status}
    data: dict[str, object] = {"status": status}
    if error.retry_after is not None:
        data["retryAfter"] = error.retry_after
    if is_unknown_model(worker, error, known_models):
        values |= {"model": worker.model, "known": ", ".join(known_models[:20]) or "–"}
        data["known"] = list(known_models[:100])
        return ModelFault("model.unknown_model", data=data, **values)
    key = _key_of(worker, status, texts)
    if key == "model.redirect":
        values["location"] = _URL_SECRETS.sub("", error.location)[:200] or "–"
    retryable = status in worker.retryable_status and key != "model.no_credit"
    return ModelFault(key, retryable=retryable, data=data, **values)


def _key_of(worker: ModelWorker, status: int, texts: str) -> str:
    match status:
        case 401:
            return "model.bad_key" if worker.api_key else "model.key_missing"
        case 402:
            return "model.no_credit"
        case 429:
            return "model.no_credit" if _NO_CREDIT.search(texts) else "model.rate_limited"
        case 403:
            return "model.forbidden"
        case 404:
            return "model.not_found"
        case _ if 300 <= status < 400:
            return "model.redirect"
        case 503 if _LOADING.search(texts):
            return "model.loading"
        case _:
            return (
                "model.server_error"
                if status >= 500 or status in worker.retryable_status
                else "model.bad_request"
            )


def is_unknown_model(worker: ModelWorker, error: HttpError, known_models: Sequence[str]) -> bool:
    """True if the server says so, or if it lists models and ours is not one of them."""
    if error.status not in (400, 404) or not worker.model:
        return False
    says_so = bool(_UNKNOWN_MODEL.search(error.texts))
    return says_so or (error.status == 404 and bool(known_models) and worker.model not in known_models)


def stream_fault(worker: ModelWorker, error: object) -> ModelFault:
    """The fault of an error that came inside a stream or in a body with status 200."""
    body = json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")
    texts = "\n".join(error_texts(body))
    overflow = overflow_in(body, texts)
    if overflow is not None:
        return ContextOverflow(limit=overflow.limit, detail=detail_of(worker, texts))
    code = error.get("code") if isinstance(error, Mapping) else None
    if isinstance(code, int) and 400 <= code < 600 and code not in worker.retryable_status:
        return http_fault(worker, HttpError(code, body))
    values: dict[str, Any] = {"endpoint": shown_endpoint(worker), "detail": detail_of(worker, texts) or "–"}
    return ModelFault("model.stream_error", retryable=True, **values)


def retry_wait(worker: ModelWorker, fault: ModelFault, failures: int, *, first_of_run: bool) -> float | None:
    """Seconds to wait before the next attempt after ``failures`` earlier ones; None if there is none.

    Specification §7: waits 2, 5, 15 s; ``Retry-After`` is honoured up to a cap.
    """
    if not fault.retryable or failures >= worker.retries or (first_of_run and fault.key in AT_ONCE):
        return None
    wait = worker.backoff_s[min(failures, len(worker.backoff_s) - 1)] if worker.backoff_s else 0.0
    asked = fault.data.get("retryAfter")
    return max(wait, min(asked, worker.retry_after_cap_s)) if isinstance(asked, int | float) else wait


def mentions(error: HttpError, parameter: str) -> bool:
    """True if a refusal names a parameter of the request."""
    return error.status in (400, 404, 422, 500, 501) and parameter in error.texts


def error_texts(body: bytes) -> Iterator[str]:
    """The parts of an error body that the server wrote itself: messages, types, codes, places."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        page = re.search(r"(?is)<title>(.*?)</title>", text)
        yield page[1].strip() if page else "" if text.lstrip().startswith("<") else text[:4000]
        return
    yield from _texts_in(value, depth=6)


def _texts_in(value: object, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    match value:
        case str():
            yield value[:4000]
        case list():
            for entry in value[:20]:
                yield from _texts_in(entry, depth - 1)
        case Mapping():
            for name in (
                "message",
                "msg",
                "error",
                "detail",
                "type",
                "code",
                "param",
                "loc",
                "metadata",
                "raw",
            ):
                yield from _texts_in(value.get(name), depth - 1)
        case _:
            return


def detail_of(worker: ModelWorker, texts: str) -> str:
    """The server's own words in one short line that holds no key, header or control character."""
    line = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", heal(texts.split("\n", 1)[0])).split())
    return cut(redact(line, worker.secrets), _LONGEST_DETAIL)


def shown_endpoint(worker: ModelWorker) -> str:
    """The endpoint as people may see it."""
    return worker.endpoint.strip()
