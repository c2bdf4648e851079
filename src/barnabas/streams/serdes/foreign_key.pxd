# The C types of foreign_key.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport field, int_bytes, named_pair, named_tuple, two_bytes, with_two_longs
from barnabas.streams.serdes.serde_calls cimport SerdeCalls


@cython.final
cdef class TopicSerde:
    cdef SerdeCalls _calls
    cdef object _topic

    cpdef object serialize(self, object value, object headers)
    cpdef object deserialize(self, object data, object headers)


cdef class CombinedKeySchema:
    cdef object _foreign_topic
    cdef object _primary_topic
    cdef object _foreign
    cdef object _primary
    cdef TopicSerde _foreigns
    cdef TopicSerde _primaries

    cpdef bytes prefix_bytes(self, object foreign_key, object headers)
    @cython.locals(primary=bytes)
    cpdef bytes to_bytes(self, object foreign_key, object primary_key, object headers)
