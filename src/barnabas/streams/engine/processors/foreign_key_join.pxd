# The C types of foreign_key_join.py.

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.serdes.change cimport make_change
from barnabas.streams.serdes.murmur3 cimport hash128
from barnabas.streams.topology.record cimport Record, make_record


cdef class _ForeignKeyProcessor(OperatorProcessor):
    cpdef object _forward(self, Record record, object key, object value, object timestamp=*)


cdef class SubscriptionSendProcessor(_ForeignKeyProcessor):
    cdef object _operator
    cdef object _extract
    cdef object _key_serde
    cdef object _value_serde
    cdef object _key_topic
    cdef object _value_topic

    cpdef object process(self, Record record)
    cpdef object _process_left(self, Record record, object old)
    cpdef object _process_inner(self, Record record, object old)
    cpdef object _changed(self, object new, object old, Record record)
    cpdef object _send(self, Record record, object foreign_key, object instruction)


cdef class SubscriptionReceiveProcessor(_ForeignKeyProcessor):
    cdef object _store_name
    cdef object _schema
    cdef object _store

    cpdef object process(self, Record record)


cdef class SubscriptionJoinProcessor(_ForeignKeyProcessor):
    cdef object _getter

    cpdef object process(self, Record record)


cdef class ForeignTableJoinProcessor(_ForeignKeyProcessor):
    cdef object _operator
    cdef object _schema
    cdef object _store

    cpdef object process(self, Record record)


cdef class ResponseJoinProcessor(_ForeignKeyProcessor):
    cdef object _operator
    cdef object _getter
    cdef object _serialize
    cdef object _topic

    cpdef object process(self, Record record)
