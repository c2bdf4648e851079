"""The metrics of controllers that Apache Kafka 4.3.1 has, each found in a scrape or left out for a reason."""

from __future__ import annotations

import re

import pytest

from barnabas.broker.metrics.controller_metrics import ControllerMetrics
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from tests.support.controllers import registration
from tests.support.core_controller import CoreController, ask

#: As KafkaRaftMetrics, QuorumControllerMetrics, ControllerMetadataMetrics, MetadataLoaderMetrics and
#: SnapshotEmitterMetrics of kafka-raft and kafka-metadata 4.3.1 name them.
_NAMES = {
    "kafka_server_raft_metrics_": (
        "current-state current-leader current-vote current-vote-directory-id current-epoch high-watermark "
        "log-end-offset log-end-epoch number-unknown-voter-connections number-of-voters number-of-observers "
        "uncommitted-voter-change commit-latency-avg commit-latency-max election-latency-avg election-latency-max "
        "fetch-records-rate append-records-rate poll-idle-ratio-avg"
    ),
    "kafka_controller_kafkacontroller_": (
        "ActiveControllerCount LastAppliedRecordOffset LastCommittedRecordOffset LastAppliedRecordTimestamp "
        "LastAppliedRecordLagMs TimedOutBrokerHeartbeatCount EventQueueOperationsStartedCount "
        "EventQueueOperationsTimedOutCount NewActiveControllersCount TimeSinceLastHeartbeatReceivedMs "
        "ActiveBrokerCount FencedBrokerCount ControlledShutdownBrokerCount BrokerRegistrationState "
        "GlobalPartitionCount GlobalTopicCount IgnoredStaticVoters MetadataErrorCount OfflinePartitionsCount "
        "PreferredReplicaImbalanceCount"
    ),
    "kafka_controller_controllereventmanager_": "EventQueueProcessingTimeMs EventQueueTimeMs AvgIdleRatio",
    "kafka_controller_controllerstats_": "UncleanLeaderElectionsPerSec ElectionFromEligibleLeaderReplicasPerSec",
    "kafka_server_metadataloader_": (
        "CurrentControllerId CurrentMetadataVersion FinalizedLevel HandleLoadSnapshotCount AvgIdleRatio"
    ),
    "kafka_server_snapshotemitter_": "LatestSnapshotGeneratedAgeMs LatestSnapshotGeneratedBytes",
}
_LEFT_OUT = {
    "poll-idle-ratio-avg": "no thread is the quorum's own",
    "AvgIdleRatio": "no thread is the controller's own",
    "EventQueueTimeMs": "operations wait in no queue",
    "EventQueueOperationsTimedOutCount": "operations wait in no queue",
}


def _scrape() -> dict[str, float]:
    controller = CoreController({"metadata.log.max.record.bytes.between.snapshots": "100"})
    client = controller.connect()
    request = registration(1)
    request.cluster_id = controller.node.cluster_id
    epoch = ask(controller, client, request, 4).broker_epoch
    ask(controller, client, BrokerHeartbeatRequest(1, epoch, current_metadata_offset=epoch), 1)
    controller.advance(1)
    metrics = ControllerMetrics(controller.node, lambda: controller.instant)
    metrics.register_all()
    lines = [line.rpartition(" ") for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


@pytest.mark.parametrize("prefix", sorted(_NAMES))
def test_a_scrape_has_kafkas_metrics(prefix: str) -> None:
    found = {name.partition("{")[0] for name in _scrape()}
    for name in _NAMES[prefix].split():
        ours = prefix + re.sub("PerSec$", "_total", name).lower().replace("-", "_")
        assert (ours in found or f"{ours}_count" in found) == (name not in _LEFT_OUT), ours


def test_they_tell_what_happened() -> None:
    found = _scrape()
    raft = "kafka_server_raft_metrics_"
    assert found[f"{raft}append_records_rate"] > 0
    assert 0 <= found[f"{raft}commit_latency_avg"] <= found[f"{raft}commit_latency_max"] < 1000
    assert found[f"{raft}current_vote"] == found[f"{raft}current_leader"]
    assert found["kafka_controller_kafkacontroller_metadataerrorcount"] == 0
    assert found['kafka_controller_kafkacontroller_brokerregistrationstate{broker="1"}'] == 30
    assert found["kafka_server_snapshotemitter_latestsnapshotgeneratedbytes"] > 100
    assert 0 <= found["kafka_server_snapshotemitter_latestsnapshotgeneratedagems"] < 2000
