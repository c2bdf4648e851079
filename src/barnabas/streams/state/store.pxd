# The C types of store.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport named_pair
from barnabas.streams.serdes.record_context cimport ContextHolder, RecordContext
from barnabas.streams.serdes.serde_calls cimport SerdeCalls
from barnabas.streams.state.changelog_record cimport changelog_record


cdef object value_and_timestamp(object value, object timestamp)


cdef class StateStore:
    cdef readonly object name
    cdef public bint persistent
    cdef public bint logged
    cdef public bint last_change_counts
    cdef public bint is_open
    cdef public object context
    cdef ContextHolder _holder
    cdef public object topic
    cdef public list _changes

    cpdef list changes(self)
    cpdef object flush(self)

    @cython.locals(context=RecordContext)
    cpdef object _timestamp(self)

    @cython.locals(context=RecordContext)
    cpdef object _headers(self)

    @cython.locals(context=RecordContext)
    cpdef list _header_list(self)


cdef class SerdeStore(StateStore):
    cdef public object key_serde
    cdef public object value_serde
    cdef SerdeCalls _key_calls
    cdef SerdeCalls _value_calls
    cdef bint _keeps_key
    cdef object _last_key
    cdef object _last_data

    cpdef object _key(self, object key)
    cpdef object _value(self, object value, object headers=*)
    cpdef object _read_key(self, object data)
    cpdef object _read_value(self, object data)
