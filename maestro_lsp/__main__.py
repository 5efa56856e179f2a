"""The command `maestro-lsp`, also as `python -I -m maestro_lsp`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from maestro_lsp import __version__
from maestro_lsp.identity import check_packages


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; its exit status (the table in ``maestro_lsp.cli.errors``)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    check_packages()
    if arguments == ["--version"]:
        sys.stdout.write(f"maestro-lsp {__version__}\n")
        return 0
    try:
        from maestro_lsp.cli.dispatch import dispatch

        return dispatch(arguments)
    except KeyboardInterrupt:  # while modules are still being loaded
        return 130


if __name__ == "__main__":
    sys.exit(main())
