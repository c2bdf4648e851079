"""The options of the format, checked: names, defaults and meaning are the built-in connector's."""

from __future__ import annotations

import difflib
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.config.config_def import definitions
from barnabas.config.support import NOT_OF_SHARE_CONSUMERS
from barnabas.errors import ConfigError
from barnabas.spark.client_settings import ClientSettings
from barnabas.spark.co_partitions import CoPartitions, parse_co_partitions
from barnabas.spark.consumer_strategy import STRATEGIES, Strategy, parse_strategy
from barnabas.spark.errors import OptionError
from barnabas.spark.exactly_once.decision import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX
from barnabas.spark.offset_limit import OffsetLimit, check_order, ending_limit, starting_limit
from barnabas.spark.offsets import EARLIEST, LATEST
from barnabas.spark.schema import HEADERS, column_names

LOGGER = logging.getLogger("barnabas.spark")

KAFKA_PREFIX = "kafka."
SERVERS = "kafka.bootstrap.servers"

#: Options that only tune the built-in connector's own machinery: accepted, without effect.
WITHOUT_EFFECT = {"usedeprecatedoffsetfetching"}

#: Spark's own options, which it hands on to the format.
OF_SPARK = {"checkpointlocation", "path", "queryname"}

#: Kafka settings that the source must decide itself, and why.
REFUSED_KAFKA = {
    "kafka.auto.offset.reset": "use startingOffsets: Spark keeps the offsets, Kafka's reset policy never applies",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets; the source commits none by itself",
    "kafka.key.deserializer": "keys are read as binary; use DataFrame operations to decode them",
    "kafka.value.deserializer": "values are read as binary; use DataFrame operations to decode them",
    "kafka.key.serializer": "keys are written as binary or string; use DataFrame operations to encode them",
    "kafka.value.serializer": "values are written as binary or string; use DataFrame operations to encode them",
    "kafka.interceptor.classes": "the source relies on unaltered records",
}

READ_OPTIONS = {
    name.lower()
    for name in (
        *STRATEGIES, "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
        "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
        "minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
        "minRecordsPerPartition", "failOnDataLoss", "includeHeaders", "groupIdPrefix", "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs", "columns", "offsetCommitMode",
        "offsetCommitIntervalMs", "partitionDiscoveryIntervalMs", "fetchedDataCache", "coPartitions", "shareGroup",
    )
}  # fmt: skip
WRITE_OPTIONS = {
    "topic", "includeheaders", "includetimestamp", "guarantee", "transactionalidprefix", "decisiontopic",
}  # fmt: skip
GUARANTEES = AT_LEAST_ONCE, EXACTLY_ONCE = ("at-least-once", "exactly-once")

#: Settings of the tasks' producers with guarantee=exactly-once where nothing else is given: the longest time that
#: Kafka's brokers allow by default from a task's first row to the end of its batch.
EXACTLY_ONCE_DEFAULTS = {"transaction.timeout.ms": "900000"}

#: With it (KIP-939) they have no time-out, and the producer takes none.
_TWO_PHASE_COMMIT = "transaction.two.phase.commit.enable"

#: Producer settings that guarantee=exactly-once decides, and why.
REFUSED_EXACTLY_ONCE = {
    "transactional.id": "every task needs ids of its own; set their prefix with the option transactionalIdPrefix",
    "enable.idempotence": "transactions are always idempotent",
    "acks": "transactions need acks=all",
}
#: Settings of the sink's producers where nothing else is given: a task has all its rows at once, so batches fill.
WRITE_DEFAULTS = {"batch.size": "524288"}
#: A Python task costs Spark as much as reading tens of thousands of rows, so that few rows are one task's work.
MIN_RECORDS_PER_PARTITION = 1000
COMMIT_MODES = ("disabled", "oncheckpoint", "periodic")

