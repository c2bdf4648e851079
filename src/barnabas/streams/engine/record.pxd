# The C types of record.py.

cimport cython

cdef class InputRecord:
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly object offset
    cdef readonly object timestamp
    cdef readonly object key
    cdef readonly object value
    cdef readonly object headers


cdef class OutputRecord:
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly object key
    cdef readonly object value
    cdef readonly object timestamp
    cdef readonly object headers
    cdef public object origin


cdef class StampedRecord:
    cdef readonly InputRecord raw
    cdef readonly object key
    cdef readonly object value
    cdef public object timestamp


@cython.locals(made=OutputRecord)
cdef OutputRecord output_record(
    object topic, object partition, object key, object value, object timestamp, object headers
)
@cython.locals(made=StampedRecord)
cdef StampedRecord stamped_record(InputRecord raw, object key, object value)
