"""Fuzzing by hand, by the minute: `python3 dev.py fuzz [--minutes N] [--seed N] [NAME …]`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
from collections.abc import Sequence

from tests.fuzz import runner

ROUNDS_OF_SUITE = 5
WIDEST = 2_000


def main(arguments: Sequence[str]) -> int:
    """Tries the modules named, or all, round after round until their share of the time is over; 1 if one
    failed.
    """
    asked = _asked(arguments)
    names = asked.names or runner.MODULES
    share = asked.minutes * 60 / len(names)
    failed = [name for name in names if not _stands(name, share, asked.seed)]
    print(f"failed: {', '.join(failed)}" if failed else "nothing found")
    return 1 if failed else 0


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "dev.py fuzz", description="Feeds each module of tests/fuzz with anything."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(runner.MODULES)}; else all")
    parser.add_argument("--minutes", type=_positive, default=10.0, help="for all together (10)")
    parser.add_argument("--seed", type=int, help="one round only, the one that was reported with this seed")
    asked = parser.parse_args(arguments)
    if strange := [name for name in asked.names if name not in runner.MODULES]:
        parser.error(f"there is no {strange[0]}; there are: {', '.join(runner.MODULES)}")
    return asked


def _positive(text: str) -> float:
    minutes = float(text)
    if minutes <= 0:
        raise ValueError
    return minutes


def _stands(name: str, seconds: float, only: int | None) -> bool:
    """Whether no round fails within the time; what failed is printed."""
    _, _, in_suite = runner.of(name)
    size, end, rounds = ROUNDS_OF_SUITE * in_suite, time.monotonic() + seconds, 0
    while not rounds or (only is None and time.monotonic() < end):
        number = secrets.randbelow(1 << 32) if only is None else only
        try:
            runner.try_round(name, size, number)
        except Exception:
            print("\n".join(line[:WIDEST] for line in traceback.format_exc().splitlines()))
            print(f"{name}: FAILED in round {rounds + 1}; again: python3 dev.py fuzz {name} --seed {number}")
            return False
        rounds += 1
    print(f"{name}: {rounds * size} examples stood", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
