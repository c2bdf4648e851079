# The C types of ktable_source.py.

from barnabas.streams.engine.processors.table_processor cimport TableProcessor
from barnabas.streams.serdes.change cimport make_change
from barnabas.streams.topology.record cimport Record, make_record


cdef class KTableSourceProcessor(TableProcessor):
    cpdef object process(self, Record record)
