# The C types of record_collector.py.

cimport cython


@cython.final
cdef class RecordCollector:
    cdef object _task
    cdef object _handler
    cdef object _partitions_of
    cdef readonly list records
    cdef public bint keeps_origins
    cdef public object source

    cpdef list drain(self)
