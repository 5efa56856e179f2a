"""The text of a file and the bytes behind it: which encoding, which line ends, and how a piece of it is
replaced.

Pure. What is not touched by a replacement keeps its very bytes: the new bytes are put between slices of the
old ones.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from engine.core.truncate import first_characters

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NAMES = {
    "cp932": "Shift_JIS",
    "euc_jp": "EUC-JP",
    "iso2022_jp": "ISO-2022-JP",
    "cp1252": "Windows-1252",
    "latin-1": "unknown",
}
_JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
_JAPANESE_RUN = re.compile(r"[\u3001-\u30ff\u4e00-\u9fff]{2,}")
_DOUBTFUL = re.compile(r"[\uff61-\uff9f\ue000-\uf8ff\u0080-\u00a0\u0370-\u04ff\u2500-\u257f]")
_HIGH = re.compile(rb"[\x80-\xff]")
_LATIN_LETTER = re.compile(rb"[A-Za-z][\xc0-\xff](?![\x80-\xff])|(?<![\x80-\xff])[\xc0-\xff][A-Za-z]")
_SHORT_RUN = re.compile(rb"(?<![\x80-\xff])[\x80-\xff]{1,2}(?![\x80-\xff])")
_LINE_END = re.compile(r"\r\n|\r|\n")
_ISO_2022 = re.compile(rb"\x1b\$[@B]")


@dataclass(frozen=True, slots=True)
class Charset:
    """How a file encodes its text. ``certain`` is False where the encoding is a guess good enough to read,
    not to write.
    """

    name: str
    bom: bytes = b""
    certain: bool = True

    @property
    def errors(self) -> str:
        """How undecodable bytes are kept so that they encode to the same bytes again."""
        if self.name in ("utf-8", "cp932", "euc_jp", "cp1252"):
            return "surrogateescape"
        return "surrogatepass" if self.name.startswith("utf-") else "strict"

    @property
    def shown(self) -> str:
        """The encoding as a person calls it, or an empty text for plain UTF-8."""
        name = _NAMES.get(self.name, self.name.upper())
        return "" if self.name == "utf-8" else name

    def decode(self, data: bytes) -> str:
        """The text of ``data`` (without BOM)."""
        return data.decode(self.name, self.errors)

    def encode(self, text: str) -> bytes:
        """The bytes of ``text`` (without BOM). Raises ``UnicodeEncodeError`` for what the encoding cannot
        say.
        """
        return text.encode(self.name, self.errors)


UTF8 = Charset("utf-8")


def detect(sample: bytes, *, whole: bool = True) -> Charset | None:
    """The encoding of a file by its bytes, or by its first bytes if not ``whole``; None for a binary file.

    UTF-8 where it is valid; Shift_JIS, EUC-JP, ISO-2022-JP and Windows-1252 only where the text makes sense
    in exactly one of them; else Latin-1, which is not ``certain``.
    """
    for bom, name in _BOMS:
        if sample.startswith(bom):
            return (
                Charset(name, bom) if _decodes(sample[len(bom) :], name, whole) or name == "utf-8" else None
            )
    if b"\0" in sample:
        return None
    if _ISO_2022.search(sample) and _decodes(sample, "iso2022_jp", whole):
        return Charset("iso2022_jp")
    if not _HIGH.search(sample) or _decodes(sample, "utf-8", whole):
        return UTF8
    return _legacy(sample, whole)


def _legacy(sample: bytes, whole: bool) -> Charset:
    valid = [name for name in ("cp932", "euc_jp") if _decodes(sample, name, whole)]
    scores = {name: _japanese(sample, name) for name in valid}
    good = [name for name in valid if scores[name] >= 0.8]
    if len(good) == 1:
        return Charset(good[0])
    multibyte = len(sample.decode("utf-8", "ignore").encode()) - len(_HIGH.sub(b"", sample))
    if multibyte * 2 > len(_HIGH.findall(sample)):
        # UTF-8 with damage in it. Where there is much damage and another encoding reads it all, none is sure.
        doubtful = valid and multibyte * 3 < len(_HIGH.findall(sample)) * 2
        return Charset("utf-8", certain=False) if doubtful else UTF8
    if not good and _decodes(sample, "cp1252", whole) and _latin(sample):
        return Charset("cp1252")
    return Charset(good[0] if good else "latin-1", certain=False)


def _latin(sample: bytes) -> bool:
    """Whether the bytes that are not ASCII look like accented letters in words: short runs, letters among
    them.
    """
    short = sum(len(run) for run in _SHORT_RUN.findall(sample))
    return short >= 0.9 * len(_HIGH.findall(sample)) and _LATIN_LETTER.search(sample) is not None


def _japanese(sample: bytes, name: str) -> float:
    """The share of kana and kanji that stand in runs among the characters that are not ASCII.

    Single ones do not count: that is what accented letters between plain ones look like in these encodings.
    """
    text = sample.decode(name, "ignore")
    in_runs = sum(len(run) for run in _JAPANESE_RUN.findall(text))
    others = len(_JAPANESE.findall(text)) + len(_DOUBTFUL.findall(text))
    return min(1.0, in_runs / others) if others else 0.0


def _decodes(data: bytes, name: str, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(name)().decode(data, whole)
    except UnicodeDecodeError:
        return False
    return True


def shown(text: str) -> str:
    """``text`` as the model may see it: bytes that are no text (kept as lone surrogates) become U+FFFD."""
    return text if text.isascii() else re.sub(r"[\ud800-\udfff]", "\ufffd", text)


# --- line ends --------------------------------------------------------------------------------------


def main_line_end(text: str) -> str:
    r"""The line end that most lines of ``text`` have; ``\n`` where none has more."""
    crlf = text.count("\r\n")
    lf, cr = text.count("\n") - crlf, text.count("\r") - crlf
    if crlf > lf and crlf >= cr:
        return "\r\n"
    return "\r" if cr > lf else "\n"


def with_line_end(text: str, line_end: str) -> str:
    """``text`` with every line end replaced by ``line_end``."""
    return _LINE_END.sub(lambda _: line_end, text) if "\r" in text or line_end != "\n" else text


def plain(text: str) -> str:
    r"""``text`` with every line end as ``\n``: how the model sees a file."""
    return with_line_end(text, "\n")


def plain_positions(text: str, positions: list[int]) -> list[int]:
    r"""Positions in ``plain(text)``, ascending, as positions in ``text``."""
    found, shift = [], 0
    borders = (match.start() for match in re.finditer("\r\n", text))
    border = next(borders, None)
    for position in positions:
        while border is not None and border - shift < position:
            shift += 1
            border = next(borders, None)
        found.append(position + shift)
    return found


# --- replacing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Splice:
    """``text[start:end]`` becomes ``new``."""

    start: int
    end: int
    new: str


def spliced(text: str, splices: list[Splice]) -> str:
    """``text`` with the splices, which are in order and do not overlap."""
    pieces, done = [], 0
    for splice in splices:
        pieces += [text[done : splice.start], splice.new]
        done = splice.end
    return "".join([*pieces, text[done:]])


def splice_bytes(data: bytes, text: str, charset: Charset, splices: list[Splice]) -> bytes | None:
    """``data`` (whose text is ``text``) with the splices; every byte outside them is kept.

    None if the borders in the bytes cannot be told for certain (a stateful encoding in the middle of a
    shift, or bytes with two readings). Raises ``UnicodeEncodeError`` if the encoding cannot say the new
    text.
    """
    body = data[len(charset.bom) :]
    pieces, done_text, done_bytes = [charset.bom], 0, 0
    for splice in splices:
        start = done_bytes + len(charset.encode(text[done_text : splice.start]))
        end = start + len(charset.encode(text[splice.start : splice.end]))
        pieces += [body[done_bytes:start], charset.encode(splice.new)]
        done_text, done_bytes = splice.end, end
    after = b"".join([*pieces, body[done_bytes:]])
    return after if charset.decode(after[len(charset.bom) :]) == spliced(text, splices) else None


def one_line(text: str, limit: int = 120) -> str:
    """``text`` on one line for a title: control characters as escapes, the end cut off if it is long."""
    escaped = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in shown(text[: 2 * limit])
    )
    head, rest = first_characters(escaped, limit)
    return f"{head}…" if rest or len(text) > 2 * limit else head


def count_lines(text: str) -> str:
    """How many lines a text has, in words: ``1 line``, ``12 lines``."""
    number = len(_LINE_END.findall(text)) + (text[-1:] not in ("", "\n", "\r"))
    return f"{number} line{'' if number == 1 else 's'}"
