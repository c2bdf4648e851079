# The C types of time_heap.py.

cimport cython


@cython.final
cdef class TimeHeap:
    cdef readonly list heap

    @cython.locals(at=Py_ssize_t, parent=Py_ssize_t)
    cpdef object push(self, object timestamp, object item)

    @cython.locals(at=Py_ssize_t, child=Py_ssize_t, size=Py_ssize_t)
    cpdef object pop(self)
