"""``maestro-lsp demo``: the main job on the scripted model, without a key and without a network.

The model's replies are scripted. Everything else is real: the language server, the engine process, HTTP, the
store, the files, the tests that are run.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run the demo; 0 only if the task succeeded and the sample's tests pass afterwards."""
    from maestro_lsp.demo.show import run

    return run(argv)
