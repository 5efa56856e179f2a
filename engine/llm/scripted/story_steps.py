"""What the movements of the story share: calls, the test command, the files that a plan names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.llm.scripted.script import ScriptReply
from engine.llm.scripted.story_reading import Scene

TRIES = 2
"""How often something whose outcome is not known is tried again."""

_COMMAND = "python3 -m unittest -v"
_TEST_COMMAND = re.compile(r"`((?:python3? -m (?:unittest|pytest)|pytest)\b[^`\n]*)`")
_FILES = re.compile(r"(?:Files|ファイル): `([^`]+)`, `([^`]*)`")

Call = tuple[str, Mapping[str, Any]]


def complete(status: str, result: str, options: Sequence[str] = ()) -> Call:
    """The call that ends the movement."""
    return "complete", {"status": status, "result": result, **({"options": list(options)} if options else {})}


def end(text: str, status: str = "aborted") -> ScriptReply:
    """A reply that ends the task."""
    return ScriptReply(calls=(complete(status, text),))


def ask(question: str, options: Sequence[str]) -> ScriptReply:
    """A reply that asks the person."""
    return ScriptReply(calls=(complete("needs_user_input", question, options),))


def bash(command: str) -> Call:
    """The call that runs a command."""
    return "Bash", {"command": command}


def read(path: str, **place: int) -> Call:
    """The call that reads a file."""
    return "Read", {"file_path": path, **place}


def command_of(scene: Scene) -> str:
    """The test command: as an earlier step or the README names it."""
    texts = [scene.guidance, *(result.text for result in scene.of("Read"))]
    return next((found[-1] for text in texts if (found := _TEST_COMMAND.findall(text))), _COMMAND)


def files_of(scene: Scene) -> tuple[str, str]:
    """The file to change and the file of its tests, as the last plan names them; empty where it does not."""
    found = _FILES.findall(scene.guidance)
    return found[-1] if found else ("", "")
