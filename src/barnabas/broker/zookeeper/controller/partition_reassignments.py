"""Other replicas for partitions (KafkaController.onPartitionReassignment, KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.controller_context import (
    PartitionState,
    Replica,
    ReplicaAssignment,
    ReplicaState,
)
from barnabas.broker.zookeeper.controller.election import ElectionStrategy
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
    from barnabas.broker.zookeeper.controller.partition_state_machine import PartitionStateMachine
    from barnabas.broker.zookeeper.controller.replica_state_machine import ReplicaStateMachine
    from barnabas.broker.zookeeper.operations import Program


class PartitionReassignments:
    """Begins, ends and cancels reassignments.

    First the topic's znode says what comes and what goes; then the replicas that come are told, by a new leader epoch.
    When all that stay are in sync, the leader moves, what goes is deleted, and when the brokers have answered that the
    znode has the target alone. What was added in vain, by a reassignment that is cancelled or changed, goes likewise.
    So the next controller knows from the znode what is not done, and does all steps from there again.
    """

    def __init__(
        self,
        environment: ControllerEnvironment,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self._environment = environment
        self._context = environment.context
        self._zk = environment.zk
        self._partitions = partitions
        self._replicas = replicas
        #: The brokers that have not answered yet that they have deleted their replicas.
        self._stopping = environment.context.replicas_stopping

    # -- what is asked for -------------------------------------------------------------------------------------------

    def alter(
        self, wanted: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> Program[dict[TopicPartition, errors.KafkaError | None]]:
        """Reassign partitions, or (None) cancel what goes on; returns why each was refused, None where it was not."""
        outcomes: dict[TopicPartition, errors.KafkaError | None] = {}
        for name, target in wanted.items():
            try:
                outcomes[name] = None
                assignment = self._planned(name, target)
            except errors.KafkaError as problem:
                outcomes[name] = problem
            else:
                yield from self._go_on(name, assignment)
        return outcomes

    def _planned(self, name: TopicPartition, target: tuple[int, ...] | None) -> ReplicaAssignment:
        current = self._context.assignment(name)
        if not current.replicas or self._context.is_queued_for_deletion(name.topic):
            raise errors.UnknownTopicOrPartitionError("The partition does not exist.")
        if target is None:
            if not current.is_being_reassigned:
                raise errors.NoReassignmentInProgressError()
            return self._not_unclean(name, current.reassigned_to(current.origin))
        problem = None
        if not target:
            problem = "Empty replica list specified in partition reassignment."
        elif len(set(target)) != len(target):
            problem = f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
        elif min(target) < 0:
            problem = f"Invalid broker id in replica list: {list(target)}"
        planned = current.reassigned_to(target)
        if problem is None and not self._context.live_brokers.issuperset(planned.adding):
            problem = (
                f"Replica assignment has brokers that are not alive. Replica list: {list(planned.adding)}, live broker "
                f"list: {sorted(self._context.live_brokers)}"
            )
        if problem is not None:
            raise errors.InvalidReplicaAssignmentError(problem)
        return self._not_unclean(name, planned)

    def _not_unclean(self, name: TopicPartition, planned: ReplicaAssignment) -> ReplicaAssignment:
        """Refuse what would delete all replicas that are in sync at once, as KRaft's controller does (KIP-455)."""
        known = self._context.leadership.get(name)
        if known is not None and set(planned.replicas).isdisjoint(known.isr):
            raise errors.InvalidReplicaAssignmentError(
                f"Unable to revert partition assignment for {name} because it would require an unclean leader "
                f"election: of the replicas in sync, {list(known.isr)}, none would be left"
            )
        return planned

    def resume(self, should: Callable[[ReplicaAssignment], bool]) -> Program[None]:
        """Go on with those reassignments for which it makes sense now."""
        context = self._context
        for name in sorted(context.partitions_being_reassigned):
            assignment = context.assignment(name)
            if self._goes_on(name) and should(assignment):
                yield from self._go_on(name, assignment)

    def complete(self, names: Sequence[TopicPartition]) -> Program[None]:
        """End reassignments of partitions whose ISR has changed, where it allows that."""
        context = self._context
        for name in names:
            assignment = context.assignment(name)
            if self._goes_on(name) and (yield from self._is_complete(name, assignment)):
                yield from self._go_on(name, assignment)

    def _goes_on(self, name: TopicPartition) -> bool:
        """Whether a reassignment waits for replicas in sync, and not only for brokers that delete theirs."""
        context = self._context
        is_last_step = name in self._stopping and not context.assignment(name).is_being_reassigned
        return name in context.partitions_being_reassigned and not is_last_step

    def take_znode(self) -> Program[None]:
        """Begin what a tool of before 2.4 has written to `/admin/reassign_partitions`, which is gone then."""
        path = controller_znodes.REASSIGNMENTS
        found = yield from self._zk.read([path], controller_znodes.decode_listed, watch=True)
        if path in found:
            wanted, _ = found[path]
            outcomes = yield from self.alter(dict(wanted.items()))
            for name, problem in outcomes.items():
                if problem is not None:
                    self._environment.report(f"{path}: {name} is not reassigned: {problem}")
            yield from self._zk.delete([path])

    def shown(self, name: TopicPartition) -> ReplicaAssignment:
        """Return the assignment of a partition as clients are told of it: with what is not deleted yet."""
        found = self._context.assignment(name)
        left = self._left(name, found)
        return ReplicaAssignment((*found.replicas, *left), found.adding, (*found.removing, *left))

    def _left(self, name: TopicPartition, found: ReplicaAssignment) -> tuple[int, ...]:
        return tuple(sorted(self._stopping.get(name, set()).difference(found.replicas)))

    def _with_what_is_left(self, name: TopicPartition, found: ReplicaAssignment) -> ReplicaAssignment:
        """Return what the znode is to have.

        Were what is left not added as well, a reassignment that is cancelled at the next controller would end with it
        among the replicas: it is no part of what was before.
        """
        left = self._left(name, found)
        return ReplicaAssignment((*found.replicas, *left), (*found.adding, *left), (*found.removing, *left))

    def kept(self, topic: str) -> dict[int, ReplicaAssignment]:
        """Return the assignments of a topic as its znode has them: the next controller deletes what is not yet."""
        context = self._context
        names = [TopicPartition(topic, index) for index in context.assignments[topic]]
        return {name.partition: self._with_what_is_left(name, context.assignment(name)) for name in names}

    # -- replicas that go --------------------------------------------------------------------------------------------

    def awaits(self, name: TopicPartition, broker: int) -> bool:
        """Whether a reassignment ends when a broker has deleted its replica."""
        return broker in self._stopping.get(name, ())

    def brokers_answered(
        self, brokers: Collection[int], names: Collection[TopicPartition] | None = None
    ) -> Program[None]:
        """Take note of brokers that have deleted their replicas of partitions, or (None) are gone: wait no longer."""
        for name in list(self._stopping) if names is None else names:
            left = self._stopping.get(name, set())
            answered = sorted(left.intersection(brokers))
            left.difference_update(answered)
            yield from self._forget(name, answered)
            if answered and not left:
                del self._stopping[name]
                assignment = self._context.assignment(name)
                if assignment.is_being_reassigned:
                    yield from self._set_assignment(name, assignment)
                elif name in self._context.partitions_being_reassigned:
                    yield from self._finish(name)

    # -- the steps ---------------------------------------------------------------------------------------------------

    def _go_on(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[None]:
        yield from self._keep(name, assignment)
        yield from self._write(name, assignment)
        if (yield from self._is_complete(name, assignment)):
            yield from self._end(name, assignment)
        else:
            yield from self._tell_new_epoch(name, assignment)
            new = [
                replica
                for replica in (Replica(name, broker) for broker in assignment.coming)
                if self._context.replica_states.get(replica) in (None, ReplicaState.NON_EXISTENT)
            ]
            yield from self._replicas.handle(new, ReplicaState.NEW)

    def _keep(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[None]:
        """Wait no longer for the deletion of replicas that are wanted again; they are made anew."""
        wanted = self._stopping.get(name, set()).intersection(assignment.replicas)
        yield from self._forget(name, sorted(wanted))
        self._wait_for(name, self._stopping.pop(name, set()) - wanted)

    def _write(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[None]:
        """Have the znode say what comes and goes; what an earlier reassignment has added in vain is deleted."""
        context = self._context
        current = context.assignment(name)
        if current != assignment:
            unneeded = [one for one in current.replicas if one not in assignment.replicas]
            told = self._told(name, unneeded)
            self._wait_for(name, told)
            yield from self._set_assignment(name, assignment)
            context.assign(name, assignment)
            yield from self._stop(name, unneeded)
            yield from self._forget(name, [one for one in unneeded if one not in told])
        context.partitions_being_reassigned.add(name)

    def _end(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[None]:
        context = self._context
        yield from self._replicas.handle([Replica(name, one) for one in assignment.coming], ReplicaState.ONLINE)
        completed = ReplicaAssignment(assignment.target)
        context.assign(name, completed)
        yield from self._move_leader(name, completed)
        told = self._told(name, assignment.removing)
        yield from self._stop(name, assignment.removing)
        yield from self._forget(name, [one for one in assignment.removing if one not in told])
        self._wait_for(name, told)
        if name not in self._stopping:
            yield from self._finish(name)

    def _told(self, name: TopicPartition, brokers: Sequence[int]) -> set[int]:
        """Return which of these brokers will say that they have deleted their replicas."""
        known = {replica.broker for replica in self._known(name, brokers)}
        return {one for one in brokers if one in self._context.brokers and one in known}

    def _wait_for(self, name: TopicPartition, brokers: set[int]) -> None:
        if brokers:
            self._stopping.setdefault(name, set()).update(brokers)

    def _finish(self, name: TopicPartition) -> Program[None]:
        context = self._context
        yield from self._set_assignment(name, context.assignment(name))
        context.partitions_being_reassigned.discard(name)
        batch = self._environment.new_batch()
        batch.update(context.brokers, [name])
        batch.send()

    def _is_complete(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[bool]:
        if not assignment.is_being_reassigned:
            return True
        known = yield from self._zk.states([name])
        return name in known and set(assignment.target) <= set(known[name].isr)

    def _move_leader(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[None]:
        known = self._context.leadership.get(name)
        if known is not None and known.leader in assignment.replicas and self._context.is_online(known.leader, name):
            yield from self._tell_new_epoch(name, assignment)
        else:
            elections = yield from self._partitions.handle([name], PartitionState.ONLINE, ElectionStrategy.REASSIGN)
            problem = elections.get(name)
            if isinstance(problem, errors.KafkaError):
                self._environment.report(str(problem))

    def _tell_new_epoch(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[None]:
        """Raise the leader epoch, and tell all replicas of the assignment: who leads decides by it who may join."""
        context = self._context
        remaining = [name]
        while remaining:
            known = yield from self._zk.states([name])
            state = known.get(name)
            if state is None:
                self._environment.report(f"{name} has no state in ZooKeeper: its reassignment waits")
                return
            if state.controller_epoch > context.epoch:
                raise errors.ControllerMovedError(
                    f"the state of {name} was written by controller epoch {state.controller_epoch}, after this one"
                )
            written, remaining = yield from self._zk.update_states({name: state.elected(state.leader, state.isr)})
            if name in written:
                context.leadership[name] = written[name]
                batch = self._environment.new_batch()
                batch.lead(assignment.origin, name, written[name], assignment, is_new=False)
                batch.lead(assignment.coming, name, written[name], assignment, is_new=True)
                batch.send()

    def _stop(self, name: TopicPartition, brokers: Sequence[int]) -> Program[None]:
        """Have brokers delete their replicas."""
        for target in (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED):
            yield from self._replicas.handle(self._known(name, brokers), target)

    def _forget(self, name: TopicPartition, brokers: Sequence[int]) -> Program[None]:
        """Forget replicas that are deleted, and those of brokers that are away.

        A broker that comes back is told of all that it has, and deletes what it is not told of.
        """
        for target in (ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT):
            yield from self._replicas.handle(self._known(name, brokers), target)

    def _known(self, name: TopicPartition, brokers: Sequence[int]) -> list[Replica]:
        states = self._context.replica_states
        return [one for one in (Replica(name, broker) for broker in brokers) if one in states]

    def _set_assignment(self, name: TopicPartition, assignment: ReplicaAssignment) -> Program[None]:
        assignments = {**self.kept(name.topic), name.partition: self._with_what_is_left(name, assignment)}
        yield from self._zk.set_topic(name.topic, self._context.topic_ids[name.topic], assignments)
