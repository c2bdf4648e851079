# The C types of ktable_suppress.py.

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
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
    cdef object _stream_time

    cpdef object process(self, Record record)
