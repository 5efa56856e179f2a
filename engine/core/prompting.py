"""What the model is told, assembled from values. Pure: time, language and texts are arguments.

The order is that of the cache law (``engine.md`` section 3): what changes least comes first. ``Texts`` holds
the prompts of one language; a
missing placeholder is an error in a test, never a hole in a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from engine.core.diffs import Differences, excerpt
from engine.core.piece import Movement, Piece
from engine.core.records import Comment
from engine.core.truncate import cut, escaped, estimate_tokens

COMMENT_LIMIT = 500
COMMENTS = 5
_CHANGED_LISTED = 50
BRIEF_LIMIT = 4_000
"""Characters of each part of the Mission Brief in the guidance [ours]; the whole is kept."""
CARRIED_LINES = 2_000
"""Tokens that a list of what was decided, or done, takes in a rebuilt prompt at most [ours]."""
_TICKS = re.compile("`+")


@dataclass(frozen=True, slots=True)
class Texts:
    """The prompts of one language by key, with ``str.format`` placeholders."""

    language: str
    table: Mapping[str, str]

    def __call__(self, key: str, /, **values: object) -> str:
        """The text of ``key`` with its placeholders filled; raises ``KeyError`` for an unknown key or a
        missing value.
        """
        return self.table[key].format_map(values)


@dataclass(frozen=True, slots=True)
class WorkspaceFacts:
    """What the listing says about the workspace and the task's folder. Paths are shown as given."""

    root: str
    branch: str | None = None
    input_dir: str = ""
    output_dir: str = ""
    files: tuple[str, ...] = ()
    more_files: int = 0
    attached: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()


PROJECT_FILES = ("AGENTS.md", "CLAUDE.md")
"""The project's own instructions: the first of these names that the root has."""
PROJECT_LIMIT = 8_000


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """The project's own instructions, and the hash of the bytes they were read from."""

    name: str
    text: str
    hash: str


@dataclass(frozen=True, slots=True)
class Carried:
    """What reaches a movement from outside its own conversation."""

    brief: Mapping[str, str] = field(default_factory=dict)
    lessons: Sequence[tuple[str, str]] = ()
    feedback: tuple[str, str] | None = None
    changes: Differences | None = None
    checklists: str = ""
    decisions: Sequence[str] = ()
    children: Sequence[str] = ()
    already_done: Sequence[str] = ()
    answer: tuple[str, str] | None = None


def system_text(project: ProjectFile | None, texts: Texts) -> str:
    """The system prompt: one for the whole job, with the project's own instructions at its end
    (``engine.md`` section 3).
    """
    system = texts("system")
    if project is None:
        return system
    text = cut(project.text, PROJECT_LIMIT)
    told = texts("system.project", name=project.name, text=text)
    if text != project.text:
        told += "\n" + texts("system.project_cut", name=project.name)
    return f"{system.rstrip()}\n\n{told}\n"


def build_time_context_block(now: datetime, texts: Texts) -> str:
    """The local date, weekday, time and UTC offset. ``now`` must be aware."""
    offset = now.strftime("%z")
    weekday = texts("weekdays").split(",")[now.weekday()]
    return texts(
        "time",
        date=now.strftime("%Y-%m-%d"),
        weekday=weekday,
        time=now.strftime("%H:%M"),
        offset=f"{offset[:3]}:{offset[3:5]}",
    )


def enriched_instruction(
    instruction: str, comments: Sequence[Comment], facts: WorkspaceFacts, now: datetime, texts: Texts
) -> str:
    """Time, the last comments, the listing and the instruction: fixed for a run.

    A comment that is the instruction itself (a follow-up's) is not repeated above it.
    """
    parts = [build_time_context_block(now, texts)]
    own = instruction.strip()
    shown = [c for c in comments[-COMMENTS:] if c.author == "maestro" or c.text.strip() != own]
    if shown:
        lines = [
            texts(
                "comment",
                author=texts(f"author.{c.author}") if c.author in ("user", "maestro") else c.author,
                time=datetime.fromtimestamp(c.at, now.tzinfo).strftime("%Y-%m-%d %H:%M"),
                text=cut(c.text, COMMENT_LIMIT),
            )
            for c in shown
        ]
        parts.append("\n".join([texts("comments.heading"), *lines]))
    parts.append(_listing(facts, texts))
    parts.append(f"{texts('task.heading')}\n{instruction}")
    return "\n\n".join(parts)


