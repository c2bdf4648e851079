# The C types of record_context.py.

cimport cython

cdef class RecordContext:
    cdef public object timestamp
    cdef public object offset
    cdef public object partition
    cdef public object topic
    cdef readonly list header_list
    cdef public object raw_key
    cdef public object raw_value


cdef class ContextHolder:
    cdef public RecordContext record_context


@cython.locals(made=RecordContext)
cdef RecordContext record_context(
    object timestamp, object offset, object partition, object topic, object headers, object raw_key=*,
    object raw_value=*
)
