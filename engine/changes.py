"""What a job changed: its snapshots against the files as they are now."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from engine.core.views import FileChanged

_SHOWN = 1024 * 1024


def compare(
    workspace: Path, snapshots: Sequence[tuple[str, bytes | None, int | None, str | None]]
) -> list[FileChanged]:
    """Each changed file with its text before and now (None for none, or for one too large or binary to
    show).
    """
    changed: list[FileChanged] = []
    for path, before, _mode, after_hash in snapshots:
        now = _read(workspace / path)
        if before == now:
            continue
        status = "added" if before is None else "deleted" if now is None else "modified"
        texts = [_text(before), _text(now)]
        binary = (before is not None and texts[0] is None) or (now is not None and texts[1] is None)
        current = None if now is None else hashlib.sha256(now).hexdigest()
        changed.append(
            FileChanged(
                path=path,
                status=status,
                before=texts[0],
                after=texts[1],
                binary=binary,
                current_matches=current == after_hash,
            )
        )
    return changed


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None


def _text(data: bytes | None) -> str | None:
    if data is None or b"\0" in data or len(data) > _SHOWN:
        return None
    return data.decode("utf-8", "replace")
