"""What a broker asks the active controller: proposals of ISRs, producer ids, topics, and clients' requests."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.envelope import encode_principal
from barnabas.broker.instant import Instant
from barnabas.broker.membership.alter_partition_manager import AlterPartitions
from barnabas.broker.membership.controller_producer_ids import ControllerProducerIds
from barnabas.broker.membership.forwarding import Forwarding
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest, ControllerRequests
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.replication.partition_state import LeaderAndIsr
from barnabas.broker.request_context import Connection, RequestContext
from barnabas.network.node import Node
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.message import Message
from barnabas.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest
from barnabas.protocol.messages.elect_leaders_response import ElectLeadersResponse
from barnabas.protocol.messages.envelope_response import EnvelopeResponse
from barnabas.protocol.messages.request_header import RequestHeader
from barnabas.protocol.topic_partition import TopicPartition

CONTROLLER = Node(100, "c", 1)
NOT_CONTROLLER = errors.NotControllerError.code
ID = b"t" * 16
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Queue:
    """A queue to a controller that a test plays."""

    def __init__(self) -> None:
        self.now = 10.0
        self.controller: Node | None = CONTROLLER
        self.requests = ControllerRequests(lambda: self.controller, backoff=0.5)

    @property
    def instant(self) -> Instant:
        return Instant(self.now, int(self.now * 1000))

    def ask(self) -> Any:
        found = self.requests.next_request(self.now)
        return None if found is None else found[1]

    def answer(self, response: Message) -> Any:
        request = self.ask()
        assert request is not None
        self.requests.receive(response, self.instant)
        return request


@pytest.fixture
def queue() -> Queue:
    return Queue()


def isr(*members: int, epoch: int = 2, partition_epoch: int = 5) -> LeaderAndIsr:
    return LeaderAndIsr(3, epoch, tuple((member, member * 10) for member in members), partition_epoch)


def altered(*partitions: PartitionData, code: int = 0) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code, topics=[TopicData(topic_id=ID, partitions=list(partitions))])


# -- the queue -------------------------------------------------------------------------------------------------------


def test_a_request_is_made_anew_each_time_and_sent_until_it_is_answered(queue: Queue) -> None:
    made: list[int] = []
    told: list[Message] = []

    def make() -> Message:
        made.append(len(made))
        return CreateTopicsRequest(timeout_ms=len(made))

    queue.requests.submit(ControllerRequest(make, lambda response, now: told.append(response)))
    assert queue.ask().timeout_ms == 1
    queue.requests.disconnected(queue.now)
    assert queue.ask() is None
    queue.now += 0.5
    queue.answer(AllocateProducerIdsResponse(error_code=NOT_CONTROLLER))
    assert told == []
    queue.now += 0.5
    queue.answer(CreateTopicsResponse())
    assert len(told) == 1
    assert queue.ask() is None


def test_requests_wait_while_no_controller_is_known(queue: Queue) -> None:
    queue.controller = None
    queue.requests.submit(ControllerRequest(CreateTopicsRequest, lambda response, now: None))
    assert queue.ask() is None
    queue.controller = CONTROLLER
    assert queue.ask() is not None


def test_what_waits_too_long_is_given_up(queue: Queue) -> None:
    told: list[Any] = []
    for number in range(3):
        give_up_at = 20.0 if number else 30.0
        answered, give_up = (lambda response, now: told.append(response)), (lambda: told.append("given up"))
        queue.requests.submit(ControllerRequest(CreateTopicsRequest, answered, give_up_at, give_up))
    queue.controller = None
    assert queue.requests.next_deadline() == 20.0
    queue.now = 21.0
    assert queue.ask() is None
    assert told == ["given up", "given up"]
    queue.controller = CONTROLLER
    queue.answer(CreateTopicsResponse())
    assert len(told) == 3


# -- proposals -------------------------------------------------------------------------------------------------------


class Proposals:
    """AlterPartitions, and what came of each proposal."""

    def __init__(self, queue: Queue) -> None:
        self.manager = AlterPartitions(3, lambda: 77, queue.requests)
        self.outcomes: list[tuple[TopicPartition, PartitionRegistration | int]] = []

    def submit(self, name: TopicPartition, proposed: LeaderAndIsr) -> None:
        self.manager.submit(name, ID, proposed, lambda answer, now_ms: self.outcomes.append((name, answer)))


def test_a_proposal_has_the_epochs_of_partition_leader_and_brokers(queue: Queue) -> None:
    proposals = Proposals(queue)
    proposals.submit(FIRST, isr(1, 3))
    request = queue.ask()
    assert (request.broker_id, request.broker_epoch) == (3, 77)
    part = request.topics[0].partitions[0]
    assert (part.partition_index, part.leader_epoch, part.partition_epoch) == (0, 2, 5)
    assert [(found.broker_id, found.broker_epoch) for found in part.new_isr_with_epochs] == [(1, 10), (3, 30)]


def test_each_partition_has_its_own_outcome(queue: Queue) -> None:
    proposals = Proposals(queue)
    proposals.submit(FIRST, isr(1, 3))
    proposals.submit(SECOND, isr(3))
    accepted = PartitionData(partition_index=0, leader_id=3, leader_epoch=2, isr=[1, 3], partition_epoch=6)
    refused = PartitionData(partition_index=1, error_code=errors.IneligibleReplicaError.code)
    queue.answer(altered(accepted, refused))
    assert proposals.outcomes == [
        (FIRST, PartitionRegistration((), (1, 3), 3, 2, 6)),
        (SECOND, errors.IneligibleReplicaError.code),
    ]
    assert queue.ask() is None


def test_what_is_proposed_meanwhile_goes_with_the_next_request(queue: Queue) -> None:
    proposals = Proposals(queue)
    proposals.submit(FIRST, isr(3))
    assert len(queue.ask().topics[0].partitions) == 1
    proposals.submit(SECOND, isr(3))
    done = PartitionData(partition_index=0, leader_id=3, leader_epoch=2, isr=[3], partition_epoch=6)
    queue.requests.receive(altered(done), queue.instant)
    assert [part.partition_index for part in queue.ask().topics[0].partitions] == [1]


@pytest.mark.parametrize("code", [errors.StaleBrokerEpochError.code, NOT_CONTROLLER, errors.UnknownServerError.code])
def test_an_error_of_the_whole_request_says_nothing_of_the_partitions(queue: Queue, code: int) -> None:
    proposals = Proposals(queue)
    proposals.submit(FIRST, isr(3))
    queue.answer(altered(code=code))
    assert proposals.outcomes == []
    assert queue.ask() is None
    queue.now += 0.5
    assert queue.ask().topics[0].partitions[0].partition_index == 0


def test_a_partition_that_the_controller_leaves_out_has_failed(queue: Queue) -> None:
    proposals = Proposals(queue)
    proposals.submit(FIRST, isr(3))
    queue.answer(altered())
    assert proposals.outcomes == [(FIRST, errors.UnknownServerError.code)]


# -- producer ids ----------------------------------------------------------------------------------------------------


def test_a_block_of_producer_ids_is_what_the_controller_says(queue: Queue) -> None:
    blocks = ControllerProducerIds(3, lambda: 77, queue.requests)
    found: list[tuple[range, errors.KafkaError | None]] = []
    blocks.allocate_producer_ids(lambda block, problem: found.append((block, problem)))
    request = queue.answer(AllocateProducerIdsResponse(producer_id_start=4000, producer_id_len=1000))
    assert (request.broker_id, request.broker_epoch) == (3, 77)
    assert found == [(range(4000, 5000), None)]
    blocks.allocate_producer_ids(lambda block, problem: found.append((block, problem)))
    queue.answer(AllocateProducerIdsResponse(error_code=errors.StaleBrokerEpochError.code))
    assert isinstance(found[1][1], errors.CoordinatorLoadInProgressError)


# -- forwarding ------------------------------------------------------------------------------------------------------


def context(queue: Queue, key: int, version: int) -> RequestContext:
    header = RequestHeader(key, version, 17, "me")
    return RequestContext(header, Connection(1, "10.0.0.9", principal="User:alice"), queue.instant)


def forward(queue: Queue, request: Message, version: int) -> list[Any]:
    answers: list[Any] = []
    Forwarding(queue.requests).forward(request, context(queue, request.API_KEY, version), answers.append)
    return answers


def test_a_request_goes_in_an_envelope_as_it_came_with_who_sent_it(queue: Queue) -> None:
    forward(queue, CreateTopicsRequest(topics=[CreatableTopic(name="new")]), 7)
    envelope = queue.ask()
    header, message = decode_request(envelope.request_data)
    assert (header.request_api_version, header.correlation_id, header.client_id) == (7, 17, "me")
    assert isinstance(message, CreateTopicsRequest)
    assert message.topics[0].name == "new"
    assert envelope.client_host_address == bytes((10, 0, 0, 9))
    # The version, then Kafka's DefaultPrincipalData: compact strings, a flag, no tagged fields.
    assert envelope.request_principal == b"\x00\x00\x05User\x06alice\x00\x00"
    assert encode_principal("User:alice") == envelope.request_principal


@pytest.mark.parametrize(
    ("asked", "version", "field"),
    [
        (CreateAclsRequest(creations=[AclCreation(), AclCreation()]), 3, "results"),
        (DeleteAclsRequest(filters=[DeleteAclsFilter()]), 3, "filter_results"),
        (AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="a")]), 0, "results"),
    ],
)
def test_each_part_of_what_was_not_answered_has_an_error(queue: Queue, asked: Any, version: int, field: str) -> None:
    answers = forward(queue, asked, version)
    queue.now += 31
    assert queue.ask() is None
    assert {result.error_code for result in getattr(answers[0], field)} == {7}


def test_the_response_in_the_envelope_is_the_client_s(queue: Queue) -> None:
    answers = forward(queue, CreateTopicsRequest(topics=[CreatableTopic(name="new")]), 7)
    inner = CreateTopicsResponse(topics=[CreatableTopicResult(name="new", num_partitions=4)])
    data = b"".join(bytes(part) for part in encode_response(inner, 7, 17))[4:]
    queue.answer(EnvelopeResponse(response_data=data))
    assert answers[0].topics[0].num_partitions == 4


def test_without_an_answer_all_that_was_asked_for_has_failed(queue: Queue) -> None:
    answers = forward(queue, CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")]), 7)
    Forwarding(queue.requests).forward(ElectLeadersRequest(), context(queue, 43, 2), answers.append)
    queue.answer(EnvelopeResponse(error_code=NOT_CONTROLLER))
    assert answers == []
    queue.now += 31
    assert queue.ask() is None
    created = next(answer for answer in answers if isinstance(answer, CreateTopicsResponse))
    assert {topic.name: topic.error_code for topic in created.topics} == dict.fromkeys("ab", 7)
    assert next(answer for answer in answers if isinstance(answer, ElectLeadersResponse)).error_code == 7
