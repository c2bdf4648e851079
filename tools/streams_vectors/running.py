"""Runs a case through TopologyTestDriver, and writes down what happens in the form of `expected`."""

from __future__ import annotations

import json
from typing import Any

from barnabas.errors import ConfigError, SerializationError
from barnabas.streams.config import StreamsConfig
from barnabas.streams.errors import StreamsError, TopologyError
from barnabas.streams.serdes import Serdes
from barnabas.streams.state.store import ValueAndTimestamp, VersionedRecord
from barnabas.streams.testing import TopologyTestDriver
from barnabas.streams.windowed import Windowed
from tools.streams_vectors.steps import CaseTopology, serde

#: Java's classes, and what stands for them here.
CLASSES: dict[str, type[BaseException] | tuple[type[BaseException], ...]] = {
    "org.apache.kafka.streams.errors.TopologyException": TopologyError,
    "org.apache.kafka.streams.errors.StreamsException": StreamsError,
    "org.apache.kafka.common.config.ConfigException": ConfigError,
    "org.apache.kafka.common.errors.SerializationException": SerializationError,
    "java.lang.IllegalArgumentException": ValueError,
    "java.lang.IllegalStateException": RuntimeError,
    "java.lang.NullPointerException": TypeError,
    "java.lang.RuntimeException": RuntimeError,
    "java.lang.ClassCastException": (TypeError, SerializationError),
    "java.lang.UnsupportedOperationException": (NotImplementedError, TypeError),
}

_JAVA_NAMES = {
    f"{kind.__module__}.{kind.__qualname__}": name
    for name, kinds in reversed(CLASSES.items())
    for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
    if name != "java.lang.IllegalStateException"
}

#: What each case has unless it says otherwise.
CONFIG = {
    "application.id": "app",
    "bootstrap.servers": "unused:9092",
    "statestore.cache.max.bytes": 0,
    "default.key.serde": Serdes.string(),
    "default.value.serde": Serdes.string(),
}

