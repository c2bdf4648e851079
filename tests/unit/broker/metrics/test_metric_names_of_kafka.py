"""Each metric that a broker of Apache Kafka 4.3.1 tells is in a scrape of ours, or left out for a reason.

The names were read from a running broker (`kafka-4.3.1-metrics.txt`; `tests/interop/test_metric_names_of_java.py` holds
the list to one that runs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.metrics.controller_metrics import ControllerMetrics
from tests.support.cluster_member import MemberBroker
from tests.support.core_broker import CoreBroker
from tests.support.core_controller import CoreController

NAMES = Path(__file__).with_name("kafka-4.3.1-metrics.txt")

_SELECTORS = "(connection|network|io|select|incoming|outgoing|request|response|reauthentication|successful|failed)-.*"
#: Why → which, as patterns of "domain type:name".
LEFT_OUT = {
    "the threads, queues and buffers that it measures are not there: one loop does it all": (
        r"kafka.network (Acceptor|Processor|RequestChannel):.*", r".*:DeadThreadCount", r".*:thread-idle-ratio-avg",
        r".*:MemoryPool.*", r".*:(AvgIdleRatio|poll-idle-ratio-avg|ResponseQueueTimeMs)",
        r"kafka.controller .*:(EventQueueTimeMs|EventQueueOperationsTimedOutCount)",
        r".*:(event-(queue|purgatory|processing)|batch-(buffer|flush|linger)|background)-.*",
        r"kafka.server KafkaRequestHandlerPool:(Broker|Controller)RequestHandlerAvgIdlePercent",
        r"kafka.log LogCleaner:max-buffer-utilization-percent", r"kafka.server Request:exempt-request-time",
        r"kafka.server (Fetch|Produce|Request|ControllerMutation):queue-size",
        r"kafka.server BrokerMetadataListener:.*",
        r"kafka.coordinator.transaction TransactionMarkerChannelManager:LogAppendRetryQueueSize",
    ),
    "a connection's numbers: clients are told by listener and software, other brokers by the fetchers' metrics": (
        rf"kafka.server (?!socket-server).*-metrics:{_SELECTORS}",
        rf"kafka.server socket-server-metrics:(?!connection-count|.*authentication-total){_SELECTORS}",
        r"kafka.server socket-server-metrics:(expired-connections|broker-connection|ip-connection)-.*",
        r"kafka.server socket-server-metrics:successful-authentication-no-reauth-total",
        r"kafka.network SocketServer:ExpiredConnectionsKilledCount",
    ),
    "a record of an old format or without a key is refused, and counted by its error (RequestMetrics, Errors)": (
        r".*:.*MessageConversions.*", r".*:Invalid(MagicNumber|MessageCrc|OffsetOrSequence)RecordsPerSec",
        r".*:NoKeyCompactedTopicRecordsPerSec", r".*:TemporaryMemoryBytes",
        r"kafka.server AddPartitionsToTxnManager:VerificationFailureRate",
    ),
    "of Java's own libraries, or of Linux": (
        r".*:yammer-metrics-count", r"kafka.server kafka-metrics-count:count", r".*:linux-disk-.*", r".*app-info:.*",
        r".*:ClusterId",
    ),
    "a rate, which Prometheus makes of the counter beside it": (
        r"kafka.server (group|share)-coordinator-metrics:(?!batch).*-rate", r"kafka.server client-metrics:.*-rate",
        r"kafka.server .*FetcherManager:MinFetchRate", r"kafka.server ReplicaAlterLogDirsManager:MinFetchRate",
    ),
    "of what this broker does not have: cordoned directories, static voters beside a quorum, ranges of levels": (
        r"kafka.log LogManager:.*Cordoned.*", r"kafka.server broker-metadata-metrics:ignored-static-voters",
        r"kafka.server node-metrics:.*",
    ),
    "not told by a number: a load and a move go to the log with their progress, a wait to a request's RemoteTimeMs": (
        r".*:partition-load-time-(avg|max)", r"kafka.server ReplicaAlterLogDirsManager:(FailedPartitionsCount|MaxLag)",
        r"kafka.server ForwardingManager:.*", r"kafka.server AddPartitionsToTxnManager:VerificationTimeMs",
        r"kafka.server DelayedProduceMetrics:ExpiresPerSec", r"kafka.server AssignmentsManager:.*",
        r"kafka.coordinator.transaction TransactionMarkerChannelManager:UnknownDestinationQueueSize",
        r"kafka.utils Throttler:cleaner-io", r"kafka.network RequestMetrics:RequestBytes",
        r"kafka.server broker-metadata-metrics:.*-(lag-ms|timestamp|apply-error-count)",
        r"kafka.server ReplicaManager:PartitionsWithLateTransactionsCount",
        r"kafka.server group-coordinator-metrics:num-partitions", r"kafka.log Log:RetentionSizeInPercent",
        r"kafka.log LogCleaner:max-(clean-time|compaction-delay)-secs",
        r"kafka.log LogCleanerManager:(time-since-last-run-ms|uncleanable-bytes)",
    ),
}  # fmt: skip


class JavaMetric(NamedTuple):
    """A name as JMX has it."""

    domain: str
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.domain} {self.type}:{self.name}"

    @property
    def here(self) -> str:
        """Return its name in a scrape of ours."""
        name = re.sub("PerSec$", "_total", self.name)
        return f"{self.domain}_{self.type}_{name}".lower().replace(".", "_").replace("-", "_")


def listed() -> list[JavaMetric]:
    return list(_listed())


def _listed() -> Iterator[JavaMetric]:
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            where, _, names = line.partition(": ")
            yield from (JavaMetric(*where.split(" "), name) for name in names.split(" "))


@cache
def scraped() -> frozenset[str]:
    """What a broker alone, one of several, and a controller tell, whether there is a value for it yet or not."""
    alone, member, controller = CoreBroker(), MemberBroker(), CoreController()
    # They are made when they are needed first.
    assert alone.state.share_coordinator is not None
    assert alone.state.share_partition_manager is not None
    texts = [BrokerMetrics(each.node, lambda: alone.instant, lambda: 0.0).text() for each in (alone, member)]
    of_controller = ControllerMetrics(controller.node, lambda: controller.instant)
    of_controller.register_all()
    texts.append(of_controller.text())
    return frozenset(re.findall(r"^# TYPE (\S+)", b"\n".join(texts).decode(), re.MULTILINE))


def reasons(metric: JavaMetric) -> list[str]:
    return [why for why, patterns in LEFT_OUT.items() if any(re.fullmatch(each, str(metric)) for each in patterns)]


def test_each_is_told_or_left_out_for_one_reason() -> None:
    wrong = {}
    for metric in listed():
        # What Java keeps as one meter or histogram has a name for each of its numbers here.
        is_told = any(f"{metric.here}{ending}" in scraped() for ending in ("", "_total", "_count_total", "_avg"))
        if is_told + len(reasons(metric)) != 1:
            wrong[str(metric)] = metric.here, is_told, reasons(metric)

    assert not wrong, "\n".join(map(str, wrong.items()))


def test_no_reason_is_for_nothing() -> None:
    every = [str(metric) for metric in listed()]
    idle = [
        each for patterns in LEFT_OUT.values() for each in patterns if not any(re.fullmatch(each, m) for m in every)
    ]

    assert idle == []
