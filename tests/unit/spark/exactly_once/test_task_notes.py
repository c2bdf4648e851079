"""What a task's note becomes in a decision."""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import TaskState
from barnabas.spark.exactly_once.task_notes import Note


def test_a_note_tells_the_ends_of_the_topics_that_it_names() -> None:
    note = Note("0_1", "after batch 5", ("counts-changelog",))

    ends = {TopicPartition("counts-changelog", 1): 17, TopicPartition("out", 0): 3}

    assert note.state(ends.items()) == TaskState("0_1", "after batch 5", {"counts-changelog": {"1": 17}})
