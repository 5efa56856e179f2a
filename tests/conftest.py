"""Rules for the whole suite: `needs(command)`, and no skipped test on CI."""

import os
import shutil
import signal
from pathlib import Path

import pytest

# Started with `&` or `nohup`, a signal is ignored, and every process that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

LONG = Path(__file__).with_name("data") / "long.txt"
ON_CI = os.environ.get("CI", "").lower() in {"true", "1"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that the inner loop leaves out, by name, with all their parameters."""
    named = set(LONG.read_text("utf-8").splitlines())
    for item in items:
        if item.nodeid.partition("[")[0] in named:
            item.add_marker(pytest.mark.long)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test by the name of the command it needs and this machine lacks."""
    for marker in item.iter_markers("needs"):
        for command in marker.args:
            if shutil.which(command) is None:
                pytest.skip(f"needs the command {command}, which is not on PATH")


def _skipped(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return [] if reporter is None else [report.nodeid for report in reporter.stats.get("skipped", [])]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI=true a skip is a failure: CI installs what the tests need, so a skip means it forgot."""
    if ON_CI and session.exitstatus == pytest.ExitCode.OK and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Names what made CI fail though every test that ran has passed."""
    skipped = _skipped(config) if ON_CI else []
    if skipped:
        terminalreporter.section("skipped, which fails with CI=true", red=True)
        for name in skipped:
            terminalreporter.line(name)
