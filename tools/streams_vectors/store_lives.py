"""Draws what is done to one store, call by call, and does it in a processor of our driver, as `StoreLives.java` does.

A case has records, each with calls: `["call", method, ...]`, `["open", name, method, ...]` for an iterator,
`["next", name, most]` and `["close", name]`. What the changelog gets after each record shows what was evicted when.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barnabas.streams.serdes import Serdes
from barnabas.streams.state.store import ValueAndTimestamp
from barnabas.streams.state.window import TimestampedWindowStore
from barnabas.streams.testing import TopologyTestDriver
from barnabas.streams.topology.processor_api import ContextualProcessor
from barnabas.streams.topology.stores import Stores
from barnabas.streams.topology.topology import Topology
from barnabas.streams.windowed import SessionWindow, Windowed

if TYPE_CHECKING:
    from barnabas.streams.state.changelog_record import ChangelogRecord
    from barnabas.streams.topology.processor_api import ProcessorContext
    from barnabas.streams.topology.record import Record
    from barnabas.streams.topology.stores import StoreBuilder

TYPES = ("key_value", "window", "session")
#: What each kind of store answers with an iterator: method, and how many keys and times it takes.
_ITERATORS: dict[str, list[tuple[str, int, int]]] = {
    "key_value": [
        ("range", 2, 0),
        ("reverse_range", 2, 0),
        ("all", 0, 0),
        ("reverse_all", 0, 0),
        ("prefix_scan", 1, 0),
    ],
    "window": [
        ("fetch", 1, 2),
        ("backward_fetch", 1, 2),
        ("fetch", 2, 2),
        ("backward_fetch", 2, 2),
        ("fetch_all", 0, 2),
        ("backward_fetch_all", 0, 2),
        ("all", 0, 0),
        ("backward_all", 0, 0),
    ],
    "session": [
        ("find_sessions", 1, 2),
        ("backward_find_sessions", 1, 2),
        ("find_sessions", 2, 2),
        ("backward_find_sessions", 2, 2),
        ("fetch", 1, 0),
        ("backward_fetch", 1, 0),
        ("fetch", 2, 0),
        ("backward_fetch", 2, 0),
    ],
}


class _Drawing:
    """Draws the calls of one case. Times rise slowly, so that some are too old for what the store keeps."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._type = self._random.choice(TYPES)
        self._persistent = self._random.random() < 0.3
        cached = self._random.random() < 0.7
        self.case: dict[str, Any] = {
            "name": f"store-{seed}",
            "type": self._type,
            "persistent": self._persistent,
            "duplicates": self._type == "window" and not cached and self._random.random() < 0.5,
            "time_ordered": False,
            "indexed": False,
            "retention_ms": self._random.choice([30, 100, 100_000]),
            "max_bytes": self._random.choice([150, 300, 600, 100_000]) if cached else 0,
        }
        #: Kafka's caches show deleted entries to those that read backward (4.3.1), and leave out sessions on disk that
        #: ended after the latest start that was asked for; ours do not.
        self._deletes = not cached or self._random.random() < 0.5
        self._backward = not (cached and (self._deletes or (self._persistent and self._type == "session")))
        self._time = 0
        #: Segments on disk last a minute at least.
        self._scale = 1
        if self._persistent and self._random.random() < 0.7:
            self._scale = 7000
            self.case["retention_ms"] *= self._scale
        if self._type == "window" and self._persistent and not self.case["duplicates"]:
            self.case["time_ordered"] = self._random.random() < 0.6
            self.case["indexed"] = self.case["time_ordered"] and self._random.random() < 0.5
        self._iterators = 0
        self._open: list[str] = []

    def draw(self) -> dict[str, Any]:
        # Kafka's cached sessions on disk cannot be read backward before the first put.
        first = {"timestamp": 0, "calls": [["call", *self._put()]]}
        self.case["records"] = [first, *(self._record() for _ in range(self._random.randint(10, 30)))]
        return self.case

    def _record(self) -> dict[str, Any]:
        self._time += self._random.choice([0, 0, 1, 5, 20])
        return {
            "timestamp": self._time * self._scale,
            "calls": [self._call() for _ in range(self._random.randint(1, 4))],
        }

    def _call(self) -> list[Any]:
        if self._open and self._random.random() < 0.6:
            return self._read_on()
        kind = self._random.random()
        if kind < 0.25 and len(self._open) < 2:
            return self._opened()
        if self._open and self._persistent:
            return self._read_on()  # Kafka's drivers have snapshots there, ours reads on in what there is
        return ["call", *(self._put() if kind < 0.75 else self._get())]

    def _read_on(self) -> list[Any]:
        name = self._random.choice(self._open)
        if self._random.random() < 0.7:
            return ["next", name, self._random.choice([1, 1, 2, 100])]
        self._open.remove(name)
        return ["close", name]

    def _opened(self) -> list[Any]:
        self._iterators += 1
        self._open.append(f"i{self._iterators}")
        method, keys, times = self._random.choice(
            [
                each
                for each in _ITERATORS[self._type]
                if self._backward or not each[0].startswith(("backward", "reverse"))
            ]
        )
        chosen: list[Any] = sorted(self._key() for _ in range(keys))
        if keys == 2:
            # Kafka's caches show windows of several segments again for keys without a bound (4.3.1), ours do not.
            bounded = self._scale > 1 and self._type == "window" and self.case["max_bytes"]
            chosen = [None if self._random.random() < 0.2 and not bounded else key for key in chosen]
        return ["open", self._open[-1], method, *chosen, *sorted(self._near() for _ in range(times))]

    def _key(self) -> str:
        return self._random.choice(["a", "b", "c", "ab", "abc"])

    def _value(self) -> str | None:
        if self._deletes and self._random.random() < 0.25:
            return None
        return "v" * self._random.randint(1, 6) + str(self._random.randint(0, 99))

    def _near(self) -> int:
        return max(0, self._time + self._random.randint(-30, 10)) * self._scale

    def _session(self) -> list[int]:
        return sorted((self._near(), self._near()))

    def _put(self) -> list[Any]:
        if self._type == "window":
            return ["put", self._key(), self._value(), self._near()]
        if self._type == "session":
            return ["put", self._key(), *self._session(), self._value()]
        method = self._random.choice(["put", "put", "put", "put_if_absent", *["delete"] * self._deletes])
        return [method, self._key()] if method == "delete" else [method, self._key(), self._value()]

    def _get(self) -> list[Any]:
        if self._type == "window":
            if self.case["duplicates"]:
                return self._put()
            return ["fetch", self._key(), self._near()]
        if self._type == "session":
            return [self._random.choice(["fetch_session", *["remove"] * self._deletes]), self._key(), *self._session()]
        return ["get", self._key()]


