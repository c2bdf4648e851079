"""The producer's deadlines are of the monotonic clock; the wall clock only stamps records."""

from __future__ import annotations

import pytest

from barnabas.client.environment import Environment
from tests.unit.client.producer.storing_broker import StoringBroker, connect


class Jumping(Environment):
    """The system's time, but for a wall clock that somebody sets."""

    jumped_by = 0

    def wall_clock_ms(self) -> int:
        return super().wall_clock_ms() + self.jumped_by


@pytest.mark.parametrize("seconds", [86_400, -86_400])
def test_when_the_wall_clock_jumps_no_batch_expires_and_none_is_held_back(
    seconds: int,
) -> None:
    environment = Jumping()
    settings = {"linger_ms": 50, "request_timeout_ms": 30_000, "delivery_timeout_ms": 60_000}
    with StoringBroker() as broker, connect(broker, environment=environment, **settings) as producer:
        before = producer.send("one", b"before")
        before.result(30)
        broker.gate.clear()
        waiting = producer.send("one", b"waiting")

        environment.jumped_by = seconds * 1000
        after = producer.send("one", b"after")
        broker.gate.set()
        stored = [future.result(30) for future in (before, waiting, after)]

        assert [metadata.offset >= 0 for metadata in stored] == [True, True, True]
        assert broker.values == [b"before", b"waiting", b"after"]
        assert producer.metrics()["record-error-total"] == producer.metrics()["record-retry-total"] == 0
    jump = stored[2].timestamp - stored[1].timestamp
    assert abs(jump - seconds * 1000) < 60_000
