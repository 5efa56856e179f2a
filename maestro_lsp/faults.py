"""Faults of the machine (permissions, missing folders) as the one sentence that a person gets."""

from __future__ import annotations

from engine import EngineError


def os_fault(error: BaseException) -> EngineError | None:
    """The fault that names the file; None for any other error, and if the system did not say which file."""
    if not isinstance(error, OSError) or error.filename is None:
        return None
    name = error.filename
    path = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    return EngineError("error.os", path=path, why=error.strerror or type(error).__name__)
