# The C types of murmur3.py.

cimport cython

from barnabas.streams.serdes.key_bytes cimport as_signed, word_at

ctypedef unsigned long long uint64

cdef uint64 _MASK
cdef uint64 _C1
cdef uint64 _C2
cdef uint64 _M1
cdef uint64 _M2
cdef uint64 _SEED

cdef uint64 _rotate(uint64 x, int by) noexcept
cdef uint64 _mix_first(uint64 k) noexcept
cdef uint64 _mix_second(uint64 k) noexcept
cdef uint64 _finish(uint64 k) noexcept

@cython.locals(h1=uint64, h2=uint64, size=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t)
cpdef tuple hash128(bytes data)
