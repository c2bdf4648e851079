# The C types of number_search.py.

cimport cython

from barnabas.records.native cimport bytearray_address, new_bytearray, view_address
from barnabas.records.rows cimport BinaryRows


@cython.final
cdef class NumberSearch:
    cdef bytes name
    cdef object name_view
    cdef unsigned char *name_data
    cdef Py_ssize_t name_size
    cdef bint has_short_escapes
    cdef int test
    cdef double wanted
    cdef Py_ssize_t position

    cpdef object rows(self, object data)
    cdef bint may_match(self, unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    cdef bint hides_name(self, unsigned char *data, Py_ssize_t end) noexcept nogil
    cdef bint begins_number(self, unsigned char *data, Py_ssize_t start) noexcept nogil
    cdef bint is_name(self, unsigned char *data, Py_ssize_t end) noexcept nogil
    cdef bint number_fits(self, unsigned char *data, Py_ssize_t end) noexcept nogil
    cdef bint fits(self, double value, bint is_exact) noexcept nogil
