"""Finds the modules of this folder and tries one round of examples of one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

_OURS = {"__init__", "__main__", "runner", "test_fuzz"}
MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _OURS)
IN_SUITE = 40


def of(name: str) -> tuple[SearchStrategy[Any], Callable[[Any], object], int]:
    """A module's strategy, its check, and how many examples the suite tries."""
    module = import_module(f"tests.fuzz.{name}")
    made = module.strategy
    strategy = made if isinstance(made, SearchStrategy) else made()
    return strategy, module.check, getattr(module, "EXAMPLES", IN_SUITE)


def try_round(name: str, examples: int, number: int | None = None) -> None:
    """One round of examples; those of a numbered one are always the same. Raises what the check raises, for
    the smallest example.
    """
    strategy, check, _ = of(name)

    def example_stands(example: Any) -> None:
        check(example)

    trial = given(strategy)(example_stands)
    trial = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )(trial)
    (trial if number is None else seed(number)(trial))()
