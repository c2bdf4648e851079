# The C side of native.py: what each function does is written there.

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcpy, memmove


cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object)
    char *PyByteArray_AS_STRING(object)
    char *PyBytes_AS_STRING(object)
    void PyObject_GC_UnTrack(void *)
    bytearray PyByteArray_FromStringAndSize(const char *, Py_ssize_t)
    Py_ssize_t Py_REFCNT(PyObject *)
    int _PyBytes_Resize(PyObject **, Py_ssize_t) except -1
    const char *PyUnicode_AsUTF8(object) except NULL
    object PyDescr_NewMember(PyTypeObject *, PyMemberDef *)
    void PyType_Modified(PyTypeObject *)


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        const char *name
        int type
        Py_ssize_t offset
        int flags
        const char *doc
    int T_OBJECT_EX
    int READONLY


cdef inline unsigned char *view_address(object view) noexcept:
    return <unsigned char *> PyMemoryView_GET_BUFFER(view).buf


cdef inline unsigned char *bytearray_address(object array) noexcept:
    return <unsigned char *> PyByteArray_AS_STRING(array)


cdef inline bytearray new_bytearray(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline object new_buffer(Py_ssize_t size):
    return PyBytes_FromStringAndSize(NULL, size)


cdef inline unsigned char *buffer_address(object buffer) noexcept:
    return <unsigned char *> PyBytes_AS_STRING(buffer)


cdef inline void *hold(object buffer) noexcept:
    Py_INCREF(buffer)
    return <void *> buffer


cdef inline bytes finished(void *held, Py_ssize_t size):
    cdef PyObject *buffer = <PyObject *> held
    if Py_REFCNT(buffer) == 1:
        _PyBytes_Resize(&buffer, size)
        result = <object> buffer
    else:
        result = PyBytes_FromStringAndSize(PyBytes_AS_STRING(<object> buffer), size)
    Py_DECREF(<object> buffer)
    return result


cdef inline int *int32_address(object array) noexcept:
    return <int *> PyByteArray_AS_STRING(array)


cdef inline long long *int64_address(object array) noexcept:
    return <long long *> PyByteArray_AS_STRING(array)


cdef inline int *int32_view_address(object view) noexcept:
    return <int *> PyMemoryView_GET_BUFFER(view).buf


cdef inline long long *int64_view_address(object view) noexcept:
    return <long long *> PyMemoryView_GET_BUFFER(view).buf


cdef inline bytes take_bytes(unsigned char *source, Py_ssize_t position, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<char *> source + position, size)


cdef inline void copy_bytes(unsigned char *target, Py_ssize_t position, bytes source, Py_ssize_t size) noexcept:
    memcpy(target + position, PyBytes_AS_STRING(source), size)


cdef inline void copy_range(
    unsigned char *target, Py_ssize_t target_position, unsigned char *source, Py_ssize_t source_position, Py_ssize_t size
) noexcept nogil:
    memcpy(target + target_position, source + source_position, size)


cdef inline Py_ssize_t number_size(long long number) noexcept nogil:
    cdef unsigned long long rest = (<unsigned long long> number << 1) ^ <unsigned long long> (number >> 63)
    cdef Py_ssize_t size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline long long int64_sum(long long first, long long second) noexcept nogil:
    return <long long> (<unsigned long long> first + <unsigned long long> second)


cdef inline bytes int64_to_bytes(long long number):
    cdef unsigned long long rest = <unsigned long long> number
    cdef unsigned char data[8]
    cdef int at
    for at in range(7, -1, -1):
        data[at] = rest & 0xFF
        rest >>= 8
    return PyBytes_FromStringAndSize(<char *> data, 8)


cdef inline long long int64_from_bytes(object data) noexcept:
    cdef unsigned char *at = <unsigned char *> PyBytes_AS_STRING(data)
    cdef unsigned long long number = 0
    cdef int index
    for index in range(8):
        number = number << 8 | at[index]
    return <long long> number


cdef inline void untrack(object item) noexcept:
    PyObject_GC_UnTrack(<void *> item)


cdef inline int expose_fields(type cls, tuple names) except -1:
    cdef PyTypeObject *c_type = <PyTypeObject *> cls
    cdef PyMemberDef *fields = <PyMemberDef *> PyMem_Malloc(len(names) * sizeof(PyMemberDef))
    cdef Py_ssize_t index
    if fields is NULL:
        raise MemoryError()
    for index, name in enumerate(names):
        Py_INCREF(name)
        fields[index].name = PyUnicode_AsUTF8(name)
        fields[index].type = T_OBJECT_EX
        fields[index].offset = sizeof(PyObject) + index * sizeof(PyObject *)
        fields[index].flags = READONLY
        fields[index].doc = NULL
        (<dict> c_type.tp_dict)[name] = PyDescr_NewMember(c_type, &fields[index])
    PyType_Modified(c_type)
    return 0
