"""The output of a command: any bytes in any pieces become text, in constant memory, and what is shown and
what is left out add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from engine.core.truncate import quarter_tokens
from engine.tools.output import Capture, Cleaner, Overwriting, Shown

LINE = "見出し: 値\n"
PIECES = [
    *[LINE.encode(name) for name in ("utf-8", "cp932", "euc_jp", "utf-16", "utf-16-le", "iso2022_jp")],
    *["日本語", "が", "か\u3099", "😀", "👨‍👩‍👧", "\ufeff", "\u202e", "\x85", "\x9b1m", "\u2028"],
    *["\r", "\n", "\r\n", "\b", "\t", "\0", "\x07", "50%", "plain text ", "a" * 100],
    *[
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[2K",
        "\x1b[1A",
        "\x1b]0;t\x07",
        "\x1b]8;;u\x1b\\",
        "\x1b(B",
        "\x1b",
        "\x1b[",
        "\x1b]",
    ],
    *[
        b"\xff\xfe",
        b"\xfe\xff",
        b"\n\0",
        b"\xe3\x81",
        b"\x82",
        b"\xf0\x9f",
        b"caf\xe9 ",
        b"\x7fELF\0\0",
        b"\x8e",
    ],
]
CHUNK = st.sampled_from([p if isinstance(p, bytes) else p.encode() for p in PIECES]) | st.binary(max_size=8)
MOST_HELD = 3 * 4096 + 100


@dataclass(frozen=True, slots=True)
class Output:
    """What a command writes, where it is cut, and how much may be shown."""

    data: bytes
    cuts: tuple[int, ...]
    budget: int


DATA = st.one_of(
    st.lists(CHUNK, max_size=40).map(b"".join),
    st.tuples(CHUNK, st.integers(0, 3000), CHUNK).map(lambda it: it[0] * it[1] + it[2]),
)
strategy = st.builds(
    Output,
    DATA,
    st.lists(st.integers(0, 20_000), max_size=8).map(lambda cuts: tuple(sorted(cuts))),
    st.integers(4, 60) | st.integers(4, 5000),
)


def check(example: Output) -> None:
    """The whole way of an output, in pieces and at once."""
    ends = [0, *(min(cut, len(example.data)) for cut in example.cuts), len(example.data)]
    pieces = [example.data[start:end] for start, end in pairwise(ends)]
    text = _settled(pieces)
    assert text == _settled([example.data]), "where the pieces were cut is seen"
    text.encode()
    assert not set(text) & {"\x1b", "\r", "\b", "\0", "\ufeff", "\x9b"}
    _check_shown(text, _captured(pieces, example.budget), example.budget)
    _check_taken(pieces, example.budget)


def _settled(pieces: list[bytes]) -> str:
    cleaner, lines = Cleaner(), Overwriting()
    parts, taken, given = [], 0, 0
    for piece in pieces:
        parts.append(lines.feed(cleaner.feed(piece)))
        taken, given = taken + len(piece), given + len(parts[-1])
    assert len(cleaner._held) + len(cleaner._decoder._held) + len(lines._state) <= MOST_HELD
    return "".join([*parts, lines.feed(cleaner.feed(b"", final=True)), lines.final()])


def _captured(pieces: list[bytes], budget: int) -> Shown:
    """What is shown at the end; never more than a few budgets are held meanwhile."""
    cleaner, lines, capture = Cleaner(), Overwriting(), Capture(budget)
    longest = 0
    for number, piece in enumerate([*pieces, b""]):
        text = lines.feed(cleaner.feed(piece, final=number == len(pieces)))
        longest = max(longest, len(text))
        capture.add(text)
        assert len(capture.kept) <= 2 * (2 * budget + 2) + longest
    capture.add(lines.final())
    return capture.shown()


def _check_shown(text: str, shown: Shown, budget: int) -> None:
    assert text.startswith(shown.head) and text.endswith(shown.tail)
    assert len((shown.head + shown.tail).encode()) + shown.left_out == len(text.encode())
    assert quarter_tokens(shown.head) + quarter_tokens(shown.tail) <= 4 * budget
    assert shown.left_out or not shown.tail
    assert not shown.binary or "\ufffd" in text


def _check_taken(pieces: list[bytes], budget: int) -> None:
    """Asked after every piece, as a background command is: what was shown and left out is the whole."""
    cleaner, lines = Cleaner(), Overwriting()
    seen, said = 0, 0
    for number, piece in enumerate([*pieces, b""]):
        capture = Capture(budget)
        final = number == len(pieces)
        parts = [lines.feed(cleaner.feed(piece, final=final)), lines.final() if final else lines.release()]
        for part in parts:
            capture.add(part)
            said += len(part.encode())
        shown = capture.shown()
        seen += len((shown.head + shown.tail).encode()) + shown.left_out
    assert seen == said
