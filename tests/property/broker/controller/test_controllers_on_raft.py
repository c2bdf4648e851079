"""Three controllers over our own Raft, on virtual time: nodes die, power fails, messages are lost and late."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
from barnabas.broker.controller.controller_apis import ControllerApis, ControllerIdentity
from barnabas.broker.controller.controller_managers import ControllerSettings
from barnabas.broker.controller.controller_result import ControllerRequestContext
from barnabas.broker.controller.deferred import Deferred
from barnabas.broker.controller.envelopes import says_not_controller
from barnabas.broker.controller.quorum_controller import ControllerEnvironment, QuorumController
from barnabas.broker.metadata.metadata_records import decode_record
from barnabas.protocol.message import Message
from barnabas.protocol.messages.topic_record import TopicRecord
from tests.support.controller_scenarios import Scenario
from tests.support.controllers import CLUSTER_ID, WITH_ELR
from tests.support.raft_cluster import Member, RaftCluster

_STEPS = 80


class ControllerQuorum:
    """The nodes of a `RaftCluster`, each with a controller as long as it lives."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = RaftCluster(seed)
        self.scenario = Scenario(seed, CLUSTER_ID)
        self.controllers: dict[int, QuorumController] = {}
        self.reports: list[str] = []
        self.answers: list[tuple[Message, Deferred[Message]]] = []
        for member in self.cluster.members:
            self.attach(member)

    def attach(self, member: Member) -> None:
        """Give a node its controller."""
        assert member.client is not None
        settings = ControllerSettings(member.id, CLUSTER_ID, (0, 1, 2), session_timeout=60.0)
        environment = ControllerEnvironment(lambda: self.cluster.instant, self.random, self.reports.append)
        config = BrokerConfig({"node.id": "1", "min.insync.replicas": 2})
        bootstrap = BootstrapMetadata.of_levels(WITH_ELR)
        self.controllers[member.id] = QuorumController(member.client, settings, config, bootstrap, environment)
        member.turn()

    @property
    def active(self) -> int | None:
        """A node whose controller holds itself for the active one, and may be wrong."""
        found = [id for id, controller in self.controllers.items() if controller.is_active]
        return self.random.choice(found) if found else None

    def play(self) -> None:
        """Ask for things while nodes fail."""
        self.cluster.loss, self.cluster.lateness = 0.02, 0.02
        for _ in range(_STEPS):
            if self.random.random() < 0.15:
                self.fail()
            self.ask()
            self.cluster.run(self.random.choice((0.01, 0.05, 0.3, 2.0)))
        self.heal()

    def fail(self) -> None:
        """Kill a node, or start one that is dead; a majority lives."""
        dead = [member for member in self.cluster.members if member.client is None]
        if dead:
            dead[0].start()
            self.attach(dead[0])
        else:
            victim = self.random.choice(self.cluster.members)
            victim.stop(power_loss=self.random.random() < 0.5)
            del self.controllers[victim.id]

    def ask(self) -> None:
        """Send a request to who seems to be active."""
        node = self.active
        if node is None:
            return
        controller, member = self.controllers[node], self.cluster.members[node]
        if "metadata.version" not in controller.state.image.features:
            return
        self.scenario.image = controller.state.image
        requests = [self.scenario.draw(), *self.scenario.heartbeats()]
        for request, version in requests:
            context = ControllerRequestContext(self.cluster.instant, version)
            answer = ControllerApis(controller, ControllerIdentity(CLUSTER_ID, "CONTROLLER")).handle(context, request)
            self.answers.append((request, answer))
        controller.tick(self.cluster.instant)
        member.turn()

    def heal(self) -> None:
        """Let everybody live and agree."""
        cluster = self.cluster
        cluster.loss = cluster.lateness = 0.0
        for member in cluster.members:
            if member.client is None:
                member.start()
                self.attach(member)
        cluster.run_until(lambda: len({self.ends(member) for member in cluster.members}) == 1 and self.is_led())

    def ends(self, member: Member) -> tuple[int, int]:
        """Return how far a node has come: the log, and what its controller goes by."""
        controller = self.controllers[member.id]
        return member.log.end_offset, controller.committed_image.offset

    def is_led(self) -> bool:
        """Whether one controller is active, and nothing waits to be committed."""
        leaders = [found for found in self.controllers.values() if found.is_active]
        return len(leaders) == 1 and leaders[0].state.image.offset == leaders[0].committed_image.offset


def check(quorum: ControllerQuorum) -> None:
    """Hold controllers to what they promise."""
    images = [controller.committed_image for controller in quorum.controllers.values()]
    assert images[0] == images[1] == images[2]
    assert images[0].features["metadata.version"] in (29, 30)
    values = quorum.cluster.members[0].machine.values
    made = {record.topic_id for value in values if isinstance(record := decode_record(value), TopicRecord)}
    for request, answer in quorum.answers:
        response: Any = answer.value
        if not answer.is_done or says_not_controller(response) or getattr(request, "validate_only", False):
            continue
        if type(response).__name__ == "CreateTopicsResponse":
            assert all(topic.topic_id in made for topic in response.topics if not topic.error_code)
    assert all("took no records" in report for report in quorum.reports), quorum.reports


@pytest.mark.parametrize("seed", range(2))
def test_controllers_agree_whatever_fails(seed: int) -> None:
    quorum = ControllerQuorum(seed)
    quorum.play()
    check(quorum)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_controllers_agree_in_many_histories(seed: int) -> None:
    quorum = ControllerQuorum(seed)
    quorum.play()
    check(quorum)
