"""Encodings: recognised from the bytes or doubted; what is written is what the file can say, where it was
put, and not a byte beside it changes.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.tooling import ToolResult
from engine.core.truncate import estimate_tokens
from engine.tools.encodings import Charset, detect
from engine.tools.files import READ
from engine.tools.textio import Splice, shown, splice_bytes
from engine.tools.writing import EDIT, WRITE
from tests.fuzz import edits
from tests.tools.world import World

JAPANESE = "[設定]\n名前=日本語のテスト\n"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (JAPANESE.encode("cp932"), "cp932"),
        (JAPANESE.encode("euc_jp"), "euc_jp"),
        ("名前=日本語\n".encode("euc_jp"), "euc_jp"),
        ("丸付きの①です\n".encode("euc_jis_2004"), "euc_jis_2004"),
        (JAPANESE.encode("iso2022_jp"), "iso2022_jp"),
        ("半角のｶﾅ\n".encode("iso2022_jp_ext"), "iso2022_jp_ext"),
        (JAPANESE.encode("utf-16-le"), "utf-16-le"),
        (JAPANESE.encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe" + JAPANESE.encode("utf-16-le"), "utf-16-le"),
        ("plain\n".encode("utf-16-le"), "utf-16-le"),
        ("plain\n".encode("utf-16-be"), "utf-16-be"),
        ("don’t, café\n".encode("cp1252"), "cp1252"),
        ("à la carte, café\n".encode("latin-1"), "iso8859-1"),
        (("日本語のテスト" * 20).encode("cp932") + b"\xff\n", "cp932"),
        (("日本語のテスト" * 20).encode("euc_jp") + b"\xff\n", "euc_jp"),
        (b"\xff\xfe\0\0" + "日本".encode("utf-32-le"), "utf-32-le"),
        (b"\xef\xbb\xbfx\xff", "utf-8"),
        ("日本語".encode() + b"\xff\n", "utf-8"),
        (b"\x1b(B\x1b[m plain", "utf-8"),
    ],
)
def test_text_that_reads_well_in_one_encoding_is_in_that(data: bytes, name: str) -> None:
    charset = detect(data)
    assert charset is not None and (charset.name, charset.certain) == (name, True)
    assert charset.encode(charset.decode(data[len(charset.bom) :])) == data[len(charset.bom) :]


@pytest.mark.fault("C: Shift_JIS file gets UTF-8 inserted", neighbour=True)
@pytest.mark.parametrize(
    "data",
    [
        pytest.param("100円\n".encode("cp932"), id="one kanji"),
        pytest.param("ﾊﾝｶｸ\n".encode("cp932"), id="half-width kana"),
        pytest.param("中文文本，测试\n".encode("gb18030"), id="chinese"),
        pytest.param("中文文本，測試\n".encode("big5"), id="chinese of taiwan"),
        pytest.param("한국어 텍스트\n".encode("euc_kr"), id="korean"),
        pytest.param("Привет, мир\n".encode("cp1251"), id="russian"),
        pytest.param("Zażółć gęślą jaźń\n".encode("cp1250"), id="polish"),
        pytest.param(b"\x1b$)C\x0e text", id="another iso 2022"),
        pytest.param(("日本語" * 9).encode("cp932") + b"\x81\n\x81\n\x81\n", id="much damage"),
    ],
)
async def test_a_doubtful_encoding_is_read_but_not_edited_and_the_mend_is_named(
    world: World, data: bytes
) -> None:
    charset = detect(data)
    if data.startswith(b"\x1b"):
        data += b"\x1b$B"
        charset = detect(data)
    assert charset is not None and not charset.certain
    path = world.write("a", data)
    assert "not recognised for certain" in (await world.call(READ, file_path="a")).text
    result = await world.prepare(EDIT, file_path="a", old_string="\n", new_string="\nx")
    assert isinstance(result, ToolResult) and result.is_error
    assert "iconv" in result.text and "Ask the person" in result.text
    assert path.read_bytes() == data


@pytest.mark.fault("C: very long lines, binary", neighbour=True)
@pytest.mark.parametrize(
    "data",
    [
        b"x" * 9000 + b"\0" + b"y" * 100,
        b"x" * 9000 + b"\0" + b"y" * 101,
        b"\0" * 5000,
        bytes(range(256)) * 4,
        "text\n".encode("utf-16-le") + b"\0\0",
        "text\n".encode("utf-16-le") + b"x",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\1\0\2\0\3\0" * 100,
    ],
)
def test_bytes_with_nul_that_are_no_everyday_text_are_binary(data: bytes) -> None:
    assert detect(data) is None


@pytest.mark.fault("C: Shift_JIS file gets UTF-8 inserted", neighbour=True)
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param("日本語です。\n", "本", "元", "日元語です。\n", id="amid a shift"),
        pytest.param("日本語です。\n", "本", "x", "日x語です。\n", id="ascii amid a shift"),
        pytest.param("ab日本語cd\n", "日本語", "", "abcd\n", id="a whole shifted run"),
        pytest.param("ab日本語cd\n", "b日", "追加", "a追加本語cd\n", id="over a border"),
        pytest.param("abcd\n日本\n", "bc", "追加", "a追加d\n日本\n", id="into plain text"),
        pytest.param("日本\n語\n", "本\n語", "x\ny", "日x\ny\n", id="over lines"),
    ],
)
async def test_an_encoding_that_shifts_is_edited_anywhere(
    world: World, before: str, old: str, new: str, after: str
) -> None:
    path = world.write("a", before.encode("iso2022_jp"))
    result = await world.call(EDIT, file_path="a", old_string=old, new_string=new)
    assert not result.is_error, result.text
    assert path.read_bytes().decode("iso2022_jp") == after
    for line in path.read_bytes().split(b"\n"):
        assert line.rfind(b"\x1b(B") >= line.rfind(b"\x1b$B"), "a line ends in plain text, as mail wants it"


PARTS = st.lists(st.sampled_from(["a", "b ", "\n", "日", "本語", "か", "、", "x=1"]), max_size=10).map(
    "".join
)


@settings(max_examples=100, deadline=None)
@given(
    head=PARTS,
    old=PARTS,
    tail=PARTS,
    new=PARTS,
    start=st.sampled_from([b"", b"\x1b$@", b"\x1b(J", b"\x1b(B"]),
)
def test_escape_sequences_outside_the_place_stay_where_they_are(
    head: str, old: str, tail: str, new: str, start: bytes
) -> None:
    # Sequences that no encoder would write in this place, but that mean nothing by themselves.
    data = start + (b"\x1b(B" if start else b"") + (head + old + tail).encode("iso2022_jp")
    text = data.decode("iso2022_jp")
    after = splice_bytes(data, text, Charset("iso2022_jp"), [Splice(len(head), len(head + old), new)])
    assert after is not None and after.decode("iso2022_jp") == head + new + tail
    assert after.startswith(edits.outside(head.encode("iso2022_jp"), ends=True)) or head == "" or start
    assert after.endswith(edits.outside(tail.encode("iso2022_jp"), ends=False))


@pytest.mark.fault("C: Shift_JIS file gets UTF-8 inserted", neighbour=True)
@pytest.mark.parametrize(
    ("codec", "text", "new", "written"),
    [
        ("cp932", JAPANESE, "10〜20", "10～20"),
        ("euc_jp", JAPANESE, "10～20", "10〜20"),
        ("iso2022_jp", JAPANESE, "－1", "−1"),
        ("euc_jp", JAPANESE, "¥100", "￥100"),
    ],
)
async def test_a_character_of_jis_with_two_code_points_is_written_as_the_one_the_file_knows(
    world: World, codec: str, text: str, new: str, written: str
) -> None:
    path = world.write("a", text.encode(codec))
    result = await world.call(EDIT, file_path="a", old_string="テスト", new_string=new)
    assert not result.is_error and written in result.text
    assert path.read_bytes().decode(codec) == text.replace("テスト", written)
    again = await world.call(EDIT, file_path="a", old_string=new, new_string="テスト")
    assert not again.is_error and path.read_bytes() == text.encode(codec)


@pytest.mark.parametrize(
    ("data", "new", "said"),
    [
        (JAPANESE.encode("cp932"), "😀", "Shift_JIS, which has no “😀” (U+1F600)"),
        (JAPANESE.encode("cp932"), "é", "which has no “é”"),
        (JAPANESE.encode("iso2022_jp"), "한", "ISO-2022-JP, which has no “한”"),
        ("un café\n".encode("latin-1"), "5 €", "which has no “€”"),
        ("don’t café\n".encode("cp1252"), "日本", "Windows-1252, which has no “日”"),
        (b"plain\n", "a\ud800", "half a character (U+D800)"),
        (b"plain\n", "a\0", "NUL"),
    ],
)
@pytest.mark.parametrize("tool", ["Edit", "Write"])
async def test_what_the_file_cannot_say_is_refused_before_anybody_is_asked(
    world: World, data: bytes, new: str, said: str, tool: str
) -> None:
    path = world.write("a", data)
    await world.call(READ, file_path="a")
    last = detect(data)
    assert last is not None
    old = last.decode(data).rstrip("\n")[-2:]
    if tool == "Edit":
        result = await world.prepare(EDIT, file_path="a", old_string=old, new_string=new)
    else:
        result = await world.prepare(WRITE, file_path="a", content=f"x{new}\n")
    assert isinstance(result, ToolResult) and result.is_error and said in result.text
    assert path.read_bytes() == data


@pytest.mark.fault("C: BOM", neighbour=True)
async def test_a_mark_that_the_model_sends_is_not_written_twice(world: World) -> None:
    path = world.write("a", b"\xef\xbb\xbffirst\n")
    result = await world.call(EDIT, file_path="a", old_string="\ufefffirst", new_string="\ufeffone")
    assert not result.is_error and path.read_bytes() == b"\xef\xbb\xbfone\n"
    await world.call(READ, file_path="a")
    await world.call(WRITE, file_path="a", content="\ufefftwo\n")
    assert path.read_bytes() == b"\xef\xbb\xbftwo\n"


@pytest.mark.fault("I4")
@settings(max_examples=80, deadline=None)
@given(edits.strategy)
def test_bytes_outside_an_edit_are_identical_in_every_encoding(example: edits.Edit) -> None:
    edits.check(example)


# --- reading on -------------------------------------------------------------------------------------

CODECS = ["utf-8", "utf-16-le", "cp932", "euc_jp", "iso2022_jp", "utf-8 damaged"]
WORDS = st.sampled_from(
    ["日本語の文。", "word ", "が", "\n", "\r\n", "\r", "x" * 90, "設定を変更" * 30, "、"]
)
NUMBERED = re.compile(r" *(\d+)\t(.*)")
PLACE = re.compile(r"\[Bytes \d+-\d+ of ")
HINT = re.compile(r"Read with (offset|byte_offset)=(\d+)")


def without_line_ends(text: str) -> str:
    return re.sub(r"[\r\n]", "", text)


async def read_through(data: bytes, budget: int) -> str:
    """The text, without line ends, that a model has read that follows every hint of Read."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder).resolve(), budget=budget)
        world.write("file", data)
        seen, number = "", 0
        arguments: dict[str, int] = {}
        while True:
            result = await world.call(READ, file_path="file", **arguments)
            assert not result.is_error, result.text
            assert estimate_tokens(result.text) <= budget
            if "byte_offset" in arguments:
                seen += result.text[: [found.start() for found in PLACE.finditer(result.text)][-1]]
            else:
                for line in filter(None, map(NUMBERED.fullmatch, result.text.split("\n"))):
                    number += 1
                    assert int(line[1]) == number
                    seen += line[2]
            hint = HINT.search(result.text)
            if hint is None:
                return without_line_ends(seen)
            assert int(hint[2]) > arguments.get(hint[1], 0), "no step forward"
            arguments = {hint[1]: int(hint[2])}


