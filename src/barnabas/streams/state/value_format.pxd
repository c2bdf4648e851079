# The C types of value_format.py.

from barnabas.records.native cimport int64_from_bytes
from barnabas.streams.serdes.key_bytes cimport bytes_between, field, long_before
from barnabas.streams.state.changelog_record cimport ChangelogRecord, changelog_record
from barnabas.streams.state.store cimport SerdeStore, value_and_timestamp


cdef class ValueFormat:
    cdef readonly bint logs_headers

    cpdef object write(self, SerdeStore store, object value)
    cpdef object read(self, SerdeStore store, object data)
    cpdef ChangelogRecord logged(self, SerdeStore store, object key, object data)
    cpdef object plain(self, object value)
    cpdef object time(self, object value, object default)
    cpdef object headers(self, object value, object default)
    cpdef object restored(self, object record)


cdef class SessionHeadersFormat(ValueFormat):
    pass


cdef class TimestampedFormat(ValueFormat):
    cpdef object stamped(self, object data, object timestamp)


cdef class HeadersFormat(TimestampedFormat):
    pass


cdef object stamp_of(object data)
cdef object after_stamp(object data)
cpdef object timestamped(object data, object timestamp)