def draw_life(seed: int) -> dict[str, Any]:
    """Return the case of a seed."""
    return _Drawing(seed).draw()


class _Living(ContextualProcessor[Any, Any]):
    def __init__(self, answers: list[str]) -> None:
        self._answers = answers
        self._open: dict[str, Any] = {}
        self._store: Any = None

    def init(self, context: ProcessorContext) -> None:
        self._store = context.get_state_store("s")

    def process(self, record: Record[Any, Any]) -> None:
        for call, *arguments in json.loads(record.value):
            if call == "open":
                self._open[arguments[0]] = self._called(*arguments[1:])
            elif call == "close":
                entries = self._open.pop(arguments[0])
                if entries is not None:
                    entries.close()
            elif call == "next":
                self._next(arguments[0], arguments[1])
            else:
                answer = self._called(*arguments)
                self._answers.append(_DONE.get(arguments[0]) or _shown(answer))

    def _called(self, method: str, *arguments: Any) -> Any:
        if method == "put" and isinstance(self._store, TimestampedWindowStore):
            key, value, start = arguments
            return self._store.put(key, None if value is None else ValueAndTimestamp(value, 7), start)
        if method in ("put", "remove") and len(arguments) > 2 and hasattr(self._store, "find_sessions"):
            key, start, end, *value = arguments
            return getattr(self._store, method)(Windowed(key, SessionWindow(start, end)), *value)
        if method == "prefix_scan":
            return self._store.prefix_scan(arguments[0], Serdes.string())
        return getattr(self._store, method)(*arguments)

    def _next(self, name: str, most: int) -> None:
        """Read on. What is read to its end is closed, as ours are; Kafka's iterators are not by themselves."""
        entries = self._open[name]
        for _ in range(most):
            found = None if entries is None else next(entries, None)
            if found is None:
                self._answers.append("end")
                self._open[name] = None
                return
            key, value = found
            if isinstance(key, Windowed):
                key = f"{key.key}@{key.window.start}-{key.window.end}"
            self._answers.append(f"{key}={_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, ValueAndTimestamp):
        value = value.value
    return "null" if value is None else str(value)


_DONE = {"put": "put", "remove": "removed"}


def _builder(case: dict[str, Any]) -> StoreBuilder:
    retention, persistent = case["retention_ms"], case["persistent"]
    text = Serdes.string()
    if case["time_ordered"]:
        supplier = Stores.persistent_timestamped_window_store("s", retention, 10)
        supplier = replace(supplier, time_ordered=True, indexed=case["indexed"])
        builder = Stores.timestamped_window_store_builder(supplier, text, text)
    elif case["type"] == "window":
        make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
        builder = Stores.window_store_builder(make("s", retention, 10, case["duplicates"]), text, text)
    elif case["type"] == "session":
        keep = Stores.persistent_session_store if persistent else Stores.in_memory_session_store
        builder = Stores.session_store_builder(keep("s", retention), text, text)
    else:
        hold = Stores.persistent_key_value_store if persistent else Stores.in_memory_key_value_store
        builder = Stores.key_value_store_builder(hold("s"), text, text)
    return builder.with_caching_enabled() if case["max_bytes"] else builder


def _changed(record: ChangelogRecord) -> list[Any]:
    return [record.key.hex(), None if record.value is None else record.value.hex(), record.timestamp]


def live(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each record's calls gave, and what the changelog got, with our driver."""
    answers: list[str] = []
    topology = Topology()
    topology.add_source("source", "in", key_deserializer=Serdes.string(), value_deserializer=Serdes.string())
    topology.add_processor("lives", lambda: _Living(answers), "source")
    topology.add_state_store(_builder(case), "lives")
    told = []
    with TopologyTestDriver(topology, {"statestore.cache.max.bytes": case["max_bytes"]}, 0) as driver:
        task: Any = driver._task
        for record in case["records"]:
            driver._enqueue_raw("in", None, json.dumps(record["calls"]).encode(), record["timestamp"], [])
            while task.process_next(0):
                pass
            told.append(
                {"answers": list(answers), "changelog": [_changed(found) for found in task.stores["s"].changes()]}
            )
            answers.clear()
    return told
