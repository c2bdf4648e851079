# The C types of key_value.py.

from barnabas.streams.state.changelog_record cimport ChangelogRecord, changelog_record
from barnabas.streams.state.store cimport SerdeStore
from barnabas.streams.state.value_format cimport HeadersFormat, TimestampedFormat, ValueFormat
from barnabas.streams.topology.record cimport make_record


cdef class KeyValueStore(SerdeStore):
    cdef object _map
    cdef readonly object _format
    cdef readonly object _cache

    cpdef object get_behind(self, object key)
    cpdef object put_behind(self, object key, object value)
    cpdef object _stored(self, object key)
    cpdef object _put(self, object key, object value)


cdef class TimestampedKeyValueStore(KeyValueStore):
    pass


cdef class LRUStore(KeyValueStore):
    cdef object _max_entries
    cdef dict _used

    cpdef object get_behind(self, object key)
    cpdef object put_behind(self, object key, object value)
    cpdef object _stored(self, object key)
