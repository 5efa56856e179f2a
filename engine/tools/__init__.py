"""The built-in tools, in the one order of every tools array."""

from __future__ import annotations

from engine.core.tooling import ToolSpec
from engine.tools.control import control_tools
from engine.tools.files import FILE_TOOLS


class ShellRegistry:
    async def end_all(self, job_id: str) -> None: ...
    async def end_everything(self) -> None: ...


def shell_registry() -> ShellRegistry:
    return ShellRegistry()


def builtin_tools(targets: tuple[str, ...], registry: ShellRegistry) -> tuple[ToolSpec, ...]:
    """Every built-in tool for a piece with these transition targets. New tools go to the end of their
    group, never in between.
    """
    return (*FILE_TOOLS, *control_tools(targets))
