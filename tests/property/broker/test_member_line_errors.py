"""A member of a cluster after an exception before any line of what it asks others: it goes on with all of it.

The controller and the other brokers answer everything well; requests reach them as `NodeChannel` carries them. A fault
in reading the metadata log may end the broker's part in its cluster, if it says so and asks to be fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.config import PeerListener
from barnabas.broker.faults import fault_text
from barnabas.broker.guarded_requester import GuardedRequester
from barnabas.broker.metadata.cluster_metadata import TRANSACTION_STATE_TOPIC
from barnabas.broker.replication.partition_state import CommittedPartitionState
from barnabas.broker.requester import Requester
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.message import Message
from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse
from barnabas.protocol.messages.alter_partition_response import PartitionData as AlteredPartition
from barnabas.protocol.messages.alter_partition_response import TopicData as AlteredTopic
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics_request import CreateTopicsRequest
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.envelope_request import EnvelopeRequest
from barnabas.protocol.messages.envelope_response import EnvelopeResponse
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from barnabas.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.cluster_member import CONTROLLER, ME, FakeChannel, MemberBroker, broker, topic
from tests.support.core_broker import batch, create, produce
from tests.support.line_errors import EVERY, LineErrors, check_places
from tests.unit.broker.transactions.wire import transactional_batch

#: What runs for a member beside its handlers: what it asks others, the roles that it is given, and the followers.
ROOMS = tuple(
    f"broker/{name}"
    for name in (
        "membership/", "partition", "raft/broker_observer", "raft/metadata_loader", "raft/observed_log",
        "replica_manager", "replication/",
    )
)  # fmt: skip
#: How many places are tried in the short form; the long one tries each line, when it first runs and when it last does.
PLACES = 10
LED, FOLLOWED, STATES, NEW, SWAPPED, GONE, OTHERS = (bytes(15) + bytes([number]) for number in range(1, 8))
SETTINGS = {
    "replica.lag.time.max.ms": 400,
    "replica.fetch.backoff.ms": 100,
    "broker.heartbeat.interval.ms": 500,
    "transaction.state.log.num.partitions": 1,
    "add.partitions.to.txn.retry.backoff.max.ms": 100,
}
TURN = 0.1


class Member(MemberBroker):
    """A member whose requests are answered by all others, in turns."""

    def __init__(self, errors_: LineErrors) -> None:
        self.errors = errors_
        self.is_driven = False
        self.metadata_log: list[tuple[int, bytes]] = []
        self.leader_log: list[tuple[int, bytes]] = []
        self.is_followed = False
        self.next_id = 1000
        self.sent: dict[str, int] = {}
        self.clients: dict[str, Any] = {}
        self.asked_at: dict[str, float] = {}
        others = [*broker(1, host="one"), *broker(2, host="two"), *broker(ME, host="three")]
        super().__init__(
            SETTINGS,
            *others,
            *topic("led", LED, [ME, 1]),
            *topic("followed", FOLLOWED, [1, ME]),
            *topic("swapped", SWAPPED, [ME, 1], [1, ME]),
            *topic("gone", GONE, [ME], [1, ME]),
            *topic("others", OTHERS, [1, 2]),
            *topic(TRANSACTION_STATE_TOPIC, STATES, [ME], [1]),
        )
        self.unfence()
        self.is_driven = True

    def _open(self, requester: Requester, name: str, timeout: float, listener: PeerListener) -> FakeChannel:
        def tell(what: str, problem: Exception) -> None:
            self.warnings.append(fault_text(what, problem))

        return super()._open(GuardedRequester(requester, tell), name, timeout, listener)  # type: ignore[return-value]

    def tell(self, *records: Message) -> None:
        """Have the metadata log go on; the member reads it with its next request."""
        if self.is_driven:
            self.metadata_log.append((self.offset, self.metadata_batch(*records)))
        else:
            super().tell(*records)

    def lead_on(self, value: bytes) -> None:
        """Broker 1 takes another record, in the partition that this one follows."""
        end = len(self.leader_log)
        data = bytearray(batch(value))
        data[:8], data[12:16] = end.to_bytes(8, "big"), bytes(4)
        self.leader_log.append((end, bytes(data)))

    # -- turns -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Carry a request of each channel, and let time pass."""
        end = self.state.replica_manager.used_partition("led", 0).log.log_end_offset
        with self.errors.watching():
            for channel in self.channels:
                if not channel.is_closed:
                    self.carry(channel)
            if self.is_followed:
                self.follower_fetches(LED, end)
            self.node.core.settle(self.instant)
            self.now += TURN
            if self.node.core.next_deadline() <= self.now:
                self.node.core.tick(self.instant)

    def carry(self, channel: FakeChannel) -> None:
        found = channel.requester.next_request(self.now)
        if found is not None:
            self.asked_at[type(found[1]).NAME] = self.now
            channel.requester.receive(RESPONSES[type(found[1])](self, found[1]), self.instant)

    def send(self, name: str, message: Message, version: int) -> None:
        client = self.clients.get(name)
        if client is None or client.closed:
            client = self.clients[name] = self.connect()
            self.sent[name] = 0
        self.sent[name] += 1
        with self.errors.watching():
            client.send(message, version)

    def is_answered(self, name: str) -> bool:
        return self.clients[name].closed or len(self.clients[name].responses) == self.sent[name]

    # -- a life ------------------------------------------------------------------------------------------------------

    def live(self) -> None:
        self.send("all", produce("led", batch(b"1")), 11)
        self.send("create", create("forwarded"), 7)
        self.send("auto", MetadataRequest(topics=[MetadataRequestTopic(name="auto")]), 12)
        self.send("ids", InitProducerIdRequest(transactional_id=None), 4)
        self.send("transaction", InitProducerIdRequest(transactional_id="b", transaction_timeout_ms=2000), 4)
        self.send_verified()
        for number in range(24):
            STEPS.get(number, lambda member: None)(self)
            self.turn()

    def send_verified(self) -> None:
        """A record of a transaction that broker 1 coordinates."""
        request = produce("led", transactional_batch([b"v"], 7, 2, 0))
        request.transactional_id = "a"
        self.send("verified", request, 12)

    def add_partition(self) -> None:
        if self.clients["transaction"].responses:
            found = self.clients["transaction"].responses[0]
            topics = [AddPartitionsToTxnTopic(name="others", partitions=[0])]
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="b",
                v3_and_below_producer_id=found.producer_id,
                v3_and_below_producer_epoch=found.producer_epoch,
                v3_and_below_topics=topics,
            )
            self.send("transaction", request, 3)

    def end_transaction(self) -> None:
        if self.clients["transaction"].responses:
            found = self.clients["transaction"].responses[0]
            self.send("transaction", EndTxnRequest("b", found.producer_id, found.producer_epoch, committed=True), 4)

    def swap(self) -> None:
        for index, leader in ((0, 1), (1, ME)):
            self.tell(PartitionChangeRecord(partition_id=index, topic_id=SWAPPED, leader=leader))

    # -- what has to hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        where = self.errors.place, self.warnings
        self.lead_on(b"later")
        self.tell(*topic("newer", bytes(15) + b"\x70", [ME, 1]))
        self.is_followed = True
        self.turn()
        self.send("later", produce("led", batch(b"later")), 11)
        self.send("later forwarded", create("later"), 7)
        began = self.now
        while self.lacks() and self.now < began + 60:
            self.turn()
        assert not self.lacks(), (self.lacks(), where)
        assert len([line for line in self.warnings if "please report this" in line]) <= 2, where

    def lacks(self) -> list[str]:
        """What does not hold yet."""
        manager = self.state.replica_manager
        lacks = [name for name in self.clients if not self.is_answered(name)]
        lacks += ["parked"] * bool(self.state.purgatory.parked)
        if self.asked_at.get("BrokerHeartbeatRequest", 0) < self.now - 2:
            lacks.append("heartbeats")
        if self.control.problem is not None:
            return lacks if self.wants_fence else [*lacks, "to be fenced"]
        led, followed = manager.used_partition("led", 0), manager.used_partition("followed", 0)
        if led is None or led.in_sync is None or led.in_sync.state != CommittedPartitionState(frozenset((1, ME))):
            lacks.append("the ISR")
        if followed is None or followed.log.log_end_offset != len(self.leader_log):
            lacks.append("what is followed")
        roles = {(name, i): getattr(manager.used_partition(name, i), "is_leader", None) for name, i in ROLES}
        if roles != ROLES:
            lacks.append(f"roles: {roles}")
        return lacks

    wants_fence = False

    # -- what others answer ------------------------------------------------------------------------------------------

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Message:
        self.wants_fence = request.want_fence
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=request.want_fence)

    def fetched(self, request: FetchRequest) -> Message:
        asked = [(one.topic_id, part) for one in request.topics for part in one.partitions]
        if request.cluster_id is not None:
            records = b"".join(data for offset, data in self.metadata_log if offset >= asked[0][1].fetch_offset)
            leader = LeaderIdAndEpoch(CONTROLLER.id, 1)
            part = PartitionData(high_watermark=self.offset, records=records, current_leader=leader)
            endpoint = NodeEndpoint(CONTROLLER.id, CONTROLLER.host, CONTROLLER.port)
            return FetchResponse(responses=[FetchableTopicResponse(partitions=[part])], node_endpoints=[endpoint])
        found = []
        for topic_id, part in asked:
            log = self.leader_log if topic_id == FOLLOWED else []
            records = b"".join(data for offset, data in log if offset >= part.fetch_offset)
            answer = PartitionData(partition_index=part.partition, high_watermark=len(log), records=records)
            found.append(FetchableTopicResponse(topic_id=topic_id, partitions=[answer]))
        return FetchResponse(responses=found)

    def altered(self, request: AlterPartitionRequest) -> Message:
        topics = []
        for one in request.topics:
            parts = []
            for part in one.partitions:
                isr = [member.broker_id for member in part.new_isr_with_epochs]
                epoch = part.partition_epoch + 1
                parts.append(AlteredPartition(part.partition_index, 0, ME, part.leader_epoch, isr, 0, epoch))
                self.tell(PartitionChangeRecord(partition_id=part.partition_index, topic_id=one.topic_id, isr=isr))
            topics.append(AlteredTopic(one.topic_id, parts))
        return AlterPartitionResponse(topics=topics)

    def allocated(self, request: Message) -> Message:
        self.next_id += 1000
        return AllocateProducerIdsResponse(producer_id_start=self.next_id, producer_id_len=1000)

    def forwarded_(self, request: EnvelopeRequest) -> Message:
        header, message = decode_request(request.request_data)
        answer = CreateTopicsResponse(topics=[CreatableTopicResult(name=one.name) for one in message.topics])
        data = b"".join(encode_response(answer, header.request_api_version, header.correlation_id))
        return EnvelopeResponse(response_data=data[4:])

    def created(self, request: CreateTopicsRequest) -> Message:
        for number, one in enumerate(request.topics):
            self.tell(*topic(one.name, bytes(14) + b"\x09" + bytes([number]), [ME, 1]))
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=one.name) for one in request.topics])

    def marked(self, request: WriteTxnMarkersRequest) -> Message:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    marker.producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            one.name, [WritableTxnMarkerPartitionResult(index) for index in one.partition_indexes]
                        )
                        for one in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def verified(self, request: AddPartitionsToTxnRequest) -> Message:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transaction.transactional_id,
                    [
                        AddPartitionsToTxnTopicResult(
                            one.name, [AddPartitionsToTxnPartitionResult(index) for index in one.partitions]
                        )
                        for one in transaction.topics
                    ],
                )
                for transaction in request.transactions
            ]
        )


