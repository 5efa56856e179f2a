"""Where an API key is found: in the variable that is named, else under that name in the keyring of the OS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module

SERVICE = "maestro-lsp"
"""The keyring's entries: this service, and the variable's name as user name."""

_VARIABLE = re.compile(r"[A-Z][A-Z0-9]{0,11}|_*[A-Z][A-Z0-9]*(_[A-Z0-9]+){1,8}")


def is_variable_name(name: str) -> bool:
    """Whether a text is surely the name of a variable, not a key that was pasted in its place."""
    return _VARIABLE.fullmatch(name) is not None


def key_named(environ: Mapping[str, str], name: str) -> str:
    """The key called ``name``; empty if there is none. May wait for the person to unlock the keyring, so it
    never runs on an event loop.

    The keyring is asked only if the package ``keyring`` is installed beside us (the extra of that name).
    """
    if key := environ.get(name, "").strip():
        return key
    if not is_variable_name(name):
        return ""
    try:
        found = import_module("keyring").get_password(SERVICE, name)
    except ImportError:
        return ""
    except Exception:  # backends raise what they like; a keyring that does not answer holds no key
        return ""
    return str(found or "").strip()
