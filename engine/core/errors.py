"""The one family of errors that leaves the engine.

An error carries a catalogue key and values instead of a sentence, so that each edge (LSP, command line) can
say it in the
language of its reader. ``code`` is the JSON-RPC code of ``wire.md``; ``exit_status`` the process status of
``interface.md``.
``data`` is sent to clients as it is, so it must hold nothing secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class EngineError(Exception):
    """A mistake or a fault that a person can be told in one sentence.

    ``key`` names the sentence in ``engine/messages``; ``values`` fill its placeholders; ``data`` is
    machine-readable.
    """

    code: ClassVar[int] = -32603
    exit_status: ClassVar[int] = 1

    def __init__(self, key: str, /, *, data: Mapping[str, object] | None = None, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values: dict[str, object] = values
        self.data: dict[str, object] = dict(data or {})

    def __str__(self) -> str:
        return f"{self.key} {self.values}" if self.values else self.key


class BadArgument(EngineError):
    """An argument of a command or call is missing, unknown or of the wrong type (``data.path``,
    ``data.expected``).
    """

    code = -32602
    exit_status = 2


class NotFound(EngineError):
    """An unknown job, task, request or piece (``data.id``; for pieces ``data.known``)."""

    code = 4001
    exit_status = 2


class IllegalMove(EngineError):
    """A move that the table of legal moves does not hold; nothing was changed (``data.status``)."""

    code = 4002


class AlreadySettled(EngineError):
    """A second answer to a request: the first one won (``data`` holds the winner)."""

    code = 4003


class FaultyPiece(EngineError):
    """A piece with errors (``data.problems``)."""

    code = 4004
    exit_status = 2


class NotConfigured(EngineError):
    """Something the person must set first (``data.setting``, ``data.mend``)."""

    code = 4005
    exit_status = 2


class NotTrusted(EngineError):
    """The workspace is not trusted for what was asked."""

    code = 4006
    exit_status = 2


class ModelFault(EngineError):
    """The model server failed: unreachable, refused, or unusable answers. ``retryable`` says whether waiting
    may help.
    """

    def __init__(
        self,
        key: str,
        /,
        *,
        retryable: bool = False,
        data: Mapping[str, object] | None = None,
        **values: object,
    ) -> None:
        super().__init__(key, data=data, **values)
        self.retryable = retryable


class ContextOverflow(ModelFault):
    """The server refused the prompt as too long; ``limit`` is the limit it named, if it named one."""

    def __init__(self, *, limit: int | None = None, detail: str = "") -> None:
        super().__init__("model.context_overflow", retryable=False, detail=detail)
        self.limit = limit


class StoreFault(EngineError):
    """The database cannot be used (locked, full, corrupt, foreign, newer)."""


class StoreLocked(StoreFault):
    """Somebody else held the database too long. Nothing was changed: the same call may be made again."""


class LeaseLost(EngineError):
    """This process no longer owns the job: another one fenced it off. The runner stops before its next side
    effect.
    """
