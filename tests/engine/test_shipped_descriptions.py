"""What the shipped pieces are for is told in the reader's language; English is what their files say."""

from __future__ import annotations

from engine import BUILTIN_NAMES, catalogue, default_dirs, list_pieces


def test_every_shipped_piece_is_described_in_both_languages() -> None:
    shipped = list_pieces(default_dirs(None, False, []), BUILTIN_NAMES)
    assert {entry.name for entry in shipped} >= {"general", "chat", "code", "review"}
    for entry in shipped:
        assert catalogue("en")(f"shipped.{entry.name}") == entry.description.strip()
        assert catalogue("ja")(f"shipped.{entry.name}") != entry.description
