"""Deleting topics, also those of which replicas are away (TopicDeletionManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.controller_context import PartitionState, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from barnabas.broker.zookeeper.controller.controller_context import Replica
    from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
    from barnabas.broker.zookeeper.controller.partition_state_machine import PartitionStateMachine
    from barnabas.broker.zookeeper.controller.replica_state_machine import ReplicaStateMachine
    from barnabas.broker.zookeeper.operations import Program


class TopicDeletionManager:
    """Deletes topics whose replicas are all alive; all others wait.

    A topic is gone from ZooKeeper when every replica is gone from its broker. Until then its znode in
    `/admin/delete_topics` has the next controller go on.
    """

    def __init__(
        self, environment: ControllerEnvironment, partitions: PartitionStateMachine, replicas: ReplicaStateMachine
    ) -> None:
        self._environment = environment
        self._context = environment.context
        self._zk = environment.zk
        self._partitions = partitions
        self._replicas = replicas

    @property
    def _is_enabled(self) -> bool:
        return self._environment.settings.deletes_topics

    def startup(self) -> Program[None]:
        """Take note of what is to be deleted, before brokers are told anything."""
        context = self._context
        wished = yield from self._zk.children(znodes.DELETE_TOPICS, watch=True)
        if not self._is_enabled:
            yield from self._forget(wished)
            return
        self._take_wishes(wished)
        with_offline = {
            topic
            for topic in context.topics
            if any(not context.is_online(one.broker, one.partition) for one in context.replicas_of(topic))
        }
        self.halt(with_offline)

    def wishes_changed(self) -> Program[None]:
        """Begin to delete what is wished for; a wish for a topic that is not there is forgotten."""
        context = self._context
        wished = yield from self._zk.children(znodes.DELETE_TOPICS, watch=True)
        known = {topic for topic in wished if topic in context.topics}
        if not self._is_enabled:
            yield from self._forget(wished)
            return
        yield from self._forget(topic for topic in wished if topic not in known)
        if known:
            self._take_wishes(known)
            yield from self.resume()

    def _take_wishes(self, topics: Iterable[str]) -> None:
        """Note topics that are to be deleted; what is being reassigned of them has all its replicas deleted.

        Apache Kafka ends reassignments first, which never happens where the leader has gone meanwhile.
        """
        context = self._context
        context.topics_to_be_deleted.update(topics)
        context.partitions_being_reassigned = {
            name for name in context.partitions_being_reassigned if not context.is_queued_for_deletion(name.topic)
        }

    def _forget(self, topics: Iterable[str]) -> Program[None]:
        yield from self._zk.delete([f"{znodes.DELETE_TOPICS}/{topic}" for topic in topics])

    # -- what happens meanwhile --------------------------------------------------------------------------------------

    def halt(self, topics: Collection[str]) -> None:
        """Wait with topics: replicas are away."""
        self._context.topics_ineligible_for_deletion.update(self._context.topics_to_be_deleted.intersection(topics))

    def resume_for(self, topics: Collection[str]) -> Program[None]:
        """Go on with topics: what they waited for has happened."""
        waiting = self._context.topics_to_be_deleted.intersection(topics)
        if waiting:
            self._context.topics_ineligible_for_deletion -= waiting
            yield from self.resume()

    def replicas_failed(self, replicas: Iterable[Replica]) -> Program[None]:
        """Wait with the topics of replicas that brokers could not delete, or that are away."""
        failed = [one for one in replicas if self._context.is_queued_for_deletion(one.partition.topic)]
        if failed:
            yield from self._replicas.handle(failed, ReplicaState.DELETION_INELIGIBLE)
            self.halt({one.partition.topic for one in failed})
            yield from self.resume()

    def replicas_deleted(self, replicas: Iterable[Replica]) -> Program[None]:
        """Take note of replicas that brokers have deleted."""
        states = self._context.replica_states
        deleted = [one for one in replicas if states.get(one) is ReplicaState.DELETION_STARTED]
        yield from self._replicas.handle(deleted, ReplicaState.DELETION_SUCCESSFUL)
        yield from self.resume()

    # -- deleting ----------------------------------------------------------------------------------------------------

    def resume(self) -> Program[None]:
        """Do for every topic that is to be deleted what can be done now."""
        context = self._context
        if not self._is_enabled:
            return
        retried: list[Replica] = []
        begun: list[str] = []
        for topic in sorted(context.topics_to_be_deleted):
            states = {context.replica_states.get(one) for one in context.replicas_of(topic)}
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                yield from self._complete(topic)
                continue
            if ReplicaState.DELETION_STARTED in states:
                continue
            retried += context.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)
            if topic not in context.topics_ineligible_for_deletion:
                begun.append(topic)
        if retried:
            yield from self._replicas.handle(retried, ReplicaState.OFFLINE)
        if begun:
            yield from self._begin(begun)

    def _complete(self, topic: str) -> Program[None]:
        yield from self._zk.delete_topic(topic)
        self._context.remove_topic(topic)

    def _begin(self, topics: Collection[str]) -> Program[None]:
        context = self._context
        unseen = [topic for topic in topics if topic not in context.topics_with_deletion_started]
        names = [name for topic in unseen for name in context.partitions_of(topic)]
        yield from self._partitions.handle(names, PartitionState.OFFLINE)
        yield from self._partitions.handle(names, PartitionState.NON_EXISTENT)
        context.topics_with_deletion_started.update(unseen)
        # Brokers refuse clients from now on.
        batch = self._environment.new_batch()
        batch.update(context.brokers, [name for topic in topics for name in context.partitions_of(topic)])
        batch.send()
        yield from self._delete_replicas(topics)

    def _delete_replicas(self, topics: Collection[str]) -> Program[None]:
        context = self._context
        dead: list[Replica] = []
        alive: list[Replica] = []
        for one in [one for topic in topics for one in context.replicas_of(topic)]:
            if not context.is_online(one.broker, one.partition):
                dead.append(one)
            elif context.replica_states.get(one) is not ReplicaState.DELETION_SUCCESSFUL:
                alive.append(one)
        # One that was never online comes to where it waits by way of being offline.
        states = context.replica_states
        waiting = [one for one in dead if states.get(one) is not ReplicaState.DELETION_INELIGIBLE]
        yield from self._replicas.handle(waiting, ReplicaState.OFFLINE)
        yield from self._replicas.handle(waiting, ReplicaState.DELETION_INELIGIBLE)
        yield from self._replicas.handle(alive, ReplicaState.OFFLINE)
        yield from self._replicas.handle(alive, ReplicaState.DELETION_STARTED)
        self.halt({one.partition.topic for one in dead})
