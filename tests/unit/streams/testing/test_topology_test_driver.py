"""The test driver runs a topology record by record, and needs neither Spark nor a broker."""

import gc
import subprocess
import sys

import pytest

from barnabas.streams import SessionWindows, StreamsBuilder
from barnabas.streams.engine import record as output_record_module
from barnabas.streams.engine.processors import KStreamAggregate, KStreamFilter, KStreamMapValues
from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes import Serdes
from barnabas.streams.testing import TestRecord, TopologyTestDriver
from barnabas.streams.topology.stores import StoreBuilder, StoreKind
from barnabas.streams.topology.topology import Topology

CONFIG = {
    "application.id": "app",
    "default.key.serde": Serdes.string(),
    "default.value.serde": Serdes.string(),
    "statestore.cache.max.bytes": 0,
}


def topology(*suppliers) -> Topology:
    """A source of topic `in`, processors one after the other, and a sink to topic `out`."""
    built = Topology()
    built.add_source("source", "in")
    parent = "source"
    for at, supplier in enumerate(suppliers):
        built.add_processor(f"processor-{at}", supplier, parent)
        parent = f"processor-{at}"
    built.add_sink("sink", "out", parent)
    return built


@pytest.fixture
def texts():
    return Serdes.string(), Serdes.string()


def test_a_record_goes_from_source_to_sink(texts):
    built = topology(
        KStreamFilter(lambda key, value: value != "no"), KStreamMapValues(lambda key, value: value.upper())
    )
    with TopologyTestDriver(built, CONFIG, 0) as driver:
        taken, sent = driver.create_input_topic("in", *texts), driver.create_output_topic("out", *texts)
        taken.pipe_input("yes", "k", timestamp=5, headers=[("h", b"1")])
        taken.pipe_input("no", "k", timestamp=6)
        assert sent.read_records_to_list() == [TestRecord("YES", "k", 5, (("h", b"1"),))]


def test_an_aggregate_is_kept_and_logged(texts):
    store = StoreBuilder("counts", StoreKind.TIMESTAMPED_KEY_VALUE, Serdes.string(), Serdes.string())
    built = topology(
        KStreamAggregate(store, lambda: "", lambda key, value, aggregate: aggregate + value),
        KStreamMapValues(lambda key, change: change.new_value),
    )
    with TopologyTestDriver(built, CONFIG, 0) as driver:
        taken = driver.create_input_topic("in", *texts)
        taken.pipe_key_value_list([("a", "x"), ("b", "y"), ("a", "z")])
        assert driver.create_output_topic("out", *texts).read_key_values_to_map() == {"a": "xz", "b": "y"}
        assert list(driver.get_key_value_store("counts").all()) == [("a", "xz"), ("b", "y")]
        logged = driver.create_output_topic("app-counts-changelog", *texts).read_key_values_to_list()
        assert logged == [("a", "x"), ("b", "y"), ("a", "xz")]


def test_an_error_names_processor_topic_and_offset(texts):
    def fail(key, value):
        raise RuntimeError("no")

    with TopologyTestDriver(topology(KStreamMapValues(fail)), CONFIG, 0) as driver:
        with pytest.raises(StreamsError, match="processor=processor-0, topic=in, partition=0, offset=0") as caught:
            driver.create_input_topic("in", *texts).pipe_input("x")
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_unknown_topic_is_refused(texts):
    with TopologyTestDriver(topology(), CONFIG, 0) as driver, pytest.raises(ValueError, match="Unknown topic: other"):
        driver.create_input_topic("other", *texts).pipe_input("x")


def test_neither_spark_nor_a_broker_is_imported():
    code = (
        "import sys, barnabas.streams.testing\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'pyarrow', 'pandas')"
        " or name.startswith(('barnabas.spark', 'barnabas.broker', 'barnabas.network'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(output_record_module.__file__.endswith(".py"), reason="in Python the collector follows all objects")
def test_records_that_wait_to_be_read_leave_the_cycle_collector_nothing_to_follow():
    builder = StreamsBuilder()
    sessions = builder.stream("in").group_by_key().windowed_by(SessionWindows.of_inactivity_gap(5)).count()
    sessions.to_stream(lambda key, value: key.key).map_values(str).to("out")
    with TopologyTestDriver(builder.build(), CONFIG, 0) as driver:
        topic = driver.create_input_topic("in", *[Serdes.string()] * 2)
        topic.pipe_input("v", "k", timestamp=0)
        gc.collect()
        before = len(gc.get_objects())
        for at in range(500):
            topic.pipe_input("v", "k", timestamp=at)
        gc.collect()
        assert driver.queue_size("out") > 500
        assert len(gc.get_objects()) - before < 100


def test_records_of_a_changelog_without_headers_keep_no_list_of_them(texts):
    builder = StreamsBuilder()
    right = builder.table("right")
    builder.table("left").join(right, lambda value: value, lambda one, other: one + other).to_stream().to("out")
    with TopologyTestDriver(builder.build(), CONFIG, 0) as driver:
        driver.create_input_topic("right", *texts).pipe_input("r", "a", timestamp=0)
        driver.create_input_topic("left", *texts).pipe_input("a", "k", timestamp=0)
        names = driver.produced_topic_names()
        written = [driver.read_raw(name) for name in sorted(names)]

    assert any("SUBSCRIPTION-STATE-STORE" in name for name in names)
    assert [record.header_list for record in written] == [None] * len(names)
