# The C types of window_bytes.py.

cimport cython

from barnabas.streams.serdes.window_keys cimport window_key
from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.segments cimport Segments


cdef class WindowSegments:
    cdef readonly Segments _segments
    cdef readonly object _retention_ms
    cdef readonly object _grace_ms
    cdef public object observed_stream_time

    @cython.locals(segment=OrderedBytes)
    cpdef object put(self, object key, object start, object sequence, object value)
    @cython.locals(segment=OrderedBytes)
    cpdef object get(self, object key, object start, object sequence)
    @cython.locals(found=list, size=Py_ssize_t, data=bytes, segment=OrderedBytes)
    cpdef list of_key(self, object key, object first, object last)
    cpdef object _from(self, object first)


cdef class TimeOrderedWindowSegments(WindowSegments):
    cdef readonly bint indexed

    @cython.locals(segment=OrderedBytes)
    cpdef object put(self, object key, object start, object sequence, object value)
    @cython.locals(segment=OrderedBytes)
    cpdef object get(self, object key, object start, object sequence)
    cpdef list of_key(self, object key, object first, object last)