#: Java's units of time, in milliseconds.
_UNITS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class SourceOptions:
    """What a source was asked to read; picklable, for it travels to the tasks."""

    def __init__(self, options: Mapping[str, str], *, streaming: bool) -> None:
        """Check all options at once; raises OptionError that names the option, its value and what would do."""
        lowered = _lowered(options, READ_OPTIONS, "read")
        self.client = _client_settings(lowered, "consumer")
        self.group_id = self.client.get("group.id") or _generated_group(lowered)
        self.strategy_options = {name: lowered[name] for name in STRATEGIES if name in lowered}
        self.starting = _starting(lowered, streaming)
        self.ending = _ending(lowered, streaming)
        check_order(self.starting, self.ending)
        self.max_offsets_per_trigger = _whole(lowered, "maxOffsetsPerTrigger")
        self.min_offsets_per_trigger = _min_offsets(lowered, self.max_offsets_per_trigger)
        self.max_trigger_delay_ms = _duration_ms(lowered, "maxTriggerDelay", 15 * 60_000)
        self.min_partitions = _whole(lowered, "minPartitions")
        self.max_records_per_partition = _whole(lowered, "maxRecordsPerPartition")
        self.min_records_per_partition = _min_records(lowered)
        self.fail_on_data_loss = _boolean(lowered, "failOnDataLoss", default=True)
        self.columns = chosen_columns(lowered)
        self.fetch_offset_retries = _whole(lowered, "fetchOffset.numRetries", default=3, least=0)
        self.fetch_offset_retry_interval = _whole(lowered, "fetchOffset.retryIntervalMs", default=1000, least=0) / 1000
        self.poll_timeout = _whole(lowered, "kafkaConsumer.pollTimeoutMs", default=120_000) / 1000
        self.discovery_interval_ms = _whole(lowered, "partitionDiscoveryIntervalMs", default=0, least=-1)
        self.commit_mode = _commit_mode(lowered, self.group_id)
        self.commit_interval = _whole(lowered, "offsetCommitIntervalMs", default=5000, least=0) / 1000
        self.keep_fetched_ahead = _boolean(lowered, "fetchedDataCache", default=True)
        self.co_partitions = _co_partitions(lowered, self.columns, streaming)
        self.share_group = _share_group(lowered, streaming)
        self.strategy()
        if not streaming:
            _warn_of_what_a_batch_ignores(lowered)

    def strategy(self) -> Strategy:
        """Which partitions to read; made anew on each call, since it does not pickle."""
        return parse_strategy(self.strategy_options)


class SinkOptions:
    """What a sink was asked to write; picklable."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check all options at once; raises OptionError."""
        lowered = _lowered(options, WRITE_OPTIONS, "write")
        self.client = _client_settings(lowered, "producer").over(WRITE_DEFAULTS)
        if "includeheaders" in lowered:
            LOGGER.warning("option includeHeaders has no effect on a sink: a column headers is written if there is one")
        self.topic = lowered.get("topic")
        if self.topic is not None and not self.topic.strip():
            raise OptionError("option topic is empty; name a topic, or leave it out and give every row a topic column")
        self.include_timestamp = _boolean(lowered, "includeTimestamp", default=True)
        self.guarantee = lowered.get("guarantee", AT_LEAST_ONCE).strip().lower()
        self.transactional_id_prefix = lowered.get("transactionalidprefix", TRANSACTIONAL_ID_PREFIX).strip()
        self.decision_topic = lowered.get("decisiontopic", DECISION_TOPIC).strip()
        self._check_guarantee(lowered)

    def _check_guarantee(self, lowered: Mapping[str, str]) -> None:
        if self.guarantee not in GUARANTEES:
            raise OptionError(f"option guarantee={self.guarantee!r} must be {' or '.join(GUARANTEES)}")
        for name in ("transactionalIdPrefix", "decisionTopic"):
            value = lowered.get(name.lower())
            if value is not None and self.guarantee != EXACTLY_ONCE:
                raise OptionError(f"option {name}={value!r} is for guarantee=exactly-once only")
            if value is not None and not value.strip():
                raise OptionError(f"option {name} is empty; leave it out for the default")
        if self.guarantee != EXACTLY_ONCE:
            return
        for name, why in REFUSED_EXACTLY_ONCE.items():
            if name in self.client:
                raise OptionError(f"option {KAFKA_PREFIX}{name} is not allowed with guarantee=exactly-once: {why}")
        if self.client.get(_TWO_PHASE_COMMIT, "").strip().lower() != "true":
            self.client = self.client.over(EXACTLY_ONCE_DEFAULTS)
        elif "transaction.timeout.ms" in self.client:
            raise OptionError(
                f"option {KAFKA_PREFIX}transaction.timeout.ms has no meaning with {KAFKA_PREFIX}{_TWO_PHASE_COMMIT}"
                "=true, with which transactions have no time-out"
            )


