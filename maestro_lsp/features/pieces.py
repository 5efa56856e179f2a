"""Piece files in an editor: the validator's findings as diagnostics, and a quick fix where it knows the mend.

A text is checked in a thread, one at a time, and only the newest: edits that come meanwhile make one further
check, and findings about a text that is no longer in the editor are not sent. So no timer is needed, a pause
in typing is answered at once, and a burst costs little. Looking at a file needs no trust: nothing runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lsprotocol import types

from engine import BUILTIN_NAMES, EngineConfig, check_text, default_dirs
from maestro_lsp.convert import path_of
from maestro_lsp.documents import Change, Place, Snapshot, apply_changes, real_path, split_lines, units
from maestro_lsp.session import Session

logger = logging.getLogger(__name__)

SUFFIXES = (".yaml", ".yml")
SOURCE = "maestro"
QUICK_SECONDS = 0.02
"""A check that takes longer is followed by as long a rest: even the largest text leaves half of the time."""

MAX_CHECKED = 1 << 20
"""Characters that are looked at, as ``lint`` does: four times what a piece may have, so that the finding is
the same."""

MAX_FIXES = 20
"""Quick fixes offered at once: each is tried before."""

_PIECES = (".maestro", "pieces")
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One of the validator's problems, and as this client sees it."""

    problem: Any
    diagnostic: types.Diagnostic

    @property
    def mended(self) -> Change:
        """The edit that puts the fix in, its places in code points."""
        span = self.problem.span
        return Change(self.problem.fix, Place(span.line, span.column), Place(span.end_line, span.end_column))


