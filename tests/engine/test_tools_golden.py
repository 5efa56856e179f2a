"""The ``tools`` array as bytes: a change of one character costs every running cache, so it is seen in review.

``MAESTRO_UPDATE_GOLDEN=1 python3 dev.py test tests/engine/test_tools_golden.py`` writes ``tools.golden.json``
again. It holds the array of all tools as readable JSON, the hash of its exact bytes, and the hash of the
array of each shipped piece.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.config import EngineConfig
from engine.core.piece import Piece, collect_piece_transition_targets
from engine.core.tooling import tools_bytes
from engine.loader import PieceDirs, load_piece, shipped_folder
from engine.service import Service
from engine.tools import ShellRegistry, builtin_tools

GOLDEN = Path(__file__).parents[1] / "data" / "tools.golden.json"
TARGETS = ("implement", "verify")
ROOT = Path(__file__).parents[2]


SERVICE = Service(Path("/nowhere"), Path("/nowhere/store.db"), EngineConfig())


def shipped_pieces() -> dict[str, Piece]:
    folder = shipped_folder()
    dirs = PieceDirs(None, False, (), folder)
    return {path.stem: load_piece(path.stem, dirs).piece for path in sorted(folder.glob("*.yaml"))}


def array_of(piece: Piece) -> bytes:
    """The array of a job on this piece: the union over its movements."""
    return tools_bytes(SERVICE.toolset(piece))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def now() -> dict[str, Any]:
    whole = tools_bytes(builtin_tools(TARGETS, ShellRegistry(Path("/nowhere/commands"))))
    pieces = {name: sha(array_of(piece)) for name, piece in shipped_pieces().items()}
    return {"sha256": sha(whole), "pieces": pieces, "tools": json.loads(whole)}


def test_the_tools_are_byte_for_byte_those_of_the_golden_file() -> None:
    found = now()
    if os.environ.get("MAESTRO_UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert [tool["function"]["name"] for tool in found["tools"]] == [
        tool["function"]["name"] for tool in golden["tools"]
    ]
    for mine, held in zip(found["tools"], golden["tools"], strict=True):
        assert json.dumps(mine) == json.dumps(held), "the order of the keys counts too"
    assert found == golden


def test_the_array_is_the_same_in_every_process() -> None:
    code = "from tests.engine.test_tools_golden import now; print(now()['sha256'], *now()['pieces'].values())"
    seen = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_the_array_has_each_tool_once_and_one_transition_for_the_whole_piece() -> None:
    for piece in shipped_pieces().values():
        tools = [tool["function"] for tool in json.loads(array_of(piece))]
        names = [tool["name"] for tool in tools]
        assert len(names) == len(set(names))
        targets = collect_piece_transition_targets(piece)
        enums = [
            t["parameters"]["properties"]["next_step"]["enum"] for t in tools if t["name"] == "transition"
        ]
        assert enums == ([list(targets)] if targets else [])
