"""Whatever a program writes becomes text, and most of it the text that was meant."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.decoding import Decoder

KANA = "日本語のファイルです。\n"


def decoded(*pieces: bytes) -> str:
    decoder = Decoder()
    return "".join(decoder.feed(piece) for piece in pieces) + decoder.feed(b"", final=True)


@pytest.mark.fault("D: megabytes of output", neighbour=True)
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (KANA.encode(), KANA),
        (KANA.encode("cp932"), KANA),
        (KANA.encode("euc_jp"), KANA),
        (KANA.encode("cp932") + KANA.encode() + b"plain\n", KANA + KANA + "plain\n"),
        (KANA.encode("cp932") + "東京\n".encode("cp932"), KANA + "東京\n"),
        ("①～㈱の売上\r\n".encode("cp932"), "①～㈱の売上\r\n"),
        ("ls: ファイルなし".encode("cp932"), "ls: ファイルなし"),
        (b"caf\xe9 cr\xe8me\n", "café crème\n"),
        (KANA.encode("utf-16"), KANA),
        (b"\xfe\xff" + KANA.encode("utf-16-be"), KANA),
        ("wsl says this\r\n".encode("utf-16-le"), "wsl says this\r\n"),
        ("wsl: 日本語\r\n".encode("utf-16-le") * 2 + b"done\n$ x\n", "wsl: 日本語\r\n" * 2 + "done\n$ x\n"),
        (b"a\0b", "a\0b"),
        (b"\xff\xfe\xff", "\ufffd"),
        ("日本".encode()[:-1], "日\ufffd"),
        (b"\x7fELF\x02\x01\x01\0\x90\xe3\x82\n", "\x7fELF\x02\x01\x01\0\ufffd\ufffd\n"),
        (("語" * 5000).encode(), "語" * 5000),
        (("語の" * 5000).encode("cp932"), "語の" * 5000),
        (("a" * 5000 + "語の" * 5000).encode("euc_jp"), "a" * 5000 + "語の" * 5000),
        (b"", ""),
        (b"x", "x"),
    ],
)
def test_output_is_read_as_it_was_written(data: bytes, text: str) -> None:
    assert decoded(data) == text
    assert decoded(*(data[at : at + 1] for at in range(len(data)))) == text


PIECES = st.sampled_from(
    [
        KANA.encode(),
        KANA.encode("cp932"),
        KANA.encode("euc_jp"),
        "絵文字😀 ".encode("utf-16-le"),
        "plain\r\n".encode("utf-16-le"),
        ("語" * 3000).encode("cp932"),
        ("語" * 3000).encode(),
        b"\xff\xfe",
        b"\n\0",
        b"caf\xe9\n",
        b"plain ",
        b"\r",
        b"\n",
    ]
) | st.binary(max_size=6)


@given(st.lists(PIECES, max_size=8).map(b"".join), st.lists(st.integers(0, 8000), max_size=6))
def test_the_text_does_not_depend_on_how_the_bytes_were_cut(data: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    whole = decoded(data)
    assert decoded(*(data[start:end] for start, end in pairwise(borders))) == whole
    whole.encode()


def test_plain_text_is_not_held_back_until_its_line_ends() -> None:
    decoder = Decoder()
    assert decoder.feed(b"Listening on port 8080 ...") == "Listening on port 8080 ..."
    assert decoder.feed("日本語".encode()) == ""
    assert decoder.feed(b"\n") == "日本語\n"


@pytest.mark.parametrize("data", [b"\xe3\x81", b"\x82\xa0", b"\xff\xfeA", b"\0\0", b"\xe9"])
def test_what_is_held_back_is_bounded(data: bytes) -> None:
    decoder = Decoder()
    given_back = sum(len(decoder.feed(data * 1000).encode("utf-16-le")) for _ in range(100))
    held = len(decoder.feed(b"", final=True).encode("utf-16-le"))
    assert given_back > 0 and held < 20_000
