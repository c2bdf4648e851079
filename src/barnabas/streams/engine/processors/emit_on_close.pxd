# The C types of emit_on_close.py.


cdef class TimeTracker:
    cdef public object emit_interval_ms
    cdef public object min_time
    cdef public object next_time_to_emit
    cdef public object stream_time
