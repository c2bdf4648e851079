# The C types of key_value.py.

from barnabas.streams.state.changelog_record cimport ChangelogRecord, changelog_record
from barnabas.streams.state.store cimport SerdeStore
from barnabas.streams.state.value_format cimport TimestampedFormat, ValueFormat, timestamped


cdef class KeyValueStore(SerdeStore):
    cdef object _map
    cdef readonly ValueFormat _format

    cpdef object _put(self, object key, object value)


cdef class TimestampedKeyValueStore(KeyValueStore):
    pass


cdef class LRUStore(KeyValueStore):
    cdef object _max_entries
    cdef dict _used

    cpdef object _put(self, object key, object value)
