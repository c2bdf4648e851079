# The C types of murmur3.py.

cimport cython

ctypedef unsigned long long uint64

cdef uint64 _MASK
cdef uint64 _C1
cdef uint64 _C2
cdef uint64 _M1
cdef uint64 _M2

cdef uint64 _rotate(uint64 x, int by)
cdef uint64 _mix_first(uint64 k)
cdef uint64 _mix_second(uint64 k)
cdef uint64 _finish(uint64 k)
cdef object _signed(uint64 x)

@cython.locals(h1=uint64, h2=uint64, k1=uint64, k2=uint64)
cpdef tuple hash128(bytes data, object seed=*)
