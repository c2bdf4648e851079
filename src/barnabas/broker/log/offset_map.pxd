# The C types of offset_map.py.

cimport cython

from barnabas.records.cursor cimport RecordCursor
from barnabas.records.native cimport (
    bytearray_address, copy_range, int64_address, new_bytearray, number_size, take_bytes
)


@cython.final
cdef class SkimpyOffsetMap:
    cdef object table
    cdef bytes salt
    cdef long long *cells
    cdef Py_ssize_t mask
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t size
    cdef public long long latest_offset
    cdef readonly Py_ssize_t kept
    cdef readonly Py_ssize_t tombstones
    cdef readonly long long first_delta
    cdef readonly long long highest_delta

    cdef Py_ssize_t slot_of(self, bytes key) except -1
    cpdef bint put(self, bytes key, long long offset) except -1
    cdef bint keeps(self, RecordCursor cursor, long long offset, bint keep_tombstones) except -1


cdef Py_ssize_t put_rebased(
    unsigned char *target, Py_ssize_t position, RecordCursor cursor, long long shift, bint same
) noexcept
cdef Py_ssize_t put_number(unsigned char *target, Py_ssize_t position, long long number) noexcept nogil
