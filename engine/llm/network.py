"""What went wrong below HTTP, as one clear ``ModelFault``; and the certificates that are trusted."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import httpx

from engine.core.errors import ModelFault
from engine.endpoint import Endpoint
from engine.llm.faults import detail_of, shown_endpoint, stream_fault
from engine.llm.reader import MAX_BYTES, UnusableReply
from engine.llm.worker_config import ModelWorker

_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


def tls_context() -> ssl.SSLContext:
    """The system's certificates (``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` included) and those that come with
    httpx.
    """
    context = ssl.create_default_context()
    with contextlib.suppress(ImportError):  # httpx brings it today, and may not tomorrow
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def network_fault(worker: ModelWorker, endpoint: Endpoint, error: httpx.HTTPError) -> ModelFault:
    """The fault behind an exception of httpx: its causes are looked through for what the system said."""
    shown, chain = shown_endpoint(worker), list(_causes(error))
    for cause in chain:
        match cause:
            case ssl.SSLError():
                return _tls_fault(endpoint, shown, cause)
            case socket.gaierror():
                return ModelFault("model.unknown_host", retryable=True, host=endpoint.host, endpoint=shown)
            case ConnectionRefusedError():
                return ModelFault("model.refused", retryable=True, endpoint=shown)
            case _:
                continue
    detail = detail_of(worker, str(next((c for c in reversed(chain) if isinstance(c, OSError)), error)))
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            detail = detail or "no answer"
            return ModelFault(
                "model.unreachable", retryable=True, host=endpoint.host, endpoint=shown, detail=detail
            )
        case httpx.TimeoutException():
            return ModelFault(
                "model.timeout", retryable=True, endpoint=shown, seconds=round(worker.timeout_s)
            )
        case _:
            return ModelFault("model.connection_lost", retryable=True, endpoint=shown, detail=detail)


def unusable_fault(worker: ModelWorker, unusable: UnusableReply) -> ModelFault:
    """The fault of a body that is no reply."""
    shown = shown_endpoint(worker)
    match unusable.kind:
        case "error":
            return stream_fault(worker, unusable.error)
        case "too_large":
            return ModelFault("model.too_large", endpoint=shown, limit=MAX_BYTES // (1024 * 1024))
        case "page":
            return ModelFault("model.web_page", endpoint=shown)
        case "garbage":
            return ModelFault("model.garbage", retryable=True, endpoint=shown)
        case _:
            return ModelFault("model.stream_cut", retryable=True, endpoint=shown)


def _tls_fault(endpoint: Endpoint, shown: str, error: ssl.SSLError) -> ModelFault:
    if any(word in (error.reason or "") for word in _NOT_TLS):
        return ModelFault("model.not_tls", endpoint=shown, host=endpoint.host)
    if isinstance(error, ssl.SSLCertVerificationError):
        return ModelFault("model.tls", endpoint=shown, host=endpoint.host, detail=error.verify_message)
    return ModelFault(
        "model.tls", retryable=True, endpoint=shown, host=endpoint.host, detail=error.reason or str(error)
    )


def _causes(error: BaseException | None, depth: int = 10) -> Iterator[BaseException]:
    if error is None or depth == 0:
        return
    yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner, depth - 1)
    yield from _causes(error.__cause__ or error.__context__, depth - 1)
