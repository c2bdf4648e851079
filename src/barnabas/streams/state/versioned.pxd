# The C types of versioned.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport long_at, long_before
from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.segments cimport Segments
from barnabas.streams.state.sorted_entries cimport SortedEntries
from barnabas.streams.state.store cimport SerdeStore
from barnabas.streams.state.value_format cimport timestamped


@cython.final
cdef class SegmentValue:
    cdef readonly object next_timestamp
    cdef readonly list versions

    cdef object min_timestamp(self)
    cdef tuple find(self, object timestamp)
    cdef object insert_as_latest(self, object begin, object end, object value)
    cdef object insert_as_earliest(self, object timestamp, object value)
    cdef object _push(self, object begin, object value)
    cdef bint _is_degenerate(self) except -1
    cdef object _truncate(self, object timestamp)
    @cython.locals(parts=list)
    cdef bytes to_bytes(self)


@cython.locals(versions=list)
cdef SegmentValue segment_value(bytes data)


@cython.final
cdef class VersionedBytes:
    cdef long long _retention_ms
    cdef OrderedBytes _latest
    cdef Segments _segments
    cdef public long long observed_stream_time
    cdef object _gathering
    cdef bint _has_gathered
    cdef SortedEntries _entries
    cdef long long _earliest
    cdef long long _oldest

    @cython.locals(entry=bytes)
    cpdef object load(self, object key, object value, long long timestamp)
    @cython.locals(oldest=cython.longlong)
    cdef object _observe(self, long long timestamp)
    cdef bint _expires(self, long long oldest) except -1
    @cython.locals(key=bytes, entry=bytes, observed=cython.longlong)
    cpdef object _take(self, list entries)
    cpdef object put(self, object key, object value, long long timestamp)
    @cython.locals(latest=bytes)
    cdef object _put(self, object key, object value, long long timestamp)
    cpdef bint is_too_late(self, long long timestamp) except -1
    @cython.locals(latest=bytes)
    cpdef tuple get(self, object key)
    @cython.locals(latest=tuple, held=SegmentValue)
    cpdef tuple get_as_of(self, object key, object as_of)
    cdef SegmentValue _held(self, OrderedBytes segment, object key)
    cdef OrderedBytes _live(self, long long timestamp)
    cdef object _replace_latest(
        self, object key, object value, long long timestamp, long long old_timestamp, bytes old
    )
    @cython.locals(segment=OrderedBytes, held=SegmentValue)
    cdef object _add_as_latest(self, object key, object value, long long begin, long long end)
    @cython.locals(segment=OrderedBytes, held=SegmentValue)
    cdef tuple _put_to_segments(self, object key, object value, object timestamp, object found)
    cdef object _put_between(
        self, object number, OrderedBytes segment, SegmentValue held, object key, object value, object timestamp
    )
    @cython.locals(segment=OrderedBytes, held=SegmentValue)
    cdef object _finish(self, object key, object value, object timestamp, object found)
    @cython.locals(segment=OrderedBytes, held=SegmentValue)
    cdef object _put_first(self, object key, object value, object timestamp)


cdef class VersionedKeyValueStore(SerdeStore):
    cdef readonly VersionedBytes _versions

    @cython.locals(versions=VersionedBytes)
    cpdef object restore(self, object records)
