# The C types of partition_group.py.

cimport cython

from barnabas.streams.engine.record cimport InputRecord, StampedRecord


cdef class Stamp:
    cpdef StampedRecord stamp(self, InputRecord raw, object partition_time)


@cython.final
cdef class RecordQueue:
    cdef readonly tuple name
    cdef readonly object topic
    cdef readonly object partition
    cdef Stamp _stamp
    cdef list _next
    cdef list _added
    cdef readonly StampedRecord head
    cdef public object partition_time

    cpdef object add(self, InputRecord record)
    cpdef object advance(self)
    cpdef StampedRecord poll(self)


@cython.final
cdef class _HeadsByTime:
    cdef list heap

    @cython.locals(at=Py_ssize_t, parent=Py_ssize_t)
    cdef object push(self, object timestamp, RecordQueue queue)

    @cython.locals(at=Py_ssize_t, child=Py_ssize_t, size=Py_ssize_t)
    cdef RecordQueue pop(self)


@cython.final
cdef class PartitionGroup:
    cdef object _stamp
    cdef dict _queues
    cdef _HeadsByTime _heads
    cdef RecordQueue _last
    cdef readonly object stream_time

    @cython.locals(queue=RecordQueue)
    cpdef object add(self, InputRecord record)

    @cython.locals(queue=RecordQueue, record=StampedRecord)
    cpdef StampedRecord next_record(self)
