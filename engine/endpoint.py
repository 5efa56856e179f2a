"""The address of a model server: checked once, so that nothing secret or ambiguous is ever in it. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from engine.core.errors import NotConfigured

_VERSION = re.compile(r"(?:^|/)v\d+[a-z0-9]*(?:/|$)")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``base`` is the URL before ``/chat/completions``, ``root`` the same without its final ``/v1``; neither
    ends with ``/``.
    """

    base: str
    root: str
    host: str
    loopback: bool
    tls: bool


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint of a configured URL, with or without ``/v1``.

    Raises ``NotConfigured`` for an empty or unusable URL and for one with a name or password in it; the error
    never repeats the URL, since that may hold them.
    """
    text = text.strip()
    if not text:
        raise _refused("model.no_endpoint")
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise _refused("model.url_invalid") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise _refused("model.url_scheme")
    if "@" in parts.netloc:
        raise _refused("model.url_userinfo")
    if not host or parts.query or parts.fragment or _FORBIDDEN.search(text):
        raise _refused("model.url_invalid")
    path = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    if not _VERSION.search(path):
        path += "/v1"
    base = f"{parts.scheme.lower()}://{parts.netloc}{path}"
    return Endpoint(base, base.removesuffix("/v1"), host, _is_loopback(host), parts.scheme.lower() == "https")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _refused(key: str) -> NotConfigured:
    return NotConfigured(key, data={"setting": "llm.endpoint"})
