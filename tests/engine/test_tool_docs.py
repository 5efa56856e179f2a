"""ReadToolDoc: every tool has a page, which names every argument and whose examples are valid calls."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from engine.core.tooling import ToolSpec
from engine.core.toolnames import BUILTIN_NAMES
from engine.core.truncate import estimate_tokens
from engine.llm.scripted import ByMovement, call
from engine.tools import ShellRegistry, builtin_tools
from engine.tools import tooldoc as module
from engine.tools.tooldoc import tool_page
from tests.engine.rig import rig
from tests.engine.test_checklist import PIECE

TOOLS = {spec.name: spec for spec in builtin_tools(("next",), ShellRegistry())}
SMALLEST_BUDGET = 1_000
every_tool = pytest.mark.parametrize("spec", TOOLS.values(), ids=list(TOOLS))


def arguments(spec: ToolSpec) -> list[str]:
    properties = spec.schema.get("properties", {})
    assert isinstance(properties, dict)
    return list(properties)


def test_there_is_a_page_for_each_tool_and_no_other() -> None:
    folder = Path(module.__file__).parent / "docs"
    assert {page.stem for page in folder.glob("*.md")} == set(TOOLS) == set(BUILTIN_NAMES)


@every_tool
def test_a_page_names_every_argument_and_no_other(spec: ToolSpec) -> None:
    page = tool_page(spec.name)
    assert page.startswith(f"# {spec.name}\n")
    named = re.findall(r"^- `(\w+)`", page.partition("## Arguments\n")[2].partition("\n## ")[0], re.MULTILINE)
    assert named == arguments(spec) or (not arguments(spec) and "\nNone.\n" in page)


@every_tool
def test_the_examples_of_a_page_are_calls_that_the_tool_takes(spec: ToolSpec) -> None:
    examples = re.findall(r"^(?:- )?`(\{.*\})`$", tool_page(spec.name), re.MULTILINE)
    assert examples
    for example in examples:
        msgspec.convert(json.loads(example), spec.arguments)


@every_tool
def test_a_page_fits_the_smallest_result(spec: ToolSpec) -> None:
    assert estimate_tokens(tool_page(spec.name)) <= SMALLEST_BUDGET


async def test_a_page_is_read_in_every_movement_by_a_name_in_any_case(tmp_path: Path) -> None:
    plan = [
        call("ReadToolDoc", name="Bash"),
        call("ReadToolDoc", name="gitcommit"),
        call("ReadToolDoc", name="Baash"),
        call("complete", status="success", result="done"),
    ]
    async with rig(tmp_path, ByMovement({"plan": plan}), pieces={"two": PIECE}) as it:
        end = await it.until_rest(await it.start(piece="two"))
        assert end.status == "succeeded"
        said = [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]
        assert said[0] == tool_page("Bash")
        assert said[1] == tool_page("GitCommit"), "permitted here or not"
        assert said[2].startswith("There is no tool `Baash`. Did you mean `Bash`? There are: Read, ")
        assert all(name in said[2] for name in BUILTIN_NAMES)
