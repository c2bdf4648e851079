# The C types of session_bytes.py.

cimport cython

from barnabas.streams.serdes.window_keys cimport session_key
from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.segments cimport Segments


cdef class SessionSegments:
    cdef readonly Segments _segments
    cdef readonly object _retention_ms
    cdef public object observed_stream_time

    @cython.locals(segment=OrderedBytes)
    cpdef object put(self, object key, object start, object end, object value)
    @cython.locals(segment=OrderedBytes)
    cpdef object remove(self, object key, object start, object end)
    @cython.locals(found=list, size=Py_ssize_t, data=bytes, segment=OrderedBytes)
    cpdef list of_key(self, object key, object earliest_end, object latest_start)


cdef class TimeOrderedSessionSegments(SessionSegments):
    @cython.locals(segment=OrderedBytes)
    cpdef object put(self, object key, object start, object end, object value)
    @cython.locals(segment=OrderedBytes)
    cpdef object remove(self, object key, object start, object end)
    cpdef list of_key(self, object key, object earliest_end, object latest_start)
