"""``maestro.task.revert`` in an editor: what is put back, and that unsaved documents stay."""

from __future__ import annotations

from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, call, serve_in_thread
from tests.engine.test_approvals import ONE
from tests.lsp.driver import Place, editor

pytestmark = pytest.mark.slow


def writes(request: Any) -> ScriptReply:
    if request.results("Write"):
        return call("complete", status="success", result="done")
    return ScriptReply(
        calls=tuple(("Write", {"file_path": name, "content": f"{name}\n"}) for name in ("a", "b", "c"))
    )


@pytest.mark.parametrize(
    ("locale", "unsaved", "again"),
    [
        ("en", "open in the editor with unsaved changes", "was put back before"),
        ("ja", "エディタに未保存の変更があります", "すでに元に戻してあります"),
    ],
)
async def test_an_unsaved_document_stays_and_the_rest_is_put_back(
    place: Place, locale: str, unsaved: str, again: str
) -> None:
    pieces = place.workspace / ".maestro" / "pieces"
    pieces.mkdir(parents=True)
    (pieces / "one.yaml").write_text(ONE, "utf-8")
    with serve_in_thread(writes) as model:
        place.endpoint = model.base_url
        options = {"trusted": True, "mode": "edits"}
        async with editor(place, locale=locale, initializationOptions=options) as it:
            job = (await it.start(piece="one"))["jobId"]
            await it.changed(job, "succeeded")
            uri = (place.workspace / "a").as_uri()
            document = {"uri": uri, "languageId": "text", "version": 1, "text": "a\nmine\n"}
            it.client.notify("textDocument/didOpen", {"textDocument": document})
            assert await it.command("task.revert", jobId=job, files=["b"]) == {"reverted": ["b"], "kept": []}
            done = await it.command("task.revert", jobId=job)
            assert done == {
                "reverted": ["c"],
                "kept": [
                    {"path": "a", "reason": "unsaved", "text": unsaved},
                    {"path": "b", "reason": "already_reverted", "text": again},
                ],
            }
            assert sorted(path.name for path in place.workspace.iterdir() if path.is_file()) == ["a"]
            [file] = (await it.command("task.changes", jobId=job))["files"]
            assert (file["path"], file["status"]) == ("a", "added")
            event = (await it.command("task.events", jobId=job))["events"][-1]
            assert (event["kind"], event["files"], event["count"], event["kept"]) == ("reverted", ["c"], 1, 2)
