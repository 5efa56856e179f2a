"""What the plugin says and explains, without a person: run by Neovim itself, no server needed."""

from __future__ import annotations

import json
import re
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from tests.editors.nvim.driver import PLUGIN, nvim_or_skip


def lua(code: str, folder: Path) -> Any:
    """What a Lua function body returns inside Neovim, with the plugin on its path."""
    script = folder / "script.lua"
    told = f"vim.opt.runtimepath:prepend({json.dumps(str(PLUGIN))})\nlocal function body()\n{code}\nend\n"
    script.write_text(f"{told}io.stdout:write(vim.json.encode(body()))\n", encoding="utf-8")
    done = subprocess.run(
        [nvim_or_skip(), "--clean", "--headless", "-l", str(script)],
        env={"HOME": str(folder), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        encoding="utf-8",
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_both_languages_have_the_same_texts_with_the_same_places_for_values(tmp_path: Path) -> None:
    languages = "{ require('maestro.messages.en'), require('maestro.messages.ja') }"
    english, japanese = lua(f"return {languages}", tmp_path)
    assert english.keys() == japanese.keys()
    for key, text in english.items():
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", japanese[key])), key


def test_every_text_that_the_code_names_exists_and_none_is_idle(tmp_path: Path) -> None:
    texts = set(lua("return vim.tbl_keys(require('maestro.messages.en'))", tmp_path))
    sources = [*(PLUGIN / "lua/maestro").glob("*.lua"), PLUGIN / "plugin/maestro.lua"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    families = tuple(re.findall(r"'(\w+\.)' \.\.", code))
    named = set(re.findall(r"messages\.text\(\s*'([\w.]+)'(?! \.\.)", code))
    said = " ".join(re.findall(r"\bsaid\([^)]*\)", code))
    named |= {f"health.{key}" for key in re.findall(r"'(\w+)'", said)}
    assert named <= texts
    quoted = set(re.findall(r"'([\w.]+)'", code))
    idle = {key for key in texts - named - quoted if not key.startswith(families)}
    assert not idle


@pytest.mark.parametrize(
    ("typed", "settings", "instruction"),
    [
        ("Make it so", [], "Make it so"),
        ("piece=code  mode=ask a=b stays", {"piece": "code", "mode": "ask"}, "a=b stays"),
        ("piece=code", {"piece": "code"}, ""),
        ("テストを直す piece=code", [], "テストを直す piece=code"),
        ("", [], ""),
    ],
)
def test_only_leading_words_are_settings(
    tmp_path: Path, typed: str, settings: object, instruction: str
) -> None:
    code = f"return {{ require('maestro.start').parse({json.dumps(typed, ensure_ascii=False)}) }}"
    assert lua(code, tmp_path) == [settings, instruction]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -rf a\nb\r\tc", "rm -rf a\\nb\\r\\tc"),
        ("price\u202e.txt", "price<202e>.txt"),
        ("zero\u200bwidth \x1b[31m", "zero<200b>width ^[[31m"),
        ("切り捨て", "切り捨て"),
    ],
)
def test_nothing_hidden_in_outside_text_reaches_the_screen_as_it_is(
    tmp_path: Path, text: str, shown: str
) -> None:
    told = "vim.json.decode([==[" + json.dumps(text) + "]==])"
    assert lua(f"return require('maestro.text').oneline({told})", tmp_path) == shown


def test_a_request_that_is_asked_anew_is_one_prompt_for_the_asking_that_counts(tmp_path: Path) -> None:
    told = lua(
        "vim.g.maestro = { prompt = 'now' }\n"
        "local prompts, got = {}, {}\n"
        "vim.ui.select = function(_, _, done) table.insert(prompts, done) end\n"
        "local function come(name) coroutine.wrap(function()\n"
        "  local request = { requestId = 'r', jobId = 'j', reason = 'question', title = '?' }\n"
        "  request.options = { 'a' }\n"
        "  got[name] = require('maestro.ask').incoming(1, request) == vim.NIL and 'nothing' or 'answer'\n"
        "end)() end\n"
        "come('first')\n"
        "come('second')\n"
        "vim.wait(2000, function() return got.first and #prompts > 0 end, 10)\n"
        "local early = vim.deepcopy(got)\n"
        "prompts[1](nil)\n"
        "vim.wait(2000, function() return got.second end, 10)\n"
        "return { prompts = #prompts, early = early, late = got }",
        tmp_path,
    )
    assert told["prompts"] == 1
    assert told["early"] == {"first": "nothing"}
    assert told["late"] == {"first": "nothing", "second": "nothing"}


@pytest.mark.parametrize(
    ("reason", "language", "labels"),
    [
        ("approval", "en", ["Allow once", "Allow for this task: RULE", "Always allow: RULE", "Deny"]),
        ("tool_request", "en", ["Allow in this movement", "Allow for this task: RULE"]),
        ("package_request", "en", ["Allow exactly this command once, with network"]),
        ("spawn_request", "en", ["Allow exactly this task there"]),
        ("budget", "en", ["Go on", "Cancel the task", "Later"]),
        ("browser_login", "en", ["Done", "I cannot", "Later"]),
        ("captcha", "ja", ["できました", "できません", "あとで"]),
        ("tool_request", "ja", ["このムーブメントで許可", "このタスクでは許可: RULE", "常に許可: RULE"]),
        ("spawn_request", "ja", ["このタスクだけをそこで許可"]),
    ],
)
def test_a_card_has_the_choices_of_its_kind_and_names_the_rule_it_would_store(
    tmp_path: Path, reason: str, language: str, labels: list[str]
) -> None:
    told = lua(
        f"vim.g.maestro = {{ language = '{language}' }}\n"
        "local found\n"
        "vim.ui.select = function(items, opts) found = vim.tbl_map(opts.format_item, items) end\n"
        f"local request = {{ requestId = 'r', jobId = 'j', reason = '{reason}', rule = 'RULE' }}\n"
        "request.title = 'T'\n"
        "require('maestro.dialogs').ask(1, request, function() end)\n"
        "return found",
        tmp_path,
    )
    assert told[: len(labels)] == labels


def test_a_job_put_off_says_when_it_goes_on_and_a_parent_what_its_subtask_asks(tmp_path: Path) -> None:
    told = lua(
        "local jobs, board = require('maestro.jobs'), require('maestro.board')\n"
        "local function put(id, parent, status, wait)\n"
        "  local job = { jobId = id, parentId = parent, status = status, waitReason = wait }\n"
        "  jobs.put(1, job)\n"
        "end\n"
        "put('a', nil, 'waiting_subtasks', 'subtasks')\n"
        "put('b', 'a', 'waiting_subtasks', 'subtasks')\n"
        "put('c', 'b', 'waiting_human', 'question')\n"
        "local known = jobs.of(1).jobs\n"
        "local busy = { status = 'queued', reason = 'rate_limited' }\n"
        "busy.notBefore = '2026-12-01T09:04:05.000Z'\n"
        "return {\n"
        "  below = vim.tbl_map(function(j) return j.jobId end, jobs.waiting_below(1, known.a)),\n"
        "  within = { jobs.is_within(1, known.c, 'a'), jobs.is_within(1, known.a, 'c') },\n"
        "  busy = board.put_off(busy), queued = board.put_off({ status = 'queued' }) or 'nothing' }",
        tmp_path,
    )
    assert told["below"] == ["c"]
    assert told["within"] == [True, False]
    assert told["busy"] == "the model server is busy; it goes on at 09:04:05"
    assert told["queued"] == "nothing"


@pytest.mark.parametrize(("width", "shown"), [(20, "日本語のテスト"), (7, "日本語…"), (1, "…")])
def test_texts_are_cut_by_screen_cells(tmp_path: Path, width: int, shown: str) -> None:
    assert lua(f"return require('maestro.text').cut('日本語のテスト', {width})", tmp_path) == shown


def test_the_configuration_is_one_table_that_announces_what_the_handlers_answer(tmp_path: Path) -> None:
    told = lua(
        "local c = vim.lsp.config.maestro\n"
        "return { cmd = c.cmd, experimental = c.capabilities.experimental,"
        " handlers = vim.tbl_keys(c.handlers), options = vim.tbl_keys(c.init_options) }",
        tmp_path,
    )
    assert told["cmd"] == ["maestro-lsp", "--stdio"]
    assert told["experimental"] == {"maestro": {"approve": True, "input": True}}
    assert {"maestro/approve", "maestro/input", "maestro/jobChanged", "maestro/event"} <= set(
        told["handlers"]
    )
    assert told["options"] == [], "whether a workspace is trusted is for its person to say"


def test_the_help_names_every_command_in_both_languages(tmp_path: Path) -> None:
    defined = lua(
        "require('maestro.commands').define()\n"
        "return vim.tbl_filter(function(n) return n:match('^LspMaestro') end,"
        " vim.tbl_keys(vim.api.nvim_get_commands({})))",
        tmp_path,
    )
    assert len(defined) == 10
    for name in ("maestro.txt", "maestro.jax"):
        page = (PLUGIN / "doc" / name).read_text()
        assert {f":{command}" for command in defined} <= set(re.findall(r"\*(:LspMaestro\w+)\*", page))
        too_wide = [line for line in page.splitlines()[1:] if _cells(line) > 78]
        assert not too_wide


def _cells(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)
