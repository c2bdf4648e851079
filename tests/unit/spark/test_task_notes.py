"""How a task's note comes out of its rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import DecisionError, TaskState
from barnabas.spark.exactly_once.task_notes import NOTE_TOPIC, Note, NoteTaker

NOTE = Note("0_1", "after batch 5", ("counts-changelog",))


def rows(*pairs: tuple[str, bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"topic": [topic for topic, _ in pairs], "value": [value for _, value in pairs]})


def test_a_note_is_no_record_and_tells_the_ends_of_the_topics_that_it_names() -> None:
    taker = NoteTaker()

    left = [taker.without_notes(batch) for batch in (rows(("out", b"1")), rows((NOTE_TOPIC, NOTE.encode())))]

    assert [batch.column("value").to_pylist() for batch in left] == [[b"1"], []]
    ends = {TopicPartition("counts-changelog", 1): 17, TopicPartition("out", 0): 3}
    assert taker.state(ends.items()) == TaskState("0_1", "after batch 5", {"counts-changelog": {"1": 17}})


def test_without_a_note_there_is_no_state() -> None:
    taker = NoteTaker()
    taker.without_notes(rows(("out", b"1")))

    assert taker.state([]) is None


def test_a_task_leaves_one_note() -> None:
    with pytest.raises(DecisionError, match="two notes"):
        NoteTaker().without_notes(rows((NOTE_TOPIC, NOTE.encode()), (NOTE_TOPIC, NOTE.encode())))
