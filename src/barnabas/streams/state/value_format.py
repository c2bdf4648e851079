# cython: language_level=3, annotation_typing=False
"""How the values of a store lie in its maps, and what its changelog has of them. C types are in `value_format.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from struct import Struct
from typing import TYPE_CHECKING, Any

from barnabas.streams.serdes.reader import split_headers, written_headers
from barnabas.streams.state.store import AggregationWithHeaders, ValueTimestampHeaders

if not cython.compiled:
    from barnabas.records.native import int64_from_bytes
    from barnabas.streams.serdes.key_bytes import bytes_between, field, long_before
    from barnabas.streams.state.changelog_record import changelog_record
    from barnabas.streams.state.store import value_and_timestamp

if TYPE_CHECKING:
    from barnabas.streams.serdes.serde import Headers
    from barnabas.streams.state.changelog_record import ChangelogRecord
    from barnabas.streams.state.store import SerdeStore

_LONG = Struct(">q")
_pack_long = _LONG.pack
_unpack_long = _LONG.unpack_from


@cython.cclass
class ValueFormat:
    """Values as the serde writes them. With `logs_headers`, changelog records have the headers of the record."""

    def __init__(self, *, logs_headers: bool = False) -> None:
        self.logs_headers = logs_headers

    def write(self, store: SerdeStore, value: Any) -> bytes | None:
        """Return what is kept of a value as users give it; None for None."""
        return store._value(value)

    def read(self, store: SerdeStore, data: bytes | None) -> Any:
        """Return the value as users get it; None for None."""
        return store._read_value(data)

    def logged(self, store: SerdeStore, key: bytes, data: bytes | None) -> ChangelogRecord:
        """Return the record of the changelog for what is kept."""
        return changelog_record(key, data, store._timestamp(), store._header_list() if self.logs_headers else None)

    def plain(self, value: Any) -> Any:
        """Return the value alone, without its timestamp, of what `read` returned."""
        return value

    def time(self, value: Any, default: int) -> int:
        """Return the timestamp of what `read` returned; `default` where there is none."""
        return default

    def headers(self, value: Any, default: Headers) -> Headers:
        """Return the headers that a cache sends on with what `read` returned; `default` where none are kept."""
        return default

    def restored(self, record: ChangelogRecord) -> bytes | None:
        """Return what is kept of a record of the changelog, or of a consumer's record with the same fields."""
        return record.value


@cython.cclass
class SessionHeadersFormat(ValueFormat):
    """Aggregations behind their headers, as `AggregationWithHeaders` (KIP-1271); the changelog has both.

    What the DSL puts is the aggregation alone, which has no headers.
    """

    def write(self, store: SerdeStore, value: Any) -> bytes | None:
        """Return headers and aggregation; None for None, and for an aggregation that is None."""
        aggregation, headers = value if isinstance(value, AggregationWithHeaders) else (value, [])
        headers = list(headers)
        data = store._value(aggregation, headers)
        return None if data is None else written_headers(headers) + data

    def read(self, store: SerdeStore, data: bytes | None) -> Any:
        """Return aggregation and headers."""
        if data is None:
            return None
        headers, at = split_headers(data)
        return AggregationWithHeaders(store.value_serde.deserialize(store.topic, data[at:], headers), headers)

    def logged(self, store: SerdeStore, key: bytes, data: bytes | None) -> ChangelogRecord:
        """Return the record of the changelog; a tombstone has the headers of the record."""
        if data is None:
            return changelog_record(key, None, store._timestamp(), store._header_list())
        headers, at = split_headers(data)
        return changelog_record(key, data[at:], store._timestamp(), headers)

    def plain(self, value: Any) -> Any:
        """Return the aggregation alone."""
        return None if value is None else value.aggregation

    def headers(self, value: Any, default: Headers) -> Headers:
        """Return the headers of an aggregation; none for None."""
        return [] if value is None else value.headers

    def restored(self, record: ChangelogRecord) -> bytes | None:
        """Return headers and aggregation of a record of the changelog."""
        return None if record.value is None else written_headers(record.headers) + record.value


