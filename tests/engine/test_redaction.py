"""A configured key is seen nowhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.tooling import Effect, Outcome, Prepared
from engine.llm.scripted import ScriptReply, call
from engine.ports import ToolContext
from engine.service import Extras
from engine.store.sqlite import Database
from tests.engine.odd import NoArgs, odd_tool
from tests.engine.rig import rig
from tests.engine.test_approvals import ONE


async def test_a_configured_key_reaches_neither_store_nor_prompt_nor_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "hunter2-correct-horse-battery"

    async def leaks(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        raise ValueError(f"the header was {key}")

    def script(request: Any) -> ScriptReply:
        if not request.contains("The person answered"):
            return ScriptReply(
                text=f"I know {key}",
                calls=(
                    ("Odd", {}),
                    ("Read", {"file_path": "config.txt"}),
                    ("Edit", {"file_path": "config.txt", "old_string": "port = 1", "new_string": "port = 2"}),
                    ("MissionUpdate", {"goal": f"use {key}"}),
                    ("complete", {"status": "needs_user_input", "result": f"{key}?", "options": [key]}),
                ),
            )
        return call("complete", status="success", result=f"used {key}")

    piece = ONE.replace("[Read, Write, Edit]", "[Read, Edit, Odd]")
    extras = Extras(tools=(odd_tool(Effect.READ, leaks),))
    async with rig(
        tmp_path, script, pieces={"one": piece}, extras=extras, start_engine=False, mode="ask"
    ) as it:
        settings = replace(it.config.llm, api_key=key)
        it.config = it.client.config = replace(it.config, llm=settings)
        (it.workspace / "config.txt").write_text(f"key = {key}\nport = 1\n")
        await it.engine()
        job = await it.start(f"Use the key {key}", piece="one")
        request = await it.open_request(job)
        await it.client.decide(request.request_id, "allow", note=f"with {key}")
        await it.until(job, lambda d: d.wait_reason == "question")
        await it.client.answer(job, f"yes, {key}")
        end = await it.until(job, lambda d: d.status == "succeeded")
        await it.client.comment(end.task_id, f"and {key}")
        await it.stop()
        db = Database(it.client.store_file)
        dump = []
        for (table,) in db._db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            for row in db._db.execute(f"SELECT * FROM {table}").fetchall():
                for column, value in dict(row).items():
                    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
                    own_words = table == "messages" and row["role"] == "assistant"
                    if key in text and not own_words and (table, column) != ("snapshots", "before"):
                        dump.append(f"{table}.{column}")
        db.close()
        assert not dump, sorted(set(dump))
        for body in it.bodies():
            assert key not in json.dumps([m for m in body["messages"] if m["role"] != "assistant"])
        assert key not in caplog.text
