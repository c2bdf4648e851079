# The C types of emit_on_close.py.


cdef class TimeTracker:
    cdef public object emit_interval_ms
    cdef public object min_time
    cdef public object next_time_to_emit
    cdef public object stream_time

    cpdef object advance_stream_time(self, object timestamp)
    cpdef object update_min_time(self, object timestamp)
    cpdef bint may_emit(self, object now_ms) except -1
