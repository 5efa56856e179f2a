"""Edits: the bytes outside the edited place stay as they are and the new text is read where it was put, or
nothing is written and the result says why.
"""

from __future__ import annotations

import asyncio
import codecs
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from engine.core.tooling import ToolResult
from engine.tools.files import EDIT, READ
from engine.tools.textio import plain
from tests.tools.world import World

EXAMPLES = 60
JAPANESE = ["日本語", "が", "追加する", "テスト", "、", "設定を変更", "ー", "①", "～", "ｱｲ"]
LATIN = ["é", "ñandú ", "Straße", "à la carte", "Ü", "naïve ", "€", "’"]
ASCII = ["a", "b", "aa", "x = 1", "}", "{", " ", "  ", "\t", "end", "0", "\\", "~", "\n", "\n", "\r\n", "\r"]
ANY = [*JAPANESE, *LATIN, "😀", "👨‍👩‍👧", "か\u3099", "e\u0301", "한국어", "\u2028", "“q”", "–"]
ENCODINGS: dict[str, tuple[bytes, list[str]]] = {
    "utf-8": (b"", ANY),
    "utf-8-sig": (codecs.BOM_UTF8, ANY),
    "utf-16-le": (codecs.BOM_UTF16_LE, ANY),
    "utf-16-be": (codecs.BOM_UTF16_BE, ANY),
    "utf-16-le bare": (b"", ANY),
    "utf-16-be bare": (b"", ANY),
    "utf-32-le": (codecs.BOM_UTF32_LE, ANY),
    "cp932": (b"", JAPANESE),
    "euc_jp": (b"", JAPANESE),
    "euc_jis_2004": (b"", JAPANESE),
    "iso2022_jp": (b"", JAPANESE),
    "iso2022_jp_ext": (b"", JAPANESE),
    "cp1252": (b"", LATIN),
    "latin-1": (b"", LATIN),
}
SHIFTS = (b"\x1b(B", b"\x1b(J", b"\x1b(I", b"\x1b$B", b"\x1b$@")


@dataclass(frozen=True, slots=True)
class Edit:
    """A file of three parts, the middle one of which is to be replaced, and perhaps ``bad`` bytes at its end
    that are no text. ``whole``: every place is to be replaced.
    """

    encoding: str
    head: str
    old: str
    tail: str
    new: str
    bad: bytes
    whole: bool


@st.composite
def _edits(draw: st.DrawFn) -> Edit:
    encoding = draw(st.sampled_from(sorted(ENCODINGS)))
    letters = ENCODINGS[encoding][1]
    pieces = st.sampled_from([*ASCII, *letters, *letters])

    def text(least: int, most: int) -> st.SearchStrategy[str]:
        return st.lists(pieces, min_size=least, max_size=most).map("".join)

    new = st.lists(st.sampled_from([*ASCII, *letters, *ANY, "\ufeff"]), max_size=4).map("".join)
    bad = draw(st.sampled_from(BAD)) if encoding in ("utf-8", "utf-8-sig", "cp932", "euc_jp") else b""
    return Edit(
        encoding, draw(text(0, 30)), draw(text(1, 5)), draw(text(0, 30)), draw(new), bad, draw(st.booleans())
    )


BAD = [b"", b"", b"", b"\xff", b"\x80\xfe"]
strategy = _edits()


def check(example: Edit) -> None:
    """Writes the file, edits it with the tools themselves, and compares bytes."""
    codec = example.encoding.removesuffix(" bare").removesuffix("-sig")
    mark = ENCODINGS[example.encoding][0]
    try:
        first, last = (part.encode(codec) for part in (example.head, example.tail))
        data = mark + (example.head + example.old + example.tail).encode(codec) + example.bad
    except UnicodeEncodeError:
        return
    after, result = asyncio.run(_edited(example, data))
    if result.is_error or after == data:
        assert after == data, "an error and a change"
        assert len(result.text) > 20, "no reason"
        return
    plain_ascii = data.isascii() and not {0, 0x1B} & set(data)
    _check_text(example, "utf-8" if plain_ascii else codec, after[len(mark) :])
    if not example.whole and not _torn(example):
        assert after.startswith(mark + outside(first, ends=True)), "bytes before the place changed"
        assert after.endswith(outside(last, ends=False) + example.bad), "bytes after the place changed"


async def _edited(example: Edit, data: bytes) -> tuple[bytes, ToolResult]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "w"
        root.mkdir()
        world = World(root)
        path = world.write("a", data)
        seen = await world.call(READ, file_path="a")
        assert "\ufeff" not in seen.text, "the mark is shown"
        result = await world.call(
            EDIT,
            file_path="a",
            old_string=example.old,
            new_string=example.new,
            replace_all=example.whole,
        )
        assert [entry.name for entry in root.iterdir() if entry.name != ".maestro"] == ["a"]
        return path.read_bytes(), result


def _check_text(example: Edit, codec: str, body: bytes) -> None:
    """What is there now is what was asked for, read in the encoding that the file has."""
    bad = len(example.bad)
    text = plain(body[: len(body) - bad].decode(codec))
    seen = plain(example.head + example.old + example.tail)
    old, new = plain(example.old), plain(example.new)
    if old not in seen:
        return
    places = [at for at in range(len(seen)) if seen.startswith(old, at)]
    wanted = [seen.replace(old, new)] if example.whole else [_put(seen, at, old, new) for at in places]
    assert _one_form(text) in [_one_form(one) for one in wanted], (text, wanted)


def _put(text: str, at: int, old: str, new: str) -> str:
    return text[:at] + new + text[at + len(old) :]


def _one_form(text: str) -> str:
    """Where an encoding has another code point for a character of JIS, that is the one it was given; and a
    byte order mark is no text.
    """
    return text.translate(str.maketrans("～－∥―￠￡￢￥￣￤", "〜−‖—¢£¬¥‾¦", "\ufeff"))


def _torn(example: Edit) -> bool:
    """Whether a border of the place lies inside a line end of two characters."""
    whole = (example.head[-1:] + example.old[:1], example.old[-1:] + example.tail[:1])
    return "\r\n" in whole


def outside(part: bytes, *, ends: bool) -> bytes:
    """The bytes of a part without the escape sequence at its border with the place, which belongs to both."""
    for shift in SHIFTS:
        part = part.removesuffix(shift) if ends else part.removeprefix(shift)
    return part