def _lowered(options: Mapping[str, str], known: set[str], purpose: str) -> dict[str, str]:
    lowered = {name.lower(): str(value) for name, value in options.items()}
    # No value is shown of a name that is not known: it may be the misspelt name of a secret.
    for name in lowered:
        if name in REFUSED_KAFKA:
            raise OptionError(f"option {name} is not allowed: {REFUSED_KAFKA[name]}")
        if name.startswith(KAFKA_PREFIX) or name in known | WITHOUT_EFFECT | OF_SPARK:
            continue
        near = difflib.get_close_matches(name, known | {SERVERS}, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(known))} and kafka.*"
        raise OptionError(f"option {name} is unknown to the format 'barnabas' for {purpose}{hint}")
    return lowered


def _client_settings(lowered: Mapping[str, str], section: str) -> ClientSettings:
    if not lowered.get(SERVERS, "").strip():
        raise OptionError(f"option {SERVERS} is missing: set it to the brokers' addresses, such as localhost:9092")
    found = {name.removeprefix(KAFKA_PREFIX): value for name, value in lowered.items() if name.startswith(KAFKA_PREFIX)}
    known = definitions(section)
    for name, value in found.items():
        try:
            known.key(name).parse(value)
        except ConfigError as error:
            raise OptionError(f"option {KAFKA_PREFIX}{name}: {error}") from None
    return ClientSettings(found)


