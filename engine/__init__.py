"""The front door of the engine. The LSP side and the command line import from here and from nothing below.

The names that run jobs (``Service``, ``serve_link``) are loaded when they are first used: a front that only
reads and submits never pays
for them. Importing this package has no side effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.catalog import explain, language_of_locale
from engine.catalog import messages as catalogue
from engine.client import Client, StartOrder
from engine.config import LANGUAGES, MODES, SANDBOX, EngineConfig, ModelSettings
from engine.core.errors import (
    AlreadySettled,
    BadArgument,
    EngineError,
    FaultyPiece,
    IllegalMove,
    ModelFault,
    NotConfigured,
    NotFound,
    NotTrusted,
    StoreFault,
)
from engine.core.jobs import ENDED, PARKED, JobStatus
from engine.core.limits import ContextLimits, Leases, Safety
from engine.core.piece_keys import piece_schema
from engine.core.toolnames import BUILTIN_NAMES
from engine.core.views import (
    Brief,
    FileChanged,
    JobDetail,
    JobSummary,
    MovementView,
    Request,
    RuleView,
    UsageView,
    to_wire,
)
from engine.finding import find_store, workspace_of
from engine.ids import new_id, short_id
from engine.loader import DEFAULT_PIECE, PieceEntry, check_text, default_dirs, list_pieces, load_piece
from engine.paths import all_stores, state_dir, store_path, task_dir
from engine.ports import Buffer
from engine.process import EngineProcess

if TYPE_CHECKING:
    from engine.llm.check import ModelReport, check_model, check_settings
    from engine.llm.scripted import ScriptedServer
    from engine.llm.scripted.story import story_server
    from engine.sandbox import sandbox_level
    from engine.service import Extras, Service, serve_link
    from engine.workspace import find_program, refuse_workspace

_LATE = {
    "Extras": "engine.service",
    "Service": "engine.service",
    "serve_link": "engine.service",
    "ScriptedServer": "engine.llm.scripted",
    "story_server": "engine.llm.scripted.story",
    "ModelReport": "engine.llm.check",
    "check_model": "engine.llm.check",
    "check_settings": "engine.llm.check",
    "find_program": "engine.workspace",
    "refuse_workspace": "engine.workspace",
    "sandbox_level": "engine.sandbox",
}

__all__ = [
    "BUILTIN_NAMES",
    "DEFAULT_PIECE",
    "ENDED",
    "LANGUAGES",
    "MODES",
    "PARKED",
    "SANDBOX",
    "AlreadySettled",
    "BadArgument",
    "Brief",
    "Buffer",
    "Client",
    "ContextLimits",
    "EngineConfig",
    "EngineError",
    "EngineProcess",
    "Extras",
    "FaultyPiece",
    "FileChanged",
    "IllegalMove",
    "JobDetail",
    "JobStatus",
    "JobSummary",
    "Leases",
    "ModelFault",
    "ModelReport",
    "ModelSettings",
    "MovementView",
    "NotConfigured",
    "NotFound",
    "NotTrusted",
    "PieceEntry",
    "Request",
    "RuleView",
    "Safety",
    "ScriptedServer",
    "Service",
    "StartOrder",
    "StoreFault",
    "UsageView",
    "all_stores",
    "catalogue",
    "check_model",
    "check_settings",
    "check_text",
    "default_dirs",
    "explain",
    "find_program",
    "find_store",
    "language_of_locale",
    "list_pieces",
    "load_piece",
    "new_id",
    "piece_schema",
    "refuse_workspace",
    "sandbox_level",
    "serve_link",
    "short_id",
    "state_dir",
    "store_path",
    "story_server",
    "task_dir",
    "to_wire",
    "workspace_of",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        from importlib import import_module

        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(name)
