"""Java clients against our broker: groups that copy a topic in transactions (tests/interop/java/Clients.java)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from barnabas import Broker
from tests.peers.java_tools import JavaTools

# The first test of a fresh machine fetches Apache Kafka.
pytestmark = pytest.mark.timeout(300)

ASSIGNORS = "org.apache.kafka.clients.consumer"


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    with JavaTools(100) as tools:
        yield tools


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param([f"partition.assignment.strategy={ASSIGNORS}.RangeAssignor"], id="range"),
        pytest.param([f"partition.assignment.strategy={ASSIGNORS}.RoundRobinAssignor"], id="roundrobin"),
        pytest.param([f"partition.assignment.strategy={ASSIGNORS}.StickyAssignor"], id="sticky"),
        pytest.param([f"partition.assignment.strategy={ASSIGNORS}.CooperativeStickyAssignor"], id="cooperative-sticky"),
        pytest.param(["group.protocol=consumer", "group.remote.assignor=uniform"], id="consumer-uniform"),
        pytest.param(["group.protocol=consumer", "group.remote.assignor=range"], id="consumer-range"),
    ],
)
def test_a_group_whose_members_come_and_go_copies_every_record_exactly_once(
    java: JavaTools, broker: Broker, new_name: Callable[[str], str], settings: list[str]
) -> None:
    if settings[0].startswith("partition"):
        # A member that could not tell a coordinator that it leaves is waited for that long, by the next one once more.
        settings = [*settings, "heartbeat.interval.ms=100", "session.timeout.ms=6000"]
    done = java.run("Clients", broker.bootstrap_servers, new_name("copy"), "4000", *settings)
    assert done.code == 0, done.out[-2000:] + done.err[-4000:]
    assert int(done.out.split()[1]) >= 4000
