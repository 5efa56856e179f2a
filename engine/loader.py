"""Finding pieces and reading them: workspace, then the person's folders, then the shipped ones; the first
hit wins.

A piece is looked up by its file's name (``NAME.yaml``), so that finding one never means parsing all, and a
broken file can be found and shown. Nothing is cached: a folder holds a few small files and people edit
them. All functions do file IO: call them off the event loop.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from engine.core.classify import FALLBACK
from engine.core.errors import FaultyPiece, NotFound, NotTrusted
from engine.core.lint import check
from engine.core.piece import Piece, piece_hash
from engine.core.piece_read import nearest, shown
from engine.core.piece_tree import Lines, Node, Problem, Span, has_errors, problem_data
from engine.yaml_tree import MAX_BYTES, read_tree

Source = Literal["workspace", "user", "shipped", "file"]

SUFFIXES = (".yaml", ".yml")
WORKSPACE_FOLDER = Path(".maestro", "pieces")
DEFAULT_PIECE = FALLBACK
_NOWHERE = Span(0, 0, 0, 1)


@dataclass(frozen=True, slots=True)
class PieceDirs:
    """Where pieces are looked for. ``workspace`` is the root of the workspace; its pieces count only if it
    is ``trusted``.
    """

    workspace: Path | None = None
    trusted: bool = False
    user: tuple[Path, ...] = ()
    shipped: Path | None = None


@dataclass(frozen=True, slots=True)
class PieceEntry:
    """One piece of the list: ``shadows`` are the sources of pieces of the same name that it hides, nearest
    first.
    """

    name: str
    path: Path
    source: Source
    shadows: tuple[Source, ...]
    description: str
    problems: tuple[Problem, ...]
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedPiece:
    """A text and everything known about it: the piece (None if there are errors), its tree if the YAML is
    sound, and its problems.
    """

    piece: Piece | None
    tree: Node | None
    problems: tuple[Problem, ...]
    lines: Lines


@dataclass(frozen=True, slots=True)
class LoadedPiece:
    """A piece that may run. ``hash`` is that of the canonical piece, ``problems`` are warnings and infos."""

    piece: Piece
    yaml_bytes: bytes
    path: Path
    hash: str
    source: Source
    problems: tuple[Problem, ...]


def shipped_folder() -> Path:
    """The pieces that come with the product: in the wheel, else in the source checkout."""
    here = Path(__file__).resolve().parent
    packaged = here / "builtin_pieces"
    return packaged if packaged.is_dir() else here.parent / "pieces"


def default_dirs(workspace: Path | None, trusted: bool, pieces_dirs: Collection[Path] = ()) -> PieceDirs:
    """The usual places: the platform's user config folder, then ``pieces_dirs`` of the config, then the
    shipped pieces.
    """
    from platformdirs import user_config_path

    user = user_config_path("maestro-lsp", appauthor=False) / "pieces"
    return PieceDirs(workspace, trusted, (user, *pieces_dirs), shipped_folder())


def check_text(
    text: str | bytes, file_name: str | None = None, known_tools: Collection[str] | None = None
) -> CheckedPiece:
    """Validate the text of a piece file: what the editor, ``lint`` and the loader all see.

    ``file_name`` (a name or a path) is compared with the piece's ``name``; ``known_tools`` None leaves tool
    names unjudged. Never raises on content.
    """
    read = read_tree(text)
    if read.root is None:
        return CheckedPiece(None, None, read.problems, read.lines)
    stem = Path(file_name).stem if file_name else None
    piece, problems = check(read.root, file_stem=stem, known_tools=known_tools)
    return CheckedPiece(piece, read.root, problems, read.lines)


def list_pieces(dirs: PieceDirs, known_tools: Collection[str] | None = None) -> list[PieceEntry]:
    """Every piece that can be named, by name, with its source, what it shadows and its problems. Unreadable
    folders hold none.
    """
    found: dict[str, list[tuple[Source, Path]]] = {}
    for source, path in _files(dirs):
        found.setdefault(path.stem, []).append((source, path))
    return [_entry(name, hits, dirs, known_tools) for name, hits in sorted(found.items())]


def load_piece(name_or_file: str, dirs: PieceDirs, known_tools: Collection[str] | None = None) -> LoadedPiece:
    """The piece called ``name_or_file``, or in that file (an ending in .yaml or .yml, or a path separator,
    makes it a file;
    relative to the folder of this process).

    Raises ``NotFound`` (``data.known``, ``data.near``), ``NotTrusted`` for a piece of a workspace that is
    not trusted, and ``FaultyPiece`` (``data.problems``; ``path``, ``line`` and ``column`` of the first,
    counted from 1, among the values).
    """
    return _loaded(*_find(name_or_file, dirs), dirs, known_tools)


def load_named(name: str, dirs: PieceDirs, known_tools: Collection[str] | None = None) -> LoadedPiece:
    """The piece called ``name``, never a file that is named by its path: what a model may ask for. Raises as
    ``load_piece``.
    """
    return _loaded(*_find_named(name, dirs), dirs, known_tools)


def _loaded(source: Source, path: Path, dirs: PieceDirs, known_tools: Collection[str] | None) -> LoadedPiece:
    data, fault = _read(path, _bounds(source, dirs))
    if fault or data is None:
        checked = CheckedPiece(None, None, (fault,) if fault else (), Lines(""))
    else:
        checked = check_text(data, path.name, known_tools)
    if checked.piece is None or data is None:
        raise _faulty(path, checked)
    return LoadedPiece(checked.piece, data, path, piece_hash(checked.piece), source, checked.problems)


def piece_text(name: str, dirs: PieceDirs) -> tuple[Source, bytes]:
    """Where the piece called ``name`` is from, and its file, sound or not. Raises ``NotFound``,
    ``NotTrusted``, and ``FaultyPiece`` for a file that cannot be read.
    """
    source, path = _find_named(name, dirs)
    data, fault = _read(path, _bounds(source, dirs))
    if data is None:
        raise _faulty(path, CheckedPiece(None, None, (fault,) if fault else (), Lines("")))
    return source, data


def _folders(dirs: PieceDirs) -> Iterator[tuple[Source, Path]]:
    if dirs.workspace is not None and dirs.trusted:
        yield "workspace", dirs.workspace / WORKSPACE_FOLDER
    for folder in dirs.user:
        yield "user", folder
    if dirs.shipped is not None:
        yield "shipped", dirs.shipped


def _files(dirs: PieceDirs) -> Iterator[tuple[Source, Path]]:
    """All piece files in the order of the lookup."""
    for source, folder in _folders(dirs):
        for path in _in_folder(folder):
            yield source, path


def _in_folder(folder: Path) -> list[Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in paths if path.suffix in SUFFIXES and not path.name.startswith(".")]


def _find(name: str, dirs: PieceDirs) -> tuple[Source, Path]:
    if name.endswith(SUFFIXES) or "/" in name or os.sep in name:
        return _find_file(Path(name), dirs)
    return _find_named(name, dirs)


def _find_named(name: str, dirs: PieceDirs) -> tuple[Source, Path]:
    for source, path in _files(dirs):
        if path.stem == name:
            return source, path
    if (
        dirs.workspace
        and not dirs.trusted
        and any(p.stem == name for p in _in_folder(dirs.workspace / WORKSPACE_FOLDER))
    ):
        raise NotTrusted("piece.not_trusted", name=name, workspace=str(dirs.workspace))
    known = sorted({path.stem for _, path in _files(dirs)})
    if near := nearest(name, known):
        data = {"id": name, "known": known, "near": near}
        raise NotFound("piece.not_found_near", data=data, name=shown(name), near=near, known=", ".join(known))
    raise NotFound(
        "piece.not_found", data={"id": name, "known": known}, name=shown(name), known=", ".join(known)
    )


def _find_file(path: Path, dirs: PieceDirs) -> tuple[Source, Path]:
    if not _is_there(path):
        known = sorted({found.stem for _, found in _files(dirs)})
        raise NotFound("piece.no_such_file", data={"id": str(path), "known": known}, path=shown(str(path)))
    if dirs.workspace and path.resolve().is_relative_to(dirs.workspace.resolve()):
        if not dirs.trusted:
            raise NotTrusted("piece.not_trusted", name=str(path), workspace=str(dirs.workspace))
        return "workspace", path
    return "file", path


def _is_there(path: Path) -> bool:
    """Also for names no file can have; a file behind a closed folder counts, so that reading it says why."""
    try:
        path.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _bounds(source: Source, dirs: PieceDirs) -> Path | None:
    """The folder a file must really lie in. Only the workspace is bound: elsewhere the files, and the
    links, are the person's own.
    """
    return dirs.workspace if source == "workspace" else None


def _read(path: Path, bounds: Path | None) -> tuple[bytes | None, Problem | None]:
    """The bytes of a regular file of bounded size, or the problem that stands for it."""
    problem = partial(Problem, "error", span=_NOWHERE)
    try:
        real = path.resolve(strict=True)
        if bounds is not None and not real.is_relative_to(bounds.resolve()):
            return None, problem(code="link_outside", values={"path": str(path)})
        if not stat.S_ISREG(real.stat().st_mode):
            return None, problem(code="not_regular", values={"path": str(path)})
        handle = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None, problem(code="not_regular", values={"path": str(path)})
            return file.read(MAX_BYTES + 1), None
    except (OSError, RuntimeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return None, problem(code="unreadable", values={"path": str(path), "why": why})


def _entry(
    name: str, hits: list[tuple[Source, Path]], dirs: PieceDirs, known_tools: Collection[str] | None
) -> PieceEntry:
    (source, path), *hidden = hits
    data, fault = _read(path, _bounds(source, dirs))
    piece: Piece | None = None
    problems: tuple[Problem, ...] = (fault,) if fault else ()
    if data is not None:
        checked = check_text(data, path.name, known_tools)
        piece, problems = checked.piece, checked.problems
    shadows = tuple(other for other, _ in hidden)
    description, keywords = (piece.description, piece.triggers) if piece else ("", ())
    return PieceEntry(name, path, source, shadows, description, problems, keywords)


def _faulty(path: Path, checked: CheckedPiece) -> FaultyPiece:
    errors = [problem for problem in checked.problems if has_errors((problem,))]
    first = errors[0]
    data = {
        "path": str(path),
        "problems": [problem_data(problem, checked.lines) for problem in checked.problems],
    }
    place = {"line": str(first.span.line + 1), "column": str(first.span.column + 1)}
    return FaultyPiece("piece.faulty", data=data, path=str(path), count=str(len(errors)), **place)