@cython.cclass
class TimestampedFormat(ValueFormat):
    """Values behind their timestamps, 8 bytes, as `ValueAndTimestamp`; in the changelog it is the record's."""

    def write(self, store: SerdeStore, value: Any) -> bytes | None:
        """Return timestamp and value; None for None, and for a value that is None."""
        return None if value is None else timestamped(store._value(field(value, 0)), field(value, 1))

    def read(self, store: SerdeStore, data: bytes | None) -> Any:
        """Return value and timestamp."""
        if data is None:
            return None
        return value_and_timestamp(store._read_value(after_stamp(data)), stamp_of(data))

    def logged(self, store: SerdeStore, key: bytes, data: bytes | None) -> ChangelogRecord:
        """Return the record of the changelog: the value, with its timestamp; a tombstone has the record's."""
        headers = store._header_list() if self.logs_headers else None
        if data is None:
            return changelog_record(key, None, store._timestamp(), headers)
        return changelog_record(key, after_stamp(data), stamp_of(data), headers)

    def plain(self, value: Any) -> Any:
        """Return the value alone."""
        return None if value is None else value.value

    def time(self, value: Any, default: int) -> int:
        """Return the timestamp of a value, `default` for None."""
        return default if value is None else value.timestamp

    def restored(self, record: ChangelogRecord) -> bytes | None:
        """Return timestamp and value of a record of the changelog."""
        return timestamped(record.value, record.timestamp)

    def stamped(self, data: bytes | None, timestamp: int) -> bytes | None:
        """Return what is kept of a value's bytes and a timestamp, without headers; None for None."""
        return timestamped(data, timestamp)


@cython.cclass
class HeadersFormat(TimestampedFormat):
    """Values behind their headers and timestamps, as `ValueTimestampHeaders` (KIP-1271); the changelog has all three.

    The serde of values is given the value's headers; what is put without any, as tables do, has none.
    """

    def write(self, store: SerdeStore, value: Any) -> bytes | None:
        """Return headers, timestamp and value; None for None, and for a value that is None."""
        if value is None:
            return None
        headers = list(value[2]) if len(value) > 2 else []
        data = timestamped(store._value(value[0], headers), value[1])
        return None if data is None else written_headers(headers) + data

    def read(self, store: SerdeStore, data: bytes | None) -> Any:
        """Return value, timestamp and headers."""
        if data is None:
            return None
        headers, at = split_headers(data)
        value = store.value_serde.deserialize(store.topic, data[at + 8 :], headers)
        return ValueTimestampHeaders(value, _unpack_long(data, at)[0], headers)

    def logged(self, store: SerdeStore, key: bytes, data: bytes | None) -> ChangelogRecord:
        """Return the record of the changelog; a tombstone has timestamp and headers of the record."""
        if data is None:
            return changelog_record(key, None, store._timestamp(), store._header_list())
        headers, at = split_headers(data)
        return changelog_record(key, data[at + 8 :], _unpack_long(data, at)[0], headers)

    def restored(self, record: ChangelogRecord) -> bytes | None:
        """Return headers, timestamp and value of a record of the changelog."""
        data = timestamped(record.value, record.timestamp)
        return None if data is None else written_headers(record.headers) + data

    def stamped(self, data: bytes | None, timestamp: int) -> bytes | None:
        """Return what is kept of a value's bytes and a timestamp, without headers; None for None."""
        return None if data is None else b"\x00" + timestamped(data, timestamp)  # type: ignore[operator]  # it is not None


def stamp_of(data: bytes) -> int:
    """Return the timestamp in front of a value's bytes. Raises `struct.error` when there are too few bytes."""
    if type(data) is bytes and len(data) >= 8:
        return int64_from_bytes(data)
    return _unpack_long(data)[0]  # type: ignore[no-any-return]


def after_stamp(data: bytes) -> bytes:
    """Return a value's bytes without the timestamp in front of them."""
    return bytes_between(data, 8, len(data)) if type(data) is bytes else data[8:]


def timestamped(data: bytes | None, timestamp: int | None) -> bytes | None:
    """Return a value's bytes behind its timestamp; None for None. Raises `struct.error` for what is no timestamp."""
    if data is None:
        return None
    if type(data) is bytes and type(timestamp) is int:
        try:
            return long_before(timestamp, data)
        except OverflowError:
            pass  # struct says so
    return _pack_long(timestamp) + data
