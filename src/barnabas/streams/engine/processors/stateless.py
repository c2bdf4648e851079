# cython: language_level=3, annotation_typing=False
"""Operators that remember nothing: filter, map, flat map, peek, branch, merge, for each.

C types are in `stateless.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.streams.engine.processors.operator import Operator

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.serdes.change import Change
    from barnabas.streams.topology.record import Record

#: (key, value) -> whether.
Predicate = Callable[[Any, Any], bool]
#: (key, value) -> something.
Mapper = Callable[[Any, Any], Any]

_NULL_PAIR = "The provided KeyValueMapper returned null which is not allowed."


class KStreamFilter(Operator):
    """Lets through the records for which the predicate says so, or with `filter_not` the others."""

    def __init__(self, predicate: Predicate, filter_not: bool = False) -> None:
        super().__init__()
        self.predicate = predicate
        self.filter_not = filter_not

    def __call__(self) -> KStreamFilterProcessor:
        """Return a new processor."""
        return KStreamFilterProcessor(self.predicate, self.filter_not)


@cython.cclass
class KStreamFilterProcessor(OperatorProcessor):
    """See `KStreamFilter`."""

    def __init__(self, predicate: Predicate, filter_not: bool) -> None:
        self._predicate = predicate
        self._wanted = not filter_not

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record, or not."""
        if bool(self._predicate(record.key, record.value)) is self._wanted:
            self.context.forward_all(record)


class _WithFunction(Operator):
    PROCESSOR: Callable[[Any], Any]

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def __call__(self) -> Any:
        """Return a new processor."""
        return type(self).PROCESSOR(self.function)


@cython.cclass
class FunctionProcessor(OperatorProcessor):
    """A processor with a function of key and value."""

    def __init__(self, function: Any) -> None:
        self._function = function


@cython.cclass
class KStreamMapProcessor(FunctionProcessor):
    """See `KStreamMap`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record with another key and value. Raises TypeError when the mapper returns None."""
        pair = self._function(record.key, record.value)
        if pair is None:
            raise TypeError(_NULL_PAIR)
        key, value = pair
        self.context.forward_all(make_record(key, value, record.timestamp, record.header_list))


@cython.cclass
class KStreamSelectKeyProcessor(FunctionProcessor):
    """See `KStreamSelectKey`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record with another key."""
        key = self._function(record.key, record.value)
        self.context.forward_all(make_record(key, record.value, record.timestamp, record.header_list))


@cython.cclass
class KStreamMapValuesProcessor(FunctionProcessor):
    """See `KStreamMapValues`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record with another value."""
        value = self._function(record.key, record.value)
        self.context.forward_all(make_record(record.key, value, record.timestamp, record.header_list))


@cython.cclass
class KTableToStreamProcessor(OperatorProcessor):
    """See `KTableToStream`."""

    def process(self, record: Record[Any, Change]) -> None:
        """Forward the record with the new value."""
        change = record.value
        self.context.forward_all(make_record(record.key, change.new_value, record.timestamp, record.header_list))


@cython.cclass
class KStreamFlatMapProcessor(FunctionProcessor):
    """See `KStreamFlatMap`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward a record for each pair. Raises TypeError when the mapper returns None."""
        pairs: Iterable[tuple[Any, Any]] | None = self._function(record.key, record.value)
        if pairs is None:
            raise TypeError(_NULL_PAIR)
        for key, value in pairs:
            self.context.forward_all(make_record(key, value, record.timestamp, record.header_list))


@cython.cclass
class KStreamFlatMapValuesProcessor(FunctionProcessor):
    """See `KStreamFlatMapValues`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward a record for each value."""
        for value in self._function(record.key, record.value):
            self.context.forward_all(make_record(record.key, value, record.timestamp, record.header_list))


@cython.cclass
class KStreamPeekProcessor(FunctionProcessor):
    """See `KStreamPeek`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Show the record, then forward it."""
        self._function(record.key, record.value)
        self.context.forward_all(record)


@cython.cclass
class ForeachProcessorProcessor(FunctionProcessor):
    """See `ForeachProcessor`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Show the record."""
        self._function(record.key, record.value)


class KStreamMap(_WithFunction):
    """Maps key and value: the mapper returns a pair."""

    PROCESSOR = KStreamMapProcessor


class KStreamSelectKey(_WithFunction):
    """Gives records the key that a function of key and value returns."""

    PROCESSOR = KStreamSelectKeyProcessor


class KTableToStream(Operator):
    """Makes a stream of the changes of a table: their new values."""

    def __call__(self) -> KTableToStreamProcessor:
        """Return a new processor."""
        return KTableToStreamProcessor()


class KStreamMapValues(_WithFunction):
    """Maps values."""

    PROCESSOR = KStreamMapValuesProcessor


class KStreamFlatMap(_WithFunction):
    """Makes any number of pairs of a key and a value."""

    PROCESSOR = KStreamFlatMapProcessor


class KStreamFlatMapValues(_WithFunction):
    """Makes any number of values of one."""

    PROCESSOR = KStreamFlatMapValuesProcessor


class KStreamPeek(_WithFunction):
    """Shows each record to a function on its way."""

    PROCESSOR = KStreamPeekProcessor


class ForeachProcessor(_WithFunction):
    """Shows each record to a function, at the end of its way."""

    PROCESSOR = ForeachProcessorProcessor


class KStreamBranch(Operator):
    """Sends a record to the child of the first predicate that holds, else to the last child if there is one more."""

    def __init__(self, predicates: Sequence[Predicate], child_nodes: Sequence[str]) -> None:
        super().__init__()
        self.predicates = predicates
        self.child_nodes = child_nodes

    def __call__(self) -> KStreamBranchProcessor:
        """Return a new processor."""
        return KStreamBranchProcessor(self.predicates, self.child_nodes)


@cython.cclass
class KStreamBranchProcessor(OperatorProcessor):
    """See `KStreamBranch`."""

    def __init__(self, predicates: Sequence[Predicate], child_nodes: Sequence[str]) -> None:
        self._branches = list(zip(predicates, child_nodes, strict=False))
        self._default = child_nodes[len(predicates)] if len(child_nodes) > len(predicates) else None

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record to one child, or to none."""
        for predicate, child in self._branches:
            if predicate(record.key, record.value):
                self.context.forward(record, child)
                return
        if self._default is not None:
            self.context.forward(record, self._default)


class PassThrough(Operator):
    """Forwards each record: merges, and the ends of joins."""

    def __call__(self) -> PassThroughProcessor:
        """Return a new processor."""
        return PassThroughProcessor()


@cython.cclass
class PassThroughProcessor(OperatorProcessor):
    """See `PassThrough`."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record."""
        self.context.forward_all(record)
