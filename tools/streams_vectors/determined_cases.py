"""Draws topologies whose last results are determined, whichever task writes to a repartition topic first.

Tables are what their last records make them, however the changes of different keys come; counts do not depend on the
order of what they count. A stream has the same records in some order. So nothing here has windows, holds updates back,
joins a stream, or makes a table of a stream.
"""

from __future__ import annotations

from typing import Any

from tools.streams_vectors.random_cases import JOINER, KEYS, MAPPERS, PREDICATES, TEXT, Drawing, Node, case_of

_FOREIGN_KEY = ["prefix", ["value"], 1]


class DeterminedDrawing(Drawing):
    """Draws steps on streams up to a count, and on tables."""

    def grow(self) -> None:
        """Add a step of a kind that suits the nodes there are."""
        streams, tables = self.plain("stream"), self.plain("table")
        moves = [(self._of_stream, streams), (self._counted, streams), (self._of_table, tables)]
        moves += [(self._joined, tables), (self._regrouped, tables)] * 2
        move, nodes = self.one([(move, nodes) for move, nodes in moves if nodes])
        move(self.one(nodes))

    def _of_stream(self, node: Node) -> None:
        op, fields = self.one(
            [
                ("filter", {"predicate": self.one(PREDICATES)}),
                ("map_values", {"mapper": self.one(MAPPERS)}),
                ("flat_map_values", {"mapper": ["chars", ["value"]]}),
                ("select_key", {"mapper": self.one(KEYS)}),
                ("merge", {"other": self.one(self.plain("stream")).id}),
                ("repartition", {"repartitioned": TEXT}),
            ]
        )
        self.step(op, "stream", **fields, **{"from": node.id})

    def _counted(self, node: Node) -> None:
        op, fields = self.one([("group_by_key", {}), ("group_by", {"mapper": self.one(KEYS)})])
        group = self.step(op, grouped=TEXT, **fields, **{"from": node.id})
        self._count(group)

    def _count(self, group: Node) -> None:
        self.step("count", "table", value="long", materialized=self.store("long"), **{"from": group.id})

    def _of_table(self, node: Node) -> None:
        op, fields = self.one(
            [("filter", {"predicate": self.one(PREDICATES)}), ("map_values", {"mapper": self.one(MAPPERS)})]
        )
        self.step(op, "table", **self._maybe_kept(), **fields, **{"from": node.id})

    def _joined(self, node: Node) -> None:
        op = self.one(["join", "left_join", "outer_join", "foreign_key_join", "foreign_key_left_join"])
        fields: dict[str, Any] = {"other": self.one(self.plain("table")).id, "joiner": JOINER, "from": node.id}
        if op.startswith("foreign"):
            fields |= {"foreign_key": _FOREIGN_KEY, "materialized": self.store()}
        else:
            fields |= self._maybe_kept()
        self.step(op, "table", **fields)

    def _regrouped(self, node: Node) -> None:
        pair = ["pair", ["if", ["is_null", ["value"]], None, _FOREIGN_KEY], ["value"]]
        self._count(self.step("group_by", mapper=pair, grouped=TEXT, **{"from": node.id}))

    def _maybe_kept(self) -> dict[str, Any]:
        return {"materialized": self.store()} if self.chance(0.4) else {}


def draw_determined(seed: int) -> dict[str, Any]:
    """Return a case of a seed, without `expected`."""
    return case_of(DeterminedDrawing(seed), seed)


def tables_of(case: dict[str, Any]) -> set[str]:
    """Return the topics that tables are written to; the others are of streams."""
    made_of_tables = {step["id"] for step in case["steps"] if step["op"] == "to_stream"}
    return {step["topic"] for step in case["steps"] if step["op"] == "to" and step["from"] in made_of_tables}
