# The C types of serde_calls.py.

cimport cython

from barnabas.records.native cimport int64_from_bytes, int64_to_bytes
from barnabas.streams.serdes.key_bytes cimport text_bytes


cdef class CompiledSerde:
    cpdef object serialize(self, object topic, object value, object headers)
    cpdef object deserialize(self, object topic, object data, object headers)


@cython.final
cdef class SerdeCalls:
    cdef object _serialize
    cdef object _deserialize
    cdef CompiledSerde _compiled
    cdef bint _is_bytes
    cdef bint _is_text
    cdef bint _is_long

    cpdef object serialize(self, object topic, object value, object headers)
    cpdef object deserialize(self, object topic, object data, object headers)
    cpdef object written(self, object value)
    cpdef object read(self, object data)


cdef object bytes_to_text(bytes data)
