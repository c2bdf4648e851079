"""Kafka's cases through `KafkaStreams` on Spark: inputs cut into batches at random, and a restart in the middle.

Outputs must be what Kafka's TopologyTestDriver gives, per topic and key in their order. A batch takes the records of
several topics by their timestamps, so where that would not be the order of the inputs a batch ends. What one batch
cannot show is left out: the wall clock, sides that meet behind a repartition topic, errors. The ordinary form runs a
few cases, the long one all; `STREAMS_CASES=join` chooses by name.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

import tools.streams_vectors.expressions
import tools.streams_vectors.processors
import tools.streams_vectors.steps
from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from barnabas.streams import KafkaStreams, StreamThreadExceptionResponse
from barnabas.streams.engine.processors.emit_on_close import EMIT_INTERVAL_AGGREGATION, EMIT_INTERVAL_OUTER_JOIN
from barnabas.streams.topology.processor_topology import topics_by_subtopology
from tools.streams_vectors.__main__ import read
from tools.streams_vectors.running import CONFIG, Case
from tools.streams_vectors.steps import CaseTopology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = Path(__file__).parents[1] / "vectors" / "streams" / "topology-vectors.jsonl.gz"
LONGEST = 900.0

#: What the inputs' timestamps, near 1970, must not be measured by.
TOPIC = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}

#: Kafka's TopologyTestDriver emits what has closed at once, not once a second by the wall clock. And the changelogs of
#: windows would lose records of 1970, from which a restart restores.
AS_IN_THE_DRIVER = {
    EMIT_INTERVAL_AGGREGATION: 0, EMIT_INTERVAL_OUTER_JOIN: 0, "windowstore.changelog.additional.retention.ms": 1 << 60,
}  # fmt: skip

#: One case of each of these categories, in the ordinary form.
ORDINARY = ("table_table",)
#: So many applications start at a time; Spark gives a worker ten seconds, whatever the load.
AT_ONCE = 4

for module in (tools.streams_vectors.expressions, tools.streams_vectors.processors, tools.streams_vectors.steps):
    cloudpickle.register_pickle_by_value(module)  # workers do not have `tools`


NUMBERS = {case["name"]: number for number, case in enumerate(read(FILE))}


def topology_of(case: dict[str, Any]) -> Any:
    topology = CaseTopology(case)
    for step in case["steps"]:
        topology.run(step)
    return topology.build(config_of(case))


def config_of(case: dict[str, Any]) -> dict[str, Any]:
    return {**CONFIG, **(case.get("config") or {}), **AS_IN_THE_DRIVER, "application.id": application_of(case)}


def application_of(case: dict[str, Any]) -> str:
    """Return an id as long as the one that the cases were made with: bounds in bytes count the names of topics."""
    return f"{NUMBERS[case['name']]:0{len(CONFIG['application.id'])}}"


def can_be_shown(case: dict[str, Any]) -> bool:
    """Whether a batch of Spark can show it: see the head of this file."""
    expected, text = case["expected"], str(case["steps"])
    if "error" in expected or "pattern" in text or "wall_clock" in text or case.get("config"):
        return False
    if any({"advance_wall_clock_ms", "value_hex", "uncommitted"} & set(each) for each in case["inputs"]):
        return False
    if "'partitions': 0" in text:  # no cluster makes such a topic
        return False
    # These stores are not in the changelogs, or a time is the wall clock's.
    if "'logging': False" in text or "cancel_after" in text or "context" in text or "heartbeat" in text:
        return False
    if not any(output["records"] for output in expected["outputs"]):
        return False
    infos = topics_by_subtopology(_rewritten(case))
    return all(len(info.source_topics) == 1 or not info.repartition_source_topics for info in infos.values())


def _rewritten(case: dict[str, Any]) -> Any:
    builder = topology_of(case).builder
    builder.rewrite_topology({**CONFIG, **(case.get("config") or {})})
    return builder


def cut(
    inputs: list[dict[str, Any]], choose: random.Random, shared: frozenset[str], *, together: bool
) -> list[dict[str, Any]]:
    """Take the next batch from the inputs: at random, of one topic, or `together` while it would keep its order."""
    found = [inputs.pop(0)]
    while inputs and choose.random() > 0.15:
        if not (_keeps_order([*found, inputs[0]], shared) if together else inputs[0]["topic"] == found[0]["topic"]):
            break
        found.append(inputs.pop(0))
    return found


def _keeps_order(inputs: list[dict[str, Any]], shared: frozenset[str]) -> bool:
    """Whether a task would take these as they are: by the greatest time so far in their topic, then by its name.

    What waits in the `shared` topics, those of global tables, it takes before all else.
    """
    are_shared = [each["topic"] in shared for each in inputs]
    if are_shared != sorted(are_shared, reverse=True):
        return False
    inputs = inputs[sum(are_shared) :]
    greatest: dict[str, int] = {}
    places = []
    for each in inputs:
        greatest[each["topic"]] = max(each["timestamp"], greatest.get(each["topic"], -1))
        places.append((greatest[each["topic"]], each["topic"]))
    return places == sorted(places)


def patient(error: BaseException) -> StreamThreadExceptionResponse:
    """Start again where Spark's ten seconds for a worker were too few: that says nothing of the case."""
    is_slow = "failed to connect back" in str(error)
    return StreamThreadExceptionResponse.REPLACE_THREAD if is_slow else StreamThreadExceptionResponse.SHUTDOWN_CLIENT


