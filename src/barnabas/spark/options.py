"""The options of the format, checked: names, defaults and meaning are the built-in connector's."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.spark.errors import OptionError
from barnabas.spark.offsets import EARLIEST, LATEST, OffsetLimit, parse_limit
from barnabas.spark.strategy import STRATEGIES, Strategy, parse_strategy

KAFKA_PREFIX = "kafka."
SERVERS = "kafka.bootstrap.servers"

#: Options of the built-in connector that this one does not offer yet: refused, for ignoring them changes what is read.
NOT_YET = {
    name.lower()
    for name in (
        "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy", "minOffsetsPerTrigger", "maxTriggerDelay", "maxRecordsPerPartition",
    )
}  # fmt: skip

#: Options that only tune the built-in connector's own machinery: accepted, without effect.
WITHOUT_EFFECT = {
    name.lower()
    for name in (
        "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
        "useDeprecatedOffsetFetching",
    )
}  # fmt: skip

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
    *STRATEGIES, "startingoffsets", "endingoffsets", "maxoffsetspertrigger", "minpartitions", "failondataloss",
    "includeheaders", "groupidprefix",
}  # fmt: skip
WRITE_OPTIONS = {"topic", "includeheaders"}


class SourceOptions:
    """What a source was asked to read; picklable, for it travels to the tasks."""

    def __init__(self, options: Mapping[str, str], *, streaming: bool) -> None:
        """Check all options at once; raises OptionError that names the option, its value and what would do."""
        lowered = _lowered(options, READ_OPTIONS, "read")
        self.client = _client_settings(lowered)
        self.strategy_options = {name: lowered[name] for name in STRATEGIES if name in lowered}
        self.starting = _starting(lowered, streaming)
        self.ending = _ending(lowered, streaming)
        self.max_offsets_per_trigger = _positive(lowered, "maxOffsetsPerTrigger")
        self.min_partitions = _positive(lowered, "minPartitions")
        self.fail_on_data_loss = _boolean(lowered, "failOnDataLoss", default=True)
        self.include_headers = _boolean(lowered, "includeHeaders", default=False)
        self.strategy()

    def strategy(self) -> Strategy:
        """Which partitions to read; made anew on each call, since it does not pickle."""
        return parse_strategy(self.strategy_options)


class SinkOptions:
    """What a sink was asked to write; picklable."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check all options at once; raises OptionError."""
        lowered = _lowered(options, WRITE_OPTIONS, "write")
        self.client = _client_settings(lowered)
        self.topic = lowered.get("topic")
        if self.topic is not None and not self.topic.strip():
            raise OptionError("option topic is empty; name a topic, or leave it out and give every row a topic column")


def _lowered(options: Mapping[str, str], known: set[str], purpose: str) -> dict[str, str]:
    lowered = {name.lower(): str(value) for name, value in options.items()}
    for name, value in lowered.items():
        if name in REFUSED_KAFKA:
            raise OptionError(f"option {name}={value!r} is not allowed: {REFUSED_KAFKA[name]}")
        if name in NOT_YET:
            raise OptionError(f"option {name}={value!r} is not supported yet by the format 'barnabas'")
        if name.startswith(KAFKA_PREFIX) or name in known | WITHOUT_EFFECT | OF_SPARK:
            continue
        near = difflib.get_close_matches(name, known | {SERVERS}, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(known))} and kafka.*"
        raise OptionError(f"option {name}={value!r} is unknown to the format 'barnabas' for {purpose}{hint}")
    return lowered


def _client_settings(lowered: Mapping[str, str]) -> dict[str, str]:
    if not lowered.get(SERVERS, "").strip():
        raise OptionError(f"option {SERVERS} is missing: set it to the brokers' addresses, such as localhost:9092")
    return {name.removeprefix(KAFKA_PREFIX): value for name, value in lowered.items() if name.startswith(KAFKA_PREFIX)}


def _starting(lowered: Mapping[str, str], streaming: bool) -> OffsetLimit:
    limit = parse_limit("startingOffsets", lowered.get("startingoffsets", "latest" if streaming else "earliest"))
    if not streaming and LATEST in {limit.everywhere, *limit.specific.values()}:
        raise OptionError(
            f"option startingOffsets={limit!r}: a batch query ends at what exists when it starts, so it cannot begin "
            "at latest; use earliest or offsets"
        )
    return limit


def _ending(lowered: Mapping[str, str], streaming: bool) -> OffsetLimit:
    if streaming and "endingoffsets" in lowered:
        raise OptionError("option endingOffsets is for batch queries; a streaming query has no end (see availableNow)")
    limit = parse_limit("endingOffsets", lowered.get("endingoffsets", "latest"))
    if EARLIEST in {limit.everywhere, *limit.specific.values()}:
        raise OptionError(f"option endingOffsets={limit!r}: a query cannot end at earliest; use latest or offsets")
    return limit


def _value(lowered: Mapping[str, str], option: str, convert: Callable[[str], Any], form: str) -> Any:
    value = lowered.get(option.lower())
    try:
        return None if value is None else convert(value.strip().lower())
    except (ValueError, KeyError) as error:
        raise OptionError(f"option {option}={value!r} must be {form}") from error


def _positive(lowered: Mapping[str, str], option: str) -> int | None:
    def convert(value: str) -> int:
        number = int(value)
        if number < 1:
            raise ValueError(number)
        return number

    found: int | None = _value(lowered, option, convert, "a whole number of at least 1")
    return found


def _boolean(lowered: Mapping[str, str], option: str, *, default: bool) -> bool:
    found: bool | None = _value(lowered, option, {"true": True, "false": False}.__getitem__, "true or false")
    return default if found is None else found
