"""What brokers of Apache Kafka have missed of earlier controllers is asked for, told, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.zookeeper.controller.controller_channel_manager import BrokerRequests
from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats
from barnabas.network.node import Node
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.controller_brokers import HeldReplica, ModelBroker
from tests.support.controller_world import ControllerWorld

FLIGHTS = TopicPartition("flights", 0)
_QUESTIONS = (ApiVersionsRequest, MetadataRequest, DescribeLogDirsRequest, FetchRequest)


class Mixed:
    """Brokers 1 and 3 of ours; 2 is of Apache Kafka, and missed by what 1 did as controller. `taken` is in order."""

    def __init__(self, patch: pytest.MonkeyPatch, *replicas: list[int], theirs: tuple[int, ...] = (2,)) -> None:
        self.taken: list[tuple[int, Any]] = []
        take = ModelBroker.take

        def noted(broker: ModelBroker, request: Any) -> Any:
            self.taken.append((broker.id, request))
            return take(broker, request)

        patch.setattr(ModelBroker, "take", noted)
        self.world = ControllerWorld(3, theirs=theirs).start()
        self.world.create("flights", *replicas)
        self.settle()
        self.broker = self.world.members[2].broker

    def settle(self) -> None:
        for _ in range(3):
            self.world.settle()
            self.world.join_isrs()
        self.world.settle()

    def take_for_dead(self) -> None:
        """Have all but broker 2 itself take it for dead, until `heal`."""
        self.world.refused |= {(1, 2), (3, 2)}
        self.world.reset(2)
        self.world.settle()

    def change_controller(self) -> None:
        """Have the controller die, and the other one take office that knows nothing of what it did not do."""
        first = self.world.controller
        self.world.refused.clear()
        self.taken.clear()
        self.world.kill(first.id)
        self.settle()
        assert self.world.controller is not first

    @property
    def asked(self) -> list[type]:
        return [type(request) for number, request in self.taken if number == 2 and type(request) in _QUESTIONS]

    @property
    def deleted(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.topic_name, state.partition_index)
            for number, request in self.taken
            if number == 2 and isinstance(request, StopReplicaRequest)
            for topic in request.topic_states
            for state in topic.partition_states
            if state.delete_partition
        ]


def test_a_topic_that_an_earlier_controller_deleted_is_gone_from_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Mixed(monkeypatch, [1, 3])
    mixed.take_for_dead()
    mixed.world.delete("flights")
    mixed.settle()
    assert mixed.broker.metadata.keys() == {FLIGHTS}
    mixed.change_controller()
    assert not mixed.broker.metadata
    assert mixed.asked == [ApiVersionsRequest, MetadataRequest, DescribeLogDirsRequest]


def test_partitions_that_a_topic_does_not_have_any_more_are_gone_and_all_others_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixed = Mixed(monkeypatch, [1, 3], [3, 1])
    mixed.take_for_dead()
    mixed.world.delete("flights")
    mixed.settle()
    mixed.world.create("flights", [1, 3])
    mixed.settle()
    mixed.change_controller()
    assert mixed.broker.metadata.keys() == {FLIGHTS}
    assert mixed.broker.topic_ids["flights"] == mixed.world.topic("flights").topic_id


def move_away(mixed: Mixed) -> None:
    mixed.take_for_dead()
    mixed.world.reassign("flights", {0: [3, 1]})
    mixed.settle()
    assert mixed.world.topic("flights").replicas[0] == (3, 1)
    assert mixed.broker.replicas[FLIGHTS].leader_epoch < mixed.world.state("flights").leader_epoch


def test_a_replica_that_an_earlier_controller_moved_away_is_deleted_when_it_is_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixed = Mixed(monkeypatch, [3, 2])
    move_away(mixed)
    mixed.change_controller()
    assert mixed.asked == list(_QUESTIONS)
    assert mixed.deleted == [FLIGHTS]
    assert FLIGHTS not in mixed.broker.replicas


def test_the_log_of_a_topic_that_is_not_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Mixed(monkeypatch, [3, 2])
    move_away(mixed)
    mixed.world.delete("flights")
    mixed.settle()
    assert not mixed.world.topics
    mixed.change_controller()
    assert not mixed.deleted
    assert FLIGHTS in mixed.broker.replicas
    assert any("keeps their logs: flights-0" in text for text in mixed.world.reports)


@pytest.mark.parametrize("held", ["another topic", "a newer epoch", "nothing that is served"])
def test_a_log_that_is_not_proved_to_be_older_stays(held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Mixed(monkeypatch, [3, 2])
    move_away(mixed)
    known = mixed.broker.replicas[FLIGHTS]
    topic_id = bytes(16) if held == "another topic" else known.topic_id
    epoch = {"a newer epoch": 99, "nothing that is served": -1}.get(held, known.leader_epoch)
    stopped = held == "nothing that is served"
    mixed.broker.replicas[FLIGHTS] = HeldReplica(topic_id, -1, epoch, [], -1, [], is_stopped=stopped)
    mixed.change_controller()
    assert FLIGHTS in mixed.broker.replicas


def test_one_of_ours_is_asked_for_its_software_only(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Mixed(monkeypatch, [1, 3], theirs=())
    mixed.taken.clear()
    mixed.world.kill(1)
    mixed.settle()
    questions = [type(request) for _, request in mixed.taken if type(request) in _QUESTIONS]
    assert questions == [ApiVersionsRequest]


def test_a_broker_that_tells_nothing_is_left_alone_and_named_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Mixed(monkeypatch, [3, 2])
    move_away(mixed)
    mixed.broker.is_silent = True
    mixed.change_controller()
    found = [text for text in mixed.world.reports if "does not tell this controller" in text]
    assert ["DESCRIBE allowed" in found[0], "CLUSTER_AUTHORIZATION_FAILED" in found[1], len(found)] == [True, True, 2]
    assert not mixed.deleted
    assert FLIGHTS in mixed.broker.replicas


def test_questions_come_behind_what_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Mixed(monkeypatch, [2, 3])
    mixed.change_controller()
    kinds = [type(request) for number, request in mixed.taken if number == 2]
    assert kinds.index(LeaderAndIsrRequest) < kinds.index(ApiVersionsRequest)


def test_what_is_made_while_a_broker_answers_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker lists what the controller has deleted since, and made again, and does not list what is new."""
    mixed = Mixed(monkeypatch, [2, 3])
    answer, world = ModelBroker.take, mixed.world

    def late(broker: ModelBroker, request: Any) -> Any:
        response = answer(broker, request)
        if broker.id == 2 and isinstance(request, MetadataRequest) and world.topics == ["flights"]:
            world.create("delays", [2, 3])
            world.delete("flights")
        elif broker.id == 2 and isinstance(request, DescribeLogDirsRequest) and "flights" not in world.topics:
            world.create("flights", [2, 3])
        return response

    monkeypatch.setattr(ModelBroker, "take", late)
    mixed.change_controller()
    mixed.settle()
    expected = {TopicPartition(topic, 0) for topic in world.topics}
    assert TopicPartition("delays", 0) in expected
    assert mixed.broker.metadata.keys() == mixed.broker.replicas.keys() == expected


# -- the line of requests --------------------------------------------------------------------------------------------


def test_a_question_that_is_not_answered_does_not_hold_up_what_is_to_be_told() -> None:
    requests = BrokerRequests(Node(2, "host", 9092), ControllerStats(lambda: 0.0))
    question, told = MetadataRequest(), LeaderAndIsrRequest()
    answers: list[str] = []
    requests.submit(question, lambda _: answers.append("answered"), is_question=True)
    requests.submit(told, lambda _: answers.append("taken"))
    assert requests.next_request(0.0) == (requests.node, question)
    requests.disconnected(0.0)
    assert requests.next_request(1.0) == (requests.node, told)
    requests.disconnected(1.0)
    assert requests.next_request(2.0) == (requests.node, told), "what is told stays in order"
    assert requests.waiting == 2