class Pieces:
    """Diagnostics of the piece files that are open, and their quick fixes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[str, None] = {}  # a set in order
        self._working = False
        self._told: set[str] = set()
        session.configured = self.look_at_all

    def look(self, uri: str) -> None:
        """A document was opened or edited, or may have become a piece file."""
        path = path_of(uri)
        if path is None or not _named_so(path):
            return
        self._waiting[uri] = None
        if not self._working:
            self._working = True
            self._session.background.spawn(self._work())

    def look_at_all(self) -> None:
        """The configuration is new: other folders may hold pieces."""
        for uri in self._session.documents.uris():
            self.look(uri)

    def closed(self, uri: str) -> None:
        """A document was closed: nothing is wrong any more."""
        self._waiting.pop(uri, None)
        self._clear(uri)

    async def fixes(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """The quick fixes at a place, from the text as it is now, whatever the client last heard of it."""
        session, uri = self._session, params.text_document.uri
        only = params.context.only
        wanted = only is None or any(kind in ("", types.CodeActionKind.QuickFix) for kind in only)
        if not (wanted and session.can.quick_fixes):
            return []
        await session.opened()
        document = session.documents.snapshot(uri)
        if document is None:
            return []
        found = await asyncio.to_thread(self._mends, uri, document, params.range)
        return [self._action(uri, document.version, finding) for finding in found]

    # -- inside

    async def _work(self) -> None:
        try:
            await self._session.opened()
            while self._waiting:
                uri = next(iter(self._waiting))
                del self._waiting[uri]
                began = time.monotonic()
                await self._check(uri)
                took = time.monotonic() - began
                await asyncio.sleep(took if took > QUICK_SECONDS else 0)
        finally:
            self._working = False

    async def _check(self, uri: str) -> None:
        document = self._session.documents.snapshot(uri)
        if document is None:
            return
        try:
            found = await asyncio.to_thread(self._findings, uri, document)
        except Exception:
            logger.exception("%s could not be checked", Path(uri).name)
            return
        if self._session.documents.snapshot(uri) != document:
            return  # the newer text waits already
        if found is None:
            self._clear(uri)
        else:
            self._told.add(uri)
            self._publish(uri, document.version, [finding.diagnostic for finding in found])

    def _clear(self, uri: str) -> None:
        if uri in self._told:
            self._told.remove(uri)
            self._publish(uri, None, [])

    def _publish(self, uri: str, version: int | None, diagnostics: Sequence[types.Diagnostic]) -> None:
        params = types.PublishDiagnosticsParams(uri, diagnostics, version)
        self._session.server.client_notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def _action(self, uri: str, version: int | None, finding: Finding) -> types.CodeAction:
        fix, diagnostic = finding.problem.fix, finding.diagnostic
        edit = types.TextEdit(diagnostic.range, fix)
        if self._session.can.versioned_edits:  # then the client refuses it for another text than this
            about = types.OptionalVersionedTextDocumentIdentifier(uri, version)
            change = types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(about, [edit])])
        else:
            change = types.WorkspaceEdit(changes={uri: [edit]})
        title = self._session.say("lsp.piece.fix", fix=fix.strip())
        kind = types.CodeActionKind.QuickFix
        return types.CodeAction(title, kind, [diagnostic], is_preferred=True, edit=change)

    # -- in a thread

    def _findings(self, uri: str, document: Snapshot) -> list[Finding] | None:
        """What is wrong with a piece file, in the order of the file; None if the document is none."""
        session = self._session
        path = path_of(uri)
        if path is None or not is_piece_file(path, session.workspace, _folders(session.config)):
            return None
        text = document.text[:MAX_CHECKED]
        lines = split_lines(text)
        return [
            Finding(problem, self._diagnostic(problem, lines))
            for problem in check_text(text, path.name, BUILTIN_NAMES).problems
        ]

    def _diagnostic(self, problem: Any, lines: Sequence[str]) -> types.Diagnostic:
        span, encoding = problem.span, self._session.documents.encoding

        def position(line: int, column: int) -> types.Position:
            before = lines[line][:column] if line < len(lines) else ""
            return types.Position(line, units(before, encoding))

        return types.Diagnostic(
            types.Range(position(span.line, span.column), position(span.end_line, span.end_column)),
            self._session.say(problem.key, **problem.values),
            severity=_SEVERITIES[problem.severity],
            code=problem.code,
            source=SOURCE,
            data=None if problem.fix is None else {"fix": problem.fix},
        )

    def _mends(self, uri: str, document: Snapshot, place: types.Range) -> list[Finding]:
        """The findings with a fix that touch a place and that the fix really mends."""
        name = Path(path_of(uri) or "").name
        mends = (
            finding
            for finding in self._findings(uri, document) or ()
            if finding.problem.fix is not None
            and _touch(finding.diagnostic.range, place)
            and _is_mended(document.text, name, finding)
        )
        return list(islice(mends, MAX_FIXES))


def is_piece_file(path: Path, workspace: Path | None, folders: Collection[Path]) -> bool:
    """Whether a file is a piece by where it lies: in a ``.maestro/pieces`` folder of the workspace (in any,
    if there is no workspace), or in one of ``folders`` (real paths). Follows the folder's links: file IO.
    """
    if not _named_so(path):
        return False
    places = (path.parent, real_path(path.parent))
    if any(
        place.parts[-2:] == _PIECES and (workspace is None or place.is_relative_to(workspace))
        for place in places
    ):
        return True
    return places[1] in folders


def _named_so(path: Path) -> bool:
    return path.suffix in SUFFIXES and not path.name.startswith(".")


def _folders(config: EngineConfig) -> set[Path]:
    """Where pieces lie outside of workspaces: the person's folder, the configured and the shipped one."""
    configured = []
    for folder in config.pieces_dirs:
        with suppress(RuntimeError):  # the home of somebody unknown
            configured.append(Path(folder).expanduser())
    dirs = default_dirs(None, False, configured)
    return {real_path(folder) for folder in (*dirs.user, dirs.shipped) if folder is not None}


def _touch(one: types.Range, other: types.Range) -> bool:
    """Whether two ranges have a position in common, be it an end."""
    (start, end), (first, last) = _ends(one), _ends(other)
    return start <= last and first <= end


def _ends(found: types.Range) -> Iterator[tuple[int, int]]:
    return ((end.line, end.character) for end in (found.start, found.end))


def _is_mended(text: str, name: str, finding: Finding) -> bool:
    """Whether the text with the fix put in is readable and has not the same problem at the same place: a
    movement's name may be one that YAML reads otherwise where it stands without quotes.
    """
    problem = finding.problem
    after = check_text(apply_changes(text, [finding.mended], "utf-32"), name, BUILTIN_NAMES)
    at = (problem.code, problem.span.line, problem.span.column)
    return after.tree is not None and at not in {
        (left.code, left.span.line, left.span.column) for left in after.problems
    }
