# cython: language_level=3, annotation_typing=False
"""A record as processors see it. C types are in `record.pxd`, types for type checkers in `record.pyi`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython

from types import GenericAlias

from barnabas.streams.errors import StreamsError


@cython.freelist(64)
@cython.cclass
class Record:
    """A key, a value, a timestamp in milliseconds and headers. Change one by making another with `with_...`.

    Raises `StreamsError` when the timestamp is negative.
    """

    if not cython.compiled:
        __slots__ = ("header_list", "key", "timestamp", "value")

    def __init__(self, key, value, timestamp, headers=None):
        if timestamp < 0:
            raise StreamsError("Malformed Record") from ValueError(f"Timestamp may not be negative. Got: {timestamp}")
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.header_list = list(headers) if headers else None

    @classmethod
    def __class_getitem__(cls, types):
        """`Record[str, int]`, for annotations."""
        return GenericAlias(cls, types)

    def _own_headers(self):
        """Return `headers`, for callers in C."""
        if self.header_list is None:
            self.header_list = []
        return self.header_list

    @property
    def headers(self):
        """Names and values, in order; the list is the record's own."""
        return self._own_headers()

    @headers.setter
    def headers(self, headers):
        self.header_list = headers

    def with_key(self, key):
        """Return the same record with another key."""
        return make_record(key, self.value, self.timestamp, self.header_list)

    def with_value(self, value):
        """Return the same record with another value."""
        return make_record(self.key, value, self.timestamp, self.header_list)

    def with_timestamp(self, timestamp):
        """Return the same record with another timestamp in milliseconds."""
        return Record(self.key, self.value, timestamp, self.header_list)

    def with_headers(self, headers):
        """Return the same record with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return (self.key, self.value, self.timestamp, self.headers) == (
            other.key,
            other.value,
            other.timestamp,
            other.headers,
        )

    __hash__ = None

    def __reduce__(self):
        return type(self), (self.key, self.value, self.timestamp, self.header_list)

    def __repr__(self):
        return f"Record(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp}, headers={self.headers!r})"


def make_record(key, value, timestamp, headers):
    """Return a record with a timestamp that is known not to be negative; its headers are a copy."""
    record = Record.__new__(Record)
    record.key = key
    record.value = value
    record.timestamp = timestamp
    record.header_list = list(headers) if headers else None
    return record
