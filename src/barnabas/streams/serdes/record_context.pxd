# The C types of record_context.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport int_bytes, with_numbers
from barnabas.streams.serdes.reader cimport sized


cdef class RecordContext:
    cdef public object timestamp
    cdef public object offset
    cdef public object partition
    cdef public object topic
    cdef readonly list header_list
    cdef public object raw_key
    cdef public object raw_value

    cdef list _own_headers(self)

    @cython.locals(size=Py_ssize_t)
    cpdef Py_ssize_t memory_size(self) except -1

    @cython.locals(parts=list, topic=bytes)
    cpdef bytes to_bytes(self)


cdef Py_ssize_t _units(str text) except -1


cdef class ContextHolder:
    cdef public RecordContext record_context


@cython.locals(made=RecordContext)
cdef RecordContext record_context(
    object timestamp, object offset, object partition, object topic, object headers, object raw_key=*,
    object raw_value=*
)
