"""Kafka's bytes: what records of a stream application look like in topics, changelogs and stores.

Rules of the room
-----------------
1. A serde is an object with `serialize(topic, value, headers) -> bytes | None` and
   `deserialize(topic, data, headers) -> value`; headers are a list of pairs. None is None on both sides.
2. Bytes are those of Apache Kafka, also where they are odd: what Java's application of the same topology wrote is read,
   and it reads ours.
3. A serde that wraps others and was built without them takes the application's default ones, when the task starts:
   `set_if_unset(key_serde, value_serde)`.
4. A value of the wrong type is a `SerializationError` or TypeError that names the serde; bytes that cannot be read are
   a `SerializationError`. Nothing here knows a clock, a store or a task.

Files: `serde` (Serde, Serdes, numbers and texts), `windowed` (keys of windows and sessions), `change` (what a grouped
table sends through its repartition topic), `foreign_key` (the messages of foreign-key joins), `record_context` and
`buffer_value` (what suppress and joins with grace keep), `join_side` (the store of outer joins), `murmur3`.

Sources: KIP-279, KIP-328, KIP-213, KIP-904; Kafka's packages `common.serialization`, `state.internals`.
"""

from barnabas.streams.serdes.serde import Serde
from barnabas.streams.serdes.serdes import Serdes
from barnabas.streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

__all__ = ["Serde", "Serdes", "SessionWindowedSerde", "TimeWindowedSerde"]
