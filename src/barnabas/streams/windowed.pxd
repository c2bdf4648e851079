# The C types of windowed.py.

cimport cython


cdef class Window:
    cdef readonly object start
    cdef readonly object end


cdef class TimeWindow(Window):
    pass


cdef class SessionWindow(Window):
    pass


cdef class UnlimitedWindow(Window):
    pass


cdef class Windowed:
    cdef readonly object key
    cdef readonly Window window


@cython.locals(made=TimeWindow)
cdef TimeWindow make_time_window(object start, object end)
@cython.locals(made=SessionWindow)
cdef SessionWindow make_session_window(object start, object end)
cpdef list time_windows(object timestamp, object size_ms, object advance_ms)
@cython.locals(made=Windowed)
cdef Windowed make_windowed(object key, Window window)
