# The C types of memory.py.

cimport cython


cdef class OrderedBytes:
    cpdef object get(self, object key)
    cpdef object put(self, object key, object value)
    cpdef object delete(self, object key)
    cpdef list entries(self, object first, object last)


cdef class MemoryMap(OrderedBytes):
    cdef dict _data
    cdef list _sorted
    cdef list _new
    cdef set _dead

    cpdef object get(self, object key)
    cpdef object put(self, object key, object value)
    cpdef object delete(self, object key)
    cpdef list entries(self, object first, object last)
    cdef list _chosen(self, object first, object last, bint open_end)
