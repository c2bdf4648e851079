# The C types of ktable_suppress.py.

cimport cython

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.context cimport TaskContext
from barnabas.streams.serdes.record_context cimport RecordContext
from barnabas.streams.state.time_ordered_buffer cimport TimeOrderedChangeBuffer
from barnabas.streams.topology.record cimport Record, make_record


cdef class KTableSuppressProcessor(OperatorProcessor):
    cdef bint _drops_tombstones
    cdef bint _window_end
    cdef object _store_name
    cdef object _max_records
    cdef object _max_bytes
    cdef bint _emit_early
    cdef object _wait_ms
    cdef object _buffer
    cdef TimeOrderedChangeBuffer _own
    cdef object _emitting
    cdef object _stream_time

    @cython.locals(context=TaskContext, own=TimeOrderedChangeBuffer)
    cpdef object process(self, Record record)
    cpdef bint _over_capacity(self) except -1
    @cython.locals(where=RecordContext, previous=RecordContext, context=TaskContext)
    cpdef object _emit(self, object due)
