"""Operators: they look at the cluster and change it, while others work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.client.admin.configs import ConfigResource
from barnabas.client.admin.new_topic import NewTopic
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.errors import KafkaError, TopicExistsError, UnknownTopicOrPartitionError
from barnabas.testing.simulator.actors import BOOTSTRAP, Actor

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.testing.simulator.actors import Application

#: How long an operation may take, in seconds.
_PATIENCE = 10.0


class AdminActor(Actor):
    """Does one operation after the other; what one has changed, the next ones have to see."""

    IN_LOOP = 0.5
    #: How many replicas the topics have that it makes.
    REPLICAS = 1
    #: Within so many seconds every broker has heard of a change.
    HEARS_WITHIN = 0.0

    def __init__(
        self,
        application: Application,
        number: int,
        *,
        groups: dict[str, list[TopicPartition]],
        transactional_ids: list[str],
        settings: dict[str, Any],
    ) -> None:
        super().__init__(application, number)
        self._groups = groups
        self._transactional_ids = transactional_ids
        self._partitions = sorted({partition for partitions in groups.values() for partition in partitions})
        self._settings = settings
        #: Topics of this life's own that are there for certain, with the setting that was acknowledged. No name is
        #: used twice, and no setting changed twice: a request that was given up may be carried out much later.
        self._topics: dict[str, str | None] = {}
        self._made = 0
        self._ends: dict[TopicPartition, int] = {}

    def live(self, life: str) -> None:
        """See `Actor`."""
        admin = self.clients.admin(bootstrap_servers=BOOTSTRAP, client_id=life, **self._settings)
        operations = [self._create_topic, self._look_at_topics, self._alter_topic, self._delete_topic]
        if self._groups:
            operations += [self._look_at_groups, self._look_at_commits, self._look_at_ends]
        if self._transactional_ids:
            operations += [self._fence]
        while not self.is_stopping:
            operation = self.random.choice(operations)
            what = operation.__name__.strip("_").replace("_", " ")
            try:
                operation(admin)
                self.world.counts[f"admin: {what}"] += 1
            except KafkaError as problem:
                self.failed(f"admin: {what}", problem)
            self.pause(2.0)
        admin.close()

    # --- topics and settings

    def _create_topic(self, admin: AdminClient) -> None:
        self._made += 1
        name = f"{self.life}-{self._made}"
        try:
            admin.create_topics([NewTopic(name, self.random.randint(1, 3), self.REPLICAS)], timeout=_PATIENCE)
        except TopicExistsError:
            self.note(f"{name} is there: an earlier request, whose answer was lost, has created it")
        self._topics[name] = None

    def _look_at_topics(self, admin: AdminClient) -> None:
        self._expect(lambda: self._is_missing(admin) or self._is_set_otherwise(admin))

    def _expect(self, look: Callable[[], str]) -> None:
        """Look until nothing is wrong: what one broker has said another one may hear later."""
        give_up_at = self.world.now + self.HEARS_WITHIN
        while wrong := look():
            if self.world.now >= give_up_at:
                self.world.violate(wrong)
                return
            self.clients.pause(0.2)

    def _is_missing(self, admin: AdminClient) -> str:
        found = admin.list_topics(timeout=_PATIENCE)
        missing = [name for name in self._topics if name not in found]
        return f"topic {missing[0]} was created, and is not there: {', '.join(found)}" if missing else ""

    def _is_set_otherwise(self, admin: AdminClient) -> str:
        resources = {ConfigResource.topic(name): value for name, value in self._topics.items() if value is not None}
        configs = admin.describe_configs(resources, timeout=_PATIENCE) if resources else {}
        for resource, value in resources.items():
            seen = configs[resource]["retention.ms"].value
            if seen != value:
                return f"retention.ms of {resource.name} was set to {value}, and is {seen}"
        return ""

    def _alter_topic(self, admin: AdminClient) -> None:
        unchanged = [name for name, value in self._topics.items() if value is None]
        if not unchanged:
            return
        name = self.random.choice(unchanged)
        value = str(self.random.randint(1, 1000) * 3600_000)
        admin.incremental_alter_configs({ConfigResource.topic(name): {"retention.ms": value}}, timeout=_PATIENCE)
        self._topics[name] = value

    def _delete_topic(self, admin: AdminClient) -> None:
        if not self._topics:
            return
        name = self.random.choice(list(self._topics))
        self._expect(lambda: self._is_missing(admin))
        known = admin.list_topics(timeout=_PATIENCE).get(name)
        if known is None:
            # Another broker than before was asked, which has not heard of it.
            return
        del self._topics[name]
        try:
            admin.delete_topics([name], timeout=_PATIENCE)
        except UnknownTopicOrPartitionError:
            self.note(f"{name} is gone: an earlier request, whose answer was lost, has deleted it")

        def is_there() -> str:
            found = admin.list_topics(timeout=_PATIENCE).values()
            is_still_there = known.topic_id in [topic.topic_id for topic in found]
            return f"topic {name} was deleted, and is still there" if is_still_there else ""

        self._expect(is_there)

    # --- groups and transactions

    def _look_at_groups(self, admin: AdminClient) -> None:
        for group, description in admin.describe_groups(self._groups, timeout=_PATIENCE).items():
            owners: dict[TopicPartition, str] = {}
            for member in description.members:
                for partition in member.assignment:
                    owner = owners.setdefault(partition, member.client_id)
                    if owner != member.client_id:
                        self.world.violate(f"group {group}: {partition} belongs to {owner} and to {member.client_id}")

    def _look_at_commits(self, admin: AdminClient) -> None:
        group = self.random.choice(list(self._groups))
        at_least = self.ledger.committed_of(group, self._groups[group])
        # Offsets of a transaction whose commit is acknowledged are there when its marker is: that is waited for.
        partitions = self._groups[group]
        found = admin.list_consumer_group_offsets(group, partitions, require_stable=True, timeout=_PATIENCE)
        for partition, offset in at_least.items():
            entry = found.get(partition)
            self.ledger.commit_observed(group, partition, entry.offset if entry is not None else 0, offset)

    def _look_at_ends(self, admin: AdminClient) -> None:
        ends = admin.list_offsets(dict.fromkeys(self._partitions, OffsetSpec.LATEST), timeout=_PATIENCE)
        for partition, end in ends.items():
            before = self._ends.get(partition, 0)
            if end.offset < before and not self.ledger.loses_unflushed:
                self.world.violate(f"{partition} ended at {before}, and later at {end.offset}")
            self._ends[partition] = end.offset

    def _fence(self, admin: AdminClient) -> None:
        transactional_id = self.random.choice(self._transactional_ids)
        with self.ledger.taking_over(transactional_id, None):
            admin.fence_producers([transactional_id], timeout=_PATIENCE)
        self.note(f"shut out who had {transactional_id}")


class ClusterAdminActor(AdminActor):
    """The same in a cluster: a broker that nothing reaches tells what it knew last."""

    REPLICAS = 3
    HEARS_WITHIN = 60.0
