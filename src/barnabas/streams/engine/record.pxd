# The C types of record.py.

cimport cython

from barnabas.streams.state.changelog_record cimport ChangelogRecord


cdef class InputRecord:
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly object offset
    cdef readonly object timestamp
    cdef readonly object key
    cdef readonly object value
    cdef readonly list header_list

    cdef list _own_headers(self)


cdef class OutputRecord:
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly object key
    cdef readonly object value
    cdef readonly object timestamp
    cdef readonly object header_list
    cdef public object origin


cdef class StampedRecord:
    cdef readonly InputRecord raw
    cdef readonly object key
    cdef readonly object value
    cdef public object timestamp


@cython.locals(at=Py_ssize_t, made=InputRecord, found=list)
cpdef list input_records(
    list topics, list partitions, list offsets, list times, list keys, list values, list headers
)


@cython.locals(record=OutputRecord, topics=list, partitions=list, keys=list, values=list, times=list, headers=list)
cpdef tuple output_columns(list records)


@cython.locals(made=InputRecord)
cdef InputRecord input_record(
    object topic, object partition, object offset, object timestamp, object key, object value, object headers
)


@cython.locals(change=ChangelogRecord)
cdef object append_changes(list sent, object topic, object partition, list changes)


@cython.locals(made=OutputRecord)
cdef OutputRecord output_record(
    object topic, object partition, object key, object value, object timestamp, object headers
)


@cython.locals(made=StampedRecord)
cdef StampedRecord stamped_record(InputRecord raw, object key, object value)
