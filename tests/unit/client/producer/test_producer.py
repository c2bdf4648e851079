"""Producer as programs use it: a real Sender thread and real sockets, against a scripted broker that stores records."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import errors
from barnabas.client.producer.partitioner import partition_for_key
from barnabas.client.producer.producer import Producer
from barnabas.client.producer.producer_config import ProducerConfig
from barnabas.client.producer.producer_record import ProducerRecord, RecordHeaders
from barnabas.client.producer.record_accumulator import RecordAccumulator
from barnabas.client.producer.record_metadata import RecordMetadata
from barnabas.client.producer.sender import Sender
from barnabas.client.serializers import StringSerializer
from barnabas.errors import ConfigError, IllegalStateError, KafkaTimeoutError, RecordTooLargeError, SerializationError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.records import read_batches
from tests.support.network_fakes import ScriptedBroker, metadata_response
from tests.unit.client.producer.harness import produce_response
from tests.unit.forking import refused_in_a_child, where_it_can_fork

PRODUCER = "barnabas.client.producer.producer:Producer"
SEND_PATH = "barnabas.client.producer.append:SendPath._do_send"
TOPICS = {"test": 3, "one": 1}


class StoringBroker(ScriptedBroker):
    """Answers every request of a producer; keeps the records. `gate` holds Produce answers back while it is cleared."""

    def __init__(self) -> None:
        self.records: list[tuple[int, Any]] = []
        self.requests: list[list[tuple[int, int]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.topics = dict(TOPICS)
        super().__init__(
            {
                ApiKey.METADATA: lambda _: metadata_response([(1, self.host, self.port)], self.topics),
                ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(producer_id=1, producer_epoch=0),
                ApiKey.PRODUCE: self._produce,
            }
        )

    def _produce(self, request: Any) -> Any:
        self.gate.wait(20)
        seen = []
        for topic in request.topic_data:
            for data in topic.partition_data:
                for batch in read_batches(data.records):
                    seen.append((data.index, batch.record_count))
                    self.records += [(data.index, record) for record in batch]
        self.requests.append(seen)
        return produce_response(request) if request.acks else None

    @property
    def values(self) -> list[bytes]:
        return [record.value for _, record in self.records]


@pytest.fixture
def broker() -> Iterator[StoringBroker]:
    with StoringBroker() as started:
        yield started
        started.gate.set()


def connect(broker: StoringBroker, **settings: Any) -> Producer[Any, Any]:
    return Producer(bootstrap_servers=f"{broker.host}:{broker.port}", **settings)


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


@pytest.mark.shows("S4.1", breaks=SEND_PATH)
@pytest.mark.shows("S4.3", breaks=SEND_PATH)
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
    with connect(broker, key_serializer=serialize, value_serializer=serialize, partitioner_class=Chooser) as producer:
        assert producer.send("test", "value", "key").result(10).partition == 2

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
    with connect(broker, linger_ms=0) as producer:
        for _ in range(3):
            producer.send("one", b"v").result(10)

    assert turns[0] > 3


@pytest.mark.shows("S4.4", breaks="barnabas.client.producer.producer_core:ProducerCore._wait_for_cluster")
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


@pytest.mark.shows("S3.37", breaks=SEND_PATH)
@pytest.mark.shows("S4.9", breaks=SEND_PATH)
def test_a_given_partition_is_used_as_it_is(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        partitions = [producer.send("test", b"v", b"same key", partition=n).result(10).partition for n in (2, 0, 1)]

    assert partitions == [2, 0, 1]
    assert [partition for partition, _ in broker.records] == [2, 0, 1]


def test_a_partition_that_does_not_exist_fails_the_record_after_max_block_ms(broker: StoringBroker) -> None:
    with connect(broker, max_block_ms=100) as producer:
        error = producer.send("test", b"v", partition=3).exception(0)

    assert isinstance(error, KafkaTimeoutError)
    assert "has 3 partitions, none numbered 3" in str(error)


@pytest.mark.shows("S3.42", breaks=SEND_PATH)
@pytest.mark.shows("S4.8", breaks=SEND_PATH)
@pytest.mark.shows("S4.10", breaks=SEND_PATH)
@pytest.mark.shows("S4.12", breaks=SEND_PATH)
@pytest.mark.shows("S3.31", breaks=SEND_PATH)
def test_without_a_partition_the_key_decides_and_without_a_key_the_sticky_partition(broker: StoringBroker) -> None:
    keys = [b"key-%d" % n for n in range(20)]
    with connect(broker, linger_ms=50) as producer:
        keyed = [producer.send("test", b"v", key) for key in keys]
        unkeyed = [producer.send("test", b"v") for _ in range(20)]
        producer.flush(10)

    assert [future.result(0).partition for future in keyed] == [partition_for_key(key, 3) for key in keys]
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


@pytest.mark.shows("S3.49", breaks="barnabas.client.producer.partitioner:BuiltInPartitioner.peek_current_partition")
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


# --- flush, close


@pytest.mark.shows("S3.40", breaks=f"{PRODUCER}.flush")
def test_flush_sends_what_lingers_and_returns_when_all_of_it_is_done(broker: StoringBroker) -> None:
    with connect(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        futures = [producer.send("one", b"v") for _ in range(10)]
        assert not any(future.done() for future in futures)

        producer.flush(10)

        assert all(future.done() for future in futures)


def test_flush_with_a_timeout_says_what_is_left_and_the_records_go_on(broker: StoringBroker) -> None:
    broker.gate.clear()
    with connect(broker) as producer:
        future = producer.send("one", b"v")
        with pytest.raises(KafkaTimeoutError, match="1 records were not acknowledged within"):
            producer.flush(0.05)
        broker.gate.set()
        assert future.result(10).offset == 0


@pytest.mark.shows("S3.41", breaks=f"{PRODUCER}.close")
def test_a_closed_producer_takes_no_records_and_closing_twice_is_fine(broker: StoringBroker) -> None:
    producer = connect(broker)
    future = producer.send("one", b"v")
    producer.close()
    producer.close()

    assert future.result(0).offset == 0
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send("one", b"v")
    with pytest.raises(IllegalStateError):
        producer.partitions_for("one")


@pytest.mark.parametrize("timeout", [0, 0.1])
def test_close_with_a_timeout_fails_what_is_left_and_never_hangs(
    broker: StoringBroker, timeout: float, caplog: pytest.LogCaptureFixture
) -> None:
    broker.gate.clear()
    seen: list[Any] = []
    producer = connect(broker)
    futures = [producer.send("one", b"v", on_delivery=lambda _, error: seen.append(error)) for _ in range(3)]

    producer.close(timeout)

    assert ["closed before the record was acknowledged" in str(future.exception(0)) for future in futures] == [True] * 3
    assert len(seen) == 3
    assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]


def test_closing_from_a_callback_does_not_wait_for_itself(broker: StoringBroker) -> None:
    producer = connect(broker)
    closed = threading.Event()

    def on_delivery(*_: Any) -> None:
        producer.close()
        closed.set()

    producer.send("one", b"v", on_delivery=on_delivery)

    assert closed.wait(10)
    producer.close()


def test_flushing_from_a_callback_is_refused(broker: StoringBroker) -> None:
    seen: list[Any] = []
    with connect(broker) as producer:

        def on_delivery(*_: Any) -> None:
            try:
                producer.flush()
            except IllegalStateError as error:
                seen.append(error)

        producer.send("one", b"v", on_delivery=on_delivery).result(10)

    assert "callback" in str(seen[0])


def test_a_forgotten_producer_warns_and_ends_its_thread(broker: StoringBroker) -> None:
    producer = connect(broker)
    producer.send("one", b"v").result(10)
    thread = producer._thread

    with pytest.warns(ResourceWarning, match="never closed"):
        del producer
    thread.join(10)

    assert not thread.is_alive()


def test_records_that_are_unsent_when_the_process_ends_are_sent(broker: StoringBroker) -> None:
    program = (
        "from barnabas import Producer\n"
        f"producer = Producer(bootstrap_servers='{broker.host}:{broker.port}', linger_ms=9_000)\n"
        "for n in range(100): producer.send('one', b'%d' % n)\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)

    assert len(broker.records) == 100


# --- more


def test_records_without_key_survive_a_client_that_starts_again_from_its_bootstrap_servers(
    broker: StoringBroker,
) -> None:
    with connect(broker, linger_ms=0) as producer:
        producer.send("test", b"before").result(10)
        producer._core.parts.metadata.rebootstrap()
        producer.send("test", b"after").result(10)

    assert broker.values == [b"before", b"after"]


def test_many_threads_share_one_producer(broker: StoringBroker) -> None:
    with connect(broker, batch_size=500, linger_ms=0) as producer:

        def work(name: int) -> None:
            for number in range(300):
                producer.send("test", b"%d:%d" % (name, number), b"%d" % name)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(20)

    for name in range(4):
        mine = [value for value in broker.values if value.startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, number) for number in range(300)]


def test_a_future_can_be_awaited(broker: StoringBroker) -> None:
    async def send_and_await() -> str:
        return str(await producer.send("one", b"v"))

    with connect(broker) as producer:
        assert asyncio.run(send_and_await()) == "one-0@0"


def test_partitions_for_a_topic(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        assert [info.partition for info in producer.partitions_for("test")] == [0, 1, 2]


@where_it_can_fork
def test_a_forked_child_is_refused_and_does_not_disturb_the_parent(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        producer.send("one", b"before").result(10)
        said = refused_in_a_child(
            lambda: producer.send("one", b"child"),
            producer.flush,
            lambda: producer.partitions_for("one"),
            then=producer.close,
        )
        producer.send("one", b"after").result(10)

    assert len(said) == 3
    assert all("made before the process forked" in line for line in said)
    assert broker.values == [b"before", b"after"]


def test_metrics_count_what_was_sent(broker: StoringBroker) -> None:
    with connect(broker, linger_ms=50) as producer:
        for _ in range(10):
            producer.send("one", b"x" * 100)
        producer.flush(10)
    found = producer.metrics()

    assert (found["record-send-total"], found["records-per-request-avg"], found["requests-in-flight"]) == (10, 10, 0)
    # ApiVersions, Metadata and InitProducerId count too, as in Apache Kafka.
    assert found["request-total"] == found["response-total"] >= 4
    assert found["batch-size-avg"] > 1000
    assert found["record-queue-time-avg"] >= 0
    assert found["request-latency-max"] > 0
    assert found["buffer-available-bytes"] == found["buffer-total-bytes"] == 33554432


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enable_idempotence": True, "acks": "1"}, "acks=1 and enable.idempotence=true contradict"),
        ({"enable_idempotence": True, "retries": 0}, "retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"delivery_timeout_ms": 1000, "linger_ms": 500, "request_timeout_ms": 600}, "at least .* = 1100"),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactional.id needs enable.idempotence=true"),
        ({"transactional_id": "t", "acks": "1"}, "acks=1 and enable.idempotence=true contradict"),
        ({"transactional_id": ""}, "transactional.id"),
        ({"transaction_two_phase_commit_enable": True}, "needs a transactional.id"),
        (
            {"transactional_id": "t", "transaction_two_phase_commit_enable": True, "transaction_timeout_ms": 5},
            "transaction.timeout.ms has no meaning",
        ),
        ({"lingerms": 5}, "linger.ms"),
        ({"partitioner_class": "NoSuchPartitioner"}, "RoundRobinPartitioner"),
        ({"partitioner_class": object}, "no method partition"),
        ({"compression_type": "brotli"}, "compression.type"),
    ],
)
def test_settings_that_contradict_or_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Producer(bootstrap_servers="localhost:1", **settings)


def test_acks_without_idempotence_being_asked_for_turns_it_off(broker: StoringBroker) -> None:
    with connect(broker, acks="1") as producer:
        producer.send("one", b"v").result(10)

    assert all(header.request_api_key != ApiKey.INIT_PRODUCER_ID for header, _ in broker.received)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": 5}, errors.IllegalTypeError),
        ({"topic": "one", "partition": "0"}, errors.IllegalTypeError),
        ({"topic": "one", "partition": -1}, errors.IllegalArgumentError),
        ({"topic": "one", "headers": [("a", "text")]}, errors.IllegalTypeError),
        ({"topic": "one", "headers": ["ab c"]}, errors.IllegalTypeError),
        ({"topic": "one", "timestamp_ms": -5}, errors.IllegalArgumentError),
    ],
)
def test_arguments_that_make_no_sense_are_refused_and_nothing_is_sent(
    broker: StoringBroker, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with connect(broker) as producer:
        with pytest.raises(error):
            producer.send(**arguments)
        producer.flush(10)
        assert producer.metrics()["buffer-available-bytes"] == 33554432

    assert broker.records == []


# --- tables


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
