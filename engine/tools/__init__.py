"""The built-in tools, in the one order of every tools array."""

from __future__ import annotations

from engine.core.tooling import ToolSpec
from engine.tools.control import control_tools
from engine.tools.files import FILE_TOOLS
from engine.tools.search import SEARCH_TOOLS
from engine.tools.shell import ShellRegistry, shell_tools

__all__ = ["ShellRegistry", "builtin_tools"]


def builtin_tools(targets: tuple[str, ...], registry: ShellRegistry) -> tuple[ToolSpec, ...]:
    """Every built-in tool, for a piece with these transition targets.

    The order is part of the cache law: a new tool goes to the end of its group.
    """
    return (*FILE_TOOLS, *SEARCH_TOOLS, *shell_tools(registry), *control_tools(targets))
