"""Searches with any pattern, glob and rules: no exception but our own, bounded, the same with ripgrep and
without, nothing secret and nothing that breaks a line.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from engine.core.tooling import ToolResult
from engine.core.truncate import estimate_tokens
from engine.tools.patterns import Glob, IgnoreRules
from engine.tools.search import GLOB, GREP
from engine.workspace import Refused
from tests.tools import trees
from tests.tools.world import World

EXAMPLES = 25
_PIECES = (
    r"( ) [ ] { } * + ? | ^ $ . - , ! / \ (?: (?= (?! (?<= (?<! (?> (?P<a> (?i) (?s) (?x) (?V1) (?r) (?p)"
    r" (?b) (?R) (?1) (?(1)a|b) (?#c) (*FAIL) (a+)+$ (a|aa)+$ ([^,]*,)* {2} {3,} {,4} {9999} {e} {i<=2} "
    r" {1,2}{e} *? ++ \d \w \b \B \A \Z \G \K \R \X \h \m \1 \g<1> \p{Han} \p{No} \N{DOLLAR} \L<a> \x41"
    r" \x{41} \u65e5 \n \r \0 [[:alpha:]] [[:no:]] [a-z&&b] [^\n] ** **/ {a,b} KEY 日本 上 が é"
)
_PATTERNS = (
    st.lists(st.sampled_from(_PIECES.split()), max_size=10).map("".join)
    | st.text(max_size=12)
    | trees.PATTERNS
)
strategy = st.fixed_dictionaries(
    {
        "tree": trees.TREES,
        "pattern": _PATTERNS,
        "glob": _PATTERNS | st.none(),
        "rules": st.binary(max_size=60),
        "mode": st.sampled_from(["content", "files_with_matches", "count"]),
        "context": st.integers(0, 50),
        "budget": st.sampled_from([1000, 5000]),
    }
)


def check(example: dict[str, Any]) -> None:
    """Raises ``AssertionError``."""
    _rules_stand(example["rules"])
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder).resolve() / "w", budget=example["budget"], timeout_s=10.0)
        trees.write_tree(world.root, example["tree"])
        found = [_answer(world, search, example) for search in (os.environ["PATH"], "/nowhere")]
        assert found[0] == found[1]
        listed = asyncio.run(_call(world, GLOB, pattern=example["pattern"]))
    for text in (found[0], listed):
        assert estimate_tokens(text) <= example["budget"] + 300
        assert "\r" not in text and "sk-" not in text
        text.encode()


def _rules_stand(data: bytes) -> None:
    rules = IgnoreRules(data)
    for path in ("a", "a/b.py", "日本/か\u3099", "caf\udce9"):
        assert rules.verdict(path, folder=False) in (True, False, None)
    try:
        Glob(data.decode("utf-8", "ignore")).matches("a/日本.txt")
    except (ValueError, TimeoutError):
        return


def _answer(world: World, search: str, example: dict[str, Any]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", search)
        return asyncio.run(
            _call(
                world,
                GREP,
                pattern=example["pattern"],
                glob=example["glob"],
                output_mode=example["mode"],
                context=example["context"],
            )
        )


async def _call(world: World, spec: Any, **arguments: Any) -> str:
    try:
        result = await world.call(spec, **arguments)
    except Refused as why:
        return str(why)
    except msgspec.ValidationError as fault:
        return str(fault)
    assert isinstance(result, ToolResult)
    return result.text
