# The C types of ktable_ktable_join.py.

cimport cython

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.processors.operator cimport ValueGetter
from barnabas.streams.engine.processors.table_processor cimport TableProcessor
from barnabas.streams.serdes.change cimport Change, make_change
from barnabas.streams.topology.record cimport Record, make_record


cdef class KTableKTableJoinProcessor(OperatorProcessor):
    cdef object _join
    cdef bint _needs_other
    cdef bint _use_versioned_semantics
    cdef bint _send_old_values
    cdef ValueGetter _getter

    @cython.locals(change=Change)
    cpdef object process(self, Record record)


cdef class KTableKTableJoinMergeProcessor(TableProcessor):
    @cython.locals(change=Change)
    cpdef object process(self, Record record)
