"""Partitions, and who leads them (PartitionStateMachine)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.controller_context import LeaderAndIsr, PartitionState
from barnabas.broker.zookeeper.controller.election import ElectionStrategy, elect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from barnabas.broker.zookeeper.controller.controller_broker_request_batch import ControllerBrokerRequestBatch
    from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.topic_partition import TopicPartition

    #: What came of elections: the new state, or why there is none.
    Elections = dict[TopicPartition, LeaderAndIsr | errors.KafkaError]

_UNCLEAN = "unclean.leader.election.enable"
_VALID_BEFORE = {
    PartitionState.NEW: (PartitionState.NON_EXISTENT,),
    PartitionState.ONLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.NON_EXISTENT: (PartitionState.OFFLINE,),
}


class PartitionStateMachine:
    """Moves partitions from state to state: what stands in ZooKeeper first, then the context, then the brokers."""

    def __init__(self, environment: ControllerEnvironment) -> None:
        self._environment = environment
        self._context = environment.context
        self._zk = environment.zk

    def startup(self) -> Program[None]:
        """Take the states from what was read, and elect leaders where there is none."""
        context = self._context
        for name in context.partitions:
            known = context.leadership.get(name)
            if known is None:
                context.partition_states[name] = PartitionState.NEW
            elif context.is_online(known.leader, name):
                context.partition_states[name] = PartitionState.ONLINE
            else:
                context.partition_states[name] = PartitionState.OFFLINE
        yield from self.trigger_online()

    def trigger_online(self, topic: str | None = None) -> Program[Elections]:
        """Elect leaders of partitions that have none, of one topic or of all that stay."""
        context = self._context
        names = context.partitions_in(PartitionState.OFFLINE, PartitionState.NEW, topic=topic)
        staying = [name for name in names if not context.is_queued_for_deletion(name.topic)]
        return (yield from self.handle(staying, PartitionState.ONLINE, ElectionStrategy.OFFLINE))

    def handle(
        self, names: Sequence[TopicPartition], target: PartitionState, strategy: ElectionStrategy | None = None
    ) -> Program[Elections]:
        """Move partitions to a state; what cannot come from where it is stays, and is reported."""
        states = self._context.partition_states
        valid = []
        for name in names:
            if states.setdefault(name, PartitionState.NON_EXISTENT) in _VALID_BEFORE[target]:
                valid.append(name)
            else:
                self._environment.report(f"{name} cannot go from {states[name].value} to {target.value}")
        if target is not PartitionState.ONLINE:
            states.update(dict.fromkeys(valid, target))
            return {}
        return (yield from self._bring_online(valid, strategy or ElectionStrategy.OFFLINE))

    def _bring_online(self, names: Sequence[TopicPartition], strategy: ElectionStrategy) -> Program[Elections]:
        if not names:
            return {}
        states = self._context.partition_states
        batch = self._environment.new_batch()
        new = [name for name in names if states[name] is PartitionState.NEW]
        made = yield from self._initialize(new, batch)
        elections = yield from self._elect([name for name in names if name not in set(new)], strategy, batch)
        elected = [name for name, found in elections.items() if isinstance(found, LeaderAndIsr)]
        states.update(dict.fromkeys([*made, *elected], PartitionState.ONLINE))
        batch.send()
        return elections

    def _initialize(
        self, names: Sequence[TopicPartition], batch: ControllerBrokerRequestBatch
    ) -> Program[list[TopicPartition]]:
        """Have the first replica that is alive lead, with all that are alive in sync."""
        context = self._context
        first: dict[TopicPartition, LeaderAndIsr] = {}
        for name in names:
            live = tuple(one for one in context.assignment(name).replicas if context.is_online(one, name))
            if live:
                first[name] = LeaderAndIsr(live[0], live, controller_epoch=context.epoch)
        if not first:
            return []
        made = yield from self._zk.create_states(first)
        for name in made:
            context.leadership[name] = first[name]
            batch.lead(first[name].isr, name, first[name], context.assignment(name), is_new=True)
        return made

    # -- elections ---------------------------------------------------------------------------------------------------

    def _elect(
        self, names: Sequence[TopicPartition], strategy: ElectionStrategy, batch: ControllerBrokerRequestBatch
    ) -> Program[Elections]:
        """Elect until every state was written in the version that the election went by."""
        finished: Elections = {}
        remaining = list(names)
        while remaining:
            known = yield from self._zk.states(remaining)
            allowed = yield from self._unclean_topics(known, strategy)
            elected: dict[TopicPartition, LeaderAndIsr] = {}
            recipients: dict[TopicPartition, tuple[int, ...]] = {}
            for name in remaining:
                found = self._elected(name, known.get(name), strategy, name.topic in allowed)
                if isinstance(found, errors.KafkaError):
                    finished[name] = found
                else:
                    elected[name], recipients[name] = found
            written, remaining = yield from self._zk.update_states(elected)
            for name, state in written.items():
                self._environment.stats.unclean_elections += state.leader not in known[name].isr
                self._context.leadership[name] = finished[name] = state
                batch.lead(recipients[name], name, state, self._context.assignment(name), is_new=False)
        return finished

    def _elected(
        self, name: TopicPartition, state: LeaderAndIsr | None, strategy: ElectionStrategy, is_unclean: bool
    ) -> tuple[LeaderAndIsr, tuple[int, ...]] | errors.KafkaError:
        if state is None:
            return errors.EligibleLeadersNotAvailableError(f"{name} has no state in ZooKeeper")
        if state.controller_epoch > self._context.epoch:
            raise errors.ControllerMovedError(
                f"the state of {name} was written by controller epoch {state.controller_epoch}, after this one"
            )
        chosen = ElectionStrategy.UNCLEAN if is_unclean else strategy
        result = elect(chosen, self._context, name, state)
        if result.state is None:
            return errors.EligibleLeadersNotAvailableError(
                f"Failed to elect leader for partition {name} under strategy {strategy.value}"
            )
        return result.state, result.recipients

    def _unclean_topics(
        self, known: Mapping[TopicPartition, LeaderAndIsr], strategy: ElectionStrategy
    ) -> Program[Collection[str]]:
        """Return the topics that allow a leader out of sync, as far as nothing in sync is alive."""
        if strategy is not ElectionStrategy.OFFLINE:
            return ()
        context = self._context
        lost = {
            name.topic
            for name, state in known.items()
            if not any(context.is_online(replica, name) for replica in state.isr)
        }
        paths = {f"{znodes.CONFIG}/topics/{topic}": topic for topic in sorted(lost)}
        settings = yield from self._zk.read(list(paths), znodes.decode_config)
        by_topic = {paths[path]: values for path, (values, _) in settings.items()}
        default = self._environment.settings.allows_unclean_by_default()
        return {topic for topic in lost if _is_true(by_topic.get(topic, {}).get(_UNCLEAN), default)}


def _is_true(value: str | None, default: bool) -> bool:
    return default if value is None else value.strip().lower() == "true"
