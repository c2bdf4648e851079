# The C types of kstream_session_window_aggregate.py.

cimport cython

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.processors.emit_on_close cimport TimeTracker
from barnabas.streams.serdes.change cimport make_change
from barnabas.streams.state.session cimport SessionStore
from barnabas.streams.topology.record cimport Record, make_record
from barnabas.streams.windowed cimport Window, Windowed, make_session_window, make_windowed


cdef class KStreamSessionWindowAggregateProcessor(OperatorProcessor):
    cdef object _store_name
    cdef object _initializer
    cdef object _aggregator
    cdef object _merger
    cdef object _gap_ms
    cdef object _grace_ms
    cdef bint _send_old_values
    cdef bint _on_close
    cdef TimeTracker _tracker
    cdef bint _cached
    cdef object _store
    cdef SessionStore _sessions
    cdef object _stream_time
    cdef object _last_emit

    @cython.locals(merged=list, session=Windowed, window=Window)
    cpdef object process(self, Record record)
    cdef list _near(self, object key, object earliest_end, object latest_start)
    cdef object _put(self, Windowed session, object aggregate)
    cdef object _remove(self, Windowed session)
    cpdef object _forward_update(self, Windowed session, object old, object new)
    cpdef object _forward_final(self, Record record, object close_time)
