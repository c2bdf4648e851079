# The C types of context.py.

cimport cython

from barnabas.streams.engine.task_node cimport TaskNode
from barnabas.streams.serdes.record_context cimport ContextHolder, RecordContext, record_context
from barnabas.streams.topology.record cimport Record


cdef class TaskContext(ContextHolder):
    cdef readonly object task
    cdef readonly object collector
    cdef readonly object key_serde
    cdef readonly object value_serde
    cdef object _config
    cdef public TaskNode current_node
    cdef object _now_ms
    cdef public bint measured

    cpdef object set_system_time_ms(self, object now_ms)
    cpdef object current_system_time_ms(self)
    cpdef object forward_all(self, Record record)

    @cython.locals(node=TaskNode, child=TaskNode, previous=RecordContext)
    cdef object _forward_to(self, list children, Record record)


cdef bint _differs(Record record, RecordContext context) except -1
