"""From the last sign of life of a machine until it is given up, on virtual time: whenever its silence begins."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.broker.instant import Instant
from barnabas.broker.network import lifeline_connections
from barnabas.broker.network.lifeline_connections import LifelineConnections
from barnabas.broker.silent_machines import Silence
from barnabas.broker.zookeeper.controller.broker_lifelines import BrokerLifelines, Life
from tests.support.virtual_loop import VirtualLoop

#: How often the system asks a machine for a sign of life, in seconds.
_KEPT_ALIVE_EVERY = 1.0
#: What the system, and the ways of the network, take beside; in seconds.
_BESIDE = 0.03


class Socket:
    """A connection to a machine, whose system acknowledges each second that it is there."""

    def __init__(self, network: Network, host: str) -> None:
        self.network, self.host, self.opened_at = network, host, network.loop.now

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        return

    @property
    def acknowledged_at(self) -> float:
        """When the last sign of life came."""
        until = min(self.network.loop.now, self.network.silent_since.get(self.host, float("inf")))
        return self.opened_at + (until - self.opened_at) // _KEPT_ALIVE_EVERY * _KEPT_ALIVE_EVERY


class Network:
    """Machines that lifelines are held to, some of them silent from a time on."""

    def __init__(self, patch: pytest.MonkeyPatch, silence: Silence, machines: int) -> None:
        self.loop = VirtualLoop()
        self.loop.sock_recv = self._nothing  # type: ignore[method-assign]
        self.silent_since: dict[str, float] = {}
        self.sockets: dict[str, Socket] = {}
        self.looks = 0
        self.given_up: list[tuple[str, float]] = []
        for name, instead in {
            "addresses_of": self._addresses,
            "connected": self._connected,
            "keep_alive": lambda sock, longest: None,
            "silent_for": self._silent_for,
            "read_clocks": lambda: Instant(self.loop.now, 0),
        }.items():
            patch.setattr(lifeline_connections, name, instead)
        self.lines = BrokerLifelines(lambda life: self.given_up.append((life.host, self.loop.now)), silence, me=0)
        self.connections = LifelineConnections(self.lines, self.tick)
        self.machines = [f"machine-{number}" for number in range(1, machines + 1)]

    async def _nothing(self, sock: object, size: int) -> bytes:
        await asyncio.sleep(1e6)
        return b""

    async def _addresses(self, host: str, port: int) -> list[tuple[str, int]]:
        return [(host, port)]

    async def _connected(self, host: str, port: int, patience: float) -> Socket:
        if host in self.silent_since:
            await asyncio.sleep(patience)
            raise OSError(errno.ETIMEDOUT, "nothing has come back")
        await asyncio.sleep(0.002)
        self.sockets[host] = Socket(self, host)
        return self.sockets[host]

    def _silent_for(self, sock: Socket) -> float:
        self.looks += 1
        return self.loop.now - sock.acknowledged_at

    def tick(self) -> None:
        """Let the lifelines do what is due, as the dispatcher does after each event."""
        while (deadline := self.lines.next_deadline()) <= self.loop.now:
            self.lines.tick(Instant(self.loop.now, 0))
        if deadline < float("inf"):
            self.loop.call_at(deadline, self.tick)

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Hold lifelines to all machines, and play."""

        async def play() -> None:
            for number, machine in enumerate(self.machines, 1):
                self.lines.watch(Life(number, 7, machine, 9092))
            self.tick()
            await asyncio.sleep(5.0)
            await scenario()
            self.connections.close()
            await asyncio.sleep(0.0)

        try:
            self.loop.run_until_complete(play())
        finally:
            self.loop.close()


@pytest.mark.parametrize("session", [6.0, 9.0, 18.0])
@pytest.mark.parametrize("phase", range(20))
def test_a_machine_is_given_up_when_its_silence_and_two_attempts_are_over_and_no_later(
    session: float, phase: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = Silence.of(-1, session)
    assert silence is not None
    network = Network(monkeypatch, silence, 3)

    async def scenario() -> None:
        await asyncio.sleep(phase / 20)
        network.silent_since["machine-2"] = network.loop.now
        await asyncio.sleep(session)

    network.run(scenario)
    ((machine, given_up_at),) = network.given_up
    assert machine == "machine-2"
    took = given_up_at - network.sockets[machine].acknowledged_at
    apart = 0.05
    assert silence.longest + 2 * silence.patience <= took
    assert took <= silence.longest + 2 * silence.patience + apart + _BESIDE
    assert took < 0.42 * session


def test_a_connection_is_looked_at_when_its_silence_may_be_over_and_no_oftener(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, Silence(longest=4.5, patience=1.0), 1)

    async def scenario() -> None:
        network.looks = 0
        await asyncio.sleep(60.0)

    network.run(scenario)
    assert not network.given_up
    assert network.looks <= 60 / (4.5 - _KEPT_ALIVE_EVERY) + 1
