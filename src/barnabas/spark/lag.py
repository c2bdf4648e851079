"""How far a streaming query is behind its topics: from the progress that Spark reports after each micro-batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from barnabas.spark.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from barnabas.protocol.topic_partition import TopicPartition


class SourceLag(NamedTuple):
    """Where one source of a query stood when a micro-batch had ended.

    `position`: the offsets read so far; `end`: the ends of the partitions at that moment; `rows_per_second`: how fast
    the micro-batch was worked on.
    """

    query: str
    batch_id: int
    source: str
    position: Offsets
    end: Offsets
    rows_per_second: float

    @property
    def by_partition(self) -> dict[TopicPartition, int]:
        """How many records each partition has beyond the position; compacted ones count too."""
        return {partition: max(0, end - self.position.get(partition, 0)) for partition, end in self.end.items()}

    @property
    def total(self) -> int:
        """The lag over all partitions."""
        return sum(self.by_partition.values())


def lags_of(progress: Any) -> list[SourceLag]:
    """Return the lag of each source of a `StreamingQueryProgress` that counts in offsets of topics."""
    found = []
    for source in progress.sources:
        position, end = _offsets(source.endOffset), _offsets(source.latestOffset)
        if position is not None and end is not None:
            query = progress.name or str(progress.id)
            rate = source.processedRowsPerSecond or 0.0
            found.append(SourceLag(query, progress.batchId, source.description, position, end, float(rate)))
    return found


def _offsets(text: str | None) -> Offsets | None:
    try:
        return from_json(json.loads(text or "null"))
    except (ValueError, TypeError, AttributeError):
        return None  # another kind of source


class LagListener(StreamingQueryListener):
    """Keeps the last lag of every query; `spark.streams.addListener(LagListener())`.

    Works for the built-in connector's sources as well, whose offsets have the same form. A query that is idle reports
    nothing new.
    """

    def __init__(self, on_lag: Callable[[SourceLag], object] | None = None) -> None:
        """`on_lag` is called for each source after every micro-batch, in Spark's listener thread."""
        self._on_lag = on_lag
        self._lock = threading.Lock()
        self._last: dict[str, list[SourceLag]] = {}

    def lag(self, query: str) -> list[SourceLag]:
        """Return the last lag of a query's sources, by its name, or its id where it has none."""
        with self._lock:
            return list(self._last.get(query, ()))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Note where the query stands."""
        self._note(lags_of(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Stay where it stood."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Keep the last lag, to be looked at."""

    def _note(self, lags: list[SourceLag]) -> None:
        if lags:
            with self._lock:
                self._last[lags[0].query] = lags
        if self._on_lag is not None:
            for lag in lags:
                self._on_lag(lag)
