"""Leaderships go back to the first replicas (auto.leader.rebalance, ElectLeaders, KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.controller_context import NO_LEADER, LeaderAndIsr, PartitionState
from barnabas.broker.zookeeper.controller.election import ElectionStrategy, elect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
    from barnabas.broker.zookeeper.controller.partition_state_machine import PartitionStateMachine
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.topic_partition import TopicPartition


class PreferredLeaders:
    """Elects leaders that are asked for, by clients, by old tools, or by the balance of leaderships."""

    def __init__(self, environment: ControllerEnvironment, partitions: PartitionStateMachine) -> None:
        self._environment = environment
        self._context = environment.context
        self._partitions = partitions

    def elect(
        self, names: Iterable[TopicPartition], *, is_unclean: bool
    ) -> Program[dict[TopicPartition, errors.KafkaError | None]]:
        """Elect leaders; returns why each was not elected, None where it was."""
        outcomes: dict[TopicPartition, errors.KafkaError | None] = {}
        wanted: list[TopicPartition] = []
        for name in names:
            problem = self._refusal(name, is_unclean)
            if problem is None:
                wanted.append(name)
            else:
                outcomes[name] = problem
        strategy = ElectionStrategy.UNCLEAN if is_unclean else ElectionStrategy.PREFERRED
        elections = yield from self._partitions.handle(wanted, PartitionState.ONLINE, strategy)
        failure = errors.EligibleLeadersNotAvailableError if is_unclean else errors.PreferredLeaderNotAvailableError
        for name in wanted:
            found = elections.get(name)
            outcomes[name] = None if isinstance(found, LeaderAndIsr) else failure(str(found or ""))
        return outcomes

    def _refusal(self, name: TopicPartition, is_unclean: bool) -> errors.KafkaError | None:
        context = self._context
        replicas, known = context.assignment(name).replicas, context.leadership.get(name)
        if not replicas:
            return errors.UnknownTopicOrPartitionError("The partition does not exist.")
        if context.is_queued_for_deletion(name.topic):
            return errors.InvalidTopicError("The topic is being deleted")
        if known is None:
            return errors.EligibleLeadersNotAvailableError(f"No replica of {name} has been alive yet.")
        if is_unclean:
            has_leader = known.leader != NO_LEADER and context.is_online(known.leader, name)
        else:
            has_leader = known.leader == replicas[0]
        return errors.ElectionNotNeededError("Leader election not needed for topic partition.") if has_leader else None

    def take_znode(self) -> Program[None]:
        """Elect what a tool of before 2.4 has written to `/admin/preferred_replica_election`, which is gone then."""
        path, zk = controller_znodes.PREFERRED_ELECTION, self._environment.zk
        found = yield from zk.read([path], controller_znodes.decode_partitions, watch=True)
        if path in found:
            yield from self.elect(found[path][0], is_unclean=False)
            yield from zk.delete([path])

    def balance(self) -> Program[None]:
        """Elect the first replicas of those brokers that lead too little of what they should."""
        context = self._context
        by_broker: dict[int, list[TopicPartition]] = {}
        for name in context.partitions:
            if not context.is_queued_for_deletion(name.topic):
                replicas = context.assignment(name).replicas
                if replicas:
                    by_broker.setdefault(replicas[0], []).append(name)
        wanted: list[TopicPartition] = []
        for broker, names in by_broker.items():
            elsewhere = [
                name for name in names if name in context.leadership and context.leadership[name].leader != broker
            ]
            if len(elsewhere) / len(names) > self._environment.settings.imbalance_percentage / 100:
                wanted += [name for name in elsewhere if self._can_lead(name)]
        yield from self._partitions.handle(wanted, PartitionState.ONLINE, ElectionStrategy.PREFERRED)

    def _can_lead(self, name: TopicPartition) -> bool:
        known = self._context.leadership[name]
        return elect(ElectionStrategy.PREFERRED, self._context, name, known).state is not None
