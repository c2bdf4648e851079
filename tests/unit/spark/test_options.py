"""What the source and the sink accept as options, and what they say about the rest."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("pyspark")

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.fetch_loop import consumer_settings
from barnabas.spark.offsets import EARLIEST, LATEST
from barnabas.spark.options import SinkOptions, SourceOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
GIVEN = {**SERVERS, "subscribe": "t"}


def test_a_streaming_source_begins_at_latest_and_a_batch_at_earliest() -> None:
    options = {**SERVERS, "subscribe": "flights"}

    streaming, batch = SourceOptions(options, streaming=True), SourceOptions(options, streaming=False)

    assert streaming.starting.everywhere == LATEST
    assert batch.starting.everywhere == EARLIEST
    assert batch.ending.everywhere == LATEST


def test_option_names_are_not_case_sensitive() -> None:
    options = SourceOptions({**SERVERS, "SUBSCRIBE": "a", "maxOFFSETSperTrigger": "7"}, streaming=True)

    assert options.strategy().topics == {"a"}
    assert options.max_offsets_per_trigger == 7


def test_kafka_settings_are_passed_on_without_their_prefix() -> None:
    options = SourceOptions({**SERVERS, "subscribe": "a", "kafka.isolation.level": "read_committed"}, streaming=True)

    assert options.client == {"bootstrap.servers": "localhost:9092", "isolation.level": "read_committed"}


def test_specific_offsets_are_read_per_partition() -> None:
    options = SourceOptions({**SERVERS, "subscribe": "a", "startingOffsets": '{"a":{"0":23,"1":-2}}'}, streaming=True)

    assert options.starting.specific == {TopicPartition("a", 0): 23, TopicPartition("a", 1): EARLIEST}


def test_options_travel_to_the_tasks_by_pickle() -> None:
    options = SourceOptions({**SERVERS, "subscribePattern": "fl.*"}, streaming=True)

    copy = pickle.loads(pickle.dumps(options))

    assert copy.strategy().partitions({"flights": [0], "weather": [0]}) == [TopicPartition("flights", 0)]


@pytest.mark.parametrize(
    ("options", "streaming", "words"),
    [
        ({"subscribe": "a"}, True, ["kafka.bootstrap.servers", "missing"]),
        (SERVERS, True, ["subscribe", "subscribePattern", "assign", "none"]),
        ({**SERVERS, "subscribe": "a", "assign": '{"a":[0]}'}, True, ["several", "assign", "subscribe"]),
        ({**SERVERS, "subscribe": " , "}, True, ["subscribe", "no topic"]),
        ({**SERVERS, "subscribePattern": "("}, True, ["subscribePattern", "regular expression"]),
        ({**SERVERS, "assign": "a:0"}, True, ["assign", "a:0"]),
        ({**SERVERS, "subscribe": "a", "startingOffsets": "first"}, True, ["startingOffsets", "first", "earliest"]),
        ({**SERVERS, "subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, True, ["startingOffsets", "-3"]),
        ({**SERVERS, "subscribe": "a", "startingOffsets": "latest"}, False, ["startingOffsets", "batch"]),
        ({**SERVERS, "subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'}, False, ["startingOffsets", "batch"]),
        ({**SERVERS, "subscribe": "a", "endingOffsets": "latest"}, True, ["endingOffsets", "batch"]),
        ({**SERVERS, "subscribe": "a", "endingOffsets": "earliest"}, False, ["endingOffsets", "earliest"]),
        ({**SERVERS, "subscribe": "a", "maxOffsetsPerTrigger": "0"}, True, ["maxOffsetsPerTrigger", "at least 1"]),
        ({**SERVERS, "subscribe": "a", "failOnDataLoss": "no"}, True, ["failOnDataLoss", "true or false"]),
        ({**SERVERS, "subscribe": "a", "maxOffsetPerTrigger": "5"}, True, ["did you mean maxoffsetspertrigger"]),
        ({**SERVERS, "subscribe": "a", "minOffsetsPerTrigger": "0"}, True, ["minOffsetsPerTrigger", "'0'"]),
        (
            {**SERVERS, "subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            True,
            ["minOffsetsPerTrigger=9", "maxOffsetsPerTrigger=5"],
        ),
        ({**SERVERS, "subscribe": "a", "maxTriggerDelay": "soon"}, True, ["maxTriggerDelay", "soon", "15m"]),
        ({**SERVERS, "subscribe": "a", "maxRecordsPerPartition": "x"}, False, ["maxRecordsPerPartition", "'x'"]),
        (
            {**SERVERS, "subscribe": "a", "minRecordsPerPartition": "9", "minPartitions": "5"},
            True,
            ["minRecordsPerPartition=9", "minPartitions"],
        ),
        ({**SERVERS, "subscribe": "a", "startingTimestamp": "-5"}, True, ["startingTimestamp", "-5", "milliseconds"]),
        ({**SERVERS, "subscribe": "a", "endingTimestamp": "5"}, True, ["endingTimestamp", "batch"]),
        ({**SERVERS, "subscribe": "a", "startingOffsetsByTimestamp": "5"}, True, ["startingOffsetsByTimestamp", "'5'"]),
        (
            {**SERVERS, "subscribe": "a", "startingOffsetsByTimestamp": '{"a":{"0":-1}}'},
            True,
            ["startingOffsetsByTimestamp", "-1", "no time"],
        ),
        (
            {**SERVERS, "subscribe": "a", "startingOffsetsByTimestampStrategy": "first"},
            True,
            ["startingOffsetsByTimestampStrategy", "first", "error or latest"],
        ),
        ({**SERVERS, "subscribe": "a", "startingOffsets": "group"}, True, ["startingOffsets", "kafka.group.id"]),
        ({**SERVERS, "subscribe": "a", "offsetCommitMode": "onCheckpoint"}, True, ["offsetCommitMode", "group.id"]),
        ({**SERVERS, "subscribe": "a", "offsetCommitMode": "often"}, True, ["offsetCommitMode", "often", "periodic"]),
        ({**SERVERS, "subscribe": "a", "columns": "value,size"}, True, ["columns", "size", "timestampType"]),
        ({**SERVERS, "subscribe": "a", "columns": "value", "includeHeaders": "true"}, True, ["columns", "headers"]),
        ({**SERVERS, "subscribe": "a", "kafka.fetch.min.byte": "5"}, True, ["fetch.min.byte", "fetch.min.bytes"]),
        ({**SERVERS, "subscribe": "a", "kafka.fetch.min.bytes": "few"}, True, ["kafka.fetch.min.bytes", "few"]),
        ({**SERVERS, "subscribe": "a", "partitionDiscoveryIntervalMs": "-2"}, True, ["partitionDiscoveryIntervalMs"]),
        ({**SERVERS, "subscribe": "a", "kafka.auto.offset.reset": "latest"}, True, ["startingOffsets"]),
        ({**SERVERS, "subscribe": "a", "kafka.enable.auto.commit": "true"}, True, ["checkpoint"]),
    ],
)
def test_a_wrong_option_is_named_with_its_value(options: dict[str, str], streaming: bool, words: list[str]) -> None:
    with pytest.raises(OptionError) as raised:
        SourceOptions(options, streaming=streaming)

    assert all(word in str(raised.value) for word in words), str(raised.value)


def test_a_sink_takes_its_topic_from_the_option() -> None:
    assert SinkOptions({**SERVERS, "topic": "delays"}).topic == "delays"


def test_a_sink_refuses_a_source_option() -> None:
    with pytest.raises(OptionError, match="startingoffsets"):
        SinkOptions({**SERVERS, "topic": "delays", "startingOffsets": "latest"})


def test_a_time_for_all_wins_over_times_by_partition_and_these_over_offsets() -> None:
    given = {**SERVERS, "subscribe": "a", "startingOffsets": "earliest"}
    times = {"startingOffsetsByTimestamp": '{"a":{"0":1370000000000}}'}

    offsets = SourceOptions(given, streaming=True).starting
    by_partition = SourceOptions({**given, **times}, streaming=True).starting
    for_all = SourceOptions({**given, **times, "startingTimestamp": "1380000000000"}, streaming=True).starting

    assert offsets.everywhere == EARLIEST
    assert by_partition.timestamps == {TopicPartition("a", 0): 1370000000000}
    assert for_all.timestamp == 1380000000000
    assert (by_partition.everywhere, for_all.everywhere, for_all.timestamps) == (None, None, {})


def test_without_a_match_by_time_a_query_ends_at_latest_and_begins_there_only_when_asked_to() -> None:
    given = {**SERVERS, "subscribe": "a", "startingTimestamp": "5", "endingTimestamp": "9"}

    strict = SourceOptions(given, streaming=False)
    lenient = SourceOptions({**given, "startingOffsetsByTimestampStrategy": "latest"}, streaming=False)

    assert (strict.starting.latest_without_match, strict.ending.latest_without_match) == (False, True)
    assert lenient.starting.latest_without_match


@pytest.mark.parametrize(
    ("value", "milliseconds"), [("250", 250), ("250ms", 250), ("30s", 30_000), ("15m", 900_000), ("2h", 7_200_000)]
)
def test_the_trigger_delay_is_a_time_in_javas_units(value: str, milliseconds: int) -> None:
    options = SourceOptions({**SERVERS, "subscribe": "a", "maxTriggerDelay": value}, streaming=True)

    assert options.max_trigger_delay_ms == milliseconds


def test_a_batch_query_says_that_it_ignores_what_is_for_streams(caplog: pytest.LogCaptureFixture) -> None:
    SourceOptions({**GIVEN, "maxOffsetsPerTrigger": "7"}, streaming=False)

    assert caplog.messages == ["option maxOffsetsPerTrigger='7' is ignored: it is for streaming queries"]


def test_columns_come_in_the_order_of_the_schema() -> None:
    options = SourceOptions({**SERVERS, "subscribe": "a", "columns": "offset, headers,value"}, streaming=True)

    assert options.columns == ("value", "offset", "headers")


def test_a_prefix_names_a_new_group_to_commit_to_unless_the_group_is_named() -> None:
    prefixed = {**GIVEN, "groupIdPrefix": "nightly", "offsetCommitMode": "periodic"}

    first, second = SourceOptions(prefixed, streaming=True), SourceOptions(prefixed, streaming=True)
    named = SourceOptions({**prefixed, "kafka.group.id": "tower"}, streaming=True)

    assert first.group_id is not None
    assert first.group_id.startswith("nightly-")
    assert first.group_id != second.group_id
    assert named.group_id == "tower"
    with pytest.raises(OptionError, match=r"startingOffsets='group' needs kafka\.group\.id"):
        SourceOptions({**prefixed, "startingOffsets": "group"}, streaming=True)


def test_a_tasks_consumer_stands_in_its_machines_rack_unless_the_query_names_one_and_joins_no_group() -> None:
    machine = {"BARNABAS_CLIENT_RACK": "rack-1"}

    assert consumer_settings({"group.id": "g"}, machine)["client.rack"] == "rack-1"
    assert consumer_settings({"client.rack": "rack-2"}, machine)["client.rack"] == "rack-2"
    assert not {"client.rack", "group.id"} & set(consumer_settings({"group.id": "g"}, {}))


@pytest.mark.parametrize(
    ("starting", "ending"),
    [
        ({"startingOffsets": '{"t":{"0":5}}'}, {"endingOffsets": '{"t":{"0":4}}'}),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5}}'}, {"endingOffsetsByTimestamp": '{"t":{"0":4}}'}),
    ],
)
def test_a_batch_that_ends_before_it_starts_is_refused_with_both_options(
    starting: dict[str, str], ending: dict[str, str]
) -> None:
    first, last = next(iter(starting)), next(iter(ending))

    with pytest.raises(OptionError, match=rf"5 of t-0 in {first} is greater than .* 4 in {last}"):
        SourceOptions({**GIVEN, **starting, **ending}, streaming=False)
