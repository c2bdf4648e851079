"""A turn of the broker's core that raises is reported, and the core gets its next turn all the same."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.broker.instant import Instant
from barnabas.broker.network import socket_server
from barnabas.broker.network.socket_server import SocketServer
from tests.support.core_broker import CoreBroker


@pytest.mark.parametrize("turn", ["tick", "settle"])
def test_the_timer_goes_on_after_a_turn_that_raises(turn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server, "_REST_AFTER_FAULT", 0.01)
    broker = CoreBroker()
    core = broker.node.core
    turns: list[Instant] = []

    def fail(instant: Instant) -> None:
        turns.append(instant)
        if len(turns) == 1:
            raise RuntimeError("planted")

    monkeypatch.setattr(core, turn, fail)
    if turn == "settle":
        core.channel.resume(broker.connect().connection)

    async def serve() -> None:
        server = SocketServer(core)
        if turn == "settle":
            server.settle_soon()
            await asyncio.sleep(0)
            monkeypatch.setattr(core, "tick", fail)
        server._rests_until = -1.0
        core.services.append(_Due())
        server.keep_time()
        for _ in range(500):
            if len(turns) > 1:
                break
            await asyncio.sleep(0.005)
        await server.close()

    asyncio.run(serve())
    assert len(turns) > 1
    reports = [line for line in broker.warnings if "a turn of the broker; please report this" in line]
    assert len(reports) == 1
    assert "planted" in reports[0]


class _Due:
    """A service that is always due."""

    def tick(self, instant: Instant) -> None:
        """Nothing."""

    def next_deadline(self) -> float:
        return 0.0
