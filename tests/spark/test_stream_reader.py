"""The driver's side of a stream, asked as Spark asks it, on a real broker; no Spark session is needed."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMinRows
from pyspark.sql.types import BinaryType, StructType

from barnabas import AdminClient, NewTopic, Producer, TopicPartition
from barnabas.errors import KafkaError, UnknownTopicOrPartitionError
from barnabas.spark.data_source import BarnabasDataSource
from barnabas.spark.errors import DataLossError, OptionError
from barnabas.spark.offset_reader import OffsetReader
from barnabas.spark.options import SourceOptions
from barnabas.spark.stream_reader import KafkaStreamReader

NewTopicName = Callable[[int], str]
ALL = ReadAllAvailable()
COMMIT = "barnabas.spark.stream_reader:KafkaStreamReader.commit"


def send(servers: str, topic: str, *values: bytes, **fields: Any) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value, **fields)


def options(servers: str, topic: str, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **more}
    return SourceOptions(given, streaming=True)


@pytest.fixture
def reader_of() -> Any:
    """Makes readers, and stops them at the end."""
    readers: list[KafkaStreamReader] = []

    def create(servers: str, topic: str, **more: str) -> KafkaStreamReader:
        readers.append(KafkaStreamReader(options(servers, topic, **more)))
        return readers[-1]

    yield create
    for reader in readers:
        reader.stop()


def settle(reader: KafkaStreamReader) -> None:
    """Let the answers that are reused for 20 ms grow old."""
    time.sleep(0.03)


def rows_of(reader: KafkaStreamReader, start: Any, end: Any) -> list[bytes]:
    tasks = pickle.loads(pickle.dumps((reader, list(reader.partitions(start, end)))))
    return sorted(
        value
        for partition in tasks[1]
        for batch in tasks[0].read(partition)
        for value in batch.column("value").to_pylist()
    )


@pytest.mark.shows("S0.2", breaks="barnabas.spark.options:SourceOptions.__init__")
@pytest.mark.shows("S0.6", breaks="barnabas.spark.data_source:BarnabasDataSource.streamReader")
def test_the_data_source_makes_a_stream_reader_of_servers_group_and_topic() -> None:
    given = {"kafka.bootstrap.servers": "localhost:9092", "kafka.group.id": "test", "subscribe": "topic"}

    reader = BarnabasDataSource({**given, "columns": "value"}).streamReader(StructType().add("value", BinaryType()))

    assert isinstance(reader, DataSourceStreamReader)
    assert reader.options.client == {"bootstrap.servers": "localhost:9092", "group.id": "test"}
    assert reader.options.strategy().topics == {"topic"}


def test_a_schema_of_the_users_own_is_refused() -> None:
    source = BarnabasDataSource({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "topic"})

    with pytest.raises(OptionError, match=r"fixed.* key binary, value binary, .*, not value string; leave \.schema"):
        source.reader(StructType().add("value", "string"))


@pytest.mark.parametrize(
    "named", [{"subscribe": "no-such-topic"}, {"assign": '{"no-such-topic":[0]}'}], ids=["subscribe", "assign"]
)
def test_a_topic_that_does_not_exist_is_an_error_where_a_query_begins(servers: str, named: dict[str, str]) -> None:
    given = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "1"}
    reader = KafkaStreamReader(SourceOptions({**given, **named}, streaming=True))

    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic does not exist on the brokers"):
        reader.initialOffset()

    reader.stop()


@pytest.mark.shows("S0.7", breaks="barnabas.spark.stream_reader:KafkaStreamReader.latestOffset")
@pytest.mark.shows("S0.14", breaks="barnabas.spark.fetch_loop:_fetcher")
@pytest.mark.shows("S0.26", breaks="barnabas.spark.kafka_fetcher:KafkaFetcher.run_fetch_loop")
def test_each_micro_batch_is_planned_on_the_driver_and_read_by_tasks_until_its_end(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(2)
    reader = reader_of(servers, topic)
    start = reader.initialOffset()
    batches = []

    for values in ([b"1", b"2", b"3"], [b"4"], [b"5", b"6"]):
        send(servers, topic, *values)
        settle(reader)
        end = reader.latestOffset(start, ALL)
        batches.append(rows_of(reader, start, end))
        start = end

    assert batches == [[b"1", b"2", b"3"], [b"4"], [b"5", b"6"]]


@pytest.mark.parametrize(
    ("more", "tasks"), [({}, 1), ({"minRecordsPerPartition": "2"}, 2), ({"minRecordsPerPartition": "0"}, 4),
                        ({"minPartitions": "4"}, 4)]
)  # fmt: skip
def test_few_records_of_many_partitions_are_one_tasks_work_unless_the_query_says_otherwise(
    servers: str, new_topic: NewTopicName, reader_of: Any, more: dict[str, str], tasks: int
) -> None:
    topic = new_topic(4)
    for partition in range(4):
        send(servers, topic, b"%d" % partition, partition=partition)
    reader = reader_of(servers, topic, **more)
    start = reader.initialOffset()

    end = reader.latestOffset(start, ALL)

    assert len(reader.partitions(start, end)) == tasks
    assert rows_of(reader, start, end) == [b"0", b"1", b"2", b"3"]


@pytest.mark.shows("S0.12", breaks="barnabas.spark.stream_reader:KafkaStreamReader.partitions")
def test_a_task_emits_nothing_beyond_the_end_that_spark_has_written_down(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(1)
    send(servers, topic, b"1", b"2", b"3")
    reader = reader_of(servers, topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)  # Spark writes this to its log before any task runs

    send(servers, topic, b"4")

    assert rows_of(reader, {topic: {"0": 1}}, end) == [b"2", b"3"]


def test_too_few_records_wait_unless_everything_is_asked_for(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(1)
    send(servers, topic, b"1")
    reader = reader_of(servers, topic, minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)

    send(servers, topic, b"2")
    settle(reader)
    held_back, all_of_it = reader.latestOffset(first, limit), reader.latestOffset(first, ALL)
    send(servers, topic, b"3", b"4")
    settle(reader)

    assert limit == ReadMinRows(3)
    assert (first, held_back, all_of_it) == ({topic: {"0": 1}}, {topic: {"0": 1}}, {topic: {"0": 2}})
    assert reader.latestOffset(first, limit) == {topic: {"0": 4}}


def recreate(servers: str, topic: str) -> None:
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic])
        deadline = time.monotonic() + 20
        while True:
            created = admin.create_topics([NewTopic(topic, num_partitions=1)], raise_errors=False)
            if not created.errors:
                return
            assert time.monotonic() < deadline, created.errors
            time.sleep(0.05)


def test_a_topic_that_was_created_again_is_known_by_its_id_even_when_it_has_grown_larger(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(1)
    send(servers, topic, b"old")
    strict, lenient = reader_of(servers, topic), reader_of(servers, topic, failOnDataLoss="false")
    start = strict.latestOffset(strict.initialOffset(), ALL)
    assert lenient.latestOffset(lenient.initialOffset(), ALL) == start

    recreate(servers, topic)
    send(servers, topic, b"new-1", b"new-2", b"new-3")
    settle(strict)

    with pytest.raises(DataLossError, match=r"deleted and created again.*failOnDataLoss=false"):
        strict.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ALL)
    assert end == {topic: {"0": 3}}
    assert rows_of(lenient, start, end) == [b"new-1", b"new-2", b"new-3"]


def test_lost_offsets_are_passed_over_when_data_loss_is_allowed(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(1)
    send(servers, topic, b"1", b"2", b"3")
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 2})
    span = ({topic: {"0": 0}}, {topic: {"0": 3}})

    with pytest.raises(DataLossError, match=f"offsets 0 to 2 of {topic}-0 are gone"):
        rows_of(reader_of(servers, topic), *span)

    assert rows_of(reader_of(servers, topic, failOnDataLoss="false"), *span) == [b"3"]
    beyond = ({topic: {"0": 7}}, {topic: {"0": 9}})
    assert rows_of(reader_of(servers, topic, failOnDataLoss="false"), *beyond) == []


@pytest.mark.shows("S0.22", breaks=COMMIT)
@pytest.mark.parametrize(("mode", "committed"), [("disabled", [None, None]), ("onCheckpoint", [1, 2]),
                                                 ("periodic", [1, 1])])  # fmt: skip
def test_finished_micro_batches_are_committed_to_the_group_as_the_mode_says(
    servers: str, new_topic: NewTopicName, reader_of: Any, mode: str, committed: list[int | None]
) -> None:
    topic, group = new_topic(1), f"group-{mode}"
    settings = {"kafka.group.id": group, "offsetCommitMode": mode, "offsetCommitIntervalMs": "60000"}
    reader = reader_of(servers, topic, **settings)
    partition = TopicPartition(topic, 0)
    found = []

    with AdminClient(bootstrap_servers=servers) as admin:
        for offset in (1, 2):
            reader.commit({topic: {"0": offset}})
            position = admin.list_consumer_group_offsets(group, [partition]).get(partition)
            found.append(None if position is None else position.offset)

    assert found == committed


def test_a_query_resumes_where_its_group_has_got_to_and_reads_the_rest_from_the_beginning(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        send(servers, topic, b"1", b"2", b"3", partition=partition)
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.alter_consumer_group_offsets(f"group-{topic}", {TopicPartition(topic, 1): 2})

    reader = reader_of(servers, topic, startingOffsets="group", **{"kafka.group.id": f"group-{topic}"})

    assert reader.initialOffset() == {topic: {"0": 0, "1": 2}}


@pytest.mark.shows("S0.24", breaks="barnabas.spark.offset_reader:OffsetReader._discover")
@pytest.mark.shows("S0.25", breaks="barnabas.spark.offset_reader:OffsetReader.partitions")
@pytest.mark.parametrize(("interval", "seen"), [("-1", 1), ("3600000", 1), ("0", 2)])
def test_new_partitions_are_looked_for_at_the_interval_or_never(
    servers: str, new_topic: NewTopicName, interval: str, seen: int
) -> None:
    topic = new_topic(1)
    reader = OffsetReader(options(servers, topic, partitionDiscoveryIntervalMs=interval))
    reader.latest()

    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_partitions({topic: 2})
    time.sleep(0.03)

    assert len(reader.latest()) == seen
    reader.close()


def test_times_become_offsets_and_a_time_without_records_is_an_error_or_the_end(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(2)
    for time_ms in (1000, 2000, 3000):
        send(servers, topic, b"x", partition=0, timestamp_ms=time_ms)
        send(servers, topic, b"x", partition=1, timestamp_ms=time_ms + 500)
    each = f'{{"{topic}":{{"0":3000,"1":1000}}}}'

    assert reader_of(servers, topic, startingTimestamp="1600").initialOffset() == {topic: {"0": 1, "1": 1}}
    assert reader_of(servers, topic, startingOffsetsByTimestamp=each).initialOffset() == {topic: {"0": 2, "1": 0}}
    with pytest.raises(OptionError, match=rf"startingTimestamp=3200: {topic}-0 has no record"):
        reader_of(servers, topic, startingTimestamp="3200").initialOffset()
    lenient = {"startingTimestamp": "3200", "startingOffsetsByTimestampStrategy": "latest"}
    assert reader_of(servers, topic, **lenient).initialOffset() == {topic: {"0": 3, "1": 2}}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_offsets_that_hold_only_markers_and_aborted_records_are_passed_over(
    servers: str, new_topic: NewTopicName, reader_of: Any, isolation: str
) -> None:
    topic = new_topic(1)
    with Producer(bootstrap_servers=servers, transactional_id=f"t-{topic}") as producer:
        producer.init_transactions()
        for value, end in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(topic, value).result()
            end()
    reader = reader_of(servers, topic, **{"kafka.isolation.level": isolation})
    deadline = time.monotonic() + 20
    while reader._cluster().latest(fresh=True) != {TopicPartition(topic, 0): 4} and time.monotonic() < deadline:
        time.sleep(0.05)  # markers are written after the answer

    ranges = [({topic: {"0": first}}, {topic: {"0": first + 1}}) for first in range(4)]

    aborted = [b"2"] if isolation == "read_uncommitted" else []
    assert [rows_of(reader, *span) for span in ranges] == [[b"1"], [], aborted, []]


def test_a_pattern_goes_on_with_new_topics_when_others_are_deleted_and_data_loss_is_allowed(
    servers: str, new_topic: NewTopicName
) -> None:
    kept, deleted = new_topic(1), new_topic(1)
    given = {
        "kafka.bootstrap.servers": servers, "subscribePattern": f"^({kept}|{deleted}|new-{kept})$",
        "startingOffsets": "earliest",
    }  # fmt: skip
    readers = [
        KafkaStreamReader(SourceOptions({**given, "failOnDataLoss": wanted}, streaming=True))
        for wanted in ("false", "true")
    ]
    send(servers, deleted, b"1")
    for reader in readers:
        start = reader.latestOffset(reader.initialOffset(), ALL)
    assert start == {kept: {"0": 0}, deleted: {"0": 1}}

    with AdminClient(bootstrap_servers=servers) as admin:
        admin.delete_topics([deleted])
        admin.create_topics([NewTopic(f"new-{kept}", num_partitions=1)])
        deadline = time.monotonic() + 20
        while deleted in admin.list_topics() and time.monotonic() < deadline:
            time.sleep(0.05)
    send(servers, kept, b"2")
    send(servers, f"new-{kept}", b"3")
    settle(readers[0])

    end = readers[0].latestOffset(start, ALL)
    assert rows_of(readers[0], start, end) == [b"2", b"3"]
    with pytest.raises(DataLossError, match=f"{deleted}-0 no longer exists"):
        readers[1].latestOffset(start, ALL)
    for reader in readers:
        reader.stop()


def asked(reader: KafkaStreamReader, start: Any, seconds: float) -> int:
    """Ask as Spark asks an idle query, over and over; how often that was."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        reader.latestOffset(start, ALL)
        count += 1
        time.sleep(0.01)
    return count


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "barnabas.spark"]


