"""Counting tokens without the model's tokenizer: tiktoken with its encoding on board, else by characters.

Nothing is ever downloaded: the encoding is built from the file beside this module, whose hash is checked.
It is loaded when it is first needed, which costs some 50 MiB, and everything runs in a thread.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.core.context import message_size
from engine.core.truncate import estimate_tokens

log = logging.getLogger("engine")

ENCODING = Path(__file__).parent / "encodings" / "cl100k_base.tiktoken"
ENCODING_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)
_CHUNK = 8_192
"""Characters that are encoded at once: the tokenizer fails on a million spaces in one piece."""


class TokenCounter:
    """Counts the tokens of encoded messages; implements ``engine.ports.Tokens``. One for a process."""

    def __init__(self, encoding: Path = ENCODING) -> None:
        self._encoding = encoding
        self._lock = threading.Lock()
        self._count: Callable[[str], int] | None = None

    async def __call__(self, bodies: Sequence[bytes]) -> list[int]:
        """The tokens of each message or ``tools`` array, counted in a thread."""
        return await asyncio.to_thread(self._all, bodies)

    def count(self, text: str) -> int:
        """The tokens of a text; by characters where tiktoken is not installed or cannot be used."""
        with self._lock:
            if self._count is None:
                self._count = _load(self._encoding)
        try:
            return sum(self._count(text[at : at + _CHUNK]) for at in range(0, len(text), _CHUNK))
        except Exception as error:
            log.warning("tokens are estimated by characters: %s", type(error).__name__)
            return estimate_tokens(text)

    def _all(self, bodies: Sequence[bytes]) -> list[int]:
        return [
            self.count(body.decode("utf-8", "replace"))
            if body.startswith(b"[")
            else message_size(body, self.count)
            for body in bodies
        ]


def _load(path: Path) -> Callable[[str], int]:
    """The tokenizer's count. Any failure means the estimate by characters: tokens are no reason to fail."""
    try:
        import tiktoken

        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != ENCODING_SHA256:
            raise ValueError("the encoding file is damaged")
        ranks = {
            base64.b64decode(token): int(rank)
            for token, rank in (line.split() for line in data.splitlines() if line)
        }
        encoding = tiktoken.Encoding(path.stem, pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
    except Exception as error:
        log.warning("tokens are estimated by characters: %s: %s", type(error).__name__, error)
        return estimate_tokens
    return lambda text: len(encoding.encode_ordinary(text))
