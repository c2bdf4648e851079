# cython: language_level=3, annotation_typing=False
"""The processors of the DSL's own operators: the engine calls them without the interpreter.

C types are in `operator_processor.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.streams.engine.context import TaskContext
    from barnabas.streams.topology.record import Record


@cython.cclass
class OperatorProcessor:
    """Handles one record after the other of a node, and keeps its context as `context`."""

    def init(self, context: TaskContext) -> None:
        """Keep the context."""
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        """Handle one record."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process(record)")

    def close(self) -> None:
        """Give back what `init` took."""
