"""A client with a quota: what it gets stored stays within it, and it gets on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.admin.client_quotas import ClientQuotaEntity
from barnabas.testing.simulator.actors import BOOTSTRAP
from barnabas.testing.simulator.workloads.writer import OneTopic

if TYPE_CHECKING:
    from barnabas.testing.simulator.actors import Application

#: Bytes a second; and how many seconds a client may be ahead, which is Kafka's window of eleven samples.
RATE, WINDOW = 3000, 11
#: Bytes that may be on their way when a client is throttled: its requests in flight.
IN_FLIGHT = 5 * 16_384


class MeteredTopic(OneTopic):
    """A writer that would write ten times as much as its quota lets it."""

    TOPIC = "metered"
    PACE = 0.2
    REQUEST_TIMEOUT_MS = 30_000
    SIZE = 500

    def cast(self) -> None:
        """See `Workload`."""
        with self.parts.clients.admin(bootstrap_servers=BOOTSTRAP) as admin:
            admin.alter_client_quotas({ClientQuotaEntity.of(client_id=self.TOPIC): {"producer_byte_rate": RATE}})
        self._began = self.world.now
        super().cast()

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        stored = self.writings.read()
        self.writings.check_there(stored, self.writings.acknowledged, "and a quota takes nothing")
        # A broker that was started again does not know what was written before.
        lives = self.parts.servers.lives + len(self._application.lives)
        seconds = self.world.now - self._began
        most = RATE * (seconds + WINDOW * lives) + IN_FLIGHT * lives
        written = len(stored) * self.SIZE
        if written > most:
            self.world.violate(f"{self.TOPIC} got {written} bytes in {seconds:.0f} s; its quota is {RATE} a second")

    @property
    def _application(self) -> Application:
        return next(one for one in self.parts.applications if one.name == f"writer-{self.TOPIC}")
