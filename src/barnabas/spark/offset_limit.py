"""Where a query begins or ends: by name, by offset, by time, or where a group has got to."""

from __future__ import annotations

import json
from collections.abc import Mapping

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.offsets import EARLIEST, LATEST, Offsets, from_json, parse_offsets, to_json

_NAMES = {LATEST: "latest", EARLIEST: "earliest"}


class OffsetLimit:
    """One of `everywhere` (-1 latest, -2 earliest), `specific` offsets, `timestamp`, `timestamps`, a group's commits.

    Times are epoch milliseconds. `latest_without_match`: where no record is that young, begin at the end.
    """

    __slots__ = ("everywhere", "from_group", "latest_without_match", "option", "specific", "timestamp", "timestamps")

    def __init__(
        self,
        option: str,
        everywhere: int | None = None,
        specific: Offsets | None = None,
        timestamp: int | None = None,
        timestamps: Mapping[TopicPartition, int] | None = None,
        *,
        from_group: bool = False,
        latest_without_match: bool = False,
    ) -> None:
        self.option = option
        self.everywhere = everywhere
        self.specific = specific or {}
        self.timestamp = timestamp
        self.timestamps = dict(timestamps or {})
        self.from_group = from_group
        self.latest_without_match = latest_without_match

    def __repr__(self) -> str:
        if self.everywhere is not None:
            return _NAMES[self.everywhere]
        if self.timestamp is not None:
            return str(self.timestamp)
        return "group" if self.from_group else json.dumps(to_json(self.specific or self.timestamps))


def starting_limit(options: Mapping[str, str], default: str) -> OffsetLimit:
    """Return the first given of startingTimestamp, startingOffsetsByTimestamp, startingOffsets; raises OptionError."""
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"option startingOffsetsByTimestampStrategy={strategy!r} must be error or latest")
    by_time = _by_time(options, "starting", latest_without_match=strategy == "latest")
    if by_time is not None:
        return by_time
    value = options.get("startingoffsets", default)
    if value.strip().lower() == "group":
        return OffsetLimit("startingOffsets", from_group=True)
    return parse_limit("startingOffsets", value)


def ending_limit(options: Mapping[str, str]) -> OffsetLimit:
    """endingTimestamp, or endingOffsetsByTimestamp, or endingOffsets; without a match by time it is latest."""
    by_time = _by_time(options, "ending", latest_without_match=True)
    return by_time or parse_limit("endingOffsets", options.get("endingoffsets", "latest"))


def check_order(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Raise OptionError where a partition is to end before it starts, as far as the options alone tell."""
    _check_order("timestamp", starting, ending, starting.timestamps, ending.timestamps)
    _check_order("offset", starting, ending, starting.specific, ending.specific)


def _check_order(
    what: str,
    starting: OffsetLimit,
    ending: OffsetLimit,
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
) -> None:
    for partition, start in first.items():
        end = last.get(partition, start)
        if start > end >= 0:
            raise OptionError(
                f"the start {what} {start} of {partition} in {starting.option} is greater than its end {what} {end} in "
                f"{ending.option}"
            )


def parse_limit(option: str, value: str) -> OffsetLimit:
    """Read `startingOffsets` or `endingOffsets`; raises OptionError."""
    named = {"latest": LATEST, "earliest": EARLIEST}.get(value.strip().lower())
    if named is not None:
        return OffsetLimit(option, named)
    return OffsetLimit(option, specific=parse_offsets(option, value))


def _by_time(options: Mapping[str, str], side: str, *, latest_without_match: bool) -> OffsetLimit | None:
    everywhere, each = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    if everywhere.lower() in options:
        time = _parse_time(everywhere, options[everywhere.lower()])
        return OffsetLimit(everywhere, timestamp=time, latest_without_match=latest_without_match)
    if each.lower() in options:
        times = _parse_times(each, options[each.lower()])
        return OffsetLimit(each, timestamps=times, latest_without_match=latest_without_match)
    return None


def _parse_time(option: str, value: str) -> int:
    try:
        time = int(value)
    except ValueError:
        time = -1
    if time < 0:
        raise OptionError(f"option {option}={value!r} must be a time in milliseconds since 1970, such as 1370000000000")
    return time


def _parse_times(option: str, value: str) -> dict[TopicPartition, int]:
    try:
        times = from_json(json.loads(value))
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f"option {option}={value!r} is not of the form "
            f'{{"topic":{{"0":1370000000000}}}} (milliseconds since 1970): {error}'
        ) from error
    negative = [time for time in times.values() if time < 0]
    if negative:
        raise OptionError(f"option {option}={value!r} holds {negative[0]}, which is no time (milliseconds since 1970)")
    return times