def chosen_columns(lowered: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns to read, in the order of the schema: all but the headers, unless `columns` names some."""
    include_headers = _boolean(lowered, "includeHeaders", default=False)
    value = lowered.get("columns")
    if value is None:
        return column_names(include_headers)
    names = {name.strip() for name in value.split(",") if name.strip()}
    every = column_names(include_headers=True)
    if not names or not names <= set(every):
        raise OptionError(f"option columns={value!r} must name some of {', '.join(every)}, comma-separated")
    if include_headers and HEADERS not in names:
        raise OptionError(f"option columns={value!r} leaves out the headers that includeHeaders=true asks for")
    return tuple(name for name in every if name in names)


def _starting(lowered: Mapping[str, str], streaming: bool) -> OffsetLimit:
    limit = starting_limit(lowered, "latest" if streaming else "earliest")
    if not streaming and LATEST in {limit.everywhere, *limit.specific.values()}:
        raise OptionError(
            f"option startingOffsets={limit!r}: a batch query ends at what exists when it starts, so it cannot begin "
            "at latest; use earliest or offsets"
        )
    if limit.from_group and "kafka.group.id" not in lowered:
        raise OptionError("option startingOffsets='group' needs kafka.group.id: the group whose offsets are meant")
    return limit


def _ending(lowered: Mapping[str, str], streaming: bool) -> OffsetLimit:
    given = [
        name for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp") if name.lower() in lowered
    ]
    if streaming and given:
        raise OptionError(f"option {given[0]} is for batch queries; a streaming query has no end (see availableNow)")
    limit = ending_limit(lowered)
    if EARLIEST in {limit.everywhere, *limit.specific.values()}:
        raise OptionError(f"option endingOffsets={limit!r}: a query cannot end at earliest; use latest or offsets")
    return limit


def _co_partitions(lowered: Mapping[str, str], columns: tuple[str, ...], streaming: bool) -> CoPartitions | None:
    value = lowered.get("copartitions")
    if value is None:
        return None
    for name in ("minPartitions", "maxRecordsPerPartition", "minRecordsPerPartition"):
        if name.lower() in lowered:
            raise OptionError(f"option {name} cannot be combined with coPartitions, which says what a task reads")
    if not streaming:
        raise OptionError("option coPartitions is for streaming queries")
    if missing := sorted(set(column_names(include_headers=False)) - {"timestampType"} - set(columns)):
        raise OptionError(f"option columns must not leave out {', '.join(missing)} with coPartitions")
    return parse_co_partitions(value)


def _share_group(lowered: Mapping[str, str], streaming: bool) -> str | None:
    """Return the share group to read as a member of; a queue has no offsets, so nothing can be said of them."""
    value = lowered.get("sharegroup")
    if value is None:
        return None
    if not value.strip():
        raise OptionError("option shareGroup is empty; name the share group, or leave it out to read by offsets")
    if not streaming:
        raise OptionError("option shareGroup is for streaming queries: a queue has no end that a batch could read to")
    if "subscribe" not in lowered:
        raise OptionError("option shareGroup needs subscribe: share groups read topics by name")
    allowed = {"sharegroup", "subscribe", "columns", "includeheaders", "minpartitions", "maxoffsetspertrigger"}
    for name in sorted(lowered):
        if name in READ_OPTIONS - allowed:
            raise OptionError(f"option {name} cannot be combined with shareGroup: the brokers say which records come")
    if "kafka.group.id" in lowered:
        raise OptionError("option kafka.group.id cannot be combined with shareGroup, which names the group")
    for name in lowered:
        if name.startswith(KAFKA_PREFIX) and name.removeprefix(KAFKA_PREFIX) in NOT_OF_SHARE_CONSUMERS:
            raise OptionError(f"option {name} is not a setting of share consumers")
    return value.strip()


def _warn_of_what_a_batch_ignores(lowered: Mapping[str, str]) -> None:
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if name.lower() in lowered:
            LOGGER.warning("option %s=%r is ignored: it is for streaming queries", name, lowered[name.lower()])


def _min_offsets(lowered: Mapping[str, str], most: int | None) -> int | None:
    least: int | None = _whole(lowered, "minOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minOffsetsPerTrigger={least} must not exceed maxOffsetsPerTrigger={most}")
    return least


def _min_records(lowered: Mapping[str, str]) -> int:
    """0 where the query says itself how its ranges become tasks."""
    says_itself = [name for name in ("minPartitions", "maxRecordsPerPartition") if name.lower() in lowered]
    least: int | None = _whole(lowered, "minRecordsPerPartition", least=0)
    if least and says_itself:
        raise OptionError(f"option minRecordsPerPartition={least} makes fewer tasks, {says_itself[0]} more: leave one")
    return (0 if says_itself else MIN_RECORDS_PER_PARTITION) if least is None else least


def _generated_group(lowered: Mapping[str, str]) -> str | None:
    """As the built-in connector makes the ids of its groups; they differ from start to start."""
    prefix = lowered.get("groupidprefix")
    return None if prefix is None else f"{prefix}-{uuid.uuid4()}"


def _commit_mode(lowered: Mapping[str, str], group_id: str | None) -> str:
    mode = lowered.get("offsetcommitmode", "disabled")
    if mode.strip().lower() not in COMMIT_MODES:
        raise OptionError(f"option offsetCommitMode={mode!r} must be onCheckpoint, periodic or disabled")
    if mode.strip().lower() != "disabled" and group_id is None:
        raise OptionError(
            f"option offsetCommitMode={mode!r} needs kafka.group.id or groupIdPrefix: the group to commit to"
        )
    return mode.strip().lower()


def _value(lowered: Mapping[str, str], option: str, convert: Callable[[str], Any], form: str) -> Any:
    value = lowered.get(option.lower())
    try:
        return None if value is None else convert(value.strip().lower())
    except (ValueError, KeyError) as error:
        raise OptionError(f"option {option}={value!r} must be {form}") from error


def _whole(lowered: Mapping[str, str], option: str, default: int | None = None, least: int = 1) -> Any:
    def convert(value: str) -> int:
        number = int(value)
        if number < least:
            raise ValueError(number)
        return number

    found = _value(lowered, option, convert, f"a whole number of at least {least}")
    return default if found is None else found


def _duration_ms(lowered: Mapping[str, str], option: str, default: int) -> int:
    def convert(value: str) -> int:
        match = re.fullmatch(r"([0-9]+)([a-z]*)", value)
        if match is None:
            raise ValueError(value)
        return int(int(match[1]) * _UNITS[match[2] or "ms"])

    found: int | None = _value(lowered, option, convert, "a time such as 500ms, 30s, 15m, 2h or 1d")
    return default if found is None else found


def _boolean(lowered: Mapping[str, str], option: str, *, default: bool) -> bool:
    found: bool | None = _value(lowered, option, {"true": True, "false": False}.__getitem__, "true or false")
    return default if found is None else found
