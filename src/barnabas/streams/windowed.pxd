# The C types of windowed.py.

cdef class Window:
    cdef readonly object start
    cdef readonly object end


cdef class TimeWindow(Window):
    pass


cdef class SessionWindow(Window):
    pass


cdef class UnlimitedWindow(Window):
    pass
