# The C types of record.py.

cimport cython

cdef class Record:
    cdef public object key
    cdef public object value
    cdef public object timestamp
    cdef public object header_list

    cdef object _own_headers(self)


@cython.locals(record=Record)
cdef Record make_record(object key, object value, object timestamp, object headers)
