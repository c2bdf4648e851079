# The C types of reader.py.

from barnabas.streams.serdes.key_bytes cimport int_bytes


cpdef bytes sized(bytes data)
