# The C types of time_ordered_buffer.py.

cimport cython

from barnabas.streams.serdes.buffer_value cimport BufferValue
from barnabas.streams.serdes.change cimport Change, make_change
from barnabas.streams.serdes.key_bytes cimport named_tuple
from barnabas.streams.serdes.record_context cimport RecordContext
from barnabas.streams.state.changelog_record cimport changelog_record
from barnabas.streams.state.store cimport SerdeStore


cdef class TimeOrderedChangeBuffer(SerdeStore):
    cdef object _map
    cdef bint _tracked
    cdef dict _times
    cdef dict _values
    cdef list _queue
    cdef dict _dirty
    cdef Py_ssize_t _size

    @cython.locals(held=BufferValue, prior=bytes, old=bytes, new=bytes, data=bytes)
    cpdef object put(self, object time, object key, Change change, RecordContext context)

    cpdef object evict_while(self, object wanted, object callback)

    cpdef object evict_until(self, object time, object callback)

    @cython.locals(held=BufferValue)
    cdef object _evict_head(self, object callback)

    cpdef bint exceeds(self, object max_records, object max_bytes) except -1

    @cython.locals(held=BufferValue)
    cpdef object flush(self)

    @cython.locals(held=BufferValue)
    cdef object _hold(self, object time, bytes key, BufferValue value)

    @cython.locals(held=BufferValue)
    cdef object _forget(self, bytes key)

    @cython.locals(queue=list, head=tuple)
    cdef tuple _head(self)
