# The C side of packed_entries.py: what each function does is written there.
#
# Keys are sorted by eight bytes at a time, those behind what all of them begin with: a stable radix sort, a byte in
# each pass, which leaves out bytes that are the same everywhere. Those that are equal in all eight follow by the next.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define barnabas_fetch(at) __builtin_prefetch(at)
    #else
    #define barnabas_fetch(at)
    #endif
    """
    void barnabas_fetch(const void *at) noexcept nogil


cdef inline void fetch(const unsigned char *data, long long at) noexcept nogil:
    barnabas_fetch(data + at)


cdef inline uint32_t key_size(const unsigned char *data, long long at) noexcept nogil:
    cdef uint32_t size
    memcpy(&size, data + at, 4)
    return size


cdef inline uint32_t value_size(const unsigned char *data, long long at) noexcept nogil:
    return key_size(data, at + 4)


cdef inline Py_ssize_t put_entry(unsigned char *data, Py_ssize_t at, bytes key, object value):
    cdef uint32_t size = <uint32_t> PyBytes_GET_SIZE(key)
    cdef uint32_t held = 0xFFFFFFFF if value is None else <uint32_t> PyBytes_GET_SIZE(<bytes?> value)
    memcpy(data + at, &size, 4)
    memcpy(data + at + 4, &held, 4)
    at += 8
    memcpy(data + at, PyBytes_AS_STRING(key), size)
    at += size
    if value is not None:
        memcpy(data + at, PyBytes_AS_STRING(value), held)
        at += held
    return at


cdef inline bytes key_at(unsigned char *data, long long at):
    return PyBytes_FromStringAndSize(<char *> data + at + 8, key_size(data, at))


cdef inline object value_at(unsigned char *data, long long at):
    cdef uint32_t size = value_size(data, at)
    if size == 0xFFFFFFFF:
        return None
    return PyBytes_FromStringAndSize(<char *> data + at + 8 + key_size(data, at), size)


cdef inline bint is_same_key(const unsigned char *data, long long first, long long second) noexcept nogil:
    cdef uint32_t size = key_size(data, first)
    return size == key_size(data, second) and memcmp(data + first + 8, data + second + 8, size) == 0


cdef inline void sort_entries(
    const unsigned char *data, long long *order, long long *spare, Py_ssize_t count
) noexcept nogil:
    sort_run(data, <uint64_t *> order, <uint64_t *> spare, count, 0)


cdef inline void sort_run(
    const unsigned char *data, uint64_t *order, uint64_t *spare, Py_ssize_t count, uint32_t depth
) noexcept nogil:
    # Keys that have their first `depth` bytes in common.
    cdef Py_ssize_t begin = 0, end
    if count <= 16:
        insert_run(data, order, count, depth)
        return
    depth = common_size(data, order, count, depth)
    for end in range(count):
        order[2 * end] = eight_bytes(data, order[2 * end + 1], depth)
    radix_sort(order, spare, count)
    while begin < count:
        end = begin + 1
        while end < count and order[2 * end] == order[2 * begin]:
            end += 1
        if end - begin > 1:
            sort_tied(data, order + 2 * begin, spare, end - begin, depth)
        begin = end


cdef inline void sort_tied(
    const unsigned char *data, uint64_t *order, uint64_t *spare, Py_ssize_t count, uint32_t depth
) noexcept nogil:
    # Keys that have eight bytes from `depth` in common, as if zeros followed them: the shortest come first, and of one
    # size they are the same. Longer ones go on.
    cdef Py_ssize_t number, longer = 0
    cdef uint32_t size
    for number in range(count):
        size = key_size(data, order[2 * number + 1]) - depth
        order[2 * number] = size if size <= 8 else 9
        longer += size > 8
    if longer < count:
        radix_sort(order, spare, count)
    sort_run(data, order + 2 * (count - longer), spare, longer, depth + 8)


cdef inline void insert_run(const unsigned char *data, uint64_t *order, Py_ssize_t count, uint32_t depth) noexcept nogil:
    cdef Py_ssize_t number, at
    cdef uint64_t place
    for number in range(1, count):
        place = order[2 * number + 1]
        at = number
        while at > 0 and is_behind(data, order[2 * at - 1], place, depth):
            order[2 * at + 1] = order[2 * at - 1]
            at -= 1
        order[2 * at + 1] = place


cdef inline bint is_behind(const unsigned char *data, long long first, long long second, uint32_t depth) noexcept nogil:
    cdef uint32_t one = key_size(data, first), other = key_size(data, second)
    cdef int found = memcmp(data + first + 8 + depth, data + second + 8 + depth, min(one, other) - depth)
    return found > 0 or (found == 0 and one > other)


cdef inline uint32_t common_size(
    const unsigned char *data, const uint64_t *order, Py_ssize_t count, uint32_t depth
) noexcept nogil:
    cdef const unsigned char *first = data + order[1] + 8
    cdef const unsigned char *other
    cdef uint32_t size = key_size(data, order[1])
    cdef uint32_t at
    cdef Py_ssize_t number
    for number in range(1, count):
        if size == depth:
            break
        other = data + order[2 * number + 1] + 8
        size = min(size, key_size(data, order[2 * number + 1]))
        at = depth
        while at < size and first[at] == other[at]:
            at += 1
        size = at
    return size


cdef inline uint64_t eight_bytes(const unsigned char *data, long long at, uint32_t depth) noexcept nogil:
    cdef const unsigned char *key = data + at + 8 + depth
    cdef uint32_t left = key_size(data, at) - depth, number
    cdef uint64_t found = 0
    for number in range(8):
        found = found << 8 | (key[number] if number < left else 0)
    return found


cdef inline void radix_sort(uint64_t *order, uint64_t *spare, Py_ssize_t count) noexcept nogil:
    cdef uint32_t counts[2048]
    cdef uint32_t *of_byte
    cdef uint64_t *source = order
    cdef uint64_t *target = spare
    cdef uint64_t found
    cdef Py_ssize_t number
    cdef uint32_t begin, size
    cdef int shift, value
    memset(counts, 0, sizeof(counts))
    for number in range(count):
        found = order[2 * number]
        for shift in range(8):
            counts[(shift << 8) + (found >> (8 * shift) & 0xFF)] += 1
    for shift in range(8):
        of_byte = counts + (shift << 8)
        if of_byte[source[0] >> (8 * shift) & 0xFF] == count:
            continue
        begin = 0
        for value in range(256):
            size = of_byte[value]
            of_byte[value] = begin
            begin += size
        for number in range(count):
            found = source[2 * number]
            value = found >> (8 * shift) & 0xFF
            begin = of_byte[value]
            of_byte[value] = begin + 1
            target[2 * begin] = found
            target[2 * begin + 1] = source[2 * number + 1]
        source, target = target, source
    if source != order:
        memcpy(order, source, 16 * count)
