# The C types of rows.py.

cimport cython

from barnabas.records.native cimport int32_address, int32_view_address, int64_view_address, number_size, view_address
from barnabas.records.partitioner cimport murmur2_at


@cython.final
cdef class BinaryRows:
    cdef object views
    cdef int *ends
    cdef unsigned char *data
    cdef unsigned char *valid
    cdef bint has_nulls
    cdef bint is_absent
    cdef Py_ssize_t offset

    cdef Py_ssize_t size(self, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t start(self, Py_ssize_t row) noexcept nogil
    cdef bint is_null(self, Py_ssize_t row) noexcept nogil
    cdef unsigned int murmur2(self, Py_ssize_t row) noexcept nogil


@cython.final
cdef class ArrowRows:
    cdef readonly Py_ssize_t count
    cdef readonly BinaryRows keys
    cdef readonly BinaryRows values
    cdef readonly BinaryRows header_names
    cdef readonly BinaryRows header_values
    cdef object views
    cdef long long *timestamps
    cdef unsigned char *timestamp_valid
    cdef bint has_timestamps
    cdef bint has_null_timestamps
    cdef Py_ssize_t timestamp_offset
    cdef long long default_timestamp
    cdef bint has_headers
    cdef int *header_ends
    cdef unsigned char *header_valid
    cdef bint has_null_headers
    cdef Py_ssize_t header_offset

    cdef long long timestamp(self, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t first_header(self, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t end_of_headers(self, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t headers_size(self, Py_ssize_t row) except -1
