"""What operators see of share groups, under the names that Apache Kafka's beans have in Prometheus."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.share.latencies import Latencies
from barnabas.broker.share.share_group_metrics import MOST_GROUPS, ShareGroupMetrics
from tests.peers import apache_kafka
from tests.support.core_broker import CoreBroker, batch, create, produce
from tests.support.share_member import ACCEPT, REJECT, RELEASE, RENEW, ShareMember
from tests.unit.broker.share.configs import set_group

#: Kafka's class, its bean, and what it counts there; `group` beans have attributes in place of names.
KAFKAS = {
    "org/apache/kafka/server/share/session/ShareSessionCache": (
        "kafka_server_sharesessioncache",
        ("ShareSessionsCount", "SharePartitionsCount", "ShareSessionEvictionsPerSec"),
    ),
    "org/apache/kafka/server/share/metrics/ShareGroupMetrics": (
        "kafka_server_sharegroupmetrics",
        (
            "RecordAcknowledgementsPerSec",
            "PartitionLoadTimeMs",
            "RequestTopicPartitionsFetchRatio",
            "TopicPartitionsAcquireTimeMs",
        ),
    ),
    "org/apache/kafka/server/share/metrics/SharePartitionMetrics": (
        "kafka_server_sharepartitionmetrics",
        ("InFlightMessageCount", "InFlightBatchCount", "InFlightBatchMessageCount", "AcquisitionLockTimeoutPerSec"),
    ),
    "org/apache/kafka/storage/log/metrics/BrokerTopicMetrics": (
        "kafka_server_brokertopicmetrics",
        (
            "TotalShareFetchRequestsPerSec",
            "FailedShareFetchRequestsPerSec",
            "TotalShareAcknowledgementRequestsPerSec",
            "FailedShareAcknowledgementRequestsPerSec",
        ),
    ),
    "org/apache/kafka/coordinator/share/metrics/ShareCoordinatorMetrics": (
        "kafka_server_share_coordinator_metrics",
        ("write-total", "write-latency-avg", "write-latency-max"),
    ),
    "org/apache/kafka/coordinator/common/runtime/CoordinatorRuntimeMetricsImpl": (
        "kafka_server_share_coordinator_metrics",
        ("num-partitions",),
    ),
    "org/apache/kafka/coordinator/group/metrics/GroupCoordinatorMetrics": (
        "kafka_server_group_coordinator_metrics",
        ("group-count", "share-group-count", "share-group-rebalance-count"),
    ),
}


def prometheus(bean: str, name: str) -> str:
    """How the rules of the JMX exporter call it."""
    if name.endswith("PerSec"):
        return f"{bean}_{name.removesuffix('PerSec').lower()}_total"
    return f"{bean}_{name.lower().replace('-', '_')}"


class Observed:
    """A broker whose group g has a member, and its metrics."""

    def __init__(self) -> None:
        self.broker = CoreBroker()
        self.broker.connect().request(create("t", 2), 7)
        set_group(self.broker, "share.auto.offset.reset", "earliest")
        self.metrics = BrokerMetrics(self.broker.node, lambda: self.broker.instant, lambda: 0.0)
        self.member = ShareMember(self.broker)
        self.member.heartbeat()
        self.broker.connect().request(produce("t", batch(*(b"%d" % n for n in range(10)))), 12)
        self.member.send_fetch()
        self.member.fetch(max_records=10)

    def samples(self) -> dict[str, float]:
        lines = [line for line in self.metrics.text().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.fixture
def observed() -> Observed:
    return Observed()


def test_every_name_is_there(observed: Observed) -> None:
    text = observed.metrics.text().decode()
    found = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    for bean, names in KAFKAS.values():
        for name in names:
            wanted = prometheus(bean, name)
            assert any(one == wanted or one.startswith(wanted + "_") for one in found), wanted


@pytest.mark.slow
def test_apache_kafka_has_every_name() -> None:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    constants = dict(_classes())
    for path, (_, names) in KAFKAS.items():
        for name in names:
            assert name.encode() in constants[path], f"{path} has no {name}"


def _classes() -> Iterator[tuple[str, bytes]]:
    folder = Path(apache_kafka.classpath().removesuffix("/*"))
    for jar in folder.glob("kafka*.jar"), folder.glob("group-coordinator*.jar"), folder.glob("*.jar"):
        for one in jar:
            with zipfile.ZipFile(one) as archive:
                names = set(archive.namelist())
                for path in KAFKAS:
                    if f"{path}.class" in names:
                        yield path, archive.read(f"{path}.class")


def test_what_members_say_and_have_is_counted(observed: Observed) -> None:
    member = observed.member
    labels = '{group="g",partition="0",topic="t"}'
    flight = "kafka_server_sharepartitionmetrics_inflightmessagecount"
    assert observed.samples()[flight + labels] == 10
    member.acknowledge((0, 3, ACCEPT), (4, 4, REJECT), (5, 7, RELEASE))
    member.acknowledge((8, 8, RENEW), is_renew_ack=True)
    found = observed.samples()
    counted = {kind: found[f'kafka_server_sharegroupmetrics_recordacknowledgements_total{{acktype="{kind}"}}']
               for kind in ("accept", "release", "reject", "renew")}  # fmt: skip
    assert counted == {"accept": 4, "reject": 1, "release": 3, "renew": 1}
    assert found["kafka_server_share_coordinator_metrics_write_total"] == 1
    assert found['kafka_server_share_coordinator_metrics_num_partitions{state="active"}'] == 50
    assert found["kafka_server_sharesessioncache_sharesessionscount"] == 1
    observed.broker.advance(31)
    assert observed.samples()[f"kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total{labels}"] == 2


def test_fetches_tell_how_much_of_what_they_asked_for_could_be_acquired(observed: Observed) -> None:
    ratio, wait = (f"kafka_server_sharegroupmetrics_{name}" for name in
                   ("requesttopicpartitionsfetchratio", "topicpartitionsacquiretimems"))  # fmt: skip
    found = observed.samples()
    answered = found[ratio + '_count_total{group="g"}']
    assert found[ratio + '_avg{group="g"}'] == 100
    assert found[wait + '_max{group="g"}'] == 0

    observed.member.send_fetch()
    found = observed.samples()
    assert found[ratio + '_count_total{group="g"}'] == answered + 1
    batches = 'kafka_server_sharepartitionmetrics_inflightbatchmessagecount_{}{{group="g",partition="0",topic="t"}}'
    assert (found[batches.format("max")], found[batches.format("count_total")]) == (10, 1)


def test_of_many_groups_the_first_are_forgotten() -> None:
    metrics = ShareGroupMetrics(lambda: 0.0)
    for number in range(MOST_GROUPS + 5):
        metrics.count_fetch(f"g{number}", 100, 0.0, 0.0)

    assert [*metrics.shares] == [*metrics.waits] == [f"g{number}" for number in range(5, MOST_GROUPS + 5)]


def test_groups_and_requests_are_counted(observed: Observed) -> None:
    found = observed.samples()
    assert found['kafka_server_group_coordinator_metrics_group_count{protocol="share"}'] == 1
    assert found['kafka_server_group_coordinator_metrics_share_group_count{state="Stable"}'] == 1
    assert found["kafka_server_group_coordinator_metrics_share_group_rebalance_count_total"] == 1
    asked = 'kafka_server_brokertopicmetrics_totalsharefetchrequests_total{topic="t"}'
    assert found[asked] == 2
    observed.member.acknowledge((50, 60, ACCEPT))
    failed = 'kafka_server_brokertopicmetrics_failedshareacknowledgementrequests_total{topic="t"}'
    assert observed.samples()[failed] == 1


def test_nothing_is_loaded_in_order_to_count_it() -> None:
    broker = CoreBroker()
    text = BrokerMetrics(broker.node, lambda: broker.instant, lambda: 0.0).text().decode()
    assert "share_coordinator" not in text
    assert broker.node.loaded_share_partitions is None


def test_what_was_minutes_ago_is_no_average() -> None:
    times = Latencies()
    times.record(4.0, 100)
    times.record(2.0, 101)
    assert (times.average(101), times.largest(101)) == (3.0, 4.0)
    times.record(1.0, 131)
    assert (times.average(131), times.largest(140)) == (7 / 3, 4.0)
    assert (times.average(165), times.largest(165)) == (1.0, 1.0)
    assert (times.average(300), times.count, times.total) == (0.0, 3, 7.0)
