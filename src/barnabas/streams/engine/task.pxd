# The C types of task.py.

cimport cython

from barnabas.streams.engine.context cimport TaskContext
from barnabas.streams.engine.nodes cimport SourceTaskNode
from barnabas.streams.engine.partition_group cimport PartitionGroup, Stamp
from barnabas.streams.engine.punctuation cimport PunctuationQueue
from barnabas.streams.engine.record cimport InputRecord, OutputRecord, StampedRecord, append_changes
from barnabas.streams.engine.record_collector cimport RecordCollector
from barnabas.streams.engine.task_node cimport TaskNode
from barnabas.streams.serdes.record_context cimport RecordContext, record_context
from barnabas.streams.state.store cimport StateStore
from barnabas.streams.topology.record cimport Record, make_record


cdef class Task


cdef class SourceStamp(Stamp):
    cdef Task _task
    cdef SourceTaskNode _source
    cdef object _extract
    cdef bint _is_usual

    @cython.locals(record=StampedRecord)
    cpdef StampedRecord stamp(self, InputRecord raw, object partition_time)


cdef class Task:
    cdef readonly object id
    cdef public Py_ssize_t dropped_records
    cdef public bint commit_requested
    cdef readonly RecordCollector collector
    cdef readonly dict stores
    cdef readonly object metrics
    cdef readonly object _topology
    cdef readonly object _settings
    cdef readonly TaskContext _context
    cdef PartitionGroup _group
    cdef PunctuationQueue _stream_time_queue
    cdef list _all_stores
    cdef list _holding_back
    cdef object _changelogs
    cdef object _partition
    cdef bint _logs_last_changes
    cdef dict _queues
    cdef dict _kept
    cdef dict _sources
    cdef readonly dict _nodes
    cdef object _now_ms

    @cython.locals(record=StampedRecord, raw=InputRecord, context=TaskContext, node=SourceTaskNode)
    cpdef bint process_next(self, object now_ms) except -1

    @cython.locals(group=PartitionGroup)
    cpdef object add_records(self, object records)

    cpdef object add_record(self, InputRecord record)

    cpdef bint waits(self) except -1

    @cython.locals(queue=PunctuationQueue)
    cpdef bint punctuate_stream_time(self) except -1

    cpdef object work_off(self, object now_ms)

    @cython.locals(at=Py_ssize_t, count=Py_ssize_t, record=InputRecord)
    cpdef object process_in_order(self, list records, object now_ms)

    @cython.locals(store=StateStore, sent=list, changes=list)
    cpdef list commit(self)

    @cython.locals(store=StateStore)
    cpdef object _flush_stores(self)

    cdef SourceTaskNode _source(self, object topic)
