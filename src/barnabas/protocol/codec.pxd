# C types of the classes in `codec.py`; the functions of `native.py` come from `native.pxd`.

from libc.stdint cimport uint8_t

from barnabas.protocol.native cimport (
    allocated, get_slot, integer, load_f64, load_i8, load_i16, load_i32, load_i64, load_u8, load_u16, load_int32s, load_u32, new_object,
    octets, pause_collector, pointer, released, resized, resume_collector, set_slot, slot_of, store_8, store_16, store_32, store_64, store_f64,
    store_octets, stored, text,
)


cdef enum:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, STRUCT, ARRAY


cdef class Field:
    cdef readonly str name
    cdef readonly str type
    cdef readonly int kind
    cdef readonly bint compact, nullable, ignorable
    cdef readonly int tag
    cdef readonly object default
    cdef readonly Plan plan
    cdef readonly Field element
    cdef readonly Py_ssize_t slot
    cdef readonly Py_ssize_t min_size
    cdef readonly long long low, high


cdef class Plan:
    cdef readonly type cls
    cdef readonly int version
    cdef readonly bint flexible
    cdef readonly list all_fields, present, fields, absent, tagged, preset
    cdef readonly dict by_tag
    cdef readonly Py_ssize_t min_size
    cdef Py_ssize_t tags_slot


cdef class Decoder:
    cdef object source
    cdef const uint8_t[::1] view
    cdef const uint8_t *data
    cdef Py_ssize_t position, end, room

    cdef object _read_struct(self, Plan plan)
    cdef object _read_value(self, Field field)
    cdef object _read_scalar(self, Field field)
    cdef object _read_integer(self, Field field)
    cdef object _read_sized(self, Field field)
    cdef object _read_optional_struct(self, Field field)
    cdef object _read_array(self, Field field)
    cdef list _read_structs(self, Plan plan, Py_ssize_t count)
    cdef list _read_int32s(self, Py_ssize_t count)
    cdef object _read_tags(self, Plan plan, object instance)
    cdef int _take_room(self, Py_ssize_t count, Py_ssize_t start) except -1
    cdef int _need(self, Py_ssize_t size) except -1
    cdef long long _read_unsigned_varint(self) except -1
    cdef Py_ssize_t _read_length(self, Field field) except -2


cdef class Encoder:
    cdef uint8_t *memory
    cdef Py_ssize_t size, capacity, shipped
    cdef list parts

    cdef int _write_struct(self, Plan plan, object instance) except -1
    cdef int _write_value(self, Field field, object value) except -1
    cdef int _write_scalar(self, Field field, object value) except -1
    cdef int _write_integer(self, Field field, object value) except -1
    cdef int _write_sized(self, Field field, object value) except -1
    cdef int _write_array(self, Field field, object value) except -1
    cdef int _write_encoded(self, object elements) except -1
    cdef int _write_tags(self, Plan plan, object instance) except -1
    cdef bytes _tag_content(self, Field field, object value)
    cdef int _write_length(self, Field field, Py_ssize_t length) except -1
    cdef int _write_octets(self, object data) except -1
    cdef int _ship(self, object data) except -1
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int _write_unsigned_varint(self, long long value) except -1


cpdef object blank(Plan plan)
cdef object fresh_default(Field field)
cpdef bint is_default(Field field, object value) except -1
cdef int check_absent(Plan plan, object instance) except -1
