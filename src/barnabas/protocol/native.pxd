# The C side of `native.py`: what the codec does to memory, as C functions of the same names.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLongLong
from cpython.number cimport PyNumber_Index
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8

cdef extern from *:
    """
    #include <structmember.h>  /* PyMemberDef, before Python 3.12 */
    /* Slots of plain classes sit at fixed offsets; their member descriptors know them. */
    static Py_ssize_t barnabas_slot_of(PyObject *cls, PyObject *name) {
        PyObject *descriptor = PyObject_GetAttr(cls, name);
        Py_ssize_t offset;
        if (descriptor == NULL) return -1;
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
            PyErr_Format(PyExc_TypeError, "%R is not a slot of %R", name, cls);
            Py_DECREF(descriptor);
            return -1;
        }
        offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
        Py_DECREF(descriptor);
        return offset;
    }
    static CYTHON_INLINE PyObject *barnabas_new_object(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    }
    static CYTHON_INLINE void barnabas_set_slot(PyObject *object, Py_ssize_t slot, PyObject *value) {
        PyObject **place = (PyObject **)((char *)object + slot);
        PyObject *old = *place;
        Py_INCREF(value);
        *place = value;
        Py_XDECREF(old);
    }
    static CYTHON_INLINE PyObject *barnabas_get_slot(PyObject *object, Py_ssize_t slot) {
        PyObject *value = *(PyObject **)((char *)object + slot);
        if (value == NULL) PyErr_SetString(PyExc_AttributeError, "the attribute is not set");
        else Py_INCREF(value);
        return value;
    }
    """
    Py_ssize_t slot_of "barnabas_slot_of"(object cls, object name) except -1
    object new_object "barnabas_new_object"(object cls)
    void set_slot "barnabas_set_slot"(object instance, Py_ssize_t slot, object value)
    object get_slot "barnabas_get_slot"(object instance, Py_ssize_t slot)
    bint pause_collector "PyGC_Disable"()
    int PyGC_Enable()

cdef inline void resume_collector(bint was_on) noexcept:
    if was_on:
        PyGC_Enable()

cdef inline const uint8_t *pointer(const uint8_t[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL

cdef inline int load_i8(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    return <int8_t>data[at]

cdef inline int load_u8(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    return data[at]

cdef inline int load_u16(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    return (<int>data[at] << 8) | data[at + 1]

cdef inline int load_i16(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    return <int16_t>load_u16(data, at)

cdef inline uint32_t load_u32(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    return (<uint32_t>data[at] << 24) | (<uint32_t>data[at + 1] << 16) | (<uint32_t>data[at + 2] << 8) | data[at + 3]

cdef inline int load_i32(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    return <int32_t>load_u32(data, at)

cdef inline int64_t load_i64(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    return <int64_t>((<uint64_t>load_u32(data, at) << 32) | load_u32(data, at + 4))

cdef inline list load_int32s(const uint8_t *data, Py_ssize_t at, Py_ssize_t count):
    cdef list values = PyList_New(count)
    cdef Py_ssize_t index
    cdef object value
    for index in range(count):
        value = load_i32(data, at + 4 * index)
        Py_INCREF(value)  # PyList_SET_ITEM takes a reference over
        PyList_SET_ITEM(values, index, value)
    return values

cdef inline double load_f64(const uint8_t *data, Py_ssize_t at) noexcept nogil:
    cdef int64_t bits = load_i64(data, at)
    cdef double value
    memcpy(&value, &bits, 8)
    return value

cdef inline str text(const uint8_t *data, Py_ssize_t at, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(<const char *>data + at, size, NULL) if size else ""

cdef inline bytes octets(const uint8_t *data, Py_ssize_t at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char *>data + at, size) if size else b""

cdef inline uint8_t *allocated(Py_ssize_t size) except NULL:
    cdef uint8_t *memory = <uint8_t *>malloc(size)
    if memory is NULL:
        raise MemoryError()
    return memory

cdef inline uint8_t *resized(uint8_t *memory, Py_ssize_t size) except NULL:
    cdef uint8_t *grown = <uint8_t *>realloc(memory, size)
    if grown is NULL:
        raise MemoryError()
    return grown

cdef inline void released(uint8_t *memory) noexcept:
    free(memory)

cdef inline void store_8(uint8_t *memory, Py_ssize_t at, int64_t value) noexcept nogil:
    memory[at] = <uint8_t>value

cdef inline void store_16(uint8_t *memory, Py_ssize_t at, int64_t value) noexcept nogil:
    memory[at] = <uint8_t>(value >> 8)
    memory[at + 1] = <uint8_t>value

cdef inline void store_32(uint8_t *memory, Py_ssize_t at, int64_t value) noexcept nogil:
    store_16(memory, at, value >> 16)
    store_16(memory, at + 2, value)

cdef inline void store_64(uint8_t *memory, Py_ssize_t at, int64_t value) noexcept nogil:
    store_32(memory, at, value >> 32)
    store_32(memory, at + 4, value)

cdef inline void store_f64(uint8_t *memory, Py_ssize_t at, double value) noexcept nogil:
    cdef int64_t bits
    memcpy(&bits, &value, 8)
    store_64(memory, at, bits)

cdef inline int store_octets(uint8_t *memory, Py_ssize_t at, object source) except -1:
    cdef Py_buffer buffer
    if type(source) is bytes:
        memcpy(memory + at, PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source))
        return 0
    PyObject_GetBuffer(source, &buffer, PyBUF_SIMPLE)
    memcpy(memory + at, buffer.buf, buffer.len)
    PyBuffer_Release(&buffer)
    return 0

cdef inline int64_t integer(object value) except? -1:
    return PyLong_AsLongLong(value if type(value) is int else PyNumber_Index(value))

cdef inline bytes stored(uint8_t *memory, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<char *>memory, size)
