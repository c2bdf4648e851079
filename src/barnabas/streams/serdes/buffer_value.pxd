# The C types of buffer_value.py.

cimport cython

from barnabas.streams.serdes.reader cimport sized
from barnabas.streams.serdes.record_context cimport RecordContext


cdef class BufferValue:
    cdef readonly bytes prior_value
    cdef readonly bytes old_value
    cdef readonly bytes new_value
    cdef readonly RecordContext context

    @cython.locals(size=Py_ssize_t)
    cpdef Py_ssize_t memory_size(self) except -1
    @cython.locals(old=bytes)
    cpdef bytes to_bytes(self)
