# The C types of session.py.

cimport cython

from barnabas.streams.serdes.window_keys cimport session_key
from barnabas.streams.state.session_bytes cimport SessionSegments
from barnabas.streams.state.store cimport SerdeStore
from barnabas.streams.state.value_format cimport SessionHeadersFormat, ValueFormat
from barnabas.streams.windowed cimport make_session_window, make_windowed


cdef class SessionStore(SerdeStore):
    cdef object _sessions
    cdef object _of_key
    cdef SessionSegments _segments
    cdef readonly bint with_headers
    cdef readonly ValueFormat _format
    cdef readonly object _cache

    cpdef object flush(self)
    @cython.locals(segments=SessionSegments, data=bytes)
    cpdef object restore(self, object records)
    @cython.locals(found=list, kept=list)
    cpdef list near(self, object key, object earliest_end, object latest_start)
    @cython.locals(put=bint)
    cpdef object put_behind(self, object key, object start, object end, object value)
    cpdef object put(self, object session, object value)
    cpdef object remove(self, object session)
    cpdef object _log(self, object key, object value)
