# The C types of window_bytes.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport has_prefix, long_at
from barnabas.streams.serdes.window_keys cimport window_key
from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.segments cimport Segments


cdef class WindowSegments:
    cdef readonly Segments _segments
    cdef readonly long long _retention_ms
    cdef readonly long long _grace_ms
    cdef public long long observed_stream_time

    @cython.locals(segment=OrderedBytes, segments=Segments)
    cpdef bint put(self, bytes key, long long start, int sequence, object value, bytes data=*) except -1
    @cython.locals(segment=OrderedBytes)
    cpdef object load(self, bytes data, object value)
    @cython.locals(start=cython.longlong)
    cdef OrderedBytes _loaded_by(self, bytes data)
    @cython.locals(segment=OrderedBytes)
    cpdef object get(self, bytes key, long long start, int sequence)
    @cython.locals(found=list, size=Py_ssize_t, data=bytes, segment=OrderedBytes, entries=list, entry=tuple)
    cpdef list of_key(self, bytes key, long long first, long long last)
    @cython.locals(oldest=cython.longlong)
    cdef long long _from(self, long long first) except *


cdef class TimeOrderedWindowSegments(WindowSegments):
    cdef readonly bint indexed

    @cython.locals(segment=OrderedBytes)
    cpdef bint put(self, bytes key, long long start, int sequence, object value, bytes data=*) except -1
    @cython.locals(segment=OrderedBytes)
    cpdef object load(self, bytes data, object value)
    @cython.locals(segment=OrderedBytes)
    cpdef object get(self, bytes key, long long start, int sequence)
    cpdef list of_key(self, bytes key, long long first, long long last)
