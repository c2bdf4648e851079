# The C types of sorted_entries.py.

cimport cython

from barnabas.records.native cimport bytearray_address, int64_address, new_bytearray
from barnabas.streams.state.packed_entries cimport fetch, is_same_key, key_at, put_entry, sort_entries, value_at


@cython.final
cdef class SortedEntries:
    cdef Py_ssize_t _count
    cdef Py_ssize_t _most
    cdef Py_ssize_t _used
    cdef Py_ssize_t _size
    cdef Py_ssize_t _taken
    cdef bytearray _data_array
    cdef bytearray _order_array
    cdef unsigned char *_data
    cdef long long *_order
    cdef public list deleted

    @cython.locals(size=Py_ssize_t)
    cpdef bint add(self, object key, object value) except -1
    @cython.locals(rows=list, at="long long", last=Py_ssize_t)
    cpdef list take(self, Py_ssize_t most, bint every=*)
