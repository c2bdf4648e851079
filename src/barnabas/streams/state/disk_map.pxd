# The C types of disk_map.py.

cimport cython


@cython.final
cdef class DiskMap:
    cdef object _backend
    cdef readonly object _handle
    cdef readonly list _snapshots
    cdef dict _waiting
    cdef readonly Py_ssize_t _waiting_bytes

    cpdef flush(self)
    cdef object _written(self, object key)
