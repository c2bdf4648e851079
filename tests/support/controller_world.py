"""Brokers in memory under a model of ZooKeeper, each of which may be controller: what a test drives step by step."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from typing import Any

from barnabas.broker.instant import Instant
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.requester import Requester
from barnabas.broker.silent_machines import Silence
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_apis
from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt, Life
from barnabas.broker.zookeeper.controller.controller_context import ReplicaAssignment
from barnabas.broker.zookeeper.controller.controller_environment import ControllerSettings
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER, CONTROLLER_EPOCH
from barnabas.broker.zookeeper.controller.kafka_controller import KafkaController
from barnabas.broker.zookeeper.controller.kafka_zk_client import topic_znode
from barnabas.broker.zookeeper.operations import Create, Created, Delete, Get, NodeExistsError, SetData, Znode
from barnabas.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from barnabas.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.controller_brokers import ModelBroker

#: Versions of the requests that brokers of 3.9 take.
_ALTER_PARTITION_VERSION = 3
#: So many rounds of all members at one moment are a circle: what takes the most takes some hundred.
_MOST_STEPS = 5000


class Way:
    """The way of one requester to its broker: a request is sent, taken and answered in three steps."""

    def __init__(self, world: ControllerWorld, requester: Requester, owner: int) -> None:
        self.world = world
        self.requester_of = owner
        self.requester = requester
        self.in_flight: Any = None
        self.response: Any = None
        self.is_closed = False

    def step(self) -> bool:
        """Send the next request, or take in the response to the last one; False if there is neither."""
        now = self.world.instant
        if self.response is not None:
            response, self.response = self.response, None
            self.requester.receive(response, now)
            return True
        if self.in_flight is not None or self.is_closed:
            return False
        found = self.requester.next_request(now.now)
        if found is not None and not self.world.reaches(self.requester_of, *found[0][:3]):
            self.requester.disconnected(now.now)
            return False
        self.in_flight = found
        return found is not None

    def lose(self) -> None:
        """Lose the connection: what is in flight has been taken, or not."""
        if self.in_flight is not None or self.response is not None:
            self.in_flight = self.response = None
            self.requester.disconnected(self.world.instant.now)

    def arrive(self) -> bool:
        """Have the broker take what is in flight; False if nothing is."""
        if self.in_flight is None:
            return False
        (node, request), self.in_flight = self.in_flight, None
        host = self.world.members.get(node.id)
        if host is None or not self.world.reaches(self.requester_of, *node[:3]):
            if not self.is_closed:
                self.requester.disconnected(self.world.instant.now)
            return False
        if host.is_paused:
            self.in_flight = node, request
            return False
        response = host.broker.take(request)
        self.response = None if self.is_closed else response
        return True


class Lifeline:
    """A connection of one member to another that carries nothing."""

    def __init__(self, owner: Member, attempt: Attempt) -> None:
        self.owner = owner
        self.attempt = attempt
        self.is_open = False
        self.is_reset = False

    def step(self) -> bool:
        """Open it, or have its owner see its end; False if neither is due."""
        owner, world, life = self.owner, self.owner.world, self.attempt.life
        if not owner.is_running or owner.is_paused or self not in owner.lines:
            return False
        target = world.members[life.id]
        is_there = target.is_running and target.port == life.port
        if world.is_cut(owner.id, life.id):
            owner.lines.remove(self)
            if self.is_open:
                owner.controller.lifelines.silent(self.attempt, world.now)
            else:
                owner.controller.lifelines.failed(self.attempt, world.now, is_refused=False, is_silent=True)
        elif self.is_open and (self.is_reset or not is_there):
            owner.lines.remove(self)
            owner.controller.lifelines.closed(self.attempt, world.now)
        elif not self.is_open:
            if world.reaches(owner.id, life.id, life.host, life.port):
                self.is_open = True
                owner.controller.lifelines.opened(self.attempt, world.now)
            else:
                owner.lines.remove(self)
                owner.controller.lifelines.failed(self.attempt, world.now, is_refused=True)
        else:
            return False
        return True


class Member:
    """A process: its session with ZooKeeper, its broker, and its part in the election."""

    def __init__(self, world: ControllerWorld, number: int) -> None:
        self.world = world
        self.id = number
        self.broker = ModelBroker(number, world, is_theirs=number in world.theirs)
        self.is_running = self.is_paused = False
        self.port = 0

    def start(self) -> None:
        """Begin to run, in another session."""
        self.world.last_port += 1
        self.world.leaving.discard(self.id)
        self.port, self.is_running, self.is_paused = self.world.last_port, True, False
        self.ways: dict[object, Way] = {}
        self.session = self.make_session()
        self.is_registered_in = 0
        settings = ControllerSettings(
            self.id,
            "PLAINTEXT",
            lambda: self.world.allows_unclean,
            rebalances=self.world.rebalances,
            imbalance_percentage=self.world.imbalance_percentage,
            imbalance_interval=1.0,
            silence=Silence(longest=1.0, patience=0.2),
        )
        self.controller = KafkaController(
            settings, self.session, self, self.world.random, self.world.reports.append, lambda: 0
        )
        self.lines: list[Lifeline] = []
        self.asked: dict[Life, float] = {}
        self.controller.lifelines.connect = self._connect
        self.controller.lifelines.drop = self._drop
        self.controller.lifelines.witnesses = lambda: self.world.lives_beside(self)
        give_up = self.controller.lifelines.gone

        def gone(life: Life) -> None:
            self.world.gives_up(self, life)
            give_up(life)

        self.controller.lifelines.gone = gone
        self.broker.forget()
        self.session.start(self)

    def make_session(self) -> Any:
        """Return a session that is not started."""
        return self.world.zookeeper.session()

    def _connect(self, attempt: Attempt) -> None:
        self.asked[attempt.life] = self.world.now
        self.lines.append(Lifeline(self, attempt))

    def _drop(self, attempt: Attempt) -> None:
        self.lines = [line for line in self.lines if line.attempt != attempt]

    def kill(self) -> None:
        """End at once; the session stays until it expires."""
        self.is_running = False
        self.session.waiting.clear()
        for way in self.ways.values():
            way.is_closed = True
        self.world.in_network += self.ways.values()

    # -- SessionListener ---------------------------------------------------------------------------------------------

    def connected(self, session_id: int) -> None:
        self.controller.connected(session_id)
        if self.is_registered_in != session_id:
            self._register()

    def _register(self) -> None:
        here = {"PLAINTEXT": Endpoint("host", self.port)}
        path, session_id = f"{znodes.BROKER_IDS}/{self.id}", self.session.id
        self.session.submit(
            Create(path, znodes.encode_broker(here, None, 0), ephemeral=True),
            lambda result: self._registered(session_id, result),
        )

    def _registered(self, session_id: int, result: Any) -> None:
        path = f"{znodes.BROKER_IDS}/{self.id}"
        if isinstance(result, NodeExistsError):
            # It may be its own: the answer may have been lost with the connection.
            self.session.submit(Get(path), lambda found: self._registered(session_id, found))
        elif isinstance(result, Created) or (isinstance(result, Znode) and result.owner == session_id):
            self.is_registered_in, self.broker.broker_epoch = session_id, result.created
            if self.broker.is_theirs:
                return
            # no controller tells it what has gone while it was not registered.
            self.broker.metadata.clear()
            self.controller.registered()

    def disconnected(self) -> None:
        self.controller.disconnected()

    def changed(self, path: str) -> None:
        self.controller.changed(path)

    # -- OpenChannels ------------------------------------------------------------------------------------------------

    def open_to_broker(self, key: object, requester: Requester, name: str) -> None:
        self.ways[key] = Way(self.world, requester, self.id)

    def close(self, key: object) -> None:
        way = self.ways.pop(key)
        way.is_closed = True
        # What was sent arrives all the same, in any order with what comes on another way.
        self.world.in_network.append(way)

    def wake(self, key: object) -> None:
        assert key in self.ways

    # -- steps -------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Take in one answer or event of ZooKeeper."""
        return self.is_running and not self.is_paused and self.session.deliver_one()


