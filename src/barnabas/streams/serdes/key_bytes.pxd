# The C side of key_bytes.py: what each function does is written there.

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.string cimport memcmp, memcpy


cdef extern from "Python.h":
    char *PyBytes_AS_STRING(object)
    Py_ssize_t PyBytes_GET_SIZE(object)
    bint PyBytes_Check(PyObject *)
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)
    void PyTuple_SET_ITEM(object, Py_ssize_t, object)
    bint PyTuple_Check(object)
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    object PyType_GenericAlloc(PyTypeObject *, Py_ssize_t)


cdef inline void _put_number(unsigned char *at, unsigned long long number, int size) noexcept nogil:
    cdef int index
    for index in range(size - 1, -1, -1):
        at[index] = number & 0xFF
        number >>= 8


cdef inline bytes with_long_and_int(bytes key, long long number, int other):
    if key is None:
        raise TypeError("a key has no bytes")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    made = PyBytes_FromStringAndSize(NULL, size + 12)
    cdef unsigned char *at = <unsigned char *> PyBytes_AS_STRING(made)
    memcpy(at, PyBytes_AS_STRING(key), size)
    _put_number(at + size, <unsigned long long> number, 8)
    _put_number(at + size + 8, <unsigned long long> other, 4)
    return made


cdef inline bytes with_two_longs(bytes key, long long number, long long other):
    if key is None:
        raise TypeError("a key has no bytes")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    made = PyBytes_FromStringAndSize(NULL, size + 16)
    cdef unsigned char *at = <unsigned char *> PyBytes_AS_STRING(made)
    memcpy(at, PyBytes_AS_STRING(key), size)
    _put_number(at + size, <unsigned long long> number, 8)
    _put_number(at + size + 8, <unsigned long long> other, 8)
    return made


cdef inline long long long_at(bytes data, Py_ssize_t at) noexcept:
    cdef unsigned char *source = <unsigned char *> PyBytes_AS_STRING(data) + at
    cdef unsigned long long number = 0
    cdef int index
    for index in range(8):
        number = number << 8 | source[index]
    return <long long> number


cdef inline bytes int_bytes(int number):
    cdef unsigned char data[4]
    _put_number(data, <unsigned long long> number, 4)
    return PyBytes_FromStringAndSize(<char *> data, 4)


cdef inline bytes two_bytes(int first, int second):
    cdef unsigned char data[2]
    data[0] = first
    data[1] = second
    return PyBytes_FromStringAndSize(<char *> data, 2)


cdef inline bint has_prefix(bytes data, bytes prefix) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    return PyBytes_GET_SIZE(data) >= size and memcmp(PyBytes_AS_STRING(data), PyBytes_AS_STRING(prefix), size) == 0


cdef inline int _compared(PyObject *one, bytes other) except -2:
    cdef Py_ssize_t size
    cdef Py_ssize_t other_size
    cdef int result
    if not PyBytes_Check(one):
        raise TypeError("the keys of a store are bytes")
    size = PyBytes_GET_SIZE(<object> one)
    other_size = PyBytes_GET_SIZE(other)
    result = memcmp(PyBytes_AS_STRING(<object> one), PyBytes_AS_STRING(other), min(size, other_size))
    if result:
        return -1 if result < 0 else 1
    return (size > other_size) - (size < other_size)


cdef inline Py_ssize_t place_before(list keys, bytes key) except -1:
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = len(keys)
    cdef Py_ssize_t middle
    if key is None:
        raise TypeError("a key has no bytes")
    while low < high:
        middle = (low + high) >> 1
        if _compared(PyList_GET_ITEM(keys, middle), key) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline Py_ssize_t place_after(list keys, bytes key) except -1:
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = len(keys)
    cdef Py_ssize_t middle
    if key is None:
        raise TypeError("a key has no bytes")
    while low < high:
        middle = (low + high) >> 1
        if _compared(PyList_GET_ITEM(keys, middle), key) <= 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline object named_pair(object kind, object first, object second):
    made = PyType_GenericAlloc(<PyTypeObject *> kind, 2)
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    return made


cdef inline object named_tuple(object kind, tuple fields):
    cdef Py_ssize_t at
    cdef Py_ssize_t size = len(fields)
    made = PyType_GenericAlloc(<PyTypeObject *> kind, size)
    for at in range(size):
        field = fields[at]
        Py_INCREF(field)
        PyTuple_SET_ITEM(made, at, field)
    return made


cdef inline object field(object fields, Py_ssize_t at):
    if not PyTuple_Check(fields):
        return fields[at]
    return <object> PyTuple_GET_ITEM(fields, at)