class Run:
    """A case on a cluster of its own; `within` says whether batches go through repartition topics at once."""

    def __init__(
        self, spark: SparkSession, case: dict[str, Any], folder: Path, stack: contextlib.ExitStack, *, within: bool
    ) -> None:
        self._spark, self._case, self._folder = spark, case, folder
        self._more = {"repartition.within.batch": within}
        self._choose = random.Random(case["name"])
        self._servers = stack.enter_context(Broker(log_retention_ms=-1)).bootstrap_servers
        self._values = Case(case)
        with AdminClient(bootstrap_servers=self._servers) as admin:
            admin.create_topics([NewTopic(topic, configs=TOPIC) for topic in case["topics"]])
        settings = {"bootstrap_servers": self._servers, "transactional_id": "inputs"}
        self._producer = stack.enter_context(Producer(**settings))
        self._producer.init_transactions()
        self._pending = list(case["inputs"])
        self._shared = frozenset(_rewritten(case).global_topics)
        self._restart_at = self._choose.randrange(len(self._pending))
        self._streams: KafkaStreams | None = None
        stack.callback(self._close)

    def _start(self) -> KafkaStreams:
        config = {
            **config_of(self._case),
            **self._more,
            "bootstrap.servers": self._servers,
            "state.dir": str(self._folder / "state"),
        }
        place = str(self._folder / "checkpoint")
        streams = KafkaStreams(topology_of(self._case), config, spark=self._spark, checkpoint_location=place)
        streams.set_uncaught_exception_handler(patient)
        return streams.start()

    def next(self) -> bool:
        """Write the next batch; False when there is none."""
        if not self._pending:
            return False
        if len(self._pending) <= self._restart_at:
            self._close()
            self._restart_at = -1
        # What becomes visible in several topics while the query runs need not be one batch.
        self._write(cut(self._pending, self._choose, self._shared, together=self._streams is None))
        if self._streams is None:
            self._streams = self._start()
        return True

    def _close(self) -> None:
        if self._streams is not None:
            self._streams.close()
        self._streams = None

    def _write(self, inputs: list[dict[str, Any]]) -> None:
        with self._producer.transaction():
            for given in inputs:
                topic, key, value, headers = self._values.raw_input(given)
                self._producer.send(
                    topic, value, key=key, timestamp_ms=given["timestamp"], headers=headers, partition=0
                )

    def settle(self) -> None:
        """Wait until all that was written is read, repartition topics too.

        A batch that is not finished has read, or will read, what lies after the committed offsets. So once these are
        the ends, which are asked for after them, there is none.
        """
        deadline = time.monotonic() + LONGEST
        assert self._streams is not None
        is_quiet, group = False, application_of(self._case)
        # Ends that readers of all records see: those of committed ones may still stand before what was written last.
        with (
            AdminClient(bootstrap_servers=self._servers) as admin,
            Consumer(bootstrap_servers=self._servers) as consumer,
        ):
            while not is_quiet:
                assert self._streams.exception is None, self._streams.exception
                assert time.monotonic() < deadline, "it does not come to its end"
                committed = {each: at.offset for each, at in admin.list_consumer_group_offsets(group).items()}
                ends = consumer.end_offsets(list(committed)) if committed else None
                is_quiet = ends is not None and ends == committed
                time.sleep(0 if is_quiet else 0.05)

    def _consumer(self) -> Any:
        settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        return Consumer(bootstrap_servers=self._servers, **settings)

    def outputs(self) -> dict[Any, list[Any]]:
        """Return the committed output, by topic and key."""
        wrote = {record["topic"] for output in self._case["expected"]["outputs"] for record in output["records"]}
        found = []
        with self._consumer() as consumer:
            consumer.assign([(topic, 0) for topic in wrote])
            ends = consumer.end_offsets([(topic, 0) for topic in wrote])
            while any(consumer.position(each) < end for each, end in ends.items()):
                found += [self._values.record(each.topic, each) for each in consumer.poll(timeout=0.2)]
        return by_key(found)


