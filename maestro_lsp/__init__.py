"""The LSP and command-line side of maestro-lsp.

Nothing is imported here: `maestro_lsp.identity` must be able to run before anything else is found.
"""

__version__ = "0.1.0"
