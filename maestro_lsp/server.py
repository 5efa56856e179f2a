"""The language server, put together: one session, its features, and the loop on stdio."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from engine import EngineError, IllegalMove, NotFound
from maestro_lsp import __version__
from maestro_lsp.convert import rpc_error
from maestro_lsp.documents import Change, Place
from maestro_lsp.features.commands import cancel_job, dispatch
from maestro_lsp.features.pages import Pages
from maestro_lsp.features.pieces import Pieces
from maestro_lsp.features.requests import Desk
from maestro_lsp.protocol import COMMANDS, PROTOCOL_VERSION
from maestro_lsp.repairs import RepairedServer
from maestro_lsp.session import Session
from maestro_lsp.settings import LOG_LEVEL
from maestro_lsp.stdio import serve_stdio

logger = logging.getLogger(__name__)

NAME = "maestro-lsp"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How the server is run: where its log goes (stderr if no file is named), and from which level on."""

    log_file: Path | None = None
    log_level: str = "info"


def serve(options: ServeOptions) -> int:
    """Serve one client on stdin and stdout to the end; the exit status. Raises ``OSError`` for a log file
    that cannot be written.
    """
    if options.log_file is not None:
        # All that is said on stderr goes there, the engine process's log too, which inherits it.
        file = os.open(options.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, sys.stderr.fileno())
        os.close(file)
    os.environ[LOG_LEVEL] = options.log_level  # for the engine process
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.getLogger("pygls").setLevel(logging.WARNING)  # it tells every feature it registers
    logging.basicConfig(level=options.log_level.upper(), format=form, stream=sys.stderr)
    return serve_stdio(make_server())


def make_server() -> RepairedServer:
    """A server that waits for its client."""
    experimental = {"maestro": {"protocol": PROTOCOL_VERSION}}
    server = RepairedServer(NAME, __version__, experimental=experimental)
    session = Session(server)
    pages = Pages(session)
    session.listener = Desk(session, pages)
    server.set_dispatcher(
        list(COMMANDS), partial(_run, session), lambda error: rpc_error(error, session.language)
    )
    server.on_stop(session.close)
    _register_life(server, session)
    pieces = Pieces(session)
    _register_documents(server, session, pages, pieces)
    _register_pieces(server, pieces)
    return server


async def _run(session: Session, command: str, arguments: list[object]) -> object:
    """A command. A person's mistake is an answer, no failure of ours that the log would have to explain."""
    try:
        return await dispatch(session, command, arguments)
    except EngineError as error:
        logger.info("%s: %s", command, error.key)
        code, sentence, data = rpc_error(error, session.language)
        raise JsonRpcException(sentence, code, data) from None


def _register_life(server: RepairedServer, session: Session) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.initialize(params)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        await session.begin()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        session.new_settings(params.settings)

    @server.feature(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    async def cancelled(params: types.WorkDoneProgressCancelParams) -> None:
        await session.client()
        job_id = session.bridge.token_job(params.token)
        if job_id is None:
            return  # clients send this for any token, also for those of the past
        try:
            await cancel_job(session, job_id)
        except (IllegalMove, NotFound):
            logger.info("%s had ended before it was cancelled", job_id)


def _register_documents(server: RepairedServer, session: Session, pages: Pages, pieces: Pieces) -> None:
    """All plain functions: an async one begins later than it is called, maybe after the next change."""
    documents = session.documents

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        found = params.text_document
        documents.opened(found.uri, found.version, found.text)
        session.background.spawn(documents.check_opened(found.uri))
        pieces.look(found.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        changes = [_change(change) for change in params.content_changes]
        documents.changed(params.text_document.uri, params.text_document.version, changes)
        pieces.look(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=False))
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        documents.saved(uri, params.text)
        if pages.is_answer(uri):
            session.background.spawn(pages.saved(uri, documents.text(uri)))

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        documents.closed(params.text_document.uri)
        pieces.closed(params.text_document.uri)


def _register_pieces(server: RepairedServer, pieces: Pieces) -> None:
    quick_fixes = types.CodeActionOptions([types.CodeActionKind.QuickFix])

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, quick_fixes)
    async def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await pieces.fixes(params)


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return Change(change.text)
    start, end = change.range.start, change.range.end
    return Change(change.text, Place(start.line, start.character), Place(end.line, end.character))
