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
    Py_ssize_t PyTuple_GET_SIZE(object)
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    object PyType_GenericAlloc(PyTypeObject *, Py_ssize_t)
    bint PyUnicode_IS_COMPACT_ASCII(object)
    void *PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)


cdef inline void _put_number(unsigned char *at, unsigned long long number, int size) noexcept nogil:
    cdef int index
    for index in range(size - 1, -1, -1):
        at[index] = number & 0xFF
        number >>= 8


cdef inline bytes with_numbers(bytes data, long long number, long long other, int size):
    if data is None:
        raise TypeError("a key has no bytes")
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
    made = PyBytes_FromStringAndSize(NULL, length + 8 + size)
    cdef unsigned char *at = <unsigned char *> PyBytes_AS_STRING(made)
    memcpy(at, PyBytes_AS_STRING(data), length)
    _put_number(at + length, <unsigned long long> number, 8)
    _put_number(at + length + 8, <unsigned long long> other, size)
    return made


cdef inline bytes long_before(long long number, bytes data):
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
    made = PyBytes_FromStringAndSize(NULL, 8 + length)
    _put_number(<unsigned char *> PyBytes_AS_STRING(made), <unsigned long long> number, 8)
    memcpy(PyBytes_AS_STRING(made) + 8, PyBytes_AS_STRING(data), length)
    return made


cdef inline bytes joined(bytes first, bytes second, bytes third):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(first)
    cdef Py_ssize_t second_size = PyBytes_GET_SIZE(second)
    made = PyBytes_FromStringAndSize(NULL, size + second_size + PyBytes_GET_SIZE(third))
    cdef char *at = PyBytes_AS_STRING(made)
    memcpy(at, PyBytes_AS_STRING(first), size)
    memcpy(at + size, PyBytes_AS_STRING(second), second_size)
    memcpy(at + size + second_size, PyBytes_AS_STRING(third), PyBytes_GET_SIZE(third))
    return made


cdef inline bytes bytes_between(bytes data, Py_ssize_t at, Py_ssize_t end):
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + at, end - at) if at < end else b""


cdef inline bytes text_bytes(str text):
    if text is not None and PyUnicode_IS_COMPACT_ASCII(text):
        return PyBytes_FromStringAndSize(<char *> PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
    return text.encode("utf-8", "replace")


cdef inline long long long_at(bytes data, Py_ssize_t at) noexcept:
    cdef unsigned char *source = <unsigned char *> PyBytes_AS_STRING(data) + at
    cdef unsigned long long number = 0
    cdef int index
    for index in range(8):
        number = number << 8 | source[index]
    return <long long> number


cdef inline int int_at(bytes data, Py_ssize_t at) noexcept:
    cdef unsigned char *source = <unsigned char *> PyBytes_AS_STRING(data) + at
    cdef unsigned int number = 0
    cdef int index
    for index in range(4):
        number = number << 8 | source[index]
    return <int> number


cdef inline unsigned long long word_at(bytes data, Py_ssize_t at, Py_ssize_t size) noexcept:
    cdef unsigned char *source = <unsigned char *> PyBytes_AS_STRING(data) + at
    cdef unsigned long long number = 0
    cdef Py_ssize_t index
    for index in range(size - 1, -1, -1):
        number = number << 8 | source[index]
    return number


cdef inline long long as_signed(unsigned long long number) noexcept nogil:
    return <long long> number


cdef inline bytes int_bytes(int number):
    cdef unsigned char data[4]
    _put_number(data, <unsigned long long> number, 4)
    return PyBytes_FromStringAndSize(<char *> data, 4)


cdef inline bytes byte(int number):
    cdef unsigned char data[1]
    data[0] = number
    return PyBytes_FromStringAndSize(<char *> data, 1)


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


cdef inline Py_ssize_t _place(list keys, bytes key, bint after, Py_ssize_t low, Py_ssize_t high) except -1:
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) >> 1
        if _compared(PyList_GET_ITEM(keys, middle), key) < after:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline Py_ssize_t place(list keys, bytes key, bint after, Py_ssize_t low, Py_ssize_t high) except -1:
    cdef Py_ssize_t size = len(keys)
    cdef Py_ssize_t found
    if key is None:
        raise TypeError("a key has no bytes")
    if high > size:
        high = size
    if low > high:
        low = high
    found = _place(keys, key, after, low, high)
    if found == low and low > 0 and _compared(PyList_GET_ITEM(keys, low - 1), key) >= after:
        return _place(keys, key, after, 0, low - 1)
    if found == high and high < size and _compared(PyList_GET_ITEM(keys, high), key) < after:
        return _place(keys, key, after, high + 1, size)
    return found


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
    if not PyTuple_Check(fields) or at >= PyTuple_GET_SIZE(fields):
        return fields[at]
    return <object> PyTuple_GET_ITEM(fields, at)
