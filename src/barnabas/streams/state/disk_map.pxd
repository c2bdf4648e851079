# The C types of disk_map.py.

cimport cython

from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.sorted_entries cimport SortedEntries


cdef class DiskMap(OrderedBytes):
    cdef object _backend
    cdef readonly object _handle
    cdef readonly list _snapshots
    cdef dict _waiting
    cdef readonly Py_ssize_t _waiting_bytes
    cdef list _order
    cdef SortedEntries _loaded
    cdef bytes _last
    cdef bint _in_order
    cdef object _current
    cdef object _current_value

    cpdef object get(self, object key)
    cpdef object put(self, object key, object value)
    cpdef object delete(self, object key)
    cpdef object load(self, object key, object value)

    @cython.locals(order=list, found=list, begin=Py_ssize_t, end=Py_ssize_t)
    cpdef list entries(self, object first, object last)
    @cython.locals(waiting=dict, entries=dict)
    cdef list _with_waiting(self, list found, list keys)
    cdef object _note(self, object key)
    cdef object _go_on(self, object key, object value)
    cdef object _load_current(self)
    cdef bytes _last_stored(self)

    @cython.locals(entries=SortedEntries, loaded=SortedEntries)
    cpdef flush(self)
    @cython.locals(rows=list)
    cdef object _write_sorted(self, SortedEntries entries)
    @cython.locals(stored=bytes)
    cdef object _written(self, object key)