_WORDS = {
    ("deserialization.exception.handler", "log_and_continue"): "LogAndContinueExceptionHandler",
    ("deserialization.exception.handler", "log_and_fail"): "LogAndFailExceptionHandler",
    ("processing.exception.handler", "log_and_continue"): "LogAndContinueProcessingExceptionHandler",
    ("processing.exception.handler", "log_and_fail"): "LogAndFailProcessingExceptionHandler",
}


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return what our driver makes of a case: as far as it goes, and where it stops."""
    given = {key: _WORDS.get((key, value), value) for key, value in (case.get("config") or {}).items()}
    config = {**CONFIG, **given}
    result: dict[str, Any] = {}
    try:
        StreamsConfig(config)
    except Exception as problem:  # noqa: BLE001  # what fails is the result
        return _failed(result, problem, "config")
    topology = CaseTopology(case)
    for index, step in enumerate(case["steps"]):
        try:
            topology.run(step)
        except Exception as problem:  # noqa: BLE001  # what fails is the result
            return _failed(result, problem, "step", index)
    try:
        built = topology.build(config)
    except Exception as problem:  # noqa: BLE001  # what fails is the result
        return _failed(result, problem, "build")
    result["describe"] = str(built.describe())
    if topology.branch_names:
        result["branch_names"] = topology.branch_names
    try:
        driver = TopologyTestDriver(built, config, 0)
    except Exception as problem:  # noqa: BLE001  # what fails is the result
        return _failed(result, problem, "driver")
    with driver:
        return _Run(case, driver, topology).run(result)


def _failed(result: dict[str, Any], problem: BaseException, stage: str, index: int | None = None) -> dict[str, Any]:
    result["error"] = {"stage": stage, "problem": problem}
    if index is not None:
        result["error"]["index"] = index
    return result


class Case:
    """Inputs and outputs of a case as bytes, and as they stand in the file."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._serdes = {
            topic: (serde(spec["key"]), serde(spec["value"]), spec["value"]) for topic, spec in case["topics"].items()
        }

    def raw_input(
        self, given: dict[str, Any]
    ) -> tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Return topic, key, value and headers of an input."""
        topic = given["topic"]
        key_serde, value_serde, kind = self._serdes[topic]
        headers = [(name, value.encode()) for name, value in given.get("headers", ())]
        key = key_serde.serialize(topic, given["key"], headers)
        if "value_hex" in given:
            return topic, key, bytes.fromhex(given["value_hex"]), headers
        if kind == "bytes":
            return topic, key, None if given["value"] is None else bytes.fromhex(given["value"]), headers
        return topic, key, value_serde.serialize(topic, given["value"], headers), headers

    def record(self, topic: str, raw: Any) -> dict[str, Any]:
        """Return a record that was sent in the form of `expected`."""
        key_serde, value_serde, _ = self._serdes[topic]
        key = key_serde.deserialize(topic, raw.key, raw.headers)
        value = value_serde.deserialize(topic, raw.value, raw.headers)
        record = {"topic": topic, "key": as_json(key), "value": as_json(value), "timestamp": raw.timestamp}
        if isinstance(key, Windowed):
            record["key_hex"] = raw.key.hex()
        if raw.headers:
            record["headers"] = _headers(raw.headers)
        return record


class _Run:
    def __init__(self, case: dict[str, Any], driver: TopologyTestDriver, topology: CaseTopology) -> None:
        self._case = case
        self._driver = driver
        self._seen = topology.seen
        self._topics = case["topics"]
        self._values = Case(case)

    def run(self, result: dict[str, Any]) -> dict[str, Any]:
        """Pipe all inputs, then ask the stores."""
        outputs: list[dict[str, Any]] = []
        result["outputs"] = outputs
        for index, given in enumerate(self._case["inputs"]):
            try:
                self._pipe(given)
            except Exception as problem:  # noqa: BLE001  # what fails is the result
                outputs.append(self._output())
                return _failed(result, problem, "input", index)
            outputs.append(self._output())
        result["dropped_records"] = self._driver.dropped_records
        if self._case.get("metrics"):
            result["metrics"] = self._driver.metric_groups()
        stores = self._case["expected"].get("stores", {})
        result["stores"] = {name: self._contents(name) for name in stores}
        if "queries" in self._case:
            result["query_results"] = [self._answer(query) for query in self._case["queries"]]
        return result

    def _pipe(self, given: dict[str, Any]) -> None:
        if "advance_wall_clock_ms" in given:
            self._driver.advance_wall_clock_time(given["advance_wall_clock_ms"])
            return
        topic, key, value, headers = self._values.raw_input(given)
        if "uncommitted" in given:
            self._pipe_uncommitted(topic, key, value, given["timestamp"], headers)
        else:
            self._driver.pipe_raw(topic, key, value, given["timestamp"], headers)

    def _pipe_uncommitted(self, topic: str, key: Any, value: Any, timestamp: int, headers: Any) -> None:
        """Do what the driver does with a record, but for the commit: what it sends is captured with a later input."""
        driver = self._driver
        driver._enqueue_raw(topic, key, value, timestamp, headers)
        while driver._task.process_next(driver._now_ms):  # type: ignore[union-attr]  # read topics have a task
            driver._task.punctuate_stream_time()  # type: ignore[union-attr]  # as above

    def _output(self) -> dict[str, Any]:
        records: list[dict[str, Any]] = []
        internal: list[dict[str, Any]] = []
        for topic in sorted(self._driver.produced_topic_names()):
            while (raw := self._driver.read_raw(topic)) is not None:
                if topic in self._topics:
                    records.append(self._values.record(topic, raw))
                else:
                    internal.append(_internal(topic, raw))
        output: dict[str, Any] = {"records": records}
        if internal:
            output["internal"] = internal
        if self._seen:
            output["seen"] = [
                {"step": seen["step"], "key": as_json(seen["key"]), "value": as_json(seen["value"])}
                for seen in self._seen
            ]
            self._seen.clear()
        return output

    # -- stores

    def _contents(self, name: str) -> list[Any]:
        store = self._driver.get_all_state_stores().get(name)
        return sorted(([as_json(key), as_json(value)] for key, value in _all(store)), key=_sorting)

    def _answer(self, query: dict[str, Any]) -> Any:
        store = self._driver.get_all_state_stores().get(query["store"])
        try:
            found = _QUERIES[query["query"]](store, query)
        except Exception as problem:  # noqa: BLE001  # what fails is the result
            return {"problem": problem}
        if found is None or not hasattr(found, "__next__"):
            return as_json(found)
        return [[as_json(key), as_json(value)] for key, value in found]


_QUERIES: dict[str, Any] = {
    "get": lambda store, query: store.get(query["key"]),
    "all": lambda store, query: store.all(),
    "reverse_all": lambda store, query: store.reverse_all(),
    "range": lambda store, query: store.range(query.get("from"), query.get("to")),
    "reverse_range": lambda store, query: store.reverse_range(query.get("from"), query.get("to")),
    "prefix_scan": lambda store, query: store.prefix_scan(query["prefix"], Serdes.string()),
    "versioned_get": lambda store, query: (
        store.get(query["key"], query["as_of"]) if "as_of" in query else store.get(query["key"])
    ),
    "window_fetch": lambda store, query: store.fetch(query["key"], query["time"]),
    "window_fetch_range": lambda store, query: store.fetch(query["key"], query["time_from"], query["time_to"]),
    "window_backward_fetch_range": lambda store, query: store.backward_fetch(
        query["key"], query["time_from"], query["time_to"]
    ),
    "window_fetch_all": lambda store, query: store.fetch_all(query["time_from"], query["time_to"]),
    "window_backward_fetch_all": lambda store, query: store.backward_fetch_all(query["time_from"], query["time_to"]),
    "window_fetch_keys": lambda store, query: store.fetch(
        query["from"], query["to"], query["time_from"], query["time_to"]
    ),
    "session_fetch": lambda store, query: store.fetch(query["key"]),
    "session_backward_fetch": lambda store, query: store.backward_fetch(query["key"]),
    "session_find": lambda store, query: store.find_sessions(query["key"], query["time_from"], query["time_to"]),
}


def _all(store: Any) -> Any:
    if hasattr(store, "find_sessions"):
        return store.fetch(None, None)
    return store.all()


def _sorting(row: list[Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False)


def _internal(topic: str, raw: Any) -> dict[str, Any]:
    record = {
        "topic": topic,
        "key_hex": None if raw.key is None else raw.key.hex(),
        "value_hex": None if raw.value is None else raw.value.hex(),
        "timestamp": raw.timestamp,
    }
    if raw.headers:
        record["headers"] = _headers(raw.headers)
    return record


def _headers(headers: Any) -> list[list[Any]]:
    return [[name, None if value is None else _header(name, value.decode(errors="replace"))] for name, value in headers]


def _header(name: str, value: str) -> str:
    """Return a header's text; of errors in a dead-letter queue Java's class for ours, and no stack trace."""
    if name == "__streams.errors.stacktrace":
        return "..."
    if name == "__streams.errors.exception":
        return _JAVA_NAMES.get(value, value)
    return value


def as_json(value: Any) -> Any:
    """Return a key or value in the form of `expected`."""
    if isinstance(value, Windowed):
        return {"key": as_json(value.key), "start": value.window.start, "end": value.window.end}
    if isinstance(value, ValueAndTimestamp | VersionedRecord):
        return {"value": as_json(value.value), "timestamp": value.timestamp}
    return value.hex() if isinstance(value, bytes) else value
