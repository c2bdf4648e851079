"""Draws topologies and inputs from a seed, in the form of a case."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

#: Stores of the DSL that say nothing else lie in memory.
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
TEXT = {"key": "string", "value": "string"}
MAPPERS: list[Any] = [
    ["upper", ["value"]],
    ["concat", ["key"], ":", ["value"]],
    ["suffix", ["value"], 2],
    ["if", ["contains", ["value"], "z"], None, ["value"]],
    ["prefix", ["value"], 3],
]
PREDICATES: list[Any] = [
    ["contains", ["value"], "a"],
    ["not", ["is_null", ["value"]]],
    ["eq", ["mod", ["len", ["value"]], 2], 0],
    ["not", ["eq", ["key"], "b"]],
]
KEYS: list[Any] = [["prefix", ["value"], 1], ["suffix", ["value"], 1], ["if", ["is_null", ["value"]], "n", ["key"]]]
JOINER = ["concat", ["left"], "&", ["right"]]
_LONG = {"key": "string", "value": "long"}


class Node(NamedTuple):
    """What a step made: a `stream` or `table`, of text or long values, by text or windowed keys (their serde)."""

    id: str
    kind: str
    value: str = "string"
    key: Any = "string"
    closes: bool = False


class Drawing:
    """Draws the steps and inputs of one case from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.steps: list[dict[str, Any]] = []
        self.topics: dict[str, Any] = dict.fromkeys(("in1", "in2", "in3"), TEXT)
        self.nodes: list[Node] = []
        self.free = ["in1", "in2", "in3"]

    def step(self, op: str, kind: str = "", *, value: str = "string", key: Any = "string", **fields: Any) -> Node:
        """Add a step."""
        node = Node(f"n{len(self.steps)}", kind, value, key)
        self.steps.append({"id": node.id, "op": op, **fields})
        if kind in ("stream", "table"):
            self.nodes.append(node)
        return node

    def chance(self, probability: float) -> bool:
        """Tell whether something happens."""
        return self._random.random() < probability

    def one(self, choices: Any) -> Any:
        """Return one of several."""
        return self._random.choice(choices)

    def store(self, value: str = "string", named: bool | None = None) -> dict[str, Any]:
        """Return a store, with a name or without."""
        spec: dict[str, Any] = {"key": "string", "value": value}
        if self.chance(0.6) if named is None else named:
            spec["name"] = f"store{len(self.steps)}"
        if self.chance(0.3):
            spec["store"] = "in_memory"
        return spec

    def source(self) -> None:
        """Read a topic."""
        topic = self.free.pop(0)
        if self.chance(0.5):
            self.step("stream", "stream", topics=[topic], consumed=TEXT)
        else:
            kept = {"materialized": self.store()} if self.chance(0.4) else {}
            self.step("table", "table", topic=topic, consumed=TEXT, **kept)

    def plain(self, kind: str) -> list[Node]:
        """Return the streams or tables of text by text."""
        return [node for node in self.nodes if node.kind == kind and node.value == "string" and node.key == "string"]

    def grow(self) -> None:
        """Add a step of a kind that suits the nodes there are."""
        streams, tables = self.plain("stream"), self.plain("table")
        moves = [(self._stateless, streams), (self._aggregate, streams), (self._join_streams, streams)]
        moves += [(self._table_step, tables), (self._join_tables, tables), (self._aggregate_table, tables)]
        if tables:
            moves.append((self._join_table, streams))
        move, nodes = self.one([(move, nodes) for move, nodes in moves if nodes])
        move(self.one(nodes))

    def _stateless(self, node: Node) -> None:
        op = self.one(["filter", "filter_not", "map_values", "flat_map_values", "select_key", "map", "merge", "more"])
        at = {"from": node.id}
        if op in ("filter", "filter_not"):
            self.step(op, "stream", predicate=self.one(PREDICATES), **at)
        elif op == "map_values":
            self.step(op, "stream", mapper=self.one(MAPPERS), **at)
        elif op == "flat_map_values":
            self.step(op, "stream", mapper=["chars", ["value"]], **at)
        elif op == "select_key":
            self.step(op, "stream", mapper=self.one(KEYS), **at)
        elif op == "map":
            self.step(op, "stream", mapper=["pair", self.one(KEYS), self.one(MAPPERS)], **at)
        elif op == "merge":
            self.step(op, "stream", other=self.one(self.plain("stream")).id, **at)
        elif self.chance(0.5):
            self.step("repartition", "stream", repartitioned=TEXT, **at)
        else:
            self.step("to_table", "table", materialized=self.store(), **at)

    def _aggregate(self, node: Node) -> None:
        if self.chance(0.5):
            group = self.step("group_by_key", grouped=TEXT, **{"from": node.id})
        else:
            group = self.step("group_by", mapper=self.one(KEYS), grouped=TEXT, **{"from": node.id})
        key: Any = "string"
        session = False
        if self.chance(0.6):
            spec = self.windows()
            session = spec["type"] == "session"
            size = spec.get("size_ms", spec.get("difference_ms"))
            key = {"session_windowed": "string"} if session else {"time_windowed": "string", "size_ms": size}
            group = self.step("windowed_by", windows=spec, **{"from": group.id})
            if self.chance(0.2) and not session:
                group = self.step("emit_strategy", strategy="on_window_close", **{"from": group.id})
        op = self.one(["count", "reduce", "aggregate"])
        body: dict[str, Any] = {"from": group.id}
        value = "long" if op == "count" else "string"
        if op == "reduce":
            body["reducer"] = ["concat", ["agg"], "+", ["value"]]
        elif op == "aggregate":
            body |= {"initializer": "", "aggregator": ["concat", ["agg"], ["value"], ","]}
            if session:
                body["merger"] = ["concat", ["left"], ["right"]]
        table = self.step(op, "table", value=value, key=key, materialized=self.store(value), **body)
        if key != "string" and self.chance(0.3) and not any(s["op"] == "emit_strategy" for s in self.steps):
            self.step("suppress", "table", value=value, key=key, suppressed=self._suppressed(), **{"from": table.id})

    def _suppressed(self) -> dict[str, Any]:
        if self.chance(0.5):
            return {"until": "window_closes"}
        return {"until": "time_limit", "time_limit_ms": self.one([0, 10, 50])}

    def windows(self) -> dict[str, Any]:
        """Return windows of some kind."""
        size = self.one([10, 30, 100])
        spec: dict[str, Any] = self.one(
            [
                {"type": "tumbling", "size_ms": size},
                {"type": "hopping", "size_ms": size, "advance_ms": size // 2},
                {"type": "sliding", "difference_ms": size},
                {"type": "session", "gap_ms": size},
            ]
        )
        return {**spec, "grace_ms": self.one([0, 20])} if self.chance(0.6) else spec

    def _join_streams(self, node: Node) -> None:
        windows = {"difference_ms": self.one([0, 10, 50])}
        if self.chance(0.6):
            windows["grace_ms"] = self.one([0, 20])
        self.step(
            self.one(["join", "left_join", "outer_join"]),
            "stream",
            other=self.one(self.plain("stream")).id,
            joiner=JOINER,
            windows=windows,
            stream_joined={**TEXT, "other_value": "string"},
            **{"from": node.id},
        )

    def _join_table(self, node: Node) -> None:
        other = self.one(self.plain("table")).id
        joined = {**TEXT, "other_value": "string"}
        op = self.one(["join", "left_join"])
        self.step(op, "stream", other=other, joiner=JOINER, joined=joined, **{"from": node.id})

    def _table_step(self, node: Node) -> None:
        op = self.one(["filter", "filter_not", "map_values", "to_stream", "suppress"])
        at = {"from": node.id}
        kept = {"materialized": self.store()} if self.chance(0.4) else {}
        if op in ("filter", "filter_not"):
            self.step(op, "table", predicate=self.one(PREDICATES), **kept, **at)
        elif op == "map_values":
            self.step(op, "table", mapper=self.one(MAPPERS), **kept, **at)
        elif op == "to_stream":
            self.step(op, "stream", **at)
        else:
            self.step(op, "table", suppressed={"until": "time_limit", "time_limit_ms": self.one([0, 10, 50])}, **at)

    def _join_tables(self, node: Node) -> None:
        other = self.one(self.plain("table")).id
        op = self.one(["join", "left_join", "outer_join", "foreign_key_join", "foreign_key_left_join"])
        fields: dict[str, Any] = {"other": other, "joiner": JOINER, "from": node.id}
        if op.startswith("foreign"):
            fields |= {"foreign_key": ["prefix", ["value"], 1], "materialized": self.store()}
        elif self.chance(0.4):
            fields["materialized"] = self.store()
        self.step(op, "table", **fields)

    def _aggregate_table(self, node: Node) -> None:
        pair = ["pair", ["if", ["is_null", ["value"]], None, ["prefix", ["value"], 1]], ["value"]]
        group = self.step("group_by", mapper=pair, grouped=TEXT, **{"from": node.id})
        op = self.one(["count", "reduce", "aggregate"])
        value = "long" if op == "count" else "string"
        body: dict[str, Any] = {}
        if op != "count":
            body = {
                "adder": ["concat", ["agg"], "+", ["value"]],
                "subtractor": ["concat", ["agg"], "-", ["value"]],
            }
        if op == "aggregate":
            body["initializer"] = ""
        self.step(op, "table", value=value, materialized=self.store(value), **body, **{"from": group.id})

    def sink(self) -> None:
        """Write every node without a successor to a topic of its own."""
        followed = {step.get("from") for step in self.steps} | {step.get("other") for step in self.steps}
        for number, node in enumerate([node for node in self.nodes if node.id not in followed], 1):
            stream = node if node.kind == "stream" else self.step("to_stream", "stream", **{"from": node.id})
            topic, serdes = f"out{number}", {"key": node.key, "value": node.value}
            self.topics[topic] = serdes
            self.steps.append({"op": "to", "from": stream.id, "topic": topic, "produced": serdes})

    def read_topics(self) -> list[str]:
        """Return the topics that are read."""
        return [topic for topic in ("in1", "in2", "in3") if topic not in self.free]

    def inputs(self, count: int) -> list[dict[str, Any]]:
        """Return records for all topics, some late, some without a value."""
        time, records = 0, []
        topics = self.read_topics()
        for _ in range(count):
            time += self.one([0, 1, 5, 20, 60])
            value = None if self.chance(0.1) else "".join(self.one("abcxyz") for _ in range(self.one([1, 2, 3, 4])))
            at = max(0, time - self.one([0, 0, 0, 15, 80]))
            records.append({"topic": self.one(topics), "key": self.one("abc"), "value": value, "timestamp": at})
        return records


def draw_cached(seed: int) -> dict[str, Any]:
    """Return a case with a cache of few or many bytes, whose inputs are committed now and then, and at the end."""
    case = draw(seed)
    chance = random.Random(-1 - seed)
    case["name"] = f"cached-{seed}"
    case["config"]["statestore.cache.max.bytes"] = chance.choice([100, 300, 1_000, 10_000_000])
    for given in case["inputs"][:-1]:
        if chance.random() < 0.6:
            given["uncommitted"] = True
    return case


def draw_with_headers(seed: int) -> dict[str, Any]:
    """Return a case some of whose records have headers, and whose stores mostly keep them; some have caches."""
    chance = random.Random(-1 - seed)
    case = draw_cached(seed) if chance.random() < 0.3 else draw(seed)
    case["name"] = f"headers-{seed}"
    if chance.random() < 0.8:
        case["config"]["dsl.store.format"] = "HEADERS"
    for number, given in enumerate(case["inputs"]):
        if chance.random() < 0.5:
            given["headers"] = [["h", str(number)], ["same", "x"]][: chance.choice([1, 2])]
    return case


def draw(seed: int) -> dict[str, Any]:
    """Return a case of a seed, without `expected`."""
    return case_of(Drawing(seed), seed)


def case_of(drawing: Drawing, seed: int) -> dict[str, Any]:
    """Return the case of a drawing, to be called once."""
    for _ in range(drawing.one([1, 2, 3])):
        drawing.source()
    for _ in range(drawing.one([1, 2, 3, 4, 5, 6])):
        drawing.grow()
    drawing.sink()
    config = {"topology.optimization": "all"} if drawing.chance(0.25) else {}
    if random.Random(f"suppliers-{seed}").random() < 0.25:
        config["dsl.store.suppliers.class"] = IN_MEMORY
    return {
        "name": f"random-{seed}",
        "category": "random",
        "topics": drawing.topics,
        "config": config,
        "steps": drawing.steps,
        "inputs": drawing.inputs(drawing.one([10, 30, 60])),
    }
