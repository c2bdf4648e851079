# The C types of punctuation.py.

cimport cython

from barnabas.streams.engine.time_heap cimport TimeHeap


@cython.final
cdef class PunctuationQueue:
    cdef TimeHeap _queue
    cdef Py_ssize_t _added

    cpdef bint is_empty(self) except -1
