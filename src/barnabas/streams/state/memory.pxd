# The C types of memory.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport place_after, place_before


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

    cpdef object get(self, object key)
    cpdef object put(self, object key, object value)
    cpdef object delete(self, object key)
    cpdef object load(self, object key, object value)
    @cython.locals(data=dict, found=list)
    cpdef list entries(self, object first, object last)
    @cython.locals(at=Py_ssize_t, keys=list)
    cdef object _add(self, bytes key)
    @cython.locals(at=Py_ssize_t, keys=list)
    cdef object _remove(self, bytes key)
    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t, chosen=list)
    cdef list _chosen(self, bytes first, bytes last, bint open_end)


@cython.locals(begin=Py_ssize_t)
cdef list _between(list keys, bytes first, bytes last, bint open_end)
