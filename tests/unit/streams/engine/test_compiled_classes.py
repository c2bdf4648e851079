"""The engine's compiled classes behave as the Python classes that they stand for, and refuse what C would crash on."""

import copy
import pickle

import pytest

from barnabas.streams import (
    ContextualProcessor,
    Record,
    Serdes,
    SessionWindow,
    StreamsBuilder,
    StreamsError,
    TimeWindow,
    TopologyTestDriver,
    UnlimitedWindow,
)
from barnabas.streams.engine.partition_group import PartitionGroup, Stamp
from barnabas.streams.engine.record import InputRecord, OutputRecord
from barnabas.streams.state.changelog_record import ChangelogRecord

CONFIG = {
    "application.id": "app",
    "bootstrap.servers": "unused:9092",
    "default.key.serde": Serdes.bytes(),
    "default.value.serde": Serdes.bytes(),
}


@pytest.mark.parametrize(
    "thing",
    [
        Record("k", 1, 5, [("h", b"x")]),
        Record("k", 1, 5),
        TimeWindow(0, 10),
        SessionWindow(3, 3),
        UnlimitedWindow(7),
    ],
)
def test_values_that_users_see_can_be_pickled_and_copied(thing):
    assert pickle.loads(pickle.dumps(thing)) == thing
    assert copy.deepcopy(thing) == thing


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (InputRecord("t", 1, 2, 3, b"k", None, []), ("t", 1, 2, 3, b"k", None, [])),
        (OutputRecord("t", None, b"k", b"v", 3, []), ("t", None, b"k", b"v", 3, [])),
        (ChangelogRecord(b"k", None, 3, []), (b"k", None, 3, [])),
    ],
)
def test_records_of_bytes_can_be_taken_apart_and_compared(made, fields):
    assert tuple(made) == fields
    assert made == type(made)(*fields)
    assert made != type(made)(*fields[:-1], [("h", b"")])
    assert repr(made).startswith(f"{type(made).__name__}(")


def test_a_record_has_headers_of_its_own():
    given = [("h", b"1")]
    record = Record("k", "v", 1, given)
    given.append(("h", b"2"))
    other = record.with_value("w")
    other.headers.append(("h", b"3"))
    assert record.headers == [("h", b"1")]
    empty = Record("k", "v", 1)
    empty.headers.append(("h", b"1"))
    assert empty.headers == [("h", b"1")]


def test_a_record_before_the_epoch_is_refused():
    with pytest.raises(StreamsError, match="Malformed Record"):
        Record("k", "v", -1)
    with pytest.raises(StreamsError, match="Malformed Record"):
        Record("k", "v", 1).with_timestamp(-1)


@pytest.mark.parametrize("wrong", [None, ("k", "v"), 5])
def test_what_is_no_record_cannot_be_forwarded(wrong):
    class Forwards(ContextualProcessor):
        def process(self, record):
            self.context.forward(wrong)

    builder = StreamsBuilder()
    builder.stream("in").process(Forwards).to("out")
    with TopologyTestDriver(builder.build(), CONFIG, 0) as driver:
        topic = driver.create_input_topic("in", None, None)
        with pytest.raises(StreamsError) as problem:
            topic.pipe_input(b"v", b"k", timestamp=0)
    assert f"forward() takes a Record, not {type(wrong).__name__}" in str(problem.value.__cause__)


@pytest.mark.parametrize("wrong", [None, ("in", 0, 0, 0, b"k", b"v", [])])
def test_what_is_no_input_cannot_be_added(wrong):
    group = PartitionGroup(lambda topic: Stamp())
    with pytest.raises((TypeError, AttributeError)):
        group.add(wrong)
