"""Between a core that polls and a loop that waits."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.aio.environment import LoopEnvironment
from barnabas.client.client_utils import create_selector
from barnabas.config.client_config import ClientConfig
from barnabas.errors import IllegalStateError
from barnabas.network.loop_driver import LoopDriver
from barnabas.network.loop_port import LoopPort
from tests.support.network_fakes import FakeSelector
from tests.support.virtual_loop import VirtualBroker, run


class Watched(LoopEnvironment):
    """An environment whose only selector is a fake."""

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeSelector()

    def sockets(self, config: ClientConfig, client_id: str) -> Any:
        return self.fake

    def watch(self, selector: Any, on_ready: Callable[[], object]) -> Callable[[], None]:
        return lambda: None


CONFIG = ClientConfig("admin", None, {"bootstrap_servers": "localhost:9092"})


def in_loop(scenario: Callable[[Watched, LoopPort], Any]) -> None:
    async def with_port(_: VirtualBroker) -> None:
        environment = Watched()
        environment.bind()
        await scenario(environment, environment.selector(CONFIG, "c"))

    run(with_port)


def test_poll_never_waits_and_says_how_long_it_would_have() -> None:
    async def scenario(environment: Watched, port: LoopPort) -> None:
        port.poll(7.5, environment.clock())
        assert environment.fake.polled == [0.0]
        assert port.seconds_to_wait() == 7.5

    in_loop(scenario)


def test_after_news_the_core_looks_again_at_once() -> None:
    async def scenario(environment: Watched, port: LoopPort) -> None:
        port.connect(1, "broker", 9092, 0)
        port.poll(7.5, environment.clock())
        assert port.connected == [1]
        assert port.seconds_to_wait() == 0.0
        port.poll(7.5, environment.clock())
        assert port.seconds_to_wait() == 7.5

    in_loop(scenario)


def test_after_a_wakeup_the_core_looks_again_at_once() -> None:
    async def scenario(environment: Watched, port: LoopPort) -> None:
        port.poll(7.5, environment.clock())
        port.wakeup()
        assert port.seconds_to_wait() == 0.0

    in_loop(scenario)


def test_bytes_that_tls_holds_are_not_waited_for() -> None:
    async def scenario(environment: Watched, port: LoopPort) -> None:
        environment.fake.has_unread = True  # type: ignore[attr-defined]  # as a Selector has it
        port.poll(7.5, environment.clock())
        assert port.seconds_to_wait() == 0.0

    in_loop(scenario)


def test_a_turn_that_fails_is_logged_and_the_next_one_comes_after_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(environment: Watched, port: LoopPort) -> None:
        turns: list[float] = []

        def turn(now: float) -> None:
            turns.append(now)
            if len(turns) == 1:
                raise RuntimeError("a bug")
            port.poll(100.0, now)

        driver = LoopDriver(environment, port, turn, "a core")
        driver.start()
        assert await driver.until(lambda: len(turns) == 2, 60)
        assert turns[1] - turns[0] == pytest.approx(0.1)
        driver.stop()

    in_loop(scenario)
    assert "a core: unexpected error, going on" in caplog.text


def test_a_driver_makes_no_turns_without_need() -> None:
    async def scenario(environment: Watched, port: LoopPort) -> None:
        turns: list[float] = []

        def turn(now: float) -> None:
            turns.append(now)
            port.poll(10.0, now)

        driver = LoopDriver(environment, port, turn, "a core")
        driver.start()
        await asyncio.sleep(95)
        assert len(turns) == 10
        driver.stop()
        await asyncio.sleep(95)
        assert len(turns) == 10
        assert await driver.until(lambda: False) is False, "nobody waits for a driver that is stopped"

    in_loop(scenario)


def test_a_forked_child_is_refused() -> None:
    async def scenario(environment: Watched, port: LoopPort) -> None:
        environment._pid = os.getpid() + 1
        with pytest.raises(IllegalStateError, match="another thread or process"):
            environment.check_thread()

    in_loop(scenario)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_loop_watches_the_one_descriptor_of_all_sockets(kind: str) -> None:
    async def watch() -> None:
        environment = LoopEnvironment()
        environment.bind()
        port = environment.selector(CONFIG, "c")
        ready = asyncio.Event()
        port.on_ready = ready.set
        with socket.create_server(("127.0.0.1", 0)) as server:
            port.connect(1, "127.0.0.1", server.getsockname()[1], 0)
            port.poll(1.0, environment.clock())
            port.watch()
            while not port.connected:
                await asyncio.wait_for(ready.wait(), 5)
                ready.clear()
                port.poll(1.0, environment.clock())
            connection, _ = server.accept()
            connection.sendall(b"\0\0\0\1x")
            await asyncio.wait_for(ready.wait(), 5)
            port.poll(1.0, environment.clock())
            assert [bytes(frame) for _, frame in port.completed_receives] == [b"x"]
            connection.close()
        port.close_all()

    if kind == "asyncio":
        asyncio.run(watch())
    else:
        uvloop = pytest.importorskip("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(watch())


def test_a_loop_that_watches_no_descriptors_is_refused() -> None:
    async def scenario(_: VirtualBroker) -> None:
        environment = LoopEnvironment()
        environment.bind()
        port = LoopPort(environment, create_selector(CONFIG))
        with pytest.raises(IllegalStateError, match="epoll or kqueue"):
            port.watch()
        port.close_all()

    run(scenario)
