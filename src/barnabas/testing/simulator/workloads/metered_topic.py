"""A client with a quota: what it gets stored stays within it, and it gets on."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.client.admin.client_quotas import ClientQuotaEntity
from barnabas.testing.simulator.actors import BOOTSTRAP
from barnabas.testing.simulator.workloads.writer import OneTopic
from barnabas.testing.simulator.world import Process

if TYPE_CHECKING:
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.parts import ServedParts

#: Bytes a second; and how many seconds a client may be ahead, which is Kafka's window of eleven samples.
RATE, WINDOW = 1000, 11
#: Bytes of a batch, and those that may be on their way when a client is throttled: its requests in flight.
_BATCH = 1500
IN_FLIGHT = 5 * _BATCH
#: Seconds between two looks, and from the quota's acknowledgement until every broker has heard of it.
_LOOK, _HEARD = 0.5, 5.0


class MeteredTopic(OneTopic):
    """A writer that would write ten times as much as its quota lets it."""

    TOPIC = "metered"
    PACE = 0.2
    REQUEST_TIMEOUT_MS = 30_000
    SIZE = 500
    #: The writer waits, rather than that it has minutes of records left at the end.
    OF_WRITER: ClassVar[dict[str, Any]] = {"batch_size": _BATCH, "buffer_memory": 5 * _BATCH}

    def __init__(self, parts: ServedParts) -> None:
        super().__init__(parts)
        #: Who leads, and how far it was at least behind the quota at a moment since: bytes.
        self._era: object = None
        self._least = inf

    def cast(self) -> None:
        """See `Workload`."""
        with self.parts.clients.admin(bootstrap_servers=BOOTSTRAP) as admin:
            admin.alter_client_quotas({ClientQuotaEntity.of(client_id=self.TOPIC): {"producer_byte_rate": RATE}})
        super().cast()
        self.world.spawn("meter", Process("meter"), self._look_on)

    def _look_on(self) -> None:
        """Hold what one process stores, as long as it leads: another one does not know what was written before."""
        self.world.sleep(_HEARD)
        while not self.world.is_over:
            self._look()
            self.world.sleep(_LOOK)

    def _look(self) -> None:
        era = self.parts.servers.era(self.writings.partition), len(self._application.lives)
        end = self.parts.servers.end(self.writings.partition)
        if era != self._era or end is None:
            self._era, self._least = era, inf
        if end is None:
            return
        ahead = end * self.SIZE - RATE * self.world.now
        self._least = min(self._least, ahead)
        most = RATE * WINDOW + IN_FLIGHT
        if ahead - self._least > most:
            self.world.violate(
                f"{self.TOPIC} got {ahead - self._least:.0f} bytes more than its quota of {RATE} a second, "
                f"and {most} may be ahead"
            )
            self._era = None

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        self.writings.check_there(self.writings.read(), self.writings.acknowledged, "and a quota takes nothing")

    @property
    def _application(self) -> Application:
        return next(one for one in self.parts.applications if one.name == f"writer-{self.TOPIC}")
