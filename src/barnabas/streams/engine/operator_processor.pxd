# The C types of operator_processor.py.

from barnabas.streams.engine.context cimport TaskContext
from barnabas.streams.topology.record cimport Record


cdef class OperatorProcessor:
    cdef public TaskContext context

    cpdef object process(self, Record record)
