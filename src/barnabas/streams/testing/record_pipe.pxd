# The C types of record_pipe.py.

cimport cython

from barnabas.streams.engine.record cimport InputRecord, OutputRecord, input_record
from barnabas.streams.engine.task cimport Task


@cython.final
cdef class Offsets:
    cdef long long next


@cython.final
cdef class DrivenTopic:
    cdef object name
    cdef bint is_global
    cdef object is_read
    cdef Offsets offsets
    cdef readonly bint is_written
    cdef list _next
    cdef list _added

    cdef object add(self, OutputRecord record)
    cdef OutputRecord take(self)
    cdef Py_ssize_t size(self) except -1


cdef class RecordPipe:
    cdef public object _now_ms
    cdef public Task _task
    cdef public object _global
    cdef public object _global_topics
    cdef dict _topics
    cdef dict _offsets

    @cython.locals(found=DrivenTopic, read=bint)
    cpdef object pipe_raw(self, object topic, object key, object value, object timestamp, object headers)

    cpdef object _enqueue_raw(self, object topic, object key, object value, object timestamp, object headers)

    @cython.locals(found=DrivenTopic)
    cpdef object read_raw(self, object topic)

    @cython.locals(found=DrivenTopic)
    cpdef object queue_size(self, object topic)

    @cython.locals(found=DrivenTopic)
    cdef DrivenTopic _topic(self, object name)

    cdef bint _reads(self, DrivenTopic topic) except -1

    cdef object _enqueue(self, DrivenTopic topic, object key, object value, object timestamp, object headers)

    @cython.locals(offsets=Offsets, offset="long long")
    cdef InputRecord _record(self, DrivenTopic topic, object key, object value, object timestamp, object headers)

    cdef object _process_global(self, DrivenTopic topic, object key, object value, object timestamp, object headers)

    @cython.locals(task=Task)
    cpdef object _work_off(self)

    @cython.locals(topic=DrivenTopic, record=OutputRecord)
    cpdef object _capture(self, list records, bint work=*)
