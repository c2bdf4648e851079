# The C types of window.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport int_at, long_at
from barnabas.streams.serdes.window_keys cimport window_key
from barnabas.streams.state.changelog_record cimport changelog_record
from barnabas.streams.state.store cimport SerdeStore
from barnabas.streams.state.value_format cimport HeadersFormat, TimestampedFormat, ValueFormat
from barnabas.streams.state.window_bytes cimport WindowSegments
from barnabas.streams.topology.record cimport make_record


cdef class WindowStore(SerdeStore):
    cdef object _windows
    cdef WindowSegments _segments
    cdef readonly object window_size_ms
    cdef bint _retain_duplicates
    cdef object _sequence
    cdef readonly ValueFormat _format
    cdef readonly object _cache

    @cython.locals(segments=WindowSegments, data=bytes, sequence=int)
    cpdef object restore(self, object records)
    cpdef list of_key(self, object key, object first, object last, bint reverse=*)
    cdef bint _is_plain(self) except -1
    @cython.locals(found=list)
    cdef list _entries_of_key(self, object key, object first, object last, bint reverse)
    @cython.locals(data=bytes)
    cdef tuple _read_window(self, tuple entry)
    cpdef object flush(self)
    cpdef object put(self, object key, object value, object window_start)
    cpdef object get(self, object key, object start)
    cpdef object get_behind(self, object key, object start)
    cpdef object put_behind(self, object key, object value, object start)
    @cython.locals(put=bint)
    cdef bytes _keep(self, bytes key, object value, object start)
    cpdef object _put(self, object key, object value, object start)


cdef class JoinWindowStore(WindowStore):
    pass


cdef class TimestampedWindowStore(WindowStore):
    @cython.locals(written=TimestampedFormat, value_data=object)
    cpdef object put_with_timestamp(self, object key, object value, object timestamp, object window_start)
