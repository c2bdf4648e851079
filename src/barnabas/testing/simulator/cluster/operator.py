"""An operator of a cluster: moves partitions and leaders under load, and logs between the directories of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.admin.log_dirs import TopicPartitionReplica
from barnabas.errors import KafkaError
from barnabas.protocol.kinds import ElectionType
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.testing.simulator.actors import Application

#: How long an operation may take, in seconds.
_PATIENCE = 10.0


class Field(NamedTuple):
    """What an operator has before it: ids of brokers, partitions with so many replicas, each broker's directories."""

    brokers: Sequence[int]
    partitions: Sequence[TopicPartition]
    replicas: int
    directories: Sequence[str]


class Operator(Actor):
    """Does one operation after the other."""

    IN_LOOP = 0.3

    def __init__(self, application: Application, number: int, *, field: Field, settings: dict[str, Any]) -> None:
        super().__init__(application, number)
        self._field = field
        self._settings = settings

    def live(self, life: str) -> None:
        """See `Actor`."""
        admin = self.clients.admin(bootstrap_servers=BOOTSTRAP, client_id=life, **self._settings)
        operations = [self._reassign, self._reassign, self._cancel, self._elect]
        if len(self._field.directories) > 1:
            operations.append(self._move_log)
        while not self.is_stopping:
            operation = self.random.choice(operations)
            what = operation.__name__.strip("_").replace("_", " ")
            try:
                operation(admin)
                self.world.counts[f"operator: {what}"] += 1
            except KafkaError as problem:
                self.failed(f"operator: {what}", problem)
            self.pause(3.0)
        admin.close()

    def _partitions(self, most: int) -> list[TopicPartition]:
        return self.random.sample(
            self._field.partitions, self.random.randint(1, min(most, len(self._field.partitions)))
        )

    def _reassign(self, admin: AdminClient) -> None:
        wanted = {name: self.random.sample(self._field.brokers, self._field.replicas) for name in self._partitions(3)}
        self.note(f"moves {', '.join(f'{name} to {replicas}' for name, replicas in wanted.items())}")
        admin.alter_partition_reassignments(wanted, timeout=_PATIENCE)

    def _cancel(self, admin: AdminClient) -> None:
        moving = admin.list_partition_reassignments(timeout=_PATIENCE)
        if moving:
            self.note(f"cancels the moves of {', '.join(map(str, moving))}")
            admin.alter_partition_reassignments(dict.fromkeys(moving), timeout=_PATIENCE, raise_errors=False)

    def _elect(self, admin: AdminClient) -> None:
        self.note("has preferred leaders elected")
        admin.elect_leaders(ElectionType.PREFERRED, self._partitions(4), timeout=_PATIENCE, raise_errors=False)

    def _move_log(self, admin: AdminClient) -> None:
        directory, broker = self.random.choice(self._field.directories), self.random.choice(self._field.brokers)
        wanted = {TopicPartitionReplica(*name, broker): directory for name in self._partitions(2)}
        self.note(f"moves logs to {directory}: {', '.join(map(str, wanted))}")
        admin.alter_replica_log_dirs(wanted, timeout=_PATIENCE, raise_errors=False)
