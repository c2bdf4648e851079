# cython: language_level=3, annotation_typing=False
"""Topics as tests see them: what is piped in, what is read out. C types are in `test_topics.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.streams.durations import Duration, as_ms, point_ms
from barnabas.streams.serdes.serde import Serde
from barnabas.streams.serdes.window_keys import MAX_LONG

if not cython.compiled:
    from barnabas.streams.serdes.serde_calls import SerdeCalls

if TYPE_CHECKING:
    from barnabas.streams.testing.record_pipe import RecordPipe


class TestRecord(NamedTuple):
    """A record with key and value, headers, and a timestamp in milliseconds (None: the topic's)."""

    value: Any
    key: Any = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


TestRecord.__test__ = False  # type: ignore[attr-defined]  # pytest takes it for a test otherwise


@cython.cclass
class TestInputTopic:
    """Pipes records into a topic. Without a timestamp a record gets the topic's, which each record advances."""

    __test__ = False

    def __init__(
        self,
        driver: RecordPipe,
        topic: str,
        key_serde: Any,
        value_serde: Any,
        start_timestamp: datetime | int,
        auto_advance: Duration = 0,
    ) -> None:
        self._driver = driver
        self._topic = topic
        self._key = SerdeCalls(_as_serde(key_serde, write=True))
        self._value = SerdeCalls(_as_serde(value_serde, write=True))
        self._time = point_ms(start_timestamp, "start_timestamp")
        self._advance_ms = as_ms(auto_advance, "auto_advance")
        if self._advance_ms < 0:
            raise ValueError("autoAdvance must be positive")

    def advance_time(self, advance: Duration) -> None:
        """Move the topic's time on. Raises ValueError for a negative duration."""
        ms = as_ms(advance, "advance")
        if ms < 0:
            raise ValueError("advance must be positive")
        self._time += ms

    def pipe_input(
        self,
        value: Any,
        key: Any = None,
        *,
        timestamp: datetime | int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """Pipe a value, or a `TestRecord`, and work it off.

        Raises `StreamsError` as the application would, ValueError for a topic that the topology does not read.
        """
        sent = list(headers)
        if isinstance(value, TestRecord):
            value, key, own_timestamp, own_headers = value
            timestamp = own_timestamp if timestamp is None else timestamp
            sent = list(own_headers)
        if timestamp is None:
            timestamp = self._time
            self._time += self._advance_ms
        topic = self._topic
        key_data, value_data = self._key.serialize(topic, key, sent), self._value.serialize(topic, value, sent)
        if type(timestamp) is not int or not 0 <= timestamp <= MAX_LONG:
            timestamp = point_ms(timestamp, "timestamp")
        self._driver.pipe_raw(topic, key_data, value_data, timestamp, sent)

    def pipe_key_value_list(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Pipe pairs of a key and a value."""
        for key, value in pairs:
            self.pipe_input(value, key)

    def pipe_value_list(self, values: Iterable[Any]) -> None:
        """Pipe values without keys."""
        for value in values:
            self.pipe_input(value)

    def pipe_record_list(self, records: Iterable[TestRecord]) -> None:
        """Pipe records."""
        for record in records:
            self.pipe_input(record)

    def __repr__(self) -> str:
        return f"TestInputTopic[topic='{self._topic}']"


class TestOutputTopic:
    """Reads what was written to a topic, one record after the other."""

    __test__ = False

    def __init__(self, driver: Any, topic: str, key_serde: Any, value_serde: Any) -> None:
        self._driver = driver
        self._topic = topic
        self._key = _as_serde(key_serde, write=False)
        self._value = _as_serde(value_serde, write=False)

    def read_record(self) -> TestRecord:
        """Return the next record. Raises LookupError when there is none."""
        raw = self._driver.read_raw(self._topic)
        if raw is None:
            raise LookupError(f"Empty topic: {self._topic}")
        key = self._key.deserialize(self._topic, raw.key, raw.headers)
        value = self._value.deserialize(self._topic, raw.value, raw.headers)
        return TestRecord(value, key, raw.timestamp, tuple(raw.headers))

    def read_value(self) -> Any:
        """Return the next record's value. Raises LookupError when there is none."""
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """Return the next record's key and value. Raises LookupError when there is none."""
        record = self.read_record()
        return record.key, record.value

    def read_records_to_list(self) -> list[TestRecord]:
        """Return all records that are left."""
        return [self.read_record() for _ in range(self.queue_size)]

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        """Return the keys and values of all records that are left."""
        return [(record.key, record.value) for record in self.read_records_to_list()]

    def read_values_to_list(self) -> list[Any]:
        """Return the values of all records that are left."""
        return [record.value for record in self.read_records_to_list()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """Return the last value of each key of the records that are left. Raises ValueError for a key of None."""
        found = {}
        for key, value in self.read_key_values_to_list():
            if key is None:
                raise ValueError("Null keys not allowed with read_key_values_to_map method")
            found[key] = value
        return found

    @property
    def queue_size(self) -> int:
        """How many records are left."""
        size: int = self._driver.queue_size(self._topic)
        return size

    @property
    def is_empty(self) -> bool:
        """Whether no record is left."""
        return self.queue_size == 0

    def __repr__(self) -> str:
        return f"TestOutputTopic[topic='{self._topic}', queue_size={self.queue_size}]"


def _as_serde(given: Any, *, write: bool) -> Any:
    if hasattr(given, "serialize" if write else "deserialize"):
        return given
    return Serde(given, None) if write else Serde(None, given)
