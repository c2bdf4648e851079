# The C types of window_keys.py.

cpdef object window_key(object key, object start, object sequence)
cpdef object session_key(object key, object start, object end)
