"""What is counted of the logs: sizes and offsets, flushes, the cleaner, and what is out of service."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from barnabas.broker.metrics.percentiles import Percentiles
from barnabas.broker.metrics.request_metrics import add_quantiles

if TYPE_CHECKING:
    from barnabas.broker.log.log_directories import Logs
    from barnabas.broker.log.log_manager import DirectoryState

#: So many flushes between two scrapes are looked at.
_MOST_FLUSHES = 100_000


class LogMetrics:
    """The numbers of one data directory."""

    def __init__(self, logs: Logs):
        self._logs = logs
        self._flushes = Percentiles()
        # Threads append to it; it is emptied when the metrics are read.
        self._flush_seconds: deque[float] = deque(maxlen=_MOST_FLUSHES)
        if hasattr(logs.filesystem, "flush_seconds"):
            logs.filesystem.flush_seconds = self._flush_seconds

    def take_flush_seconds(self, now: float) -> float:
        """Count the flushes since the last time; how long they took together."""
        seconds = 0.0
        for _ in range(len(self._flush_seconds)):
            taken = self._flush_seconds.popleft()
            self._flushes.record(taken, now)
            seconds += taken
        return seconds

    def collect(self, now: float) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        yield from self._partitions()
        flushes = SummaryMetricFamily(
            "kafka_log_logflushstats_logflushrateandtimems",
            "Milliseconds to bring a file or a directory to the disk",
            count_value=self._flushes.count,
            sum_value=self._flushes.total * 1000,
        )
        add_quantiles(flushes, {}, self._flushes, now)
        yield flushes
        yield from self._cleaner()
        yield from self._directories()
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_produceridcount",
            "Producers that the logs remember, idempotent and transactional ones",
            sum(len(log.producer_state.producers) for log in self._logs.logs.values()),
        )

    def _directories(self) -> Iterator[Metric]:
        offline = GaugeMetricFamily(
            "kafka_log_logmanager_logdirectoryoffline", "1: no partition of it is served", labels=("logdirectory",)
        )
        for found in self._logs.directories:
            offline.add_metric((found.manager.directory,), _is_out_of_service(found))
        yield offline
        yield GaugeMetricFamily(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Data directories of which no partition is served",
            sum(_is_out_of_service(found) for found in self._logs.directories),
        )

    def _partitions(self) -> Iterator[Metric]:
        names = ("topic", "partition")
        size = GaugeMetricFamily("kafka_log_log_size", "Bytes on disk", labels=names)
        start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset", labels=names)
        end = GaugeMetricFamily("kafka_log_log_logendoffset", "Offset of the next record", labels=names)
        segments = GaugeMetricFamily("kafka_log_log_numlogsegments", "Segments", labels=names)
        for name, log in sorted(self._logs.logs.items()):
            labels = (name.topic, str(name.partition))
            size.add_metric(labels, log.size)
            start.add_metric(labels, log.log_start_offset)
            end.add_metric(labels, log.log_end_offset)
            segments.add_metric(labels, log.number_of_segments)
        yield from (size, start, end, segments)

    def _cleaner(self) -> Iterator[Metric]:
        cleaners = [found.manager.cleaner for found in self._logs.directories]
        yield GaugeMetricFamily(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Compacted partitions that are not cleaned any more, and grow",
            sum(len(cleaner.manager.uncleanable) for cleaner in cleaners),
        )
        yield GaugeMetricFamily(
            "kafka_log_logcleanermanager_max_dirty_percent",
            "The largest dirty part of a compacted log when the cleaner looked last",
            100.0 * max(cleaner.manager.dirtiest_ratio for cleaner in cleaners),
        )
        yield GaugeMetricFamily(
            "barnabas_log_cleanings", "Cleanings of logs since the start", sum(one.cleanings for one in cleaners)
        )
        stats = next((one.last_stats for one in cleaners if one.last_stats is not None), None)
        kept = 100.0 * stats.bytes_after / stats.bytes_before if stats is not None and stats.bytes_before else 0.0
        yield GaugeMetricFamily(
            "kafka_log_logcleaner_cleaner_recopy_percent", "What the last cleaning kept, of what it read", kept
        )


def _is_out_of_service(found: DirectoryState) -> bool:
    return found.problem is not None or (not found.manager.logs and bool(found.manager.unopened.failures))
