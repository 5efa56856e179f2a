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
from engine.config import (
    DEFAULT_WORKER,
    LANGUAGES,
    MODES,
    SANDBOX,
    EngineConfig,
    ModelSettings,
    WorkerSettings,
)
from engine.core.budget import Budget, Price
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
from engine.core.export import FORMATS as EXPORT_FORMATS
from engine.core.export import Export, ExportedChange, ExportHead
from engine.core.graph import mermaid as piece_mermaid
from engine.core.graph import svg as piece_svg
from engine.core.jobs import ENDED, PARKED, JobStatus
from engine.core.limits import ContextLimits, Leases, Safety
from engine.core.model_choice import role_of as model_role
from engine.core.piece_keys import piece_schema
from engine.core.toolnames import BUILTIN_NAMES
from engine.core.truncate import cut, grapheme_ceil, grapheme_floor, graphemes
from engine.core.views import (
    Brief,
    ChildView,
    CommentView,
    FileChanged,
    JobDetail,
    JobSummary,
    MovementView,
    Pruned,
    Request,
    Reverted,
    RevertKept,
    RuleView,
    UsageView,
    to_wire,
)
from engine.export import export_events, export_head, export_json, export_to_file
from engine.finding import find_store, workspace_of
from engine.ids import new_id, short_id
from engine.loader import DEFAULT_PIECE, PieceEntry, check_text, default_dirs, list_pieces, load_piece
from engine.paths import all_stores, state_dir, store_path, task_dir
from engine.ports import Buffer
from engine.process import EngineProcess
from engine.prune import age_of, prune_tasks

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
    "DEFAULT_WORKER",
    "ENDED",
    "EXPORT_FORMATS",
    "LANGUAGES",
    "MODES",
    "PARKED",
    "SANDBOX",
    "AlreadySettled",
    "BadArgument",
    "Brief",
    "Budget",
    "Buffer",
    "ChildView",
    "Client",
    "CommentView",
    "ContextLimits",
    "EngineConfig",
    "EngineError",
    "EngineProcess",
    "Export",
    "ExportHead",
    "ExportedChange",
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
    "Price",
    "Pruned",
    "Request",
    "RevertKept",
    "Reverted",
    "RuleView",
    "Safety",
    "ScriptedServer",
    "Service",
    "StartOrder",
    "StoreFault",
    "UsageView",
    "WorkerSettings",
    "age_of",
    "all_stores",
    "catalogue",
    "check_model",
    "check_settings",
    "check_text",
    "cut",
    "default_dirs",
    "explain",
    "export_events",
    "export_head",
    "export_json",
    "export_to_file",
    "find_program",
    "find_store",
    "grapheme_ceil",
    "grapheme_floor",
    "graphemes",
    "language_of_locale",
    "list_pieces",
    "load_piece",
    "model_role",
    "new_id",
    "piece_mermaid",
    "piece_schema",
    "piece_svg",
    "prune_tasks",
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
