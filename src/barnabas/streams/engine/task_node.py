# cython: language_level=3, annotation_typing=False
"""What all nodes of a task have. C types are in `task_node.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record


@cython.cclass
class TaskNode:
    """A node: its name, the nodes that it forwards to, the stores that it may use."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[TaskNode] = []
        self.child_by_name: dict[str, TaskNode] = {}
        self.stores: frozenset[str] = frozenset()

    def add_child(self, child: TaskNode) -> None:
        """Add a node that records are forwarded to."""
        self.children.append(child)
        self.child_by_name[child.name] = child

    def init(self, context: Any) -> None:
        """Make the node ready for records."""

    def process(self, record: Record[Any, Any]) -> None:
        """Take a record."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what `init` took."""
