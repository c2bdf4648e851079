# cython: language_level=3, annotation_typing=False
"""Joins of two tables by a foreign key (KIP-213): the left table subscribes to keys of the right one.

Subscriptions go through a repartition topic to where the right table lies, are kept there, and are answered through
another, whenever one of both sides changes. A hash of the left value tells answers that come too late.

C types are in `foreign_key_join.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

from barnabas.errors import UnsupportedVersionError
from barnabas.streams.engine.processors.ktable_ktable_join import ValueJoiner
from barnabas.streams.engine.processors.operator import Operator, ValueGetterSupplier
from barnabas.streams.engine.processors.stateless import Mapper
from barnabas.streams.serdes.foreign_key import (
    CombinedKey,
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionWrapper,
    TopicName,
)
from barnabas.streams.state.memory import increment
from barnabas.streams.state.store import ValueTimestampHeaders

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.serdes.change import make_change
    from barnabas.streams.serdes.foreign_key import CombinedKeySchema, TopicSerde
    from barnabas.streams.serdes.key_bytes import field, named_pair, named_tuple
    from barnabas.streams.serdes.murmur3 import hash128
    from barnabas.streams.state.key_value import KeyValueStore
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.serdes.change import Change
    from barnabas.streams.topology.record import Record


@cython.cclass
class _ForeignKeyProcessor(OperatorProcessor):
    def _forward(self, record: Record[Any, Any], key: Any, value: Any, timestamp: int | None = None) -> None:
        at = record.timestamp if timestamp is None else timestamp
        self.context.forward_all(make_record(key, value, at, record.header_list))


# Members of an enumeration by names of the module: to look one up in its class takes ten times as long.
_DELETE_AND_ANSWER = Instruction.DELETE_KEY_AND_PROPAGATE
_DELETE = Instruction.DELETE_KEY_NO_PROPAGATE
_ANSWER_ALWAYS = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_ANSWER_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


class SubscriptionSendProcessorSupplier(Operator):
    """Sends subscriptions for the changes of the left table."""

    def __init__(
        self,
        foreign_key_extractor: Mapper,
        foreign_key_serde_topic: TopicName,
        value_serde_topic: TopicName,
        foreign_key_serde: Any,
        value_serde: Any,
        left_join: bool,
    ) -> None:
        super().__init__()
        self.foreign_key_extractor = foreign_key_extractor
        self.foreign_key_serde_topic = foreign_key_serde_topic
        self.value_serde_topic = value_serde_topic
        self.foreign_key_serde = foreign_key_serde
        self.value_serde = value_serde
        self.left_join = left_join
        self.use_versioned_semantics = False

    def set_use_versioned_semantics(self, use: bool) -> None:
        """Say whether the left table is versioned: then changes of old versions are dropped."""
        self.use_versioned_semantics = use

    def __call__(self) -> SubscriptionSendProcessor:
        """Return a new processor."""
        return SubscriptionSendProcessor(self)


@cython.cclass
class SubscriptionSendProcessor(_ForeignKeyProcessor):
    """See `SubscriptionSendProcessorSupplier`."""

    def __init__(self, operator: SubscriptionSendProcessorSupplier) -> None:
        self._operator = operator
        self._versioned = operator.use_versioned_semantics
        self._left_join = operator.left_join
        self._extract = operator.foreign_key_extractor
        self._key_serde = operator.foreign_key_serde
        self._value_serde = operator.value_serde
        self._keys: TopicSerde | None = None
        self._values: TopicSerde | None = None

    def init(self, context: Any) -> None:
        """Take the default serdes where none were given."""
        self.context = context
        key_serde = context.key_serde if self._key_serde is None else self._key_serde
        value_serde = context.value_serde if self._value_serde is None else self._value_serde
        self._keys = TopicSerde(key_serde, self._operator.foreign_key_serde_topic)
        self._values = TopicSerde(value_serde, self._operator.value_serde_topic)

    def process(self, record: Record[Any, Change]) -> None:
        """Send what the change of the foreign key asks for."""
        change = record.value
        if self._versioned and not change.is_latest:
            self.context.drop("out-of-order update of a versioned table")
            return
        old = None if change.old_value is None else self._extract(record.key, change.old_value)
        if self._left_join:
            self._process_left(record, old)
        else:
            self._process_inner(record, old)

    def _process_left(self, record: Record[Any, Change], old: Any) -> None:
        change = record.value
        if change.old_value is None and change.new_value is None:
            return
        new = None if change.new_value is None else self._extract(record.key, change.new_value)
        if old is not None and self._changed(new, old, record):
            self._send(record, old, _DELETE)
        self._send(record, new, _ANSWER_ALWAYS)

    def _process_inner(self, record: Record[Any, Change], old: Any) -> None:
        change = record.value
        if change.new_value is None:
            if old is not None:
                self._send(record, old, _DELETE_AND_ANSWER)
            return
        new = self._extract(record.key, change.new_value)
        if new is None:
            self.context.drop("null foreign key")
            if old is not None:
                self._send(record, old, _DELETE_AND_ANSWER)
        elif old is not None and self._changed(new, old, record):
            self._send(record, old, _DELETE)
            self._send(record, new, _ANSWER_ALWAYS)
        else:
            self._send(record, new, _ANSWER_IF_FOUND)

    def _changed(self, new: Any, old: Any, record: Record[Any, Any]) -> bool:
        keys, headers = self._keys, record._own_headers()
        return bool(keys.serialize(new, headers) != keys.serialize(old, headers))  # type: ignore[union-attr]  # since init

    def _send(self, record: Record[Any, Change], foreign_key: Any, instruction: Instruction) -> None:
        change = record.value
        value = change.new_value
        hashed = None
        if value is not None:
            hashed = hash128(self._values.serialize(value, record._own_headers()))  # type: ignore[union-attr]  # since init
        context: Any = self.context.record_context
        partition = context.partition
        wrapper = named_tuple(SubscriptionWrapper, (hashed, instruction, record.key, partition, 1))
        self._forward(record, foreign_key, wrapper)


class SubscriptionReceiveProcessorSupplier(Operator):
    """Keeps subscriptions where the right table lies."""

    def __init__(self, store: Any, key_schema: CombinedKeySchema) -> None:
        super().__init__(store)
        self.key_schema = key_schema

    def __call__(self) -> SubscriptionReceiveProcessor:
        """Return a new processor."""
        return SubscriptionReceiveProcessor(self.store_name, self.key_schema)


@cython.cclass
class SubscriptionReceiveProcessor(_ForeignKeyProcessor):
    """See `SubscriptionReceiveProcessorSupplier`."""

    def __init__(self, store_name: str, key_schema: CombinedKeySchema) -> None:
        self._store_name = store_name
        self._schema = key_schema
        self._store: Any = None
        #: The store once more, if it is ours, which is called without the interpreter.
        self._own: KeyValueStore | None = None

    def init(self, context: Any) -> None:
        """Find the store."""
        self.context = context
        self._store = context.get_state_store(self._store_name)
        if isinstance(self._store, KeyValueStore):
            self._own = self._store
        self._schema.init(context)

    def process(self, record: Record[Any, SubscriptionWrapper]) -> None:
        """Keep or delete the subscription, and send it on. Raises `UnsupportedVersionError` for a newer one."""
        key, wrapper = record.key, record.value
        instruction = field(wrapper, 1)
        if key is None and instruction is not _ANSWER_ALWAYS:
            self.context.drop("null foreign key")
            return
        if field(wrapper, 4) > 1:
            raise UnsupportedVersionError("SubscriptionWrapper is of an incompatible version.")
        headers = record._own_headers()
        new = named_tuple(ValueTimestampHeaders, (wrapper, record.timestamp, headers))
        old = None
        if key is not None:
            data = self._schema.to_bytes(key, field(wrapper, 2), headers)
            if self._own is None:
                old = self._store.get(data)
            else:
                # No processor looks at it, so it is not read; a cache counts the use all the same.
                self._own._stored(data)
            if instruction is _DELETE or instruction is _DELETE_AND_ANSWER:
                self._store.delete(data)
            elif self._own is None:
                self._store.put(data, new)
            else:
                self._own.put(data, new)
        self._forward(record, named_pair(CombinedKey, key, field(wrapper, 2)), make_change(new, old, True))


class SubscriptionJoinProcessorSupplier(Operator):
    """Answers a subscription with the right table's value."""

    def __init__(self, foreign_value_getter_supplier: ValueGetterSupplier) -> None:
        super().__init__()
        self.foreign_value_getter_supplier = foreign_value_getter_supplier

    def __call__(self) -> SubscriptionJoinProcessor:
        """Return a new processor."""
        return SubscriptionJoinProcessor(self.foreign_value_getter_supplier)


