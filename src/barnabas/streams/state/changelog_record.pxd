# The C types of changelog_record.py.

cimport cython


cdef class ChangelogRecord:
    cdef readonly object key
    cdef readonly object value
    cdef readonly object timestamp
    cdef readonly object header_list


@cython.locals(change=ChangelogRecord, last=dict)
cpdef list last_of_each_key(list changes)


@cython.locals(made=ChangelogRecord)
cdef ChangelogRecord changelog_record(object key, object value, object timestamp, object headers)
