"""Replicas, and what brokers are told of them (ReplicaStateMachine)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper.controller.controller_context import (
    NO_LEADER,
    LeaderAndIsr,
    Replica,
    ReplicaState,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.zookeeper.controller.controller_broker_request_batch import ControllerBrokerRequestBatch
    from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.topic_partition import TopicPartition

_SERVING = (ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE)
_VALID_BEFORE = {
    ReplicaState.NEW: (ReplicaState.NON_EXISTENT,),
    ReplicaState.ONLINE: _SERVING,
    ReplicaState.OFFLINE: _SERVING,
    ReplicaState.DELETION_STARTED: (ReplicaState.OFFLINE,),
    ReplicaState.DELETION_SUCCESSFUL: (ReplicaState.DELETION_STARTED,),
    ReplicaState.DELETION_INELIGIBLE: (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),
    ReplicaState.NON_EXISTENT: (ReplicaState.DELETION_SUCCESSFUL,),
}


class ReplicaStateMachine:
    """Moves replicas from state to state; those that go offline leave the ISR."""

    def __init__(self, environment: ControllerEnvironment) -> None:
        self._environment = environment
        self._context = environment.context
        self._zk = environment.zk

    def startup(self) -> Program[None]:
        """Tell brokers that are alive of their replicas, and take those of others out of the ISRs."""
        context = self._context
        replicas = [replica for topic in context.topics for replica in context.replicas_of(topic)]
        online = [one for one in replicas if context.is_online(one.broker, one.partition)]
        is_online = set(online)
        offline = [one for one in replicas if one not in is_online]
        context.replica_states.update(dict.fromkeys(online, ReplicaState.ONLINE))
        context.replica_states.update(dict.fromkeys(offline, ReplicaState.DELETION_INELIGIBLE))
        yield from self.handle(online, ReplicaState.ONLINE)
        yield from self.handle(offline, ReplicaState.OFFLINE)

    def handle(self, replicas: Sequence[Replica], target: ReplicaState) -> Program[None]:
        """Move replicas to a state; what cannot come from where it is stays, and is reported."""
        states = self._context.replica_states
        by_broker: dict[int, list[Replica]] = {}
        for replica in replicas:
            if states.setdefault(replica, ReplicaState.NON_EXISTENT) in _VALID_BEFORE[target]:
                by_broker.setdefault(replica.broker, []).append(replica)
            else:
                self._environment.report(
                    f"the replica of {replica.partition} on broker {replica.broker} cannot go from "
                    f"{states[replica].value} to {target.value}"
                )
        batch = self._environment.new_batch()
        for broker, valid in by_broker.items():
            if target is ReplicaState.OFFLINE:
                yield from self._take_offline(broker, valid, batch)
            else:
                _MOVE.get(target, ReplicaStateMachine._only_note)(self, valid, target, batch)
        batch.send()

    # -- what does not touch ZooKeeper -------------------------------------------------------------------------------

    def _only_note(
        self, replicas: Sequence[Replica], target: ReplicaState, batch: ControllerBrokerRequestBatch
    ) -> None:
        self._context.replica_states.update(dict.fromkeys(replicas, target))

    def _to_new(self, replicas: Sequence[Replica], target: ReplicaState, batch: ControllerBrokerRequestBatch) -> None:
        context = self._context
        for replica in replicas:
            known = context.leadership.get(replica.partition)
            if known is not None and known.leader == replica.broker:
                self._environment.report(f"{replica.partition} is led by {replica.broker}, which is no new replica")
                continue
            if known is not None:
                assignment = context.assignment(replica.partition)
                batch.lead([replica.broker], replica.partition, known, assignment, is_new=True)
            context.replica_states[replica] = target

    def _to_online(
        self, replicas: Sequence[Replica], target: ReplicaState, batch: ControllerBrokerRequestBatch
    ) -> None:
        context = self._context
        for replica in replicas:
            known = context.leadership.get(replica.partition)
            if context.replica_states[replica] is not ReplicaState.NEW and known is not None:
                assignment = context.assignment(replica.partition)
                batch.lead([replica.broker], replica.partition, known, assignment, is_new=False)
            context.replica_states[replica] = target

    def _to_deletion(
        self, replicas: Sequence[Replica], target: ReplicaState, batch: ControllerBrokerRequestBatch
    ) -> None:
        for replica in replicas:
            self._context.replica_states[replica] = target
            batch.stop([replica.broker], replica.partition, delete=True)

    def _to_non_existent(
        self, replicas: Sequence[Replica], target: ReplicaState, batch: ControllerBrokerRequestBatch
    ) -> None:
        context = self._context
        for replica in replicas:
            context.assign(replica.partition, context.assignment(replica.partition).without(replica.broker))
            context.replica_states.pop(replica, None)

    # -- offline -----------------------------------------------------------------------------------------------------

    def _take_offline(
        self, broker: int, replicas: Sequence[Replica], batch: ControllerBrokerRequestBatch
    ) -> Program[None]:
        context = self._context
        for replica in replicas:
            batch.stop([broker], replica.partition, delete=False)
        with_state = [replica.partition for replica in replicas if replica.partition in context.leadership]
        changed = yield from self._remove_from_isr(broker, with_state)
        for name, state in changed.items():
            if not context.is_queued_for_deletion(name.topic):
                assignment = context.assignment(name)
                others = [replica for replica in assignment.replicas if replica != broker]
                batch.lead(others, name, state, assignment, is_new=False)
        for replica in replicas:
            if replica.partition not in context.leadership:
                batch.update(context.brokers, [replica.partition])
            context.replica_states[replica] = ReplicaState.OFFLINE

    def _remove_from_isr(
        self, broker: int, names: Sequence[TopicPartition]
    ) -> Program[dict[TopicPartition, LeaderAndIsr]]:
        """Take a broker out of ISRs, its last member excepted; it leads none of them then. Returns all states."""
        context = self._context
        results: dict[TopicPartition, LeaderAndIsr] = {}
        remaining = list(names)
        while remaining:
            known = yield from self._zk.states(remaining)
            changed: dict[TopicPartition, LeaderAndIsr] = {}
            for name, state in known.items():
                if state.controller_epoch > context.epoch:
                    raise errors.ControllerMovedError(
                        f"the state of {name} was written by controller epoch {state.controller_epoch}, after this one"
                    )
                if broker in state.isr:
                    leader = NO_LEADER if state.leader == broker else state.leader
                    isr = state.isr if len(state.isr) == 1 else [one for one in state.isr if one != broker]
                    changed[name] = state.elected(leader, isr)
                else:
                    results[name] = state._replace(controller_epoch=context.epoch)
            written, remaining = yield from self._zk.update_states(changed)
            results.update(written)
        context.leadership.update(results)
        return results


_MOVE: dict[
    ReplicaState,
    Callable[[ReplicaStateMachine, Sequence[Replica], ReplicaState, ControllerBrokerRequestBatch], None],
] = {
    ReplicaState.NEW: ReplicaStateMachine._to_new,
    ReplicaState.ONLINE: ReplicaStateMachine._to_online,
    ReplicaState.DELETION_STARTED: ReplicaStateMachine._to_deletion,
    ReplicaState.NON_EXISTENT: ReplicaStateMachine._to_non_existent,
}
