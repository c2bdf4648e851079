# The C types of session_bytes.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport has_prefix, long_at
from barnabas.streams.serdes.window_keys cimport session_key
from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.segments cimport Segments


cdef class SessionSegments:
    cdef readonly Segments _segments
    cdef readonly long long _retention_ms
    cdef public long long observed_stream_time

    @cython.locals(segment=OrderedBytes)
    cpdef bint put(self, bytes key, long long start, long long end, object value) except -1
    @cython.locals(segment=OrderedBytes)
    cpdef object load(self, bytes data, object value)
    @cython.locals(end=cython.longlong)
    cdef OrderedBytes _loaded_by(self, bytes data)
    @cython.locals(segment=OrderedBytes)
    cpdef object remove(self, bytes key, long long start, long long end)
    cpdef object get(self, bytes key, long long start, long long end)
    @cython.locals(
        found=list, size=Py_ssize_t, data=bytes, segment=OrderedBytes, first=cython.longlong, start=cython.longlong,
        end=cython.longlong
    )
    cpdef list of_key(self, bytes key, long long earliest_end, long long latest_start)


cdef class TimeOrderedSessionSegments(SessionSegments):
    @cython.locals(segment=OrderedBytes)
    cpdef bint put(self, bytes key, long long start, long long end, object value) except -1
    @cython.locals(segment=OrderedBytes)
    cpdef object load(self, bytes data, object value)
    @cython.locals(segment=OrderedBytes)
    cpdef object remove(self, bytes key, long long start, long long end)
    cpdef object get(self, bytes key, long long start, long long end)
    cpdef list of_key(self, bytes key, long long earliest_end, long long latest_start)