def test_a_loss_is_warned_of_once_for_each_partition_and_again_when_it_happens_again(
    servers: str, new_topic: NewTopicName, reader_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic, other = new_topic(2), new_topic(1)
    send(servers, topic, b"a", partition=0)
    reader = reader_of(servers, f"{topic},{other}", failOnDataLoss="false", **{"fetchOffset.retryIntervalMs": "1"})
    start = reader.initialOffset()
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic])
        settle(reader)

        assert asked(reader, start, 1.5) > 10
        assert sorted(line.split()[1] for line in warnings_of(caplog)) == [f"{topic}-0", f"{topic}-1"]

        admin.create_topics([NewTopic(topic, num_partitions=2)])
        asked(reader, start, 0.5)
        caplog.clear()
        admin.delete_topics([topic])
        asked(reader, start, 0.5)
    gone = [line for line in warnings_of(caplog) if "no longer exists" in line]
    assert sorted(line.split()[1] for line in gone) == [f"{topic}-0", f"{topic}-1"]


def test_a_topic_that_the_option_no_longer_selects_is_not_said_to_be_gone(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    read_before, read_now = new_topic(1), new_topic(1)
    checkpoint = {read_before: {"0": 3}, read_now: {"0": 0}}
    reader = reader_of(servers, read_now)

    with pytest.raises(DataLossError, match=f"the checkpoint has {read_before}-0, .*subscribe={read_now} does not sel"):
        reader.latestOffset(checkpoint, ALL)


def test_periodic_commits_are_made_up_while_no_more_data_comes(
    servers: str, new_topic: NewTopicName, reader_of: Any
) -> None:
    topic = new_topic(1)
    send(servers, topic, b"a", b"b")
    group = f"group-of-{topic}"
    more = {"offsetCommitMode": "periodic", "offsetCommitIntervalMs": "300", "kafka.group.id": group}
    reader = reader_of(servers, topic, **more)
    reader.commit({topic: {"0": 1}})
    reader.commit({topic: {"0": 2}})

    asked(reader, {topic: {"0": 2}}, 0.6)

    with AdminClient(bootstrap_servers=servers) as admin:
        assert admin.list_consumer_group_offsets(group)[TopicPartition(topic, 0)].offset == 2


def test_a_commit_that_keeps_failing_is_warned_of_once_and_its_success_too(
    servers: str, new_topic: NewTopicName, reader_of: Any, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    topic = new_topic(1)
    reader = reader_of(servers, topic, offsetCommitMode="onCheckpoint", **{"kafka.group.id": f"group-of-{topic}"})
    with monkeypatch.context() as broken:
        broken.setattr(OffsetReader, "commit", raising(KafkaError("the group has members")))
        for offset in range(5):
            reader.commit({topic: {"0": offset}})
    reader.commit({topic: {"0": 5}})

    assert [line.rpartition(" ")[2] for line in warnings_of(caplog)] == ["members", "again"]


def raising(error: Exception) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise error

    return call
