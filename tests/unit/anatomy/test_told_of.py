"""What parts tell of the reasons that the documents name: why a batch left, who leads a group, how a read was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from barnabas import anatomy
from barnabas.anatomy import events as e
from barnabas.anatomy.events import Event
from barnabas.anatomy.recorder import Recorder
from barnabas.broker.groups.classic_group import COMPLETING_REBALANCE, PREPARING_REBALANCE, ClassicGroup
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.unified_log import LOG_END
from tests.unit.anatomy.test_scenes import boxes, play
from tests.unit.broker.groups.classic.test_group_state_machine import member
from tests.unit.broker.log.test_unified_log import NOW, batch, new_log
from tests.unit.client.producer.harness import Harness

Told = Callable[[type[Event]], list[Any]]


@pytest.fixture
def told() -> Iterator[Told]:
    recorder = Recorder(lambda: 0.0)
    anatomy.start(recorder)
    try:
        yield lambda kind: [event for _, event in recorder.events() if isinstance(event, kind)]
    finally:
        anatomy.stop()


def reasons(told: Told) -> list[str]:
    return [event.reason for event in told(e.BatchDrained)]


def test_a_batch_says_why_it_was_drained(told: Told) -> None:
    lingering = Harness(linger_ms=1000, batch_size=200)
    lingering.send()
    lingering.turn(times=12)
    assert reasons(told) == []
    lingering.turn(seconds=1.1)
    assert reasons(told) == ["linger"]
    for _ in range(2):
        lingering.send(b"x" * 100)
    lingering.respond()
    lingering.settle()
    assert reasons(told) == ["linger", "full"]


def test_a_flush_close_or_want_of_memory_is_the_reason_and_others_of_the_node_go_along(told: Told) -> None:
    harness = Harness(linger_ms=1000, batch_size=200)
    harness.send(b"x" * 180, partition=0)
    harness.send(b"y", partition=1)
    harness.settle()
    assert reasons(told) == ["full", "along"]
    closing = Harness(linger_ms=1000)
    closing.send()
    closing.accumulator.close()
    closing.settle()
    assert reasons(told)[2:] == ["closing"]


def test_a_batch_that_is_tried_again_says_so(told: Told) -> None:
    harness = Harness(linger_ms=0)
    harness.send()
    harness.settle()
    harness.respond(6)
    harness.turn(seconds=1.0, times=12)
    assert reasons(told) == ["linger", "retry"]


def test_the_partitioner_tells_where_records_without_a_key_go_and_when_that_changes(told: Told) -> None:
    harness = Harness(linger_ms=1000, batch_size=200, partitions=8)
    for _ in range(12):
        harness.send(b"x" * 60, partition=-1)
    drawn = told(e.StickyPartition)
    assert len(drawn) > 2
    assert drawn[0].bytes == 0
    assert all(event.bytes >= 200 for event in drawn[1:])
    opened = dict.fromkeys(event.partition for event in told(e.BatchOpened))
    assert list(opened) == [event.partition for event in drawn]
    shown = play("producer", "", *told(e.StickyPartition))
    assert boxes(shown, "partitioner") == [(f"{drawn[-1].topic}-{drawn[-1].partition}", "moving")]


def test_a_static_member_that_comes_back_has_another_id_and_the_first_member_leads(told: Told) -> None:
    group = ClassicGroup("g", 0)
    group.add(member("a-1", "first"))
    group.add(member("b-1"))
    group.transition_to(PREPARING_REBALANCE, 1)
    group.replace_static_member("first", "a-2")
    group.transition_to(COMPLETING_REBALANCE, 2)

    assert [(event.member, event.instance) for event in told(e.GroupMemberJoined)] == [
        ("a-1", "first"), ("b-1", ""), ("a-2", "first"),
    ]  # fmt: skip
    assert [event.member for event in told(e.GroupMemberLeft)] == ["a-1"]
    assert [event.leader for event in told(e.GroupState)] == ["a-1", "a-2"]


def test_a_read_is_found_by_the_index_the_first_time_and_remembered_then(told: Told) -> None:
    log = new_log(MemoryFileSystem(Random(0)), index_interval_bytes=100, segment_bytes=2000)
    for _ in range(40):
        log.append(batch(NOW, value=b"v" * 80), now_ms=NOW)
    segments = [segment.base_offset for segment in log.local_log.segments]
    assert len(segments) > 2
    offset = segments[1] + 5
    log.local_log.segments.floor(offset)._positions.clear()  # type: ignore[union-attr]
    for start in (offset, offset + 1):
        log.read(start, 200, isolation=LOG_END)
    first, second = told(e.LogRead)
    assert (first.offset, first.segment) == (offset, segments[1])
    assert segments[1] <= first.entry <= offset
    assert first.position > 0
    assert (second.entry, second.position) == (-1, -1)
    shown = play("log", "t-0", first, second)
    assert boxes(shown, "log_reads") == [(f"from {offset + 1}", "split"), (f"from {offset}", "done")]


def test_a_group_shows_who_leads_who_is_static_and_what_members_ask() -> None:
    side = e.MemberState("a", "g", "a-1", "joining", 0)
    asked = e.RequestInFlight("a", 1, 5, "JOIN_GROUP", 3, 80)
    told: list[Event] = [
        e.GroupMemberJoined("g", "a-1", "a", "first"), e.GroupMemberJoined("g", "b-1", "b"),
        e.GroupState("g", "CompletingRebalance", 1, 2, "a-1"), side, asked,
    ]  # fmt: skip
    found = play("group", "g", *told)
    members = next(one for one in found.lanes if one.title == "group_members").boxes
    assert [box.facts for box in members] == [
        {"member": "a-1", "instance": "first", "leads": "the group"}, {"member": "b-1"},
    ]  # fmt: skip
    assert boxes(found, "group_requests") == [("JOIN_GROUP", "moving")]
    answered = e.RequestAnswered("a", 1, 5, "JOIN_GROUP", 3, "")
    unsent = e.RequestUnsent("a", 1, 5, "SYNC_GROUP", 4)
    found = play("group", "g", *told, answered, unsent)
    assert boxes(found, "group_requests") == [("SYNC_GROUP", "waiting"), ("JOIN_GROUP", "done")]
