"""Which encoding a file is in, told from its bytes alone, and how text becomes bytes again.

Pure. Detection would rather doubt than guess: what is not ``certain`` can be read but not edited, for one
character in a wrong encoding makes a file that no encoding can read.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

import regex

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NAMES = {
    "utf-8": "UTF-8",
    "cp932": "Shift_JIS",
    "euc_jp": "EUC-JP",
    "euc_jis_2004": "EUC-JP",
    "iso2022_jp": "ISO-2022-JP",
    "iso2022_jp_ext": "ISO-2022-JP",
    "cp1252": "Windows-1252",
    "iso8859-1": "Latin-1 or Windows-1252",
    "latin-1": "unknown",
}
# The second of a family is asked only where the first cannot read the file: it knows ① and its kind.
_JAPANESE_CODES = (("cp932",), ("euc_jp", "euc_jis_2004"))
_SHIFTED_CODES = ("iso2022_jp", "iso2022_jp_ext")
# One character of JIS has two code points, and which of them an encoding knows depends on who made its table.
_TWINS = dict(zip("〜−‖—¢£¬¥‾¦～－∥―￠￡￢￥￣￤", "～－∥―￠￡￢￥￣￤〜−‖—¢£¬¥‾¦", strict=True))
_TWIN = re.compile(f"[{''.join(_TWINS)}]")

_JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
_JAPANESE_RUN = re.compile(r"[\u3001-\u30ff\u4e00-\u9fff]{2,}")
_KANA = re.compile(r"[\u3041-\u30ff]")
_KANJI = re.compile(r"[\u4e00-\u9fff]")
# Chinese and Korean bytes read as EUC-JP too, but as odd kanji: without kana, half of them must be these.
_EVERYDAY_KANJI = frozenset(
    "日本語名前年月時分秒人大小中上下左右入出力文字数値設定変更追加削除確認検索一覧表示画面処理実行開始終了保存"
    "読込書新規作成編集登録有効無種別区番号住所電話会社部課長東京都府県市町村山田川木金土火水曜円万千百十二三四五"
    "六七八九零第次回目内外後今方合計平均最高低初期標準項説明注意参照関連接続通信機能使用利対象条件結果情報管理者"
    "客様商品価格税在庫受請求支払料自動手学校生先教室科研究国際政治経済法律事業"
)
_DOUBTFUL = re.compile(r"[\uff61-\uff9f\ue000-\uf8ff\u0080-\u00a0\u0370-\u04ff\u2500-\u257f]")
_DAMAGE = re.compile(r"[\udc80-\udcff]")
_HIGH = re.compile(rb"[\x80-\xff]")
_WINDOWS_ONLY = re.compile(rb"[\x80-\x9f]")
_LATIN_LETTER = re.compile(rb"[A-Za-z][\xc0-\xff](?![\x80-\xff])|(?<![\x80-\xff])[\xc0-\xff][A-Za-z]")
# In Windows-1252 no word has these inside: there they are letters of another table (Polish, Czech, …).
_NOT_IN_WORDS = re.compile(
    rb"[A-Za-z][\x80-\x84\x86-\x89\x8b\x8d\x8f\x90\x93-\x95\x98\x99\x9b\x9d\xa1-\xa9\xab\xac\xae-\xb3\xb5\xb6"
    rb"\xb8\xb9\xbb-\xbf\xd7\xf7][a-z]"
)
_SHORT_RUN = re.compile(rb"(?<![\x80-\xff])[\x80-\xff]{1,2}(?![\x80-\xff])")
_SHIFT = re.compile(rb"\x1b(?:\$[@B(]|\([IJ])")
_NOT_TEXT = regex.compile(r"[\p{Cn}\p{Co}\p{Cs}\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
_EVERYDAY = re.compile(r"[\t\n\r\x20-\x7e\u3000-\u30ff\uff01-\uffee]")
_LOOKED_AT = 1 << 15


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
        if self.name in ("utf-8", "cp932", "euc_jp", "euc_jis_2004", "cp1252"):
            return "surrogateescape"
        return "surrogatepass" if self.name.startswith("utf-") else "strict"

    @property
    def shown(self) -> str:
        """The encoding as a person calls it, or an empty text for plain UTF-8."""
        if self.name == "utf-8" and self.certain:
            return ""
        return _NAMES.get(self.name, self.name.upper())

    @property
    def shifts(self) -> bool:
        """Whether escape sequences in the text change what the bytes after them mean."""
        return self.name in _SHIFTED_CODES

    def decode(self, data: bytes) -> str:
        """The text of ``data`` (without BOM)."""
        return data.decode(self.name, self.errors)

    def encode(self, text: str) -> bytes:
        """The bytes of ``text`` (without BOM), which was read in this encoding."""
        return text.encode(self.name, self.errors)

    def fitted(self, text: str) -> str:
        """``text`` with those code points that this encoding has for the characters of JIS that have two:
        who writes 〜 for ～ means the one that the file can hold.
        """
        if self.name.startswith("utf-"):
            return text
        return _TWIN.sub(lambda found: found[0] if self._has(found[0]) else _TWINS[found[0]], text)

    def put(self, text: str) -> bytes:
        """The bytes of a new ``text`` (without BOM). Raises ``UnicodeEncodeError`` for what the encoding
        cannot say, also where Python would write something similar: ¥ as a backslash.
        """
        data = self.encode(text)
        if self.decode(data) != text:
            at = next((at for at, char in enumerate(text) if not self._has(char)), 0)
            raise UnicodeEncodeError(self.name, text, at, at + 1, "it would be read as another character")
        return data

    def _has(self, char: str) -> bool:
        try:
            return self.decode(self.encode(char)) == char
        except UnicodeEncodeError:
            return False


UTF8 = Charset("utf-8")


def detect(sample: bytes, *, whole: bool = True) -> Charset | None:
    """The encoding of a file by its bytes, or by its first bytes if not ``whole``; None for a binary file.

    UTF-8 where it is valid; UTF-16 without a mark, Shift_JIS, EUC-JP, ISO-2022-JP and Windows-1252 only
    where the text makes sense in exactly one of them; else Latin-1, which is not ``certain``.
    """
    for bom, name in _BOMS:
        if sample.startswith(bom):
            return (
                Charset(name, bom) if _decodes(sample[len(bom) :], name, whole) or name == "utf-8" else None
            )
    if b"\0" in sample:
        return _unmarked_utf16(sample, whole)
    if _SHIFT.search(sample) and not _HIGH.search(sample):
        name = next((name for name in _SHIFTED_CODES if _decodes(sample, name, whole)), "")
        return Charset(name) if name else Charset("utf-8", certain=False)
    if not _HIGH.search(sample) or _decodes(sample, "utf-8", whole):
        return UTF8
    return _legacy(sample, whole)


def _unmarked_utf16(sample: bytes, whole: bool) -> Charset | None:
    good = [name for name in ("utf-16-le", "utf-16-be") if _is_text(sample, name, whole)]
    return Charset(good[0]) if len(good) == 1 else None


def _is_text(sample: bytes, name: str, whole: bool) -> bool:
    """Whether bytes with NUL among them read as everyday text: of the other byte order, and of what is no
    text, hardly a character is a plain letter, a kana, a sign or a line end.
    """
    start = sample[:_LOOKED_AT].decode(name, "ignore")
    if _NOT_TEXT.search(start) or len(_EVERYDAY.findall(start)) < 0.3 * len(start) or not start:
        return False
    if not _decodes(sample, name, whole):
        return False
    return len(sample) <= _LOOKED_AT or not _NOT_TEXT.search(sample.decode(name, "ignore"))


def _legacy(sample: bytes, whole: bool) -> Charset:
    valid = [
        name
        for family in _JAPANESE_CODES
        if (name := next((name for name in family if _decodes(sample, name, whole)), ""))
    ]
    good = [name for name in valid if _japanese(sample, name) >= 0.8]
    if len(good) == 1:
        # A few half-width kana of Shift_JIS are kanji in EUC-JP.
        return Charset(
            good[0], certain=len(valid) == 1 or _KANA.search(sample.decode(good[0], "ignore")) is not None
        )
    multibyte = len(sample.decode("utf-8", "ignore").encode()) - len(_HIGH.sub(b"", sample))
    if multibyte * 2 > len(_HIGH.findall(sample)):
        # UTF-8 with damage in it. Where there is much damage and another encoding reads it all, none is sure.
        doubtful = valid and multibyte * 3 < len(_HIGH.findall(sample)) * 2
        return Charset("utf-8", certain=False) if doubtful else UTF8
    if not good and (damaged := [name for (name, *_) in _JAPANESE_CODES if _with_damage(sample, name)]):
        return Charset(damaged[0], certain=len(damaged) == 1)
    if not good and _decodes(sample, "cp1252", whole) and _latin(sample):
        return Charset("cp1252" if _WINDOWS_ONLY.search(sample) else "iso8859-1")
    return Charset(good[0] if good else "latin-1", certain=False)


def _with_damage(sample: bytes, name: str) -> bool:
    """Whether the bytes are Japanese in this encoding but for one bad place in fifty characters."""
    text = sample.decode(name, "surrogateescape")
    in_runs = sum(len(run) for run in _JAPANESE_RUN.findall(text))
    return len(_DAMAGE.findall(text)) * 50 <= in_runs and _japanese(sample, name) >= 0.9


def _latin(sample: bytes) -> bool:
    """Whether the bytes that are not ASCII look like accented letters in words: short runs, letters among
    them, and no signs inside words.
    """
    short = sum(len(run) for run in _SHORT_RUN.findall(sample))
    if short < 0.9 * len(_HIGH.findall(sample)) or _NOT_IN_WORDS.search(sample):
        return False
    return _LATIN_LETTER.search(sample) is not None


def _japanese(sample: bytes, name: str) -> float:
    """The share of kana and kanji that stand in runs among the characters that are not ASCII.

    Single ones do not count: that is what accented letters between plain ones look like in these encodings.
    """
    text = sample.decode(name, "ignore")
    in_runs = sum(len(run) for run in _JAPANESE_RUN.findall(text))
    others = len(_JAPANESE.findall(text)) + len(_DOUBTFUL.findall(text))
    if not others or (name != "cp932" and not _is_written(text)):
        return 0.0
    return min(1.0, in_runs / others)


def _is_written(text: str) -> bool:
    """Whether people write so in Japanese: with kana, or with everyday kanji alone."""
    kanji = _KANJI.findall(text)
    everyday = sum(char in _EVERYDAY_KANJI for char in kanji)
    return len(_KANA.findall(text)) * 5 >= len(kanji) or everyday * 2 >= len(kanji)


def _decodes(data: bytes, name: str, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(name)().decode(data, whole)
    except UnicodeDecodeError:
        return False
    return True
