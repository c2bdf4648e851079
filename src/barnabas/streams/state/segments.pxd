# The C types of segments.py.

cimport cython

from barnabas.streams.state.memory cimport OrderedBytes


@cython.final
cdef class Segments:
    cdef object _name
    cdef object _retention_ms
    cdef object _interval_ms
    cdef object _backend
    cdef dict _maps
    cdef object _oldest

    cpdef object id_of(self, object timestamp)
    cpdef OrderedBytes at(self, object timestamp)
    cpdef OrderedBytes live(self, object number, object stream_time)
    cpdef list between(self, object first, object last, bint reverse=*)
    cpdef object drop_expired(self, object stream_time)