RESPONSES: dict[type, Callable[[Member, Any], Message]] = {
    AddPartitionsToTxnRequest: Member.verified,
    AllocateProducerIdsRequest: Member.allocated,
    AlterPartitionRequest: Member.altered,
    BrokerHeartbeatRequest: Member.heartbeat,
    BrokerRegistrationRequest: lambda member, request: BrokerRegistrationResponse(broker_epoch=30),
    CreateTopicsRequest: Member.created,
    EnvelopeRequest: Member.forwarded_,
    FetchRequest: Member.fetched,
    WriteTxnMarkersRequest: Member.marked,
}
#: What happens before which turn.
STEPS: dict[int, Callable[[Member], object]] = {
    2: lambda member: setattr(member, "is_followed", True),
    4: lambda member: member.lead_on(b"first"),
    5: lambda member: member.tell(*topic("new", NEW, [ME, 1], [1, ME])),
    6: Member.add_partition,
    8: Member.end_transaction,
    9: lambda member: (setattr(member, "is_followed", False), member.send("late", produce("led", batch(b"2")), 11)),
    16: lambda member: setattr(member, "is_followed", True),
    18: Member.swap,
    20: lambda member: member.tell(RemoveTopicRecord(topic_id=GONE)),
    21: lambda member: member.lead_on(b"second"),
}
#: Topic and partition → whether this broker leads it in the end; None: it has none of it.
ROLES = {
    ("led", 0): True, ("followed", 0): False, ("new", 0): True, ("new", 1): False, ("newer", 0): True,
    ("swapped", 0): False, ("swapped", 1): True, ("gone", 0): None, ("gone", 1): None,
}  # fmt: skip


def run(errors_: LineErrors) -> list[str]:
    member = Member(errors_)
    member.live()
    member.check()
    return member.warnings


def test_whatever_is_raised_in_what_a_member_asks_others_it_goes_on() -> None:
    check_places(run, ROOMS, PLACES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_at_every_line() -> None:
    check_places(run, ROOMS, EVERY)
