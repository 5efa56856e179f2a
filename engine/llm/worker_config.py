"""How one model server is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.errors import NotConfigured
from engine.endpoint import parse_endpoint

RESERVED = frozenset({"model", "messages", "tools", "tool_choice", "stream"})
"""What ``extra_body`` may not hold: the request is built from them."""


@dataclass(frozen=True, slots=True)
class ModelWorker:
    """One configured model server. Key and headers are never in its ``repr``.

    ``timeout_s`` is the longest silence: any byte, a keep-alive too, starts it anew; ``longest_s`` bounds a
    whole request. ``retries`` come after the first attempt, with the waits of ``backoff_s`` (the last
    repeats). ``context_tokens`` is the configured context limit. Raises ``NotConfigured`` for a URL, key or
    body that cannot be used.
    """

    id: str
    endpoint: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 600.0
    longest_s: float = 3600.0
    retries: int = 3
    backoff_s: tuple[float, ...] = (2.0, 5.0, 15.0)
    retryable_status: tuple[int, ...] = (429, 500, 502, 503, 504)
    retry_after_cap_s: float = 60.0
    temperature: float | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_body: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        parse_endpoint(self.endpoint)
        key = self.api_key.strip()
        object.__setattr__(self, "api_key", key)
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise NotConfigured("model.key_unusable", data={"setting": "llm.api_key_env"})
        for name, value in self.headers.items():
            if not f"{name}{value}".isascii() or not f"{name}{value}".isprintable():
                raise NotConfigured(
                    "model.header_unusable", name=ascii(name), data={"setting": "llm.headers"}
                )
        reserved = sorted(RESERVED & set(self.extra_body))
        if reserved:
            raise NotConfigured(
                "model.extra_body_reserved", name=reserved[0], data={"setting": "llm.extra_body"}
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message, log or event may show."""
        return tuple(text for text in (self.api_key, *self.headers.values()) if len(text) >= 4)
