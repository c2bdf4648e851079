"""Lag out of Spark's progress, and watermarks."""

from __future__ import annotations

from types import SimpleNamespace as Progress
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.lag import LagListener, SourceLag, lags_of
from barnabas.spark.watermarks import for_bounded_out_of_orderness, for_monotonous_timestamps


def progress(position: str | None, end: str | None, batch: int = 3) -> Any:
    source = Progress(description="s", endOffset=position, latestOffset=end, processedRowsPerSecond=12.5)
    return Progress(name="q", id="0", batchId=batch, sources=[source])


def test_lag_is_what_the_partitions_have_beyond_the_position() -> None:
    lag = lags_of(progress('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7,"2":4}}'))[0]

    assert (lag.query, lag.batch_id, lag.total, lag.rows_per_second) == ("q", 3, 8, 12.5)
    assert lag.by_partition == {TopicPartition("t", 0): 4, TopicPartition("t", 1): 0, TopicPartition("t", 2): 4}


@pytest.mark.parametrize(("position", "end"), [(None, '{"t":{"0":9}}'), ("17", "18"), ('{"t":{"0":9}}', None)])
def test_sources_of_another_kind_have_no_lag(position: str | None, end: str | None) -> None:
    assert lags_of(progress(position, end)) == []


@pytest.mark.shows("S0.23", breaks="barnabas.spark.lag:LagListener._note")
def test_the_listener_keeps_the_last_lag_and_tells_of_each() -> None:
    told: list[SourceLag] = []
    listener = LagListener(told.append)

    for batch, position in enumerate(("1", "4")):
        listener.onQueryProgress(Progress(progress=progress(f'{{"t":{{"0":{position}}}}}', '{"t":{"0":9}}', batch)))  # type: ignore[arg-type]  # as Spark gives it

    assert [lag.total for lag in told] == [8, 5]
    assert [lag.total for lag in listener.lag("q")] == [5]
    assert listener.lag("unknown") == []


def test_watermarks_have_a_delay_of_zero_or_more() -> None:
    assert for_monotonous_timestamps().delay_ms == 0
    assert for_bounded_out_of_orderness(1.5).delay_ms == 1500
    with pytest.raises(IllegalArgumentError, match="-1"):
        for_bounded_out_of_orderness(-1)
