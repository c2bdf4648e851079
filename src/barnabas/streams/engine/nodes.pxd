# The C types of nodes.py.

cimport cython

from barnabas.streams.engine.context cimport TaskContext
from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.record cimport InputRecord, OutputRecord, StampedRecord, output_record, stamped_record
from barnabas.streams.engine.record_collector cimport RecordCollector
from barnabas.streams.engine.task_node cimport TaskNode
from barnabas.streams.serdes.record_context cimport RecordContext
from barnabas.streams.serdes.serde_calls cimport SerdeCalls
from barnabas.streams.topology.record cimport Record


cdef class SourceTaskNode(TaskNode):
    cdef object _node
    cdef readonly object timestamp_extractor
    cdef SerdeCalls _keys
    cdef SerdeCalls _values
    cdef TaskContext _context

    cpdef StampedRecord deserialize(self, InputRecord record)
    cpdef object process(self, Record record)


cdef class ProcessorTaskNode(TaskNode):
    cdef readonly object processor
    cdef object _process
    cdef OperatorProcessor _operator
    cdef TaskContext _context

    cpdef object process(self, Record record)


cdef class SinkTaskNode(TaskNode):
    cdef object _node
    cdef object _topic
    cdef readonly object partitioner
    cdef readonly object key_serializer
    cdef readonly object value_serializer
    cdef SerdeCalls _keys
    cdef SerdeCalls _values
    cdef TaskContext _context
    cdef RecordCollector _collector

    @cython.locals(context=RecordContext, headers=list, collector=RecordCollector, at_key=bint, made=OutputRecord)
    cpdef object process(self, Record record)
