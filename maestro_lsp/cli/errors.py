"""The one place where what went wrong becomes a sentence on stderr and an exit status (``interface.md``)."""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine import EngineError, FaultyPiece, catalogue, explain, state_dir
from maestro_lsp.cli.terminal import Terminal
from maestro_lsp.display import MESSAGE_LIMIT, clip
from maestro_lsp.faults import os_fault

SUCCEEDED, FAILED, WRONG, PARKED, CANCELLED = 0, 1, 2, 3, 4
INTERRUPTED = 130
EXIT_OF_STATUS: Mapping[str, int] = {
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "aborted": FAILED,
    "waiting_human": PARKED,
    "waiting_subtasks": PARKED,
    "cancelled": CANCELLED,
}
"""What a job's status means for the shell."""

_LOG_BYTES = 1024 * 1024


def guarded(terminal: Terminal, act: Callable[[], int]) -> int:
    """Run a verb; its exit status. A mistake is one sentence, a closed pipe and Ctrl-C are silent."""
    try:
        status = act()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _drop_stdout()
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        sentence, status = told(error, terminal.language)
        terminal.mistake(sentence)
        try:
            sys.stdout.flush()
        except OSError:  # what is left of a full disk's output would be tried once more at the end
            _drop_stdout()
        return status


def told(error: BaseException, language: str) -> tuple[str, int]:
    """The sentence and the exit status of an error. What nobody foresaw is written to the log first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case FaultyPiece():
            return faulty(error, language), error.exit_status
        case EngineError():
            return clip(explain(error, language), MESSAGE_LIMIT), error.exit_status
        case _ if (fault := os_fault(error)) is not None:
            log_error(error)
            return explain(fault, language), fault.exit_status
        case OSError(errno=errno.ENOSPC):
            return catalogue(language)("cli.output_full"), FAILED
        case _:
            return catalogue(language)(
                "cli.unexpected", error=type(error).__name__, log=log_error(error)
            ), FAILED


def faulty(error: FaultyPiece, language: str) -> str:
    """The first fault of a piece with its place and its mend, as compilers say it."""
    texts = catalogue(language)
    problems: list[Any] = [p for p in _problems(error) if p["severity"] == "error"]
    if not problems:
        return explain(error, language)
    values = {name: str(error.values[name]) for name in ("path", "line", "column")}
    problem = texts(problems[0]["key"], **problems[0]["values"])
    key = "cli.faulty_one" if len(problems) == 1 else "cli.faulty_more"
    return texts(key, problem=problem, count=len(problems) - 1, **values)


def _problems(error: FaultyPiece) -> list[Any]:
    problems = error.data.get("problems")
    return list(problems) if isinstance(problems, list) else []


def log_file() -> Path:
    """Where tracebacks go."""
    return state_dir() / "maestro-lsp.log"


def log_error(error: BaseException) -> str:
    """Append a traceback to the log; where it is, or ``-`` if it cannot be written."""
    try:
        _append("".join(traceback.format_exception(error)))
    except OSError:
        return "-"
    return str(log_file())


def _append(text: str) -> None:
    path = log_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    if path.is_file() and path.stat().st_size > _LOG_BYTES:
        flags |= os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8", errors="replace") as file:
        file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {text.rstrip()}\n")


class LogFile(logging.Handler):
    """What an engine inside a command logs: to the file, because the terminal is the person's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record; a log that cannot be written stops nothing."""
        with suppress(OSError):
            _append(self.format(record))


def log_to_file() -> None:
    """Keep the engine's log off the terminal."""
    handler = LogFile()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)


def _drop_stdout() -> None:
    """Nobody reads any more: keep the interpreter from complaining about it at its end."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
