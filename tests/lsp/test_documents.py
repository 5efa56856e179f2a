"""The mirror of open buffers: edits land where the client means them; unsaved is what no file holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_lsp.documents import Change, Documents, Place, apply_changes, offset_at, text_between

ENCODINGS = ("utf-8", "utf-16", "utf-32")
UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
WIDTH = {"utf-8": 1, "utf-16": 2, "utf-32": 4}

PIECES = ["a", "b", " ", "é", "漢", "𝒙", "👍", "\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def units(text: str, encoding: str) -> int:
    return len(text.encode(UNITS[encoding])) // WIDTH[encoding]


def place_of(text: str, index: int, encoding: str) -> Place:
    """The reference: walk the text as the protocol says, one line end after the other."""
    line, start, at = 0, 0, 0
    while at < index:
        if text[at] == "\r" and text[at + 1 : at + 2] == "\n":
            if at + 2 > index:
                break  # between \r and \n there is no position; the end of the line stands for it
            at += 2
        elif text[at] in "\r\n":
            at += 1
        else:
            at += 1
            continue
        line, start = line + 1, at
    end = index
    while end > start and text[end - 1] in "\r\n":
        end -= 1
    return Place(line, units(text[start:end], encoding))


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, data=st.data())
@settings(max_examples=300, deadline=None)
def test_every_position_is_the_offset_the_protocol_means(
    encoding: str, text: str, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(text)))
    if text[index - 1 : index + 1] == "\r\n":
        index -= 1
    assert offset_at(text, place_of(text, index, encoding), encoding) == index


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, data=st.data())
@settings(max_examples=300, deadline=None)
def test_edits_one_after_the_other_give_what_the_editor_has(
    encoding: str, text: str, data: st.DataObject
) -> None:
    changes: list[Change] = []
    now = text
    for _ in range(data.draw(st.integers(1, 4))):
        ends = sorted(data.draw(st.tuples(st.integers(0, len(now)), st.integers(0, len(now)))))
        start, end = (i - 1 if now[i - 1 : i + 1] == "\r\n" else i for i in ends)
        new = data.draw(TEXTS)
        changes.append(Change(new, place_of(now, start, encoding), place_of(now, end, encoding)))
        now = now[:start] + new + now[end:]
    assert apply_changes(text, changes, encoding) == now


@pytest.mark.parametrize(
    ("place", "encoding", "offset"),
    [
        pytest.param(Place(0, 99), "utf-16", 2, id="behind the end of a line"),
        pytest.param(Place(1, 99), "utf-8", 5, id="behind the end of a line of other characters"),
        pytest.param(Place(9, 0), "utf-16", 7, id="behind the last line"),
        pytest.param(Place(1, 1), "utf-16", 3, id="inside a surrogate pair"),
        pytest.param(Place(1, 2), "utf-8", 3, id="inside a UTF-8 sequence"),
        pytest.param(Place(2, 99), "utf-32", 7, id="behind the end of a last line without an end"),
    ],
)
def test_a_position_that_is_none_is_the_nearest_before_it(place: Place, encoding: str, offset: int) -> None:
    assert offset_at("ab\n𝒙y\nz", place, encoding) == offset


def test_half_a_character_in_a_buffer_counts_as_one_unit() -> None:
    assert offset_at("a\ud83db", Place(0, 2), "utf-16") == 2


def test_lines_end_only_where_the_protocol_says() -> None:
    text = "one\x0ctwo\u2028three\x85four\nfive"
    assert text_between(text, Place(1, 0), Place(1, 4), "utf-16") == "five"
    assert apply_changes(text, [Change("X", Place(1, 0), Place(1, 4))], "utf-16") == text.replace("five", "X")


def test_a_whole_change_replaces_everything() -> None:
    assert apply_changes("old", [Change("new"), Change("!", Place(0, 3), Place(0, 3))], "utf-16") == "new!"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("text\n")
    return path


async def dirty(documents: Documents, path: Path) -> bool:
    found = await documents.read(path)
    assert found is not None
    return bool(found["dirty"])


async def test_a_buffer_is_unsaved_from_its_first_change_to_its_next_save(file: Path) -> None:
    documents, uri = Documents(), file.as_uri()
    assert await documents.read(file) is None
    documents.opened(uri, 1, "text\n")
    assert not await dirty(documents, file)
    documents.changed(uri, 2, [Change("more ", Place(0, 0), Place(0, 0))])
    assert await documents.read(file) == {"text": "more text\n", "version": 2, "dirty": True}
    assert await documents.dirty() == [str(file)]
    documents.saved(uri, None)
    assert not await dirty(documents, file) and await documents.dirty() == []
    documents.closed(uri)
    assert await documents.read(file) is None


async def test_taking_a_change_back_makes_it_saved_again(file: Path) -> None:
    documents, uri = Documents(), file.as_uri()
    documents.opened(uri, 1, "text\n")
    documents.changed(uri, 2, [Change("x", Place(0, 0), Place(0, 0))])
    documents.changed(uri, 3, [Change("", Place(0, 0), Place(0, 1))])
    assert not await dirty(documents, file)


async def test_a_file_that_was_changed_outside_and_reloaded_is_not_unsaved(file: Path) -> None:
    documents, uri = Documents(), file.as_uri()
    documents.opened(uri, 1, "text\n")
    file.write_text("by a tool\n")
    documents.changed(uri, 2, [Change("by a tool\n")])
    assert not await dirty(documents, file)
    documents.changed(uri, 3, [Change("by a person\n")])
    assert await dirty(documents, file)


@pytest.mark.fault("C: unsaved buffer lost", neighbour=True)
async def test_text_that_an_editor_restores_unlike_the_file_is_unsaved(file: Path) -> None:
    documents, uri = Documents(), file.as_uri()
    documents.opened(uri, 1, "restored\n")
    await documents.check_opened(uri)
    assert await dirty(documents, file)


@pytest.mark.fault("C: BOM", neighbour=True)
@pytest.mark.parametrize("on_disk", [b"a\r\nb\r\n", b"\xef\xbb\xbfa\nb\n"])
async def test_the_style_of_line_ends_and_a_byte_order_mark_are_no_difference(
    file: Path, on_disk: bytes
) -> None:
    file.write_bytes(on_disk)
    documents, uri = Documents(), file.as_uri()
    documents.opened(uri, 1, "a\nb\n")
    await documents.check_opened(uri)
    assert not await dirty(documents, file)


async def test_a_file_is_found_by_any_of_its_names(file: Path) -> None:
    link = file.parent / "link"
    link.symlink_to(file.parent, target_is_directory=True)
    documents = Documents()
    documents.opened((link / file.name).as_uri(), 1, "text\n")
    assert await documents.read(file) is not None and await documents.read(link / file.name) is not None


async def test_a_buffer_without_a_file_is_kept_and_harms_nobody() -> None:
    documents = Documents()
    documents.opened("untitled:Untitled-1", 1, "x")
    documents.changed("untitled:Untitled-1", 2, [Change("y")])
    documents.changed("file:///never/opened", 2, [Change("y")])
    await documents.check_opened("untitled:Untitled-1")
    assert documents.text("untitled:Untitled-1") == "y" and await documents.dirty() == []
