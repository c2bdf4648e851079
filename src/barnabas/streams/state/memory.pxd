# The C types of memory.py.

cimport cython


@cython.final
cdef class MemoryMap:
    cdef dict _data
    cdef list _sorted
    cdef list _new
    cdef set _dead
