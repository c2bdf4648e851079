"""A search by time in a log that the system's cache lacks: what it reads is read beside the loop before (ListOffsets).

The search itself (`UnifiedLog.offset_for_timestamp`) asks the segments from the first one on for their largest
timestamp, which the end of the time index tells, and reads the records of one of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.piecewise import outcome_of
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.cold_range import ColdRange
    from barnabas.broker.log.log_segment import LogSegment
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.piecewise import Steps
    from barnabas.broker.replica_manager import ReplicaManager

MAX_TIMESTAMP = -3


def bring_in_search(manager: ReplicaManager, log: UnifiedLog, timestamp: int) -> Steps[None]:
    """Read beside the loop what a search for a timestamp (epoch ms, or `MAX_TIMESTAMP`) would wait for.

    What fails here is left to the search, which meets it, too.
    """
    from barnabas.broker.log.cold_range import cold_index_ranges, cold_search_ranges

    latest: LogSegment | None = None
    try:
        for segment in list(log.local_log.segments):
            yield from _bring_in(manager, cold_index_ranges(segment))
            if timestamp == MAX_TIMESTAMP:
                if latest is None or segment.max_timestamp.timestamp > latest.max_timestamp.timestamp:
                    latest = segment
            elif segment.largest_timestamp() >= timestamp:
                latest = segment
                break
        if latest is not None:
            wanted = latest.max_timestamp.timestamp if timestamp == MAX_TIMESTAMP else timestamp
            yield from _bring_in(manager, cold_search_ranges(latest, wanted, log.log_start_offset))
    except (OSError, KafkaError):
        return


def _bring_in(manager: ReplicaManager, ranges: list[ColdRange]) -> Steps[None]:
    if ranges:
        yield from outcome_of(partial(_read, manager, ranges))


def _read(manager: ReplicaManager, ranges: list[ColdRange], tell: Callable[[None], None]) -> None:
    manager.bring_in(ranges, lambda: tell(None))
