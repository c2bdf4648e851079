# The C types of partitioner.py.

cdef unsigned int murmur2_at(unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept nogil