def by_key(records: list[dict[str, Any]]) -> dict[Any, list[Any]]:
    found = defaultdict(list)
    for record in records:
        found[record["topic"], str(record["key"])].append(record)
    return dict(found)


def check(spark: SparkSession, cases: list[dict[str, Any]], folder: Path, *, within: bool = False) -> None:
    """Run cases at the same time, each an application; all must give what Kafka gives."""
    different = {}
    with contextlib.ExitStack() as stack:
        runs = {case["name"]: Run(spark, case, folder / case["name"], stack, within=within) for case in cases}
        going = dict(runs)
        while going:
            going = {name: run for name, run in going.items() if run.next()}
            for run in going.values():
                run.settle()
        for case in cases:
            wanted = by_key([record for output in case["expected"]["outputs"] for record in output["records"]])
            found = runs[case["name"]].outputs()
            if found != wanted:
                different[case["name"]] = {
                    key: (found.get(key), wanted.get(key))
                    for key in {*found, *wanted}
                    if found.get(key) != wanted.get(key)
                }
    assert not different, "\n".join(f"{name}: {found}" for name, found in different.items())


CASES = [case for case in read(FILE) if can_be_shown(case) and os.environ.get("STREAMS_CASES", "") in case["name"]]


def test_there_are_cases_of_most_kinds() -> None:
    assert len(CASES) > 300
    assert len({case["category"] for case in CASES}) == 20


def test_some_cases_give_what_kafka_gives(spark: SparkSession, tmp_path: Path) -> None:
    grouped = {name: list(cases) for name, cases in groupby(CASES, key=lambda case: case["category"])}

    check(spark, [grouped[name][0] for name in ORDINARY], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", range(-(-len(CASES) // AT_ONCE)))
def test_all_cases_give_what_kafka_gives(number: int, spark: SparkSession, tmp_path: Path) -> None:
    check(spark, CASES[number * AT_ONCE : (number + 1) * AT_ONCE], tmp_path)


#: Cases with a topic between sub-topologies.
REPARTITIONED = [
    case
    for case in CASES
    if any(info.repartition_source_topics for info in topics_by_subtopology(_rewritten(case)).values())
]


def test_cases_of_many_kinds_go_through_repartition_topics() -> None:
    assert len(REPARTITIONED) > 50
    assert len({case["category"] for case in REPARTITIONED}) > 5


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", range(-(-len(REPARTITIONED) // AT_ONCE)))
def test_they_give_what_kafka_gives_within_a_batch_too(number: int, spark: SparkSession, tmp_path: Path) -> None:
    check(spark, REPARTITIONED[number * AT_ONCE : (number + 1) * AT_ONCE], tmp_path, within=True)
