# The C types of builder.py.

cimport cython

from barnabas.records.native cimport (
    buffer_address, copy_bytes, copy_range, finished, hold, int64_sum, new_buffer, number_size
)
from barnabas.records.rows cimport ArrowRows, BinaryRows


@cython.final
cdef class RecordBatchBuilder:
    cdef object buffer
    cdef unsigned char *data
    cdef Py_ssize_t position
    cdef Py_ssize_t allocated
    cdef Py_ssize_t limit
    cdef double compression_ratio
    cdef str codec
    cdef object level
    cdef int attributes
    cdef long long count
    cdef long long base_timestamp
    cdef long long highest_timestamp
    cdef long long producer_id
    cdef int producer_epoch
    cdef int base_sequence
    cdef bint closed

    cdef Py_ssize_t append_record(self, long long timestamp_ms, object key, object value, object headers) except -2
    cdef bint begin_record(self, long long timestamp_ms, Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t headers_size) except -1
    cdef int put_value(self, BinaryRows rows, Py_ssize_t row) except -1
    cdef int put_row_headers(self, ArrowRows rows, Py_ssize_t row) except -1
    cdef int put_headers(self, list headers) except -1
    cdef bytes close_in_place(self, long long base_offset, int partition_leader_epoch, bytes header)
    cdef int reserve(self, Py_ssize_t end) except -1
    cdef void put_number(self, long long number) noexcept nogil
    cdef void put_bytes(self, bytes item, Py_ssize_t size) noexcept


cdef list checked_headers(object headers)
cdef Py_ssize_t headers_size(list headers)
