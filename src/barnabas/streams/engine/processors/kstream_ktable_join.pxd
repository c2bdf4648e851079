# The C types of kstream_ktable_join.py.

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.processors.operator cimport ValueGetter
from barnabas.streams.topology.record cimport Record, make_record


cdef class KStreamKTableJoinProcessor(OperatorProcessor):
    cdef ValueGetter _getter
    cdef bint _versioned
    cdef object _mapper
    cdef object _joiner
    cdef bint _left_join
    cdef object _buffer_name
    cdef object _buffer

    cpdef object process(self, Record record)
    cdef object _join(self, Record record)
