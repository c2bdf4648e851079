"""Each thread and task that barnabas starts by itself, and what an error in it does that was not foreseen.

A thread that ends by such an error ends without a word to those who wait for what it does: nothing is refreshed,
renewed, flushed or answered any more. So either it goes on, or they hear of it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import barnabas
from barnabas import Broker
from barnabas.anatomy.recorder import Recorder
from barnabas.anatomy.writer import RecordingWriter
from barnabas.broker.kraft import port_probe
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.network import lifeline_connections
from barnabas.broker.network.lifeline_connections import LifelineConnections
from barnabas.broker.runner import BrokerRunner
from barnabas.broker.security.jwks import Patience, RefreshingJwks
from barnabas.broker.storage_threads import StorageThreads
from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt, BrokerLifelines, Life
from barnabas.cli.anatomy_stage import Stage
from barnabas.console import login_routes
from barnabas.console.live import Hub
from barnabas.console.sampler import Sampler
from barnabas.errors import KafkaError
from barnabas.network import resolver
from barnabas.network.resolver import ThreadedResolver
from barnabas.network.security.blocking_worker import run_work
from barnabas.testing import FaultProxy
from tests.contract.waiting import eventually
from tests.docs.pages import ROOT
from tests.docs.test_findings import names_in


def _table() -> dict[str, str]:
    text = Path(__file__).with_name("what_runs_by_itself.txt").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if not line.startswith("#")]
    return dict(zip(lines[::2], lines[1::2], strict=True))


STARTED = _table()


def started() -> set[str]:
    """What starts by itself: `Thread(target=...)`, subclasses of Thread, and tasks of asyncio, by what they run."""
    home, found = Path(barnabas.__file__).parent, set()
    for path in home.rglob("*.py"):
        if "simulator" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (name := _what_starts(node)) is not None:
                found.add(f"{path.relative_to(home).as_posix()}::{name}")
    return found


def _what_starts(node: ast.AST) -> str | None:
    if isinstance(node, ast.ClassDef) and any(_name(base) == "Thread" for base in node.bases):
        return "run"
    if not isinstance(node, ast.Call):
        return None
    if _name(node.func) == "Thread":
        return next(_name(each.value) for each in node.keywords if each.arg == "target")
    if _name(node.func) in ("create_task", "ensure_future", "run_coroutine_threadsafe"):
        return _name(node.args[0])
    return None


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_all_that_starts_by_itself_is_in_the_table() -> None:
    assert started() == STARTED.keys()


@pytest.mark.parametrize("shown", sorted({each for each in STARTED.values() if not each.startswith("left: ")}))
def test_the_table_names_tests_that_are_there(shown: str) -> None:
    path, _, name = shown.partition("::")
    assert name in names_in(ROOT / path)


def fail(*_: Any, **__: Any) -> Any:
    raise ArithmeticError("not foreseen")


def test_a_recording_that_fails_has_ended_for_its_recorder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(RecordingWriter, "_write", fail)
    monkeypatch.setattr("barnabas.anatomy.writer.INTERVAL", 0.001)
    writer = RecordingWriter(tmp_path / "events.jsonl", "title", Recorder(), ended.set)
    writer.start()
    assert ended.wait(10)
    writer.close()
    assert "recording has ended by a fault" in caplog.text


def test_a_broker_in_this_process_that_ends_by_a_fault_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = BrokerRunner.run

    def run_and_fail(self: BrokerRunner) -> None:
        run(self)
        fail()

    monkeypatch.setattr(BrokerRunner, "run", run_and_fail)
    with Broker(in_process=True) as broker:
        address = broker.bootstrap_servers
    assert f"the broker at {address}, in a thread of this process, has ended by a fault" in caplog.text


def test_each_probe_of_a_port_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_probe, "addresses_of", fail)
    found = asyncio.run(port_probe.probe_port("host", 9092))
    assert (found.is_open, found.is_refused) == (False, False)


def test_a_file_that_cannot_be_closed_is_a_failed_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, close = OsFileSystem(), os.close
    broken = [OSError(errno.EIO, "the server is gone")]

    def close_and_fail(descriptor: int) -> None:
        close(descriptor)
        if broken:
            raise broken.pop()

    monkeypatch.setattr(os, "close", close_and_fail)
    with contextlib.closing(files.open(str(tmp_path / "file"))) as file:
        for error in (errno.EIO, None):
            sync = files.prepare_sync([file], [])
            sync.run()
            assert sync.done
            assert (sync.error and sync.error.errno) == error


def test_each_attempt_at_a_lifeline_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifeline_connections, "addresses_of", fail)

    async def play() -> list[dict[str, bool]]:
        told: list[dict[str, bool]] = []
        changed = asyncio.Event()
        lines = BrokerLifelines(lambda life: None)
        lines.failed = lambda attempt, now, **why: told.append(why)  # type: ignore[method-assign,assignment]
        LifelineConnections(lines, changed.set)
        lines.connect(Attempt(Life(1, 10, "host", 9092), 1))
        await asyncio.wait_for(changed.wait(), 10)
        return told

    assert asyncio.run(play()) == [{"is_refused": False, "is_silent": False}]


def test_keys_are_fetched_again_after_any_error() -> None:
    said: list[str] = []
    fetched: list[int] = []

    def fetch() -> Any:
        fetched.append(len(fetched))
        if len(fetched) == 2:
            fail()
        return SimpleNamespace(keys=[])

    keys = RefreshingJwks(fetch, Patience(0.02, 0.01, 0.05), said.append)
    eventually(lambda: len(fetched) > 3)
    assert "not foreseen; tokens are verified by those that were fetched before" in said[0]
    assert keys.find("any") == []


def test_work_beside_the_loop_is_done_though_its_end_could_not_be_told(caplog: pytest.LogCaptureFixture) -> None:
    storage, done = StorageThreads(), list[int]()
    storage.on_done = fail  # as of a loop that is closed
    for number in range(20):
        storage.submit(lambda: None, lambda number=number: done.append(number))  # type: ignore[misc]
        storage.drain()
    storage.submit(fail, lambda: done.append(20))
    storage.close()
    assert done == [*range(21)]
    assert "its end could not be told" in caplog.text


@contextlib.contextmanager
def no_threads() -> Iterator[None]:
    """A system that gives no more threads."""
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threading.Thread.start = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


def test_work_is_done_on_the_loop_when_there_are_no_threads_for_it() -> None:
    storage, done = StorageThreads(), list[str]()
    with no_threads():
        storage.submit(lambda: done.append("work"), lambda: done.append("told"))
        storage.drain()
    storage.submit(lambda: done.append("later"), lambda: None)
    storage.close()
    assert done == ["work", "told", "later"]


def test_a_name_cannot_be_looked_up_without_threads_and_is_later(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    names = ThreadedResolver()
    with no_threads():
        names.resolve("localhost", 9092, found.append)
    assert isinstance(found.pop(), OSError)
    names.resolve("localhost", 9092, found.append)
    eventually(lambda: bool(found))
    assert isinstance(found[0], list)


def test_a_name_whose_look_up_fails_in_any_way_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up, found = resolver._look_up, list[Any]()

    def fail_names(host: str, port: int, flags: int) -> Any:
        return look_up(host, port, flags) if flags else fail()

    monkeypatch.setattr(resolver, "_look_up", fail_names)
    names = ThreadedResolver()
    for _ in range(2):
        names.resolve("broker-1", 9092, found.append)
        eventually(lambda: bool(found))
        assert "'broker-1' could not be looked up: ArithmeticError('not foreseen')" in str(found.pop())


def test_an_authentication_that_fails_in_any_way_has_an_answer() -> None:
    told: list[Any] = []
    run_work(SimpleNamespace(run=fail), told.append)  # type: ignore[arg-type]
    assert [type(each) for each in told] == [KafkaError]


def test_who_leaves_the_stage_by_a_fault_is_named(caplog: pytest.LogCaptureFixture) -> None:
    Stage._act(SimpleNamespace(_is_over=threading.Event()), fail, "orders")  # type: ignore[arg-type]
    assert "orders has left the stage: ArithmeticError('not foreseen')" in caplog.text


def test_sessions_end_though_one_could_not_be_looked_after(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(login_routes, "HOUSEKEEPING_SECONDS", 0.001)
    expired: list[int] = []

    def expire() -> None:
        expired.append(len(expired))
        if len(expired) == 1:
            fail()

    async def play() -> None:
        routes = login_routes.Logins(SimpleNamespace(), SimpleNamespace(), fail)  # type: ignore[arg-type]
        routes.sessions.expire = expire  # type: ignore[method-assign]
        async with routes:
            while len(expired) < 3:
                await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(play(), 10))
    assert "sessions could not be looked after" in caplog.text


def test_a_sample_that_fails_in_any_way_is_told_and_the_next_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.console.sampler.INTERVAL", 0.001)

    async def play() -> bytes:
        hub = Hub(("trouble",))
        sampler = Sampler(SimpleNamespace(describe_cluster=fail), hub, (lambda: 0, time.monotonic), {})  # type: ignore[arg-type]
        running = asyncio.create_task(sampler.run())
        events = hub.events(("trouble",))
        told = [await anext(events) for _ in range(3)]  # the first one only opens the stream
        running.cancel()
        await events.aclose()  # type: ignore[attr-defined]
        return told[-1]

    assert b"the console's log says how it failed" in asyncio.run(asyncio.wait_for(play(), 10))


def test_a_proxy_that_fails_ends_its_connections_and_takes_others(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as upstream, FaultProxy() as proxy:
        proxy.forward_to(f"127.0.0.1:{upstream.getsockname()[1]}")
        host, _, port = proxy.address.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            eventually(lambda: proxy.connection_count == 1)
            turn = proxy._turn
            proxy._turn = fail  # type: ignore[method-assign]
            client.settimeout(10)
            client.send(b"x")
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
            proxy._turn = turn  # type: ignore[method-assign]
        with socket.create_connection((host, int(port))):
            eventually(lambda: proxy.connection_count == 1)
    assert "its connections are ended, by a fault of the proxy" in caplog.text
