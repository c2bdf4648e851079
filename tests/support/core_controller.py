"""A controller without sockets on virtual time, alone in its quorum; `CoreClient` speaks to it in bytes."""

from __future__ import annotations

import random
from math import inf
from typing import Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.instant import Instant
from barnabas.broker.kraft.controller_node import ControllerNode, NodeEnvironment
from barnabas.broker.kraft.quorum_storage import QuorumStorage
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.raft.raft_driver import Channel, Destination, RaftDriver, Timer
from barnabas.broker.storage_threads import InlineStorage, Storage
from tests.support.core_broker import DATA, START_MS, CoreClient

CONTROLLER_SETTINGS = {
    "process.roles": "controller",
    "node.id": 100,
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "100@127.0.0.1:9093",
}


class _Alarm:
    def cancel(self) -> None:
        """It is asked for no more."""


class CoreController:
    """A node of the quorum in memory; `advance` moves its clocks. `crashed()` goes on with its files."""

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        filesystem: MemoryFileSystem | None = None,
        disk: Storage | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self.problems: list[Exception] = []
        self.now = 100.0
        self.settings = {**CONTROLLER_SETTINGS, **(settings or {})}
        self.filesystem = filesystem or MemoryFileSystem(random.Random(1))
        self._wake = inf
        chance = random.Random(1)
        config = BrokerConfig(self.settings)
        disk = disk or InlineStorage()
        storage = QuorumStorage(config, DATA, self.filesystem, chance.randbytes)
        environment = NodeEnvironment(lambda: self.instant, chance, disk, self.warnings.append)
        addresses = {one.name: (one.host, one.port) for one in config.listeners}
        self.node = ControllerNode(config, storage, addresses, environment)
        self.driver = RaftDriver(
            self.node.raft,
            self._open_channel,
            self._call_at,
            lambda: self.instant,
            self.problems.append,
            disk,
        )
        requests = self.node.requests
        requests.ask_quorum, requests.forget, requests.turn_soon = (
            self.driver.handle_request,
            self.driver.forget,
            self._turn_soon,
        )
        self.driver.start()
        self.advance(1)

    @property
    def instant(self) -> Instant:
        return Instant(self.now, START_MS + int((self.now - 100) * 1000))

    def advance(self, seconds: float) -> None:
        """Let time pass, with a turn at every deadline on the way."""
        end = self.now + seconds
        for _ in range(10_000):
            due = self.next_turn()
            if due > end:
                break
            self.turn(due)
        self.now = end

    def next_turn(self) -> float:
        """When there is something to do."""
        return min(self.node.core.next_deadline(), self._wake)

    def turn(self, due: float) -> None:
        """Do what is due by then."""
        self.now = max(self.now, due)
        self._wake = inf
        self.node.core.tick(self.instant)
        self.driver.turn()

    def connect(self, host: str = "10.0.0.1") -> CoreClient:
        return CoreClient(self, "CONTROLLER", host)  # type: ignore[arg-type]  # it has all that is asked of a broker

    def crashed(self) -> CoreController:
        """A new controller on what this one had on its disk."""
        self.filesystem.crash()
        return CoreController(self.settings, self.filesystem)

    def _turn_soon(self) -> None:
        self._wake = self.now

    def _call_at(self, when: float, call: object) -> Timer:
        self._wake = min(self._wake, when)
        return _Alarm()

    def _open_channel(self, destination: Destination) -> Channel:
        raise AssertionError("it is alone in its quorum")


def ask(controller: CoreController, client: CoreClient, request: Any, version: int) -> Any:
    """Return the response, after the time in which what was appended is written and committed."""
    before = len(client.responses)
    client.request(request, version)
    controller.advance(0.1)
    assert len(client.responses) == before + 1, "it is answered"
    return client.responses[-1]
