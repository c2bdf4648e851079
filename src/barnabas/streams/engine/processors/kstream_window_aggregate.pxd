# The C types of kstream_window_aggregate.py.

cimport cython

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.processors.emit_on_close cimport TimeTracker
from barnabas.streams.serdes.change cimport make_change
from barnabas.streams.serdes.key_bytes cimport field
from barnabas.streams.state.window cimport TimestampedWindowStore
from barnabas.streams.topology.record cimport Record, make_record
from barnabas.streams.windowed cimport Window, make_windowed, time_windows


cdef class TimeWindowAggregateProcessor(OperatorProcessor):
    cdef readonly object _store_name
    cdef readonly object _windows
    cdef readonly object _initializer
    cdef readonly object _aggregator
    cdef readonly bint _send_old_values
    cdef readonly bint _on_close
    cdef readonly object _grace_ms
    cdef readonly TimeTracker _tracker
    cdef readonly bint _cached
    cdef readonly object _store
    cdef TimestampedWindowStore _timestamped
    cdef public object _stream_time
    cdef public object _last_emit

    cdef object _stored(self, object key, object start)
    cdef object _put(self, object key, object value, object timestamp, object start)
    cpdef object _advance(self, object timestamp)
    cpdef object _forward_update(self, Record record, Window window, object old, object new, object timestamp)
    cpdef object _forward_final(self, Record record, object close_time)


cdef class KStreamWindowAggregateProcessor(TimeWindowAggregateProcessor):
    cdef object _advance_ms
    cdef object _size_ms

    @cython.locals(window=Window)
    cpdef object process(self, Record record)
    cpdef list _windows_of(self, object timestamp)
