"""Several brokers of a real Apache Kafka: replication, leaders that move, brokers that die.

Each process is broker and controller (KRaft), as small clusters are run, so one of three may be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from tests.peers.apache_kafka import ApacheKafka
from tests.support.node_folders import remove_folder

#: Three copies of everything, one may be missing; a dead broker is given up after 3 s, not 9.
_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


class ApacheKafkaCluster:
    """Brokers 1, 2, ... in racks rack-1, rack-2, ..., each a process of its own; a context manager."""

    def __init__(self, size: int = 3, settings: Mapping[str, str] | None = None, *, heap: str = "256m") -> None:
        """`settings` are added to every server.properties."""
        self.brokers = {number: ApacheKafka(heap=heap) for number in range(1, size + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{broker.controller_port}" for number, broker in self.brokers.items())
        for number, broker in self.brokers.items():
            own = {"node.id": str(number), "broker.rack": f"rack-{number}", "controller.quorum.voters": voters}
            broker.settings.update({**_SETTINGS, **own, **(settings or {})})

    @property
    def bootstrap_servers(self) -> str:
        """All brokers' addresses, whether they run or not."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(len(self.brokers)) as threads:  # a broker opens its port when the quorum is there
            list(threads.map(ApacheKafka.start, self.brokers.values()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            broker.stop(kill=True)
            remove_folder(broker.folder, failed=kind is not None)
