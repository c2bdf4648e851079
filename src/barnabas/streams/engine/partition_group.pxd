# The C types of partition_group.py.

cimport cython

from barnabas.streams.engine.record cimport InputRecord, StampedRecord
from barnabas.streams.engine.time_heap cimport TimeHeap


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
cdef class PartitionGroup:
    cdef object _stamp
    cdef dict _queues
    cdef RecordQueue _only
    cdef TimeHeap _heads
    cdef RecordQueue _last
    cdef readonly object stream_time

    @cython.locals(queue=RecordQueue, waited=bint)
    cpdef object add(self, InputRecord record)

    cdef object _push(self, RecordQueue queue)

    @cython.locals(queue=RecordQueue, record=StampedRecord)
    cpdef StampedRecord next_record(self)

    cpdef bint waits(self) except -1