@cython.cclass
class SubscriptionJoinProcessor(_ForeignKeyProcessor):
    """See `SubscriptionJoinProcessorSupplier`."""

    def __init__(self, getters: ValueGetterSupplier) -> None:
        self._getter = getters()

    def init(self, context: Any) -> None:
        """Find the right table."""
        self.context = context
        self._getter.init(context)

    def process(self, record: Record[CombinedKey, Change]) -> None:
        """Send the answer that the instruction asks for, if any."""
        change = record.value
        subscription = change.new_value
        wrapper, subscribed = field(subscription, 0), field(subscription, 1)
        instruction = field(wrapper, 1)
        primary_key, foreign_key = field(record.key, 1), field(record.key, 0)
        # Even if nothing is answered: the lookup makes the entry of a cache the most recently used, as in Kafka.
        found = None if foreign_key is None else self._getter.get(foreign_key)
        if instruction is _DELETE:
            return
        if found is None and instruction is _ANSWER_IF_FOUND:
            return
        timestamp = subscribed if found is None else max(subscribed, field(found, 1))
        value = None
        if found is not None and instruction is not _DELETE_AND_ANSWER:
            value = field(found, 0)
        answer = named_tuple(SubscriptionResponseWrapper, (field(wrapper, 0), value, field(wrapper, 3), 0))
        self._forward(record, primary_key, answer, timestamp)


