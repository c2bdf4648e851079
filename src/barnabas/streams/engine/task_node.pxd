# The C types of task_node.py.

from barnabas.streams.topology.record cimport Record


cdef class TaskNode:
    cdef readonly str name
    cdef readonly list children
    cdef readonly dict child_by_name
    cdef readonly object stores

    cpdef object process(self, Record record)
