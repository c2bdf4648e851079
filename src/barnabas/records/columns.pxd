# The C types of columns.py.

cimport cython

from barnabas.records.cursor cimport RecordCursor
from barnabas.records.native cimport bytearray_address, copy_range, int32_address, int64_address, int64_sum, new_bytearray


@cython.final
cdef class BinaryColumn:
    cdef object ends_array
    cdef object data_array
    cdef object valid_array
    cdef int *ends
    cdef unsigned char *data
    cdef unsigned char *valid
    cdef Py_ssize_t rows
    cdef Py_ssize_t row_capacity
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef Py_ssize_t nulls

    cdef int reserve_rows(self, Py_ssize_t rows) except -1
    cdef int reserve_data(self, Py_ssize_t size) except -1
    cdef int truncate(self, Py_ssize_t rows) except -1
    cdef void put(self, unsigned char *source, Py_ssize_t position, Py_ssize_t size) noexcept nogil


@cython.final
cdef class ColumnDecoder:
    cdef readonly Py_ssize_t rows
    cdef Py_ssize_t row_capacity
    cdef Py_ssize_t size_hint
    cdef bint want_key
    cdef bint want_value
    cdef bint want_offset
    cdef bint want_timestamp
    cdef bint want_headers
    cdef readonly BinaryColumn keys
    cdef readonly BinaryColumn values
    cdef readonly BinaryColumn header_names
    cdef readonly BinaryColumn header_values
    cdef readonly object offsets_array
    cdef readonly object timestamps_array
    cdef readonly object header_ends_array
    cdef readonly object header_valid_array
    cdef readonly Py_ssize_t rows_without_headers
    cdef long long *offsets
    cdef long long *timestamps
    cdef int *header_ends
    cdef unsigned char *header_valid
    cdef long long base_offset
    cdef long long base_timestamp
    cdef bint uses_append_time
    cdef long long append_time
    cdef long long first_offset
    cdef long long end_offset
    cdef bint on_record
    cdef readonly long long last_offset

    cdef int reserve_rows(self, Py_ssize_t rows) except -1
    cdef int grow(self, RecordCursor cursor) except -1
    cdef int run(self, RecordCursor cursor, Py_ssize_t most_rows) noexcept nogil
    cdef bint has_room(self, RecordCursor cursor) noexcept nogil
    cdef void put_row(self, RecordCursor cursor, long long offset) noexcept nogil
    cdef void put_headers(self, RecordCursor cursor) noexcept nogil


cdef long long microseconds(long long milliseconds) noexcept nogil
