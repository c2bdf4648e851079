"""What operators alert on: errors, failures, times by percentile, flushes, idleness, groups, what is out of service."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.metrics.error_codes import error_codes
from barnabas.broker.metrics.idle_share import IdleShare
from barnabas.broker.network.login_counts import LoginOutcome
from barnabas.broker.request import Request
from barnabas.errors import KafkaStorageError
from barnabas.protocol.message import Message
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce


class Observed:
    """A broker whose metrics are taken."""

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        self.broker = CoreBroker({"group.initial.rebalance.delay.ms": 0, **(settings or {})})
        self.metrics = BrokerMetrics(self.broker.node, lambda: self.broker.instant, lambda: 0.0)
        self.broker.node.core.observers.append(self.metrics)
        self.broker.node.core.shortcut_observer = self.metrics
        self.client: CoreClient = self.broker.connect()
        #: What went the general way.
        self.general: list[Request] = []
        completed = self.metrics.completed

        def note(request: Request, response: Message | None, now: float) -> None:
            self.general.append(request)
            completed(request, response, now)

        self.metrics.completed = note  # type: ignore[method-assign]

    def samples(self) -> dict[str, float]:
        lines = [line for line in self.metrics.text().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.fixture
def observed() -> Observed:
    return Observed()


def test_errors_are_counted_by_api_and_name(observed: Observed) -> None:
    observed.client.request(create("t"), 7)
    observed.client.request(create("t"), 7)
    observed.client.request(produce("t", batch(b"a")), 12)
    observed.client.request(produce("missing", batch(b"a")), 12)

    found = observed.samples()

    errors = "kafka_network_requestmetrics_errors_total"
    assert found[f'{errors}{{error="TOPIC_ALREADY_EXISTS",request="CreateTopics"}}'] == 1
    assert found[f'{errors}{{error="UNKNOWN_TOPIC_OR_PARTITION",request="Produce"}}'] == 1
    assert found[f'{errors}{{error="NONE",request="Produce"}}'] == 1


def test_a_failing_disk_is_a_failed_request_and_a_mistake_of_a_client_is_none(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed.client.request(create("t"), 7)
    observed.client.request(produce("missing", batch(b"a")), 12)

    def fail(*_: object) -> None:
        raise KafkaStorageError("the disk is full")

    monkeypatch.setattr(type(observed.broker.node.state.replica_manager), "append", fail)
    observed.client.request(produce("t", batch(b"a")), 12)

    found = observed.samples()
    assert found['kafka_server_brokertopicmetrics_failedproducerequests_total{topic="t"}'] == 1
    assert found['kafka_server_brokertopicmetrics_failedproducerequests_total{topic="missing"}'] == 0
    assert found['kafka_server_brokertopicmetrics_totalproducerequests_total{topic="t"}'] == 1


def test_logins_are_shown_by_listener_and_mechanism(observed: Observed) -> None:
    observed.broker.node.core.channel.logins.count("SASL", "PLAIN", LoginOutcome.FAILED)

    found = observed.samples()
    name = "kafka_server_socket_server_metrics_failed_authentication_total"
    assert found[f'{name}{{listener="SASL",mechanism="PLAIN"}}'] == 1


def test_times_are_shown_by_percentile_and_phase(observed: Observed) -> None:
    clock = [0.0]

    def timer() -> float:
        clock[0] += 0.25
        return clock[0]

    observed.broker.node.core.timer = timer
    observed.client.request(MetadataRequest(topics=[]), 12)

    found = observed.samples()
    for phase, milliseconds in (("localtimems", 250), ("totaltimems", 250), ("remotetimems", 0)):
        name = f'kafka_network_requestmetrics_{phase}{{quantile="0.99",request="Metadata"}}'
        assert found[name] == pytest.approx(milliseconds, rel=0.05, abs=0.01)


def test_requests_that_come_together_wait_for_each_other(observed: Observed) -> None:
    clock = [0.0]

    def timer() -> float:
        clock[0] += 0.25
        return clock[0]

    observed.broker.node.core.timer = timer
    before = len(observed.client.responses)
    observed.client.send_together([MetadataRequest(topics=[])] * 3, 12)
    assert len(observed.client.responses) == before + 3

    found = observed.samples()
    name = "kafka_network_requestmetrics_requestqueuetimems"
    assert found[f'{name}_count{{request="Metadata"}}'] == 3
    # The timer is asked when a handler begins and ends, and when its response is made: the second waits for three.
    assert found[f'{name}_sum{{request="Metadata"}}'] == 750 + 1500
    # The three responses leave together, when the last is made.
    sending = "kafka_network_requestmetrics_responsesendtimems"
    assert found[f'{sending}_count{{request="Metadata"}}'] == 3
    assert found[f'{sending}_sum{{request="Metadata"}}'] > 750


def test_the_short_way_of_produce_stays_open_and_counts_all_that_the_general_way_does() -> None:
    def counted(*, short: bool) -> dict[str, float]:
        observed = Observed()
        if not short:
            observed.broker.node.core.shortcut_observer = None
        observed.client.request(create("t"), 7)
        topic_id = observed.broker.state.metadata.topic("t").id
        for _ in range(3):
            observed.client.request(produce("t", batch(b"a")), 12)
            observed.client.request(produce("t", batch(b"a"), topic_id=topic_id), 13)
        assert len(observed.general) == (1 + 2 if short else 1 + 6), "the first of a version loads its handler"
        return {
            name: value for name, value in observed.samples().items()
            if "Produce" in name or "brokertopicmetrics" in name
        }  # fmt: skip

    short = counted(short=True)
    assert short == counted(short=False)
    assert short['kafka_server_brokertopicmetrics_totalproducerequests_total{topic="t"}'] == 6


def test_refused_bytes_are_counted_by_topic(observed: Observed) -> None:
    observed.client.request(create("t", max_message_bytes="100"), 7)
    large = batch(bytes(1000))
    observed.client.request(produce("t", large), 12)

    found = observed.samples()
    assert found['kafka_server_brokertopicmetrics_bytesrejected_total{topic="t"}'] == len(large)


def test_partitions_out_of_service_are_offline_everywhere(observed: Observed) -> None:
    observed.client.request(create("t", 3), 7)
    observed.client.request(produce("t", batch(b"a"), 0), 12)
    (log,) = (log for name, log in observed.broker.node.logs.logs.items() if name.partition == 0)
    log.fail("appending", OSError(5, "Input/output error"))

    found = observed.samples()
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"] == 1
    assert found["kafka_server_replicamanager_offlinereplicacount"] == 1
    assert found["kafka_server_replicamanager_leadercount"] == 2


def test_a_topic_that_demands_more_replicas_than_there_are_is_below_its_minimum(observed: Observed) -> None:
    observed.client.request(create("t", 2, min_insync_replicas="2"), 7)
    assert observed.samples()["kafka_server_replicamanager_underminisrpartitioncount"] == 2


def test_groups_and_transactions_are_counted_by_state_and_not_loaded_for_it(observed: Observed) -> None:
    found = observed.samples()
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroups"] == 0
    assert found['barnabas_transactions{state="Ongoing"}'] == 0
    assert observed.broker.node.loaded_groups is None

    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    observed.client.request(create("t"), 7)
    observed.client.request(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
    observed.client.request(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
    found = observed.samples()
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroups"] == 1
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroupsempty"] == 1
    assert found['kafka_server_group_coordinator_metrics_group_count{protocol="classic"}'] == 1
    assert found['barnabas_transactions{state="Empty"}'] == 1


def test_what_happens_to_groups_is_counted(observed: Observed) -> None:
    ask = observed.client.request
    ask(create("t", 2), 7)
    commits = [OffsetCommitRequestPartition(partition_index=number, committed_offset=1) for number in range(2)]
    ask(OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=commits)]), 8)
    gone = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(1)])
    ask(OffsetDeleteRequest(group_id="g", topics=[gone]), 0)
    of_consumer = {"member_id": "a", "rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"], "topic_partitions": []}
    ask(ConsumerGroupHeartbeatRequest(group_id="consumers", **of_consumer), 1)
    classic = {"group_id": "classics", "member_id": "", "protocol_type": "consumer", "session_timeout_ms": 10_000}
    joins = JoinGroupRequest(**classic, rebalance_timeout_ms=1000, protocols=[JoinGroupRequestProtocol("range", b"")])
    joined = ask(joins, 3)
    synced = SyncGroupRequest(group_id="classics", generation_id=joined.generation_id, member_id=joined.member_id)
    ask(synced, 2)

    found = observed.samples()
    of_groups = "kafka_server_group_coordinator_metrics_"
    counts = {name.removeprefix(of_groups): value for name, value in found.items() if name.endswith("_count_total")}
    assert counts["offset_commit_count_total"] == 2
    assert counts["offset_deletion_count_total"] == 1
    assert counts["offset_expiration_count_total"] == 0
    assert counts["consumer_group_rebalance_count_total"] == 1
    assert counts["group_completed_rebalance_count_total"] == 1
    assert found["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 1


def test_fetch_sessions_are_counted_until_others_need_their_place() -> None:
    observed = Observed({"max.incremental.fetch.session.cache.slots": 1})
    observed.client.request(create("t"), 7)
    observed.client.request(fetch("t", session_epoch=0), 12)
    sessions = "kafka_server_fetchsessioncache_"
    found = observed.samples()
    assert found[f"{sessions}numincrementalfetchsessions"] == 1
    assert found[f"{sessions}numincrementalfetchpartitionscached"] == 1
    assert found[f"{sessions}incrementalfetchsessionevictions_total"] == 0

    observed.broker.advance(300)
    observed.client.request(fetch("t", session_epoch=0), 12)
    found = observed.samples()
    assert found[f"{sessions}numincrementalfetchsessions"] == 1
    assert found[f"{sessions}incrementalfetchsessionevictions_total"] == 1


def test_flushes_are_timed_only_while_somebody_wants_to_know(tmp_path: object) -> None:
    from collections import deque

    disk = OsFileSystem()
    file = disk.open(f"{tmp_path}/f")
    file.sync()
    assert disk.flush_seconds is None

    disk.flush_seconds = deque()
    file.sync()
    disk.sync_directory(str(tmp_path))
    assert len(disk.flush_seconds) == 2
    file.close()


def test_the_idle_share_is_what_neither_the_processor_nor_the_disk_took() -> None:
    used = [0.0]
    idle = IdleShare(lambda: used[0])
    assert idle.share(0.0, 0.0) == 1.0
    used[0] = 2.0
    assert idle.share(10.0, 3.0) == pytest.approx(0.5)
    # A second look in the same moment sees the same.
    assert idle.share(10.1, 0.0) == pytest.approx(0.5)
    used[0] = 50.0
    assert idle.share(20.0, 0.0) == 0.0


def test_error_codes_are_found_at_every_depth() -> None:
    partitions = [PartitionData(partition_index=0, error_code=0), PartitionData(partition_index=1, error_code=3)]
    response = FetchResponse(error_code=7, responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    assert sorted(error_codes(response)) == [0, 3, 7]
