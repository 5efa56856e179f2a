"""The built-in tools, in the one order of every tools array."""

from __future__ import annotations

from engine.core.tooling import ToolSpec
from engine.tools.asking import REQUEST_TOOL
from engine.tools.checklist import CHECKLIST
from engine.tools.control import control_tools
from engine.tools.files import FILE_TOOLS
from engine.tools.gitcommit import GIT_COMMIT
from engine.tools.orchestration import ORCHESTRATION_TOOLS
from engine.tools.packages import package_tools
from engine.tools.pieces import PIECE_TOOLS
from engine.tools.search import SEARCH_TOOLS
from engine.tools.shell import ShellRegistry, shell_tools
from engine.tools.tooldoc import READ_TOOL_DOC

__all__ = ["ShellRegistry", "builtin_tools"]


def builtin_tools(targets: tuple[str, ...], registry: ShellRegistry) -> tuple[ToolSpec, ...]:
    """Every built-in tool, for a piece with these transition targets.

    The order is part of the cache law: a new tool goes to the end of its group.
    """
    shell = shell_tools(registry)
    return (
        *FILE_TOOLS,
        *SEARCH_TOOLS,
        *shell,
        GIT_COMMIT,
        *ORCHESTRATION_TOOLS,
        *package_tools(shell[0].run),
        *PIECE_TOOLS,
        *control_tools(targets),
        CHECKLIST,
        READ_TOOL_DOC,
        REQUEST_TOOL,
    )
