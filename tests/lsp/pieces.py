"""Small pieces for tests over the protocol, as files of a workspace."""

from __future__ import annotations

from tests.lsp.driver import Place

ONE = """
name: one
description: one movement
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Write, Edit, Bash]
    rules: []
"""

TWO = """
name: two
description: plan, then implement
max_movements: 5
initial_movement: plan
movements:
  - name: plan
    edit: false
    persona: You plan.
    instruction: Plan.
    allowed_tools: [Read]
    rules:
      - condition: The plan is made.
        next: implement
  - name: implement
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Write, Edit]
    rules: []
"""


def put_pieces(place: Place) -> None:
    """Write them where a trusted workspace has its pieces."""
    folder = place.workspace / ".maestro" / "pieces"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.yaml").write_text(ONE)
    (folder / "two.yaml").write_text(TWO)
