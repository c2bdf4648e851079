# The C types of test_topics.py.

from barnabas.streams.serdes.serde_calls cimport SerdeCalls
from barnabas.streams.testing.record_pipe cimport RecordPipe


cdef class TestInputTopic:
    cdef RecordPipe _driver
    cdef object _topic
    cdef SerdeCalls _key
    cdef SerdeCalls _value
    cdef object _time
    cdef object _advance_ms
