# The C types of stateless.py.

cimport cython

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.serdes.change cimport Change
from barnabas.streams.topology.record cimport Record, make_record


cdef class KStreamFilterProcessor(OperatorProcessor):
    cdef object _predicate
    cdef bint _wanted

    cpdef object process(self, Record record)


cdef class FunctionProcessor(OperatorProcessor):
    cdef object _function


cdef class KStreamMapProcessor(FunctionProcessor):
    cpdef object process(self, Record record)


cdef class KStreamSelectKeyProcessor(FunctionProcessor):
    cpdef object process(self, Record record)


cdef class KTableToStreamProcessor(OperatorProcessor):
    @cython.locals(change=Change)
    cpdef object process(self, Record record)


cdef class KStreamMapValuesProcessor(FunctionProcessor):
    cpdef object process(self, Record record)


cdef class KStreamFlatMapProcessor(FunctionProcessor):
    cpdef object process(self, Record record)


cdef class KStreamFlatMapValuesProcessor(FunctionProcessor):
    cpdef object process(self, Record record)


cdef class KStreamPeekProcessor(FunctionProcessor):
    cpdef object process(self, Record record)


cdef class ForeachProcessorProcessor(FunctionProcessor):
    cpdef object process(self, Record record)


cdef class KStreamBranchProcessor(OperatorProcessor):
    cdef list _branches
    cdef object _default

    cpdef object process(self, Record record)


cdef class PassThroughProcessor(OperatorProcessor):
    cpdef object process(self, Record record)
