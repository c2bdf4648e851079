# The C types of decoder.py.

cimport cython

from barnabas.records.cursor cimport RecordCursor
from barnabas.records.native cimport take_bytes, untrack


cdef class ConsumerRecord:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly long long offset
    cdef readonly long long timestamp
    cdef readonly int timestamp_type
    cdef readonly object key
    cdef readonly object value
    cdef object header_list
    cdef readonly int leader_epoch
    cdef readonly int serialized_key_size
    cdef readonly int serialized_value_size


@cython.final
cdef class RecordsDecoder:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly long long next_offset
    cdef readonly bint exhausted
    cdef object batches
    cdef object key_deserializer
    cdef object value_deserializer
    cdef object failure
    cdef RecordCursor cursor
    cdef bint on_record
    cdef long long base_offset
    cdef long long base_timestamp
    cdef long long append_time
    cdef int timestamp_type
    cdef bint uses_append_time
    cdef readonly int leader_epoch
    cdef long long after_batch

    cdef int take_from_batch(self, RecordCursor cursor, list records, Py_ssize_t max_records) except -1
    cdef RecordCursor open_next(self)
    cdef ConsumerRecord make_record(self, RecordCursor cursor)


cdef list read_headers(RecordCursor cursor)
