"""Ids: a kind's letter and a ULID, so that they sort by time, are unique everywhere and are never used
again.
"""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(kind: str) -> str:
    """A new id such as ``j-01JD…``: 48 bits of milliseconds, 80 random bits, in Crockford's base 32."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return f"{kind}-" + "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def short_id(full: str) -> str:
    """How an id is shown to people: its kind and its last four characters."""
    kind, _, rest = full.partition("-")
    return f"{kind}-…{rest[-4:]}"
