"""Draws what goes by time: punctuators, window and versioned stores of processors, joins with grace; and patterns."""

from __future__ import annotations

import random
from typing import Any

from tools.streams_vectors.random_cases import JOINER, TEXT, Node, case_of
from tools.streams_vectors.richer_cases import RicherDrawing


class TimedDrawing(RicherDrawing):
    """Draws a step of these kinds in place of others, now and then."""

    def source(self) -> None:
        """Read topics, sometimes by a pattern, sometimes as a versioned table."""
        if len(self.free) > 1 and self.chance(0.2):
            first, second = self.free.pop(0), self.free.pop(0)
            self.step("stream", "stream", pattern=f"in[{first[-1]}{second[-1]}]", consumed=TEXT)
        elif self.free:
            super().source()

    def grow(self) -> None:
        """Add a step of a kind that suits the nodes there are."""
        streams = self.plain("stream")
        if not streams or self.chance(0.3):
            super().grow()
            return
        self.one([self._buffer, self._heartbeat, self._windows_of, self._versions_of, self._join_with_grace])(
            self.one(streams)
        )

    def _kept(self, kind: str, node: Node, processor: dict[str, Any], **fields: Any) -> None:
        """Add a processor with a store of its own; of these kinds, only window stores need not be on disk."""
        name = f"memory{len(self.steps)}"
        store = {"name": name, "type": kind, "key": "string", "value": "string", **fields}
        if kind != "versioned":
            store["persistent"] = self.chance(0.5)
        self.step("add_state_store", store=store)
        self.step("process", "stream", processor={**processor, "store": name}, stores=[name], **{"from": node.id})

    def _punctuate(self) -> dict[str, Any]:
        return {"type": self.one(["stream_time", "wall_clock_time"]), "interval_ms": self.one([1, 20, 100])}

    def _buffer(self, node: Node) -> None:
        self._kept("key_value", node, {"kind": "buffer", "punctuate": self._punctuate()})

    def _heartbeat(self, node: Node) -> None:
        processor: dict[str, Any] = {"kind": "heartbeat", "punctuate": self._punctuate()}
        if self.chance(0.5):
            processor["cancel_after"] = self.one([1, 3])
        self.step("process", "stream", processor=processor, **{"from": node.id})

    def _windows_of(self, node: Node) -> None:
        size = self.one([10, 50])
        times = {
            "window_size_ms": size,
            "retention_ms": size + self.one([0, 100]),
            "retain_duplicates": self.chance(0.3),
        }
        self._kept("window", node, {"kind": "window_collect", "span_ms": self.one([5, 60])}, **times)

    def _versions_of(self, node: Node) -> None:
        processor = {"kind": "version_lookup", "back_ms": self.one([1, 30, 200])}
        self._kept("versioned", node, processor, history_retention_ms=self.one([20, 1_000]))

    def _join_with_grace(self, node: Node) -> None:
        tables = [step["id"] for step in self.steps if step.get("materialized", {}).get("store") == "versioned"]
        if not tables:
            if not self.free:
                return
            store = {"key": "string", "value": "string", "name": f"store{len(self.steps)}"}
            store |= {"store": "versioned", "history_retention_ms": self.one([50, 1_000])}
            tables = [self.step("table", "table", topic=self.free.pop(0), consumed=TEXT, materialized=store).id]
        joined = {**TEXT, "other_value": "string", "grace_ms": self.one([0, 10, 50])}
        fields = {"other": self.one(tables), "joiner": JOINER, "joined": joined}
        self.step(self.one(["join", "left_join"]), "stream", **fields, **{"from": node.id})


def draw_timed(seed: int) -> dict[str, Any]:
    """Return a case of a seed with what goes by time, whose wall clock moves now and then, without `expected`."""
    case = case_of(TimedDrawing(seed), seed)
    case["name"] = f"timed-{seed}"
    chance = random.Random(-1 - seed)
    inputs = []
    for given in case["inputs"]:
        inputs.append(given)
        if chance.random() < 0.25:
            inputs.append({"advance_wall_clock_ms": chance.choice([1, 15, 250])})
    case["inputs"] = inputs
    return case
