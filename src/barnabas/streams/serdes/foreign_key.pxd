# The C types of foreign_key.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport (
    byte,
    bytes_between,
    field,
    int_at,
    int_bytes,
    joined,
    long_at,
    named_pair,
    named_tuple,
    with_numbers,
)
from barnabas.streams.serdes.serde_calls cimport CompiledSerde, SerdeCalls


cdef tuple _INSTRUCTIONS
cdef bytes _appended(bytes head, object key, bytes tail)
cdef object _hash_at(bytes data, Py_ssize_t at)
cdef object _int_at(bytes data, Py_ssize_t at)


@cython.final
cdef class TopicSerde:
    cdef SerdeCalls _calls
    cdef object _topic

    cpdef object serialize(self, object value, object headers)
    cpdef object deserialize(self, object data, object headers)


cdef class _Subscriptions(CompiledSerde):
    cdef TopicSerde _keys

    @cython.locals(head=bytes, version=int)
    cpdef object serialize(self, object topic, object value, object headers)
    @cython.locals(raw=bytes, first=int, version=int, at=Py_ssize_t, end=Py_ssize_t, code=int)
    cpdef object deserialize(self, object topic, object data, object headers)


cdef class _Responses(CompiledSerde):
    cdef SerdeCalls _values

    @cython.locals(head=bytes)
    cpdef object serialize(self, object topic, object value, object headers)
    @cython.locals(raw=bytes, rest=bytes, first=int, at=Py_ssize_t)
    cpdef object deserialize(self, object topic, object data, object headers)


cdef class CombinedKeySchema:
    cdef object _foreign_topic
    cdef object _primary_topic
    cdef object _foreign
    cdef object _primary
    cdef TopicSerde _foreigns
    cdef TopicSerde _primaries

    cpdef bytes prefix_bytes(self, object foreign_key, object headers)
    cpdef bytes to_bytes(self, object foreign_key, object primary_key, object headers)
    cdef bytes _key(self, object foreign_key, object primary, object headers)
