"""A few examples of each fuzzed thing; `python3 dev.py fuzz` tries them by the minute."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from hypothesis import strategies as st

from tests.fuzz import __main__ as by_hand
from tests.fuzz import runner

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", runner.MODULES)
def test_it_stands_whatever_comes(name: str) -> None:
    _, _, examples = runner.of(name)
    runner.try_round(name, examples)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that does not stand 1000 and more."""

    def check(number: int) -> None:
        assert number < 1000, f"{number} is too much"

    module = ModuleType("tests.fuzz.faulty")
    module.__dict__.update(strategy=st.integers, check=check)
    monkeypatch.setitem(sys.modules, "tests.fuzz.faulty", module)
    monkeypatch.setattr(runner, "MODULES", ["faulty"])
    return "faulty"


def test_what_is_found_is_told_small_and_with_the_seed_that_finds_it_again(
    faulty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert by_hand.main(["--minutes", "0.2"]) == 1
    told = capsys.readouterr().out
    assert "1000 is too much" in told
    again = told.rpartition("again: python3 dev.py fuzz ")[2].partition("\n")[0].split()
    assert again[0] == faulty and by_hand.main(again) == 1
    assert "1000 is too much" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonesuch"], ["--minutes"], ["--minutes", "-1"], ["--seed", "x"]])
def test_wrong_usage_is_a_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        by_hand.main(arguments)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
