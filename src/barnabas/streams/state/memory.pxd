# The C types of memory.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport place


cdef class OrderedBytes:
    cpdef object get(self, object key)
    cpdef object put(self, object key, object value)
    cpdef object delete(self, object key)
    cpdef object load(self, object key, object value)
    cpdef list entries(self, object first, object last)


cdef class MemoryMap(OrderedBytes):
    cdef dict _data
    cdef list _lists
    cdef list _bounds
    cdef Py_ssize_t _near
    cdef Py_ssize_t _low
    cdef Py_ssize_t _high

    cpdef object get(self, object key)
    @cython.locals(data=dict, size=Py_ssize_t)
    cpdef object put(self, object key, object value)
    cpdef object delete(self, object key)
    cpdef object load(self, object key, object value)
    @cython.locals(data=dict, found=list)
    cpdef list entries(self, object first, object last)
    @cython.locals(at=Py_ssize_t, keys=list, position=Py_ssize_t)
    cdef object _add(self, bytes key)
    @cython.locals(at=Py_ssize_t, keys=list)
    cdef object _remove(self, bytes key)
    cdef object _sort(self)
    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t, chosen=list)
    cdef list _chosen(self, bytes first, bytes last, bint open_end)
    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t, keys=list)
    cdef list _between(self, Py_ssize_t at, bytes first, bytes last, bint open_end)
    cdef Py_ssize_t _list_of(self, bytes key) except -1
