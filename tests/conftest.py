"""Puts the import hooks of tests/hooks in place, here and, through PYTHONPATH, in every child process.

Run on several workers (`./run test` does), tests that share something costly stay on one of them, and the longest
such groups begin first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.peers import jvm

# A loaded machine is slow; that is no failure. `timeout` in pyproject.toml ends what hangs.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time: new ones are drawn at night, so that no change waits for another's fault.
settings.register_profile("same", parent=settings.get_profile("new"), derandomize=True)
settings.load_profile(os.environ.get("BARNABAS_EXAMPLES", "same"))

jvm.live_short()

HOOKS = str(Path(__file__).parent / "hooks")

if os.environ.get("BARNABAS_UNCOMPILED") or os.environ.get("BARNABAS_BREAK"):
    for name in [name for name in sys.modules if name.partition(".")[0] == "barnabas"]:
        del sys.modules[name]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HOOKS, os.environ.get("PYTHONPATH")]))
    sys.path.insert(0, HOOKS)
    sys.modules.pop("sitecustomize", None)
    import sitecustomize

    sitecustomize.install()


def pytest_configure(config: pytest.Config) -> None:
    """Have each test leave the process as it found it (`-p no:leftovers` leaves that out), and every failure told.

    Memory is part of that: see `EarlyCollection`. What hangs ends: see `LastResort`.
    """
    from tests.support import printable_tracebacks
    from tests.support.early_collection import EarlyCollection
    from tests.support.last_resort import LastResort
    from tests.support.leftovers import Leftovers
    from tests.support.node_folders import FailureWatch

    config.pluginmanager.register(Leftovers(), "leftovers")
    config.pluginmanager.register(EarlyCollection(), "early_collection")
    config.pluginmanager.register(LastResort(), "last_resort")
    config.pluginmanager.register(FailureWatch(), "failure_watch")
    config.pluginmanager.register(printable_tracebacks, "printable_tracebacks")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep together what `group_scheduling` says, for `--dist loadgroup`."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.support.group_scheduling import GroupScheduling

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the groups that take longest, in a process of pytest-xdist."""
    # There `dist` is "no", and this says what it was.
    if config.getoption("loadgroup", default=False):
        from tests.support.group_scheduling import place_of

        items.sort(key=lambda item: place_of(item.nodeid))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch what a fresh machine lacks before the first test, as the limit of a test's time holds for its fixtures."""
    folders = {Path(item.nodeid.partition("::")[0]).parts[1] for item in session.items}
    if session.config.option.collectonly or not folders & {"contract", "interop", "spark"} or not shutil.which("java"):
        return
    from tests.peers import apache_kafka, spark_kafka_connector

    wanted = {
        apache_kafka.JARS: {"contract", "interop"},
        apache_kafka.STREAMS_JARS: {"interop"},
        spark_kafka_connector.JARS: {"spark"},
    }
    for jars, where in wanted.items():
        if folders & where:
            # Without a network the tests that need the jars say so.
            with contextlib.suppress(RuntimeError):
                jars.fetch()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped once for each reason, and last of all what to install for the tests that lack a program."""
    from tests.support.missing_programs import missing_programs, without_class

    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(without_class(str(report.longrepr[2])) for report in skipped)
    for reason, tests in reasons.most_common():
        terminalreporter.write_line(f"{tests} skipped: {reason}")
    line = missing_programs(reasons)
    if line:
        terminalreporter.write_line(line, yellow=True)
