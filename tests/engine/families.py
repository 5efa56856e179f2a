"""Pieces and scripts of tests about parents and children: what a model says is computed from its request."""

from __future__ import annotations

import re
from typing import Any

from engine.llm.scripted import ScriptReply, call

PARENT = """
name: parent
description: hands work out
max_movements: 10
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You lead.
    instruction: Lead.
    allowed_tools: [Read, SpawnSubTask, WaitSubTask, SpinOffTask, RequestPackage]
    default_next: gather
    rules:
      - condition: everything is handed out
        next: WAIT_SUBTASKS
      - condition: to see
        next: gather
  - name: gather
    edit: false
    persona: You gather.
    instruction: Gather.
    allowed_tools: [Read, WaitSubTask]
    default_next: ABORT
    rules: []
"""

CHILD = """
name: child
description: does one thing
max_movements: 3
initial_movement: do
movements:
  - name: do
    edit: true
    persona: You do.
    instruction: Do.
    allowed_tools: [Read, Write, SpawnSubTask, WaitSubTask]
    rules: []
"""

PIECES = {"parent": PARENT, "child": CHILD}


def spawn(*titles: str) -> ScriptReply:
    """One reply that starts a child for each title."""
    return ScriptReply(
        calls=tuple(
            ("SpawnSubTask", {"instruction": f"child: {title}", "piece": "child", "title": title})
            for title in titles
        )
    )


def done(text: str = "done") -> ScriptReply:
    """The end of a job."""
    return call("complete", status="success", result=text)


def prompt_of(body: dict[str, Any]) -> str:
    """The opening user message of a request."""
    return str(body["messages"][1]["content"])


def task_of(request: Any) -> str:
    """The instruction a request is about."""
    found = re.search(r"## (?:Task|タスク)\n(.*?)(?:\n|$)", request.messages[1]["content"])
    return found[1] if found else ""


def section(prompt: str, heading: str) -> str:
    """A section of a prompt, without its heading; empty if there is none."""
    _, found, rest = prompt.partition(f"## {heading}\n")
    return re.split(r"\n\n(?=## )", rest)[0] if found else ""
