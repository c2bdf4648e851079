"""A controller in office: what it does on taking it, and on what happens then (KafkaController)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.controller_context import PartitionState, Replica, ReplicaState
from barnabas.broker.zookeeper.controller.controller_event_manager import ControllerEvent
from barnabas.broker.zookeeper.controller.controller_stats import (
    BROKERS_AGAIN,
    LEADERS_ANSWERED,
    STOP_ANSWERED,
    TOPICS_AGAIN,
)
from barnabas.broker.zookeeper.controller.election import ElectionStrategy
from barnabas.broker.zookeeper.controller.inquiries import Inquiries
from barnabas.broker.zookeeper.controller.last_told import LastTold
from barnabas.broker.zookeeper.controller.partition_reassignments import PartitionReassignments
from barnabas.broker.zookeeper.controller.partition_state_machine import PartitionStateMachine
from barnabas.broker.zookeeper.controller.preferred_leaders import PreferredLeaders
from barnabas.broker.zookeeper.controller.replica_state_machine import ReplicaStateMachine
from barnabas.broker.zookeeper.controller.topic_deletion_manager import TopicDeletionManager
from barnabas.broker.zookeeper.operations import Create, Get, NodeExistsError, SetData, ZooKeeperError, found_or_none
from barnabas.protocol.kafka_uuid import random_uuid
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from barnabas.broker.zookeeper.controller.controller_channel_manager import ControllerChannelManager
    from barnabas.broker.zookeeper.controller.controller_context import LiveBroker, ReplicaAssignment
    from barnabas.broker.zookeeper.controller.controller_environment import ControllerEnvironment
    from barnabas.broker.zookeeper.controller.controller_event_manager import ControllerEventManager
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.message import Message


class ActiveController:
    """One reign: from the epoch that this broker has won to the end of it. Implements `Answers`."""

    def __init__(
        self,
        environment: ControllerEnvironment,
        events: ControllerEventManager,
        channels: ControllerChannelManager,
        random: random.Random,
    ) -> None:
        self.environment = environment
        self.context = environment.context
        self._zk = environment.zk
        self._events = events
        self._channels = channels
        self._random = random
        #: Brokers whose processes have ended, as far as is known: whether they answer is tried all the same.
        self._knocking: dict[int, LiveBroker] = {}
        #: By id what brokers knew when they were taken for dead.
        self._last_told: dict[int, LastTold] = {}
        self.partitions = PartitionStateMachine(environment)
        self.replicas = ReplicaStateMachine(environment)
        self.deletions = TopicDeletionManager(environment, self.partitions, self.replicas)
        self.reassignments = PartitionReassignments(environment, self.partitions, self.replicas)
        self.preferred = PreferredLeaders(environment, self.partitions)
        self._inquiries = Inquiries(environment, channels.ask, self._put_answer)
        self._of_path: dict[str, Callable[[], Program[None]]] = {
            znodes.BROKER_IDS: self._brokers_changed,
            znodes.TOPICS: self._topics_changed,
            znodes.DELETE_TOPICS: self.deletions.wishes_changed,
            controller_znodes.ISR_CHANGES: self._isr_changes,
            controller_znodes.LOG_DIR_EVENTS: self._log_dir_events,
            controller_znodes.REASSIGNMENTS: self.reassignments.take_znode,
            controller_znodes.PREFERRED_ELECTION: self.preferred.take_znode,
        }

    def close(self) -> None:
        """End the reign."""
        self._events.close()
        self._channels.close()

    def put(
        self,
        name: str,
        program: Callable[[], Program[None]],
        dropped: Callable[[errors.KafkaError], None] | None = None,
    ) -> None:
        """Line work up; see `ControllerEvent`."""
        self._events.put(ControllerEvent(name, program) if dropped is None else ControllerEvent(name, program, dropped))

    def changed(self, path: str) -> None:
        """Look again at a znode that has changed."""
        program = self._of_path.get(path)
        parent, _, name = path.rpartition("/")
        if program is not None:
            self.put(path, program)
        elif parent == znodes.TOPICS:
            self.put(path, partial(self._topics_enlarged, [name]))
        elif parent == znodes.BROKER_IDS and name.isdecimal():
            self.put(path, self._addresses_changed)

    def look_again(self) -> None:
        """Read all that is watched, with its watches: what happened while no server was reached was not told."""
        for path in self._of_path:
            self.changed(path)
        self.put(TOPICS_AGAIN, lambda: self._topics_enlarged(self.context.topics))
        self.put(BROKERS_AGAIN, self._addresses_changed)

    # -- taking office -----------------------------------------------------------------------------------------------

    def failover(self) -> Program[None]:
        """Read all there is, tell all brokers, and go on with what the last controller has left half done."""
        yield from self._set_up_features()
        for path in (controller_znodes.LOG_DIR_EVENTS, controller_znodes.ISR_CHANGES):
            names = yield from self._zk.children(path, watch=True)
            yield from self._zk.delete([f"{path}/{name}" for name in names])
        yield from self._read()
        yield from self.deletions.startup()
        self.tell_metadata(self.context.brokers, ())
        yield from self.replicas.startup()
        yield from self.partitions.startup()
        yield from self.reassignments.take_znode()
        yield from self.reassignments.resume(lambda assignment: True)
        yield from self.deletions.resume()
        yield from self.preferred.take_znode()
        self._inquiries.begin(self.context.brokers.values())

    def _set_up_features(self) -> Program[None]:
        (result,) = yield [Get(controller_znodes.FEATURE)]
        found, data = found_or_none(result), controller_znodes.encode_feature()
        if found is None:
            (made,) = yield from self._zk.write([Create(controller_znodes.FEATURE, data)])
            if isinstance(made, ZooKeeperError) and not isinstance(made, NodeExistsError):
                raise made
        elif not controller_znodes.is_enabled(found.data):
            yield from self._zk.write_together([SetData(controller_znodes.FEATURE, data, found.version)])

    def _read(self) -> Program[None]:
        context = self.context
        context.brokers.update((yield from self._live_brokers()))
        for broker in context.brokers.values():
            self._channels.add(broker)
        names = yield from self._zk.children(znodes.TOPICS, watch=True)
        yield from self._take_topics(names)
        reassigned = [name for name in context.partitions if context.assignment(name).is_being_reassigned]
        context.partitions_being_reassigned.update(reassigned)
        context.leadership.update((yield from self._zk.states(context.partitions)))
        for broker in self._knocking.values():
            # What went before, it looks for itself or is asked for; what this controller ends, it misses.
            self._last_told[broker.id] = LastTold(context, broker, ())

    def _take_topics(self, names: Collection[str]) -> Program[list[TopicPartition]]:
        """Take note of topics; returns their partitions. A topic of before 2.8 gets its id."""
        context = self.context
        found = yield from self._zk.topics(names)
        taken = []
        for topic, value in found.items():
            topic_id = value.topic_id or random_uuid(self._random)
            context.add_topic(topic, topic_id)
            for index, assignment in _assignments(value).items():
                taken.append(TopicPartition(topic, index))
                context.assign(taken[-1], assignment)
            if value.topic_id is None:
                yield from self._zk.set_topic(topic, topic_id, context.assignments[topic])
        return taken

    def tell_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Send UpdateMetadata to brokers."""
        batch = self.environment.new_batch()
        batch.update(brokers, partitions)
        batch.send()

    # -- brokers -----------------------------------------------------------------------------------------------------

    def _live_brokers(self) -> Program[dict[int, LiveBroker]]:
        """Return the brokers that are registered, but those whose processes have ended."""
        found, ended = (yield from self._zk.live_brokers()), self.context.ended
        for number in [number for number, epoch in ended.items() if number not in found or found[number].epoch > epoch]:
            del ended[number]
            self._last_told.pop(number, None)
        live = {number: broker for number, broker in found.items() if number not in ended}
        for number in [number for number in self._knocking if number not in ended]:
            del self._knocking[number]
            self._channels.remove(number)
        for broker in [found[number] for number in ended if number not in self._knocking]:
            self._knock(broker, live)
        return live

    def _knock(self, broker: LiveBroker, live: Mapping[int, LiveBroker]) -> None:
        """Send a broker that is taken for dead something until it answers, or its session ends."""
        unanswered, known = self._channels.remove(broker.id), self.context.brokers.get(broker.id)
        if known is not None and known.epoch == broker.epoch:
            self._last_told[broker.id] = LastTold(self.context, broker, unanswered)
        self._channels.add(broker, is_ended=True)
        self._knocking[broker.id] = broker
        request = self.environment.new_batch().knock(broker, live)
        self._channels.send(broker.id, request, lambda response: self._knock_answered(broker, response))

    def _knock_answered(self, broker: LiveBroker, response: Message) -> None:
        """Take a broker back that was taken for dead; another process there refuses what is told to an earlier one."""
        if not getattr(response, "error_code", errors.NONE) and self.context.ended.get(broker.id) == broker.epoch:
            del self.context.ended[broker.id]
            self.environment.report(f"broker {broker.id} was taken for dead, and answers: it is taken back")
            self.changed(znodes.BROKER_IDS)

    def _brokers_changed(self) -> Program[None]:
        found = yield from self._live_brokers()
        known = self.context.brokers
        new = {number: broker for number, broker in found.items() if number not in known}
        bounced = {
            number: broker for number, broker in found.items() if number in known and broker.epoch > known[number].epoch
        }
        dead = [number for number in known if number not in found]
        for number in (*bounced, *dead):
            if number not in self._knocking:
                self._channels.remove(number)
        for broker in (*new.values(), *bounced.values()):
            self._channels.add(broker)
        yield from self._brokers_started(new)
        if bounced:
            yield from self._brokers_failed(list(bounced))
            yield from self._brokers_started(bounced)
        yield from self._brokers_failed(dead)

    def _brokers_started(self, brokers: Mapping[int, LiveBroker]) -> Program[None]:
        if not brokers:
            return
        context = self.context
        others = [number for number in context.brokers if number not in brokers]
        context.brokers.update(brokers)
        for number in brokers:
            context.offline_directories.pop(number, None)
        self.tell_metadata(others, ())
        unsure = [broker for broker in brokers.values() if not self._tell_what_was_missed(broker)]
        # The first that they hear is all there is, and what is going: one in another session may know of it.
        self.tell_metadata(brokers, list(context.leadership))
        replicas = context.replicas_on(brokers.keys())
        yield from self.replicas.handle(replicas, ReplicaState.ONLINE)
        yield from self.partitions.trigger_online()
        yield from self.reassignments.resume(lambda assignment: not brokers.keys().isdisjoint(assignment.target))
        # A partition that has only now got its first state begins with an ISR that no leader will propose.
        yield from self.reassignments.complete(sorted(context.partitions_being_reassigned))
        yield from self.deletions.resume_for({replica.partition.topic for replica in replicas})
        self._inquiries.begin(unsure)

    def _tell_what_was_missed(self, broker: LiveBroker) -> bool:
        """Tell a broker that is taken back in the same life what has gone meanwhile; whether that was all there is."""
        told = self._last_told.pop(broker.id, None)
        if told is None or told.epoch != broker.epoch:
            return False
        batch = self.environment.new_batch()
        batch.send_ends(broker.id, told.ended(self.context), told.moved_away(self.context))
        return self._inquiries.is_done(broker)

    def _brokers_failed(self, brokers: Sequence[int]) -> Program[None]:
        if not brokers:
            return
        context = self.context
        for number in brokers:
            context.brokers.pop(number, None)
            context.offline_directories.pop(number, None)
            context.shutting_down.discard(number)
        yield from self._replicas_offline(context.replicas_on(brokers))
        yield from self.reassignments.brokers_answered(brokers)

    def _addresses_changed(self) -> Program[None]:
        """Take over other addresses of brokers that are alive."""
        brokers = self.context.brokers
        found = yield from self._zk.brokers(brokers)
        moved = [one for one in found.values() if one.epoch == brokers[one.id].epoch and one != brokers[one.id]]
        for broker in moved:
            brokers[broker.id] = broker
            self._channels.move(broker)
        if moved:
            self.tell_metadata(brokers, ())

    def _replicas_offline(self, replicas: Sequence[Replica]) -> Program[None]:
        """Elect other leaders, then take the replicas out of the ISRs."""
        context = self.context
        going = [one for one in replicas if context.is_queued_for_deletion(one.partition.topic)]
        staying = [one for one in replicas if not context.is_queued_for_deletion(one.partition.topic)]
        leaderless = context.partitions_with_offline_leader
        yield from self.partitions.handle(leaderless, PartitionState.OFFLINE)
        yield from self.partitions.trigger_online()
        yield from self.replicas.handle(staying, ReplicaState.OFFLINE)
        if going:
            yield from self.deletions.replicas_failed(going)
        if not leaderless:
            self.tell_metadata(context.brokers, ())

    # -- topics ------------------------------------------------------------------------------------------------------

    def _topics_changed(self) -> Program[None]:
        context = self.context
        names = yield from self._zk.children(znodes.TOPICS, watch=True)
        for topic in [topic for topic in context.topics if topic not in names]:
            context.remove_topic(topic)
        added = yield from self._take_topics([name for name in names if name not in context.topics])
        yield from self._create_partitions(added)

    def _topics_enlarged(self, topics: Collection[str]) -> Program[None]:
        """Make partitions that were added to topics; those of a topic that is being deleted are taken back."""
        for topic, found in (yield from self._zk.topics(topics)).items():
            if topic in self.context.topics and found.topic_id == self.context.topic_ids[topic]:
                yield from self._topic_enlarged(topic, found)

    def _topic_enlarged(self, topic: str, found: znodes.TopicZnode) -> Program[None]:
        context, known = self.context, self.context.assignments[topic]
        added = {index: assignment for index, assignment in _assignments(found).items() if index not in known}
        if not added:
            return
        if context.is_queued_for_deletion(topic):
            yield from self._zk.set_topic(topic, context.topic_ids[topic], known, drops_others=True)
            return
        names = [TopicPartition(topic, index) for index in added]
        for name in names:
            context.assign(name, added[name.partition])
        yield from self._create_partitions(names)

    def _create_partitions(self, names: Sequence[TopicPartition]) -> Program[None]:
        if not names:
            return
        replicas = [Replica(name, broker) for name in names for broker in self.context.assignment(name).replicas]
        yield from self.partitions.handle(names, PartitionState.NEW)
        yield from self.replicas.handle(replicas, ReplicaState.NEW)
        yield from self.partitions.handle(names, PartitionState.ONLINE, ElectionStrategy.OFFLINE)
        yield from self.replicas.handle(replicas, ReplicaState.ONLINE)

    def unclean_allowed(self, topic: str | None) -> Program[None]:
        """Elect leaders where a setting now allows what it did not before."""
        yield from self.partitions.trigger_online(topic)

    # -- what brokers announce ---------------------------------------------------------------------------------------

    def _isr_changes(self) -> Program[None]:
        """Take over the ISRs that brokers of before 2.7 have written themselves."""
        path = controller_znodes.ISR_CHANGES
        names = yield from self._zk.children(path, watch=True)
        paths = [f"{path}/{name}" for name in names]
        found = yield from self._zk.read(paths, controller_znodes.decode_partitions)
        told = dict.fromkeys(name for listed, _ in found.values() for name in listed)
        changed = [name for name in told if self.context.assignment(name).replicas]
        if changed:
            self.context.leadership.update((yield from self._zk.states(changed)))
            self.tell_metadata(self.context.brokers, changed)
            yield from self.reassignments.complete(changed)
        yield from self._zk.delete(paths)

    def _log_dir_events(self) -> Program[None]:
        """Ask brokers that have lost a log directory for all their replicas: responses name those that are gone."""
        path = controller_znodes.LOG_DIR_EVENTS
        names = yield from self._zk.children(path, watch=True)
        paths = [f"{path}/{name}" for name in names]
        found = yield from self._zk.read(paths, controller_znodes.decode_log_dir_event)
        brokers = {number for number, _ in found.values()}
        replicas = [one for one in self.context.replicas_on(brokers) if self._is_asked(one)]
        yield from self.replicas.handle(replicas, ReplicaState.ONLINE)
        yield from self._zk.delete(paths)

    def _is_asked(self, replica: Replica) -> bool:
        states = (ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE)
        return self.context.replica_states.get(replica) in states

    # -- what brokers answer -----------------------------------------------------------------------------------------

    def leader_and_isr_answered(self, broker: LiveBroker, response: Message) -> None:
        """See `Answers`."""
        code = getattr(response, "error_code", errors.NONE)
        if code:
            self.environment.report(f"broker {broker.id} refuses LeaderAndIsr: {errors.name_of(code)}")
        else:
            self._put_answer(LEADERS_ANSWERED, broker, partial(self._handle_leader_and_isr, broker.id, response))

    def _handle_leader_and_isr(self, broker_id: int, response: Message) -> Program[None]:
        """Note which replicas a broker cannot serve, for want of a disk."""
        failed, fine = set(), set()
        for topic in getattr(response, "topics", ()):
            name = self.context.topic_names.get(topic.topic_id)
            for found in topic.partition_errors if name is not None else ():
                partition = TopicPartition(name or "", found.partition_index)
                if found.error_code == errors.KafkaStorageError.code:
                    failed.add(partition)
                elif not found.error_code:
                    fine.add(partition)
        before = self.context.offline_directories.get(broker_id, set())
        if failed or before & fine:
            self.context.offline_directories[broker_id] = (before - fine) | failed
            new = failed - before
            if new:
                yield from self._replicas_offline([Replica(name, broker_id) for name in sorted(new)])

    def stop_replica_answered(self, broker: LiveBroker, response: Message, deleted: Collection[TopicPartition]) -> None:
        """See `Answers`."""
        moved = [name for name in deleted if self.reassignments.awaits(name, broker.id)]
        if moved:
            self._put_answer(STOP_ANSWERED, broker, partial(self.reassignments.brokers_answered, [broker.id], moved))
        going = [name for name in deleted if name.topic in self.context.topics_with_deletion_started]
        if going:
            self._put_answer(STOP_ANSWERED, broker, partial(self._handle_stop_replica, broker.id, response, going))

    def _handle_stop_replica(
        self, broker_id: int, response: Message, deleted: Collection[TopicPartition]
    ) -> Program[None]:
        code = getattr(response, "error_code", errors.NONE)
        told = {
            TopicPartition(found.topic_name, found.partition_index): found.error_code
            for found in getattr(response, "partition_errors", ())
        }
        failed = [name for name in deleted if code or told.get(name)]
        done = [name for name in deleted if not code and name in told and not told[name]]
        yield from self.deletions.replicas_failed([Replica(name, broker_id) for name in failed])
        if done:
            yield from self.deletions.replicas_deleted([Replica(name, broker_id) for name in done])

    def _put_answer(self, name: str, broker: LiveBroker, program: Callable[[], Program[None]]) -> None:
        """Line an answer up; each is an event of its own. One of an earlier life of the broker says nothing."""

        def if_same_broker() -> Program[None]:
            known = self.context.brokers.get(broker.id)
            if known is not None and known.epoch == broker.epoch:
                yield from program()

        self.put(name, if_same_broker, _dropped)


def _dropped(problem: errors.KafkaError) -> None:
    """Leave it: the next controller asks again."""


def _assignments(topic: znodes.TopicZnode) -> dict[int, ReplicaAssignment]:
    from barnabas.broker.zookeeper.controller.controller_context import ReplicaAssignment

    return {
        index: ReplicaAssignment(tuple(replicas), topic.adding.get(index, ()), topic.removing.get(index, ()))
        for index, replicas in topic.replicas.items()
    }
