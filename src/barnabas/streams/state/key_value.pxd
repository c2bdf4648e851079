# The C types of key_value.py.

cimport cython

from barnabas.streams.state.changelog_record cimport ChangelogRecord, changelog_record
from barnabas.streams.state.memory cimport OrderedBytes
from barnabas.streams.state.store cimport SerdeStore
from barnabas.streams.state.value_format cimport HeadersFormat, TimestampedFormat, ValueFormat
from barnabas.streams.topology.record cimport make_record


cdef class KeyValueStore(SerdeStore):
    cdef OrderedBytes _map
    cdef readonly ValueFormat _format
    cdef readonly object _cache

    cpdef object flush(self)
    cpdef object get(self, object key)
    cpdef object put(self, object key, object value)
    cpdef object delete(self, object key)
    cpdef object get_behind(self, object key)
    cpdef object put_behind(self, object key, object value)
    cpdef object _stored(self, object key)
    cpdef object _put(self, object key, object value)


cdef class TimestampedKeyValueStore(KeyValueStore):
    cpdef object get_with_timestamp(self, object key)
    @cython.locals(written=TimestampedFormat)
    cpdef object put_with_timestamp(self, object key, object value, object timestamp)


cdef class LRUStore(KeyValueStore):
    cdef object _max_entries
    cdef dict _used

    cpdef object get(self, object key)
    cpdef object get_behind(self, object key)
    cpdef object put_behind(self, object key, object value)
    cpdef object _stored(self, object key)
