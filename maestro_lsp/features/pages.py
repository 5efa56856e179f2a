"""The documents a request opens: ``ASK.md``, whose saved text is the answer, and the details of an approval.

Both are copies in the task's folder; the store is the authority. Links on the way there are refused: a
workspace must not be able to point our writing elsewhere.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from lsprotocol.types import MessageType

from engine import EngineError, Request, explain, task_dir
from maestro_lsp.convert import path_of, uri_of
from maestro_lsp.display import details, fenced, lines, plain, subject
from maestro_lsp.documents import disk_text, real_path
from maestro_lsp.ground.rpc import ClientError
from maestro_lsp.session import Session

ASK_NAME = "ASK.md"
_MARKER = re.compile(r"^<!-- maestro:answer (r-\w+) -->.*$", re.MULTILINE)
_SHOW_SECONDS = 10.0


class Pages:
    """Writes and opens the documents of requests, and takes what is saved in them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def open_answer(self, request: Request, title: str) -> None:
        """Write ``ASK.md`` with the question and a line below which the answer goes, and open it."""
        say = self._session.say
        parts = [f"# {lines(plain(title))}"]
        if "\n" in title.strip():
            parts.append(fenced(title, ""))
        if request.options:
            parts.append(
                "\n".join([f"{say('lsp.ask.options')}:", "", *(f"- {plain(o)}" for o in request.options)])
            )
        parts.append(f"---\n\n*{say('lsp.ask.marker')}*")
        parts.append(f"<!-- maestro:answer {request.request_id} -->")
        await self._open(request, ASK_NAME, "\n\n".join(parts) + "\n\n", "lsp.ask", writable=True)

    async def open_details(self, request: Request) -> None:
        """Write a page that says everything about a request, and open it."""
        text = details(request, request.title, request.why, request.rule or "", self._session.say)
        await self._open(request, f"logs/{request.request_id}.md", text, "lsp.details", writable=False)

    def is_answer(self, uri: str) -> bool:
        """Whether a document may be an ``ASK.md`` of ours."""
        path = path_of(uri)
        return path is not None and path.name == ASK_NAME

    async def saved(self, uri: str, text: str | None) -> None:
        """An ``ASK.md`` was saved, with this text if it is open: what is below its line is the answer."""
        path = path_of(uri)
        assert path is not None
        try:
            client = await self._session.client()
        except EngineError:
            return  # told already, and the answer stays in its file
        folder = await asyncio.to_thread(real_path, path.parent)
        if folder.parent != client.workspace / ".maestro" / "tasks":
            return
        if text is None:
            text = await asyncio.to_thread(disk_text, path)
        found = _MARKER.search(text or "")
        if text is None or found is None or not (answer := text[found.end() :].strip()):
            return
        try:
            request = await client.request(found[1])
            if request.task_id != folder.name:
                return  # a copy that lies with another task
            await client.answer(request.job_id, answer, request.request_id)
        except EngineError as error:
            self._session.show(MessageType.Info, explain(error, self._session.language))
        else:
            self._session.acted(request.job_id)

    async def _open(self, request: Request, name: str, text: str, key: str, *, writable: bool) -> None:
        session = self._session
        workspace = (await session.client()).workspace
        path = task_dir(workspace, request.task_id) / name
        about, shown = subject(request.task_id), str(path.relative_to(workspace))
        try:
            await asyncio.to_thread(write_page, workspace, path, text, writable)
        except OSError as error:
            why = error.strerror or type(error).__name__
            text = session.say(f"{key}.unwritable", subject=about, path=shown, why=why)
            session.show(MessageType.Error, text)
            return
        if not (
            session.can.documents and await _shown(session.server.client_request(*_show(path, writable)))
        ):
            session.show(MessageType.Info, session.say(f"{key}.open", subject=about, path=shown))


def _show(path: Path, writable: bool) -> tuple[str, dict[str, object]]:
    return "window/showDocument", {"uri": uri_of(path), "external": False, "takeFocus": writable}


async def _shown(asked: Awaitable[object]) -> bool:
    with suppress(ClientError, TimeoutError):
        async with asyncio.timeout(_SHOW_SECONDS):
            answer = await asked
            return isinstance(answer, dict) and answer.get("success") is True
    return False


def write_page(workspace: Path, path: Path, text: str, writable: bool) -> None:
    """Write a document into a task's folder. Raises ``OSError``, also for a link on the way there."""
    folder = workspace
    for part in path.parent.relative_to(workspace).parts:
        folder = folder / part
        if folder.is_symlink():
            raise OSError(errno.ELOOP, f"{folder.name} is a link", str(folder))
        folder.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags, 0o644 if writable else 0o444)
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
