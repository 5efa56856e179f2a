"""Is the `engine` that Python would import our own?

`engine` is a common name. A folder `engine/` in the working directory wins over ours when Python is started
without `-I`, and anywhere on `PYTHONPATH` it wins even for the console script (measured). Running somebody
else's package by mistake would be worse than not starting, so the command line asks here first.

The two sentences stand here and not in the catalogue: that lies in the very package that is in doubt.
"""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec

import maestro_lsp

_HIDDEN = {
    "en": "maestro-lsp: another package named 'engine' at {found} hides its own; "
    "start maestro-lsp with `python -I -m maestro_lsp`, or take the folder {parent} out of PYTHONPATH.",
    "ja": "maestro-lsp: {found} にある別の 'engine' パッケージが maestro-lsp のものを隠しています。"
    "`python -I -m maestro_lsp` で起動するか、PYTHONPATH から {parent} を外してください。",
}
_MISSING = {
    "en": "maestro-lsp: its package 'engine' is missing in {parent}; "
    "install maestro-lsp again, in an environment of its own.",
    "ja": "maestro-lsp: {parent} に maestro-lsp のパッケージ 'engine' がありません。"
    "専用の環境に maestro-lsp を入れ直してください。",
}


def check_packages() -> None:
    """Ends the process with status 2 and one sentence unless `engine` lies beside `maestro_lsp`.

    Call it before the first `import engine`: the package is looked up, never run. Raises SystemExit.
    """
    home = _parent(_parent(maestro_lsp.__file__))
    found = _place(importlib.util.find_spec("engine"))
    if found is None:
        _stop(_MISSING, parent=home)
    elif _parent(found) != home:
        _stop(_HIDDEN, found=found, parent=_parent(found))


def _place(spec: ModuleSpec | None) -> str | None:
    """The folder of the package or the file of the module that would be imported, None if there is none."""
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return os.path.realpath(spec.origin) if spec.origin else None
    if spec.origin is not None:
        return _parent(spec.origin)
    folders = list(spec.submodule_search_locations)
    return os.path.realpath(folders[0]) if folders else None


def _parent(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))  # noqa: PTH120 - pathlib would cost start-up time


def _stop(sentences: dict[str, str], **names: str) -> None:
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    sentence = sentences["ja" if locale.lower().startswith("ja") else "en"].format(**names)
    sys.stderr.write(sentence + "\n")
    raise SystemExit(2)
