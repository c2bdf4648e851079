"""A topic whose leaders may be elected uncleanly: what is acknowledged may be lost there, but nothing else happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.admin.new_topic import NewTopic
from barnabas.testing.simulator.workloads.workload import Workload
from barnabas.testing.simulator.workloads.writer import Load, Writer, Writings

if TYPE_CHECKING:
    from barnabas.testing.simulator.parts import Parts


class UncleanTopic(Workload):
    """A writer to it. In the end it has a leader, and holds what was written there, once.

    That its replicas are equal, and all in sync, the scenario demands of every topic.
    """

    SHARE = 0.3
    TOPIC = "unclean"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._writings = Writings(self.world, parts.clients, self.TOPIC)

    def topics(self) -> list[NewTopic]:
        """See `Workload`."""
        configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        return [NewTopic(self.TOPIC, 1, 3, configs=configs)]

    def cast(self) -> None:
        """See `Workload`."""
        settings = {"client_id": self.TOPIC, "request_timeout_ms": 4000}
        self.parts.add(Writer, f"writer-{self.TOPIC}", writings=self._writings, load=Load(0.5, 0, 0), settings=settings)

    def check(self) -> None:
        """See `Workload`."""
        stored = self._writings.read()
        lost = [one for one in self._writings.acknowledged if stored.get(one.offset) is not one]
        self.world.counts["acknowledged records lost by unclean elections"] += len(lost)
