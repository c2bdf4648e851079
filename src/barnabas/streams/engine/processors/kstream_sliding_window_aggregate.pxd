# The C types of kstream_sliding_window_aggregate.py.

cimport cython

from barnabas.streams.engine.processors.kstream_window_aggregate cimport TimeWindowAggregateProcessor
from barnabas.streams.serdes.key_bytes cimport field
from barnabas.streams.state.window cimport TimestampedWindowStore
from barnabas.streams.topology.record cimport Record
from barnabas.streams.windowed cimport make_time_window


cdef class _Around:
    cdef list starts
    cdef object left
    cdef object right
    cdef bint left_exists
    cdef bint right_exists
    cdef object previous


cdef class KStreamSlidingWindowAggregateProcessor(TimeWindowAggregateProcessor):
    cdef object _span
    cdef TimestampedWindowStore _plain

    @cython.locals(around=_Around)
    cpdef object process(self, Record record)
    @cython.locals(around=_Around)
    cpdef _Around _update_around(self, Record record, object close_time)
    @cython.locals(around=_Around)
    cpdef object _process_early(self, Record record, object close_time)
    cpdef object _around(self, object key, object first, object last, bint reverse)
    cdef object _read(self, object entry)
    cpdef object _create_windows(self, Record record, object close_time, _Around around)
    cpdef object _create_right_of(self, Record record, _Around around)
    cpdef object _create_from_scratch(self, object start, Record record, object close_time)
    cpdef object _update(self, object start, object old, object before, Record record, object close_time)
