# The C types of window_keys.py.

from barnabas.streams.serdes.key_bytes cimport with_numbers


cpdef bytes window_key(bytes key, long long start, int sequence)
cpdef bytes session_key(bytes key, long long start, long long end)
