# The C types of table_processor.py.

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.serdes.change cimport make_change
from barnabas.streams.serdes.key_bytes cimport field
from barnabas.streams.state.key_value cimport TimestampedKeyValueStore
from barnabas.streams.topology.record cimport Record, make_record


cdef class TableProcessor(OperatorProcessor):
    cdef public object store_name
    cdef public bint send_old_values
    cdef public object store
    cdef TimestampedKeyValueStore _timestamped
    cdef public bint _cached

    cpdef object put_and_forward(self, Record record, object new_value, object old_value, object timestamp=*)
    cpdef object stored(self, object key)
    cpdef object stored_value(self, object key)
