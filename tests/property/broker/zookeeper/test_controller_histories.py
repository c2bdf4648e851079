"""Controllers on ZooKeeper under random events, with an end of any of them between any two operations.

Promises at every write: only the controller that was elected last writes; epochs never go back; there is one leader
for each leader epoch, of those that were in sync; an ISR grows only as its leader proposes. When all is well again,
topics, brokers and ZooKeeper say the same, and nothing is half done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import pytest

from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes, election
from barnabas.broker.zookeeper.controller.active_controller import ActiveController
from barnabas.broker.zookeeper.controller.controller_channel_manager import BrokerRequests
from barnabas.broker.zookeeper.controller.controller_context import LeaderAndIsr
from barnabas.broker.zookeeper.controller.controller_event_manager import ControllerEventManager
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER, CONTROLLER_EPOCH
from barnabas.broker.zookeeper.controller.election import ElectionStrategy
from barnabas.broker.zookeeper.controller.kafka_controller import KafkaController
from barnabas.broker.zookeeper.controller.kafka_zk_client import KafkaZkClient
from barnabas.broker.zookeeper.controller.lasting_session import LastingSession
from barnabas.broker.zookeeper.controller.partition_reassignments import PartitionReassignments
from barnabas.broker.zookeeper.controller.topic_deletion_manager import TopicDeletionManager
from barnabas.broker.zookeeper.operations import ANY_VERSION, Check, Create, Delete, Multi, SetData
from barnabas.errors import NotControllerError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.controller_world import ControllerWorld, Member

_STEPS = 250
_TOPICS = ("flights", "delays", "airports")


class BrokenError(AssertionError):
    """A promise was not kept."""


def promise(holds: bool, text: str) -> None:
    if not holds:
        raise BrokenError(text)


class WatchedZooKeeper(ModelZooKeeper):
    """Looks at every write before anyone hears of it."""

    elected_session = 0

    def carry_out(self, session: int, operation: Any) -> Any:
        before = self.nodes
        result = super().carry_out(session, operation)
        if self.nodes is not before:
            parts = operation.operations if isinstance(operation, Multi) else (operation,)
            for part in parts:
                if not isinstance(part, Check):
                    self._check(session, part, before)
        return result

    def _check(self, session: int, part: Create | SetData | Delete, before: Any) -> None:
        old, new = before.get(part.path), self.nodes.get(part.path)
        if part.path == CONTROLLER_EPOCH:
            if isinstance(part, SetData):
                promise(int(new.data) == int(old.data) + 1, f"the controller epoch goes from {old.data} to {new.data}")
                self.elected_session = session
            return
        if session and part.path != CONTROLLER and not part.path.startswith(znodes.BROKER_IDS):
            promise(session == self.elected_session, f"a controller that was replaced writes {part}")
        if part.path.endswith("/state") and new is not None:
            self._check_state(part.path, None if old is None else old.data, new.data)

    def _check_state(self, path: str, old: bytes | None, new: bytes) -> None:
        state = znodes.decode_state(path, new)
        epoch = int(self.nodes[CONTROLLER_EPOCH].data or b"")
        promise(state.controller_epoch == epoch, f"{path} is written by controller epoch {state.controller_epoch}")
        promise(bool(state.isr), f"{path} has no replica in sync")
        promise(state.leader == -1 or state.leader in state.isr, f"{path} is led by who is not in sync: {state}")
        if old is None:
            return
        last = znodes.decode_state(path, old)
        promise(state.leader_epoch >= last.leader_epoch, f"{path} goes back from {last} to {state}")
        if state.leader_epoch == last.leader_epoch:
            promise(state.leader == last.leader, f"{path} gets another leader in one epoch: {last}, {state}")
        else:
            promise(set(state.isr) <= set(last.isr), f"{path} takes replicas in without their leader: {last}, {state}")


class History:
    """One run."""

    @property
    def events(self) -> list[Callable[[Any], None]]:
        """What may happen; of several alike one is more frequent."""
        return EVENTS

    def __init__(self, seed: int, theirs: Collection[int] = ()) -> None:
        """Those of `theirs` are brokers of Apache Kafka."""
        self.random = random.Random(seed)
        zookeeper, rebalances = WatchedZooKeeper(), seed % 2 == 0
        self.world = ControllerWorld(4, seed=seed, zookeeper=zookeeper, rebalances=rebalances, theirs=theirs)
        self.world.start()
        self.expiring: list[Member] = []

    def run(self) -> None:
        for _ in range(_STEPS):
            if self.random.random() < 0.4:
                self.random.choice(self.events)(self)
            for _ in range(self.random.randint(0, 12)):
                self.random.choice(self.world.steps())()
            if self.random.random() < 0.1:
                self.world.now += self.random.choice((0.2, 1.0))
                self.world.tick()
        self.heal()
        self.check()

    # -- events ------------------------------------------------------------------------------------------------------

    def some_replicas(self) -> list[int]:
        return self.random.sample(sorted(self.world.members), self.random.randint(1, 3))

    def a_topic(self) -> str | None:
        return self.random.choice(self.world.topics) if self.world.topics else None

    def create(self) -> None:
        topic = self.random.choice(_TOPICS)
        is_going = f"{znodes.DELETE_TOPICS}/{topic}" in self.world.zookeeper.nodes
        if topic not in self.world.topics and not is_going:
            self.world.create(topic, *(self.some_replicas() for _ in range(self.random.randint(1, 3))))

    def enlarge(self) -> None:
        topic = self.a_topic()
        if topic is not None:
            self.world.enlarge(topic, self.some_replicas())

    def delete(self) -> None:
        topic = self.a_topic()
        if topic is not None and f"{znodes.DELETE_TOPICS}/{topic}" not in self.world.zookeeper.nodes:
            self.world.delete(topic)

    def reassign(self) -> None:
        topic = self.a_topic()
        if topic is not None:
            index = self.random.choice(sorted(self.world.topic(topic).replicas))
            self.world.reassign(topic, {index: self.random.choice((None, self.some_replicas(), self.some_replicas()))})

    def reassign_by_znode(self) -> None:
        topic = self.a_topic()
        if topic is not None and controller_znodes.REASSIGNMENTS not in self.world.zookeeper.nodes:
            name = (topic, self.random.choice(sorted(self.world.topic(topic).replicas)))
            data = controller_znodes.encode_reassignments([(_named(name), tuple(self.some_replicas()))])
            self.world.write(Create(controller_znodes.REASSIGNMENTS, data))

    def elect(self) -> None:
        topic = self.a_topic()
        if topic is not None:
            self.world.elect(topic, *self.world.topic(topic).replicas)

    def propose(self) -> None:
        """Have a leader shrink or expand an ISR."""
        leaders = [(member, name) for member in self.world.running for name in member.broker.led]
        if leaders:
            member, name = self.random.choice(leaders)
            others = [one for one in member.broker.replicas[name].replicas if one != member.id]
            isr = [member.id, *self.random.sample(others, self.random.randint(0, len(others)))]
            self.world.propose(member.id, name, isr)

    def shut_down(self) -> None:
        member = self.random.choice(list(self.world.members.values()))
        if member.is_running:
            self.world.shut_down(member.id)

    def kill(self) -> None:
        running = self.world.running
        if len(running) > 1:
            member = self.random.choice(running)
            member.kill()
            self.expiring.append(member)

    def expire(self) -> None:
        """Have the session of one that was killed, is paused or reaches no server end."""
        away = self.expiring + [
            member for member in self.world.running if member.is_paused or not member.session.is_connected
        ]
        if away:
            member = self.random.choice(away)
            self.world.zookeeper.end(member.session.id)

    def start(self) -> None:
        away = [member for member in self.world.members.values() if not member.is_running]
        if away:
            self.restart(self.random.choice(away))

    def restart(self, member: Member) -> None:
        self.world.zookeeper.end(member.session.id)
        self.expiring = [found for found in self.expiring if found is not member]
        member.broker.failing.clear()
        member.start()

    def bounce(self) -> None:
        """Restart one before anyone has looked."""
        member = self.random.choice(self.world.running)
        member.kill()
        self.restart(member)

    def pause(self) -> None:
        self.random.choice(self.world.running).is_paused = True

    def go_on(self) -> None:
        """Have one that was paused go on; only later it hears that its session is over."""
        paused = [member for member in self.world.running if member.is_paused]
        if paused:
            self.random.choice(paused).is_paused = False

    def lose_connection(self) -> None:
        member = self.random.choice(self.world.running)
        if not member.is_paused and member.session.is_connected:
            member.session.disconnect()

    def find_connection(self) -> None:
        """Have one that has lost its connection find it again, if its session lasts."""
        away = [member for member in self.world.running if not member.session.is_connected]
        if away:
            self.random.choice(away).session.connect()

    def lose_session(self) -> None:
        member = self.random.choice(self.world.running)
        if not member.is_paused:
            member.session.expire()
            member.session.connect()

    def lose_request(self) -> None:
        ways = [way for member in self.world.running if not member.is_paused for way in member.ways.values()]
        ways = [way for way in ways if way.in_flight is not None or way.response is not None]
        if ways:
            self.random.choice(ways).lose()

    def reset(self) -> None:
        """End all connections to one that lives on."""
        self.world.reset(self.random.choice(self.world.running).id)

    def refuse(self) -> None:
        """Have one refused by another that lives on, as a firewall does."""
        owner = self.random.choice(self.world.controllers or self.world.running)
        target = self.random.choice(sorted(self.world.members.keys() - {owner.id}))
        self.world.refused.add((owner.id, target))
        self.world.reset(target)

    def refuse_no_more(self) -> None:
        if self.world.refused:
            self.world.refused.discard(self.random.choice(sorted(self.world.refused)))

    def depose(self) -> None:
        self.world.depose()

    def lose_disk(self) -> None:
        member = self.random.choice(self.world.running)
        if member.broker.replicas:
            member.broker.failing.add(self.random.choice(sorted(member.broker.replicas)))
            data = controller_znodes.encode_log_dir_event(member.id)
            path = f"{controller_znodes.LOG_DIR_EVENTS}/{controller_znodes.LOG_DIR_EVENT_PREFIX}"
            self.world.write(Create(path, data, sequential=True))

    # -- the end -----------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        world = self.world
        world.refused.clear()
        world.cut.clear()
        for member in world.members.values():
            member.is_paused = False
            if not member.is_running or member.broker.failing:
                if member.is_running:
                    member.kill()
                self.restart(member)
            elif member.session.id not in world.zookeeper.sessions or not member.session.is_connected:
                member.session.disconnect()
                member.session.connect()
        world.settle()
        # A broker that has begun to shut down does so, and comes back.
        for member in sorted(world.leaving):
            world.members[member].kill()
            self.restart(world.members[member])
        for _ in range(4):
            world.settle()
            world.join_isrs()
            # Connections are lost to the end.
            for _ in range(60):
                self.random.choice(world.steps())()
                if self.random.random() < 0.2:
                    self.lose_request()
        world.settle()

    def check(self) -> None:
        world = self.world
        promise(len(world.controllers) == 1, f"{len(world.controllers)} members are controller")
        faults = [text for text in world.reports if "failed at" in text or "cannot be controller" in text]
        promise(not faults, f"a controller failed: {faults}")
        promise(not world.zookeeper.nodes[znodes.DELETE_TOPICS].children, "a topic is not deleted")
        promise(controller_znodes.REASSIGNMENTS not in world.zookeeper.nodes, "a wish for replicas was left")
        for path in (controller_znodes.LOG_DIR_EVENTS, controller_znodes.ISR_CHANGES):
            promise(not world.zookeeper.nodes[path].children, f"{path} was not emptied")
        settings = world.zookeeper.nodes[f"{znodes.CONFIG}/topics"].children
        promise(sorted(settings) == world.topics, f"settings are left: {sorted(settings)}, {world.topics}")
        expected = {}
        for topic in world.topics:
            found = world.topic(topic)
            promise(not found.adding and not found.removing, f"{topic} is still being reassigned: {found}")
            for index, replicas in found.replicas.items():
                promise(world.data(znodes.state_path(topic, index)) is not None, f"{topic}-{index} has no state")
                state = world.state(topic, index)
                promise(set(state.isr) == set(replicas), f"{topic}-{index} has {replicas}, and {state}")
                promise(state.leader in state.isr, f"{topic}-{index} has no leader: {state}")
                version = world.zookeeper.nodes[znodes.state_path(topic, index)].version
                expected[topic, index] = (state.leader, state.leader_epoch, sorted(state.isr), version, list(replicas))
                self.check_replicas(topic, index, found.topic_id or b"", state)
        world.check_lifelines()
        for member in world.members.values():
            told = {
                (name.topic, name.partition): (s.leader, s.leader_epoch, sorted(s.isr), s.zk_version, s.replicas)
                for name, s in member.broker.metadata.items()
            }
            promise(told == expected, f"broker {member.id} was told {told}, and ZooKeeper has {expected}")
            promise(member.broker.alive == set(world.members), f"broker {member.id} knows of {member.broker.alive}")
            assigned = {_named(name) for name, (*_, replicas) in expected.items() if member.id in replicas}
            # A log that a restarted broker is told nothing of is set aside by the broker itself (`StrayLogs`).
            strays = self.served(member) - assigned
            promise(not strays, f"broker {member.id} keeps logs that it has no replicas of: {sorted(strays)}")

    def served(self, member: Member) -> set[TopicPartition]:
        return {name for name, held in member.broker.replicas.items() if not held.is_stopped}

    def check_replicas(self, topic: str, index: int, topic_id: bytes, state: znodes.PartitionState) -> None:
        for number in state.isr:
            held = self.world.members[number].broker.replicas.get(_named((topic, index)))
            promise(held is not None and not held.is_stopped, f"broker {number} has no replica of {topic}-{index}")
            assert held is not None
            known = held.topic_id, held.leader, held.leader_epoch
            promise(known == (topic_id, state.leader, state.leader_epoch), f"{number} goes by {held}, not by {state}")


def _named(name: tuple[str, int]) -> Any:
    return TopicPartition(*name)


EVENTS: list[Callable[[History], None]] = [
    History.create,
    History.create,
    History.enlarge,
    History.delete,
    History.reassign,
    History.reassign,
    History.reassign_by_znode,
    History.elect,
    History.propose,
    History.propose,
    History.propose,
    History.shut_down,
    History.kill,
    History.expire,
    History.start,
    History.start,
    History.bounce,
    History.pause,
    History.go_on,
    History.go_on,
    History.lose_connection,
    History.lose_connection,
    History.find_connection,
    History.find_connection,
    History.find_connection,
    History.lose_session,
    History.lose_request,
    History.lose_request,
    History.reset,
    History.refuse,
    History.refuse_no_more,
    History.depose,
    History.lose_disk,
]


@pytest.mark.parametrize("seed", range(6))
def test_whoever_is_controller_brings_all_to_its_end(seed: int) -> None:
    History(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_whoever_is_controller_brings_all_to_its_end_in_many_histories(seed: int) -> None:
    History(seed).run()


# -- planted faults --------------------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def write_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    original = KafkaZkClient.__init__

    def init(self: Any, epoch: int, _version: int, report: Any) -> None:
        original(self, epoch, ANY_VERSION, report)

    patch.setattr(KafkaZkClient, "__init__", init)


def elect_who_is_out_of_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(election._ELECT, ElectionStrategy.OFFLINE, election._unclean)


def keep_the_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    def elected(self: Any, leader: int, isr: Any, _recovery: int | None = None) -> Any:
        return self._replace(leader=leader, isr=tuple(isr))

    patch.setattr(LeaderAndIsr, "elected", elected)


def keep_the_controller_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller_znodes, "decode_epoch", lambda data: int(data or b"0") - 1)


def leave_reassignments_to_themselves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionReassignments, "resume", _nothing)


def leave_deletions_to_themselves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicDeletionManager, "resume_for", _nothing)
    patch.setattr(TopicDeletionManager, "startup", _nothing)


def send_once_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerRequests, "disconnected", lambda self, _now: self._queue.popleft())


def overlook_restarts(patch: pytest.MonkeyPatch) -> None:
    original = KafkaZkClient.brokers

    def brokers(self: Any, ids: Any) -> Any:
        found = yield from original(self, ids)
        return {number: broker._replace(epoch=1) for number, broker in found.items()}

    patch.setattr(KafkaZkClient, "brokers", brokers)


def take_answers_of_an_earlier_life(patch: pytest.MonkeyPatch) -> None:
    def put(self: Any, name: str, _broker: Any, program: Any) -> None:
        self.put(name, program, lambda _error: None)

    patch.setattr(ActiveController, "_put_answer", put)


def watch_topics_once(patch: pytest.MonkeyPatch) -> None:
    original = KafkaZkClient.children

    def children(self: Any, path: str, *, watch: bool = False) -> Any:
        return original(self, path, watch=watch and path != znodes.TOPICS)

    patch.setattr(KafkaZkClient, "children", children)


def go_on_in_another_session(patch: pytest.MonkeyPatch) -> None:
    """Watches are gone, what was in flight is not known, and another broker may be controller."""
    patch.setattr(KafkaController, "disconnected", lambda _self: None)
    patch.setattr(KafkaController, "connected", lambda self, session_id: setattr(self, "_session_id", session_id))


def read_nothing_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ActiveController, "look_again", lambda _self: None)


def leave_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LastingSession, "resume", lambda self: setattr(self, "_is_paused", False))


def go_on_with_half_an_event(patch: pytest.MonkeyPatch) -> None:
    """An event whose operation was lost is given up, and the next one is begun."""
    patch.setattr(ControllerEventManager, "pause", lambda _self: None)
    patch.setattr(ControllerEventManager, "resume", lambda _self: None)
    patch.setattr(LastingSession, "_answered", lambda _self, one, result: one.done(result))
    original = ControllerEventManager.__init__

    def init(self: Any, session: Any, report: Any, _moved: Any, stats: Any) -> None:
        original(self, session, report, lambda: None, stats)

    patch.setattr(ControllerEventManager, "__init__", init)


def never_knock(patch: pytest.MonkeyPatch) -> None:
    """Who was refused for a while stays out."""
    patch.setattr(ActiveController, "_knock", lambda _self, _broker: None)


def take_the_end_of_a_life_for_that_of_the_broker(patch: pytest.MonkeyPatch) -> None:
    """Another registration does not bring a broker back."""
    original = KafkaZkClient.live_brokers

    def live_brokers(self: Any) -> Any:
        found = yield from original(self)
        return {number: broker._replace(epoch=-1) for number, broker in found.items()}

    patch.setattr(KafkaZkClient, "live_brokers", live_brokers)


def tell_nobody_of_isrs(patch: pytest.MonkeyPatch) -> None:
    original = ActiveController.tell_metadata

    def tell(self: Any, brokers: Any, partitions: Any) -> None:
        if not partitions:
            original(self, brokers, partitions)

    patch.setattr(ActiveController, "tell_metadata", tell)


def drop_what_comes_while_busy(patch: pytest.MonkeyPatch) -> None:
    original = ControllerEventManager.put

    def put(self: Any, event: Any) -> None:
        if self._current is None:
            original(self, event)
        else:
            event.dropped(NotControllerError())

    patch.setattr(ControllerEventManager, "put", put)


def leave_the_wish_to_delete(patch: pytest.MonkeyPatch) -> None:
    """Delete topic and settings alone."""
    original = KafkaZkClient.write_together

    def write(self: Any, writes: Any) -> Any:
        return original(self, [one for one in writes if not one.path.startswith(znodes.DELETE_TOPICS)])

    patch.setattr(KafkaZkClient, "write_together", write)


def _nothing(self: Any, *_: object, **__: object) -> Any:
    yield from ()


@pytest.mark.parametrize(
    ("plant", "seeds"),
    [
        (write_without_a_fence, 40),
        (elect_who_is_out_of_sync, 40),
        (keep_the_leader_epoch, 5),
        (keep_the_controller_epoch, 5),
        (leave_reassignments_to_themselves, 300),
        (leave_deletions_to_themselves, 40),
        (send_once_only, 100),
        (overlook_restarts, 40),
        (take_answers_of_an_earlier_life, 200),
        (watch_topics_once, 40),
        (go_on_in_another_session, 40),
        (read_nothing_again, 100),
        (leave_what_was_lost, 40),
        (go_on_with_half_an_event, 200),
        (never_knock, 200),
        (take_the_end_of_a_life_for_that_of_the_broker, 40),
        (tell_nobody_of_isrs, 40),
        (drop_what_comes_while_busy, 5),
        (leave_the_wish_to_delete, 40),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
@pytest.mark.slow
def test_planted_faults_are_found(plant: Patch, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(seeds):
        try:
            History(seed).run()
        except AssertionError:
            return
    raise AssertionError(f"{plant.__name__} was not found in {seeds} histories")
