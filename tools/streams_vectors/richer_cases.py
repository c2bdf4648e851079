"""Draws what `random_cases` leaves out: global tables, cogroups, versioned tables, splits and processors."""

from __future__ import annotations

from typing import Any

from tools.streams_vectors.random_cases import JOINER, KEYS, MAPPERS, PREDICATES, TEXT, Drawing, Node, case_of

_GLOBAL = "global1"


class RicherDrawing(Drawing):
    """Draws a step of the richer kinds in place of a plain one, now and then."""

    def source(self) -> None:
        """Read a topic, sometimes as a versioned table."""
        if not self.chance(0.2):
            super().source()
            return
        store = {"key": "string", "value": "string", "name": f"store{len(self.steps)}"}
        store |= {"store": "versioned", "history_retention_ms": self.one([50, 1_000])}
        self.step("table", "table", topic=self.free.pop(0), consumed=TEXT, materialized=store)

    def grow(self) -> None:
        """Add a step of a kind that suits the nodes there are."""
        streams = self.plain("stream")
        if not streams or self.chance(0.4):
            super().grow()
            return
        self.one([self._split, self._process, self._join_global, self._cogroup])(self.one(streams))

    def _split(self, node: Node) -> None:
        number = len(self.steps)
        count = self.one([1, 2, 3])
        branches = [{"predicate": self.one(PREDICATES)} for _ in range(count)]
        names = [str(at) for at in range(1, count + 1)]
        if self.chance(0.5):
            branches[0]["name"] = names[0] = "a"
        fields: dict[str, Any] = {"named": f"split{number}-"} if self.chance(0.5) else {}
        if self.chance(0.5):
            fields["default"] = {}
            names.append("0")
        ids = [{"id": f"n{number}{'abcd'[at]}", "branch": name} for at, name in enumerate(names)]
        self.step("split", branches=branches, ids=ids, **fields, **{"from": node.id})
        self.nodes += [Node(made["id"], "stream") for made in ids]

    def _process(self, node: Node) -> None:
        op = self.one(["process", "process_values"])
        kind = self.one(["count", "deduplicate", "add_header"])
        if kind == "add_header":
            processor: dict[str, Any] = {"kind": kind, "name": "seen", "value": self.one(MAPPERS)}
            self.step(op, "stream", processor=processor, **{"from": node.id})
            return
        value = "long" if kind == "count" else "string"
        name = f"memory{len(self.steps)}"
        store = {"name": name, "type": "key_value", "key": "string", "value": value, "persistent": self.chance(0.5)}
        self.step("add_state_store", store=store)
        processor = {"kind": kind, "store": name}
        self.step(op, "stream", value=value, processor=processor, stores=[name], **{"from": node.id})

    def _join_global(self, node: Node) -> None:
        tables = [step["id"] for step in self.steps if step["op"] == "global_table"]
        if not tables:
            # Kafka cannot build a global table whose store is described without a name; ours can.
            kept: dict[str, Any] = {"materialized": self.store(named=True)} if self.chance(0.5) else {}
            tables = [self.step("global_table", topic=_GLOBAL, consumed=TEXT, **kept).id]
            self.topics[_GLOBAL] = TEXT
        op = self.one(["join", "left_join"])
        fields = {"other": tables[0], "key_mapper": self.one(KEYS), "joiner": JOINER}
        self.step(op, "stream", **fields, **{"from": node.id})

    def _cogroup(self, node: Node) -> None:
        first = self._grouped(node)
        group = self.step("cogroup", aggregator=["concat", ["agg"], "1", ["value"]], **{"from": first.id})
        if self.chance(0.7):
            second = self._grouped(self.one(self.plain("stream")))
            aggregator = ["concat", ["agg"], "2", ["value"]]
            group = self.step("cogroup", grouped=second.id, aggregator=aggregator, **{"from": group.id})
        key: Any = "string"
        body: dict[str, Any] = {"initializer": ""}
        if self.chance(0.5):
            spec = self.windows()
            session = spec["type"] == "session"
            size = spec.get("size_ms", spec.get("difference_ms"))
            key = {"session_windowed": "string"} if session else {"time_windowed": "string", "size_ms": size}
            group = self.step("windowed_by", windows=spec, **{"from": group.id})
            if session:
                body["merger"] = ["concat", ["left"], ["right"]]
        self.step("aggregate", "table", key=key, materialized=self.store(), **body, **{"from": group.id})

    def _grouped(self, node: Node) -> Node:
        if self.chance(0.5):
            return self.step("group_by_key", grouped=TEXT, **{"from": node.id})
        return self.step("group_by", mapper=self.one(KEYS), grouped=TEXT, **{"from": node.id})

    def read_topics(self) -> list[str]:
        """Return the topics that are read, the global one among them."""
        return super().read_topics() + ([_GLOBAL] if _GLOBAL in self.topics else [])


def draw_richer(seed: int) -> dict[str, Any]:
    """Return a case of a seed with the richer kinds of steps, without `expected`."""
    case = case_of(RicherDrawing(seed), seed)
    case["name"] = f"richer-{seed}"
    return case
