# The C types of segments.py.

cimport cython

from barnabas.streams.state.memory cimport OrderedBytes


@cython.final
cdef class Segments:
    cdef object _name
    cdef long long _retention_ms
    cdef long long _interval_ms
    cdef object _backend
    cdef dict _maps
    cdef OrderedBytes _last
    cdef long long _last_number
    cdef long long _oldest

    cpdef long long id_of(self, long long timestamp) except *
    cpdef OrderedBytes at(self, long long timestamp)
    cdef OrderedBytes _of(self, long long number)
    @cython.locals(found=OrderedBytes)
    cpdef OrderedBytes live(self, long long number, long long stream_time)
    @cython.locals(begin=cython.longlong, end=cython.longlong, number=cython.longlong, found=list, only=OrderedBytes)
    cpdef list between(self, long long first, long long last, bint reverse=*)
    @cython.locals(oldest=cython.longlong)
    cpdef object drop_expired(self, long long stream_time)
