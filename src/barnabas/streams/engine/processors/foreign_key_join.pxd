# The C types of foreign_key_join.py.

cimport cython

from barnabas.streams.engine.operator_processor cimport OperatorProcessor
from barnabas.streams.engine.processors.operator cimport ValueGetter
from barnabas.streams.serdes.change cimport Change, make_change
from barnabas.streams.serdes.foreign_key cimport CombinedKeySchema, TopicSerde
from barnabas.streams.serdes.key_bytes cimport field, named_pair, named_tuple
from barnabas.streams.serdes.murmur3 cimport hash128
from barnabas.streams.serdes.record_context cimport RecordContext
from barnabas.streams.state.key_value cimport KeyValueStore
from barnabas.streams.topology.record cimport Record, make_record


cdef class _ForeignKeyProcessor(OperatorProcessor):
    cpdef object _forward(self, Record record, object key, object value, object timestamp=*)


cdef class SubscriptionSendProcessor(_ForeignKeyProcessor):
    cdef object _operator
    cdef object _extract
    cdef object _key_serde
    cdef object _value_serde
    cdef bint _versioned
    cdef bint _left_join
    cdef TopicSerde _keys
    cdef TopicSerde _values

    @cython.locals(change=Change)
    cpdef object process(self, Record record)
    @cython.locals(change=Change)
    cpdef object _process_left(self, Record record, object old)
    @cython.locals(change=Change)
    cpdef object _process_inner(self, Record record, object old)
    @cython.locals(keys=TopicSerde)
    cpdef object _changed(self, object new, object old, Record record)
    @cython.locals(change=Change, context=RecordContext)
    cpdef object _send(self, Record record, object foreign_key, object instruction)


cdef class SubscriptionReceiveProcessor(_ForeignKeyProcessor):
    cdef object _store_name
    cdef CombinedKeySchema _schema
    cdef object _store
    cdef KeyValueStore _own

    cpdef object process(self, Record record)


cdef class SubscriptionJoinProcessor(_ForeignKeyProcessor):
    cdef ValueGetter _getter

    @cython.locals(change=Change)
    cpdef object process(self, Record record)


cdef class ForeignTableJoinProcessor(_ForeignKeyProcessor):
    cdef object _operator
    cdef CombinedKeySchema _schema
    cdef object _store

    cpdef object process(self, Record record)


cdef class ResponseJoinProcessor(_ForeignKeyProcessor):
    cdef object _operator
    cdef object _joiner
    cdef ValueGetter _getter
    cdef TopicSerde _values

    cpdef object process(self, Record record)
