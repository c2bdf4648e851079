"""Producer: Arrow tables, sent row by row."""

from __future__ import annotations

import time
from typing import Any

import pytest

from barnabas import errors
from barnabas.client.producer.partitioner import partition_for_key
from barnabas.errors import IllegalArgumentError, RecordTooLargeError
from tests.unit.client.producer.storing_broker import StoringBroker, connect


def test_a_table_is_sent_row_by_row_with_keys_headers_times_and_partitions(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    table = pa.table(
        {
            "key": pa.array([b"a", None, b"b", b"a"], pa.binary()),
            "value": pa.array(["one", "two", None, "four"]),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, [], None], pa.list_(header)),
            "partition": pa.array([None, 2, 1, None], pa.int32()),
            "timestamp": pa.array([5, 6, None, 8], pa.int64()),
            "more": [1, 2, 3, 4],
        }
    )
    with connect(broker) as producer:
        assert producer.send_table("test", table).result(10) == 4

    mine = partition_for_key(b"a", 3)
    stored = {(p, r.key, r.value, tuple(r.headers)): r.timestamp for p, r in broker.records}
    assert set(stored) == {
        (mine, b"a", b"one", (("h", b"1"),)), (2, None, b"two", ()), (1, b"b", None, ()), (mine, b"a", b"four", ()),
    }  # fmt: skip
    assert stored[(mine, b"a", b"one", (("h", b"1"),))] == 5
    assert abs(stored[(1, b"b", None, ())] - time.time() * 1000) < 60_000
    assert [r.value for p, r in broker.records if r.key == b"a"] == [b"one", b"four"]


@pytest.mark.parametrize("unit", ["us", "ms", None])
def test_a_time_before_1970_is_refused_before_a_row_is_sent(broker: StoringBroker, unit: str | None) -> None:
    pa = pytest.importorskip("pyarrow")
    times = pa.array([5, -1], pa.int64() if unit is None else pa.timestamp(unit))
    with connect(broker) as producer:
        with pytest.raises(IllegalArgumentError, match="holds -1, which is before 1970"):
            producer.send_table("one", pa.table({"value": ["1", "2"], "timestamp": times}))
        producer.flush(10)

    assert broker.values == []


def test_a_large_table_fills_batches_in_order_and_gives_the_memory_back(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    values = [b"%06d" % n for n in range(20_000)]
    with connect(broker, compression_type="gzip", buffer_memory=200_000) as producer:
        future = producer.send_table("one", pa.table({"value": pa.array(values, pa.binary())}))
        assert future.result(20) == 20_000
        assert future.done()

    assert producer.metrics()["buffer-available-bytes"] == 200_000
    assert broker.values == values


def test_tables_and_records_fill_the_same_batches_in_the_order_of_sending(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")

    def table(*values: bytes) -> Any:
        return pa.table({"value": pa.array(values, pa.binary())})

    told: list[Any] = []
    with connect(broker, linger_ms=60_000) as producer:
        first = producer.send_table("one", table(b"0", b"1"))
        third = producer.send("one", b"2")
        second = producer.send_table("one", table(b"3", b"4", b"5"))
        # Beside records with callbacks there is an entry for each one, which rows do not have.
        producer.send("one", b"6", on_delivery=lambda metadata, error: told.append((metadata.offset, error)))
        assert not first.done()
        assert not second.done()
        # It begins a batch, so that the one before leaves at once.
        last = producer.send_table("one", table(b"7"))
        producer.flush(10)
        assert [future.result(0) for future in (first, second, last)] == [2, 3, 1]
        assert third.result(0).offset == 2
        assert told == [(6, None)]

    assert broker.values == [b"%d" % number for number in range(8)]
    assert [count for request in broker.requests for _, count in request] == [7, 1]


def test_a_table_that_overflows_the_open_batch_goes_on_in_the_next(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"value": pa.array([b"x" * 100] * 15, pa.binary())})
    with connect(broker, batch_size=2000, linger_ms=60_000) as producer:
        futures = [producer.send_table("one", table) for _ in range(4)]
        producer.flush(10)
        assert [future.result(0) for future in futures] == [15] * 4

    assert producer.metrics()["buffer-available-bytes"] == 33554432
    assert [count for request in broker.requests for _, count in request] == [17, 17, 17, 9]


def test_a_table_larger_than_the_memory_does_not_wait_for_linger(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"value": pa.array([b"x" * 100] * 200, pa.binary())})
    with connect(broker, batch_size=2000, buffer_memory=4000, linger_ms=60_000, max_block_ms=20_000) as producer:
        future = producer.send_table("one", table)
        producer.flush(10)
        assert future.result(0) == 200


def test_rows_without_key_fill_one_sticky_partition_after_the_other(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    with connect(broker, batch_size=2000) as producer:
        producer.send_table("test", pa.table({"value": pa.array([b"x" * 100] * 200, pa.binary())})).result(10)

    counts = [count for request in broker.requests for _, count in request]
    assert sum(counts) == 200
    assert min(sorted(counts)[1:]) >= 15


def test_columns_of_other_binary_types_are_sent_too(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    with connect(broker) as producer:
        for arrow_type in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
            column = pa.array(["a", None, "a"]).cast(arrow_type)
            assert producer.send_table("one", pa.table({"key": column, "value": column})).result(10) == 3

    assert broker.values == [b"a", None, b"a"] * 2


def test_a_table_that_cannot_be_sent_is_refused_whole(broker: StoringBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    with connect(broker, max_request_size=1000) as producer:
        with pytest.raises(RecordTooLargeError, match="Row 1 "):
            producer.send_table("one", pa.table({"value": [b"v", b"x" * 2000]}))
        with pytest.raises(errors.IllegalArgumentError, match="no column 'value'"):
            producer.send_table("one", pa.table({"text": ["v"]}))
        with pytest.raises(errors.IllegalTypeError, match="'value' has type int64"):
            producer.send_table("one", pa.table({"value": [1]}))
        with pytest.raises(errors.IllegalArgumentError, match="holds 5; topic 'test' has 0 to 2"):
            producer.send_table("test", pa.table({"value": ["v"], "partition": [5]}))
        with pytest.raises(errors.IllegalTypeError, match="RecordBatch"):
            producer.send_table("one", [b"v"])  # type: ignore[arg-type]  # that is the point
        assert producer.send_table("one", pa.table({"value": pa.array([], pa.binary())})).result(0) == 0

    assert broker.records == []