class ControllerWorld:
    """All of it. `reports` has what controllers report."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        seed: int = 0,
        rebalances: bool = False,
        zookeeper: ModelZooKeeper | None = None,
        theirs: Collection[int] = (),
    ) -> None:
        """Those of `theirs` are brokers of Apache Kafka that are not elected."""
        self.theirs = theirs
        self.random = random.Random(seed)
        self.rebalances = rebalances
        self.allows_unclean = False
        self.imbalance_percentage = 10
        self.now = 100.0
        self.last_port = 9000
        self.reports: list[str] = []
        self.in_network: list[Way] = []
        #: Who has asked to shut down, of a controller that may be another one by now; it ends in any case.
        self.leaving: set[int] = set()
        #: Who is refused connections by whom.
        self.refused: set[tuple[int, int]] = set()
        #: Between whom nothing gets through, and since when.
        self.cut: dict[frozenset[int], float] = {}
        #: Who gave up whom for its silence.
        self.given_up: list[tuple[int, int]] = []
        self.leaders: dict[tuple[TopicPartition, bytes, int], int] = {}
        self.zookeeper = zookeeper or ModelZooKeeper()
        for path in (*znodes.PERSISTENT, *(f"{znodes.CONFIG}/{kind}" for kind in znodes.CONFIG_TYPES)):
            if path not in self.zookeeper.nodes:
                self.zookeeper.put(path)
        self.members = {number: Member(self, number) for number in range(1, brokers + 1)}

    @property
    def instant(self) -> Instant:
        """The time."""
        return Instant(self.now, int(self.now * 1000))

    def start(self, *numbers: int) -> ControllerWorld:
        """Start members, and let all settle."""
        for number in numbers or self.members:
            self.members[number].start()
        return self.settle()

    @property
    def running(self) -> list[Member]:
        """The members that run."""
        return [member for member in self.members.values() if member.is_running]

    @property
    def controllers(self) -> list[Member]:
        """The members that believe to be controller."""
        return [member for member in self.running if member.controller.active is not None]

    @property
    def controller(self) -> Member:
        """The only controller."""
        (found,) = self.controllers
        return found

    def leads(self, name: TopicPartition, topic_id: bytes, epoch: int, broker: int) -> None:
        """Take note of a leader: there is one for each epoch."""
        known = self.leaders.setdefault((name, topic_id, epoch), broker)
        assert known == broker, f"{name} is led by {known} and by {broker} in epoch {epoch}"

    def deletes(self, number: int, name: TopicPartition, topic_id: bytes) -> None:
        """Take note of a log that a broker was told to delete: of a topic that stays none does that is in sync."""
        if name.topic not in self.topics or f"{znodes.DELETE_TOPICS}/{name.topic}" in self.zookeeper.nodes:
            return
        is_of_it = self.topic(name.topic).topic_id == topic_id and self.data(znodes.state_path(*name)) is not None
        assert not is_of_it or number not in self.state(*name).isr, f"{number} is in sync, and deletes {name}"

    # -- steps -------------------------------------------------------------------------------------------------------

    def steps(self) -> list[Callable[[], bool]]:
        """All that may happen next."""
        found: list[Callable[[], bool]] = []
        for member in self.running:
            found.append(member.step)
            if not member.is_paused:
                found += [way.step for way in member.ways.values()]
            found += [line.step for line in member.lines]
            found += [way.arrive for way in member.ways.values()]
        self.in_network = [way for way in self.in_network if way.in_flight is not None]
        found += [way.arrive for way in self.in_network]
        return found

    def settle(self) -> ControllerWorld:
        """Let happen all that may, until nothing does any more."""
        for _ in range(200):
            for _ in range(_MOST_STEPS):
                if not sum(step() for step in self.steps()):
                    break
            else:
                break
            self.now += 0.2
            self.tick()
            if not any(step() for step in self.steps()):
                return self
        raise AssertionError(f"it does not settle: {self.reports[-5:]}")

    def tick(self) -> None:
        """Give controllers their time."""
        for member in self.running:
            for service in () if member.is_paused else (member.controller, member.controller.lifelines):
                if service.next_deadline() <= self.now:
                    service.tick(self.instant)

    def check_lifelines(self) -> None:
        """Demand that members hold lines to brokers as they are registered: a controller to all, others to it alone.

        Others may hold none: they took it for dead once, in this life of it.
        """
        lives = {number: self.zookeeper.nodes[f"{znodes.BROKER_IDS}/{number}"].created for number in self.members}
        for member in self.running:
            held = sorted((life.id, life.epoch) for life in member.controller.lifelines.lives)
            if member.controller.active is not None:
                assert held == sorted(lives.items()), (member.id, held, lives)
            else:
                controller = self.controller.id
                assert held in ([], [(controller, lives[controller])]), (member.id, held, controller, lives)

    def kill(self, number: int, *, settles: bool = True) -> None:
        """End a member, and its session with it."""
        member = self.members[number]
        member.kill()
        self.zookeeper.end(member.session.id)
        if settles:
            self.settle()

    def reaches(self, owner: int, number: int, _host: str, port: int) -> bool:
        """Whether a connection of one member to another is not refused."""
        target = self.members.get(number)
        is_there = target is not None and target.is_running and target.port == port
        return is_there and (owner, number) not in self.refused and not self.is_cut(owner, number)

    def is_cut(self, one: int, other: int) -> bool:
        """Whether nothing gets from one member to another."""
        return frozenset((one, other)) in self.cut

    def isolate(self, number: int) -> None:
        """Let nothing get from a member to any other, nor back; ZooKeeper is reached."""
        for other in self.members.keys() - {number}:
            self.cut_link(number, other)

    def cut_link(self, one: int, other: int) -> None:
        """Let nothing get from one member to another, nor back."""
        self.cut.setdefault(frozenset((one, other)), self.now)

    def lives_beside(self, member: Member) -> list[Life]:
        """Return whom a member that is not controller may ask."""
        others = [one for one in self.members.values() if one is not member and one.is_registered_in >= 0]
        if member.controller.active is not None:
            return []
        return [Life(one.id, one.broker.broker_epoch, "host", one.port) for one in others if one.port]

    def gives_up(self, member: Member, life: Life) -> None:
        """Take note of one that is given up for its silence: nothing gets there, and at least to one other.

        What counts is when its last attempt began; what came of it, the member may see late.
        """
        self.given_up.append((member.id, life.id))
        assert self.is_cut(member.id, life.id), f"{member.id} gives up {life}, which it reaches"
        others = self.members.keys() - {member.id, life.id}
        lately = member.asked[life] - 1.5
        links = [self.cut.get(frozenset((member.id, one)), self.now) for one in others]
        assert max(links) > lately, f"{member.id} gives up {life}, and is cut off"

    def reset(self, number: int) -> None:
        """End all connections to a member, which lives on."""
        for member in self.running:
            for line in member.lines:
                line.is_reset = line.is_reset or line.attempt.life.id == number
            for way in member.ways.values():
                if way.in_flight is not None and way.in_flight[0].id == number:
                    way.lose()

    # -- what clients and brokers ask --------------------------------------------------------------------------------

    def ask(self, request: Any, version: int = 0) -> list[Any]:
        """Ask the controller; returns where its response will be."""
        responses: list[Any] = []
        active = self.controllers[-1].controller.active if self.controllers else None
        operation = controller_apis.handle(active, request, version)
        if operation.done:
            responses.append(operation.result)
        else:
            operation._respond = responses.append
        return responses

    def answer(self, request: Any, version: int = 0) -> Any:
        """Ask the controller, and return its response."""
        responses = self.ask(request, version)
        self.settle()
        return responses[0]

    def write(self, *operations: Any) -> None:
        """Write to ZooKeeper as a tool does."""
        for operation in operations:
            self.zookeeper._must(operation)

    def create(self, topic: str, *replicas: list[int], **configs: str) -> None:
        """Make a topic as a tool does."""
        topic_id = self.random.randbytes(16)
        assigned = {index: ReplicaAssignment(tuple(members)) for index, members in enumerate(replicas)}
        settings = znodes.encode_config({name.replace("_", "."): value for name, value in configs.items()})
        self.zookeeper.put(f"{znodes.CONFIG}/topics/{topic}", settings)
        self.write(Create(znodes.topic_path(topic), znodes.encode_topic(topic_znode(topic_id, assigned))))

    def enlarge(self, topic: str, *replicas: list[int]) -> None:
        """Add partitions to a topic as a tool does."""
        known = self.topic(topic)
        more = {len(known.replicas) + index: tuple(members) for index, members in enumerate(replicas)}
        data = znodes.encode_topic(known._replace(replicas={**known.replicas, **more}))
        self.write(SetData(znodes.topic_path(topic), data))

    def delete(self, topic: str) -> None:
        """Wish for a topic's end."""
        self.write(Create(f"{znodes.DELETE_TOPICS}/{topic}"))

    def reassign(self, topic: str, wanted: dict[int, list[int] | None]) -> list[Any]:
        """Ask for other replicas."""
        parts = [ReassignablePartition(partition_index=index, replicas=members) for index, members in wanted.items()]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=parts)])
        return self.ask(request)

    def elect(self, topic: str, *indexes: int, unclean: bool = False) -> list[Any]:
        """Ask for an election."""
        names = [TopicPartitions(topic=topic, partitions=list(indexes))]
        return self.ask(ElectLeadersRequest(election_type=int(unclean), topic_partitions=names), 2)

    def shut_down(self, number: int) -> list[Any]:
        """Ask for a controlled shutdown."""
        self.leaving.add(number)
        epoch = self.members[number].broker.broker_epoch
        return self.ask(ControlledShutdownRequest(broker_id=number, broker_epoch=epoch), 3)

    def propose(self, number: int, name: TopicPartition, isr: Iterable[int]) -> list[Any]:
        """Have a broker propose an ISR for a partition that it leads, by what it knows."""
        broker = self.members[number].broker
        held = broker.replicas[name]
        known = broker.metadata.get(name)
        version = held.partition_epoch
        if known is not None and known.leader_epoch == held.leader_epoch:
            version = max(version, known.zk_version)
        part = PartitionData(
            partition_index=name.partition,
            leader_epoch=held.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=one) for one in isr],
            partition_epoch=version,
        )
        topic = TopicData(topic_id=held.topic_id, partitions=[part])
        request = AlterPartitionRequest(broker_id=number, broker_epoch=broker.broker_epoch, topics=[topic])
        active = self.controllers[-1].controller.active if self.controllers else None
        operation = controller_apis.handle(active, request, _ALTER_PARTITION_VERSION)
        responses: list[Any] = []

        def answered(response: Any) -> None:
            responses.append(response)
            for found in [found for topic in response.topics for found in topic.partitions]:
                if not found.error_code and found.leader_epoch == held.leader_epoch:
                    held.partition_epoch = max(held.partition_epoch, found.partition_epoch)
                    held.isr = found.isr

        if operation.done:
            answered(operation.result)
        else:
            operation._respond = answered
        return responses

    def join_isrs(self) -> None:
        """Have leaders take all replicas that are alive into their ISRs."""
        for member in self.running:
            for name in member.broker.led:
                held = member.broker.replicas[name]
                isr = [
                    one
                    for one in held.replicas
                    if self.members[one].is_running
                    and (other := self.members[one].broker.replicas.get(name)) is not None
                    and other.leader_epoch == held.leader_epoch
                    and not other.is_stopped
                ]
                known = member.broker.metadata.get(name)
                if set(isr) != set(held.isr if known is None else known.isr):
                    self.propose(member.id, name, isr)

    # -- what stands in ZooKeeper ------------------------------------------------------------------------------------

    def data(self, path: str) -> bytes | None:
        """What a znode holds; None for a missing one."""
        found = self.zookeeper.nodes.get(path)
        return None if found is None else found.data

    def topic(self, topic: str) -> znodes.TopicZnode:
        """The assignment of a topic."""
        return znodes.decode_topic(topic, self.data(znodes.topic_path(topic)))

    def state(self, topic: str, index: int = 0) -> znodes.PartitionState:
        """The state of a partition."""
        path = znodes.state_path(topic, index)
        return znodes.decode_state(path, self.data(path))

    @property
    def topics(self) -> list[str]:
        """The topics."""
        return sorted(self.zookeeper.nodes[znodes.TOPICS].children)

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return int(self.data(CONTROLLER_EPOCH) or b"0")

    def depose(self) -> None:
        """Delete `/controller`, as operators do who want another one."""
        if CONTROLLER in self.zookeeper.nodes:
            self.write(Delete(CONTROLLER))
