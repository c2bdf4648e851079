# The C types of versioned.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport long_at, long_before
from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.segments cimport Segments
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
    cdef object _retention_ms
    cdef OrderedBytes _latest
    cdef Segments _segments
    cdef public object observed_stream_time

    @cython.locals(latest=bytes)
    cpdef object put(self, object key, object value, object timestamp)
    cpdef bint is_too_late(self, object timestamp) except -1
    @cython.locals(latest=bytes)
    cpdef tuple get(self, object key)
    @cython.locals(latest=tuple, held=SegmentValue)
    cpdef tuple get_as_of(self, object key, object as_of)
    cdef SegmentValue _held(self, OrderedBytes segment, object key)
    cdef OrderedBytes _live(self, object timestamp)
    cdef object _replace_latest(self, object key, object value, object timestamp, object old_timestamp, bytes old)
    @cython.locals(segment=OrderedBytes, held=SegmentValue)
    cdef object _add_as_latest(self, object key, object value, object begin, object end)
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
