# The C types that append.py takes from elsewhere, and its clock: `wall_clock_ms` there is what it does.

from barnabas.records.builder cimport RecordBatchBuilder
from barnabas.records.partitioner cimport murmur2_at


cdef extern from "<time.h>" nogil:
    cdef struct timespec:
        long long tv_sec
        long tv_nsec
    int TIME_UTC
    int timespec_get(timespec *, int)


cdef inline long long wall_clock_ms() noexcept nogil:
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return now.tv_sec * 1000 + now.tv_nsec // 1000000
