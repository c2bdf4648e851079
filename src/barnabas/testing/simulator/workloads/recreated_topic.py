"""A topic that is deleted and created again while others write to it: nothing of the old one is in the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.client.admin.new_topic import NewTopic
from barnabas.errors import KafkaError
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor
from barnabas.testing.simulator.workloads.writer import OneTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.testing.simulator.actors import Application
    from barnabas.testing.simulator.parts import ServedParts

_PATIENCE = 10.0
#: After so long nothing that was asked for before is still carried out: no broker is frozen longer.
_SETTLED = 12.0
#: How often it is looked which topic is there, in seconds.
_EVERY = 0.05


class Topics:
    """The topics of one name, one after the other, by id, as all brokers went by them.

    One of several brokers that has not heard yet that a topic is gone may still lead it, with followers that have not
    either: what is sent to them then is acknowledged, and goes with it, in Apache Kafka too. So what a client was told
    says nothing of which topic it was.
    """

    def __init__(self, parts: ServedParts, name: str) -> None:
        self._parts = parts
        self._name = name
        self.id: bytes | None = None
        #: When the one before was last gone by, and when this one was first.
        self.created_after = 0.0
        self.first_seen = 0.0
        self._last_seen = 0.0

    def watch(self) -> None:
        """Look from now on."""
        self.look()
        self._parts.world.after(_EVERY, self.watch)

    def look(self) -> bool:
        """Note the topic of that name; whether all brokers go by one."""
        topic_id, now = self._parts.servers.topic_id(self._name), self._parts.world.now
        if topic_id is None:
            return False
        if topic_id != self.id:
            self.id, self.created_after, self.first_seen = topic_id, self._last_seen, now
        self._last_seen = now
        return True


class Recreator(Actor):
    """Deletes the topic and creates it again; in the end it is there."""

    IN_LOOP = 0.5

    def __init__(self, application: Application, number: int, *, topic: NewTopic, topics: Topics) -> None:
        super().__init__(application, number)
        self.process.resets_connections = True
        self._topic = topic
        self._topics = topics

    def live(self, life: str) -> None:
        """See `Actor`."""
        admin = self.clients.admin(bootstrap_servers=BOOTSTRAP, client_id=life, request_timeout_ms=4000)
        topic = self._topic
        while not self.is_stopping:
            self.pause(5.0)
            self._try("delete", lambda: admin.delete_topics([topic.name], timeout=_PATIENCE))
            self.pause(1.0)
            self._try("create", lambda: admin.create_topics([topic], timeout=_PATIENCE))
        self.clients.pause(_SETTLED)
        while not self._topics.look():
            self._try("create", lambda: admin.create_topics([topic], timeout=_PATIENCE))
            self.pause(1.0)
        admin.close()

    def _try(self, what: str, operation: Callable[[], Any]) -> None:
        try:
            operation()
        except KafkaError as problem:
            self.failed(f"{what} again", problem)
        else:
            self.world.counts[f"{what} again"] += 1


class RecreatedTopic(OneTopic):
    """A writer, and an admin client that deletes its topic under it."""

    TOPIC = "reborn"

    def __init__(self, parts: ServedParts) -> None:
        super().__init__(parts)
        self._topics = Topics(parts, self.TOPIC)

    def cast(self) -> None:
        """See `Workload`."""
        super().cast()
        (topic,) = self.topics()
        self.parts.add(Recreator, "recreator", topic=topic, topics=self._topics)
        self._topics.watch()

    def check_strictly(self) -> None:
        """See `OneTopic`."""
        topics = self._topics
        give_up_at = self.world.now + _PATIENCE
        while not topics.look():
            if self.world.now > give_up_at:
                # Who recreates it has died for good in between.
                return
            self.world.sleep(0.5)
        stored = self.writings.read()
        for offset, written in stored.items():
            if written.acknowledged_at < topics.created_after:
                self.world.violate(
                    f"{self.TOPIC} holds record {written.number} at {offset}, which was acknowledged at "
                    f"{written.acknowledged_at:.4f}; it was created after {topics.created_after:.4f}"
                )
        kept = (written for written in self.writings.acknowledged if written.sent_at > topics.first_seen)
        self.writings.check_there(stored, kept, f"and the topic was there since {topics.first_seen:.4f}")
