# The C types of kstream_kstream_join.py.

cimport cython

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.processors.emit_on_close cimport TimeTracker
from barnabas.streams.state.window cimport WindowStore
from barnabas.streams.topology.record cimport Record, make_record


cdef class KStreamJoinWindowProcessor(OperatorProcessor):
    cdef object _store_name
    cdef object _window
    cdef WindowStore _own_window

    cpdef object process(self, Record record)


cdef class KStreamKStreamJoinProcessor(OperatorProcessor):
    cdef object _operator
    cdef object _joiner
    cdef bint _outer
    cdef bint _left
    cdef object _before_ms
    cdef object _after_ms
    cdef object _grace_ms
    cdef object _left_open_ms
    cdef object _right_open_ms
    cdef object _other
    cdef WindowStore _own_other
    cdef object _waiting
    cdef TimeTracker _tracker

    @cython.locals(found=bint, tracker=TimeTracker)
    cpdef object process(self, Record record)
    cdef list _others(self, object key, object first, object last)
    cpdef object _forward_alone(self, Record record)
    cpdef object _emit_non_joined(self, Record record)


cdef class KStreamKStreamSelfJoinProcessor(OperatorProcessor):
    cdef object _store_name
    cdef object _joiner
    cdef object _before_ms
    cdef object _after_ms
    cdef object _retention_ms
    cdef TimeTracker _tracker
    cdef object _store

    @cython.locals(own_due=bint)
    cpdef object process(self, Record record)
    cpdef object _between(self, object key, object first, object last)
    cpdef object _forward(self, Record record, object value, object timestamp)
