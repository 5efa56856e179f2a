"""Commands and the words of policy: anything is taken, nothing that was not understood runs unasked, and none
takes long.
"""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import yaml
from hypothesis import strategies as st

from engine.core import command as shell
from engine.core import policy
from engine.core.policy import Choice, Level, Mode, Permissions, Question, Stance, StoredRule
from engine.core.secrets import REDACTED, redact
from engine.core.tooling import Effect

CPU_S = 2.0
LONGEST = 100_000  # what Bash takes
ATTACKS = yaml.load(
    (Path(__file__).parents[1] / "data" / "attacks.yaml").read_text("utf-8"),
    getattr(yaml, "CSafeLoader", yaml.SafeLoader),
)["attacks"]
HOSTILE = sorted({str(entry["input"]["command"]) for entry in ATTACKS if "command" in entry.get("input", {})})
PIECES = [
    *[
        "ls",
        "git",
        "git log",
        "rm -rf .",
        "npm test",
        "find . -exec",
        "env X=1",
        "cat",
        "xargs",
        "command",
        "sed -n",
    ],
    *[
        " ",
        "  ",
        "\t",
        "\n",
        "\r",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "|&",
        ";;",
        ">",
        ">>",
        "<",
        "<<E\n",
        "<(",
        ">(",
    ],
    *["'", '"', "\\", "$", "$(", "${", "`", ")", "}", "(", "{", "!", "#", "~", "*", "?", "[", "]", "=", "=~"],
    *[
        "-",
        "--",
        "-c",
        "-e",
        "--output=",
        "../",
        "/etc/passwd",
        ".env",
        ".ssh/id_rsa",
        "~/.aws/credentials",
        "a:b@c",
    ],
    *[
        "日本語",
        "報告書/第１章.md",
        "が",
        "か\u3099",
        "ｌｓ",
        "\u202e",
        "\u200b",
        "\xa0",
        "　",
        "\u2028",
        "\ufeff",
        "🇯🇵",
    ],
    *[
        "\x00",
        "\x7f",
        "\x1b[31m",
        "\ud800",
        "\udc80",
        "A" * 300,
        "https://u:p4ssw0rd@h/",
        "Authorization: Bearer x1",
    ],
]
WORD = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="\u2800") | st.just(" "),
    max_size=8,
)
PIECE = st.sampled_from(PIECES)
strategy = st.one_of(
    st.lists(PIECE | WORD, max_size=20).map("".join),
    st.tuples(PIECE, PIECE, st.integers(0, 20_000), PIECE).map(
        lambda it: (it[0] + it[1] * it[2])[:LONGEST] + it[3]
    ),
    st.tuples(st.sampled_from(HOSTILE), st.just("") | PIECE, st.integers(0, 60)).map(
        lambda it: it[0][: it[2]] + it[1] + it[0][it[2] :]
    ),
    st.lists(st.lists(WORD, min_size=1, max_size=4).map(shlex.join), min_size=1, max_size=4).map(" && ".join),
)


def check(command: str) -> None:
    """Read the command, and ask every policy about it."""
    began = time.thread_time()
    commands = shell.parse(command)
    assert commands == shell.parse(command)
    shell.secret_word(command)
    assert "" not in shell.loose_words(command)
    if isinstance(commands, tuple):
        _check_understood(command, commands)
    _check_policy(command, commands)
    _check_redaction(command)
    assert time.thread_time() - began < CPU_S, f"{len(command)} characters took too long"


def _check_understood(command: str, commands: shell.Commands) -> None:
    assert len(command.encode()) <= shell.MAX_BYTES
    assert all(commands) and command.isprintable()
    again = shell.parse("; ".join(shlex.join(words) for words in commands))
    assert again in (commands, shell.Unplain(shell.Odd.TOO_LONG, str(shell.MAX_BYTES)))
    exact = [shell.WordRule(words) for words in commands]
    for words in commands:
        least = shell.shortest_prefix(words)
        assert least is None or 0 < least <= len(words)
        assert shell.ruled((words,), exact)
    assert not shell.ruled(commands, ())


def _check_policy(command: str, commands: shell.Commands | shell.Unplain) -> None:
    question = Question("Bash", Effect.EXECUTE, command=command)
    draft = policy.draft_rule(question)
    assert draft is None or isinstance(commands, tuple)
    rules = (StoredRule(draft),) if draft is not None else ()
    if draft is not None:
        assert policy.rule_from_json(json.dumps(policy.rule_to_json(draft))) == draft
        assert policy.rule_text(draft).values["commands"]
    for level in Level:
        for mode in Mode:
            for edit in (True, False):
                stance = Stance(Permissions(("Bash",), edit), mode, level, trusted=True, rules=rules)
                verdict = policy.decide(question, stance)
                assert verdict.why.key in policy.MESSAGE_KEYS
                if isinstance(commands, shell.Unplain):
                    unasked = verdict.decision is Choice.ALLOW
                    assert not unasked or (mode is Mode.ALL and level is Level.A)
                    assert verdict.rule is None
                if any("\ud800" <= char <= "\udfff" or char == "\0" for char in command):
                    assert verdict.decision is Choice.DENY
    denied = Stance(
        Permissions(("Bash",), True), Mode.ALL, Level.A, trusted=True, rules=rules, deny=("Bash",)
    )
    assert policy.decide(question, denied).decision is Choice.DENY


def _check_redaction(text: str) -> None:
    known = [text[:12]] if len(text) >= 12 and text[:12].isalnum() else []
    safe = redact(text, known)
    assert redact(safe, known) == safe
    assert not any(value in safe.replace(REDACTED, "") for value in known if value not in REDACTED)
