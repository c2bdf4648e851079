"""Which time a record has: its own, and what to do when that is negative; under Kafka's names."""

from __future__ import annotations

import logging
from typing import Any

from barnabas.clock import wall_clock_ms
from barnabas.streams.errors import StreamsError

_log = logging.getLogger(__name__)


class FailOnInvalidTimestamp:
    """The record's timestamp; a negative one is an error."""

    def __call__(self, record: Any, partition_time: int) -> int:
        """Return the timestamp in milliseconds. Raises `StreamsError` for a negative one."""
        if record.timestamp < 0:
            raise StreamsError(
                f"Input record {record} has invalid (negative) timestamp. Possibly because a pre-0.10 producer client "
                "was used to write this record to Kafka without embedding a timestamp, or because the input topic was "
                "created before upgrading the Kafka cluster to 0.10+. Use a different TimestampExtractor to process "
                "this data."
            )
        timestamp: int = record.timestamp
        return timestamp


class LogAndSkipOnInvalidTimestamp:
    """The record's timestamp; a record with a negative one is dropped."""

    def __call__(self, record: Any, partition_time: int) -> int:
        """Return the timestamp in milliseconds, negative ones too."""
        if record.timestamp < 0:
            _log.warning(
                "Input record will be dropped because it has an invalid (negative) timestamp: topic=%s partition=%s "
                "offset=%s",
                record.topic,
                record.partition,
                record.offset,
            )
        timestamp: int = record.timestamp
        return timestamp


class UsePartitionTimeOnInvalidTimestamp:
    """The record's timestamp; in place of a negative one the greatest of its partition so far."""

    def __call__(self, record: Any, partition_time: int) -> int:
        """Return the timestamp in milliseconds. Raises `StreamsError` when there is none before."""
        if record.timestamp >= 0:
            timestamp: int = record.timestamp
            return timestamp
        if partition_time < 0:
            raise StreamsError(
                f"Could not infer new timestamp for input record {record} because partition time is unknown."
            )
        return partition_time


class WallclockTimestampExtractor:
    """The time at which the record is read."""

    def __call__(self, record: Any, partition_time: int) -> int:
        """Return the clock's time in milliseconds."""
        return wall_clock_ms()
