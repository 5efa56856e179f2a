"""The names of all tools of the product, for the validator of pieces. A test holds them against the tools
that exist.
"""

from __future__ import annotations

BUILTIN_NAMES: tuple[str, ...] = (
    "Read",
    "Write",
    "Edit",
    "Glob",
    "Grep",
    "Bash",
    "BashOutput",
    "BashStop",
    "GitCommit",
    "SpawnSubTask",
    "WaitSubTask",
    "SpinOffTask",
    "RequestPackage",
    "ListPieces",
    "GetPiece",
    "CreatePiece",
    "UpdatePiece",
    "transition",
    "complete",
    "MissionUpdate",
    "Checklist",
    "ReadToolDoc",
    "RequestTool",
)
"""Tools that exist, in the order of the tools array."""
