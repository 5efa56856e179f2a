"""The base protocol's framing, without IO."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maestro_lsp.ground.framing import (
    MAX_BODY,
    MAX_HEADER,
    MAX_SKIPPED,
    BrokenFraming,
    Frame,
    FrameParser,
    Oversize,
    frame,
)


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream, parser = b"".join(map(frame, bodies)), FrameParser()
    frames: list[Frame | Oversize] = []
    while stream:
        for cut in cuts:
            frames += parser.feed(stream[:cut])
            stream = stream[cut:]
    assert frames == [Frame(body) for body in bodies]
    assert not parser.mid_message


@given(st.binary(max_size=400))
def test_any_bytes_are_frames_or_broken_framing_and_nothing_else(data: bytes) -> None:
    try:
        list(FrameParser().feed(data))
    except BrokenFraming:
        return


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\n\r\n",
        b"content-length:2\r\n\r\n",
        b"CONTENT-LENGTH :  2  \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"X-Unknown: -5\r\nContent-Length: 2\r\nX-Empty:\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"\r\n\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_headers_of_sloppy_clients_are_read(header: bytes) -> None:
    assert list(FrameParser().feed(header + b"{}")) == [Frame(b"{}")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Content-Length: -5\r\n", "not a number"),
        (b"Content-Length: 0x10\r\n", "not a number"),
        (b"Content-Length: \r\n", "not a number"),
        (b"Content-Length: 1\xd9\xa1\r\n", "not a number"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n", "not a number"),
        (b"Content-Length: 100000000000\r\n", "100000000000 bytes"),
        (b"hello\n", "no colon"),
        (b"{}\n", "no colon"),
        (b"Content-Type: x\r\n\r\n", "no Content-Length"),
        (b"x" * (MAX_HEADER + 1), "longer than"),
        (b"X: y\r\n" * MAX_HEADER, "longer than"),
        (b"\r\n" * MAX_HEADER, "longer than"),
    ],
)
def test_garbage_breaks_the_framing_at_once(data: bytes, said: str) -> None:
    with pytest.raises(BrokenFraming, match=said):
        list(FrameParser().feed(data))


def test_a_message_at_the_cap_is_read_and_one_above_it_is_skipped_as_it_arrives() -> None:
    parser, chunk = FrameParser(), b"x" * (1 << 20)
    assert list(parser.feed(frame(b"x" * MAX_BODY))) == [Frame(b"x" * MAX_BODY)]
    assert list(parser.feed(b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))) == [Oversize(MAX_BODY + 1)]
    for _ in range(MAX_BODY >> 20):
        assert list(parser.feed(chunk)) == []
        assert len(parser._buffer) <= len(chunk)
    assert list(parser.feed(b"x" + frame(b"{}"))) == [Frame(b"{}")]
    assert MAX_BODY < MAX_SKIPPED
