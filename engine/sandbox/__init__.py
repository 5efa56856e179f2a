"""How commands are held in: adapters of ``engine.ports.Commands``, one for each level of the policy."""

from engine.sandbox.none import NoSandbox


def sandbox_level() -> str:
    """The level at which commands run on this machine (``A``, ``B`` or ``C``); there is only C so far."""
    return NoSandbox.level
