# The C types of change.py.

cimport cython


cdef class Change:
    cdef readonly object new_value
    cdef readonly object old_value
    cdef readonly bint is_latest


@cython.locals(made=Change)
cdef Change make_change(object new_value, object old_value, bint is_latest)
