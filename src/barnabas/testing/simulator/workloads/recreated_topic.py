"""A topic that is deleted and created again while others write to it: nothing of the old one is in the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.client.admin.new_topic import NewTopic
from barnabas.errors import KafkaError
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.workloads.writer import OneTopic

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.parts import ServedParts

_PATIENCE = 10.0
#: After so long nothing that was asked for before is still carried out: no broker is frozen longer.
_SETTLED = 12.0


class Topics:
    """The topics of one name that an actor saw, one after the other, by id."""

    def __init__(self) -> None:
        self.id = b""
        #: When the one before was last seen, and when this one was first seen.
        self.created_after = 0.0
        self.first_seen = 0.0
        self._last_seen = 0.0

    def seen(self, topic_id: bytes, now: float) -> None:
        """Note the topic of that name."""
        if topic_id != self.id:
            self.id, self.created_after, self.first_seen = topic_id, self._last_seen, now
        self._last_seen = now


class Recreator(Actor):
    """Deletes the topic and creates it again; in the end it is there."""

    IN_LOOP = 0.5

    def __init__(self, application: Application, number: int, *, topic: str, topics: Topics) -> None:
        super().__init__(application, number)
        self.process.resets_connections = True
        self._topic = topic
        self._topics = topics

    def live(self, life: str) -> None:
        """See `Actor`."""
        admin = self.clients.admin(bootstrap_servers=BOOTSTRAP, client_id=life, request_timeout_ms=4000)
        while not self.is_stopping:
            self.pause(5.0)
            self._try("look", lambda: self._look(admin))
            self._try("delete", lambda: admin.delete_topics([self._topic], timeout=_PATIENCE))
            self.pause(1.0)
            self._try("create", lambda: admin.create_topics([NewTopic(self._topic, 1, 1)], timeout=_PATIENCE))
        self.clients.pause(_SETTLED)
        while not self._try("look", lambda: self._look(admin)):
            self._try("create", lambda: admin.create_topics([NewTopic(self._topic, 1, 1)], timeout=_PATIENCE))
            self.pause(1.0)
        admin.close()

    def _look(self, admin: AdminClient) -> None:
        # When it was asked the last one was still there for certain, or this one already.
        now = self.world.now
        topic_id = admin.describe_topics([self._topic], timeout=_PATIENCE)[self._topic].topic_id
        assert topic_id is not None
        self._topics.seen(topic_id, now)

    def _try(self, what: str, operation: Any) -> bool:
        try:
            operation()
        except KafkaError as problem:
            self.failed(f"{what} again", problem)
            return False
        self.world.counts[f"{what} again"] += 1
        return True


class RecreatedTopic(OneTopic):
    """A writer, and an admin client that deletes its topic under it."""

    TOPIC = "reborn"

    def __init__(self, parts: ServedParts) -> None:
        super().__init__(parts)
        self._topics = Topics()

    def cast(self) -> None:
        """See `Workload`."""
        super().cast()
        self.parts.add(Recreator, "recreator", topic=self.TOPIC, topics=self._topics)

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        topics = self._topics
        # Who recreates it may have died for good since it last looked.
        with self.parts.clients.admin(bootstrap_servers=BOOTSTRAP) as admin:
            found = admin.list_topics().get(self.TOPIC)
        if found is None:
            return
        topics.seen(found.topic_id or b"", self.world.now)
        stored = self.writings.read()
        for offset, written in stored.items():
            if written.acknowledged_at < topics.created_after:
                self.world.violate(
                    f"{self.TOPIC} holds record {written.number} at {offset}, which was acknowledged at "
                    f"{written.acknowledged_at:.4f}; it was created after {topics.created_after:.4f}"
                )
        kept = (written for written in self.writings.acknowledged if written.sent_at > topics.first_seen)
        self.writings.check_there(stored, kept, f"and the topic was there since {topics.first_seen:.4f}")
