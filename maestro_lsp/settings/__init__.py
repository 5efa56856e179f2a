"""The person's configuration, read and merged: ``load_config``."""

from maestro_lsp.settings.keys import is_variable_name
from maestro_lsp.settings.merge import (
    LOG_LEVEL,
    WORKSPACE_FILE,
    Loaded,
    Notice,
    Origin,
    Source,
    load_config,
    user_file,
)
from maestro_lsp.settings.table import KEYS, InWorkspace, Key

__all__ = [
    "KEYS",
    "LOG_LEVEL",
    "WORKSPACE_FILE",
    "InWorkspace",
    "Key",
    "Loaded",
    "Notice",
    "Origin",
    "Source",
    "is_variable_name",
    "load_config",
    "user_file",
]
