# The C types of operator.py.

from barnabas.streams.state.key_value cimport TimestampedKeyValueStore


cdef class ValueGetter:
    cpdef object get(self, object key, object as_of=*)


cdef class StoreValueGetter(ValueGetter):
    cdef readonly object _store_name
    cdef readonly object _store
    cdef TimestampedKeyValueStore _timestamped
    cdef bint _has_history

    cpdef object get(self, object key, object as_of=*)
