"""Ids of tool calls: a server's own where it cannot come again in the job, else one of ours."""

from __future__ import annotations

import re
import secrets
import string

_ALPHABET = string.ascii_lowercase + string.digits
_LENGTH = 9
_LONGEST = 4096
_VISIBLE = re.compile(r"[!-~]+")
_LAST_RUN = re.compile(r"[A-Za-z0-9]+")


def random_id() -> str:
    """Nine letters and digits: the only form that Mistral's templates take."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def looks_random(call_id: str) -> bool:
    """False for ids that count or repeat (``0``, ``call_1``, ``functions.Read:0``), as a new conversation
    brings them again.

    Random ones stay: some servers keep data of theirs under them or inside them.
    """
    if not _VISIBLE.fullmatch(call_id):
        return False
    runs = _LAST_RUN.findall(call_id)
    return bool(runs) and len(call_id) <= _LONGEST and len(runs[-1]) >= 8 and len(set(runs[-1])) >= 5