class ForeignTableJoinProcessorSupplier(Operator):
    """Answers all subscriptions to a key of the right table when its value changes."""

    def __init__(self, store: Any, key_schema: CombinedKeySchema) -> None:
        super().__init__(store)
        self.key_schema = key_schema
        self.use_versioned_semantics = False

    def set_use_versioned_semantics(self, use: bool) -> None:
        """Say whether the right table is versioned: then changes of old versions are dropped."""
        self.use_versioned_semantics = use

    def __call__(self) -> ForeignTableJoinProcessor:
        """Return a new processor."""
        return ForeignTableJoinProcessor(self)


@cython.cclass
class ForeignTableJoinProcessor(_ForeignKeyProcessor):
    """See `ForeignTableJoinProcessorSupplier`."""

    def __init__(self, operator: ForeignTableJoinProcessorSupplier) -> None:
        self._operator = operator
        self._schema = operator.key_schema
        self._store: Any = None

    def init(self, context: Any) -> None:
        """Find the store of subscriptions."""
        self.context = context
        self._store = context.get_state_store(self._operator.store_name)
        self._schema.init(context)

    def process(self, record: Record[Any, Change]) -> None:
        """Send an answer for each subscription; records without key are dropped."""
        if record.key is None:
            self.context.drop("null key")
            return
        if self._operator.use_versioned_semantics and not record.value.is_latest:
            self.context.drop("out-of-order update of a versioned table")
            return
        headers = record._own_headers()
        prefix = self._schema.prefix_bytes(record.key, headers)
        for data, subscription in self._store.range(prefix, increment(prefix)):
            if data.startswith(prefix):
                wrapper = subscription.value
                answer = SubscriptionResponseWrapper(wrapper.hash, record.value.new_value, wrapper.primary_partition)
                self._forward(record, self._schema.from_bytes(data, headers).primary_key, answer)


class ResponseJoinProcessorSupplier(Operator):
    """Joins an answer with the left table's value, if that is still the one that asked."""

    def __init__(
        self,
        value_getter_supplier: ValueGetterSupplier,
        value_serde: Any,
        value_hash_serde_topic: TopicName,
        joiner: ValueJoiner,
        left_join: bool,
    ) -> None:
        super().__init__()
        self.value_getter_supplier = value_getter_supplier
        self.value_serde = value_serde
        self.value_hash_serde_topic = value_hash_serde_topic
        self.joiner = joiner
        self.left_join = left_join

    def __call__(self) -> ResponseJoinProcessor:
        """Return a new processor."""
        return ResponseJoinProcessor(self)


@cython.cclass
class ResponseJoinProcessor(_ForeignKeyProcessor):
    """See `ResponseJoinProcessorSupplier`."""

    def __init__(self, operator: ResponseJoinProcessorSupplier) -> None:
        self._operator = operator
        self._joiner = operator.joiner
        self._getter = operator.value_getter_supplier()
        self._values: TopicSerde | None = None

    def init(self, context: Any) -> None:
        """Find the left table."""
        self.context = context
        self._getter.init(context)
        serde = context.value_serde if self._operator.value_serde is None else self._operator.value_serde
        self._values = TopicSerde(serde, self._operator.value_hash_serde_topic)

    def process(self, record: Record[Any, SubscriptionResponseWrapper]) -> None:
        """Send the joined value on, or a tombstone; answers to values that are gone are dropped."""
        answer = record.value
        found = self._getter.get(record.key)
        current = None
        if found is not None:
            current = hash128(self._values.serialize(field(found, 0), record._own_headers()))  # type: ignore[union-attr]  # since init
        if current != field(answer, 0):
            self.context.drop("answer to a value that has changed since")
            return
        result = None
        foreign = field(answer, 1)
        if foreign is not None or (found is not None and self._operator.left_join):
            result = self._joiner(None if found is None else field(found, 0), foreign)
        self._forward(record, record.key, result)