def _listing(facts: WorkspaceFacts, texts: Texts) -> str:
    lines = [texts("workspace.heading"), texts("workspace.root", root=escaped(facts.root))]
    if facts.branch:
        lines.append(texts("workspace.branch", branch=escaped(facts.branch)))
    lines.append(texts("workspace.task", input=facts.input_dir, output=facts.output_dir))
    if facts.files:
        lines.append(texts("workspace.files"))
        lines += [f"- {escaped(path)}" for path in facts.files]
        if facts.more_files:
            lines.append(texts("workspace.more", count=facts.more_files))
    for key, paths in (("workspace.attached", facts.attached), ("workspace.unsaved", facts.unsaved)):
        if paths:
            lines.append(texts(key))
            lines += [f"- {escaped(path)}" for path in paths]
    return "\n".join(lines)


def movement_guidance(
    piece: Piece, movement: Movement, tools: Sequence[str], carried: Carried, texts: Texts
) -> str:
    """What this movement is for, what it may use and where it may go, and what was carried to it.

    ``tools`` are the permitted tool names in the order of the tools array. The choices stand here and not in
    the tools array: here they
    are an appended text, there they would cost the whole cache.
    """
    parts = [texts("movement.heading", name=movement.name)]
    if movement.persona:
        parts.append(movement.persona.strip())
    parts.append(movement.instruction.strip())
    parts.append(texts("movement.tools", tools=", ".join(tools)))
    parts.append(_choices(movement, texts))
    parts += _carried(carried, texts)
    return "\n\n".join(part for part in parts if part)


def _choices(movement: Movement, texts: Texts) -> str:
    if not movement.rules:
        return texts("movement.no_choices")
    lines = [texts("choice", next=rule.next, condition=rule.condition) for rule in movement.rules]
    return "\n".join([texts("movement.choices"), *lines, texts("movement.or_complete")])


def _carried(carried: Carried, texts: Texts) -> list[str]:
    parts: list[str] = []
    brief = [
        texts("brief.line", name=texts(f"brief.{key}"), text=cut(value, BRIEF_LIMIT))
        for key, value in carried.brief.items()
        if value
    ]
    if brief:
        parts.append("\n".join([texts("brief.heading"), *brief]))
    if carried.lessons:
        lines = [texts("lesson", movement=movement, text=text) for movement, text in carried.lessons]
        parts.append("\n".join([texts("lessons.heading"), *lines]))
    if carried.checklists:
        parts.append(f"{texts('checklists.heading')}\n{carried.checklists}")
    if carried.feedback:
        parts.append(f"{texts('feedback.heading', movement=carried.feedback[0])}\n{carried.feedback[1]}")
    if carried.changes is not None:
        parts.append(_changes(carried.changes, texts))
    for key, items in (
        ("decisions.heading", carried.decisions),
        ("children.heading", carried.children),
        ("done.heading", carried.already_done),
    ):
        if items:
            parts.append("\n".join([texts(key), *(f"- {item}" for item in items)]))
    if carried.answer:
        parts.append(texts("answer", question=carried.answer[0], answer=carried.answer[1]))
    return parts


def newest(lines: Sequence[str], texts: Texts, tokens: int = CARRIED_LINES) -> list[str]:
    """The newest of ``lines`` that fit ``tokens`` together, in order; before them how many are left out."""
    kept, left = len(lines), tokens
    while kept and (size := estimate_tokens(lines[kept - 1])) <= left:
        kept, left = kept - 1, left - size
    return [*([texts("carried.earlier", count=kept)] if kept else []), *lines[kept:]]


def _changes(found: Differences, texts: Texts) -> str:
    """What ``git status`` and ``git diff`` say, the diff as an excerpt."""
    lines = [texts("changes.heading"), *(one.line for one in found.changed[:_CHANGED_LISTED])]
    if not found.changed:
        lines.append(texts("changes.none"))
    if (more := len(found.changed) - _CHANGED_LISTED) > 0:
        lines.append(texts("changes.more", count=more))
    part = excerpt(found.diff)
    if part.text:
        fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(part.text)), default=0))
        lines += ["", f"{fence}diff", part.text.rstrip("\n"), fence]
    if part.hunks or found.cut:
        plus = "+" if found.cut else ""
        lines.append(texts("changes.left_out", hunks=f"{part.hunks}{plus}", files=f"{part.files}{plus}"))
    return "\n".join(lines)
