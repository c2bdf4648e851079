"""A pytest plugin that names the test which leaves something of the process changed for those that run after it.

Two kinds are told apart. What a test may change only for itself (environment, directory, logging, streams, signal
handlers, the collector, ...) is compared after each test. What a fixture of a module may keep (threads, descriptors,
child processes) is compared where a file's tests end, and told with the test after which it was first there.
"""

from __future__ import annotations

import asyncio
import gc
import locale
import logging
import multiprocessing
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any

import pytest

FOLDERS = ("unit", "property", "contract", "vectors")
#: What the programs around a test start by themselves, once for all: not the test's.
NOT_OURS = ("execnet", "ThreadPoolExecutor-fsspec", "pymonitor", "Clock", "pytest_timeout")
#: How long threads and sockets that are about to end may take for it.
SECONDS_TO_END = 3.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE)
OF_PYTEST = ("LogCaptureHandler", "_LiveLoggingNullHandler", "_FileHandler")


def _handlers(logger: logging.Logger) -> tuple[int, ...]:
    return tuple(id(one) for one in logger.handlers if type(one).__name__ not in OF_PYTEST)


def _loggers() -> dict[str, tuple[Any, ...]]:
    """What acts on our loggers: those that are as they are made count as not there."""
    found = {"root": logging.root}
    made = logging.root.manager.loggerDict
    found |= {name: one for name, one in made.items() if name.startswith("barnabas") and type(one) is logging.Logger}
    states = {name: (one.level, _handlers(one), one.propagate, one.disabled) for name, one in found.items()}
    return {name: state for name, state in states.items() if name == "root" or state != (0, (), True, False)}


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "(deleted)"


#: What is to be after a test as it was before, by name. Each is compared by `==`.
STATES: dict[str, Callable[[], Any]] = {
    "os.environ": _environment,
    "the working directory": _directory,
    "loggers": _loggers,
    "logging.disable": lambda: logging.root.manager.disable,
    "sys.stdout": lambda: id(sys.stdout),
    "sys.stderr": lambda: id(sys.stderr),
    "sys.argv": lambda: list(sys.argv),
    "sys.path": lambda: list(sys.path),
    "sys.excepthook": lambda: sys.excepthook,
    "threading.excepthook": lambda: threading.excepthook,
    "sys.gettrace": sys.gettrace,
    "the switch interval": sys.getswitchinterval,
    "the recursion limit": sys.getrecursionlimit,
    "the garbage collector": lambda: (gc.isenabled(), gc.get_threshold()),
    "signal handlers": lambda: [signal.getsignal(number) for number in SIGNALS],
    "socket.getdefaulttimeout": socket.getdefaulttimeout,
    "the time zone": lambda: time.tzname,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "time functions": lambda: (time.monotonic, time.time, time.sleep, time.perf_counter),
    "random functions": lambda: (random.random, random.Random.__init__, os.urandom),
    "the running event loop": lambda: asyncio._get_running_loop(),
}


def difference(before: Any, after: Any) -> str:
    """Say in short how two values of a state differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        return ", ".join(f"{name}: {before.get(name)!r} -> {after.get(name)!r}" for name in names)[:400]
    return f"{before!r} -> {after!r}"[:400]


def _threads() -> dict[Any, str]:
    found = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    return {thread: f"thread {thread.name}" for thread in found if not thread.name.startswith(NOT_OURS)}


def _descriptors() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with suppress(OSError):
            place = os.readlink(f"/proc/self/fd/{number}")
            if place.startswith(("socket:", "anon_inode:[eventpoll]")):
                found[number, place] = f"descriptor {number} ({place})"
    return found


def of_librdkafka(keys: Collection[Any]) -> set[Any]:
    """Return the descriptors among these that no Python object owns, where librdkafka is at work: it ends its late."""
    descriptors = {key for key in keys if isinstance(key, tuple)}
    if not descriptors or "confluent_kafka" not in sys.modules:
        return set()
    # A walk over all objects takes up to a second, so it is left for when something is left behind.
    owned = {str(each.fileno()) for each in gc.get_objects() if isinstance(each, socket.socket)}
    return {key for key in descriptors if key[0] not in owned}


def _children() -> dict[Any, str]:
    return {child.pid: f"process {child.name}" for child in multiprocessing.active_children()}


def resources() -> dict[Any, str]:
    """What the process holds, in words: threads, sockets and pollers, child processes."""
    return {**_threads(), **_descriptors(), **_children()}


class Leftovers:
    """Compares before and after; a test that leaves something behind ends with an error in its teardown."""

    def __init__(self) -> None:
        self._file = ""
        self._held: dict[Any, str] = {}
        self._first_seen: dict[Any, str] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Note how it is before the first fixture."""
        if not watches(item):
            return (yield)
        if self._file != item.nodeid.partition("::")[0]:
            self._file = item.nodeid.partition("::")[0]
            self._held, self._first_seen = resources(), {}
        item.stash[_BEFORE] = {name: state() for name, state in STATES.items()}
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Compare after the last fixture; at a file's end see what is still held."""
        outcome = yield
        before = item.stash.get(_BEFORE, {})
        after = {name: STATES[name]() for name in before}
        found = [f"{name}: {difference(before[name], now)}" for name, now in after.items() if before[name] != now]
        if not before:
            return outcome
        for key in resources():
            self._first_seen.setdefault(key, item.nodeid)
        if nextitem is None or nextitem.nodeid.partition("::")[0] != self._file:
            found += self._still_held()
        if found:
            pytest.fail("left behind for the tests that follow:\n  " + "\n  ".join(found), pytrace=False)
        return outcome

    def _still_held(self) -> list[str]:
        """Name what was not there before the file's first test; give it a moment to go."""
        until = time.monotonic() + SECONDS_TO_END
        while left := {key: what for key, what in resources().items() if key not in self._held}:
            if time.monotonic() > until:
                for key in of_librdkafka(left):
                    del left[key]
                return [
                    f"{what}, first seen after {self._first_seen.get(key, 'the last')}" for key, what in left.items()
                ]
            gc.collect()
            time.sleep(0.02)
        return []


_BEFORE = pytest.StashKey[dict[str, Any]]()


def watches(item: pytest.Item) -> bool:
    """Whether a test lies in a folder whose tests share nothing with those of other files."""
    return item.nodeid.split("/")[1:2] in [[folder] for folder in FOLDERS]
