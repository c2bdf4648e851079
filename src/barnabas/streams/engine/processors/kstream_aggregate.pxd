# The C types of kstream_aggregate.py.

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.processors.table_processor cimport TableProcessor
from barnabas.streams.serdes.key_bytes cimport field
from barnabas.streams.topology.record cimport Record


cdef class KStreamAggregateProcessor(TableProcessor):
    cdef object _initializer
    cdef object _aggregator

    cpdef object process(self, Record record)


cdef class KStreamReduceProcessor(TableProcessor):
    cdef object _reducer

    cpdef object process(self, Record record)


cdef class KTablePassThroughProcessor(OperatorProcessor):
    cpdef object process(self, Record record)
