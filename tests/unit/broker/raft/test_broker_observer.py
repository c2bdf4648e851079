"""An observer of the metadata log, on scripts of what controllers answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.metadata.metadata_records import encode_record
from barnabas.broker.raft.broker_observer import MetadataLogObserver
from barnabas.broker.raft.metadata_loader import MetadataLoader
from barnabas.broker.raft.raft_messages import METADATA_TOPIC_ID
from barnabas.network.node import Node
from barnabas.protocol.message import Message
from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterResponse
from barnabas.protocol.messages.end_transaction_record import EndTransactionRecord
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from barnabas.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from barnabas.protocol.messages.fetch_snapshot_response import (
    FetchSnapshotResponse,
    PartitionSnapshot,
    TopicSnapshot,
)
from barnabas.protocol.messages.fetch_snapshot_response import SnapshotId as FetchedSnapshotId
from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord
from barnabas.records import RecordBatchBuilder

SEEDS = [Node(-2, "a", 1), Node(-3, "b", 2)]
LEADER, OTHER = Node(101, "a", 1), Node(102, "b", 2)
NOT_LEADER = errors.NotLeaderOrFollowerError.code
FENCED = errors.FencedLeaderEpochError.code


def ids(number: int) -> Message:
    return ProducerIdsRecord(next_producer_id=number)


def batch(offset: int, epoch: int, *records: Message) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    for one in records:
        builder.try_append(0, None, encode_record(one, 0), ())
    data = bytearray(builder.close())
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


def fetched(
    records: bytes = b"", *, high_watermark: int = -1, epoch: int = 5, leader: Node | None = LEADER, **more: Any
):
    code = more.pop("code", 0)
    data = PartitionData(
        error_code=code,
        high_watermark=high_watermark,
        records=records,
        current_leader=LeaderIdAndEpoch(leader.id if leader else -1, epoch),
        **more,
    )
    nodes = [NodeEndpoint(leader.id, leader.host, leader.port)] if leader else []
    topics = [FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])]
    return FetchResponse(responses=topics, node_endpoints=nodes)


def downloaded(data: bytes, size: int, position: int, end_offset: int = 40, epoch: int = 4, code: int = 0) -> Any:
    part = PartitionSnapshot(
        error_code=code,
        snapshot_id=FetchedSnapshotId(end_offset, epoch),
        size=size,
        position=position,
        unaligned_records=data,
    )
    return FetchSnapshotResponse(topics=[TopicSnapshot(partitions=[part])])


class Observed:
    """An observer, the images that it has made, and what it said."""

    def __init__(self, cluster_id: str | None = "c") -> None:
        self.images: list[MetadataImage] = []
        self.said: list[str] = []
        self.now = 100.0
        self.loader = MetadataLoader(self.images.append)
        self.observer = MetadataLogObserver(
            3, SEEDS, self.loader, cluster_id=cluster_id, report=self.said.append, backoff=1.0
        )

    def ask(self) -> tuple[Node, Any]:
        found = self.observer.next_request(self.now)
        assert found is not None
        return found

    def answer(self, message: Message) -> tuple[Node, Any]:
        """Have the next request answered; returns it."""
        asked = self.ask()
        self.observer.receive(message, Instant(self.now, 0))
        return asked

    def fetch_from(self) -> tuple[int, int, int]:
        """The epoch, offset and last epoch of the next Fetch."""
        _, request = self.ask()
        assert isinstance(request, FetchRequest)
        part = request.topics[0].partitions[0]
        return part.current_leader_epoch, part.fetch_offset, part.last_fetched_epoch

    def producer_ids(self) -> list[int]:
        return [image.next_producer_id for image in self.images]


@pytest.fixture
def observed() -> Observed:
    found = Observed()
    found.answer(fetched(code=FENCED))
    return found


def test_the_cluster_s_id_is_asked_for_where_it_is_not_known() -> None:
    observed = Observed(cluster_id=None)
    node, request = observed.ask()
    assert node == SEEDS[0]
    assert isinstance(request, DescribeClusterRequest)
    observed.observer.receive(DescribeClusterResponse(cluster_id="found"), Instant(0, 0))
    _, request = observed.ask()
    assert isinstance(request, FetchRequest)
    assert request.cluster_id == "found"


def test_a_controller_that_does_not_lead_names_the_one_that_does() -> None:
    observed = Observed()
    assert observed.answer(fetched(code=NOT_LEADER, leader=OTHER, epoch=7))[0] == SEEDS[0]
    node, request = observed.ask()
    assert node == OTHER
    assert request.topics[0].partitions[0].current_leader_epoch == 7
    assert request.replica_state.replica_id == 3


def test_where_no_one_leads_the_controllers_are_asked_in_turn_after_a_while() -> None:
    observed = Observed()
    assert observed.answer(fetched(code=NOT_LEADER, leader=None, epoch=7))[0] == SEEDS[0]
    assert observed.observer.next_request(observed.now) is None
    assert observed.observer.next_deadline() == observed.now + 1.0
    observed.now += 1.0
    assert observed.answer(fetched(code=NOT_LEADER, leader=None, epoch=7))[0] == SEEDS[1]
    observed.now += 1.0
    assert observed.ask()[0] == SEEDS[0]


def test_a_leader_that_is_gone_is_given_up_and_another_found(observed: Observed) -> None:
    changes: list[Node | None] = []
    observed.observer.on_leader_changed = lambda: changes.append(observed.observer.leader)
    assert observed.ask()[0] == LEADER
    observed.observer.disconnected(observed.now)
    observed.now += 1.0
    observed.answer(fetched(code=NOT_LEADER, leader=OTHER, epoch=6))
    assert changes == [None, OTHER]
    assert observed.ask()[0] == OTHER


def test_an_answer_of_an_earlier_epoch_makes_no_leader(observed: Observed) -> None:
    observed.answer(fetched(epoch=6, leader=OTHER, code=FENCED))
    observed.answer(fetched(epoch=5, leader=LEADER, code=NOT_LEADER))
    assert observed.observer.epoch == 6
    assert observed.observer.leader != LEADER


def test_only_what_the_high_watermark_has_passed_is_shown(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, ids(1), ids(2)) + batch(2, 5, ids(3)), high_watermark=0))
    assert observed.images == []
    assert not observed.observer.log.committed_end
    assert observed.fetch_from() == (5, 3, 5)
    observed.answer(fetched(high_watermark=2))
    assert observed.producer_ids() == [2]
    observed.answer(fetched(high_watermark=3))
    assert observed.producer_ids() == [2, 3]
    assert observed.images[-1].offset == 2
    assert observed.observer.is_caught_up


def test_what_was_not_committed_goes_again_where_the_next_leader_does_not_have_it(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, ids(1)) + batch(1, 5, ids(2)), high_watermark=1))
    diverging = fetched(epoch=6, diverging_epoch=EpochEndOffset(epoch=5, end_offset=1))
    observed.answer(diverging)
    assert observed.fetch_from() == (6, 1, 5)
    observed.answer(fetched(batch(1, 6, ids(9)), high_watermark=2, epoch=6))
    assert observed.producer_ids() == [1, 9]
    assert observed.said == []


def test_epochs_that_the_leader_does_not_have_are_cut_one_after_the_other(observed: Observed) -> None:
    data = batch(0, 3, ids(1)) + batch(1, 4, ids(2)) + batch(2, 5, ids(3))
    observed.answer(fetched(data, high_watermark=1))
    observed.answer(fetched(epoch=7, diverging_epoch=EpochEndOffset(epoch=4, end_offset=9)))
    assert observed.fetch_from() == (7, 2, 4)
    observed.answer(fetched(epoch=7, diverging_epoch=EpochEndOffset(epoch=3, end_offset=1)))
    assert observed.fetch_from() == (7, 1, 3)


def test_controllers_that_lost_what_was_committed_are_read_anew_and_that_is_said(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, ids(1)) + batch(1, 5, ids(2)), high_watermark=2))
    observed.answer(fetched(epoch=6, diverging_epoch=EpochEndOffset(epoch=5, end_offset=1)))
    assert observed.fetch_from() == (6, 0, 0)
    assert "lost metadata" in observed.said[0]


def test_a_snapshot_is_fetched_in_pieces_and_the_log_goes_on_behind_it(observed: Observed) -> None:
    data = batch(0, 0, ids(7)) + batch(1, 0, FeatureLevelRecord(name="kraft.version", feature_level=1))
    observed.answer(fetched(snapshot_id=SnapshotId(end_offset=40, epoch=4), high_watermark=50))
    node, request = observed.answer(downloaded(data[:50], len(data), 0))
    assert node == LEADER
    assert isinstance(request, FetchSnapshotRequest)
    part = request.topics[0].partitions[0]
    assert (part.snapshot_id.end_offset, part.snapshot_id.epoch, part.position) == (40, 4, 0)
    _, request = observed.answer(downloaded(data[50:], len(data), 50))
    assert request.topics[0].partitions[0].position == 50
    assert (observed.images[-1].offset, observed.images[-1].next_producer_id) == (39, 7)
    assert observed.images[-1].features == {"kraft.version": 1}
    assert observed.fetch_from() == (5, 40, 4)
    observed.answer(fetched(batch(40, 5, ids(8)), high_watermark=41))
    assert observed.producer_ids() == [7, 8]


def test_a_snapshot_replaces_all_that_was_known(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, FeatureLevelRecord(name="a", feature_level=1)), high_watermark=1))
    observed.answer(fetched(snapshot_id=SnapshotId(end_offset=40, epoch=4), high_watermark=40))
    data = batch(0, 0, FeatureLevelRecord(name="b", feature_level=1))
    observed.answer(downloaded(data, len(data), 0))
    assert observed.images[-1].features == {"b": 1}


@pytest.mark.parametrize("problem", [errors.SnapshotNotFoundError, errors.PositionOutOfRangeError])
def test_a_snapshot_that_is_gone_is_asked_for_no_more(observed: Observed, problem: type[errors.KafkaError]) -> None:
    observed.answer(fetched(snapshot_id=SnapshotId(end_offset=40, epoch=4)))
    observed.answer(downloaded(b"", 0, 0, code=problem.code))
    assert observed.observer.next_request(observed.now) is None, "it may be offered, and be gone, again"
    observed.now = observed.observer.next_deadline()
    assert isinstance(observed.ask()[1], FetchRequest)


def test_a_transaction_of_the_controller_counts_as_a_whole(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, ids(1), BeginTransactionRecord(), ids(2)), high_watermark=3))
    observed.answer(fetched(batch(3, 5, ids(3)), high_watermark=4))
    assert observed.producer_ids() == [1, 1]
    observed.answer(fetched(batch(4, 5, ids(4), EndTransactionRecord(), ids(5)), high_watermark=7))
    assert observed.producer_ids() == [1, 1, 5]
    observed.answer(fetched(batch(7, 5, BeginTransactionRecord(), ids(6)), high_watermark=9))
    observed.answer(fetched(batch(9, 5, AbortTransactionRecord()), high_watermark=10))
    assert observed.producer_ids() == [1, 1, 5, 5, 5]


def test_the_records_of_a_transaction_that_ended_stay_with_what_follows(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, BeginTransactionRecord(), ids(2), EndTransactionRecord()), high_watermark=3))
    observed.answer(fetched(batch(3, 5, FeatureLevelRecord(name="a", feature_level=1)), high_watermark=4))
    assert (observed.images[-1].next_producer_id, observed.images[-1].features) == (2, {"a": 1})


def test_controllers_of_another_cluster_are_said_to_be_that(observed: Observed) -> None:
    observed.answer(FetchResponse(error_code=errors.InconsistentClusterIdError.code))
    assert "another cluster" in observed.said[0]
    assert observed.observer.next_request(observed.now) is None


def _unreadable(offset: int) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(0, None, bytes((1, 99, 0)), ())
    found = bytearray(builder.close())
    found[:8] = offset.to_bytes(8, "big")
    return bytes(found)


def test_of_records_that_cannot_be_read_none_is_left_out_and_all_are_asked_for_anew_ever_later(
    observed: Observed,
) -> None:
    waits = []
    for _ in range(9):
        observed.answer(fetched(_unreadable(0) + batch(1, 5, ids(2)), high_watermark=2))
        assert isinstance(observed.observer.problem, errors.UnsupportedVersionError)
        assert observed.observer.next_request(observed.now) is None
        waits.append(observed.observer.next_deadline() - observed.now)
        observed.now = observed.observer.next_deadline()
        assert observed.fetch_from() == (5, 0, 0)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert observed.images == []
    assert len(observed.said) == 1
    assert "cannot be followed" in observed.said[0]
    assert observed.observer.retries.count == 9


def test_what_is_read_anew_after_a_fault_is_shown_when_it_is_whole(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, FeatureLevelRecord(name="a", feature_level=1)), high_watermark=1))
    observed.answer(fetched(batch(1, 5, ids(1)), high_watermark=2))
    observed.answer(fetched(_unreadable(2), high_watermark=3))
    observed.now = observed.observer.next_deadline()
    observed.answer(fetched(batch(0, 5, FeatureLevelRecord(name="b", feature_level=1)), high_watermark=3))
    assert (observed.images[-1].features, observed.loader.image.features) == ({"a": 1}, {"a": 1})
    assert observed.observer.problem is not None
    observed.answer(fetched(batch(1, 5, ids(1)) + batch(2, 5, ids(7)), high_watermark=3))
    assert observed.observer.problem is None
    assert (observed.images[-1].features, observed.images[-1].next_producer_id) == ({"b": 1}, 7)
    assert len(observed.images) == 3
    assert "again" in observed.said[-1]


def test_a_fault_of_who_goes_by_the_image_is_tried_again_and_the_next_wait_is_short(observed: Observed) -> None:
    show, faults = observed.loader._publish, [RuntimeError("once"), RuntimeError("twice")]

    def publish(image: MetadataImage) -> None:
        if faults:
            raise faults.pop()
        show(image)

    observed.loader._publish = publish
    observed.answer(fetched(batch(0, 5, ids(1)), high_watermark=1))
    for wait in (1, 2):
        assert observed.observer.next_deadline() == observed.now + wait
        observed.now += wait
        observed.answer(fetched(batch(0, 5, ids(1)), high_watermark=1))
    assert observed.producer_ids() == [1]
    faults.append(RuntimeError("later"))
    observed.answer(fetched(batch(1, 5, ids(2)), high_watermark=2))
    assert observed.observer.next_deadline() == observed.now + 1


def test_a_fault_that_stays_is_told_once(observed: Observed) -> None:
    def publish(image: MetadataImage) -> None:
        raise RuntimeError("always")

    observed.loader._publish = publish
    for _ in range(5):
        observed.answer(fetched(batch(0, 5, ids(1)), high_watermark=1))
        observed.now = observed.observer.next_deadline()
    assert len(observed.said) == 1


def test_metadata_that_the_controllers_have_lost_go_when_all_others_were_read(observed: Observed) -> None:
    observed.answer(fetched(batch(0, 5, FeatureLevelRecord(name="a", feature_level=1)), high_watermark=1))
    observed.answer(fetched(diverging_epoch=EpochEndOffset(4, 0)))
    assert observed.images[-1].features == {"a": 1}
    observed.answer(fetched(batch(0, 6, FeatureLevelRecord(name="b", feature_level=1)), high_watermark=1))
    assert observed.images[-1].features == {"b": 1}


def test_controllers_that_cannot_be_reached_are_named_once() -> None:
    observed = Observed()
    for _ in range(8):
        observed.ask()
        observed.observer.disconnected(observed.now)
        observed.now += 1.0
    assert len(observed.said) == 1
    assert "a:1, b:2" in observed.said[0]
    assert observed.observer.next_deadline() < inf


@pytest.mark.parametrize("cuts", [(), (1,), (2, 3), (1, 2, 3, 4, 5)])
def test_the_image_is_the_same_in_whatever_pieces_the_log_came(observed: Observed, cuts: Sequence[int]) -> None:
    records = [batch(n, 5, ids(n + 1), FeatureLevelRecord(name=f"f{n}", feature_level=1)) for n in range(0, 12, 2)]
    for piece in pieces(records, cuts):
        observed.answer(fetched(b"".join(piece), high_watermark=12))
    assert observed.images[-1].features == {f"f{n}": 1 for n in range(0, 12, 2)}
    assert observed.images[-1].offset == 11


def pieces(records: list[bytes], cuts: Sequence[int]) -> Iterable[list[bytes]]:
    edges = [0, *cuts, len(records)]
    return [records[edges[n] : edges[n + 1]] for n in range(len(edges) - 1)]
