"""Producer as programs use it: a real Sender thread and real sockets, against a scripted broker that stores records."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from barnabas import errors
from barnabas.client.producer.append import RecordMetadata
from barnabas.client.producer.producer import Producer
from barnabas.client.producer.producer_config import ProducerConfig
from barnabas.client.producer.producer_record import ProducerRecord, RecordHeaders
from barnabas.client.producer.record_accumulator import RecordAccumulator
from barnabas.client.producer.sender import Sender
from barnabas.client.serializers import StringSerializer
from barnabas.errors import IllegalStateError, KafkaTimeoutError, RecordTooLargeError, SerializationError
from tests.unit.client.producer.storing_broker import StoringBroker, connect

HASH = "barnabas.records.partitioner:murmur2_at"


# --- the samples of the documents


@pytest.mark.shows("S3.35", breaks="barnabas.client.producer.producer_record:freeze_headers")
def test_simple_producer_sends_logs_flushes_and_closes(broker: StoringBroker) -> None:
    producer = Producer(
        {
            "bootstrap.servers": f"{broker.host}:{broker.port}",
            "key.serializer": StringSerializer,
            "value.serializer": StringSerializer,
        }
    )
    record = ProducerRecord("test", "testMessage")

    producer.send(record)
    line = str(record)
    producer.flush()
    producer.close()

    assert line == (
        "ProducerRecord(topic=test, partition=null, headers=RecordHeaders(headers = [], isReadOnly = true), key=null, "
        "value=testMessage, timestamp=null)"
    )
    ((_, stored),) = broker.records
    assert (stored.key, stored.value) == (None, b"testMessage")


@pytest.mark.shows("S3.53", breaks="barnabas.client.producer.producer_batch:ProducerBatch._done")
def test_producer_with_async_callback(broker: StoringBroker, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("sample")

    def on_completion(metadata: Any, error: BaseException | None) -> None:
        log.warning("%s %s", "failed" if error else "succeeded", error or metadata)

    producer = connect(broker, key_serializer=str, value_serializer=str)
    producer.send("one", key="Pangyo", value="Pangyo", on_delivery=on_completion)
    producer.flush()
    producer.close()

    assert "succeeded one-0@0" in caplog.text
    ((_, stored),) = broker.records
    assert (stored.key, stored.value) == (b"Pangyo", b"Pangyo")


@pytest.mark.shows("S3.36", breaks="barnabas.client.producer.producer_config:ProducerConfig.__init__")
def test_kafkas_constants_name_the_settings(broker: StoringBroker) -> None:
    settings = {
        ProducerConfig.BOOTSTRAP_SERVERS_CONFIG: f"{broker.host}:{broker.port}",
        ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG: StringSerializer,
        ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG: StringSerializer,
    }
    with Producer(settings) as producer:
        assert producer.send("one", "v", "k").result(10).offset == 0


# --- doSend, step by step


@pytest.mark.shows("S4.1", breaks="barnabas.client.producer.append:_serialized")
@pytest.mark.shows("S4.3", breaks="barnabas.client.producer.append:_serialized")
@pytest.mark.shows("S4.33", breaks="barnabas.client.producer.sender_thread:SenderThread.run")
def test_a_record_passes_serializer_partitioner_and_accumulator_on_the_callers_thread_and_the_sender_on_its_own(
    broker: StoringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[str, bool]] = []
    caller = threading.get_ident()

    def note(step: str) -> None:
        steps.append((step, threading.get_ident() == caller))

    class Chooser:
        def partition(self, *_: Any) -> int:
            note("partition")
            return 2

    def serialize(value: str) -> bytes:
        note(f"serialize {value}")
        return value.encode()

    plain_append, plain_drain = RecordAccumulator.append_nowait, RecordAccumulator.drain

    def append(self: Any, *args: Any, **kwargs: Any) -> Any:
        note("append")
        return plain_append(self, *args, **kwargs)

    def drain(self: Any, *args: Any) -> Any:
        drained = plain_drain(self, *args)
        if any(drained.values()):
            note("drain")
        return drained

    monkeypatch.setattr(RecordAccumulator, "append_nowait", append)
    monkeypatch.setattr(RecordAccumulator, "drain", drain)
    settings: dict[str, Any] = {"key_serializer": serialize, "value_serializer": serialize, "max_block_ms": 20_000}
    with connect(broker, partitioner_class=Chooser, **settings) as producer:
        assert producer.send("test", "value", "key").result(20).partition == 2

    assert steps[:3] == [("serialize key", True), ("serialize value", True), ("partition", True)]
    assert ("append", True) in steps
    assert steps[-1] == ("drain", False)


@pytest.mark.shows("S4.34", breaks="barnabas.client.producer.sender:Sender.run_once")
def test_the_sender_thread_repeats_run_once(broker: StoringBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, plain = [0], Sender.run_once

    def counted(self: Sender, now: float) -> None:
        turns[0] += 1
        plain(self, now)

    monkeypatch.setattr(Sender, "run_once", counted)
    producer = connect(broker, linger_ms=0, max_block_ms=2000)
    try:
        for _ in range(3):
            producer.send("one", b"v").result(3)
    finally:
        producer.close(1)

    assert turns[0] > 3


@pytest.mark.shows("S4.4", breaks="barnabas.client.producer.producer_core:ProducerCore._metadata_timeout")
def test_send_waits_for_the_topics_metadata_before_it_serializes_up_to_max_block_ms(broker: StoringBroker) -> None:
    serialized: list[str] = []

    def serialize(value: str) -> bytes:
        serialized.append(value)
        return value.encode()

    with connect(broker, max_block_ms=150, value_serializer=serialize) as producer:
        started = time.monotonic()
        future = producer.send("no-such-topic", "v")
        waited = time.monotonic() - started

        assert 0.1 < waited < 5
        with pytest.raises(KafkaTimeoutError, match="no-such-topic"):
            future.result(0)
        assert serialized == []


@pytest.mark.shows("S3.38", breaks="barnabas.client.serializers:apply_serializer")
@pytest.mark.shows("S4.2", breaks="barnabas.client.serializers:apply_serializer")
@pytest.mark.shows("S4.5", breaks="barnabas.client.serializers:apply_serializer")
@pytest.mark.shows("S4.6", breaks="barnabas.client.serializers:resolve_serializer")
def test_key_and_value_pass_the_serializers_of_the_settings_and_travel_as_bytes(broker: StoringBroker) -> None:
    with connect(broker, key_serializer="LongSerializer", value_serializer=str) as producer:
        metadata = producer.send("one", "text", 7).result(10)

    ((_, stored),) = broker.records
    assert (stored.key, stored.value) == (b"\0" * 7 + b"\7", b"text")
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (8, 4)


def test_text_without_a_serializer_is_refused_at_once_and_names_the_setting(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        with pytest.raises(SerializationError, match="value_serializer"):
            producer.send("one", "text")
        with pytest.raises(SerializationError, match="key_serializer"):
            producer.send("one", b"v", "text")
    assert broker.records == []


@pytest.mark.shows("S3.37", breaks="barnabas.client.producer.append:_checked_partition")
@pytest.mark.shows("S4.9", breaks="barnabas.client.producer.append:_checked_partition")
def test_a_given_partition_is_used_as_it_is(broker: StoringBroker) -> None:
    with connect(broker, max_block_ms=1000) as producer:
        for partition in (1, 0, 2):
            assert producer.send("test", b"v", b"same key", partition=partition).result(10).partition == partition

    assert [partition for partition, _ in broker.records] == [1, 0, 2]


def test_a_partition_that_does_not_exist_fails_the_record_after_max_block_ms(broker: StoringBroker) -> None:
    with connect(broker, max_block_ms=100) as producer:
        error = producer.send("test", b"v", partition=3).exception(0)

    assert isinstance(error, KafkaTimeoutError)
    assert "has 3 partitions, none numbered 3" in str(error)


@pytest.mark.shows("S3.42", breaks=HASH)
@pytest.mark.shows("S4.10", breaks=HASH)
@pytest.mark.shows("S4.12", breaks=HASH)
@pytest.mark.shows("S3.31", breaks=HASH)
def test_without_a_partition_the_key_decides_and_without_a_key_the_sticky_partition(broker: StoringBroker) -> None:
    keys = [b"key-%d" % n for n in range(20)]
    with connect(broker, linger_ms=50) as producer:
        keyed = [producer.send("test", b"v", key) for key in keys]
        unkeyed = [producer.send("test", b"v") for _ in range(20)]
        producer.flush(10)

    # As Kafka's partitioner (murmur2) places them.
    assert [future.result(0).partition for future in keyed] == [
        1,
        0,
        2,
        2,
        0,
        2,
        2,
        1,
        1,
        0,
        2,
        1,
        2,
        1,
        1,
        0,
        1,
        0,
        2,
        0,
    ]
    assert len({future.result(0).partition for future in unkeyed}) == 1


@pytest.mark.shows("S4.11", breaks="barnabas.client.producer.producer_core:ProducerCore._partition")
def test_a_custom_partitioner_sees_the_record_and_is_told_of_new_batches(broker: StoringBroker) -> None:
    told: list[Any] = []

    class Mine:
        def partition(self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any) -> int:
            told.append((topic, key, key_bytes, value, value_bytes, cluster.partition_count_for_topic(topic)))
            return 1

        def on_new_batch(self, topic: str, cluster: Any, previous: int) -> None:
            told.append(("new batch", topic, previous))

        def close(self) -> None:
            told.append("closed")

    with connect(broker, partitioner_class=Mine, key_serializer=str, value_serializer=str) as producer:
        assert producer.send("test", "v", "k").result(10).partition == 1

    assert told[0] == ("test", "k", b"k", "v", b"v", 3)
    assert ("new batch", "test", 1) in told
    assert told[-1] == "closed"


def test_a_partitioner_that_chooses_nonsense_is_named(broker: StoringBroker) -> None:
    class Wrong:
        def partition(self, *_: Any) -> int:
            return 3

    with (
        connect(broker, partitioner_class=Wrong) as producer,
        pytest.raises(errors.IllegalArgumentError, match="Wrong chose partition 3 of topic 'test', which has 0 to 2"),
    ):
        producer.send("test", b"v")


@pytest.mark.shows("S3.44", breaks="barnabas.client.producer.producer_config:ProducerConfig.partitioner")
@pytest.mark.parametrize("name", ["RoundRobinPartitioner", "UniformStickyPartitioner"])
def test_the_named_partitioners_are_chosen_by_name(broker: StoringBroker, name: str) -> None:
    java = f"org.apache.kafka.clients.producer.{name}"
    with connect(broker, partitioner_class=java, linger_ms=50) as producer:
        futures = [producer.send("test", b"v", b"same key") for _ in range(9)]
        producer.flush(10)

    used = [future.result(0).partition for future in futures]
    assert used == [0, 1, 2] * 3 if name == "RoundRobinPartitioner" else len(set(used)) == 1


def test_keys_can_be_ignored_so_that_all_records_fill_the_sticky_partitions_batch(broker: StoringBroker) -> None:
    with connect(broker, partitioner_ignore_keys=True, linger_ms=50) as producer:
        futures = [producer.send("test", b"v", b"key-%d" % n) for n in range(20)]
        producer.flush(10)

    assert len({future.result(0).partition for future in futures}) == 1
    assert [count for request in broker.requests for _, count in request] == [20]


@pytest.mark.shows("S4.19", breaks="barnabas.client.producer.append:SendPath._too_large")
@pytest.mark.shows("S4.20", breaks="barnabas.client.producer.append:SendPath._too_large")
@pytest.mark.shows("S4.22", breaks="barnabas.client.producer.producer_core:ProducerCore.failed")
@pytest.mark.parametrize("limit", ["max_request_size", "buffer_memory"])
def test_a_record_over_a_limit_fails_through_future_and_callback_before_it_is_appended(
    broker: StoringBroker, limit: str
) -> None:
    seen: list[Any] = []
    with connect(broker, **{limit: 20_000}) as producer:
        future = producer.send("one", b"x" * 20_000, on_delivery=lambda metadata, error: seen.append((metadata, error)))

        assert future.done()
        with pytest.raises(RecordTooLargeError, match=limit.replace("_", r"\.")):
            future.result(0)
        assert seen == [(RecordMetadata("one", -1, -1), future.exception(0))]
        assert producer.metrics()["record-error-total"] == 1
        assert producer.send("one", b"x" * 19_000).exception(10) is None


@pytest.mark.shows("S3.43", breaks="barnabas.client.producer.record_accumulator:RecordAccumulator.append_nowait")
def test_records_gather_and_go_out_as_batches(broker: StoringBroker) -> None:
    with connect(broker, linger_ms=100) as producer:
        for number in range(500):
            producer.send("one", b"%d" % number)
        producer.flush(10)

    assert broker.values == [b"%d" % number for number in range(500)]
    assert len(broker.requests) < 5


def test_the_sender_is_woken_by_a_new_batch_and_by_a_full_one_and_by_nothing_else(
    broker: StoringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(broker, linger_ms=60_000, batch_size=2000) as producer:
        producer.partitions_for("one")
        sent: list[Any] = []
        woken: list[int] = []
        monkeypatch.setattr(producer._core.parts.client, "wakeup", lambda: woken.append(len(sent)))
        for _ in range(40):
            sent.append(producer.send("one", b"x" * 100))
        monkeypatch.undo()
        producer.flush(10)

    # The first record of each batch: what makes a new batch tells that the one before is full.
    assert [count for request in broker.requests for _, count in request] == [17, 17, 6]
    assert woken == [0, 17, 34]


def test_full_memory_blocks_send_until_the_broker_answers(broker: StoringBroker) -> None:
    broker.gate.clear()
    with connect(broker, batch_size=1000, buffer_memory=4000, linger_ms=0) as producer:
        threading.Timer(0.2, broker.gate.set).start()
        started = time.monotonic()
        futures = [producer.send("one", b"x" * 900) for _ in range(8)]
        assert time.monotonic() - started > 0.1
        assert all(future.exception(10) is None for future in futures)


def test_full_memory_fails_the_record_after_max_block_ms(broker: StoringBroker) -> None:
    broker.gate.clear()
    producer = connect(broker, batch_size=1000, buffer_memory=2000, linger_ms=0, max_block_ms=500)
    futures = [producer.send("one", b"x" * 900) for _ in range(4)]
    broker.gate.set()
    producer.close()

    assert [type(future.exception(0)) for future in futures[:2]] == [type(None)] * 2
    assert isinstance(futures[-1].exception(0), errors.BufferExhaustedError)


# --- headers, timestamps


def test_headers_and_timestamps_travel_and_headers_turn_read_only(broker: StoringBroker) -> None:
    headers = RecordHeaders([("a", b"1")]).add("b", None)
    record = ProducerRecord("one", b"v", headers=headers, timestamp_ms=123)
    with connect(broker) as producer:
        producer.send(record).result(10)
        producer.send("one", b"v", headers={"c": b"2"}).result(10)

    first, second = (stored for _, stored in broker.records)
    assert (list(first.headers), first.timestamp) == ([("a", b"1"), ("b", None)], 123)
    assert list(second.headers) == [("c", b"2")]
    assert abs(second.timestamp - time.time() * 1000) < 60_000
    with pytest.raises(IllegalStateError):
        headers.add("late", b"")


class Moment:
    """A number that is no int, such as numpy's."""

    def __index__(self) -> int:
        return 456


def test_a_timestamp_is_any_whole_number(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        producer.send("one", b"v", timestamp_ms=Moment()).result(10)  # type: ignore[arg-type]  # what is no int to mypy
        with pytest.raises(TypeError):
            producer.send("one", b"v", timestamp_ms=1.5)  # type: ignore[arg-type]  # refused at run time

    assert [stored.timestamp for _, stored in broker.records] == [456]
