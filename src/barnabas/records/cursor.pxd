# The C types of cursor.py, so that the other compiled modules step through records without Python calls.

cimport cython

from barnabas.records.native cimport take_bytes, view_address


@cython.final
cdef class RecordCursor:
    cdef object view
    cdef unsigned char *data
    cdef Py_ssize_t end
    cdef Py_ssize_t next_position
    cdef Py_ssize_t number
    cdef Py_ssize_t remaining
    cdef long long last_offset_delta
    cdef long long offset_delta
    cdef long long timestamp_delta
    cdef Py_ssize_t key_position
    cdef Py_ssize_t key_size
    cdef Py_ssize_t value_position
    cdef Py_ssize_t value_size
    cdef Py_ssize_t headers_position
    cdef Py_ssize_t header_count
    cdef Py_ssize_t name_position
    cdef Py_ssize_t name_size
    cdef Py_ssize_t position
    cdef long long number_read
    cdef long long skipped_delta
    cdef long long lowest_delta
    cdef long long highest_delta
    cdef long long offset_delta_of_highest

    cdef bint advance(self) noexcept nogil
    cdef Py_ssize_t read_fields(self, Py_ssize_t position, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t walk_headers(self, Py_ssize_t position, Py_ssize_t end) noexcept nogil
    cdef bint next_header(self) noexcept nogil
    cdef Py_ssize_t read_number(self, Py_ssize_t position, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t read_long_number(self, Py_ssize_t position, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t read_size(self, Py_ssize_t position, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t skip(self, Py_ssize_t records) noexcept nogil
    cdef Py_ssize_t skip_through(self, Py_ssize_t records, long long last_delta) noexcept nogil
    cdef bint step_back(self, Py_ssize_t position, long long offset_delta) noexcept nogil
    cdef bint skip_before(self, long long offset_delta) noexcept nogil
    cdef RecordCursor copy(self)
    cdef bint check_all(self, bint need_keys) noexcept nogil
    cdef object corrupt(self)