@pytest.mark.fault("I3")
@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(WORDS, min_size=1, max_size=60),
    codec=st.sampled_from(CODECS),
    budget=st.integers(260, 600),
    long_line=st.booleans(),
)
def test_following_the_hints_gets_through_any_file_in_any_encoding(
    words: list[str], codec: str, budget: int, long_line: bool
) -> None:
    text = "テストの文です。" + "".join(words)
    if long_line:
        text = without_line_ends(text)
    name = codec.split(" ", 1)[0]
    data = (b"\xff\xfe" if name == "utf-16-le" else b"") + text.encode(name)
    if codec == "utf-8 damaged":
        data = data.replace("が".encode(), b"\xe3\x81\x80\xff")
        text = data.decode(errors="surrogateescape")
    assert asyncio.run(read_through(data, budget)) == without_line_ends(shown(text))


@pytest.mark.fault("I3")
@pytest.mark.parametrize("line_end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("extra", range(-3, 4))
def test_a_line_as_long_as_what_is_looked_at_ends_where_it_ends(line_end: str, extra: int) -> None:
    budget = 300
    looked_at = 4 * (budget - 150) + 1  # of the budget, half at least is for the page
    text = line_end.join(["first", "x" * (looked_at + extra), "second", "", "third"])
    for size in (budget, budget + 1, budget + 150):
        assert asyncio.run(read_through(text.encode(), size)) == without_line_ends(text)
