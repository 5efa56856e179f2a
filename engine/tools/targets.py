"""The file that a tool is to write: found, read, and refused before anybody is asked where it cannot be
written.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from dataclasses import dataclass, replace

from engine.core.secrets import completes_bare_repository, is_secret_path
from engine.core.tooling import PathClass
from engine.ports import Buffer, ToolContext
from engine.tools.textio import UTF8, Charset, Splice, detect, one_line, shown, splice_bytes
from engine.workspace import (
    Content,
    Place,
    Refused,
    behind_protected_link,
    bytes_hash,
    folder_of,
    is_temporary,
    read_content,
    require_replaceable,
    require_writable,
    resolve,
)

_LARGEST = 64 << 20
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Target:
    """The file that is to be written, as it is now. ``before`` is None if there is none; text and BOM are
    taken apart.
    """

    place: Place
    before: Content | None
    charset: Charset
    text: str

    @property
    def digest(self) -> str | None:
        """The hash of the file as it is now."""
        return bytes_hash(self.before.data) if self.before is not None else None


async def target_of(ctx: ToolContext, asked: str) -> Target:
    """The file ``asked``. Raises ``Refused`` where it may not or cannot be written, and ``OSError``."""
    target = await asyncio.to_thread(_look, ctx, asked)
    await require_saved(ctx, target.place)
    return target


def _look(ctx: ToolContext, asked: str) -> Target:
    place = resolve(ctx.workspace, ctx.task_dir, asked)
    require_writable(place, ctx.workspace, ctx.task_dir)
    try:
        before = read_content(place, _LARGEST)
    except FileNotFoundError:
        before = None
    require_replaceable(place, before)
    if (
        (before is not None and before.names > 1)
        or behind_protected_link(place)
        or _completes_repository(place)
    ):
        place = replace(place, kind=PathClass.PROTECTED)
    if before is None:
        return Target(place, None, UTF8, "")
    charset = detect(before.data)
    if charset is None:
        raise Refused(f"`{asked}` is a binary file. Read, Write and Edit are for text; use Bash for others.")
    return Target(place, before, charset, charset.decode(before.data[len(charset.bom) :]))


def _completes_repository(place: Place) -> bool:
    try:
        with folder_of(place) as folder, os.scandir(folder) as entries:
            return completes_bare_repository((entry.name for entry in entries), place.name)
    except FileNotFoundError:
        return False


async def unsaved(ctx: ToolContext, place: Place) -> Buffer | None:
    """The open buffer of a file if it has unsaved changes."""
    buffer = await ctx.documents.read(place.path)
    return buffer if buffer is not None and buffer.dirty else None


async def require_saved(ctx: ToolContext, place: Place) -> None:
    """Raises ``Refused`` if the file is open in the editor with unsaved changes."""
    if await unsaved(ctx, place) is not None:
        raise Refused(
            f"`{place.relative}` has unsaved changes in the editor, which writing the file would put at"
            " risk. Ask the person to save or discard them, then repeat the change."
        )


def require_read(ctx: ToolContext, target: Target) -> None:
    """Raises ``Refused`` unless the file is what the model last saw of it."""
    mark = ctx.read_marks.get(str(target.place.path))
    if mark is None:
        raise Refused(
            f"`{target.place.relative}` exists and was not read yet in this conversation. Read it first,"
            " then write it as a whole, or Edit the part that changes."
        )
    if mark != target.digest:
        raise Refused(
            f"`{target.place.relative}` changed since it was read. Read it again before writing it as a"
            " whole."
        )


def require_certain(target: Target) -> None:
    """Raises ``Refused`` if the encoding of the file is a guess."""
    if not target.charset.certain:
        raise Refused(
            f"The encoding of `{target.place.relative}` was not recognised for certain, so writing text"
            " into it could damage it. Ask the person for its encoding, and convert it with Bash (iconv) if"
            " they agree."
        )


def new_text(target: Target, text: str) -> str:
    """Text from the model as the file can hold it: without a byte order mark of its own where the file has
    one, and with the file's code points for characters of JIS. Raises ``Refused`` for what is no text.
    """
    odd = next((char for char in text if "\ud800" <= char <= "\udfff" or char == "\0"), None)
    if odd is not None:
        what = "NUL, which no text file has" if odd == "\0" else f"half a character (U+{ord(odd):04X})"
        raise Refused(f"The new text holds {what}. Send the text without it.")
    return target.charset.fitted(text.removeprefix(_BOM) if target.charset.bom else text)


def as_in_file(target: Target, text: str) -> str:
    """``old_string`` as the file would say it; never empty if it is not."""
    marked = target.charset.bom and text not in target.text
    return target.charset.fitted((text.removeprefix(_BOM) if marked else text) or text)


def about_names(target: Target) -> str:
    """What the model should know of the other ways to the file, as sentences that go on; or nothing."""
    place, said = target.place, ""
    if place.link:
        said = f" `{one_line(place.asked)}` is a link to it and stays one."
    if target.before is not None and target.before.names > 1:
        said += " The file had a second name elsewhere (a hard link); that one keeps the old content."
    return said


def encoded(target: Target, text: str) -> bytes:
    """``text`` in the encoding of the file, without BOM. Raises ``Refused`` if it cannot say it."""
    try:
        return target.charset.put(text)
    except UnicodeEncodeError as fault:
        raise _unsayable(target, fault) from None


def edited(target: Target, splices: list[Splice]) -> bytes:
    """The bytes of the file with the splices. Raises ``Refused`` where others would change with them."""
    before = target.before.data if target.before else b""
    try:
        after = splice_bytes(before, target.text, target.charset, splices)
    except UnicodeEncodeError as fault:
        raise _unsayable(target, fault) from None
    if after is None:
        raise Refused(
            f"In `{target.place.relative}` ({target.charset.shown or 'UTF-8'}) this place cannot be changed"
            " without touching the bytes around it. Nothing was changed; replace whole lines, or convert the"
            " file with Bash (iconv)."
        )
    return after


def _unsayable(target: Target, fault: UnicodeEncodeError) -> Refused:
    char = fault.object[fault.start]
    return Refused(
        f"`{target.place.relative}` is {target.charset.shown}, which has no “{char}” (U+{ord(char):04X})."
        " Nothing was changed; use other characters, or ask the person whether the file may become UTF-8."
    )


def missing(place: Place) -> str:
    """The sentence for a file that does not exist, with the names nearest to it in its folder."""
    near = _near_names(place)
    hint = f" There is: {', '.join(f'`{name}`' for name in near)}." if near else " Glob finds files by name."
    return f"`{place.asked}` does not exist.{hint}"


def _near_names(place: Place) -> list[str]:
    folder = place.path.parent
    try:
        with folder_of(place) as descriptor, os.scandir(descriptor) as entries:
            names = [e.name for e in entries if not is_secret_path((e.name,)) and not is_temporary(e.name)]
    except (OSError, Refused):
        return []
    folded = {name.casefold(): name for name in sorted(names) if name != place.name}
    close = difflib.get_close_matches(place.name.casefold(), folded, 4, 0.6)
    stem = place.name.partition(".")[0].casefold()
    close += [name for name in folded if stem and name.partition(".")[0] == stem and name not in close][:4]
    return [shown(str((folder / folded[name]).relative_to(place.root))) for name in close]
