"""`BranchedKStream`: a stream that is split by predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.graph.graph_node import ProcessorGraphNode, ProcessorParameters
from barnabas.streams.dsl.options import Branched, combined
from barnabas.streams.engine.processors import KStreamBranch, PassThrough

if TYPE_CHECKING:
    from barnabas.streams.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")


class BranchedKStream(Generic[K, V]):
    """The branches of a split, in order: a record goes to the first whose predicate holds, or to the default one."""

    def __init__(self, source: KStream[K, V], name: str | None) -> None:
        self._source = source
        upstream = source.upstream
        self._name = upstream.builder.names.given_or(name, "KSTREAM-BRANCH-")
        self._predicates: list[Callable[[K, V], bool]] = []
        self._children: list[str] = []
        self._branches: dict[str, KStream[Any, Any]] = {}
        supplier = KStreamBranch(self._predicates, self._children)
        self._node = ProcessorGraphNode(self._name, ProcessorParameters(supplier, self._name))
        upstream.builder.add(upstream.node, self._node)

    def branch(
        self, predicate: Callable[[K, V], object], branched: Branched[K, V] | None = None, *, name: str | None = None
    ) -> BranchedKStream[K, V]:
        """Add a branch for the records for which the predicate holds, and for no branch before."""
        holds = functions.checked(predicate, "key value", "branch", "predicate cannot be null")
        option = combined(Branched, branched, "branch", name=name)
        self._predicates.append(holds)
        self._add(option, len(self._predicates))
        return self

    def default_branch(
        self, branched: Branched[K, V] | None = None, *, name: str | None = None
    ) -> dict[str, KStream[K, V]]:
        """Add a branch for all other records, and return the branches by name."""
        self._add(combined(Branched, branched, "default_branch", name=name), 0)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drop all other records, and return the branches by name: the split's with the branch's or its number."""
        return self._branches

    def _add(self, branched: Branched[K, V], number: int) -> None:
        child = self._name + (str(number) if branched.name is None else branched.name)
        self._children.append(child)
        builder = self._source.upstream.builder
        builder.names.processor(child)
        node = ProcessorGraphNode(child, ProcessorParameters(PassThrough(), child))
        builder.add(self._node, node)
        branch = type(self._source)(self._source.upstream.after(node, child), self._source.repartition_required)
        if branched.chain_function is not None:
            made = branched.chain_function(branch)
            if made is not None:
                self._branches[child] = made
        elif branched.chain_consumer is not None:
            branched.chain_consumer(branch)
        else:
            self._branches[child] = branch
