"""Commands in processes that are forked from one that has imported everything: the real command, real
arguments, environment, folder and descriptors, without the third of a second in which Python starts.

Run as a script this is the process that forks; imported, it is the side of the tests.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

DEADLINE = 20.0
_LENGTH = 8


class Warm:
    """The forking process, seen from the tests."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(DEADLINE)
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], text: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `maestro-lsp` to its end. Raises ``TimeoutError`` (and ends it) after the deadline."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(text.encode())
            given.seek(0)
            order = json.dumps({"argv": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
            fds = [file.fileno() for file in (given, out, err)]
            socket.send_fds(self._socket, [len(order).to_bytes(_LENGTH)], fds)
            self._socket.sendall(order)
            pid = int.from_bytes(_receive(self._socket, _LENGTH))
            try:
                status = int.from_bytes(_receive(self._socket, _LENGTH), signed=True)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                _receive(self._socket, _LENGTH)
                raise
            return subprocess.CompletedProcess(list(arguments), status, _text(out), _text(err))

    def close(self) -> None:
        """End the forking process."""
        self._socket.close()
        self._process.wait(timeout=10)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8")


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _serve(connection: socket.socket) -> None:
    """Fork for every order until the tests hang up."""
    while True:
        head, ancillary, _, _ = connection.recvmsg(_LENGTH, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if not head:
            return
        fds = array.array("i")
        for _, _, data in ancillary:
            fds.frombytes(data)
        order = json.loads(_receive(connection, int.from_bytes(head)))
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(order, list(fds))
        for fd in fds:
            os.close(fd)
        connection.sendall(pid.to_bytes(_LENGTH))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(status.to_bytes(_LENGTH, signed=True))


def _become(order: dict[str, Any], fds: list[int]) -> NoReturn:
    status = 1
    try:
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
            os.close(fd)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(fd, mode, encoding="utf-8", closefd=False)
            for fd, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["maestro-lsp", *order["argv"]]
        from maestro_lsp.__main__ import main

        try:
            status = main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _import_everything() -> None:
    import importlib
    import pkgutil

    import maestro_lsp.cli

    for name in (
        *("engine.service", "engine.llm.openai", "engine.llm.check", "maestro_lsp.protocol"),
        *(f"maestro_lsp.cli.{entry.name}" for entry in pkgutil.iter_modules(maestro_lsp.cli.__path__)),
    ):
        importlib.import_module(name)


if __name__ == "__main__":
    _import_everything()
    with socket.socket(fileno=int(sys.argv[1])) as mine:
        _serve(mine)
