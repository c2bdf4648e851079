# The C types of decoder.py.

cimport cython

from barnabas.records.cursor cimport RecordCursor
from barnabas.records.native cimport expose_fields, int64_sum, take_bytes, untrack


cdef class ConsumerRecord:
    # Those that expose_fields names, in its order, and nothing before them.
    cdef object topic
    cdef object partition
    cdef object offset
    cdef object timestamp
    cdef object key
    cdef object value
    cdef object header_list
    cdef readonly int timestamp_type
    cdef readonly int leader_epoch
    cdef readonly int serialized_key_size
    cdef readonly int serialized_value_size
    cdef readonly int delivery_count


@cython.final
cdef class OpenBatch:
    cdef str topic
    cdef object partition
    cdef object key_deserializer
    cdef object value_deserializer
    cdef bint with_headers
    cdef bint has_deserializers
    cdef readonly long long base_offset
    cdef long long base_timestamp
    cdef int timestamp_type
    cdef bint uses_append_time
    cdef int leader_epoch
    cdef readonly long long next_offset
    cdef long long timestamp_delta
    cdef object timestamp

    cdef ConsumerRecord make_record(self, RecordCursor cursor)


@cython.final
cdef class RecordRun:
    cdef OpenBatch batch
    cdef RecordCursor cursor
    cdef Py_ssize_t count
    cdef int delivery_count


@cython.final
cdef class EncodedRecords:
    cdef list runs
    cdef Py_ssize_t count


@cython.final
cdef class RecordIterator:
    cdef object runs
    cdef OpenBatch batch
    cdef RecordCursor cursor
    cdef Py_ssize_t left
    cdef int delivery_count


@cython.final
cdef class RecordsDecoder:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly long long next_offset
    cdef readonly bint exhausted
    cdef object batches
    cdef object key_deserializer
    cdef object value_deserializer
    cdef bint with_headers
    cdef object failure
    cdef RecordCursor cursor
    cdef OpenBatch batch
    cdef bint on_record
    cdef readonly int leader_epoch
    cdef long long last_offset
    cdef int delivery_count

    cdef Py_ssize_t take_from_batch(self, list records, Py_ssize_t max_records) except -1
    cdef Py_ssize_t skip_in_batch(self, EncodedRecords found, Py_ssize_t max_records) except -1


cdef list read_headers(RecordCursor cursor)
